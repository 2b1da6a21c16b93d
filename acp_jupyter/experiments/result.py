"""What became of a run: of the notebook, of each cell, of each prompt turn. Pure.

`RunResult.as_json` is what ``acp-jupyter run --json`` prints. Turns are dicts as the kernel reports
them (`host.report`): ``cell`` (index), ``connection`` (the name after ``--as``), ``turn``,
``agent``, ``version``, ``model``, ``options``, ``prompt``, ``text``, ``stop_reason``, ``error``,
``first_chunk_s``, ``duration_s``, ``tokens``, ``cost``, ``currency``, ``usage``, ``tool_calls``
(number by kind), ``permissions``, ``permissions_denied``, ``files``, ``lines_added`` and
``lines_removed`` (as tool calls reported them). What is not known is null.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

Status = Literal[
    "ok", "error", "check", "denied", "budget", "timeout", "interrupted", "terminated", "dead"
]

Stop = Literal["", "timeout", "interrupted", "terminated"]
"""What ends a run before its last cell; empty if nothing did."""

EXIT_CODES: Final[dict[Status, int]] = {
    "ok": 0,
    "dead": 1,
    "error": 3,
    "check": 4,
    "denied": 5,
    "budget": 6,
    "timeout": 7,
    "interrupted": 130,
    "terminated": 143,
}
"""``acp-jupyter run``: 1 the kernel died, 3 a cell failed, 4 a check failed, 5 a permission was
denied, 6 the budget is spent, 7 a cell took too long, 130 and 143 it was told to stop."""

VERSION: Final = 1


@dataclass(slots=True)
class CellResult:
    """One code cell.

    Attributes:
        index: its place in the executed notebook, from 0.
        id: its id in the notebook; empty in older formats.
        status: "ok", "error", or "not run".
        seconds: how long it ran.
        error: its error in one line; empty if there was none.
    """

    index: int
    id: str = ""
    status: Literal["ok", "error", "not run"] = "not run"
    seconds: float = 0.0
    error: str = ""


@dataclass(slots=True)
class RunResult:
    """A run, ended or stopped.

    Attributes:
        status: the worst that happened, see `EXIT_CODES`.
        error: why it did not end well, in one line.
        output: the executed notebook.
        seconds: of the whole run, with the start and the end of its kernel.
        header: see `header`.
        cells: code cells, in order.
        turns: prompt turns, in order; see the module.
        checks: results of checks, in order, as `session.checks.Result.as_json` has them.
    """

    status: Status = "ok"
    error: str = ""
    output: str = ""
    seconds: float = 0.0
    header: dict[str, Any] = field(default_factory=dict)
    cells: list[CellResult] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.status]

    @property
    def checks_passed(self) -> int:
        return sum(check.get("status") == "passed" for check in self.checks)

    def totals(self) -> dict[str, Any]:
        """Sums over all turns; a cost only if one was reported, in one currency."""
        costs = [turn["cost"] for turn in self.turns if turn.get("cost") is not None]
        currencies = {turn.get("currency") for turn in self.turns if turn.get("cost") is not None}
        return {
            "turns": len(self.turns),
            "duration_s": round(sum(turn.get("duration_s") or 0.0 for turn in self.turns), 3),
            "cost": sum(costs) if len(currencies) == 1 else None,
            "tool_calls": sum(sum(turn.get("tool_calls", {}).values()) for turn in self.turns),
            "permissions": sum(turn.get("permissions", 0) for turn in self.turns),
            "permissions_denied": sum(turn.get("permissions_denied", 0) for turn in self.turns),
            "checks": len(self.checks),
            "checks_passed": self.checks_passed,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "exit_code": self.exit_code,
            **asdict(self),
            "totals": self.totals(),
        }
