"""What a check found, and a report of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from ..rendering.characters import one_line

State = Literal["ok", "warn", "fail"]

SYMBOLS: Final = {"ok": "✓", "warn": "!", "fail": "✗"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what.
        state: "ok"; "warn", something does not work, or may not; "fail", nothing will.
        text: what was found, in one line.
        remedy: what to do; empty where there is nothing to do.
    """

    name: str
    state: State
    text: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


def as_text(checks: Sequence[Check]) -> str:
    """A table: state, name and what was found, with what to do below it."""
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        text = one_line(check.text, 400)
        lines.append(f"{SYMBOLS[check.state]} {check.name.ljust(width)}  {text}".rstrip())
        if check.remedy and check.state != "ok":
            lines.append(f"  {' ' * width}  → {one_line(check.remedy, 400)}")
    return "\n".join(lines)


def worst(checks: Sequence[Check]) -> State:
    """The state of the worst of them."""
    states = {check.state for check in checks}
    return "fail" if "fail" in states else "warn" if "warn" in states else "ok"
