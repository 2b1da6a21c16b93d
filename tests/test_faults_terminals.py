"""The commands that agents run, as the user of a kernel meets them: shown, stopped, attached to.

The commands are real, and so is the program that attaches, in a terminal of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest
import trio

import acp_jupyter as acp
from acp_jupyter.rendering.terminal_text import TerminalText
from acp_jupyter.services.roots import Roots
from acp_jupyter.services.terminals import SHOWN_LIMIT, TerminalService
from tests.conftest import alive, wait_until
from tests.kernel_client import open_kernel
from tests.test_faults_permission import button, click, widgets

PYTHON = sys.executable

LIMIT = 40.0
"""Seconds for what takes one at most where the machine is idle."""

STEPS = """
import subprocess, sys, time, os
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("child.pid", "w").write(str(child.pid))
print("\\x1b[31mred\\x1b[0m one", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("two\\x1b]0;title\\x07", flush=True)
time.sleep(600)
"""
"""A command that starts another one, and writes in two steps; the second waits for a file."""


def run_command(agent):
    """Source of a turn that runs a command and tells how it ended."""
    made = agent.ask("terminal/create", **agent.given)
    ident = {"terminalId": made["result"]["terminalId"]}
    agent.update(
        sessionUpdate="tool_call",
        toolCallId="call",
        title="steps",
        kind="execute",
        status="in_progress",
        content=[{"type": "terminal", **ident}],
    )
    agent.ask("terminal/wait_for_exit", **ident)
    agent.ask("terminal/output", **ident)
    agent.ask("terminal/release", **ident)
    agent.update(sessionUpdate="tool_call_update", toolCallId="call", status="failed")


@pytest.fixture
def steps(kernel, script):
    """A cell whose command has written its first line and waits; ended with the test."""
    folder = kernel.cwd
    for name in ("go", "child.pid", "steps.py"):
        (folder / name).unlink(missing_ok=True)
    (folder / "steps.py").write_text(STEPS)
    given = {"command": PYTHON, "args": ["steps.py"], "cwd": str(folder)}
    made = script(prompt=run_command, given=given)
    kernel.run("%acp permissions allow").ok()
    kernel.connect(made)
    cell = kernel.start("go")
    cell.wait_text("one", LIMIT)
    child = int(wait_until((folder / "child.pid").read_text))
    running = Steps(kernel, made, cell, folder, child)
    yield running
    if not kernel.cells:
        return  # it was restarted
    if cell.idle is None:
        running.beside(f"%acp terminals stop {running.number}").ok()
        cell.finish(LIMIT)
    kernel.control("delete_subshell_request", subshell_id=running.subshell)


class Steps:
    """A running command, and who runs it."""

    def __init__(self, kernel, made, cell, folder: Path, child: int) -> None:
        self.kernel = kernel
        self.made = made
        self.cell = cell
        self.folder = folder
        self.child = child
        self.subshell = kernel.control("create_subshell_request")["subshell_id"]

    def beside(self, code: str) -> Any:
        """Run a cell while the other one runs."""
        return self.kernel.run(code, subshell=self.subshell, limit=LIMIT)

    @property
    def number(self) -> str:
        listed = self.beside("%acp terminals").ok().text
        return re.findall(r"(?m)^(\d+)\. .*steps.py · running", listed)[-1]

    def ended_by_term(self) -> None:
        """The command has ended with all that it started, and everybody knows."""
        self.cell.finish(LIMIT).ok()
        wait_until(lambda: not alive(self.child), LIMIT)
        assert self.made.notes("terminal/wait_for_exit")[0]["result"] == {
            "exitCode": None,
            "signal": "SIGTERM",
        }
        assert "one" in self.made.notes("terminal/output")[0]["result"]["output"]
        assert "ended by signal SIGTERM" in self.cell.text
        assert "one" in self.cell.text


# -- shown and stopped ----------------------------------------------------------------------------


def test_f40_output_is_shown_in_colours_as_it_comes_with_command_place_and_time(steps):
    assert "two" not in steps.cell.text
    assert f"$ {shlex.join([PYTHON, 'steps.py'])}" in steps.cell.text
    assert f"in {steps.folder}" in steps.cell.html
    steps.cell.wait(lambda cell: re.search(r"running · [1-9]\d*\.\d s", cell.text), LIMIT)
    assert re.search(r"<span style=\"[^\"]*color:[^\"]*\">red</span>", steps.cell.html)
    assert re.search(r"<details[^>]* open", steps.cell.html)
    (steps.folder / "go").touch()
    steps.cell.wait_text("two", LIMIT)
    assert "title" not in steps.cell.html.partition("two")[2]
    assert steps.cell.idle is None


def test_f41_the_user_stops_a_command_from_another_cell_and_its_output_stays(steps):
    number = steps.number
    assert "Stopping: " in steps.beside(f"%acp terminals stop {number}").ok().text
    steps.ended_by_term()
    listed = steps.kernel.run("%acp terminals").ok().text
    assert re.search(rf"(?m)^{number}\. .*steps.py · ended by SIGTERM after", listed)
    again = steps.kernel.run(f"%acp terminals stop {number}").failed("UsageError")
    assert "ended already" in again.traceback


def test_what_is_no_terminal_is_told(kernel):
    assert "no number" in kernel.run("%acp terminals stop x").failed("UsageError").traceback
    assert "stop N" in kernel.run("%acp terminals halt 1").failed("UsageError").traceback


# -- attached to ----------------------------------------------------------------------------------


@pytest.fixture
def attached(steps, tmp_path):
    """The program, started by the command line that the kernel gives, in a terminal."""
    line = steps.beside(f"%acp terminals attach {steps.number}").ok().text.strip()
    command, *arguments = shlex.split(line)
    program = pexpect.spawn(command, arguments, cwd=str(tmp_path), encoding="utf-8", timeout=LIMIT)
    program.expect_exact("one")
    yield program
    program.close(force=True)


def test_a_terminal_attached_to_a_command_shows_what_comes_and_stops_it(steps, attached):
    assert "\x1b[31mred\x1b[" in attached.before
    assert "steps.py" in attached.before
    assert str(steps.folder) in attached.before
    (steps.folder / "go").touch()
    attached.expect_exact("two")
    attached.sendintr()
    attached.expect(r"\[ended by SIGTERM after [\d.]+ s\]")
    attached.expect(pexpect.EOF)
    assert "title" not in attached.before
    attached.close()
    assert attached.exitstatus == 0
    steps.ended_by_term()


def test_who_looks_away_leaves_the_command_running(steps, attached):
    attached.sendeof()
    attached.expect_exact("[not followed any more]")
    attached.expect(pexpect.EOF)
    assert alive(steps.child)
    assert steps.cell.idle is None


def test_only_this_user_finds_and_enters_the_socket(steps):
    line = shlex.split(steps.beside(f"%acp terminals attach {steps.number}").ok().text)
    path = Path(line[-2])
    assert re.fullmatch(r"[0-9a-f]{16}", path.name)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "-P" in line  # no module of the folder that the terminal is in
    for said, answer in ((b'{"terminal": 0}\n', b"no terminal 0"), (b"[]\n", b"no terminal")):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(LIMIT)
            peer.connect(str(path))
            peer.sendall(said)
            assert answer in peer.recv(1000)
            assert peer.recv(1000) == b""
    again = shlex.split(steps.beside(f"%acp terminals attach {steps.number}").ok().text)
    assert again == line
    steps.kernel.restart()
    wait_until(lambda: not path.parent.exists(), LIMIT)


# -- what is refused ------------------------------------------------------------------------------


def misuse(agent):
    """Source of a turn that makes requests that may not be."""
    cwd = agent.given["cwd"]
    for name in ("LD_PRELOAD", "path", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "GIT_SSH_COMMAND"):
        env = [{"name": name, "value": "/tmp/evil"}]
        agent.ask("terminal/create", command="touch", args=["f39"], cwd=cwd, env=env)
    for outside in ("/", cwd + "/..", cwd + "-beside"):
        agent.ask("terminal/create", command="touch", args=["f39"], cwd=outside)
    for ident in ("term_0", "../../x", "x" * 100_000, "<b>"):
        for method in ("output", "wait_for_exit", "kill", "release"):
            agent.ask("terminal/" + method, terminalId=ident)
    made = []
    for _ in range(33):
        answer = agent.ask("terminal/create", command="sleep", args=["600"], cwd=cwd)
        made.append(answer.get("result", {}).get("terminalId"))
    agent.note("made", made)
    for ident in made[:32]:
        agent.ask("terminal/release", terminalId=ident)
    agent.ask("terminal/output", terminalId=made[0])


def test_f39_f42_what_is_no_proper_request_is_refused_and_runs_nothing(kernel, script):
    made = script(prompt=misuse, given={"cwd": str(kernel.cwd)})
    kernel.run("%acp permissions allow").ok()
    kernel.connect(made)
    kernel.run("go", limit=LIMIT).ok()
    created = made.notes("terminal/create")
    assert all("error" in answer for answer in created[:9])
    assert not (kernel.cwd / "f39").exists()
    assert not (kernel.cwd.parent / "f39").exists()
    (terminals,) = made.notes("made")
    assert None not in terminals[:32]
    assert terminals[32] is None
    assert "32 terminals" in created[-1]["error"]["message"]
    for method in ("output", "wait_for_exit", "kill"):
        assert all("error" in answer for answer in made.notes(f"terminal/{method}"))
    assert ["error" in answer for answer in made.notes("terminal/release")] == [True] * 4 + [
        False
    ] * 32
    wait_until(lambda: not sleeping(kernel), LIMIT)


def sleeping(kernel):
    """The commands that still run."""
    children = kernel.process.children(recursive=True)
    return [child for child in children if _name(child) == "sleep"]


def _name(child):
    try:
        return child.name()
    except psutil.NoSuchProcess:
        return ""


# -- the Python API -------------------------------------------------------------------------------


def test_f41_a_program_stops_a_command_from_another_thread(tmp_path):
    (tmp_path / "steps.sh").write_text("echo one\nsleep 600\n")
    with acp.connect("demo", cwd=tmp_path, permissions="allow") as agent:
        session = agent.new_session()
        assert session.terminals == []
        seen: list[Any] = []

        def stop() -> None:
            wait_until(lambda: session.terminals and "one" in session.terminals[0].output, LIMIT)
            (terminal,) = session.terminals
            seen.append((terminal.running, terminal.exit_code, repr(terminal)))
            terminal.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        turn = session.prompt("run sh steps.sh")
        stopper.join(LIMIT)
        (terminal,) = session.terminals
    assert turn.stop_reason == "end_turn"
    assert seen[0][:2] == (True, None)
    assert "running" in seen[0][2]
    assert (terminal.running, terminal.exit_code, terminal.signal) == (False, None, "SIGTERM")
    assert terminal.output == "one\n"
    assert terminal.cwd == str(tmp_path)
    assert terminal.argv == ["sh", "steps.sh"]
    assert 0 < terminal.elapsed < 600
    terminal.stop()


# -- text for a terminal --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain ü\r\n", "plain ü\r\n"),
        ("\x1b[1;38;5;9mred\x1b[0m", "\x1b[1;38;5;9mred\x1b[0m"),
        ("10 %\r\x1b[K20 %\b\b", "10 %\r\x1b[K20 %\b\b"),
        ("a\x1b]0;title\x07b\x1b]52;c;ZXZpbA==\x1b\\c", "abc"),
        ("a\x1b[6n\x1b[c\x1b[5;5Hb\x1b[2Jc\x1b[?1049h", "abc"),
        ("a\x1bP+q544e\x1b\\b\x1bcd", "abd"),
        ("a\x9b31mb\x9d0;x\x9cc", "a\x1b[31mbc"),
        ("a\u202eb\x00\x07", "a⟨U+202E⟩b⟨U+0000⟩⟨U+0007⟩"),
        ("cut\x1b[31", "cut"),
        ("cut\x1b]0;never ended", "cut"),
    ],
)
def test_f53_only_the_line_being_written_is_driven(written, shown):
    data = written.encode()
    assert TerminalText().feed(data, final=True) == shown
    for size in (1, 2, 3):
        text = TerminalText()
        pieces = [text.feed(data[at : at + size]) for at in range(0, len(data), size)]
        assert "".join(pieces) + text.feed(b"", final=True) == shown


def test_f53_what_never_ends_is_not_kept():
    text = TerminalText()
    for _ in range(100):
        text.feed(b"\x1b]0;" + b"x" * 10_000)
    assert len(text._begun) <= 4096


# -- the service ----------------------------------------------------------------------------------


async def test_f40_who_follows_slowly_is_told_what_is_missing(tmp_path):
    views: list[Any] = []

    async def yes(_request):
        return True

    async with trio.open_nursery() as nursery:
        service = TerminalService(
            Roots([str(tmp_path)]),
            {"PATH": os.environ["PATH"]},
            ask=yes,
            nursery=nursery,
            on_change=views.append,
        )
        code = f"print('x' * {3 * SHOWN_LIMIT} + 'end')"
        params = {"command": PYTHON, "args": ["-c", code], "outputByteLimit": 10}
        made = await service.create(params)
        await service.wait_for_exit({**made})
        data, lost = views[0].tail.since(0)
        assert data.endswith(b"xend\n")
        assert len(data) == SHOWN_LIMIT
        assert lost + len(data) == 3 * SHOWN_LIMIT + 4
        assert views[0].tail.since(lost + len(data)) == (b"", 0)
        await service.release({**made})
        assert [view.output[-4:] for view in service.views] == ["end\n"]
        assert service.views[0].stop() is False
        assert signal.Signals.SIGTERM.name not in str(service.views[0].exit_status())
        await service.aclose()


# -- buttons --------------------------------------------------------------------------------------


def test_a_widget_beside_a_running_command_stops_it(tmp_path, script):
    def run_two(agent):
        for seconds in ("600", "0"):
            made = agent.ask("terminal/create", command="sleep", args=[seconds])
            ident = {"terminalId": made["result"]["terminalId"]}
            agent.ask("terminal/wait_for_exit", **ident)
            agent.ask("terminal/release", **ident)

    (home := tmp_path / "home").mkdir()
    with open_kernel(home, by_server=True) as kernel:
        made = script(prompt=run_two)
        kernel.run("%acp permissions allow").ok()
        kernel.connect(made)
        cell = kernel.start("go")
        click(kernel, button(cell, "Stop sleep 600"))
        cell.finish(LIMIT).ok()
    first, second = made.notes("terminal/wait_for_exit")
    assert first["result"] == {"exitCode": None, "signal": "SIGTERM"}
    assert second["result"] == {"exitCode": 0, "signal": None}
    assert widgets(cell, "ButtonModel")[0][0] == "Stop sleep 600"
    shown = [cell.displays[name] for name in cell.displays if name.endswith(".controls")]
    assert shown
    assert all(bundle == {"text/html": "", "text/plain": ""} for bundle in shown)
