"""Unix sockets of this process for programs of the same user: where they are, and who is let in."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from ..errors import UsageError

if TYPE_CHECKING:
    from .host import Host

LONGEST_PATH: Final = 100
"""Bytes of a socket's path: 104 on macOS, 108 on Linux, with a null at the end."""


class PrivateServer:
    """Answers programs of this user, at a socket that is made when somebody asks for it.

    It goes with the host's portal, and is made anew when it is asked for after that. On the trio
    thread.

    Args:
        host: whose portal runs it.
        answer: serves one program, to the end of either; the stream is closed after it.
        peers: programs that are served at the same time; further ones are sent away.
    """

    def __init__(
        self, host: Host, answer: Callable[[trio.SocketStream], Awaitable[None]], peers: int
    ) -> None:
        self._host = host
        self._serve_peer = answer
        self._most = peers
        self._path = ""
        self._peers = 0

    def path(self) -> str:
        """Where it listens.

        Raises:
            UsageError, OSError: see `listen`.
        """
        if not self._path:
            runtime = self._host.environ.get("XDG_RUNTIME_DIR", "")
            listener, path = listen(runtime, self._most)
            try:
                self._host.portal.submit(self._serve, listener, path)
            except BaseException:
                listener.close()
                remove(path)
                raise
            self._path = path
        return self._path

    async def _serve(self, listener: socket.socket, path: str) -> None:
        """Task: answer programs until the portal ends."""
        try:
            opened = trio.SocketListener(as_trio(listener))
            await trio.serve_listeners(self._answer, [opened])
        finally:
            self._path = ""
            listener.close()
            remove(path)

    async def _answer(self, stream: trio.SocketStream) -> None:
        if self._peers >= self._most or not is_own(stream.socket):
            return
        self._peers += 1
        try:
            async with stream:
                await self._serve_peer(stream)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the program was ended
        finally:
            self._peers -= 1


def listen(runtime: str, backlog: int) -> tuple[socket.socket, str]:
    """A new socket, and its path, in a new directory that only its owner can enter.

    Args:
        runtime: the user's directory for such things; may be empty.
        backlog: programs that may wait.

    Raises:
        UsageError: no path is short enough.
        OSError: it cannot be made.
    """
    path = _new_path(runtime)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        remove(path)
        raise
    return listener, path


def as_trio(listener: socket.socket) -> Any:
    """The same socket for trio."""
    listener.setblocking(False)
    return trio.socket.from_stdlib_socket(listener)


def is_own(peer: Any) -> bool:
    """Whether the peer runs for this user, where the system tells (the directory's mode is what
    keeps others out everywhere)."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, option, 12))
    return bool(uid == os.geteuid())


def remove(path: str) -> None:
    """Remove a socket with its directory."""
    for remove, name in ((os.unlink, path), (os.rmdir, os.path.dirname(path))):
        try:
            remove(name)
        except OSError:
            pass  # somebody cleared the temporary directory


def _new_path(runtime: str) -> str:
    usable = os.path.isabs(runtime) and os.access(runtime, os.W_OK | os.X_OK)
    for place in (runtime if usable else None, None, "/tmp"):  # noqa: S108
        directory = tempfile.mkdtemp(prefix="acp-", dir=place)
        path = os.path.join(directory, secrets.token_hex(8))
        if len(os.fsencode(path)) <= LONGEST_PATH:
            return path
        os.rmdir(directory)
    raise UsageError("no path is short enough for a socket")
