"""The documents that are open in the pages that are connected (`services.open_documents`).

* All pages are asked at once, and each has `ANSWER_WITHIN` seconds. One that has not answered is
  not asked again until it says something: the browser may be gone, or sleep.
* A page is asked only about files below the server's directory: it knows no others.
* What a page says is looked at closely: it may be older or newer than this kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, get_args
from uuid import uuid4

import trio

from ..errors import ErrorCode, Refusal, UsageError
from ..services.open_documents import EditOutcome, OpenDocument

ANSWER_WITHIN: Final = 5.0
"""Seconds. A page answers within a tenth of one, unless it is busy with large outputs."""

JOIN_WITHIN: Final = 15.0
"""Seconds: the server has to load the document."""

NO_ANSWER: Final = object()

Send = Callable[[str, dict[str, Any]], None]


@dataclass
class _Asked:
    """A question that a page has not answered yet."""

    page: str
    answered: trio.Event = field(default_factory=trio.Event)
    answer: Any = None


class PageDocuments:
    """See the module. All methods run on the trio thread.

    Args:
        root: the server's directory, resolved; empty if it is not known.
        pages: the pages that listen, and for each a number that grows when it says something.
        send: sends a page a message.
    """

    def __init__(self, root: str, pages: Callable[[], Mapping[str, int]], send: Send) -> None:
        self.root = root
        self._pages = pages
        self._send = send
        self._asked: dict[str, _Asked] = {}
        self._silent: dict[str, int] = {}
        self.writing = trio.Lock()

    # -- for the files -------------------------------------------------------------------------

    async def find(self, path: str) -> Sequence[OpenDocument]:
        """See `OpenDocuments.find`."""
        relative = self._relative(path)
        pages = [] if relative is None else self._listening()
        found: list[OpenDocument] = []

        async def ask(page: str) -> None:
            answer = await self._ask(page, {"op": "find", "path": relative})
            if type(answer) is dict:
                found.append(_document(page, str(relative), answer))

        async with trio.open_nursery() as nursery:
            for page in pages:
                nursery.start_soon(ask, page)
        return sorted(found, key=lambda document: pages.index(document.page))

    async def join(self, path: str) -> OpenDocument | None:
        """See `OpenDocuments.join`. One page is enough."""
        relative = self._relative(path)
        for page in [] if relative is None else self._listening():
            answer = await self._ask(page, {"op": "join", "path": relative}, JOIN_WITHIN)
            if type(answer) is dict:
                return _document(page, str(relative), answer)
            if answer is NO_ANSWER:
                raise Refusal(
                    f"it takes long to find out who has {relative} open; try again",
                    code=ErrorCode.INTERNAL_ERROR,
                )
        return None

    async def edit(self, document: OpenDocument, text: str) -> EditOutcome:
        """See `OpenDocuments.edit`."""
        answer = await self._ask(
            document.page,
            {
                "op": "edit",
                "path": document.path,
                "revision": document.revision,
                "text": text,
            },
        )
        for known in get_args(EditOutcome):
            if answer == known:
                outcome: EditOutcome = known
                return outcome
        return "silent"

    async def settle(self, document: OpenDocument, *, saved: bool) -> None:
        """See `OpenDocuments.settle`."""
        await self._ask(document.page, {"op": "settle", "path": document.path, "saved": saved})

    async def reload(self, document: OpenDocument) -> None:
        """See `OpenDocuments.reload`."""
        await self._ask(document.page, {"op": "reload", "path": document.path})

    # -- for the pages -------------------------------------------------------------------------

    def take(self, page: str, request: dict[str, Any]) -> None:
        """A page has answered.

        Raises:
            UsageError: it was not asked, or has taken too long.
        """
        asked = self._asked.get(str(request.get("ask")))
        if asked is None or asked.page != page:
            raise UsageError("this answer came too late, or to no question")
        asked.answer = request.get("answer")
        asked.answered.set()

    def _listening(self) -> list[str]:
        """The pages to ask: what is silent is forgotten when it speaks, or is gone."""
        pages = self._pages()
        self._silent = {
            page: heard for page, heard in self._silent.items() if pages.get(page) == heard
        }
        return [page for page in pages if page not in self._silent]

    async def _ask(self, page: str, question: dict[str, Any], within: float | None = None) -> Any:
        """The page's answer, or `NO_ANSWER`."""
        ident = uuid4().hex
        asked = self._asked[ident] = _Asked(page)
        heard = self._pages().get(page)
        try:
            self._send(page, {"type": "document", "ask": ident, "question": question})
            with trio.move_on_after(within or ANSWER_WITHIN):
                await asked.answered.wait()
                return asked.answer
            if heard is not None and self._pages().get(page) == heard:
                self._silent[page] = heard
            return NO_ANSWER
        finally:
            del self._asked[ident]

    def _relative(self, path: str) -> str | None:
        """A path as the server knows it; ``None`` for one that it does not show."""
        try:
            path.encode()
        except UnicodeEncodeError:  # a name of other bytes
            return None
        relative = os.path.relpath(path, self.root).replace(os.sep, "/")
        outside = relative == ".." or relative.startswith("../")
        return None if outside or relative == "." else relative


def _document(page: str, path: str, answer: dict[str, Any]) -> OpenDocument:
    """What a page says of a document; what cannot be read of it counts as the most careful."""
    text = answer.get("text")
    return OpenDocument(
        page=page,
        path=path,
        kind="notebook" if answer.get("kind") == "notebook" else "text",
        revision=str(answer.get("revision")),
        dirty=answer.get("dirty") is not False,
        shared=answer.get("shared") is True,
        read_only=answer.get("readOnly") is not False,
        outdated=answer.get("outdated") is not False,
        text=text if type(text) is str else None,
    )
