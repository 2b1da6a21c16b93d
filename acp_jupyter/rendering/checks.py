"""Results of checks as a table: HTML, text, and in the metadata of the output as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..session.checks import Result
from .characters import one_line, visible
from .elements import Safe, box, edged, el, fold, muted, pre
from .toolcalls import TONES

SYMBOLS: Final = {"passed": "✓", "failed": "✗", "error": "!"}
_TONES: Final = {"passed": "good", "failed": "bad", "error": "warning"}

_CELL: Final = Safe("text-align:left;padding:1px 12px 1px 0;vertical-align:top")

DETAIL: Final = 160
"""Characters of what was found that stand in the table; what is longer is folded."""


def bundle(results: Sequence[Result]) -> dict[str, str]:
    """HTML and text."""
    return {"text/html": str(_html(results)), "text/plain": as_text(results)}


def metadata(results: Sequence[Result]) -> dict[str, Any]:
    """What is kept with the output."""
    return {"acp": {"checks": [result.as_json() for result in results]}}


def title(results: Sequence[Result]) -> str:
    passed = sum(result.passed for result in results)
    return f"{passed} of {len(results)} checks passed"


def as_text(results: Sequence[Result]) -> str:
    """A line for each check, and one for what it found."""
    lines = [title(results)]
    for result in results:
        lines.append(f"  {SYMBOLS[result.status]} {one_line(result.check)}: {result.status}")
        if result.detail:
            lines += [f"      {line}" for line in visible(result.detail).splitlines()]
    return "\n".join(lines)


def _html(results: Sequence[Result]) -> Safe:
    rows = [
        el(
            "tr",
            el(
                "td",
                el("span", SYMBOLS[result.status], style=TONES.get(_TONES[result.status])),
                f" {result.status}",
                style=_CELL,
            ),
            el("td", el("code", one_line(result.check, 400)), style=_CELL),
            el("td", _detail(result.detail), style=_CELL),
        )
        for result in results
    ]
    worst = "error" if any(not result.passed for result in results) else "info"
    table = el("table", el("tbody", rows))
    return box(el("b", title(results)), table, style=edged(worst))


def _detail(text: str) -> Safe | None:
    if not text:
        return None
    if len(text) <= DETAIL and "\n" not in text:
        return muted(visible(text))
    first = text.split("\n", 1)[0]
    return fold(muted(one_line(first, DETAIL)), pre(visible(text)))
