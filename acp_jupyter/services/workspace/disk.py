"""Files below a folder: looked at, and put in place, by descriptors of their directories.

No symbolic link is followed, and nothing outside of the folder is read or written, whatever happens
to the folder meanwhile (see `services.roots`). What replaces a file is written beside it first. All
functions do file I/O.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...errors import ErrorCode, Refusal
from ...session.changes import Version
from ..roots import Located, Roots, refusing

KEPT: Final = 1_000_000
"""Bytes of a file up to which its content is kept and compared line by line."""

HASHED: Final = 8_000_000
"""Bytes up to which a file is told by its content, else by its size and times: reading all that a
repository has takes a second or so."""

CHANGED: Final = "it has changed since"
"""Why a file is not put in place."""

TEMPORARY: Final = ".acp-jupyter-"
"""How the name of a file begins that is not in its place yet."""


class Folder:
    """A folder, whose files are named by paths with ``/``.

    Args:
        path: absolute, its links resolved.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._top = os.path.realpath(path)
        self._roots = Roots([path])

    def look(self, path: str) -> tuple[Version | None, bytes | None]:
        """What a file is, and its content where that is not too large.

        Returns:
            No version where there is no file, or it is behind a link; of what is neither a regular
            file nor a link (a pipe, a directory) one that says so. The content of a link is where
            it leads to.

        Raises:
            Refusal: it cannot be read.
        """
        try:
            with self._parent(path) as (parent, name):
                return _look(parent, name)
        except (FileNotFoundError, NotADirectoryError):
            return None, None
        except Refusal as refusal:
            if refusal.code == ErrorCode.RESOURCE_NOT_FOUND or _is_behind(refusal):
                return None, None
            raise

    def read(self, path: str) -> bytes:
        """All of a regular file, however large.

        Raises:
            Refusal: it is none, or cannot be read.
        """
        with (
            self._parent(path) as (parent, name),
            refusing(path),
            open(self._roots.open_child(parent, (name,), os.O_RDONLY), "rb") as file,
        ):
            return file.read()

    def put(self, path: str, *, now: Version | None, then: Version | None, data: bytes) -> None:
        """Make a file what it was, or is elsewhere.

        Args:
            path: which.
            now: what it has to be now, see `look`.
            then: what it is to become; ``None`` removes it.
            data: the content of ``then``.

        Raises:
            Refusal: it is not what it has to be; or it cannot be written.
        """
        with self._parent(path, create=then is not None) as (parent, name), refusing(path):
            if _look(parent, name)[0] != now:
                raise Refusal(CHANGED)
            if then is None:
                os.unlink(name, dir_fd=parent)
            elif now is not None and _same_content(now, then):
                _chmod(parent, name, then)
            else:
                _put(parent, name, now, then, data)

    @contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        # Unlike paths of an agent's, these are names as the disk has them: not all are Unicode.
        names = tuple(path.split("/"))
        if not {"", ".", ".."}.isdisjoint(names):
            raise Refusal("it is not below the folder")
        located = Located(self._top, names, path)
        parent = self._roots.open_parent(located, create=create)
        try:
            yield parent, names[-1]
        finally:
            os.close(parent)


def _is_behind(refusal: Refusal) -> bool:
    """Whether a directory of the path is none (any more), or a link."""
    cause = refusal.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ELOOP, errno.ENOTDIR)


def _look(parent: int, name: str) -> tuple[Version | None, bytes | None]:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None, None
    try:
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=parent))
            return Version(status.st_mode, _hash(target)), target
        if not stat.S_ISREG(status.st_mode):
            return Version(status.st_mode, ""), None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        return None, None
    except PermissionError:
        return Version(status.st_mode, by_status(status)), None
    with open(fd, "rb", buffering=0) as file:
        return _read(file.fileno())


def _read(fd: int) -> tuple[Version, bytes | None]:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return Version(status.st_mode, ""), None
    digest, size = hashlib.sha256(), 0
    kept: list[bytes] = []
    while size <= HASHED and (data := os.read(fd, 2**20)):
        size += len(data)
        digest.update(data)
        if size <= KEPT:
            kept.append(data)
    if size > HASHED:
        return Version(status.st_mode, by_status(status)), None
    return Version(status.st_mode, digest.hexdigest()), b"".join(kept) if size <= KEPT else None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def identity(data: bytes) -> str:
    """Of a file with that content, see `Version`."""
    return _hash(data)


def by_status(status: os.stat_result) -> str:
    """The identity of a file that is not read."""
    times = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return "-".join(map(str, ("status", status.st_size, *times)))


def _same_content(one: Version, other: Version) -> bool:
    return one.type == other.type == stat.S_IFREG and one.identity == other.identity


def _chmod(parent: int, name: str, then: Version) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fchmod(fd, then.permissions)
    finally:
        os.close(fd)


def _put(parent: int, name: str, now: Version | None, then: Version, data: bytes) -> None:
    temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        if then.type == stat.S_IFLNK:
            os.symlink(data, temporary, dir_fd=parent)
        else:
            _write(parent, temporary, then, data)
        if _look(parent, name)[0] != now:
            raise Refusal(CHANGED)
        if now is not None:
            os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        else:  # unlike a renaming this replaces nothing
            os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError as error:
        raise Refusal("there is something in its place by now") from error
    finally:
        try:
            os.unlink(temporary, dir_fd=parent)
        except FileNotFoundError:
            pass  # it is in its place


def _write(parent: int, name: str, then: Version, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=parent), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), then.permissions & 0o777)
        os.fsync(file.fileno())
