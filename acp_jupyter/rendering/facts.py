"""A titled table of facts: the banner of a session, the state of things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .characters import visible
from .elements import Safe, box, el


@dataclass(frozen=True, slots=True)
class Facts:
    """A title, and rows of a name and a value; values may come from an agent."""

    title: str
    rows: Sequence[tuple[str, str]]

    def as_text(self) -> str:
        """Aligned text."""
        width = max((len(name) for name, _ in self.rows), default=0)
        lines = [f"  {name.ljust(width)}  {visible(value)}" for name, value in self.rows]
        return "\n".join([visible(self.title), *lines])

    def as_bundle(self) -> dict[str, str]:
        """HTML and text."""
        cell = Safe("text-align:left;padding:1px 12px 1px 0;vertical-align:top")
        rows = [
            el("tr", el("th", name, style=cell), el("td", value, style=cell))
            for name, value in self.rows
        ]
        html = box(el("b", self.title), el("table", el("tbody", rows)))
        return {"text/html": str(html), "text/plain": self.as_text()}
