"""Kernels as the benchmark drives them: started by jupyter_client, read from raw sockets.

The sockets are read raw, and messages decoded when the cell is over, because a client that decodes
while 20,000 messages come in would measure itself. Times are `time.monotonic` seconds, the clock
of the scripted agent too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import psutil
import zmq
from jupyter_client.connect import write_connection_file
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session

from tests.bench.wire import ROOT

READY_TIMEOUT = 30.0
QUIET = 0.3
"""Seconds of unchanged memory after which a kernel counts as settled."""

DELIMITER = b"<IDS|MSG>"
OURS, MINIMAL, RESENDING, PLAIN = "acp", "minimal", "resending", "python3"


def kernel_specs() -> dict[str, dict[str, Any]]:
    """The kernels to compare, run by this Python from this checkout: name to kernel.json."""
    ours = json.loads((ROOT / "kernelspec/acp/kernel.json").read_text(encoding="utf-8"))
    ours["argv"][0] = sys.executable
    minimal = [sys.executable, str(Path(__file__).with_name("minimal_kernel.py"))]
    resending = [sys.executable, "-m", "tests.bench.resending_kernel"]
    plain = [sys.executable, "-m", "ipykernel_launcher"]
    no_warning = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    specs = {
        OURS: ours,
        MINIMAL: {"argv": [*minimal, "-f", "{connection_file}"], "env": no_warning},
        RESENDING: {"argv": [*resending, "-f", "{connection_file}"], "env": no_warning},
        PLAIN: {
            "argv": [*plain, "-f", "{connection_file}"],
            "env": no_warning,
            "language": "python",
        },
    }
    for name, spec in specs.items():
        spec.setdefault("display_name", name)
        spec.setdefault("language", "text")
        environment = spec.setdefault("env", {})
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
        )
    return specs


def write_kernel_specs(directory: Path) -> Path:
    """Write `kernel_specs` under ``directory``/kernels and return that path."""
    kernels = directory / "kernels"
    for name, spec in kernel_specs().items():
        (kernels / name).mkdir(parents=True)
        (kernels / name / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return kernels


def clean_environment(home: Path) -> dict[str, str]:
    """This environment without the user's Jupyter, IPython and agent settings."""
    dropped = ("JUPYTER", "JPY_", "ACP_JUPYTER_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    places = {
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTER_PATH": home,
        "IPYTHONDIR": home / "ipython",
    }
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    return kept | {key: str(place) for key, place in places.items()}


@dataclass(frozen=True)
class Published:
    """One IOPub message of a cell, other than its status and its echoed input.

    Attributes:
        at: when it arrived, seconds.
        kind: its ``msg_type``.
        content: its decoded content.
        size: bytes of the content as sent.
    """

    at: float
    kind: str
    content: dict[str, Any]
    size: int


@dataclass
class CellRun:
    """One executed cell.

    Attributes:
        sent: when the request was sent, seconds.
        idle: when the idle status arrived; None if it did not within the time allowed.
        reply: content of the ``execute_reply``; empty if none came.
        published: the messages between, in order.
    """

    sent: float
    idle: float | None = None
    reply: dict[str, Any] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Seconds from the request to idle; infinite if idle did not arrive."""
        return float("inf") if self.idle is None else self.idle - self.sent

    @property
    def content_bytes(self) -> int:
        return sum(message.size for message in self.published)

    def expect_ok(self) -> CellRun:
        """Itself.

        Raises:
            RuntimeError: the cell failed, or never ended.
        """
        if self.idle is None or self.reply.get("status") != "ok":
            raise RuntimeError(f"the cell did not end well: {self.reply or 'no reply'}")
        return self


def final_text(published: list[Published]) -> str:
    """What the outputs read at the end: streams joined, displays in their last state.

    A display counts by its text/plain, or where it has none by its text/html without tags.
    """
    outputs: dict[str, str] = {}
    for number, message in enumerate(published):
        content = message.content
        if message.kind == "stream":
            outputs[f"stream-{number}"] = content["text"]
        elif message.kind in ("display_data", "update_display_data"):
            key = content.get("transient", {}).get("display_id", f"display-{number}")
            outputs[key] = _plain(content["data"])
    return "".join(outputs.values())


def _plain(data: dict[str, Any]) -> str:
    text = data.get("text/plain")
    if text is not None:
        return str(text)
    parts: list[str] = []

    class Text(HTMLParser):
        def handle_data(self, data: str) -> None:
            parts.append(data)

    Text().feed(str(data.get("text/html", "")))
    return "".join(parts)


def chunk_numbers(text: str) -> list[int]:
    """The numbers of the scripted agent's chunks in ``text``, in the order they stand there."""
    return [int(number) for number in re.findall(r"\bc(\d{6}) ", text)]


class RunningKernel:
    """A kernel with a client. Use `running_kernel` to start and end one."""

    def __init__(self, manager: KernelManager) -> None:
        self._manager = manager
        self._session: Session = manager.session
        self._context = zmq.Context()
        ports = manager.get_connection_info()
        self._shell = self._connect(zmq.DEALER, ports["shell_port"])
        self._iopub = self._connect(zmq.SUB, ports["iopub_port"])
        self._iopub.setsockopt(zmq.SUBSCRIBE, b"")
        self.process = psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]

    def _connect(self, kind: int, port: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = 0  # what is lost is the kernel's doing, never ours
        socket.reconnect_ivl = 5
        socket.connect(f"tcp://127.0.0.1:{port}")
        return socket

    def wait_ready(self) -> None:
        """Until the kernel answers, and its status messages arrive here."""
        deadline = time.monotonic() + READY_TIMEOUT
        answered = subscribed = False
        while not (answered and subscribed):
            if time.monotonic() > deadline or not self._manager.is_alive():
                raise RuntimeError(f"kernel {self._manager.kernel_name!r} did not get ready")
            self._session.send(self._shell, "kernel_info_request", {})
            answered |= bool(self._shell.poll(200))
            subscribed |= bool(self._iopub.poll(200))
        self._drain()

    def _drain(self) -> None:
        """Read what late answers to earlier requests are still on their way."""
        for socket in (self._shell, self._iopub):
            while socket.poll(100):
                socket.recv_multipart()

    def send_cell(self, code: str) -> str:
        """Send a cell without waiting; returns the request's id."""
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        request = self._session.msg("execute_request", content)
        self._session.send(self._shell, request)
        return str(request["header"]["msg_id"])

    def run(self, code: str, timeout: float = 60.0) -> CellRun:
        """Run a cell to idle, or for at most ``timeout`` seconds."""
        run = CellRun(sent=time.monotonic())
        return self.finish(self.send_cell(code), run, timeout)

    def finish(self, request: str, run: CellRun, timeout: float = 60.0) -> CellRun:
        """Read the sockets until the cell of `send_cell` is idle."""
        parent = request.encode()
        raw: list[tuple[float, list[bytes]]] = []
        deadline = time.monotonic() + timeout
        while run.idle is None and (left := deadline - time.monotonic()) > 0:
            if not self._iopub.poll(int(left * 1000) + 1):
                break
            frames = self._iopub.recv_multipart()
            now = time.monotonic()
            raw.append((now, frames))
            start = frames.index(DELIMITER)
            if (
                b'"status"' in frames[start + 2]
                and parent in frames[start + 3]
                and json.loads(frames[start + 5])["execution_state"] == "idle"
            ):
                run.idle = now
        run.published = list(_published(raw, parent))
        run.reply = self._reply(request)
        return run

    def _reply(self, request: str) -> dict[str, Any]:
        while self._shell.poll(2000):
            _, frames = self._session.feed_identities(self._shell.recv_multipart())
            message = self._session.deserialize(frames)
            if message["parent_header"].get("msg_id") == request:
                content: dict[str, Any] = message["content"]
                return content
        return {}

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def cpu(self) -> float:
        """Seconds of CPU time the kernel's process has used; to the nanosecond on Linux."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        if tasks.is_dir():
            stats = (task / "schedstat" for task in tasks.iterdir())
            return sum(int(stat.read_text().split()[0]) for stat in stats) / 1e9
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def settled_memory(self) -> int:
        return settled_memory(self.process)

    def close(self) -> None:
        for socket in (self._shell, self._iopub):
            socket.close()
        self._context.term()


def _published(raw: list[tuple[float, list[bytes]]], parent: bytes) -> Iterator[Published]:
    for at, frames in raw:
        start = frames.index(DELIMITER)
        if parent not in frames[start + 3]:
            continue
        kind = json.loads(frames[start + 2])["msg_type"]
        if kind not in ("status", "execute_input"):
            content = frames[start + 5]
            yield Published(at, kind, json.loads(content), len(content))


def settled_memory(process: psutil.Process) -> int:
    """Resident bytes once they have stopped changing for `QUIET` seconds (at most five)."""
    deadline = time.monotonic() + 5
    last, since = process.memory_info().rss, time.monotonic()
    while time.monotonic() - since < QUIET and time.monotonic() < deadline:
        time.sleep(0.05)
        now = process.memory_info().rss
        if abs(now - last) > 65536:
            last, since = now, time.monotonic()
    return int(process.memory_info().rss)


@contextmanager
def running_kernel(name: str, **environment: str) -> Iterator[RunningKernel]:
    """Start one of `kernel_specs` and end it, with whatever it had started."""
    with TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        specs = KernelSpecManager(kernel_dirs=[str(write_kernel_specs(home))])
        specs.ensure_native_kernel = False
        manager = KernelManager(kernel_name=name, kernel_spec_manager=specs)
        manager.connection_file = str(home / "connection.json")
        env = clean_environment(home) | environment
        log = home / "kernel.log"
        with log.open("wb") as output:
            manager.start_kernel(env=env, cwd=directory, stdout=output, stderr=output)
        kernel = RunningKernel(manager)
        try:
            kernel.wait_ready()
            yield kernel
        except RuntimeError as error:
            error.add_note(f"The kernel's output ends:\n{_tail(log)}")
            raise
        finally:
            family = process_family(kernel.process)
            kernel.close()
            manager.shutdown_kernel()
            end_processes(family)


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


def process_family(process: psutil.Process) -> list[psutil.Process]:
    """The process and all that descend from it; empty if it is gone."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_processes(processes: list[psutil.Process], grace: float = 3.0) -> None:
    """Wait for processes to end, then kill those that are left."""
    for process in psutil.wait_procs(processes, timeout=grace)[1]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass


@dataclass(frozen=True)
class Start:
    """What starting a kernel cost: seconds from the process's start to its first
    ``kernel_info_reply``, and resident bytes once it has settled."""

    seconds: float
    memory: int


def measure_start(name: str) -> Start:
    """Start a kernel by its command, ask it for its info, and end it.

    The socket connects again every 2 ms: the usual 100 ms would round the result up.
    """
    with TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        file, ports = write_connection_file(str(home / "connection.json"))
        spec = kernel_specs()[name]
        command = [part.replace("{connection_file}", file) for part in spec["argv"]]
        environment = clean_environment(home) | spec["env"]
        session = Session(key=ports["key"].encode(), session=str(uuid4()))
        with zmq.Context() as context, context.socket(zmq.DEALER) as shell:
            shell.linger = 0
            shell.reconnect_ivl = 2
            shell.connect(f"tcp://127.0.0.1:{ports['shell_port']}")
            session.send(shell, "kernel_info_request", {})
            start = time.perf_counter()
            log = home / "kernel.log"
            with log.open("wb") as output:
                kernel = subprocess.Popen(
                    command, cwd=directory, env=environment, stdout=output, stderr=output
                )
            process = psutil.Process(kernel.pid)
            try:
                if not shell.poll(int(READY_TIMEOUT * 1000)):
                    raise RuntimeError(f"kernel {name!r} did not answer:\n{_tail(log)}")
                seconds = time.perf_counter() - start
                return Start(seconds, settled_memory(process))
            finally:
                family = process_family(process)
                kernel.kill()
                kernel.wait()
                end_processes(family, grace=1.0)
