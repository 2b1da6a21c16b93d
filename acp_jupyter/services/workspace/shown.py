"""Putting a file in its place in the user's sight: where it is open in an editor, as one step of
undo there.

What an editor shows of a file that is put in place behind it is out of date, and its next save asks
which of the two is to go. Hence a text goes by way of the open document (`open_documents`), and a
file with unsaved edits is left alone: they would be lost. The file itself is written by `disk`, as
all are.
"""

from __future__ import annotations

import hashlib
import os
import stat
from functools import partial
from typing import Protocol

import trio

from ...errors import ErrorCode, Refusal
from ...session.changes import Version
from .. import files
from ..open_documents import OpenDocumentFiles, OpenDocuments
from ..roots import Located
from .disk import CHANGED, Folder

UNSAVED = "it has unsaved edits in an editor: save or revert them first"
"""Why a file is not put in place."""


class Put(Protocol):
    """`Folder.put`, or something before it."""

    def __call__(
        self,
        folder: Folder,
        path: str,
        /,
        *,
        now: Version | None,
        then: Version | None,
        data: bytes,
    ) -> None: ...


async def put(
    documents: OpenDocuments | None,
    folder: Folder,
    path: str,
    *,
    now: Version | None,
    then: Version | None,
    data: bytes,
) -> None:
    """`Folder.put` in the user's sight; ``documents`` is ``None`` where no page can be asked.

    Raises:
        Refusal: as `Folder.put`; or there are unsaved edits.
    """
    if documents is not None:
        found = await documents.find(_located(folder, path).resolved)
        if any(document.dirty for document in found):
            raise Refusal(UNSAVED)
        version, held = await trio.to_thread.run_sync(folder.look, path)
        if version != now:
            raise Refusal(CHANGED)
        text = None if then is None else _text(then, data)
        if held is not None and held != data and text is not None:
            await _show(documents, _Exchange(folder, path, now, then), held, text)
            now, held = await trio.to_thread.run_sync(folder.look, path)
            if held != data:  # somebody goes on editing
                return
            # A shared document is saved by the server, with the permissions that it had.
    if now != then:
        await trio.to_thread.run_sync(partial(folder.put, path, now=now, then=then, data=data))


async def _show(documents: OpenDocuments, exchange: _Exchange, held: bytes, text: str) -> None:
    located = _located(exchange.folder, exchange.path)
    try:
        await OpenDocumentFiles(exchange, lambda: documents).write(
            located, text, expected=_version(held)
        )
    except files.Changed:
        raise Refusal(UNSAVED) from None


class _Exchange:
    """One file of a folder as a `files.FileBackend`, which becomes what it is to become."""

    def __init__(
        self, folder: Folder, path: str, now: Version | None, then: Version | None
    ) -> None:
        self.folder = folder
        self.path = path
        self._now = now
        self._then = then

    def locate(self, path: object) -> Located:
        return _located(self.folder, str(path))

    async def read(
        self,
        _located: Located,
        *,
        line: int | None = None,  # noqa: ARG002  # texts are compared whole
        limit: int | None = None,  # noqa: ARG002
    ) -> files.Content:
        version, data = await trio.to_thread.run_sync(self.folder.look, self.path)
        if version is None:
            raise Refusal("it is gone", code=ErrorCode.RESOURCE_NOT_FOUND)
        text = None if data is None else _text(version, data)
        if data is None or text is None:
            raise files.NotText("it is no text")
        return files.Content(text, _version(data))

    async def write(
        self,
        _located: Located,
        text: str,
        *,
        expected: files.Version | None,  # noqa: ARG002  # it is known better
    ) -> files.Version:
        data = text.encode()
        put = partial(self.folder.put, self.path, now=self._now, then=self._then, data=data)
        await trio.to_thread.run_sync(put)
        return _version(data)


def _located(folder: Folder, path: str) -> Located:
    return Located(folder.path, tuple(path.split("/")), os.path.join(folder.path, path))


def _version(data: bytes) -> files.Version:
    return files.Version(0, len(data), hashlib.sha256(data).digest())


def _text(version: Version, data: bytes) -> str | None:
    """``None`` for what no editor shows."""
    try:
        return data.decode() if stat.S_ISREG(version.mode) and b"\0" not in data else None
    except UnicodeDecodeError:
        return None
