"""The agent's file requests: ``fs/read_text_file`` and ``fs/write_text_file``.

Rules:

- What is served is what the file holds: no newline translated, no byte order mark removed, nothing
  replaced. What is not UTF-8 text is refused, because a lossy read followed by a write destroys.
- Lines end with ``\\n`` only. ``line`` counts from 1, ``limit`` counts lines, each with its end, so
  that consecutive windows put together are the file.
- A whole file is at most `WHOLE_LIMIT` bytes; of a larger one, windows of `WINDOW_LIMIT` bytes.
- A write replaces the file in one step or not at all, and keeps its mode and owner.
- A file that has changed since the agent saw it is not overwritten.
- Files that decide what runs, or that hold secrets, are asked for each time (`protected`), and
  refused where nobody can be asked.
- Every request is reported to ``observe``, served or refused.

`FileService` checks, remembers and asks; a `FileBackend` does the reading and writing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import trio

from ..errors import ErrorCode, Refusal
from .notebooks import as_text, is_notebook, wants_text
from .protected import is_protected
from .roots import Located

__all__ = [
    "ABSENT",
    "WHOLE_LIMIT",
    "WINDOW_LIMIT",
    "Changed",
    "Content",
    "FileAccess",
    "FileBackend",
    "FileEvent",
    "FileService",
    "NotText",
    "Version",
    "read_window",
    "slices",
    "too_large",
]

WHOLE_LIMIT: Final = 10 * 2**20
"""Bytes of a file that is read whole."""

WINDOW_LIMIT: Final = 2 * 2**20
"""Bytes of a window of a larger one."""

BLOCK: Final = 2**16
"""Bytes looked at together: the most that is searched line by line."""

REMEMBERED: Final = 10_000
"""Files whose last version seen by the agent is kept; some 200 bytes each."""

SHOWN: Final = 200
"""Characters shown of a path that is none."""

Operation = Literal["read", "write"]
Outcome = Literal["served", "refused", "missing"]


@dataclass(frozen=True, slots=True)
class Version:
    """What is known of a file's content at one time.

    Attributes:
        mtime_ns: when it was changed last.
        size: bytes; -1 for a file that is not there.
        digest: SHA-256; ``None`` where only a part was read.
    """

    mtime_ns: int
    size: int
    digest: bytes | None = None

    def matches(self, other: Version) -> bool:
        """Whether the content is the same. A digest decides; times are too coarse and can lie."""
        if self.size != other.size:
            return False
        if self.digest is not None and other.digest is not None:
            return self.digest == other.digest
        return self.mtime_ns == other.mtime_ns


ABSENT: Final = Version(0, -1)
"""The version of a file that is not there."""


@dataclass(frozen=True, slots=True)
class Content:
    """What was read, and of which version of the file."""

    text: str
    version: Version


class NotText(Refusal):
    """The file is there, but is not text, or is too large, to be served."""


class Changed(Refusal):
    """The file is not as the agent saw it last: the write was not made.

    Args:
        what: what became of the file.
    """

    def __init__(self, what: str = "changed on disk") -> None:
        super().__init__(f"the file {what} since it was read; read it again")


class FileBackend(Protocol):
    """Where files are read and written: the disk, or whoever else holds the open document."""

    def locate(self, path: object) -> Located:
        """Check a path of the agent's; no I/O.

        Raises:
            Refusal: it is malformed or outside the session's roots.
        """

    async def read(
        self, located: Located, *, line: int | None = None, limit: int | None = None
    ) -> Content:
        """Read a file or some lines of it.

        Raises:
            NotText: see there.
            Refusal: it cannot be read; with RESOURCE_NOT_FOUND if it is not there.
        """

    async def write(self, located: Located, text: str, *, expected: Version | None) -> Version:
        """Replace a file's content, or make the file and the directories it is to be in.

        Args:
            located: which file.
            text: the whole of its new content.
            expected: the version that is to be replaced; ``None`` for any.

        Raises:
            Changed: it is not the expected version; it is as it was.
            Refusal: it cannot be written; it is as it was.
        """


@dataclass(frozen=True, slots=True)
class FileAccess:
    """A question to the user: may the agent do this?

    Attributes:
        operation: "read" or "write".
        path: absolute.
        reason: why it is asked, one line.
        old_text, new_text: for a write, what is and what would be there; ``old_text`` is ``None``
            where there is no text yet.
    """

    operation: Operation
    path: str
    reason: str
    old_text: str | None = None
    new_text: str | None = None


@dataclass(frozen=True, slots=True)
class FileEvent:
    """What became of a request.

    Attributes:
        path: absolute; or, refused for its form, the beginning of what the agent sent.
        outcome: "missing" if there is no such file to read.
        reason: why it was not served, one line; else empty.
        bytes: read or written.
    """

    operation: Operation
    path: str
    outcome: Outcome
    reason: str = ""
    bytes: int = 0


# -- lines ----------------------------------------------------------------------------------------


def read_window(
    blocks: Iterable[bytes], line: int, limit: int | None, largest: int
) -> bytes | None:
    """Lines of a file, each with its ``\\n``; ``None`` where they are more than ``largest`` bytes.

    Args:
        blocks: the file's content, in pieces.
        line: the first line, from 1. Beyond the last one there is nothing: ``b""``.
        limit: how many; ``None`` for all.
        largest: bytes.
    """
    skip, wanted = line - 1, limit
    window = bytearray()
    for block in blocks:
        count = block.count(b"\n")
        if count < skip:
            skip -= count
            continue
        start = _after_line(block, 0, skip)
        count -= skip
        skip = 0
        if wanted is not None and count >= wanted:
            window += block[start : _after_line(block, start, wanted)]
            wanted = 0
        else:
            window += block[start:]
            wanted = None if wanted is None else wanted - count
        if len(window) > largest:
            return None
        if wanted == 0:
            break
    return bytes(window)


def _after_line(block: bytes, start: int, count: int) -> int:
    """Where the text begins that follows ``count`` line ends, of which there are enough."""
    for _ in range(count):
        start = block.index(b"\n", start) + 1
    return start


def slices(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), BLOCK):
        yield data[start : start + BLOCK]


def too_large(size: int) -> str:
    return (
        f"the file has {size} bytes, more than the {WHOLE_LIMIT} that are served at once; read it "
        f"with line and limit, in windows of up to {WINDOW_LIMIT} bytes"
    )


# -- the service ----------------------------------------------------------------------------------


class FileService:
    """Serves one session's file requests.

    Args:
        backend: where the files are.
        ask: puts a question about a protected file to the user; ``None`` where nobody can answer.
        observe: called on trio's thread with what became of each request.
        restrict: why a file is asked for that is not protected, or ``None``: rules of the user's.
        conflict: called with the path, the text that is there (``None`` if there is no text) and
            the one that the agent meant to write, when the file had changed in between.

    Attributes:
        missing_is_empty: a file that is not there is read as an empty one, for an agent that takes
            the proper error for a failure and so never creates a file.
    """

    def __init__(
        self,
        backend: FileBackend,
        *,
        ask: Callable[[FileAccess], Awaitable[bool]] | None = None,
        observe: Callable[[FileEvent], None],
        restrict: Callable[[Operation, str], str | None] = lambda _operation, _path: None,
        conflict: Callable[[str, str | None, str], None] = lambda _path, _there, _wanted: None,
    ) -> None:
        self._conflict = conflict
        self._backend = backend
        self._ask = ask
        self._observe = observe
        self._restrict = restrict
        self.missing_is_empty = False
        self._seen: dict[str, Version] = {}
        self._writing = trio.Lock()

    async def read_text_file(self, params: dict[str, Any]) -> dict[str, Any]:
        """``fs/read_text_file``: returns ``{"content": text}``.

        Raises:
            Refusal: with the reason.
        """
        try:
            text = await self._report("read", params, self._read)
        except Refusal as refusal:
            if not self.missing_is_empty or refusal.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            text = ""
        return {"content": text}

    async def write_text_file(self, params: dict[str, Any]) -> dict[str, Any]:
        """``fs/write_text_file``: returns ``{}``.

        Raises:
            Refusal: with the reason; the file is as it was.
        """
        await self._report("write", params, self._write)
        return {}

    async def _report(
        self,
        operation: Operation,
        params: dict[str, Any],
        serve: Callable[[Located, dict[str, Any]], Awaitable[str]],
    ) -> str:
        path = params.get("path")
        shown = path[:SHOWN] if type(path) is str else ""
        try:
            located = self._backend.locate(path)
            shown = located.path
            text = await serve(located, params)
        except Refusal as refusal:
            missing = operation == "read" and refusal.code == ErrorCode.RESOURCE_NOT_FOUND
            outcome: Outcome = "missing" if missing else "refused"
            self._observe(FileEvent(operation, shown, outcome, refusal.message))
            raise
        self._observe(FileEvent(operation, shown, "served", bytes=len(text.encode())))
        return text

    async def _read(self, located: Located, params: dict[str, Any]) -> str:
        line, limit = (_count(params, name) for name in ("line", "limit"))
        reason = self._reason_to_ask("read", located)
        if reason is not None:
            await self._consent(FileAccess("read", located.path, reason))
        outline = is_notebook(located.resolved) and wants_text(params)
        window = {} if outline else {"line": line, "limit": limit}
        try:
            content = await self._backend.read(located, **window)
        except Refusal as refusal:
            if refusal.code == ErrorCode.RESOURCE_NOT_FOUND:
                self._remember(located, ABSENT)
            raise
        self._remember(located, content.version)
        if not outline:
            return content.text
        data = as_text(content.text).encode()
        return (read_window(slices(data), line or 1, limit, WHOLE_LIMIT) or b"").decode()

    async def _write(self, located: Located, params: dict[str, Any]) -> str:
        text = params.get("content")
        if type(text) is not str:
            raise Refusal("content must be a string")
        try:
            await self._write_text(located, text)
        except Changed:
            await self._tell_conflict(located, text)
            raise
        return text

    async def _tell_conflict(self, located: Located, wanted: str) -> None:
        """Both versions are the user's to see: neither is to be lost by what comes next."""
        there = None
        try:
            if self._reason_to_ask("read", located) is None:  # a secret is not put into the output
                there = (await self._backend.read(located)).text
        except Refusal:
            pass  # deleted, or no text: there is the agent's version to see
        self._conflict(located.path, there, wanted)

    async def _write_text(self, located: Located, text: str) -> None:
        approved = None
        reason = self._reason_to_ask("write", located)
        if reason is not None:
            approved = await self._consent_to_write(located, reason, text)
        async with self._writing:  # a second write must not be taken for a stranger's change
            expected = approved or self._seen.get(located.path)
            version = await self._backend.write(located, text, expected=expected)
            self._remember(located, version)

    async def _consent_to_write(self, located: Located, reason: str, text: str) -> Version | None:
        """Ask; returns the version that the user saw, and that alone may be replaced."""
        old_text, version = None, None
        try:
            content = await self._backend.read(located)
            old_text, version = content.text, content.version
        except NotText:
            pass  # the user sees what it would become
        except Refusal as refusal:
            if refusal.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            version = ABSENT
        seen = self._seen.get(located.path)
        if seen is not None and version is not None and not seen.matches(version):
            raise Changed
        await self._consent(FileAccess("write", located.path, reason, old_text, text))
        return version

    def _reason_to_ask(self, operation: Operation, located: Located) -> str | None:
        protected = is_protected("/".join(located.parts))
        return protected or self._restrict(operation, located.path)

    async def _consent(self, access: FileAccess) -> None:
        if self._ask is None:
            raise Refusal(f"{access.path} is protected ({access.reason}), and nobody can be asked")
        if not await self._ask(access):
            raise Refusal(f"{access.path} is protected ({access.reason}), and it was not allowed")

    def _remember(self, located: Located, version: Version) -> None:
        self._seen.pop(located.path, None)
        self._seen[located.path] = version
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]


def _count(params: dict[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 1:  # a bool is none either
        raise Refusal(f"{name} must be a whole number from 1")
    return value
