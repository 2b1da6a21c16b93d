"""The agent kernel as a frontend sees it: started by jupyter_client, spoken to over its sockets."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.bench.kernels import (
    OURS,
    clean_environment,
    end_processes,
    process_family,
    write_kernel_specs,
)

READY = 40.0
CELL = 40.0
"""Seconds; generous, because a test machine may be busy."""

Message = dict[str, Any]


@dataclass
class Cell:
    """One executed cell, while it runs and after.

    Attributes:
        ident: the request's id.
        published: its IOPub messages in order, with those of status and the echoed input.
        reply: content of the ``execute_reply``.
        questions: prompts of the ``input_request`` messages.
        idle: whether the kernel has gone idle for it.
    """

    ident: str
    published: list[Message] = field(default_factory=list)
    reply: dict[str, Any] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    idle: bool = False

    @property
    def done(self) -> bool:
        return self.idle and bool(self.reply)

    def contents(self, kind: str) -> list[dict[str, Any]]:
        return [m["content"] for m in self.published if m["msg_type"] == kind]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """MIME bundles in their last state; streams and errors as ``text/plain``."""
        shown: dict[str, dict[str, Any]] = {}
        for number, message in enumerate(self.published):
            content = message["content"]
            match message["msg_type"]:
                case "display_data" | "update_display_data" | "execute_result":
                    key = content.get("transient", {}).get("display_id", str(number))
                    shown[key] = content["data"]
                case "stream":
                    shown[str(number)] = {"text/plain": content["text"]}
                case "error":
                    shown[str(number)] = {"text/plain": "\n".join(content["traceback"])}
        return list(shown.values())

    @property
    def text(self) -> str:
        return "\n".join(data.get("text/plain", "") for data in self.outputs)

    def expect_ok(self) -> Cell:
        assert self.reply.get("status") == "ok", (self.reply, self.text)
        return self

    def expect_error(self, name: str) -> Cell:
        """The reply and the one ``error`` message are of that name."""
        assert self.reply.get("ename") == name, (self.reply, self.text)
        assert [content["ename"] for content in self.contents("error")] == [name]
        return self


class LiveKernel:
    """A running kernel with a client."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient, cwd: Path) -> None:
        self.manager = manager
        self.client = client
        self.cwd = cwd
        self.process = psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]
        self.seen: list[Message] = []
        self._cells: dict[str, Cell] = {}

    def send(
        self,
        channel: str,
        kind: str,
        content: dict[str, Any],
        *,
        metadata: dict[str, Any] | None = None,
        header: dict[str, Any] | None = None,
    ) -> str:
        """Send a message; returns its id."""
        message = self.client.session.msg(kind, content, metadata=metadata)
        message["header"].update(header or {})
        getattr(self.client, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def start(
        self,
        code: str,
        *,
        metadata: dict[str, Any] | None = None,
        header: dict[str, Any] | None = None,
        **options: Any,
    ) -> Cell:
        """Send a cell, without waiting for it. Options are fields of ``execute_request``."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
            **options,
        }
        cell = Cell(
            self.send("shell", "execute_request", content, metadata=metadata, header=header)
        )
        self._cells[cell.ident] = cell
        return cell

    def read(
        self,
        until: Callable[[], Any],
        limit: float = CELL,
        answer: Callable[[str], str | None] | None = None,
    ) -> None:
        """Read the sockets until a condition holds.

        Args:
            answer: what to reply to a question on stdin; ``None`` leaves it open.
        """
        channels = {
            getattr(self.client, f"{name}_channel").socket: getattr(self.client, f"{name}_channel")
            for name in ("iopub", "shell", "stdin", "control")
        }
        poller = zmq.Poller()
        for socket in channels:
            poller.register(socket, zmq.POLLIN)
        deadline = time.monotonic() + limit
        while not until():
            left = deadline - time.monotonic()
            assert left > 0, f"not within {limit} s; last seen: {self._tail()}"
            for socket, _ in poller.poll(max(1, int(min(left, 0.2) * 1000))):
                self._take(channels[socket].get_msg(timeout=1), answer)

    def _take(self, message: Message, answer: Callable[[str], str | None] | None) -> None:
        self.seen.append(message)
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        content = message["content"]
        match message["msg_type"]:
            case "execute_reply" if cell is not None:
                cell.reply = content
            case "input_request" if cell is not None:
                cell.questions.append(content["prompt"])
                reply = answer(content["prompt"]) if answer is not None else None
                if reply is not None:
                    self.client.input(reply)
            case kind if cell is not None and not kind.endswith("_reply"):
                cell.published.append(message)
                if kind == "status" and content["execution_state"] == "idle":
                    cell.idle = True

    def _tail(self) -> list[tuple[str, str]]:
        return [(m["msg_type"], str(m["content"])[:300]) for m in self.seen[-8:]]

    def finish(
        self,
        cell: Cell,
        limit: float = CELL,
        answer: Callable[[str], str | None] | None = None,
    ) -> Cell:
        self.read(lambda: cell.done, limit, answer)
        return cell

    def run(
        self, code: str, *, limit: float = CELL, answers: Sequence[str] = (), **options: Any
    ) -> Cell:
        """Run a cell to idle; ``answers`` reply to its questions on stdin, in order."""
        left = list(answers)
        if answers:
            options["allow_stdin"] = True
        cell = self.start(code, **options)
        return self.finish(cell, limit, lambda _prompt: left.pop(0) if left else None)

    def request(
        self,
        kind: str,
        content: dict[str, Any],
        channel: str = "shell",
        header: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its reply's content."""
        ident = self.send(channel, kind, content, header=header)
        found: list[Message] = []

        def answered() -> bool:
            found.extend(
                m
                for m in self.seen[-20:]
                if m["parent_header"].get("msg_id") == ident and m["msg_type"].endswith("_reply")
            )
            return bool(found)

        self.read(answered)
        reply: dict[str, Any] = found[0]["content"]
        return reply

    @contextmanager
    def subshell(self) -> Iterator[dict[str, str]]:
        """The header fields of messages for a thread of their own, beside the main one."""
        made = self.request("create_subshell_request", {}, channel="control")
        header = {"subshell_id": str(made["subshell_id"])}
        yield header
        self.request("delete_subshell_request", header, channel="control")

    def interrupt(self) -> None:
        """As the stop button does."""
        self.manager.interrupt_kernel()

    def log(self) -> str:
        path = self.cwd.parent / "kernel.log"
        return path.read_text(encoding="utf-8", errors="replace")[-4000:]


def kernel_environment(home: Path) -> dict[str, str]:
    """An environment of its own for a kernel: nobody's settings, sessions or history."""
    return clean_environment(home) | {"ACP_DEMO_STORE": str(home / "sessions")}


@contextmanager
def live_kernel(
    home: Path, *, name: str = OURS, python_path: Sequence[str] = (), **environment: str
) -> Iterator[LiveKernel]:
    """Start a kernel in ``home``/workspace and end it, with whatever it had started.

    Args:
        name: the agent kernel, or another one of `kernel_specs`.
        python_path: directories that go before the installed packages.
    """
    specs = KernelSpecManager(kernel_dirs=[str(write_kernel_specs(home))])
    specs.ensure_native_kernel = False
    manager = KernelManager(kernel_name=name, kernel_spec_manager=specs)
    manager.connection_file = str(home / "connection.json")
    cwd = home / "workspace"
    cwd.mkdir()
    if python_path:
        spec_file = home / "kernels" / name / "kernel.json"
        spec = json.loads(spec_file.read_text())
        parts = [*python_path, spec["env"]["PYTHONPATH"]]
        spec["env"]["PYTHONPATH"] = os.pathsep.join(parts)
        spec_file.write_text(json.dumps(spec))
    with (home / "kernel.log").open("wb") as log:
        manager.start_kernel(
            env=kernel_environment(home) | environment, cwd=str(cwd), stdout=log, stderr=log
        )
    client = manager.client()
    client.start_channels()
    kernel = LiveKernel(manager, client, cwd)
    try:
        client.wait_for_ready(timeout=READY)
        yield kernel
    except BaseException as error:
        error.add_note(f"The kernel's output ends:\n{kernel.log()}")
        raise
    finally:
        family = process_family(kernel.process)
        client.stop_channels()
        if manager.has_kernel:
            manager.shutdown_kernel()
        end_processes(family)


def as_server(home: Path) -> dict[str, str]:
    """Environment for a kernel that this process starts as a Jupyter server would: the server
    names itself in the runtime directory, and the notebook in the environment."""
    runtime = home / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    (runtime / f"jpserver-{os.getpid()}.json").write_text("{}")
    return {
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JPY_SESSION_NAME": str(home / "workspace" / "notebook.ipynb"),
    }
