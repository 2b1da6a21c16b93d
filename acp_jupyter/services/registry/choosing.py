"""How an agent of the registry is started on this machine.

In this order: its program, where it is installed; the package of PyPI or npm, where there is
``uvx`` or ``npx``; the download for this platform. Programs are looked for in the absolute folders
of the PATH only, and packages are run so that nothing of the working directory takes their place
(`_npx`): a workspace must not say what runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ...errors import UsageError
from .model import RUNNERS, Binary, Package, RegistryAgent
from .places import data_folder, make_private

Way = Literal["path", "uvx", "npx", "binary"]

Which = Callable[[str], str | None]
"""The full path of a program, if it is installed."""

GET_RUNNER: Final = {
    "npx": "npx comes with Node.js (https://nodejs.org)",
    "uvx": "uvx comes with uv (`pip install uv`)",
}

_SYSTEMS: Final = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
_MACHINES: Final = {"arm64": "aarch64", "aarch64": "aarch64", "x86_64": "x86_64", "amd64": "x86_64"}


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent would be started.

    Attributes:
        argv: program and arguments; of one that is to be downloaded, its path in the archive first.
        env: variables added to its environment.
        source: where its program comes from, for the user.
        exact: what makes it this one and no other, however it is called on this machine.
        binary: what is to be downloaded, if that is the way.
        asks: the user has to allow it; a program that is installed, and called as this package
            knows it, needs no question.
    """

    agent: RegistryAgent
    way: Way
    argv: tuple[str, ...]
    source: str
    exact: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    binary: Binary | None = None
    asks: bool = True

    @property
    def identity(self) -> str:
        """A digest of all that the user allows: another version or source is another one."""
        agent = self.agent
        words = [agent.id, agent.version, self.way, self.exact, sorted(self.env.items())]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()

    @property
    def downloads(self) -> bool:
        """Whether its start may begin with a download."""
        return self.way in RUNNERS


def plan_launch(agent: RegistryAgent, platform_key: str, which: Which) -> Launch:
    """Choose how to start an agent.

    Args:
        agent: of the registry.
        platform_key: from `this_platform`.
        which: finds programs.

    Raises:
        UsageError: it cannot be started here; says how to get it.
    """
    program = agent.program
    if program is not None and (found := which(program.name)) is not None:
        argv = (found, *program.args)
        source = f"the program {found}"
        return Launch(agent, "path", argv, source, argv, program.env, asks=not agent.curated)
    for package in agent.packages:
        runner = which(package.runner)
        if runner is not None:
            return _packaged(agent, package, runner)
    binary = agent.binaries.get(platform_key)
    if binary is not None:
        argv = (binary.cmd, *binary.args)
        exact = (binary.url, binary.sha256, *argv)
        return Launch(agent, "binary", argv, binary.url, exact, binary.env, binary)
    raise UsageError(f"{agent.id} is not installed", remedy=how_to_get(agent, platform_key))


def how_to_get(agent: RegistryAgent, platform_key: str) -> str:
    """What to do to have an agent that cannot be started here."""
    ways = [f"{GET_RUNNER[package.runner]}, and runs it" for package in agent.packages]
    if agent.program is not None:
        ways.append(f"a program called {agent.program.name} on the PATH is used")
    if agent.binaries:
        ways.append(f"it can be downloaded for {', '.join(agent.binaries)}, not {platform_key}")
    elif not agent.packages:
        ways.append("`acp-jupyter agents update` may find a download")
    about = f" See {agent.website}" if agent.website else ""
    return f"{'; '.join(ways)}.{about}"


def this_platform() -> str:
    """The key of this platform in a registry; empty words where it has none."""
    machine = platform.machine().lower()
    return f"{_SYSTEMS.get(sys.platform, sys.platform)}-{_MACHINES.get(machine, machine)}"


def find_program(path: str) -> Which:
    """Finds programs on a PATH, in its absolute folders only: the others are the workspace's."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]

    def which(name: str) -> str | None:
        found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
        # Windows looks in the working directory first.
        return found if found is not None and os.path.dirname(found) in folders else None

    return which


def _packaged(agent: RegistryAgent, package: Package, runner: str) -> Launch:
    name, exact = package.package, (package.package, package.cmd, *package.args)
    if package.runner == "uvx":
        # uvx reads no settings of the working directory.
        named = ("--from", name, package.cmd) if package.cmd else (name,)
        argv = (runner, *named, *package.args)
        return Launch(agent, "uvx", argv, f"the PyPI package {name}", exact, package.env)
    argv = (*_npx(runner), *_npx_package(package), *package.args)
    return Launch(agent, "npx", argv, f"the npm package {name}", exact, package.env)


def _npx(runner: str) -> tuple[str, ...]:
    """Npx takes a package of that name from the working directory's ``node_modules``, and its
    settings from there (``.npmrc`` names the server). With another folder as its prefix it does
    not; the agent is still started in the working directory."""
    return (runner, "--yes", "--prefix", str(npx_folder()))


def _npx_package(package: Package) -> tuple[str, ...]:
    if package.cmd:
        return ("--package", package.package, "--", package.cmd)
    return ("--", package.package)


def npx_folder() -> Path:
    """An empty folder for npx."""
    return data_folder() / "npx"


def make_npx_folder() -> None:
    """Make it; npx fails where its prefix is missing.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        make_private(data_folder())
        make_private(npx_folder())
    except OSError as error:
        raise UsageError(f"{npx_folder()} cannot be made: {error.strerror}") from error
