"""What files held, kept while it may be needed: to show what changed, and to undo it.

It lies in files without a name, which vanish with the process. They are bounded: when one is full,
a new one is begun, and of two full ones the older is dropped.
"""

from __future__ import annotations

import tempfile
import threading
import weakref
from typing import IO, Final

from .disk import identity

LIMIT: Final = 128 * 2**20
"""Bytes of one of the two files."""


class Contents:
    """See the module; from any thread."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._parts: list[_Part] = []

    def put(self, data: bytes) -> str:
        """Keep a content; returns its identity."""
        ident = identity(data)
        with self._lock:
            if not self._parts or self._parts[-1].size + len(data) > self._limit:
                self._parts.append(_Part())
                del self._parts[:-2]
            if ident not in self._parts[-1].places:
                self._parts[-1].put(ident, data)
        return ident

    def get(self, ident: str) -> bytes | None:
        """A content; ``None`` if it was not kept."""
        with self._lock:
            for part in self._parts:
                if ident in part.places:
                    return part.get(ident)
        return None

    def __contains__(self, ident: object) -> bool:
        with self._lock:
            return any(ident in part.places for part in self._parts)


class _Part:
    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as this does
        weakref.finalize(self, self.file.close)
        self.places: dict[str, tuple[int, int]] = {}
        self.size = 0

    def put(self, ident: str, data: bytes) -> None:
        self.file.seek(self.size)
        self.file.write(data)
        self.places[ident] = (self.size, len(data))
        self.size += len(data)

    def get(self, ident: str) -> bytes:
        place, size = self.places[ident]
        self.file.seek(place)
        return self.file.read(size)
