"""The commands that agents run, as the user of a notebook gets at them: list, stop, attach.

Attaching is done by a program in any terminal of the same user on the same machine
(`acp-jupyter attach`), over a Unix socket of this process. The rules:

* The socket is made when somebody asks for it, under a name that cannot be guessed, in a new
  directory that only this user can enter; the peer's user is looked at besides. Both go with the
  process.
* Nothing can be typed into a command; all that a peer can ask for is its end.
* What a command writes reaches a terminal only as `rendering.terminal_text` lets it through.

The messages are lines of JSON. From the program: ``{"terminal": 3}`` at first, then ``{"stop":
true}`` any number of times. To it: ``{"title": …}``, ``{"text": …}`` any number of times and
``{"end": …}``, or ``{"error": …}``. All runs on the trio thread.
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

import trio

from ..errors import UsageError
from ..rendering.characters import one_line, visible
from ..rendering.terminal_text import TerminalText
from ..rendering.words import seconds
from .private_sockets import PrivateServer

if TYPE_CHECKING:
    from ..services.terminal_view import TerminalView
    from .host import Host

LONGEST_LINE: Final = 1000
"""Bytes of what a peer says at once."""

PEERS: Final = 16
"""Programs that are attached at the same time."""


class Terminals:
    """See the module.

    Args:
        host: whose agents' commands they are.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._programs = PrivateServer(host, self._answer, PEERS)

    def views(self) -> list[TerminalView]:
        """The commands of all agents, oldest first: those that run, and the last that ended."""
        found = [
            view
            for link in self._host.all_links()
            for session in (link.agent.sessions.values() if link.agent is not None else ())
            for view in session.terminals.views
        ]
        return sorted(found, key=lambda view: view.number)

    def find(self, number: int) -> TerminalView:
        """A command by its number.

        Raises:
            UsageError: there is none.
        """
        for view in self.views():
            if view.number == number:
                return view
        raise UsageError(
            f"there is no terminal {number} in this kernel", remedy="`%acp terminals` lists them."
        )

    def stop(self, number: int) -> TerminalView:
        """End a command, and all that it started.

        Raises:
            UsageError: there is no such command, or it does not run any more.
        """
        view = self.find(number)
        if not view.stop():
            raise UsageError(f"the command of terminal {number} has ended already")
        return view

    def attach(self, number: int) -> str:
        """The command line that shows a command's output in a terminal of this machine.

        Raises:
            UsageError: there is no such command.
        """
        self.find(number)
        path = self._programs.path()
        # -P: the folder that the terminal happens to be in is an agent's to write.
        argv = [sys.executable, "-P", "-m", "acp_jupyter.cli", "attach", path, str(number)]
        return shlex.join(argv)

    async def _answer(self, stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            requests = _Lines(stream)
            try:
                view = self.find(_number(await requests.read()))
            except UsageError as error:
                await _send(stream, error=str(error))
                return
            nursery.start_soon(_take_requests, requests, view, nursery.cancel_scope)
            await _show(stream, view)
            nursery.cancel_scope.cancel()


async def _show(stream: trio.SocketStream, view: TerminalView) -> None:
    """Send what a command has written and writes, to its end."""
    command = visible(shlex.join(view.argv))
    await _send(stream, title=f"$ {command}\n", place=one_line(view.cwd, 1000))
    text = TerminalText()
    position = 0
    while True:
        running = view.running
        data, lost = view.tail.since(position)
        position += lost + len(data)
        if lost:
            await _send(stream, text="[… output left out …]\r\n")
        shown = text.feed(data, final=not running)
        if shown:
            await _send(stream, text=shown)
        if not running and not data:
            break
        if not (data or lost or not view.running):
            await view.tail.wait()
    await _send(stream, end=ending(view))


def ending(view: TerminalView) -> str:
    """``exit status 0 after 3.2 s``, or that it runs."""
    if view.running:
        return f"running for {seconds(view.elapsed)}"
    how = f"ended by {view.signal}" if view.signal else f"exit status {view.exit_code}"
    return f"{how} after {seconds(view.elapsed)}"


async def _take_requests(lines: _Lines, view: TerminalView, scope: trio.CancelScope) -> None:
    while request := await lines.read():
        if request.get("stop") is True:
            view.stop()
    scope.cancel()  # the program has gone


class _Lines:
    """The lines of a peer, read as JSON objects; nothing at its end and from what is none."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._unread = b""

    async def read(self) -> dict[str, Any]:
        while b"\n" not in self._unread:
            data = await self._stream.receive_some(LONGEST_LINE)
            if not data or len(self._unread) > LONGEST_LINE:
                return {}
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        try:
            value = json.loads(line)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def _number(request: dict[str, Any]) -> int:
    number = request.get("terminal")
    return number if type(number) is int else 0


async def _send(stream: trio.SocketStream, **message: str) -> None:
    await stream.send_all(json.dumps(message).encode() + b"\n")
