"""An agent as a plain child process, for systems without process groups and guards: Windows.

What is missing against `stdio`: an agent that ignores the end of its stdin outlives a kernel that
is killed, and processes that outlive the agent are neither found nor ended. To end a running
agent, ``taskkill /T`` takes the processes below it along.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

from ..errors import AgentNotFound, UsageError
from .spawn import READ_SIZE, Pipes, not_found
from .stdio import StdioTransport

__all__ = ["PlainTransport", "start_plain"]

# Out of reach of the interrupt that is meant for the kernel.
OWN_GROUP: dict[str, Any] = {"start_new_session": True}
if sys.platform == "win32":
    OWN_GROUP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


class PlainTransport(StdioTransport):
    """A `StdioTransport` without a guard."""

    _watching: trio.CancelScope | None = None

    async def receive_some(self) -> bytes:
        data: bytes | bytearray = b""
        with trio.CancelScope(deadline=self._drained_at) as self._drain_scope:
            try:
                data = await self._pipes.stdout.receive_some(READ_SIZE)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                pass
        return bytes(data)

    def _command(self, command: bytes) -> None:  # noqa: ARG002  # no gentler way to end it here
        if sys.platform == "win32":
            # Not waited for: it takes a moment, and trio's thread serves every agent.
            subprocess.Popen(
                ["taskkill", "/F", "/T", "/PID", str(self.pid)],  # noqa: S607  # as documented
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        else:
            self._process.kill()

    async def _watch_status(self) -> None:
        assert isinstance(self._process, trio.Process)
        self._started.set()
        with trio.CancelScope(shield=True) as self._watching:
            self._set_exited(await self._process.wait())
            self._gone.set()

    async def _reap(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            await self._await_process(1.0)
        if self._watching is not None:
            self._watching.cancel()


async def start_plain(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    secrets: frozenset[str],
    on_stderr: Callable[[bytes], None] | None,
) -> PlainTransport:
    """Start the agent; called by `stdio.open_stdio`, which closes it.

    Raises:
        AgentNotFound: no such command, not executable, or no such directory.
        UsageError: a null character in command, directory or environment.
    """
    try:
        process = await trio.lowlevel.open_process(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            **OWN_GROUP,
        )
    except ValueError as error:
        raise UsageError(
            f"agent {argv[0]!r} cannot be started: {error}.",
            remedy="Check its command, working directory and environment.",
        ) from error
    except OSError as error:
        raise _not_started(argv, cwd, error) from error
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    pipes = Pipes(process.stdin, process.stdout, process.stderr)
    transport = PlainTransport(argv, process, pipes, secrets, on_stderr)
    transport.pid = process.pid
    return transport


def _not_started(argv: Sequence[str], cwd: str, error: OSError) -> AgentNotFound:
    what = "command" if os.path.isdir(cwd) else "cwd"
    fields = {"what": what, "errno": error.errno or errno.ENOENT, "message": error.strerror}
    return not_found(argv, cwd, fields)
