"""What a git index says of the files in a worktree, read from the file itself.

git would tell it too, but a command that compares files with the index may run filters, which are
programs that a repository names. The form is that of gitformat-index(5), versions 2 to 4. An index
that is split, or of another form, is not read: then files are read themselves.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

LARGEST: Final = 512 * 2**20
"""Bytes of an index that is read: one of a million files has 100 MB."""

_HEAD: Final = struct.Struct(">4sII")
_FIXED: Final = struct.Struct(">10I")
_SIGNATURE: Final = struct.Struct(">7I")
_STAGE: Final = 0x3000
_EXTENDED: Final = 0x4000
_ASSUMED: Final = 0x8000
_WORD: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Index:
    """An index.

    Attributes:
        entries: of each file, by its path: what `known` compares, and the name of its blob; that
            is empty for one that is in conflict, or that git was told not to look at.
        place: its path and prefix, and the size and inode of the file.
        written: when it was, in nanoseconds.
        repositories: paths of repositories within.
    """

    entries: dict[str, tuple[bytes, bytes]]
    written: int
    place: tuple[object, ...] = ()
    repositories: frozenset[str] = frozenset()

    def known(self, path: str, status: os.stat_result) -> bytes:
        """The blob that a file holds, by its times and size; empty if that cannot be told."""
        found = self.entries.get(path)
        # One written in the same moment as the index may have changed since: git reads it too.
        if found is None or status.st_mtime_ns >= self.written:
            return b""
        return found[1] if found[0] == _signature(status) else b""


def _signature(status: os.stat_result) -> bytes:
    """Times, inode, and size as an index has them; the device is another one after each start."""
    ctime, mtime = divmod(status.st_ctime_ns, 10**9), divmod(status.st_mtime_ns, 10**9)
    return _SIGNATURE.pack(
        *(ctime[0] & _WORD, ctime[1], mtime[0] & _WORD, mtime[1]),
        *(status.st_ino & _WORD, status.st_size & _WORD, stat.S_IFMT(status.st_mode)),
    )


def read_index(
    path: str, *, prefix: str = "", sha256: bool = False, earlier: Index | None = None
) -> Index | None:
    """The part of an index that is below a folder; ``None`` if it cannot be read.

    Args:
        path: of the index.
        prefix: of the folder in the worktree, with a ``/`` at its end; paths are told without it.
        sha256: the repository names objects by SHA-256.
        earlier: is returned if the file is the same since.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                return None
            place = (path, prefix, status.st_size, status.st_ino)
            written = status.st_mtime_ns
            if earlier is not None and (earlier.place, earlier.written) == (place, written):
                return earlier
            data = file.read(LARGEST)
        found = _parse(data, os.fsencode(prefix), 32 if sha256 else 20)
    except (OSError, struct.error, IndexError, ValueError):
        return None
    return None if found is None else replace(found, place=place, written=written)


def _parse(data: bytes, prefix: bytes, size: int) -> Index | None:
    magic, version, count = _HEAD.unpack_from(data, 0)
    if magic != b"DIRC" or version not in (2, 3, 4):
        return None
    entries: dict[str, tuple[bytes, bytes]] = {}
    repositories: list[str] = []
    name = b""
    at = _HEAD.size
    for _ in range(count):
        start = at
        fields = _FIXED.unpack_from(data, at)
        at += _FIXED.size
        blob = data[at : at + size]
        at += size
        flags = int.from_bytes(data[at : at + 2], "big")
        at += 4 if flags & _EXTENDED else 2
        if version == 4:
            name, at = _shortened(data, at, name)
        else:
            end = data.index(b"\0", at)
            name, at = data[at:end], start + ((end - start) // 8 + 1) * 8
        if not name.startswith(prefix):
            continue
        path, kind = os.fsdecode(name[len(prefix) :]), fields[6] & 0o170000
        if kind == 0o160000:
            repositories.append(path)
        signature = _SIGNATURE.pack(*fields[:4], fields[5], fields[9], kind)
        entries[path] = (signature, b"" if flags & (_STAGE | _ASSUMED) else blob)
    if b"link" in _extensions(data, at, len(data) - size):  # most entries are in another file
        return None
    return Index(entries, 0, (), frozenset(repositories))


def _extensions(data: bytes, at: int, end: int) -> Iterator[bytes]:
    while at + 8 <= end:
        yield data[at : at + 4]
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")


def _shortened(data: bytes, at: int, before: bytes) -> tuple[bytes, int]:
    """The name of an entry of version 4, told by that of the one before."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 127)
    end = data.index(b"\0", at + 1)
    return before[: len(before) - value] + data[at + 1 : end], end + 1
