"""``acp-jupyter attach``: the output of a command that an agent runs, live in this terminal.

Ctrl-C stops the command, Ctrl-D only ends the look at it; nothing can be typed into it. The other
end is `host.terminals`, in the kernel. POSIX only.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any, Final

from ..errors import ACPError
from .kernel_socket import connect

READ_SIZE: Final = 2**16


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    if os.name != "posix":
        return  # agents run no commands there either
    attach = commands.add_parser(
        "attach",
        help="show a command that an agent runs, live in this terminal",
        description="Show the output of a command that an agent runs, as it comes. "
        "`%acp terminals attach N` in the notebook says with which arguments. "
        "Ctrl-C stops the command, Ctrl-D only stops looking.",
    )
    attach.add_argument("socket", help="of the kernel")
    attach.add_argument("number", type=int, help="of the terminal")
    attach.set_defaults(run=_attach)


def _attach(arguments: argparse.Namespace) -> int:
    peer = connect(
        arguments.socket,
        "Has it ended, or does it run on another machine? "
        "`%acp terminals attach N` in the notebook gives a new command line.",
    )
    with peer:
        before = signal.signal(signal.SIGINT, lambda *_: _ask(peer, stop=True))
        try:
            _ask(peer, terminal=arguments.number)
            return _show(peer)
        finally:
            signal.signal(signal.SIGINT, before)
            _write("\x1b[0m")  # whatever the command has left set


def _show(peer: socket.socket) -> int:
    """Write what comes, to the end or until the user looks away."""
    for message in _messages(peer):
        match message:
            case {"error": str(error)}:
                raise ACPError(error)
            case {"title": str(title), "place": str(place)}:
                _write(f"\x1b[1m{title}\x1b[0m")
                _write(f"\x1b[2min {place} · Ctrl-C stops it, Ctrl-D leaves\x1b[0m\n")
            case {"text": str(text)}:
                _write(text)
            case {"end": str(end)}:
                _write(f"\x1b[0m\n[{end}]\n")
                return 0
    _write("\x1b[0m\n[not followed any more]\n")
    return 0


def _messages(peer: socket.socket) -> Iterator[Any]:
    """What the kernel says; ends with the connection, or when the user types Ctrl-D."""
    unread = b""
    with selectors.DefaultSelector() as ready:
        ready.register(peer, selectors.EVENT_READ)
        if sys.stdin is not None and sys.stdin.isatty():
            ready.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                data = os.read(key.fd, READ_SIZE)
                if not data:
                    return
                if key.fileobj is peer:
                    *lines, unread = (unread + data).split(b"\n")
                    yield from map(json.loads, lines)


def _ask(peer: socket.socket, **request: object) -> None:
    try:
        peer.sendall(json.dumps(request).encode() + b"\n")
    except OSError:
        pass  # the kernel has gone, which reading tells


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
