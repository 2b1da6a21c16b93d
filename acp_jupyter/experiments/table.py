"""The tidy table of a sweep: one row for each prompt turn, with the same columns for every sweep.

`COLUMNS` documents them. Each parameter of the grid has one more, ``parameter_NAME``, behind
``repeat``. A run that failed before its first turn has one row with ``error``. An empty cell is
what is not known: an agent that reports no cost was not for free.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import UsageError

Row = dict[str, Any]

BEYOND: Final = 1e15
"""Numbers from which on nothing can be meant, and whole ones are not exact in every reader."""

KINDS: Final = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"),
    "other",
)
"""Kinds of tool calls that the protocol knows; any other one counts as "other"."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: as in the file.
        type: of its values, where there are any.
        text: what it says, with its unit.
        foreign: its text comes from the agent, or from what it did.
    """

    name: str
    type: Literal["text", "whole", "number"]
    text: str
    foreign: bool = False


COLUMNS: Final = (
    Column("run", "text", "key of the run; its folder in `runs/`"),
    Column("repeat", "whole", "1, 2, … among the runs with the same parameters"),
    Column("turn", "whole", "1, 2, … in its session; empty if the run had none"),
    Column("agent", "text", "name of the agent, as it says itself", foreign=True),
    Column("version", "text", "its version", foreign=True),
    Column("model", "text", "the option `model` as it stood at the end of the turn", foreign=True),
    Column("options", "text", "all options of the session then, as JSON", foreign=True),
    Column("prompt", "text", "text of the prompt"),
    Column("stop_reason", "text", "why the turn ended; empty if it failed", foreign=True),
    Column("first_chunk_s", "number", "seconds from the prompt to the first of the answer"),
    Column("duration_s", "number", "seconds from the prompt to the end of the turn"),
    Column("tokens", "whole", "tokens of context in use after the turn, as the agent reports"),
    Column("cost", "number", "of this turn, as the agent reports"),
    Column("currency", "text", "of the cost", foreign=True),
    Column("tool_calls", "whole", "tool calls of the turn"),
    *(Column(f"tool_calls_{kind}", "whole", f"those of kind {kind}") for kind in KINDS),
    Column("permissions", "whole", "requests for permission"),
    Column("permissions_denied", "whole", "those that were denied"),
    Column("files_changed", "whole", "files that differ after the whole run"),
    Column("lines_added", "whole", "in them, after the whole run"),
    Column("lines_removed", "whole", "from them, after the whole run"),
    Column("checks", "whole", "checks of the whole run"),
    Column("checks_passed", "whole", "those that passed"),
    Column("run_s", "number", "seconds of the whole run, with the start of its kernel"),
    Column("error", "text", "why the turn, or else the run, failed", foreign=True),
)
PARAMETER: Final = "parameter_"
_AFTER: Final = 2
"""Columns before those of the parameters."""

_OF_A_TURN: Final = (
    *("turn", "agent", "version", "model", "prompt", "stop_reason", "first_chunk_s"),
    *("duration_s", "tokens", "cost", "currency", "permissions", "permissions_denied", "error"),
)
_BY_NAME: Final = {column.name: column for column in COLUMNS}


def names(parameters: Sequence[str]) -> list[str]:
    """The names of all columns, in order."""
    fixed = [column.name for column in COLUMNS]
    return [*fixed[:_AFTER], *(PARAMETER + name for name in parameters), *fixed[_AFTER:]]


def rows(run: Mapping[str, Any]) -> list[Row]:
    """The rows of one run, as `results` keeps it."""
    whole: Row = {
        "run": run["key"],
        "repeat": run["repeat"],
        **{PARAMETER + name: value for name, value in run["parameters"].items()},
        "files_changed": len(run["changes"]),
        "lines_added": sum(change["lines_added"] for change in run["changes"]),
        "lines_removed": sum(change["lines_removed"] for change in run["changes"]),
        "checks": run["checks"],
        "checks_passed": run["checks_passed"],
        "run_s": _typed(_BY_NAME["run_s"], run["seconds"]),
    }
    error = run["error"] or None
    turns = run["turns"]
    if not turns:
        return [{**whole, "error": error}]
    found = [{**whole, **_turn(turn)} for turn in turns]
    found[-1]["error"] = found[-1]["error"] or error
    return found


def _turn(turn: Mapping[str, Any]) -> Row:
    calls = turn.get("tool_calls")
    counts = dict.fromkeys(KINDS, 0)
    for kind, count in calls.items() if isinstance(calls, dict) else ():
        counts[kind if kind in counts else "other"] += count if type(count) is int else 0
    held = {name: _typed(_BY_NAME[name], turn.get(name)) for name in _OF_A_TURN}
    return {
        **held,
        "options": json.dumps(turn.get("options"), ensure_ascii=False, sort_keys=True),
        "tool_calls": sum(counts.values()),
        **{f"tool_calls_{kind}": count for kind, count in counts.items()},
    }


def _typed(column: Column, value: Any) -> Any:
    """A value, if it has the column's type; the file it comes from may hold anything."""
    if type(value) in (int, float) and not abs(value) < BEYOND:  # not a number is not less, too
        return None
    match column.type:
        case "text":
            return value if isinstance(value, str) and value else None
        case "whole":
            return value if type(value) is int else None
        case "number":
            return value if type(value) in (int, float) else None


def to_csv(found: Iterable[Row], parameters: Sequence[str]) -> str:
    """The table as CSV.

    A text of the agent's that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    foreign = {column.name for column in COLUMNS if column.foreign}
    file = io.StringIO()
    writer = csv.DictWriter(file, names(parameters), restval="", lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({name: _cell(value, name in foreign) for name, value in row.items()})
    return file.getvalue()


def _cell(value: Any, foreign: bool) -> Any:
    if foreign and isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return "" if value is None else value


def parquet_is_there() -> bool:
    """Whether pyarrow is installed, without loading it."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def write_parquet(found: Sequence[Row], parameters: Sequence[str], path: Path) -> None:
    """The table as a Parquet file, with the type of each column; texts are exact.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            "pyarrow, which writes Parquet, is not installed",
            remedy="pip install 'acp-jupyter[experiments]', or use the CSV file.",
        ) from error
    types = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64()}
    fixed = {column.name: types[column.type] for column in COLUMNS}
    arrays = {}
    for name in names(parameters):
        values = [row.get(name) for row in found]
        kind = fixed.get(name)
        if kind is None:  # values of a parameter may have several types
            arrays[name] = pa.array(_one_type(values))
        else:
            arrays[name] = pa.array(values, type=kind)
    parquet.write_table(pa.table(arrays), path)


def _one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) < 2:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [
        value if value is None or isinstance(value, str) else json.dumps(value) for value in values
    ]


def to_frame(found: Sequence[Row], parameters: Sequence[str]) -> Any:
    """The table as a pandas data frame.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise UsageError(
            "pandas is not installed", remedy="pip install 'acp-jupyter[experiments]'"
        ) from error
    return pd.DataFrame(found, columns=names(parameters))
