"""Where an agent's files are: on this machine's disk, or with the Jupyter server.

A kernel that a server started works on the server's files. Those may be on this very disk, or in an
object store, a database, in memory: then nothing of them is on the disk, although the server names
a directory. One and the same file is never served both ways.

- Outside the server's directory, or without a server: the disk (`LocalFiles`).
- Below it, on the disk where the server's files are on the disk. The contents API opens a file by
  its path and follows links on the way, so an agent that swaps a directory for a link at the right
  moment would be led out of the roots by the server; descriptors cannot be (`roots`). What the
  server would add for such files are the hooks of its configuration, which do not run unless the
  user asks for them (``save_hooks``): then a write is checked as any, and made by the server.
- Below it, through the contents API where the server's files are not on this disk.

Which of them it is is told without trying: the server says when the directory was changed and made
(times of the file system, to the microsecond). If the directory on this disk has the same, the
server's files are on the disk; if it stood still and has others, they are not. Nobody can bring
that about by working in the directory: one that does not stand still counts as the disk, where
everything is contained. It is told once for each directory.

A server that does not let us in (403: it knows only a password) leaves the disk, and the user is
told so once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Literal

import trio

from ..errors import Refusal
from .contents import ContentsFiles, modified_ns
from .files import Content, FileBackend, Version
from .jupyter_server import JupyterServer, Unreachable
from .local_files import LocalFiles
from .roots import Located, Roots

__all__ = ["RoutedFiles", "ServedDirectories"]

LOOKS: Final = 10
LOOK_PAUSE: Final = 0.1
"""How often, and after how many seconds, a directory is looked at that does not stand still."""

PRECISION_NS: Final = 2_000
"""Nanoseconds by which the same time may differ: the API's times are microseconds."""

LOCKED_OUT: Final = (301, 302, 401, 403)
"""Statuses with which a server sends to its login, or away."""

Place = Literal["disk", "server"]


class ServedDirectories:
    """Which directories' files a server keeps on this disk; one for each kernel.

    Args:
        server: which.

    Attributes:
        locked_out: it does not let us in.
        elsewhere: files were asked for that it does not keep on this disk.
    """

    def __init__(self, server: JupyterServer) -> None:
        self.server = server
        self.locked_out = False
        self.elsewhere = False
        self._places: dict[str, Place] = {}
        self._asking = trio.Lock()

    async def place(self, located: Located) -> Place:
        """Where a file is.

        Raises:
            Unreachable: the server does not say.
        """
        root = self.server.info.root
        if not _is_below(located.resolved, root):
            return "disk"
        area = located.root if _is_below(located.root, root) else root
        async with self._asking:
            if area not in self._places:
                self._places[area] = await self._look(area)
                self.elsewhere = self.elsewhere or self._places[area] == "server"
            return self._places[area]

    async def _look(self, directory: str) -> Place:
        for _ in range(LOOKS):
            before = await _times(directory)
            try:
                theirs = await self._theirs(directory)
            except Unreachable as error:
                if error.gone:  # the kernel has outlived it
                    return "disk"
                raise
            if theirs is None:  # the server does not show it, so it is where the rest is
                root = self.server.info.root
                return "disk" if directory == root else await self._look(root)
            if before is None:  # there is no such directory here
                return "server"
            if await _times(directory) == before:
                pairs = zip(before, theirs, strict=True)
                same = all(abs(ours - other) < PRECISION_NS for ours, other in pairs)
                return "disk" if same else "server"
            await trio.sleep(LOOK_PAUSE)
        return "disk"

    async def _theirs(self, directory: str) -> tuple[int, int] | None:
        """What the server says of a directory's times; ``None`` if it does not show it."""
        below = directory.removeprefix(self.server.info.root)
        path = "/".join(["contents", *filter(None, below.split("/"))])
        query = {"content": "0", "type": "directory"}
        answer = await self.server.request("GET", path, query=query)
        if answer.status == 200 and type(answer.body) is dict:
            return modified_ns(answer.body), modified_ns(answer.body, "created")
        if answer.status in LOCKED_OUT:
            self.locked_out = True
        elif answer.status not in (400, 404):
            raise Unreachable(f"the Jupyter server answered {answer.status}")
        return None


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


async def _times(directory: str) -> tuple[int, int] | None:
    """When a directory was changed, and its entry; ``None`` if there is none."""
    try:
        status = await trio.to_thread.run_sync(os.stat, directory)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns


class RoutedFiles:
    """Serves each file from where it is; see the module.

    Args:
        roots: the session's.
        served: what the server has; ``None`` without one.
        tell: shows the user a line.
        save_hooks: have the server write what is on the disk, too.
    """

    def __init__(
        self,
        roots: Roots,
        served: ServedDirectories | None,
        tell: Callable[[str], None],
        *,
        save_hooks: bool = False,
    ) -> None:
        self._save_hooks = save_hooks
        self.roots = roots
        self._served = served
        self._tell = tell
        self._told = False
        self._local = LocalFiles(roots)
        self._remote = None if served is None else ContentsFiles(roots, served.server)

    def locate(self, path: object) -> Located:
        return self.roots.locate(path)

    async def read(
        self, located: Located, *, line: int | None = None, limit: int | None = None
    ) -> Content:
        backend = await self._backend(located)
        return await backend.read(located, line=line, limit=limit)

    async def write(self, located: Located, text: str, *, expected: Version | None) -> Version:
        backend = await self._backend(located)
        if backend is self._local and self._has_hooks(located):
            return await self._write_with_hooks(located, text, expected)
        return await backend.write(located, text, expected=expected)

    def _has_hooks(self, located: Located) -> bool:
        """Whether the server is to write a file on the disk: not one that it does not show."""
        if not self._save_hooks or self._served is None or self._served.locked_out:
            return False
        root = self._served.server.info.root
        names = located.resolved.removeprefix(root).split("/")
        shown = not any(name.startswith(".") for name in names)
        return shown and _is_below(located.resolved, root)

    async def _write_with_hooks(
        self, located: Located, text: str, expected: Version | None
    ) -> Version:
        assert self._remote is not None
        await self._local.prepare(located, expected=expected)
        await self._remote.write(located, text, expected=None)
        return (await self._local.read(located)).version  # a hook may have changed it

    async def _backend(self, located: Located) -> FileBackend:
        if self._served is None or self._remote is None:
            return self._local
        try:
            place = await self._served.place(located)
        except Unreachable as error:
            raise Refusal(f"{error.message}; try again", code=error.code) from error
        if self._served.locked_out and not self._told:
            self._told = True
            self._tell(
                "The Jupyter server did not let the kernel in, as those do that know only a "
                "password: files are read and written on the disk."
            )
        return self._local if place == "disk" else self._remote
