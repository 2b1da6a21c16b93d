"""Files on this machine's disk, below the session's roots.

They are opened by descriptors (`roots`), never by a path that could be swapped. A write makes a new
file beside the old one and gives it the old one's name, mode and owner: it is there in one step or
not at all.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading

import trio

from ..errors import Refusal
from .files import (
    ABSENT,
    BLOCK,
    WHOLE_LIMIT,
    WINDOW_LIMIT,
    Changed,
    Content,
    NotText,
    Version,
    read_window,
    slices,
    too_large,
)
from .roots import Located, Roots, refusing

__all__ = ["LocalFiles"]


class LocalFiles:
    """Files on the disk, below the session's roots. The I/O is done in threads."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots

    def locate(self, path: object) -> Located:
        return self.roots.locate(path)

    async def read(
        self, located: Located, *, line: int | None = None, limit: int | None = None
    ) -> Content:
        given_up = threading.Event()
        try:
            return await trio.to_thread.run_sync(
                self._read, located, line, limit, given_up, abandon_on_cancel=True
            )
        finally:
            given_up.set()  # a thread cannot be cancelled, and the file may be very large

    async def write(self, located: Located, text: str, *, expected: Version | None) -> Version:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise Refusal(
                "content is not valid Unicode text: it holds half of a surrogate pair"
            ) from error
        return await trio.to_thread.run_sync(self._write, located, data, expected)

    async def prepare(self, located: Located, *, expected: Version | None) -> None:
        """Make the directories that a file is to be in, and check that `write` would write it.

        Raises:
            Changed: it is not the expected version.
            Refusal: it cannot be written.
        """
        await trio.to_thread.run_sync(self._prepare, located, expected)

    def _prepare(self, located: Located, expected: Version | None) -> None:
        parent = self.roots.open_parent(located, create=True)
        try:
            with refusing(located.path):
                self._examine(parent, located.parts[-1], expected)
        finally:
            os.close(parent)

    def _read(
        self, located: Located, line: int | None, limit: int | None, given_up: threading.Event
    ) -> Content:
        fd = self.roots.open_beneath(located, os.O_RDONLY)
        with refusing(located.path), open(fd, "rb", buffering=0) as file:
            size = os.fstat(fd).st_size
            if size <= WHOLE_LIMIT:
                data = _read_up_to(fd, WHOLE_LIMIT + 1)
                if len(data) <= WHOLE_LIMIT:
                    version = _version(fd, hashlib.sha256(data).digest(), len(data))
                    if line is not None or limit is not None:
                        data = read_window(slices(data), line or 1, limit, WHOLE_LIMIT) or b""
                    return Content(_decode(data, version.size), version)
                size = os.fstat(fd).st_size  # it grows
            if line is None and limit is None:
                raise NotText(too_large(size))
            file.seek(0)
            blocks = iter(lambda: b"" if given_up.is_set() else file.read(BLOCK), b"")
            window = read_window(blocks, line or 1, limit, WINDOW_LIMIT)
            if window is None:
                raise NotText(too_large(size))
            return Content(_decode(window, size), _version(fd, None))

    def _write(self, located: Located, data: bytes, expected: Version | None) -> Version:
        parent = self.roots.open_parent(located, create=True)
        try:
            with refusing(located.path):
                return self._replace(parent, located.parts[-1], data, expected)
        finally:
            os.close(parent)

    def _replace(self, parent: int, name: str, data: bytes, expected: Version | None) -> Version:
        """Write a new file beside the old one and give it the old one's name."""
        before = self._examine(parent, name, expected)
        temporary = f".acp-jupyter-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Until it has the old one's owner and mode, nobody else is to read it.
        fd = os.open(temporary, flags, 0o666 if before is None else 0o600, dir_fd=parent)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                if before is not None:
                    _take_over(fd, before)
                os.fsync(fd)
                version = _version(fd, hashlib.sha256(data).digest())
            if _identity(_status(parent, name)) != _identity(before):
                raise Changed
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise
        return version

    def _examine(self, parent: int, name: str, expected: Version | None) -> os.stat_result | None:
        """The file as it is: one that may be written, and of the expected version, or none."""
        try:
            fd = self.roots.open_child(parent, (name,), os.O_RDWR)
        except FileNotFoundError:
            if expected is not None and not expected.matches(ABSENT):
                raise Changed("was deleted") from None
            return None
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if expected is not None:
                digest = None
                if expected.digest is not None and expected.size == status.st_size:
                    digest = hashlib.file_digest(file, "sha256").digest()
                if not expected.matches(_version(fd, digest)):
                    raise Changed
            return status


def _read_up_to(fd: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(fd, min(size, 2**20))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _version(fd: int, digest: bytes | None, size: int | None = None) -> Version:
    status = os.fstat(fd)
    return Version(status.st_mtime_ns, status.st_size if size is None else size, digest)


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity(status: os.stat_result | None) -> tuple[int, ...]:
    if status is None:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def _take_over(fd: int, old: os.stat_result) -> None:
    """Give a file the owner and mode of another.

    Only root may give a file away. In a directory shared by a group the group is what matters,
    and the writer becomes the owner, as with any editor that replaces files.
    """
    mode = stat.S_IMODE(old.st_mode)
    for owner in (old.st_uid, -1):
        try:
            os.fchown(fd, owner, old.st_gid)
            break
        except PermissionError:
            mode &= ~stat.S_ISUID  # not with another owner than it was set for
    else:
        mode &= ~stat.S_ISGID
    os.fchmod(fd, mode)


def _decode(data: bytes, size: int) -> str:
    hint = f"The file has {size} bytes; if a part of it is text, read that with line and limit"
    if b"\0" in data:
        raise NotText(f"the file is binary. {hint}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotText(f"the file is not valid UTF-8. {hint}") from error
