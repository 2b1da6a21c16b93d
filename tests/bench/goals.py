"""The goals, and how a measured value is judged. Pure.

A goal has a value that must be kept, and a target; smaller is better everywhere. A row without
them is there for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Goal:
    """One row of the table.

    Attributes:
        text: what is measured, in words.
        must: the most it may be; None for a row that only informs.
        target: the most it should be.
        unit: printed behind the values; empty for ratios and counts.
    """

    text: str
    must: float | None = None
    target: float | None = None
    unit: str = ""


GOALS: dict[str, Goal] = {
    "ingest": Goal("ingest CPU ÷ bare json loop, reducer and log included", 1.0, 0.5),
    "ingest-large": Goal("the same, 2,000 chunks of 2,000 characters"),
    "ingest-tools": Goal("the same, 500 tool calls of five updates"),
    "ingest-sdk": Goal("official Python SDK's client ÷ bare json loop, 20,000 chunks"),
    "flood-loop": Goal("20,000 chunks to idle ÷ bare json loop's wall time", 1.5, 0.6),
    "flood-peer": Goal("the same ÷ a kernel that sends one message an update", 0.1, 0.03),
    "flood-cpu": Goal("kernel CPU per update, 20,000 chunks", unit="µs"),
    "flood-lost": Goal("chunks lost or swapped, 20,000 chunks, plain client", 0, 0),
    "bytes": Goal("IOPub content bytes ÷ answer, 400 kB in 20,000 chunks", 3, 2.2),
    "bytes-unbroken": Goal("the same, an answer without a line break", 3, 2.2),
    "bytes-steady": Goal("the same, 200 kB in 1,000 chunks over 5 s", 3, 2.2),
    "large-peer": Goal("2,000 chunks of 2,000 to idle ÷ one message an update"),
    "tools-peer": Goal("500 tool calls to idle ÷ one message an update"),
    "messages": Goal("IOPub messages in a steady stream", 100, 20, "/s"),
    "latency-first": Goal("latency after a pause, p95, ÷ one message an update", 3, 1.7),
    "latency-steady": Goal("latency within a steady stream, p95", 60, 50, "ms"),
    "start": Goal("start ÷ plain ipykernel", 1.25, 1.05),
    "memory-ready": Goal("memory when ready ÷ plain ipykernel", 1.15, 1.08),
    "import": Goal("import acp_jupyter ÷ start of plain ipykernel", 0.02, 0.005),
    "load": Goal("%load_ext acp_jupyter ÷ start of plain ipykernel", 0.3, 0.15),
    "load-peer": Goal("the same ÷ import ipywidgets, in the same kernel", 1, 0.5),
    "memory-growth": Goal("memory kept per 100,000 updates", 12, 8, "MB"),
    "cancel-wire": Goal("interrupt to cancel on the wire", 100, 20, "ms"),
    "cancel-wire-flood": Goal("the same, in the middle of a flood", 100, 20, "ms"),
    "cancel-idle": Goal("the agent's answer to the cancel, to idle", 100, 20, "ms"),
    "server-lost": Goal("chunks lost behind a default server, 20,000 chunks", 0, 0),
    "server-idle": Goal("cells that never got idle behind a default server", 0, 0),
    "server-peer": Goal("chunks lost there by one message an update"),
    "server-peer-idle": Goal("cells never idle there with one message an update"),
    "page-stream": Goal("page's main thread ÷ re-sending the output, 1,000 chunks", 0.2, 0.1),
    "page-stream-longest": Goal("longest task of the page there", 200, 100, "ms"),
    "page-stream-messages": Goal("messages to the page there ÷ re-sending", 0.15, 0.1),
    "page-tools": Goal("page's main thread ÷ re-sending the output, 200 tool calls", 0.3, 0.1),
    "page-tools-longest": Goal("longest task of the page there", 500, 200, "ms"),
    "page-tools-messages": Goal("messages to the page there ÷ re-sending", 0.6, 0.3),
    "page-memory": Goal("page's memory, 20 kB in 5,000 chunks ÷ in 1,000", 1.5, 1.1),
    "permission": Goal("permission round trip", unit="µs"),
    "permission-peer": Goal("the same, one message an update", unit="µs"),
    "read": Goal("fs/read_text_file of 10 kB", unit="µs"),
    "read-peer": Goal("the same, one message an update", unit="µs"),
    "files-read-1k": Goal("agent's read of 1 kB through a server ÷ bare contents API"),
    "files-write-1k": Goal("agent's write of 1 kB there, what is there compared ÷ bare"),
    "files-read-1m": Goal("the same: read of 1 MB"),
    "files-write-1m": Goal("write of 1 MB"),
    "files-read-10m": Goal("read of 10 MB"),
    "files-write-10m": Goal("write of 10 MB"),
    "sweep-run": Goal("a run of a sweep ÷ bare nbclient, one at a time"),
    "sweep-extra": Goal("what a sweep adds to a run", unit="ms"),
    "sweep-jobs": Goal("four runs by a sweep, two at a time ÷ bare nbclient's"),
}


@dataclass(frozen=True)
class Row:
    """A measured goal.

    Attributes:
        name: its key in `GOALS`.
        value: the measured value; None if it could not be measured.
        note: absolute figures behind a ratio, or why there is no value.
    """

    name: str
    value: float | None
    note: str = ""

    @property
    def goal(self) -> Goal:
        return GOALS[self.name]

    @property
    def missed(self) -> bool:
        """A must that was not kept, or could not be shown to be kept."""
        must = self.goal.must
        return must is not None and (self.value is None or self.value > must)

    @property
    def verdict(self) -> str:
        goal, value = self.goal, self.value
        if value is None:
            return "not measured"
        if goal.must is None or goal.target is None:
            return "-"
        if value > goal.must:
            return "MISSED"
        return "on target" if value <= goal.target else "kept"


def median_ratio(values: list[float], floors: list[float]) -> float:
    """Median of the ratios of values to the floors measured right before or after them."""
    return median(value / floor for value, floor in zip(values, floors, strict=True))


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    rank = max(0, -(-int(share * 100) * len(ordered) // 100) - 1)
    return ordered[rank]


HEADER = ("metric", "must", "target", "measured", "verdict", "behind it")


def table(rows: list[Row]) -> str:
    """A Markdown table that also reads well in a terminal."""
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    goal = row.goal
    limits = (f"≤ {_number(goal.must, goal.unit)}", f"≤ {_number(goal.target, goal.unit)}")
    if goal.must is None:
        limits = ("-", "-")
    return (goal.text, *limits, _number(row.value, goal.unit), row.verdict, row.note)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "?"
    digits = 0 if value == int(value) or value >= 100 else 1 if value >= 10 else 2
    if 0 < value < 0.1:
        digits = 3
    return f"{value:,.{digits}f}" + (unit if unit.startswith("/") else f" {unit}".rstrip())
