"""``%acp share kernel``: what the notebook offers to agents as an MCP server, and how they get it.

An agent that takes MCP over ACP asks over its own connection. Any other one starts a program of
ours (`acp-jupyter mcp-bridge`), as it starts MCP servers; that leads back here over a Unix socket
which only this user can reach. A key, which is in the program's environment alone, says for which
session: who has it can ask for no more than that session's agent, and its user is asked each time.
The messages on the socket are lines of JSON, after a first line that is the key.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from ..errors import ErrorCode
from .kernel_tools import KernelTools
from .private_sockets import PrivateServer

if TYPE_CHECKING:
    from ..client.session import Session
    from ..protocol import mcp
    from .host import Host

NAME: Final = "jupyter-kernel"
"""What agents call the server."""

KEY: Final = "ACP_JUPYTER_MCP_KEY"
"""The variable that has the key."""

LONGEST_LINE: Final = 2**20
"""Bytes of a request."""

PEERS: Final = 64
REQUESTS: Final = 16
"""Programs that are connected, and requests of one that are served, at the same time."""

KEYS: Final = 1_000
"""Sessions whose programs are answered; the oldest is forgotten first."""


class KernelShare:
    """See the module. On the trio thread.

    Args:
        host: whose kernel it is.
    """

    name = NAME

    def __init__(self, host: Host) -> None:
        self._host = host
        self._programs = PrivateServer(host, self._answer, PEERS)
        self._servers: dict[str, mcp.Server] = {}

    def server(self, session: Callable[[], Session | None]) -> mcp.Server:
        """See `client.mcp.Shared`."""
        return KernelTools(self._host, session).server()

    def bridge(self, server: mcp.Server) -> dict[str, Any]:
        """See `client.mcp.Shared`."""
        path = self._programs.path()
        key = secrets.token_hex(16)
        self._servers[key] = server
        if len(self._servers) > KEYS:
            del self._servers[next(iter(self._servers))]
        # -P: the folder that the agent works in is its own to write.
        args = ["-P", "-m", "acp_jupyter.cli", "mcp-bridge", path]
        env = [{"name": KEY, "value": key}]
        return {"name": NAME, "command": sys.executable, "args": args, "env": env}

    async def _answer(self, stream: trio.SocketStream) -> None:
        lines = _Lines(stream)
        key = await lines.read()
        server = self._servers.get(key.decode("ascii", "replace"))
        if server is not None:
            await _Peer(stream, server).serve(lines)


class _Peer:
    """One program, and the requests that are served for it."""

    def __init__(self, stream: trio.SocketStream, server: mcp.Server) -> None:
        self._stream = stream
        self._server = server
        self._sending = trio.Lock()
        self._scopes: dict[str | int, trio.CancelScope] = {}

    async def serve(self, lines: _Lines) -> None:
        """Answer requests until the program ends, or says what is none."""
        async with trio.open_nursery() as nursery:
            while line := await lines.read():
                try:
                    message = msgspec.json.decode(line)
                except (msgspec.DecodeError, RecursionError):
                    break
                if type(message) is dict:
                    self._take(message, nursery)
            nursery.cancel_scope.cancel()

    def _take(self, message: dict[str, Any], nursery: trio.Nursery) -> None:
        method, ident = message.get("method"), message.get("id")
        if type(method) is not str:
            return  # an answer: nothing was asked
        if isinstance(ident, str | int):
            nursery.start_soon(self._request, ident, method, message.get("params"))
        elif method == "notifications/cancelled" and type(message.get("params")) is dict:
            scope = self._scopes.get(str(message["params"].get("requestId")))
            if scope is not None:
                scope.cancel()

    async def _request(self, ident: str | int, method: str, params: Any) -> None:
        key = str(ident)
        if len(self._scopes) >= REQUESTS or key in self._scopes:
            error = {"code": int(ErrorCode.INTERNAL_ERROR), "message": "too many requests at once"}
            await self._send({"jsonrpc": "2.0", "id": ident, "error": error})
            return
        try:
            with trio.CancelScope() as self._scopes[key]:
                answer = await self._server.answer(method, params)
                await self._send({"jsonrpc": "2.0", "id": ident, **answer})
        finally:
            del self._scopes[key]

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            with trio.CancelScope(shield=True):  # half a line would break all that follow
                await self._stream.send_all(msgspec.json.encode(message) + b"\n")


class _Lines:
    """The lines of a peer; empty at its end, and where one is too long."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._unread = b""

    async def read(self) -> bytes:
        while b"\n" not in self._unread:
            data = await self._stream.receive_some(2**16)
            if not data or len(self._unread) > LONGEST_LINE:
                return b""
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line or await self.read()
