"""The agent's terminal requests: ``terminal/create`` and what follows it.

Rules:

- Nothing starts before the user, or the policy, has said yes to it: the very list of arguments, the
  directory and the variables that it will run with.
- There is no shell between, but for a request that is a whole command line in ``command`` with no
  ``args``; that runs as ``/bin/sh -c`` and is labelled so.
- Variables that make a program load other code, or find other programs, are refused.
- The working directory is below the session's roots, and is opened without races.
- The tail of the output is kept, and can be read until the terminal is released; what is shown to
  the user stays.
- Terminal ids are ours and opaque; no other text from the agent names anything.
- A command and all that it started end with the command, with ``kill``, with the session and with
  this process (`commands`).
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import trio

from ..errors import Refusal
from .commands import STOP_LIMIT, Command, start_command
from .roots import Located, Roots
from .terminal_view import ID_PREFIX, SHOWN_LIMIT, Tail, TerminalView

__all__ = ["SHOWN_LIMIT", "CommandRequest", "Tail", "TerminalService", "TerminalView"]

OUTPUT_LIMIT: Final = 2**20
"""Bytes of output kept for the agent at most."""

TERMINALS: Final = 32
"""Terminals of a session that are not released, or still run."""

VIEWS: Final = 100
"""Terminals of a session that the user can list and look at, also when they were released."""

DRAIN_TIME: Final = 0.2
"""Seconds after a command's end in which its output may still reach its own: a child of the
command may hold the pipe open."""

ID_LIMIT: Final = 1024
"""Characters of an id; a longer one is not even looked up."""

VALUE_SHOWN: Final = 200
"""Characters of a variable's value in a question."""

READ_SIZE: Final = 2**16

_SHELL_SYNTAX: Final = re.compile(r"[\s|&;<>()$`\\\"'*?\[#~!{}]")

# They make programs load other code, find other programs, or run something at their start.
_REFUSED_NAME: Final = re.compile(
    r"(?:LD_|DYLD_|PYTHON|GIT_|PERL5|RUBY|BASH_FUNC_|NPM_CONFIG_|LUA_|GLIBC_|MALLOC_).*"
    r"|PATH|IFS|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|ZDOTDIR|CDPATH"
    r"|NODE_OPTIONS|NODE_PATH|PERLLIB|GEM_PATH|GEM_HOME|CLASSPATH|_?JAVA_(?:TOOL_)?OPTIONS"
    r"|JDK_JAVA_OPTIONS|GCONV_PATH|LOCPATH|LESSOPEN|LESSCLOSE|SSH_ASKPASS|SUDO_ASKPASS|PWD"
)

# Ids are never used twice, so that one of another session means nothing here.
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A question to the user: may the agent run this?

    Attributes:
        argv: the command and its arguments, exactly as they will be executed.
        shell: it is a command line for a shell: the last of ``argv``.
        cwd: absolute working directory.
        env: names and values the agent sets, beyond the session's environment.
        title: one line for the user that names the variables too.
    """

    argv: tuple[str, ...]
    shell: bool
    cwd: str
    env: tuple[tuple[str, str], ...]
    title: str


class _Terminal:
    """A terminal as the service knows it.

    Attributes:
        session_id: of the request that made it.
        limit: bytes of output the agent asked for.
        flat: the agent speaks the older dialect, whose answers have ``exitCode`` at their top.
        exited: set when the command has ended and its output is complete.
    """

    def __init__(
        self, request: CommandRequest, *, session_id: object, limit: int, flat: bool
    ) -> None:
        self.request = request
        self.session_id = session_id
        self.limit = limit
        self.flat = flat
        self.tail = Tail(min(OUTPUT_LIMIT, max(limit, SHOWN_LIMIT)))
        self.view = TerminalView(f"{ID_PREFIX}{next(_numbers)}", request, self.tail)
        self.released = False
        self.exited = trio.Event()
        self.command: Command | None = None

    def finish(self, returncode: int) -> None:
        """The command has ended; again does nothing."""
        if not self.exited.is_set():
            if returncode < 0:
                self.view.signal = _signal_name(-returncode)
            else:
                self.view.exit_code = returncode
            self.view.set_running(None)
            self.exited.set()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"


class TerminalService:
    """Serves one session's terminal requests.

    Args:
        roots: where commands may work; the first one is the default.
        environment: what commands run with, beside what the agent sets.
        ask: puts a command to the user; ``True`` is a yes.
        nursery: in which the tasks that follow the commands run; outlives the service's use.
        on_change: called on trio's thread when a terminal has started, written, ended or been
            released. It may come often.

    Attributes:
        flat: the agent is known to speak the older dialect.
    """

    def __init__(
        self,
        roots: Roots,
        environment: Mapping[str, str],
        *,
        ask: Callable[[CommandRequest], Awaitable[bool]],
        nursery: trio.Nursery,
        on_change: Callable[[TerminalView], None],
    ) -> None:
        self._roots = roots
        self._environment = dict(environment)
        self.flat = False
        self._ask = ask
        self._nursery = nursery
        self._on_change = on_change
        self._terminals: dict[str, _Terminal] = {}
        self._views: deque[TerminalView] = deque(maxlen=VIEWS)
        self._starting = 0
        self._closed = False

    @property
    def running(self) -> list[TerminalView]:
        """The terminals whose command runs, oldest first."""
        return [each.view for each in self._terminals.values() if each.view.running]

    @property
    def views(self) -> list[TerminalView]:
        """The last `VIEWS` terminals, oldest first, running or not."""
        return list(self._views)

    async def create(self, params: dict[str, Any]) -> dict[str, Any]:
        """``terminal/create``: returns ``{"terminalId": id}`` once the command runs.

        Raises:
            Refusal: it is not allowed, or cannot be started.
        """
        env, flat = _read_environment(params.get("env"))
        limit, flat_limit = _read_limit(params)
        cwd = params.get("cwd")
        located = self._roots.locate(self._roots.paths[0] if cwd is None else cwd)
        argv, shell = _read_command(params)
        request = CommandRequest(argv, shell, located.path, env, _title(shell, env))
        if len(self._terminals) + self._starting >= TERMINALS:
            raise Refusal(f"{TERMINALS} terminals are in use; release one first")
        terminal = _Terminal(
            request,
            session_id=params.get("sessionId"),
            limit=limit,
            flat=self.flat or flat or flat_limit,
        )
        self._starting += 1
        try:
            await trio.to_thread.run_sync(self._check_directory, located)
            if not await self._ask(request):
                raise Refusal("the command was not allowed to run")
            self._check_open()
            await self._nursery.start(self._follow, terminal, located)
        finally:
            self._starting -= 1
        return {"terminalId": terminal.view.terminal_id}

    async def output(self, params: dict[str, Any]) -> dict[str, Any]:
        """``terminal/output``: what the command has written, and how it ended if it has.

        Raises:
            Refusal: there is no such terminal.
        """
        terminal = self._find(params)
        await trio.lowlevel.checkpoint()
        exited = terminal.exited.is_set()
        text, truncated = terminal.tail.text(terminal.limit, final=exited)
        status = terminal.view.exit_status() if exited else None
        result = {"output": text, "truncated": truncated, "exitStatus": status}
        if terminal.flat and status is not None:
            result.update(status)
        return result

    async def wait_for_exit(self, params: dict[str, Any]) -> dict[str, Any]:
        """``terminal/wait_for_exit``: returns when the command has ended; may be cancelled.

        Raises:
            Refusal: there is no such terminal.
        """
        terminal = self._find(params)
        await terminal.exited.wait()
        return terminal.view.exit_status()

    async def kill(self, params: dict[str, Any]) -> dict[str, Any]:
        """``terminal/kill``: end the command and what it started; its output can still be read.

        Raises:
            Refusal: there is no such terminal.
        """
        terminal = self._find(params)
        if terminal.command is not None:
            terminal.command.terminate()
        with trio.move_on_after(STOP_LIMIT):  # so that the next request sees how it ended
            await terminal.exited.wait()
        return {}

    async def release(self, params: dict[str, Any]) -> dict[str, Any]:
        """``terminal/release``: as `kill`, and forget the id; what the user sees stays.

        Raises:
            Refusal: there is no such terminal.
        """
        terminal = self._find(params)
        terminal.released = True
        if terminal.command is not None:
            terminal.command.terminate()
        else:
            self._forget(terminal)
        self._on_change(terminal.view)
        await trio.lowlevel.checkpoint()
        return {}

    async def end(self, terminal_ids: Collection[str]) -> None:
        """End the commands of these terminals that still run, with what they started."""
        terminals = [each for ident, each in self._terminals.items() if ident in terminal_ids]
        for terminal in terminals:
            if terminal.command is not None:
                terminal.command.terminate()
        with trio.move_on_after(STOP_LIMIT):
            for terminal in terminals:
                await terminal.exited.wait()

    def stop(self, terminal_id: str) -> bool:
        """The user ends a command; whether it ran."""
        return any(view.stop() for view in self._views if view.terminal_id == terminal_id)

    async def aclose(self) -> None:
        """End all commands, at once; nothing starts any more."""
        self._closed = True
        terminals = list(self._terminals.values())
        for terminal in terminals:
            if terminal.command is not None:
                terminal.command.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_LIMIT):
            for terminal in terminals:
                await terminal.exited.wait()

    def _find(self, params: dict[str, Any]) -> _Terminal:
        ident = params.get("terminalId")
        known = isinstance(ident, str) and len(ident) <= ID_LIMIT
        terminal = self._terminals.get(str(ident)) if known else None
        own = terminal is not None and terminal.session_id == params.get("sessionId")
        if terminal is None or terminal.released or not own:
            raise Refusal("there is no such terminal in this session")
        return terminal

    def _forget(self, terminal: _Terminal) -> None:
        if terminal.released and terminal.command is None:
            self._terminals.pop(terminal.view.terminal_id, None)
            terminal.tail.cut(SHOWN_LIMIT)  # only the user can look at it now

    def _check_open(self) -> None:
        if self._closed:
            raise Refusal("the session has ended")

    def _check_directory(self, located: Located) -> None:
        """Before the user is asked: a question about what cannot be is a nuisance."""
        os.close(self._roots.open_directory(located))

    def _start(self, terminal: _Terminal, located: Located) -> Command:
        directory = self._roots.open_directory(located)
        try:
            return start_command(
                terminal.request.argv,
                directory=directory,
                resolved=located.resolved,
                env={**self._environment, **dict(terminal.request.env)},
            )
        finally:
            os.close(directory)

    async def _follow(
        self, terminal: _Terminal, located: Located, task_status: trio.TaskStatus[None]
    ) -> None:
        """Task: one command, from its start to the end of all that it started."""
        command = self._start(terminal, located)
        try:
            await command.wait_started()
            self._check_open()
            terminal.command = command
            terminal.view.set_running(command.terminate)
            self._terminals[terminal.view.terminal_id] = terminal
            self._views.append(terminal.view)
            self._on_change(terminal.view)
            task_status.started()
            terminal.finish(await self._read_to_end(terminal, command))
            self._on_change(terminal.view)
            await command.wait_gone()
        finally:
            terminal.command = None
            await command.aclose()
            started = terminal.view.terminal_id in self._terminals
            if started and terminal.view.running:  # this task was cancelled
                terminal.finish(-signal.SIGKILL)
                self._on_change(terminal.view)
            self._forget(terminal)

    async def _read_to_end(self, terminal: _Terminal, command: Command) -> int:
        ended = trio.Event()

        async def read() -> None:
            while data := await command.output.receive_some(READ_SIZE):
                terminal.tail.feed(data)
                self._on_change(terminal.view)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            returncode = await command.wait_exited()
            with trio.move_on_after(DRAIN_TIME):
                await ended.wait()
            nursery.cancel_scope.cancel()
        return returncode


# -- reading the request --------------------------------------------------------------------------


def _read_command(params: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
    """The arguments to execute, and whether they are a shell with a command line."""
    command, args = params.get("command"), params.get("args")
    args = [] if args is None else args
    if not isinstance(args, list) or not all(_is_plain(word) for word in args):
        raise Refusal("args must be a list of strings")
    if not isinstance(command, str) or not _is_plain(command) or not command.strip():
        raise Refusal("command must be a non-empty string")
    if not args and _SHELL_SYNTAX.search(command):
        return ("/bin/sh", "-c", command), True
    return (command, *args), False


def _is_plain(word: object) -> bool:
    """Whether it is text that a process can be given."""
    if type(word) is not str or "\0" in word:
        return False
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_environment(env: object) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Names and values, and whether they came as a map (the older dialect)."""
    flat = type(env) is dict
    if env is None:
        pairs = []
    elif isinstance(env, dict):
        pairs = list(env.items())
    elif isinstance(env, list) and all(isinstance(each, dict) for each in env):
        pairs = [(each.get("name"), each.get("value")) for each in env]
    else:
        raise Refusal("env must be a list of objects with name and value")
    for name, value in pairs:
        if not (_is_plain(name) and _is_plain(value) and name) or "=" in name:
            raise Refusal("env must be a list of objects with name and value")
        if _REFUSED_NAME.fullmatch(name.upper()):
            raise Refusal(
                f"the variable {name[:40]} may not be set: it decides what other code programs "
                "load or run; leave it out"
            )
    return tuple(dict(pairs).items()), flat


def _read_limit(params: dict[str, Any]) -> tuple[int, bool]:
    """Bytes of output to keep, and whether the older name was used."""
    flat = "outputByteLimit" not in params and "outputBytesLimit" in params
    limit = params.get("outputBytesLimit" if flat else "outputByteLimit")
    if limit is None:
        return OUTPUT_LIMIT, flat
    if type(limit) is not int or limit < 0:
        raise Refusal("outputByteLimit must be a whole number from 0")
    return min(limit, OUTPUT_LIMIT), flat


def _title(shell: bool, env: tuple[tuple[str, str], ...]) -> str:
    title = "run a shell command line" if shell else "run a command"
    if not env:
        return title
    settings = []
    for name, value in env:
        shown = shlex.quote(value[:VALUE_SHOWN])
        more = f"… ({len(value)} characters)" if len(value) > VALUE_SHOWN else ""
        settings.append(f"{name}={shown}{more}")
    return f"{title} with {' '.join(settings)}"
