"""Files that are open in the user's frontend: read as the user sees them, written in their sight.

A `FileBackend` before another one. Rules:

- Where a file is, and whether it may be read or written at all, is for the inner backend to say: it
  is read there first, race-free below the roots, and only then is the open text served.
- Only text with unsaved edits is served from the frontend: what has none is what the file holds.
- A write is shown in the open document first, if that is still what the agent has seen, and then
  made by the inner backend. If the file cannot be written, what was shown is taken back. The page
  itself never writes for an agent: it would follow links that lead out of the roots.
- A shared document (jupyter-collaboration) is written by its server, which saves it by itself:
  there the write is the edit, and the file is waited for. Others may have it open where no page
  here has, so it is joined for a write. A read then takes the file, which is about a second behind;
  a write that was made of less than is there is refused.
- Unsaved edits that the agent has not read are never written over, nor are those of two pages that
  differ, nor those of a file that has changed on disk, too: the user has to decide.
- A notebook with unsaved edits can be read. It is written only without: then it is shown anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import trio

from ..errors import ErrorCode, Refusal
from .files import (
    WHOLE_LIMIT,
    Changed,
    Content,
    FileBackend,
    NotText,
    Version,
    read_window,
    slices,
)
from .notebooks import is_notebook, notebook_text
from .roots import Located

__all__ = ["OpenDocument", "OpenDocumentFiles", "OpenDocuments"]

SHOWN_LIMIT: Final = 2**20
"""Bytes of a text that is sent to a page: a server drops what exceeds 3 MB in three seconds."""

SAVED_WITHIN: Final = 15.0
"""Seconds for a shared document to be in its file: the server saves one after the last edit."""

SAVED_PAUSE: Final = 0.2

EditOutcome = Literal["made", "changed", "closed", "outdated", "read-only", "silent"]
"""``silent``: the page did not answer; it may have been made."""


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A document as a page has it open.

    Attributes:
        page: which page.
        path: as the page knows it.
        kind: "text", or "notebook", whose text is JSON.
        revision: the page's name for this text of it.
        dirty: it has edits that are not in the file.
        shared: it is edited with others, and saved by the server.
        read_only: it cannot be edited.
        outdated: it has unsaved edits, and the file has changed since it was loaded.
        text: of one that is dirty or shared; lines end with ``\\n``. ``None`` also if too large.
    """

    page: str
    path: str
    kind: Literal["text", "notebook"]
    revision: str
    dirty: bool = False
    shared: bool = False
    read_only: bool = False
    outdated: bool = False
    text: str | None = None

    @property
    def live(self) -> bool:
        """Whether the file need not hold what the user sees."""
        return self.dirty or self.shared


class OpenDocuments(Protocol):
    """The documents that are open in the pages of the user's frontends."""

    @property
    def writing(self) -> trio.Lock:
        """Held for a write: one at a time, whichever session it is of."""

    async def find(self, path: str) -> Sequence[OpenDocument]:
        """The documents of a file, at most one of each page.

        Args:
            path: absolute, resolved.
        """

    async def join(self, path: str) -> OpenDocument | None:
        """Open a shared document, which others may have open, until it is settled.

        Returns:
            The document; ``None`` where documents are not shared.

        Raises:
            Refusal: it cannot be told.
        """

    async def edit(self, document: OpenDocument, text: str) -> EditOutcome:
        """Show a text in a document that is of that revision still, as one step of undo."""

    async def settle(self, document: OpenDocument, *, saved: bool) -> None:
        """The text that was shown is in the file now, or will never be: take it back."""

    async def reload(self, document: OpenDocument) -> None:
        """Have a notebook without unsaved edits show its file."""


class OpenDocumentFiles:
    """See the module.

    Args:
        inner: where files are that are not open.
        documents: what is open; ``None`` where no frontend can be asked.
    """

    def __init__(self, inner: FileBackend, documents: Callable[[], OpenDocuments | None]) -> None:
        self._inner = inner
        self._documents = documents

    def locate(self, path: object) -> Located:
        return self._inner.locate(path)

    # -- reading -------------------------------------------------------------------------------

    async def read(
        self, located: Located, *, line: int | None = None, limit: int | None = None
    ) -> Content:
        documents = self._documents()
        found = [] if documents is None else await documents.find(located.resolved)
        live = _live(found, located)
        if live is None:
            return await self._inner.read(located, line=line, limit=limit)
        stored = await self._stored(located)
        data = _encoded(await _text_of(live, stored.text))
        version = _version(data, stored)
        if line is not None or limit is not None:
            data = read_window(slices(data), line or 1, limit, WHOLE_LIMIT) or b""
        return Content(data.decode(), version)

    async def _stored(self, located: Located) -> Content:
        """The file of a document with unsaved edits.

        Raises:
            Refusal: the inner backend does not serve it; or it is gone.
        """
        try:
            return await self._inner.read(located)
        except Refusal as refusal:
            if refusal.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            raise Refusal(
                f"{located.path} was deleted, but is open in an editor with unsaved edits; the "
                "user has to save or close it first"
            ) from refusal

    # -- writing -------------------------------------------------------------------------------

    async def write(self, located: Located, text: str, *, expected: Version | None) -> Version:
        documents = self._documents()
        if documents is None:
            return await self._inner.write(located, text, expected=expected)
        async with documents.writing:
            found = await documents.find(located.resolved)
            if not found:
                return await self._write_elsewhere(documents, located, text, expected)
            if any(document.kind == "notebook" for document in found):
                return await self._write_notebook(documents, found, located, text, expected)
            return await self._write_open(documents, found, located, text, expected)

    async def _write_elsewhere(
        self, documents: OpenDocuments, located: Located, text: str, expected: Version | None
    ) -> Version:
        """Write a file that no page here has open; where documents are shared, others may.

        One that is too large for the way to a page is written as if nobody had.
        """
        document = None
        small = len(_encoded(text)) <= SHOWN_LIMIT
        if small and not is_notebook(located.resolved) and await self._is_text(located):
            document = await documents.join(located.resolved)
        if document is None:
            return await self._inner.write(located, text, expected=expected)
        try:
            if document.text is None:
                return await self._inner.write(located, text, expected=expected)
            return await self._write_open(documents, [document], located, text, expected)
        finally:
            with trio.CancelScope(shield=True):
                await documents.settle(document, saved=True)

    async def _is_text(self, located: Located) -> bool:
        try:
            await self._inner.read(located)
        except Refusal:
            return False
        return True

    async def _write_notebook(
        self,
        documents: OpenDocuments,
        found: Sequence[OpenDocument],
        located: Located,
        text: str,
        expected: Version | None,
    ) -> Version:
        if any(document.dirty for document in found):
            raise Refusal(
                f"{located.path} is open with unsaved edits, which a write would lose; the user "
                "has to save it first"
            )
        version = await self._inner.write(located, text, expected=expected)
        for document in found:
            await documents.reload(document)
        return version

    async def _write_open(
        self,
        documents: OpenDocuments,
        found: Sequence[OpenDocument],
        located: Located,
        text: str,
        expected: Version | None,
    ) -> Version:
        live = _live(found, located)
        if len(_encoded(text)) > SHOWN_LIMIT:
            raise Refusal(
                f"{located.path} is open in the user's editor, where no more than {SHOWN_LIMIT} "
                "bytes can be shown by an agent; the user has to close it first"
            )
        if live is not None:
            stored = await self._stored(located)
            seen = _version(_encoded(await _text_of(live, stored.text)), stored)
            if not (expected or stored.version).matches(seen):
                raise Changed("has edits in the user's editor that are newer than what was seen")
        else:
            try:
                stored = await self._inner.read(located)
            except Refusal:  # it is gone, or is no text any more: nothing that is open is like it
                return await self._inner.write(located, text, expected=expected)
            if expected is not None and not expected.matches(stored.version):
                return await self._inner.write(located, text, expected=expected)
        if live is not None and live.shared:
            return await self._write_shared(documents, live, located, text, stored)
        return await self._write_shown(documents, found, located, text, stored)

    async def _write_shown(
        self,
        documents: OpenDocuments,
        found: Sequence[OpenDocument],
        located: Located,
        text: str,
        stored: Content,
    ) -> Version:
        """Show the text in every page, and write it; or neither."""
        shown: list[OpenDocument] = []
        saved = False
        try:
            for document in found:
                shown.append(document)  # also if no answer comes: then it may have been made
                _check(await documents.edit(document, _as_shown(text)), located)
            version = await self._inner.write(located, text, expected=stored.version)
            saved = True
        finally:
            with trio.CancelScope(shield=True):  # each answer is waited for a short time only
                for document in shown:
                    await documents.settle(document, saved=saved)
        return version

    async def _write_shared(
        self,
        documents: OpenDocuments,
        document: OpenDocument,
        located: Located,
        text: str,
        stored: Content,
    ) -> Version:
        outcome = await documents.edit(document, text)
        _check("silent" if outcome == "closed" else outcome, located)
        with trio.move_on_after(SAVED_WITHIN):
            # Nobody tells when it is saved.
            while (content := await self._inner.read(located)).text != text:  # noqa: ASYNC110
                await trio.sleep(SAVED_PAUSE)
            return content.version
        return _version(_encoded(text), stored)  # the others go on editing


def _live(found: Sequence[OpenDocument], located: Located) -> OpenDocument | None:
    """The document whose text counts, rather than that of the file.

    Raises:
        Refusal: there is no such one text.
    """
    live = [document for document in found if document.live]
    if not live:
        return None
    first = live[0]
    if not first.shared and any(other.text != first.text for other in live):
        raise Refusal(
            f"{located.path} is open in {len(live)} pages with different unsaved edits; the user "
            "has to save one of them and close the others first"
        )
    if first.outdated:
        raise Refusal(
            f"{located.path} has unsaved edits in the user's editor, and has changed on disk, too; "
            "the user has to save or reload it first"
        )
    if first.text is None:
        raise NotText(
            f"{located.path} has unsaved edits in the user's editor, and is too large to be read "
            "from there; the user has to save it first"
        )
    return first


async def _text_of(document: OpenDocument, stored: str) -> str:
    """What the file would hold if the user saved the document now.

    An editor has ``\\n`` at the end of each line, and gives the file back what it had.
    """
    text = document.text or ""
    if document.kind == "notebook":
        return await trio.to_thread.run_sync(_notebook_text, text)
    if document.shared or "\r" in text:  # a shared one has the line ends of its file
        return text
    for ending in ("\r\n", "\r"):
        if ending in stored:
            return text.replace("\n", ending)
    return text


def _as_shown(text: str) -> str:
    """A text with the line ends of an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _notebook_text(model: str) -> str:
    """A notebook as it would be saved; what a page trusts is not told."""
    try:
        notebook = json.loads(model)
    except (ValueError, RecursionError) as error:
        raise NotText("the open notebook is not valid") from error
    if type(notebook) is not dict:
        raise NotText("the open notebook is not valid")
    return notebook_text(notebook)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Refusal("the text is not valid Unicode: it holds half of a surrogate pair") from error


def _version(data: bytes, stored: Content) -> Version:
    return Version(stored.version.mtime_ns, len(data), hashlib.sha256(data).digest())


def _check(outcome: EditOutcome, located: Located) -> None:
    """Raise what the agent is told where the text could not be shown.

    Raises:
        Refusal: it could not.
    """
    match outcome:
        case "made" | "closed":  # one that was closed meanwhile needs to show nothing
            return
        case "changed":
            raise Changed("was changed in the user's editor")
        case "outdated":
            raise Refusal(
                f"{located.path} has unsaved edits in the user's editor, and has changed on disk, "
                "too; the user has to save or reload it first"
            )
        case "read-only":
            raise Refusal(f"{located.path} is open read-only in the user's editor")
        case "silent":
            raise Refusal(
                f"{located.path} is open in a page that does not answer; try again, or ask the "
                "user to close it"
            )
