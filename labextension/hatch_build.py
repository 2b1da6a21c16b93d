"""The build backend: hatchling, with the JupyterLab extension.

A wheel and a source distribution carry the built extension; what is there and fresh is used, else
it is built, or the build fails and says why: a package that silently lacks it would be worse. An
editable installation goes without: `python labextension/build_extension.py --link` adds it.

The functions are those of PEP 517. That a build needs Node.js from PyPI is said there and not in
the hook's `dependencies`, which cannot tell a wheel from an editable installation.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import hatchling.build
from build_extension import (
    NODE_REQUIREMENT,
    SHARE,
    STAMP,
    WAYS_OUT,
    BuildFailed,
    Checkout,
    build,
    is_skipped,
    needs_node_package,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    return [*hatchling.build.get_requires_for_build_wheel(settings), *_node()]


def get_requires_for_build_sdist(settings: dict[str, Any] | None = None) -> list[str]:
    return [*hatchling.build.get_requires_for_build_sdist(settings), *_node()]


def _node() -> list[str]:
    try:
        needed = needs_node_package(Checkout(Path.cwd()))
    except BuildFailed as error:
        sys.exit(str(error))
    if needed:
        # Shown by frontends that show what a backend says, before they fail to install it.
        print(
            f"The JupyterLab extension has to be built, and no Node.js on the PATH can do it:"
            f" {NODE_REQUIREMENT} from PyPI is needed.\nIf that cannot be had:\n{WAYS_OUT}",
            file=sys.stderr,
        )
    return [NODE_REQUIREMENT] if needed else []


def __getattr__(name: str) -> Any:
    """The other functions are hatchling's own, some of which it has for some frontends only."""
    return getattr(hatchling.build, name)


class LabExtensionHook(BuildHookInterface[Any]):
    """Adds the built extension to what hatchling packs."""

    _elsewhere: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs."""
        if version == "editable":
            return
        try:
            if is_skipped():
                self.app.display_warning("Packed without the JupyterLab extension, as asked for.")
                return
            checkout = self._built()
        except BuildFailed as error:
            # Frontends show what a backend says: without a traceback it is the message alone.
            sys.exit(str(error))
        if self.target_name == "wheel":
            build_data["shared_data"] |= _below(SHARE, checkout, checkout.built())
        else:
            # With its stamp, by which a build from the source distribution knows it as fresh.
            files = [*checkout.built(), checkout.output / STAMP]
            build_data["force_include"] |= _below("acp_jupyter/labextension", checkout, files)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - its signature
        """Called by hatchling when it has packed."""
        if self._elsewhere is not None:
            self._elsewhere.cleanup()

    def _built(self) -> Checkout:
        checkout = Checkout(Path(self.root))
        if not checkout.is_fresh() and not checkout.is_writable():
            self._elsewhere = tempfile.TemporaryDirectory(prefix="acp-jupyter-")
            checkout = checkout.copy_inputs(Path(self._elsewhere.name))
        build(checkout)
        return checkout


def _below(folder: str, checkout: Checkout, files: list[Path]) -> dict[str, str]:
    return {str(path): f"{folder}/{path.relative_to(checkout.output).as_posix()}" for path in files}
