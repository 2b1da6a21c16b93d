"""Running a command: in a terminal of the client, or as a child of our own.

Rules:
- A terminal is shown in its tool call before it is released, and released on every path.
- A cancelled turn takes the command with it, with all processes it started.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
from typing import Any, NamedTuple

from acp_jupyter.demo_agent import samples
from acp_jupyter.demo_agent.turn import ToolCall, Turn
from acp_jupyter.demo_agent.wire import INTERNAL_ERROR, Json, RpcError

OUTPUT_BYTES = 100_000

_SHELL_SYNTAX = re.compile(r"""[|&<>;()$`\\"'*?\[\]#~=%{}!\n]""")


class Result(NamedTuple):
    """How a command ended; ``exit_code`` or ``signal`` is None."""

    output: str
    exit_code: int | None
    signal: str | None

    @property
    def ending(self) -> str:
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        return f"signal {self.signal}" if self.signal else "no exit code"


def split(text: str) -> tuple[str, list[str]]:
    """Program and arguments; by a shell only where the command needs one."""
    if not _SHELL_SYNTAX.search(text):
        program, *arguments = text.split()
        return program, arguments
    if os.name == "nt":
        return "cmd", ["/c", text]
    return "/bin/sh", ["-c", text]


def in_terminal(turn: Turn, call: ToolCall, program: str, arguments: list[str]) -> Result:
    """Run in a terminal of the client.

    Raises:
        RpcError: the client refused.
        Cancelled, Closed: see `Connection.wait`.
    """
    created = turn.request(
        "terminal/create",
        {
            "command": program,
            "args": arguments,
            "cwd": turn.session.cwd,
            "outputByteLimit": OUTPUT_BYTES,
        },
    )
    if not isinstance(created, dict) or not isinstance(created.get("terminalId"), str):
        raise RpcError(INTERNAL_ERROR, "The client made no terminal.")
    terminal: Json = {"terminalId": created["terminalId"]}
    try:
        call.start(content=[{"type": "terminal", **terminal}])
        status = turn.wait(
            turn.begin("terminal/wait_for_exit", terminal),
            on_cancel=lambda: turn.clean_up("terminal/kill", terminal),
        )
    finally:
        state = turn.clean_up("terminal/output", terminal)
        turn.clean_up("terminal/release", terminal)
        output = str(state.get("output", "")) if isinstance(state, dict) else ""
        call.keep = {"content": [samples.text_content(output)]}
    turn.check()
    status = status if isinstance(status, dict) else {}
    return Result(output, status.get("exitCode"), status.get("signal"))


class Display:
    """What a client of version 2 is shown of a command that we run ourselves; else nothing.

    Attributes:
        content: the tool call's content that shows it.
    """

    def __init__(self, turn: Turn, call: ToolCall, command: str) -> None:
        self._turn = turn if turn.offers.display else None
        self._update: Json = {"terminalId": f"terminal-{call.call_id}"}
        self.content: Json = {}
        if self._turn is not None:
            self._tell("terminal_update", command=command, cwd=turn.session.cwd)
            self.content = {"content": [{"type": "terminal", **self._update}]}
            call.keep = {"content": []}

    def show(self, data: bytes) -> None:
        """Some of its output, cut anywhere."""
        self._tell("terminal_output_chunk", data=base64.b64encode(data).decode())

    def end(self, result: Result) -> None:
        status = {"exitCode": result.exit_code, "signal": result.signal}
        self._tell("terminal_update", exitStatus=status)

    def _tell(self, kind: str, **fields: Any) -> None:
        if self._turn is not None:
            self._turn.send_update({"sessionUpdate": kind, **self._update, **fields})


def in_child(turn: Turn, call: ToolCall, program: str, arguments: list[str]) -> Result:
    """Run as a child process in the session's working directory.

    Raises:
        OSError: it could not be started.
        Cancelled, Closed: see `Connection.wait`; the command is ended.
    """
    process = subprocess.Popen(
        [program, *arguments],
        cwd=turn.session.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = bytearray()
    done = threading.Event()
    display = Display(turn, call, shlex.join([program, *arguments]))

    def drain() -> None:
        assert process.stdout is not None
        while data := process.stdout.read1(65536):  # type: ignore[attr-defined]
            display.show(data)
            output.extend(data)
            del output[:-OUTPUT_BYTES]
        process.wait()
        with turn.connection.changed:
            done.set()
            turn.connection.changed.notify_all()

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    try:
        call.start(**display.content)
        with turn.connection.changed:
            turn.connection.changed.wait_for(
                lambda: done.is_set() or turn.cancelled or turn.connection.closed
            )
        turn.check()
    finally:
        if not done.is_set():
            _end(process)
        thread.join(2.0)
    result = _result(process.returncode, bytes(output))
    display.end(result)
    return result


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and what it started."""
    if os.name == "nt":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _result(returncode: int | None, output: bytes) -> Result:
    text = output.decode("utf-8", "replace")
    if returncode is not None and returncode < 0:
        return Result(text, None, signal.Signals(-returncode).name)
    return Result(text, returncode, None)
