"""Next-edit suggestions for programs: `Agent.suggest`, of agents that make them."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UsageError
from ..protocol import nes

if TYPE_CHECKING:
    from ..client.agent import Agent as LiveAgent
    from ..client.nes import NextEdits
    from ..host.cell import CellContext

T = TypeVar("T")


class Suggestion:
    """One suggestion of an agent's; made by `Agent.suggest`. It changes nothing by itself.

    Attributes:
        kind: "edit", "jump", "rename", "searchAndReplace", or what else the agent has.
        uri: of the document that it is about.
        data: all of it, as it came.
        edits: of an edit of the document that was asked about: offsets in characters, and texts.
        text: that document after the edits; ``None`` for any other suggestion.
    """

    def __init__(
        self, agent: Suggests, suggested: nes.Suggested, changes: list[nes.Edit], text: str | None
    ) -> None:
        self._agent = agent
        self._id = suggested.id
        self.kind = suggested.kind
        self.uri = suggested.uri
        self.data = suggested.data
        self.edits = changes
        self.text = text

    def accept(self) -> str | None:
        """Tell the agent that it was taken; returns `text`, to be put where it belongs."""
        self._agent._tell_of(lambda edits: edits.accept(self._id))
        return self.text

    def reject(self, reason: str = "rejected") -> None:
        """Tell the agent that it was not.

        Args:
            reason: "rejected", "ignored", "replaced" or "cancelled".
        """
        self._agent._tell_of(lambda edits: edits.reject(self._id, reason))

    def __repr__(self) -> str:
        return f"<Suggestion {self.kind} in {self.uri}: {len(self.edits)} edits>"


class Suggests:
    """Of an `Agent`: next-edit suggestions."""

    if TYPE_CHECKING:
        cwd: str

        def _call(self, function: Callable[..., Awaitable[T]], *args: object) -> T: ...
        async def _acall(self, function: Callable[..., Awaitable[T]], *args: object) -> T: ...
        @property
        def _live(self) -> LiveAgent: ...

    _next_edits: tuple[LiveAgent, NextEdits] | None = None

    def suggest(
        self,
        path: str | os.PathLike[str],
        cursor: int,
        *,
        text: str | None = None,
        language: str = "",
        selection: tuple[int, int] | None = None,
    ) -> list[Suggestion]:
        """Ask what could be edited next in a document.

        Args:
            path: of the document, relative to the agent's directory; it need not exist if ``text``
                is given.
            cursor: offset in characters.
            text: the document as it is now; by default the file is read, as UTF-8.
            language: as editors name it; by default told by the file's name.
            selection: offsets of its start and end.

        Returns:
            What the agent suggests, best first as it says; a suggestion that does not fit the text
            is left out.

        Raises:
            UsageError: the agent makes no suggestions, or there is no such text.
            ACPError: it failed.
        """
        return self._call(self._suggest, *self._asked(path, cursor, text, language, selection))

    async def asuggest(
        self,
        path: str | os.PathLike[str],
        cursor: int,
        *,
        text: str | None = None,
        language: str = "",
        selection: tuple[int, int] | None = None,
    ) -> list[Suggestion]:
        """`suggest`, for ``await``."""
        asked = self._asked(path, cursor, text, language, selection)
        return await self._acall(self._suggest, *asked)

    def saved(self, path: str | os.PathLike[str]) -> None:
        """Tell an agent that wants to know it that a document was saved that it was asked about."""
        uri = self._place(path).as_uri()
        self._tell_of(lambda edits: edits.saved(uri))

    def end_suggestions(self) -> None:
        """End what the agent keeps for suggestions; a later question begins anew."""

        async def end(_cell: CellContext) -> None:
            await self._asking().close()

        self._call(end)

    def _place(self, path: str | os.PathLike[str]) -> Path:
        return Path(os.path.realpath(os.path.join(self.cwd, path)))

    def _asked(
        self,
        path: str | os.PathLike[str],
        cursor: int,
        text: str | None,
        language: str,
        selection: tuple[int, int] | None,
    ) -> tuple[Any, ...]:
        place = self._place(path)
        if text is None:
            try:
                text = place.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{place} cannot be read: {error}", remedy="Give its text: `text=…`."
                ) from error
        if not all(0 <= at <= len(text) for at in (cursor, *(selection or ()))):
            raise UsageError(
                f"offsets are from 0 to {len(text):,} in that text", remedy="Count characters."
            )
        return place.as_uri(), text, cursor, language or _language(place), selection

    async def _suggest(
        self,
        _cell: CellContext,
        uri: str,
        text: str,
        cursor: int,
        language: str,
        selection: tuple[int, int] | None,
    ) -> list[Suggestion]:
        asking = self._asking()
        found = await asking.suggest(uri, text, cursor, language=language, selection=selection)
        made = []
        for suggested in found:
            changes: list[nes.Edit] = []
            after = None
            if suggested.kind == "edit" and suggested.uri == uri:
                try:
                    changes = nes.edits(suggested, text, asking.encoding)
                except ValueError:
                    asking.reject(suggested.id, "cancelled")
                    continue
                after = nes.applied(text, changes)
            made.append(Suggestion(self, suggested, changes, after))
        return made

    def _asking(self) -> NextEdits:
        """Of the agent that runs now."""
        from ..client.nes import NextEdits

        live = self._live
        if self._next_edits is None or self._next_edits[0] is not live:
            self._next_edits = (live, NextEdits(live, Path(self.cwd).as_uri()))
        return self._next_edits[1]

    def _tell_of(self, tell: Callable[[NextEdits], None]) -> None:
        async def do(_cell: CellContext) -> None:
            tell(self._asking())

        self._call(do)


def _language(path: Path) -> str:
    """``python`` of ``x.py``: the subtype of its media type, without ``x-``."""
    kind = mimetypes.guess_type(path.name)[0] or "text/plain"
    name = kind.rpartition("/")[2].removeprefix("x-")
    return "plaintext" if name == "plain" else name
