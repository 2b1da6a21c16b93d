"""``acp-jupyter mcp-bridge``: an MCP server on standard input and output that is a running kernel.

Agents start it, with the arguments and the key that they are told of after `%acp share kernel`. It
carries bytes between its streams and the kernel, and ends with either. POSIX only.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
from typing import Any, Final

from .kernel_socket import connect

READ_SIZE: Final = 2**16

KEY: Final = "ACP_JUPYTER_MCP_KEY"
"""The variable that has the key; see `host.sharing`, which it would take long to import."""


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    if os.name != "posix":
        return  # there it cannot be reached
    bridge = commands.add_parser(
        "mcp-bridge",
        help="the MCP server of a kernel that is shared; agents start it",
        description="Serve MCP on standard input and output for a kernel that its user shares "
        "with an agent (`%%acp share kernel`). Agents start it by themselves.",
    )
    bridge.add_argument("socket", help="of the kernel")
    bridge.set_defaults(run=_bridge)


def _bridge(arguments: argparse.Namespace) -> int:
    key = os.environ.get(KEY, "")
    peer = connect(
        arguments.socket, "Has it ended? Share it again with `%acp share kernel`, in a new session."
    )
    with peer:
        peer.sendall(key.encode() + b"\n")
        _carry(peer)
    return 0


def _carry(peer: socket.socket) -> None:
    """Carry bytes both ways, to the end of either side."""
    with selectors.DefaultSelector() as ready:
        ready.register(peer, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                data = os.read(key.fd, READ_SIZE)
                if not data:
                    return
                if key.fileobj is peer:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(1, view) :]
                else:
                    peer.sendall(data)
