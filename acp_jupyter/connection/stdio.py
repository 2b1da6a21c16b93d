"""An agent as a child process: its pipes, its standard error, its end.

`open_stdio` starts one and, whatever happens in its body, leaves none of its processes behind.

Rules:

- The agent is started by a guard (`guard`, POSIX), which reports on a status pipe and is commanded
  through a lifeline pipe. The guard's death, the kernel's death and ours all end the agent.
- Its exit status comes from the guard, never from SIGCHLD or a wait of ours: trio runs in a thread
  that is not the main one, and the kernel's other code may wait for children too.
- Reading ends when the agent ends, also while another process still holds its stdout open.
- stderr is always read, into a ring of bounded size; an agent that logs never blocks.
- Every descriptor made here is close-on-exec, but for those handed to the guard.
- One task reads, one task writes; more than one at a time is an error of the caller.

Windows has neither guard nor process groups; see `plain` for what is left there.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from ..errors import AgentError, AgentExited, AgentUnresponsive, UsageError
from .environment import redact, secret_values
from .spawn import READ_SIZE, TERM_GRACE, Pipes, not_found, spawn

__all__ = ["StdioTransport", "one_line", "open_stdio"]

STDERR_KEPT = 64 * 1024
"""Bytes of standard error kept; what an error shows of them is far less."""

STDERR_LINE = 500
"""Characters shown of one line of standard error."""

DRAIN_TIME = 0.3
"""Seconds after the agent's end in which its stdout and stderr may still reach their end."""

PIPE_LIMIT = 1024 * 1024
"""Bytes read after that: the most that a pipe holds (Linux). Any further ones are not the agent's.
"""

START_LIMIT = 10.0
"""Seconds for the guard to report; it takes some 20 ms on an idle machine."""

STOP_MARGIN = 0.8
"""Seconds beyond all graces after which closing no longer waits: KILL has long worked by then."""

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cn"})


class StderrRing:
    """The last `STDERR_KEPT` bytes of standard error."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def feed(self, data: bytes) -> None:
        self._kept += data
        excess = len(self._kept) - STDERR_KEPT
        if excess > 0:
            del self._kept[:excess]
            self._cut = True

    def tail(self, lines: int, secrets: frozenset[str]) -> str:
        """The last lines that are not blank, decoded, without secrets, colours and invisibles."""
        data = bytes(self._kept)
        if self._cut and b"\n" in data:
            data = data[data.index(b"\n") + 1 :]  # the first line lost its beginning
        # Colours go before secrets are looked for: one could be split by them.
        text = redact(_SGR.sub("", data.decode("utf-8", "replace")), secrets)
        found = [line.rstrip() for line in re.split(r"\r?\n", text) if line.strip()]
        return "\n".join(one_line(line) for line in found[-lines:]) if lines > 0 else ""


def one_line(text: str) -> str:
    """``text`` cut, with control, formatting and unassigned characters written as escapes."""
    if len(text) > STDERR_LINE:
        text = text[: STDERR_LINE - 1] + "…"
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in _INVISIBLE and char != "\t"
        else char
        for char in text
    )


class StdioTransport:
    """A running agent; made by `open_stdio`.

    Attributes:
        argv: its command and arguments.
        pid: its process id, which is also that of its session and process group (POSIX).
    """

    def __init__(
        self,
        argv: Sequence[str],
        process: subprocess.Popen[bytes] | trio.Process,
        pipes: Pipes,
        secrets: frozenset[str],
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        self.argv = tuple(argv)
        self.pid = 0  # until the guard tells
        self._process = process
        self._pipes = pipes
        self._secrets = secrets
        self._on_stderr = on_stderr
        self._stderr = StderrRing()
        self._stderr_ended = trio.Event()
        self._returncode: int | None = None
        self._survivors: list[str] = []
        self._left: list[str] = []
        self._started = trio.Event()
        self._failure: dict[str, object] | None = None
        self._exited = trio.Event()
        self._gone = trio.Event()
        self._drained_at = float("inf")
        self._drained = 0
        self._drain_scope: trio.CancelScope | None = None
        self._closing = False
        self._closed = trio.Event()

    def __repr__(self) -> str:
        state = "running" if self._returncode is None else f"exited with {self._returncode}"
        return f"<StdioTransport {self.argv[0]!r} pid={self.pid} {state}>"

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; ``None`` while it runs.

        If the guard itself was killed the status is lost; the agent was then killed as well, and
        this is ``-SIGKILL``.
        """
        return self._returncode

    def survivors(self) -> list[str]:
        """Command lines and pids of processes that lived on when the agent had ended.

        They have been or are being ended. Complete once `aclose` has returned.
        """
        return list(self._survivors)

    def left_running(self) -> list[str]:
        """Those of them that could not be ended, after `aclose`: normally none."""
        return list(self._left)

    def stderr_tail(self, lines: int = 20) -> str:
        """The last lines of standard error, safe to show: secrets redacted, controls escaped."""
        return self._stderr.tail(lines, self._secrets)

    async def receive_some(self) -> bytes:
        """What the agent has written, up to 256 KiB; ``b""`` at its end.

        Ends at most a second after the agent has, also if another process holds its stdout.
        """
        stream = self._pipes.stdout
        assert isinstance(stream, trio.lowlevel.FdStream)
        await trio.lowlevel.checkpoint()
        while True:
            try:
                return self._within_limit(os.read(stream.fileno(), READ_SIZE))
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno == errno.EBADF:  # closed by us
                    return b""
                raise
            # The deadline moves from never to soon when the agent's end is reported.
            with trio.CancelScope(deadline=self._drained_at) as self._drain_scope:
                try:
                    await trio.lowlevel.wait_readable(stream.fileno())
                except trio.ClosedResourceError:  # closed by us while waiting
                    return b""
            if self._drain_scope.cancelled_caught:
                return b""

    def _within_limit(self, data: bytes) -> bytes:
        """``data``, or ``b""`` when it can no longer be the agent's.

        Not a limit in time: whoever reads slowly must still get all that the agent wrote.
        """
        if trio.current_time() > self._drained_at:
            self._drained += len(data)
            if self._drained > PIPE_LIMIT:
                return b""
        return data

    async def send_all(self, data: bytes) -> None:
        """Write everything; blocks while the agent does not read.

        Raises:
            AgentExited: it ended, or closed its stdin.
        """
        try:
            await self._pipes.stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            with trio.move_on_after(DRAIN_TIME):  # the pipe breaks a moment before the report
                await self.wait_exited()
            raise AgentExited(
                f"agent {self._name!r} {self._describe_end()}.",
                remedy="Run the cell again to start the agent again.",
                stderr=self.stderr_tail(),
                returncode=self._returncode,
            ) from error

    async def wait_ended(self) -> None:
        """`wait_exited`, by the name that all transports have for it."""
        await self.wait_exited()

    def ending(self) -> str:
        """How it ended, see `transport.Transport`."""
        code = self._returncode
        if code is None:
            return "closed its standard output"
        return f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"

    @property
    def secrets(self) -> frozenset[str]:
        """See `transport.Transport`: all that it knows comes from the environment."""
        return frozenset()

    @property
    def failure(self) -> None:
        """Its status and its standard error say why it ended."""

    async def wait_exited(self) -> int:
        """Wait until the agent has ended and its standard error is read; returns the status."""
        await self._exited.wait()
        with trio.move_on_at(self._drained_at):
            await self._stderr_ended.wait()
        assert self._returncode is not None
        return self._returncode

    def kill(self) -> None:
        """End the whole tree with KILL, now; returns at once."""
        self._command(b"K")

    async def aclose(self, grace: float = 0.5) -> None:
        """Stop the agent and all that it started: close its stdin, then TERM, then KILL.

        Runs to its end also when cancelled, and within ``grace`` + 1.5 seconds. May be called
        again, also at the same time.

        Args:
            grace: seconds that the agent has to end by itself after its stdin was closed.
        """
        if self._closing:
            with trio.CancelScope(shield=True):
                await self._closed.wait()
            return
        self._closing = True
        limit = trio.current_time() + grace + TERM_GRACE + STOP_MARGIN
        with trio.CancelScope(shield=True, deadline=limit):
            await self._pipes.stdin.aclose()
            with trio.move_on_after(grace):
                await self._gone.wait()
            if not self._exited.is_set():
                self._command(b"T")
            await self._gone.wait()
        with trio.CancelScope(shield=True):
            await self._reap()
            await self._pipes.aclose()
        self._closed.set()

    @property
    def _name(self) -> str:
        return os.path.basename(self.argv[0])

    def _describe_end(self) -> str:
        return "closed its standard input" if self._returncode is None else self.ending()

    def _command(self, command: bytes) -> None:
        if self._pipes.lifeline >= 0:
            try:
                os.write(self._pipes.lifeline, command)
            except OSError:
                pass  # the guard is gone, and what it guarded with it

    async def _reap(self) -> None:
        """Wait for the guard itself, which ends right after its last report."""
        self._pipes.cut_lifeline()
        await self._await_process(1.0)
        if self._process.poll() is None:  # stopped, or starved: the agent's PDEATHSIG follows
            self._process.kill()
            await self._await_process(1.0)
        if self._returncode is None:
            self._lose_guard()

    async def _await_process(self, limit: float) -> None:
        with trio.move_on_after(limit):
            while self._process.poll() is None:  # noqa: ASYNC110  # a process tells no event
                await trio.sleep(0.002)

    def _set_exited(self, returncode: int) -> None:
        self._returncode = returncode
        self._drained_at = trio.current_time() + DRAIN_TIME
        if self._drain_scope is not None:
            self._drain_scope.deadline = self._drained_at
        self._exited.set()

    def _lose_guard(self) -> None:
        """The guard ended without a report: end what can be reached, the agent's own group."""
        self._started.set()
        if self._returncode is None:
            try:
                if sys.platform != "win32" and self.pid:
                    os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it went with the guard
            self._set_exited(-9)
        self._gone.set()

    def _heed(self, report: dict[str, object]) -> None:
        """Apply one line of the guard's."""
        match report:
            case {"event": "started", "pid": int(pid)}:
                self.pid = pid
                self._started.set()
            case {"event": "failed"}:
                self._failure = report
                self._set_exited(127)  # what a shell answers for a command not found
                self._gone.set()
            case {"event": "exited", "returncode": int(code)}:
                self._set_exited(code)
            case {"event": "survivors", "processes": list(names)}:
                self._survivors = [self._safe(name) for name in names]
            case {"event": "gone", "left": list(names)}:
                self._left = [self._safe(name) for name in names]
                self._gone.set()

    def _safe(self, name: object) -> str:
        return one_line(redact(str(name), self._secrets))

    async def _watch_status(self) -> None:
        """Task: apply the guard's reports. Not cancelled, because closing depends on it."""
        assert self._pipes.status is not None
        buffer = b""
        with trio.CancelScope(shield=True):
            try:
                while data := await self._pipes.status.receive_some():
                    *lines, buffer = (buffer + data).split(b"\n")
                    for line in lines:
                        self._heed(json.loads(line))
            except trio.ClosedResourceError:
                return
            if not self._gone.is_set():
                self._lose_guard()
            self._started.set()

    async def _drain_stderr(self) -> None:
        """Task: read standard error until it, or the transport, is closed."""
        with trio.CancelScope(shield=True):
            try:
                while data := await self._pipes.stderr.receive_some(READ_SIZE):
                    self._stderr.feed(bytes(data))
                    if self._on_stderr is not None:
                        self._on_stderr(bytes(data))
            except trio.ClosedResourceError:
                pass
            self._stderr_ended.set()

    async def _wait_started(self, cwd: str) -> None:
        with trio.move_on_after(START_LIMIT):
            await self._started.wait()
        if self._failure is not None:
            raise not_found(self.argv, cwd, self._failure)
        if not self._started.is_set():
            raise AgentUnresponsive(
                f"agent {self._name!r} could not be started within {START_LIMIT:.0f} seconds.",
                remedy="The machine is very busy, or out of memory; try again.",
            )
        if not self.pid:
            raise AgentError(
                f"the process that watches over agent {self._name!r} ended before it started it.",
                remedy="Its standard error says why.",
                stderr=self.stderr_tail(),
            )


@asynccontextmanager
async def open_stdio(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    on_stderr: Callable[[bytes], None] | None = None,
) -> AsyncIterator[StdioTransport]:
    """Start an agent; on leaving, `StdioTransport.aclose` ends it and all that it started.

    Args:
        argv: command and arguments; the command is looked for on the PATH in ``env``.
        cwd: its working directory.
        env: its whole environment, see `environment.child_environment`.
        on_stderr: called in trio's thread with each piece of standard error; must not raise.

    Raises:
        AgentNotFound: no such command, not executable, or no such directory.
        AgentError: no process could be started at all.
        UsageError: no command, or one that no system can execute.
    """
    if not argv:
        raise UsageError("no command was given.", remedy="Name the agent's command.")
    secrets = secret_values(env) | secret_values(os.environ)
    if sys.platform == "win32":  # pragma: no cover
        from .plain import start_plain

        transport: StdioTransport = await start_plain(argv, cwd, env, secrets, on_stderr)
    else:
        process, pipes = spawn(argv, cwd, env)
        transport = StdioTransport(argv, process, pipes, secrets, on_stderr)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport._watch_status)
            nursery.start_soon(transport._drain_stderr)
            try:
                await transport._wait_started(cwd)
                yield transport
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: BLE001  # raised again below
                failure = error
            finally:
                await transport.aclose()
    finally:
        # Outside of the nursery, which would wrap the body's own error in a group.
        if failure is not None:
            raise failure
