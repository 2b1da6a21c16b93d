"""A command under a guard, with its output in one pipe; what `terminals` starts.

The guard is the same that agents run under (`connection.guard`): the command has a session and
process group of its own, and all that it started goes when it ends, when it is killed and when
this process goes, however it goes. POSIX only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from ..connection.spawn import guard_command, new_pipes
from ..errors import ErrorCode, Refusal

__all__ = ["Command", "start_command"]

STOP_LIMIT: Final = 3.0
"""Seconds after which the guard is not waited for any more: beyond its own grace and KILLs."""


class Command:
    """A running command; made by `start_command`.

    Attributes:
        output: its standard output and error, as they come.
    """

    def __init__(self, guard: subprocess.Popen[bytes], output: int, status: int, lifeline: int):
        self.output = trio.lowlevel.FdStream(output)
        self._guard = guard
        self._status = trio.lowlevel.FdStream(status)
        self._unread = b""
        self._lifeline = lifeline
        self._pid = 0

    async def wait_started(self) -> None:
        """Wait until the command runs.

        Raises:
            Refusal: it cannot be executed.
        """
        report = await self._next_report()
        match report:
            case {"event": "started", "pid": int(pid)}:
                self._pid = pid
            case {"event": "failed", "what": str(what), "message": str(message)}:
                subject = "the working directory" if what == "cwd" else "the command"
                raise Refusal(f"{subject} cannot be used: {message.lower()}")
            case _:
                raise Refusal("the command could not be started", code=ErrorCode.INTERNAL_ERROR)

    async def wait_exited(self) -> int:
        """Wait until the command itself has ended; the status, negative for a signal."""
        while (report := await self._next_report()) is not None:
            match report:
                case {"event": "exited", "returncode": int(code)}:
                    return code
        # The guard was killed, and the command went with it. What the guard cannot reach any more
        # is at least in the command's group.
        assert self._pid, "wait_started comes first"
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        return -signal.SIGKILL

    async def wait_gone(self) -> None:
        """Wait until all that it started has ended."""
        while await self._next_report() is not None:
            pass

    def terminate(self) -> None:
        """End the whole tree: TERM, and KILL after `TERM_GRACE` seconds. Returns at once."""
        self._tell(b"T")

    def kill(self) -> None:
        """End the whole tree now. Returns at once."""
        self._tell(b"K")

    async def aclose(self) -> None:
        """End what still runs and let go of everything; also when cancelled."""
        self.kill()
        os.close(self._lifeline)
        self._lifeline = -1
        with trio.CancelScope(shield=True):
            with trio.move_on_after(STOP_LIMIT):
                await self.wait_gone()
            await self.output.aclose()
            await self._status.aclose()
            with trio.move_on_after(1.0):
                while self._guard.poll() is None:  # noqa: ASYNC110  # it tells no event
                    await trio.sleep(0.002)

    def _tell(self, command: bytes) -> None:
        if self._lifeline >= 0:
            try:
                os.write(self._lifeline, command)
            except OSError:
                pass  # the guard is gone, and what it guarded with it

    async def _next_report(self) -> dict[str, Any] | None:
        """The guard's next report; ``None`` when it has ended."""
        while b"\n" not in self._unread:
            data = await self._status.receive_some()
            if not data:
                return None
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        report: dict[str, Any] = json.loads(line)
        return report


def start_command(
    argv: Sequence[str], *, directory: int, resolved: str, env: Mapping[str, str]
) -> Command:
    """Start a command's guard.

    Args:
        argv: the command, looked for on the PATH in ``env``, and its arguments.
        directory: descriptor of its working directory, opened without races.
        resolved: path of the same, for where a descriptor cannot be gone to.
        env: its whole environment.

    Raises:
        Refusal: no process could be started.
    """
    if os.name != "posix":
        raise Refusal("commands cannot be run on this system", code=ErrorCode.METHOD_NOT_FOUND)
    by_number = f"/proc/self/fd/{directory}"
    with new_pipes() as (pipe, ours):
        try:
            output, command_output = pipe(we_read=True)
            status, guard_status = pipe(we_read=True)
            lifeline, guard_lifeline = pipe(we_read=False)
            guard = subprocess.Popen(
                guard_command(argv, ".", env, guard_lifeline, guard_status),
                stdin=subprocess.DEVNULL,
                stdout=command_output,
                stderr=command_output,
                cwd=by_number if os.path.exists(by_number) else resolved,
                pass_fds=(guard_lifeline, guard_status),
                start_new_session=True,
                env={**env, "PWD": resolved},
            )
        except OSError as error:  # out of processes or memory; arguments too long
            reason = (error.strerror or "unknown error").lower()
            raise Refusal(
                f"no process could be started: {reason}", code=ErrorCode.INTERNAL_ERROR
            ) from error
        ours.pop_all()
        return Command(guard, output, status, lifeline)
