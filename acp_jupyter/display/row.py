"""The row of outputs that a cell has, and what is shown in which of them.

Each item has an output of its own, as long as that can be seen: JupyterLab and Notebook show the
first fifty outputs of a cell and put the others behind a button. A question must not be there. So
where one would be, what came before is put together in few outputs, in the order of before; the
outputs that this leaves empty are used for what comes next.

Outputs put together have HTML and text only: the data of one entry would speak for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..rendering import entrydata
from . import Bundle

SEEN: Final = 45
"""Outputs that are surely shown; what other software adds to the cell has the rest of fifty."""

RECENT: Final = 8
"""The last outputs are left alone: they are those that still change."""

BLANK: Final[Bundle] = {"text/html": "", "text/plain": ""}
"""Outputs cannot be taken back, only emptied."""

JOINED: Final = frozenset({*BLANK, entrydata.MIME})
"""What the outputs may have that are put together; a widget or a picture stays as it is."""


class Row:
    """Items of one cell in the order of their first appearance.

    Args:
        publish: sends a bundle as an output: by its name, whether that name has one already, and
            the data to keep with it.
    """

    def __init__(self, publish: Callable[[str, Bundle, bool, list[object]], None]) -> None:
        self._publish = publish
        self._items: dict[str, Bundle] = {}
        self._data: dict[str, object] = {}
        self._apart: set[str] = set()
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._shown: list[Bundle | None] = []
        self._groups: list[list[str]] = []

    def put(
        self,
        item: str,
        bundle: Bundle,
        *,
        urgent: bool = False,
        apart: bool = False,
        data: object = None,
    ) -> None:
        """Show an item, new or changed; an ``urgent`` one has to be seen.

        ``data`` is kept with the output that shows it. One that is ``apart`` is never put together
        with others: it has controls.
        """
        self._items[item] = bundle
        if apart:
            self._apart.add(item)
        if data is not None:
            self._data[item] = data
        if item not in self._places:
            self._places[item] = len(self._groups)
            self._groups.append([item])
        if urgent and self._places[item] >= SEEN:
            self._gather()
        self._send(self._places[item])

    def _gather(self) -> None:
        """Put early items together."""
        groups: list[list[str]] = []
        early = len(self._groups) - RECENT
        joins = False
        for index, group in enumerate(self._groups):
            joinable = index < early and all(map(self._can_be_joined, group))
            if joinable and joins:
                groups[-1] += group
            else:
                groups.append(list(group))
            joins = joinable
        self._groups = groups
        self._places = {item: place for place, group in enumerate(groups) for item in group}
        for place in range(len(self._names)):
            self._send(place)

    def _can_be_joined(self, item: str) -> bool:
        bundle = self._items[item]
        return item not in self._apart and BLANK.keys() <= bundle.keys() <= JOINED

    def _bundle(self, place: int) -> Bundle:
        group = self._groups[place] if place < len(self._groups) else []
        if len(group) == 1:
            return self._items[group[0]]
        bundles = [self._items[item] for item in group]
        return {kind: "\n".join(filter(None, (b[kind] for b in bundles))) for kind in BLANK}

    def _send(self, place: int) -> None:
        """Publish an output, unless that is what it shows already."""
        if place == len(self._names):
            self._names.append(self._groups[place][0])
            self._shown.append(None)
        bundle = self._bundle(place)
        known = self._shown[place]
        if known != bundle:
            self._shown[place] = bundle
            self._publish(self._names[place], bundle, known is not None, self._kept(place))

    def _kept(self, place: int) -> list[object]:
        group = self._groups[place] if place < len(self._groups) else []
        return [self._data[item] for item in group if item in self._data]
