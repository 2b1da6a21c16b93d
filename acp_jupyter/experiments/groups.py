"""What the runs of a sweep come to: groups of runs, and each measure's spread in them. Pure.

A group has the runs with the same value of one column: the agent by default, or any other column
or parameter. Of each measure there are the values of all turns, or, where it is one of the whole
run, of all runs. The bootstrap is seeded by the group's and the measure's name, so that the same
results always give the same intervals, whatever else is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from ..errors import UsageError
from . import table
from .statistics import Summary, summary


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is compared.

    Attributes:
        column: of the table.
        title: with its unit.
        of_run: it is one of the whole run, and the same in all of its rows.
    """

    column: str
    title: str
    of_run: bool = False


MEASURES: Final = (
    Measure("first_chunk_s", "first chunk (s)"),
    Measure("duration_s", "turn (s)"),
    Measure("tokens", "tokens"),
    Measure("cost", "cost"),
    Measure("tool_calls", "tool calls"),
    Measure("permissions_denied", "denied"),
    Measure("files_changed", "files changed", of_run=True),
    Measure("lines_added", "lines added", of_run=True),
    Measure("lines_removed", "lines removed", of_run=True),
    Measure("checks_passed", "checks passed", of_run=True),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said to a prompt.

    Attributes:
        group: of its run.
        label: parameters and repetition of the run.
        prompt, text: as sent, and as answered; Markdown of the agent's.
        ended: its stop reason, or its error.
    """

    group: str
    label: str
    prompt: str
    text: str
    ended: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a run changed: texts of differences by path."""

    group: str
    label: str
    files: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Group:
    """Runs with the same value.

    Attributes:
        name: the value.
        runs: how many.
        errors: how many of them ended with an error.
        checks, checks_passed: of all of them.
        summaries: by column; without those that nobody reported.
    """

    name: str
    runs: int = 0
    errors: int = 0
    checks: int = 0
    checks_passed: int = 0
    summaries: dict[str, Summary] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)


@dataclass(slots=True)
class Compared:
    """See the module.

    Attributes:
        by: the column whose values are the groups.
        groups: in order of their names.
        answers: in order of runs and turns.
        changes: of the runs that changed something.
    """

    by: str
    groups: list[Group]
    answers: list[Answer]
    changes: list[Change]

    def prompts(self) -> list[str]:
        """All prompts, each once, in order."""
        return list(dict.fromkeys(answer.prompt for answer in self.answers))


def compared(runs: Sequence[Mapping[str, Any]], by: str = "", *, seed: int = 0) -> Compared:
    """Compare runs, as `directory` reads them.

    Args:
        runs: at least one.
        by: a column of the table, or a parameter; by default the agent, or where all runs have the
            same one, the first parameter that they differ in.
        seed: of the bootstrap.

    Raises:
        UsageError: there is no such column or parameter.
    """
    rowed = [(run, table.rows(run)) for run in runs]
    rows = [row for _, found in rowed for row in found]
    column = _column(rows, by)
    groups: dict[str, Group] = {}
    answers: list[Answer] = []
    changes: list[Change] = []
    for run, found in rowed:
        name = _value(found, column)
        group = groups.setdefault(name, Group(name))
        _count(group, run, found)
        label = _label(run)
        answers += [_answer(name, label, turn) for turn in run["turns"]]
        if run["changes"]:
            changes.append(Change(name, label, run["changes"]))
    for group in groups.values():
        for measure, values in group.values.items():
            chance = Random(f"{seed}:{group.name}:{measure}")  # noqa: S311  # it hides nothing
            spread = summary(values, chance)
            if spread is not None:
                group.summaries[measure] = spread
    ordered = [groups[name] for name in sorted(groups)]
    return Compared(column.removeprefix(table.PARAMETER), ordered, answers, changes)


def _column(rows: Sequence[table.Row], by: str) -> str:
    known = {column.name for column in table.COLUMNS}
    parameters = [name for name in rows[0] if name.startswith(table.PARAMETER)]
    if by:
        for column in (table.PARAMETER + by, by):
            if column in parameters or (column == by and by in known):
                return column
        shown = ", ".join(name.removeprefix(table.PARAMETER) for name in parameters)
        raise UsageError(
            f"the table has no column {by!r}",
            remedy=f"Use agent, model, prompt or another column, or a parameter: {shown}.",
        )
    if len({row.get("agent") for row in rows}) < 2:
        for name in parameters:
            if len({repr(row.get(name)) for row in rows}) > 1:
                return name
    return "agent"


def _value(found: Sequence[table.Row], column: str) -> str:
    values = dict.fromkeys(row.get(column) for row in found)
    known = [str(value) for value in values if value is not None]
    return ", ".join(known) or "(unknown)"


def _count(group: Group, run: Mapping[str, Any], found: Sequence[table.Row]) -> None:
    group.runs += 1
    group.errors += bool(run["error"] or any(row.get("error") for row in found))
    group.checks += run["checks"]
    group.checks_passed += run["checks_passed"]
    for measure in MEASURES:
        if measure.column == "checks_passed" and not run["checks"]:
            continue
        for row in found[:1] if measure.of_run else found:
            value = row.get(measure.column)
            if value is not None:
                group.values.setdefault(measure.column, []).append(value)


def _label(run: Mapping[str, Any]) -> str:
    named = [f"{name}={value}" for name, value in run["parameters"].items()]
    return ", ".join([*named, f"repeat {run['repeat']}"])


def _answer(group: str, label: str, turn: Mapping[str, Any]) -> Answer:
    prompt, text, error = (turn.get(name) for name in ("prompt", "text", "error"))
    ended = error or turn.get("stop_reason") or ""
    return Answer(
        group,
        label,
        prompt if isinstance(prompt, str) else "",
        text if isinstance(text, str) else "",
        ended if isinstance(ended, str) else "",
    )
