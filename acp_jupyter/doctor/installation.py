"""Whether this installation works: Python and Jupyter, kernel and extension, programs, settings.

Nothing is changed, and nothing is asked of a network. The bundled agent is started once, to see
that processes are started, answer and are ended here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from .. import __version__
from ..errors import ACPError, UsageError
from .report import Check

TESTED: Final[Mapping[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    "ipykernel": ((7, 0), (8, 0)),
    "jupyterlab": ((4, 3), (5, 0)),
    "notebook": ((7, 3), (8, 0)),
}
"""Versions of Jupyter that this was tested with: from the first on, before the second."""

OLDEST_PYTHON: Final = (3, 11)

OLD: Final = 90
"""Days after which a list of agents may be out of date."""

END_LIMIT: Final = 5.0
"""Seconds after which an agent that was ended is gone."""

PROGRAM_LIMIT: Final = 20.0
"""Seconds for a program to tell its version; npx takes one on a busy machine."""

_SPEC = "acp"
_EXTENSION: Final = "acp-jupyter"


def check_installation(environ: Mapping[str, str]) -> list[Check]:
    """Look at all of it.

    Args:
        environ: the process's environment.
    """
    checks: list[Check] = []
    for look in (_python, _jupyter, _kernelspec, _extension):
        checks += look()
    for look_in in (_programs, _settings, _agents, _start):
        checks += look_in(environ)
    return checks


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info[:2] < OLDEST_PYTHON
    remedy = "Install Python 3.11 or newer, and acp-jupyter into it." if old else ""
    yield Check("Python", "fail" if old else "ok", f"{version} ({sys.executable})", remedy)
    yield Check("acp-jupyter", "ok", f"{__version__} ({Path(__file__).parents[1]})")


def _jupyter() -> Iterator[Check]:
    for name, (first, last) in TESTED.items():
        try:
            text = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "ipykernel":
                yield Check(name, "fail", "is not installed", "pip install ipykernel")
            else:
                remedy = f"To use it from this environment: pip install {name}"
                yield Check(name, "warn", "is not installed here", remedy)
            continue
        numbers = tuple(map(int, re.findall(r"\d+", text)[:2]))
        if numbers < first:
            wanted = ".".join(map(str, first))
            yield Check(name, "fail", f"{text} is too old", f'pip install "{name}>={wanted}"')
        elif numbers >= last:
            remedy = f'If something fails: pip install "{name}<{last[0]}"'
            yield Check(name, "warn", f"{text} is newer than what was tested", remedy)
        else:
            yield Check(name, "ok", text)


def _kernelspec() -> Iterator[Check]:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    name = "kernel"
    install = "Run `acp-jupyter install --sys-prefix`, or `acp-jupyter install --user`."
    try:
        spec = KernelSpecManager().get_kernel_spec(_SPEC)
    except NoSuchKernel:
        yield Check(name, "fail", 'Jupyter does not find the kernel "ACP Agent"', install)
        return
    place = str(spec.resource_dir)
    python = spec.argv[0] if spec.argv else ""
    # A kernelspec that came with pip says "python", which Jupyter takes for the one it runs with.
    if os.path.isabs(python) and not _same(python, sys.executable):
        if not os.path.exists(python):
            yield Check(name, "fail", f"{place} starts {python}, which is not there", install)
        else:
            text = f"{place} starts another Python, {python}"
            yield Check(name, "warn", text, f"If that is not meant: {install}")
    else:
        yield Check(name, "ok", f'"{spec.display_name}" in {place}')


def _same(one: str, other: str) -> bool:
    """Whether two interpreters are that of one environment; both may link to the same program."""
    folders = [os.path.realpath(os.path.dirname(path)) for path in (one, other)]
    return folders[0] == folders[1]


def _extension() -> Iterator[Check]:
    from jupyter_core.paths import jupyter_path

    name = "JupyterLab extension"
    install = "Run `acp-jupyter install --sys-prefix`, or install acp-jupyter again."
    found = [Path(folder, _EXTENSION) for folder in jupyter_path("labextensions")]
    place = next((path for path in found if (path / "package.json").is_file()), None)
    if place is None:
        yield Check(name, "warn", "is not installed: widgets are used instead", install)
        return
    try:
        package: Any = json.loads((place / "package.json").read_text(encoding="utf-8"))
        version = package["version"]
        entry = place / package["jupyterlab"]["_build"]["load"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Check(name, "fail", f"{place} cannot be read: {error!r}", install)
        return
    if not entry.is_file():
        yield Check(name, "fail", f"{place} lacks {entry.name}", install)
    elif version != __version__:
        text = f"{place} is of version {version}, not {__version__}"
        yield Check(name, "fail", text, f"{install} Then load the page again.")
    else:
        yield Check(name, "ok", f"{version} in {place}")


def _programs(environ: Mapping[str, str]) -> Iterator[Check]:
    from ..host.installing import search_path
    from ..services.registry.choosing import GET_RUNNER, find_program

    which = find_program(search_path(environ.get("PATH", os.defpath)))
    for name in ("node", "npx", "uvx"):
        path = which(name)
        if path is None:
            remedy = f"Needed by agents that come that way: {GET_RUNNER.get(name, '')}".rstrip(": ")
            if name == "node":
                remedy = "Many agents need Node.js (https://nodejs.org)."
            yield Check(name, "warn", "was not found on the PATH", remedy)
            continue
        version = _version_of(path, environ)
        if version is None:
            yield Check(name, "warn", f"{path} does not tell its version", "Install it again.")
        else:
            yield Check(name, "ok", f"{version} ({path})")


def _version_of(path: str, environ: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(
            [path, "--version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROGRAM_LIMIT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.strip().splitlines() or [""])[0]


def _settings(environ: Mapping[str, str]) -> Iterator[Check]:
    from jupyter_core.paths import jupyter_config_path

    from ..host.settings import BASENAME, ACPJupyter

    name = "settings"
    files = [
        path
        for folder in jupyter_config_path()
        for suffix in ("py", "json")
        if (path := Path(folder, f"{BASENAME}.{suffix}")).is_file()
    ]
    try:
        settings = ACPJupyter.load(environ)
    except UsageError as error:
        yield Check(name, "fail", error.message, error.remedy)
        return
    read = ", ".join(map(str, files)) or "none, all is as it comes"
    yield Check(name, "ok", read)
    for path in files:
        yield from _private(name, path)
    yield Check("permissions", "ok", str(settings.policy))
    if settings.policy.source:
        yield from _private("permissions", Path(settings.policy.source))


def _private(name: str, path: Path) -> Iterator[Check]:
    """What decides about permissions must be the user's alone to write."""
    from ..services.registry.places import problem_of

    try:
        problem = problem_of(path.stat()) or problem_of(path.parent.stat())
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        remedy = f"Run `chmod go-w {path.parent} {path}`, if both are yours."
        yield Check(name, "warn", f"{path}: {problem}", remedy)


def _agents(environ: Mapping[str, str]) -> Iterator[Check]:
    from ..host.settings import ACPJupyter
    from ..services import consents
    from ..services.registry import catalogue

    try:
        address = ACPJupyter.load(environ).registry
    except UsageError:
        address = ""  # told above
    known = catalogue.load(address)
    update = "Run `acp-jupyter agents update`."
    name = "agents"
    if known.problem:
        yield Check(name, "warn", f"the list that was fetched is not used: {known.problem}", update)
    else:
        fetched = catalogue.read_cache()
        made = fetched.at[:10] if fetched is not None and fetched.at in known.source else ""
        at = datetime.fromisoformat(made or catalogue.read_snapshot()[1].isoformat())
        age = (datetime.now(UTC).replace(tzinfo=None) - at).days
        text = f"{len(known.agents)} known from {known.source}"
        yield Check(name, "warn" if age > OLD else "ok", text, update if age > OLD else "")
    try:
        count = len(consents.read_consents(consents.AGENTS))
    except UsageError as error:
        yield Check("consents", "fail", error.message, error.remedy)
    else:
        yield Check("consents", "ok", f"{count} agents are always allowed to be downloaded")


def _start(environ: Mapping[str, str]) -> Iterator[Check]:
    """Start the bundled agent and end it, which also shows that the guard of processes works."""
    name = "starting agents"
    remedy = "Please report this, with the output of `acp-jupyter doctor --json`."
    try:
        with tempfile.TemporaryDirectory(prefix="acp-jupyter-doctor-") as folder:
            pid = _start_and_end(environ, folder)
    except ACPError as error:
        yield Check(name, "fail", f"the bundled agent does not start: {error}", remedy)
        return
    except OSError as error:
        yield Check(name, "fail", f"no temporary folder can be made: {error.strerror}")
        return
    if os.name == "posix" and _runs(pid):
        yield Check(name, "fail", "the bundled agent was not ended", remedy)
    else:
        yield Check(name, "ok", "the bundled agent starts, opens a session and ends")


def _start_and_end(environ: Mapping[str, str], folder: str) -> int:
    """Returns the process id that the agent had."""
    from ..host.cell import no_cell
    from ..host.frontend import Frontend
    from ..host.host import Host
    from ..services.agents import demo_agent

    host = Host(None, None, {**environ, "ACP_DEMO_STORE": os.path.join(folder, "sessions")})
    link = host.new_link(quiet=True)
    cell = no_cell(Frontend("final", ()))
    try:
        link.call(cell, link.connect, demo_agent(), folder)
        assert link.agent is not None
        pid = link.agent.pid
        assert pid is not None
        link.call(cell, link.disconnect)
    finally:
        host.close()
    return pid


def _runs(pid: int) -> bool:
    """Whether a process still runs, `END_LIMIT` seconds after it was to end."""
    deadline = time.monotonic() + END_LIMIT
    while _is_there(pid):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.05)
    return False


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # it is gone, or the number is another user's
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[:1] != ["Z"]  # ended, though nobody has asked yet
