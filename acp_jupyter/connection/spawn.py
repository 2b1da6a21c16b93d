"""Starting a guard with an agent under it, and saying why an agent did not start.

The five pipes are made here: the agent's stdin, stdout and stderr, which the guard hands on, and
the guard's own status pipe and lifeline. POSIX only.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import trio

from ..errors import AgentError, AgentNotFound, UsageError

__all__ = [
    "READ_SIZE",
    "TERM_GRACE",
    "Pipes",
    "guard_command",
    "new_pipes",
    "not_found",
    "spawn",
]

READ_SIZE = 256 * 1024
"""Bytes asked of a pipe at once, and the size asked for the pipe itself."""

TERM_GRACE = 0.5
"""Seconds between TERM and KILL."""

GUARD = str(Path(__file__).with_name("guard.py"))


class Pipes:
    """Our ends of an agent's pipes. ``status`` and ``lifeline`` only where there is a guard."""

    def __init__(
        self,
        stdin: trio.abc.SendStream,
        stdout: trio.abc.ReceiveStream,
        stderr: trio.abc.ReceiveStream,
        status: trio.abc.ReceiveStream | None = None,
        lifeline: int = -1,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.status = status
        self.lifeline = lifeline

    def cut_lifeline(self) -> None:
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1

    async def aclose(self) -> None:
        self.cut_lifeline()
        for stream in (self.stdin, self.stdout, self.stderr, self.status):
            if stream is not None:
                await stream.aclose()


class MakePipe(Protocol):
    """Makes a pipe: our end, and the other process's."""

    def __call__(self, *, we_read: bool) -> tuple[int, int]: ...


@contextmanager
def new_pipes() -> Iterator[tuple[MakePipe, ExitStack]]:
    """For starting a process: makes its pipes, and closes the process's ends when it has started.

    Our ends are closed too, unless the caller keeps them with ``pop_all`` of the stack.
    """
    with ExitStack() as ours, ExitStack() as theirs:

        def pipe(*, we_read: bool) -> tuple[int, int]:
            read_end, write_end = os.pipe()
            our_end, their_end = (read_end, write_end) if we_read else (write_end, read_end)
            ours.callback(os.close, our_end)
            theirs.callback(os.close, their_end)
            return our_end, their_end

        yield pipe, ours


def guard_command(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], lifeline: int, status: int
) -> list[str]:
    """The command line of a guard that starts ``argv`` in ``cwd`` (see `guard`)."""
    # In the C locale the interpreter sets LC_CTYPE for itself (PEP 538) and would pass it on; what
    # is guarded gets exactly the environment it was given.
    drop = "" if "LC_CTYPE" in env else "LC_CTYPE"
    numbers = [str(number) for number in (lifeline, status, os.getpid())]
    guard = [sys.executable, "-I", "-S", GUARD]
    return [*guard, *numbers, str(TERM_GRACE), drop, cwd, "--", *argv]


def spawn(
    argv: Sequence[str], cwd: str, env: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], Pipes]:
    """Start the guard, which starts the agent. POSIX."""
    with new_pipes() as (pipe, ours):
        try:
            stdin, agent_stdin = pipe(we_read=False)
            stdout, agent_stdout = pipe(we_read=True)
            stderr, agent_stderr = pipe(we_read=True)
            status, guard_status = pipe(we_read=True)
            lifeline, guard_lifeline = pipe(we_read=False)
            _enlarge(stdout, stderr)
            process = subprocess.Popen(
                guard_command(argv, cwd, env, guard_lifeline, guard_status),
                stdin=agent_stdin,
                stdout=agent_stdout,
                stderr=agent_stderr,
                pass_fds=(guard_lifeline, guard_status),
                start_new_session=True,
                env=dict(env),
            )
        except ValueError as error:  # a null character, in the command, directory or environment
            raise UsageError(
                f"agent {argv[0]!r} cannot be started: {error}.",
                remedy="Check its command, working directory and environment.",
            ) from error
        except OSError as error:
            raise AgentError(
                f"no process could be started for agent {argv[0]!r}: {error.strerror}.",
                remedy="The machine may be out of processes, files or memory, or the command or "
                "environment is too long.",
            ) from error
        ours.pop_all()
        stream = trio.lowlevel.FdStream
        pipes = Pipes(stream(stdin), stream(stdout), stream(stderr), stream(status), lifeline)
        return process, pipes


def _enlarge(*pipes: int) -> None:
    """Fewer, larger reads where the system can; a limit that forbids it costs only speed."""
    if sys.platform == "linux":
        import fcntl

        for fd in pipes:
            try:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, READ_SIZE)
            except OSError:
                return


def not_found(argv: Sequence[str], cwd: str, failure: Mapping[str, object]) -> AgentNotFound:
    """The error for a command that could not be executed, with what to do about it."""
    command, number, reason = argv[0], failure["errno"], str(failure["message"]).lower()
    if failure["what"] == "cwd":
        return AgentNotFound(
            f"the working directory {cwd!r} of agent {command!r} cannot be used: {reason}.",
            remedy="Create it, or name another one (--cwd).",
        )
    if number == errno.ENOENT and os.path.exists(os.path.join(cwd, command)) and "/" in command:
        return AgentNotFound(
            f"the command {command!r} exists, but not the interpreter named in its first line.",
            remedy="Install that interpreter, or correct the line that starts with #!.",
        )
    if number == errno.ENOENT:
        message = f"the command {command!r} was not found."
    else:
        message = f"the command {command!r} cannot be executed: {reason}."
    return AgentNotFound(message, remedy=_remedy(command, number, alone=len(argv) == 1))


def _remedy(command: str, number: object, *, alone: bool) -> str:
    if alone and " " in command.strip():
        return "Give the command and its arguments as separate words."
    match number:
        case errno.ENOENT if "/" in command:
            return "Check the path, or install the agent."
        case errno.ENOENT:
            return (
                "Install it, or give its full path. It was looked for on the kernel's PATH, which "
                "may differ from your terminal's."
            )
        case errno.EACCES:
            return "Name a file, and make it executable (chmod +x)."
        case errno.ENOEXEC:
            return "A script needs a first line such as #!/usr/bin/env python3."
        case _:
            return "Try the same command in a terminal."
