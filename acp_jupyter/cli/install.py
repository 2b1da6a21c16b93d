"""``acp-jupyter install``: kernelspec and JupyterLab extension, for a user or below a prefix.

The extension is linked, not copied: as the kernelspec names this environment, it stays with it, and
an upgrade of the package is one of both. It is copied where no links can be made.
"""

from __future__ import annotations

import argparse
import json
import shutil
import site
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

from ..errors import UsageError
from .files import KERNEL, PACKAGE, shipped

SHARE: Final = "share/jupyter"
EXTENSION: Final = "labextensions/acp-jupyter"
"""The extension in a data directory of Jupyter's."""


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    install = commands.add_parser(
        "install", help="tell a Jupyter elsewhere of kernel and extension"
    )
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default)")
    where.add_argument("--sys-prefix", action="store_true", help="into this Python's environment")
    where.add_argument("--prefix", help="into PREFIX/share/jupyter")
    install.set_defaults(run=_install)


def _install(arguments: argparse.Namespace) -> int:
    from jupyter_core.paths import jupyter_data_dir

    prefix = sys.prefix if arguments.sys_prefix else arguments.prefix
    data = Path(prefix, SHARE) if prefix is not None else Path(jupyter_data_dir())
    try:
        target = _install_kernel(prefix)
        print(f"Installed the kernelspec {KERNEL!r} in {target}")
        extension = _built_extension()
        if extension is None:
            print("The JupyterLab extension is not installed: this package came without it.")
        else:
            _link(extension, data / EXTENSION)
            print(f"Installed the JupyterLab extension in {data / EXTENSION}")
    except OSError as error:
        raise UsageError(
            f"kernelspec and extension cannot be written: {error}",
            remedy="Choose a place of yours, with --user or --prefix.",
        ) from error
    return 0


def _install_kernel(prefix: str | None) -> str:
    from jupyter_client.kernelspec import KernelSpecManager

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, KERNEL)
        shutil.copytree(shipped("kernelspec") / KERNEL, made)
        spec_file = made / "kernel.json"
        spec = json.loads(spec_file.read_text())
        # Whoever starts this kernel later may have another Python first on the PATH.
        spec["argv"][0] = sys.executable
        spec_file.write_text(json.dumps(spec, indent=1))
        target: str = KernelSpecManager().install_kernel_spec(
            str(made), KERNEL, user=prefix is None, prefix=prefix
        )
    return target


def _built_extension() -> Path | None:
    """The extension as it was built in a checkout, or came with a wheel."""
    data = (sysconfig.get_path("data"), site.getuserbase())
    for place in (PACKAGE / "labextension", *(Path(base, SHARE, EXTENSION) for base in data)):
        if (place / "package.json").is_file():
            return place.resolve()
    return None


def _link(source: Path, target: Path) -> None:
    """Have the extension at a second place, instead of what is there."""
    if target.exists() and target.resolve() == source:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    try:
        target.symlink_to(source, target_is_directory=True)
    except OSError:  # Windows lets only some users make links
        shutil.copytree(source, target)
