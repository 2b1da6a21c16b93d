"""What was found of an agent: items, and a report of them that shows itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from ..rendering.characters import one_line
from ..rendering.elements import Safe, el
from ..rendering.toolcalls import TONES

Status = Literal["ok", "warn", "fail", "not run"]

SYMBOLS: Final[dict[Status, str]] = {"ok": "✓", "warn": "!", "fail": "✗", "not run": "·"}
_TONES: Final[dict[Status, str]] = {"ok": "good", "warn": "warning", "fail": "bad"}

TEXT: Final = 400
"""Characters shown of what was found: much of it is the agent's."""

_CELL: Final = Safe("text-align:left;padding:1px 12px 1px 0;vertical-align:top")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was looked at.

    Attributes:
        id: stays the same from release to release.
        title: what.
        status: "ok"; "warn", it is not as it should be; "fail", it breaks a rule; "not run".
        detail: what was found, or why it was not run.
        rule: the rule, in words; empty where there is none.
    """

    id: str
    title: str
    status: Status
    detail: str = ""
    rule: str = ""

    def as_json(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


class Findings:
    """Items as they are found.

    Attributes:
        items: in order.
        agent: name and version, as it says them.
        version: of the protocol, as agreed on; 0 until then.
        started: it could be talked to at all.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.agent = ""
        self.version = 0
        self.started = False

    def ok(self, ident: str, title: str, detail: str = "", rule: str = "") -> None:
        self.items.append(Item(ident, title, "ok", detail, rule))

    def warn(self, ident: str, title: str, detail: str, rule: str = "") -> None:
        self.items.append(Item(ident, title, "warn", detail, rule))

    def fail(self, ident: str, title: str, detail: str, rule: str = "") -> None:
        self.items.append(Item(ident, title, "fail", detail, rule))

    def not_run(self, ident: str, title: str, detail: str) -> None:
        self.items.append(Item(ident, title, "not run", detail))

    def hold(
        self,
        ident: str,
        title: str,
        problem: str,
        rule: str = "",
        *,
        detail: str = "",
        must: bool = True,
    ) -> None:
        """An item for a rule: ``problem`` says how it is broken, and is empty where it is kept."""
        if not problem:
            self.ok(ident, title, detail, rule)
        elif must:
            self.fail(ident, title, problem, rule)
        else:
            self.warn(ident, title, problem, rule)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What was found of an agent; displays itself in a notebook.

    Attributes:
        agent: name and version, as it says them.
        command: with which it was started.
        protocol: version that was agreed on.
        items: in the order in which they were looked at.
    """

    agent: str
    command: Sequence[str]
    protocol: int
    items: tuple[Item, ...]

    @property
    def status(self) -> Status:
        """Of the worst item: "fail", "warn" or "ok"."""
        found = {item.status for item in self.items}
        return "fail" if "fail" in found else "warn" if "warn" in found else "ok"

    def __getitem__(self, ident: str) -> Item:
        """The item of that id.

        Raises:
            KeyError: there is none: what it depends on did not work.
        """
        for item in self.items:
            if item.id == ident:
                return item
        raise KeyError(ident)

    @property
    def counts(self) -> dict[str, int]:
        """How many items of each status."""
        return {s: sum(item.status == s for item in self.items) for s in SYMBOLS}

    def as_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "agent": self.agent,
            "command": list(self.command),
            "protocol": self.protocol,
            "state": self.status,
            "checks": [item.as_json() for item in self.items],
        }

    def as_text(self) -> str:
        """A table, and below each broken rule what it says."""
        width = max((len(item.title) for item in self.items), default=0)
        lines = [self._title()]
        for item in self.items:
            detail = one_line(item.detail, TEXT)
            lines.append(f"{SYMBOLS[item.status]} {item.title.ljust(width)}  {detail}".rstrip())
            if item.rule and item.status in ("warn", "fail"):
                lines.append(f"  {' ' * width}  the rule: {item.rule}")
        return "\n".join(lines)

    def _title(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
        return f"{one_line(self.agent, 200)}, ACP version {self.protocol}: {counts}"

    def __repr__(self) -> str:
        return f"<AgentReport {self._title()}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Called by IPython to display it."""
        return {"text/html": str(self._html()), "text/plain": self.as_text()}

    def _html(self) -> Safe:
        rows = []
        for item in self.items:
            broken = item.rule and item.status in ("warn", "fail")
            detail = [one_line(item.detail, TEXT)]
            if broken:
                detail.append(f" The rule: {item.rule}.")
            mark = el("span", SYMBOLS[item.status], style=TONES.get(_TONES.get(item.status, "")))
            rows.append(
                el(
                    "tr",
                    el("td", mark, f" {item.status}", style=_CELL),
                    el("td", item.title, style=_CELL),
                    el("td", detail, style=_CELL),
                )
            )
        return el("div", el("b", self._title()), el("table", el("tbody", rows)))
