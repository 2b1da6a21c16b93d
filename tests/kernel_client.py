"""The agent kernel as a frontend meets it: a real process, its channels, bounded waits."""

from __future__ import annotations

import os
import queue
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.bench.kernels import (
    clean_environment,
    end_processes,
    process_family,
    write_kernel_specs,
)
from tests.scripted import Script

READY_S = 40.0
CELL_S = 15.0


class Cell:
    """One executed cell, as far as its messages have been read.

    Attributes:
        displays: MIME bundles by display id, in their newest state, in order of appearance.
        sent: when it was sent, `time.monotonic` seconds.
        idle: when it was over.
        asked: prompts of its ``input_request`` messages.
    """

    def __init__(self, kernel: KernelUnderTest, msg_id: str) -> None:
        self._kernel = kernel
        self.msg_id = msg_id
        self.sent = time.monotonic()
        self.idle: float | None = None
        self.messages: list[dict[str, Any]] = []
        self.displays: dict[str, dict[str, Any]] = {}
        self.error: dict[str, Any] | None = None
        self.reply: dict[str, Any] = {}
        self.asked: list[str] = []

    def take(self, message: dict[str, Any]) -> None:
        """Apply one IOPub message."""
        self.messages.append(message)
        content = message["content"]
        match message["msg_type"]:
            case "display_data" | "update_display_data":
                fallback = f"display-{len(self.displays)}"
                ident = content["transient"].get("display_id", fallback)
                self.displays[ident] = content["data"]
            case "stream":
                self.displays[f"stream-{len(self.displays)}"] = {"text/plain": content["text"]}
            case "error":
                self.error = content
            case "status" if content["execution_state"] == "idle":
                self.idle = time.monotonic()

    @property
    def text(self) -> str:
        """The outputs as plain text."""
        return "\n".join(data.get("text/plain", "") for data in self.displays.values())

    @property
    def html(self) -> str:
        return "\n".join(data.get("text/html", "") for data in self.displays.values())

    @property
    def seconds(self) -> float:
        assert self.idle is not None
        return self.idle - self.sent

    @property
    def traceback(self) -> str:
        return "\n".join(self.error["traceback"]) if self.error else ""

    def wait(self, condition: Callable[[Cell], Any], limit: float = CELL_S) -> Any:
        """Read messages until a condition of this cell holds."""
        return self._kernel.read_until(lambda: condition(self), limit, self)

    def wait_text(self, text: str, limit: float = CELL_S) -> None:
        self.wait(lambda cell: text in cell.text, limit)

    def finish(self, limit: float = CELL_S) -> Cell:
        """Read to the cell's end and fetch its reply."""
        self.wait(lambda cell: cell.idle is not None, limit)
        self.reply = self._kernel.fetch_reply(self.msg_id)
        return self

    def ok(self) -> Cell:
        """Itself; it must have ended well."""
        assert self.reply["status"] == "ok", (self.reply, self.text)
        return self

    def failed(self, ename: str) -> Cell:
        """Itself; it must have ended with that error, in the reply and as a saved output."""
        assert self.reply["status"] == "error", (self.reply, self.text)
        assert self.reply["ename"] == ename, self.reply
        assert self.error is not None
        assert self.error["ename"] == ename
        return self


class KernelUnderTest:
    """A running kernel with a client on all its channels.

    Attributes:
        process: the kernel's own.
        cwd: its working directory.
    """

    def __init__(self, manager: KernelManager, cwd: Path) -> None:
        self.manager = manager
        self.cwd = cwd
        self.cells: dict[str, Cell] = {}
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=READY_S)
        self.process = psutil.Process(self.manager.provisioner.pid)  # type: ignore[union-attr]
        self._replies: dict[str, dict[str, Any]] = {}
        self._input: Callable[[str], str | None] | None = None

    # -- cells ---------------------------------------------------------------------------------

    def start(
        self,
        code: str,
        *,
        answer: Callable[[str], str | None] | None = None,
        subshell: str | None = None,
        silent: bool = False,
    ) -> Cell:
        """Send a cell.

        Args:
            answer: answers what it asks on stdin, or ``None`` not to; without it stdin is
                forbidden.
            subshell: the id of the subshell that is to run it.
            silent: it shows nothing and leaves no trace.
        """
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": answer is not None,
            "stop_on_error": False,
        }
        message = self.client.session.msg("execute_request", content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._input = answer
        return self.adopt(message)

    def adopt(self, message: dict[str, Any]) -> Cell:
        """Send an ``execute_request`` made elsewhere."""
        cell = Cell(self, message["header"]["msg_id"])
        self.cells[cell.msg_id] = cell
        self.client.shell_channel.send(message)
        return cell

    def run(self, code: str, *, limit: float = CELL_S, **settings: Any) -> Cell:
        """Send a cell and read to its end."""
        return self.start(code, **settings).finish(limit)

    def connect(self, script: Script) -> Cell:
        """Start the agent of a scenario in place of the one before."""
        return self.run(f"%acp connect -- {shlex.join(script.argv)}").ok()

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def control(self, kind: str, **content: Any) -> dict[str, Any]:
        """A request on the control channel and its reply's content."""
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        deadline = time.monotonic() + CELL_S
        while time.monotonic() < deadline:
            reply = self.client.get_control_msg(timeout=CELL_S)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return dict(reply["content"])
        raise AssertionError(f"no reply to {kind}")

    # -- messages ------------------------------------------------------------------------------

    def read_until(self, condition: Callable[[], Any], limit: float, cell: Cell) -> Any:
        deadline = time.monotonic() + limit
        while not (found := condition()):
            left = deadline - time.monotonic()
            assert left > 0, f"not within {limit} s; the cell so far: {cell.text!r} {cell.error}"
            self._read(min(left, 0.05))
        return found

    def _read(self, limit: float) -> None:
        try:
            message = self.client.get_iopub_msg(timeout=limit)
        except queue.Empty:
            pass
        else:
            parent = message["parent_header"].get("msg_id")
            if parent in self.cells:
                self.cells[parent].take(message)
        if self._input is not None:
            self._answer_stdin()

    def _answer_stdin(self) -> None:
        try:
            message = self.client.get_stdin_msg(timeout=0)
        except queue.Empty:
            return
        prompt = message["content"]["prompt"]
        self.cells[message["parent_header"]["msg_id"]].asked.append(prompt)
        assert self._input is not None
        reply = self._input(prompt)
        if reply is not None:
            self.client.input(reply)

    def fetch_reply(self, msg_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + CELL_S
        while msg_id not in self._replies:
            assert time.monotonic() < deadline, "no execute_reply"
            reply = self.client.get_shell_msg(timeout=CELL_S)
            self._replies[reply["parent_header"].get("msg_id", "")] = reply["content"]
        return self._replies.pop(msg_id)

    # -- life ----------------------------------------------------------------------------------

    def ready(self) -> KernelUnderTest:
        """Itself, restarted if a test before failed and left a cell behind."""
        if any(cell.idle is None for cell in self.cells.values()):
            self.restart(now=True)
        return self

    def restart(self, *, now: bool = False) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=now)
        self.cells.clear()
        self._connect()

    def close(self) -> None:
        family = process_family(self.process)
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel()
        end_processes(family)
        self.manager.cleanup_resources()


@contextmanager
def open_kernel(
    home: Path, *, by_server: bool = False, environment: dict[str, str] | None = None
) -> Iterator[KernelUnderTest]:
    """Start the kernel, without any of the user's own settings.

    Args:
        home: an empty directory; the kernel works in ``home/workspace``.
        by_server: it takes this process for a Jupyter server, whose frontends show widgets.
        environment: further variables.
    """
    specs = KernelSpecManager(kernel_dirs=[str(write_kernel_specs(home))])
    specs.ensure_native_kernel = False
    manager = KernelManager(kernel_name="acp", kernel_spec_manager=specs)
    manager.connection_file = str(home / "connection.json")
    manager.shutdown_wait_time = 5.0
    env = clean_environment(home) | (environment or {})
    if by_server:
        env["JPY_SESSION_NAME"] = str(home / "notebook.ipynb")
        (home / "runtime" / f"jpserver-{os.getpid()}.json").write_text("{}", encoding="utf-8")
    workspace = home / "workspace"
    workspace.mkdir(exist_ok=True)
    with (home / "kernel.log").open("wb") as log:
        manager.start_kernel(env=env, cwd=str(workspace), stdout=log, stderr=log)
        kernel = KernelUnderTest(manager, workspace)
        try:
            yield kernel
        finally:
            kernel.close()
