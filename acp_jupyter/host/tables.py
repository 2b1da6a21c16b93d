"""Data frames and series as text for an agent: shape, schema with a summary, and the first rows.

Nothing here imports pandas or polars: frames are known by the names of their classes, and what is
called on them is the same in all their versions that are in use. The text is bounded, and a note
says what it leaves out. What user code raises in between (a cell's ``__str__``) is shown in place.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .foreign import attempt, is_a, type_name

__all__ = ["TableFormat", "describe_table", "is_table"]

TableFormat = Literal["markdown", "csv"]

HEAD_ROWS: Final = 5
SAMPLED_ROWS: Final = 200_000
"""Rows that a summary looks at: some milliseconds a column."""

MAX_COLUMNS: Final = 200
HEAD_COLUMNS: Final = 50
CELL: Final = 80
"""Characters of one value."""

_POLARS: Final = "polars"
_PANDAS: Final = "pandas"
_LEFT_OUT: Final = frozenset({"count", "null_count"})  # the schema has them


def is_table(value: object) -> bool:
    """Whether it is a data frame or series of pandas or polars."""
    return any(is_a(value, root, "DataFrame", "Series") for root in (_PANDAS, _POLARS))


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    dtype: str
    missing: str
    summary: str


@dataclass(frozen=True, slots=True)
class _Table:
    """What a frame of either library is to us.

    Attributes:
        what: the type, for the title.
        rows, columns: its shape.
        index: title of the index, or ``None`` where there is none.
        column: describes a column by its number.
        head: values of the first rows and columns, with the index in front.
        step: a summary looks at every ``step``-th row.
    """

    what: str
    rows: int
    columns: int
    index: str | None
    column: Callable[[int], _Column]
    head: Callable[[int, int], list[Sequence[object]]]
    step: int


def describe_table(value: Any, name: str, limit: int, form: TableFormat) -> tuple[str, str]:
    """A frame or series as text of at most about ``limit`` characters, and what it leaves out."""
    table = _polars(value) if is_a(value, _POLARS, "DataFrame", "Series") else _pandas(value)
    title = f"{name}: {table.what}, {table.rows:,} rows, {table.columns:,} columns"
    if table.step > 1:
        title += f" (missing values and summary from every {table.step}th row)"
    write = _markdown if form == "markdown" else _csv
    columns = _columns(table, limit * 6 // 10)
    parts = [title, write(["column", "type", "missing", "summary"], columns)]
    room = limit - sum(map(len, parts))
    head, rows, shown = _head(table, [column[0] for column in columns], room, write)
    if head:
        parts.append(f"First {rows} rows:\n\n{head}" if rows and form == "markdown" else head)
    note = _note(table, len(columns), rows, shown)
    if len(columns) < table.columns or rows < table.rows:
        parts.append(f"Shown here: {note}.")
    return "\n\n".join(parts), note


def _note(table: _Table, described: int, rows: int, shown: int) -> str:
    schema = "schema" if described == table.columns else f"schema of {described:,} columns"
    head = "all" if rows == table.rows else f"{rows:,} of"
    width = f" and {shown:,} of {table.columns:,} columns" if shown < table.columns and rows else ""
    return f"{schema}, {head} {table.rows:,} rows{width}"


def _columns(table: _Table, room: int) -> list[list[str]]:
    lines: list[list[str]] = []
    for number in range(min(table.columns, MAX_COLUMNS)):
        column = table.column(number)
        line = [column.name, column.dtype, column.missing, column.summary]
        room -= sum(map(len, line)) + 3 * len(line)
        if room < 0:
            break
        lines.append(line)
    return lines


def _head(
    table: _Table,
    names: Sequence[str],
    room: int,
    write: Callable[[Sequence[str], Iterable[Sequence[str]]], str],
) -> tuple[str, int, int]:
    """The first rows as text, and how many rows and columns of them fit."""
    rows, shown = min(HEAD_ROWS, table.rows), min(len(names), HEAD_COLUMNS)
    values = attempt(table.head, rows, shown)
    if isinstance(values, str):
        return values, 0, 0
    before = [table.index] if table.index is not None else []
    while rows and shown:
        header = [*before, *names[:shown]]
        lines = [[_cell(value) for value in row[: len(header)]] for row in values[:rows]]
        text = write(header, lines)
        if len(text) <= room:
            return text, rows, shown
        rows, shown = (rows, shown // 2) if shown > 4 else (rows - 1, shown)
    return "", 0, 0


# -- the libraries ----------------------------------------------------------------------------


def _step(rows: int) -> int:
    return -(-rows // SAMPLED_ROWS) or 1


def _pandas(value: Any) -> _Table:
    what = type_name(value)
    if is_a(value, _PANDAS, "Series"):
        value = value.to_frame(value.name if value.name is not None else "value")
    rows, columns = value.shape
    step = _step(rows)
    names = list(value.columns)

    def column(number: int) -> _Column:
        series = value.iloc[::step, number]
        missing = attempt(lambda: f"{int(series.isna().sum()):,}")
        summary = attempt(lambda: _summary(series.describe().items()))
        return _Column(_cell(names[number]), str(series.dtype), missing, summary)

    def head(rows: int, columns: int) -> list[Sequence[object]]:
        part = value.iloc[:rows, :columns]
        return list(part.itertuples(index=True, name=None))

    index = value.index
    title = "" if index.name is None else _cell(index.name)
    return _Table(what, rows, columns, title, column, head, step)


def _polars(value: Any) -> _Table:
    what = type_name(value)
    if is_a(value, _POLARS, "Series"):
        value = value.to_frame()
    rows, columns = value.shape
    step = _step(rows)

    def column(number: int) -> _Column:
        series = value.to_series(number)
        if step > 1:
            series = series.gather_every(step)
        missing = attempt(lambda: f"{series.null_count():,}")
        summary = attempt(lambda: _summary(series.describe().rows()))
        return _Column(_cell(series.name), str(series.dtype), missing, summary)

    def head(rows: int, columns: int) -> list[Sequence[object]]:
        return list(value.head(rows)[:, :columns].rows())

    return _Table(what, rows, columns, None, column, head, step)


def _summary(statistics: Iterable[tuple[Any, Any]]) -> str:
    facts = (f"{key} {_cell(fact, 40)}" for key, fact in statistics if key not in _LEFT_OUT)
    return ", ".join(facts)


def _cell(value: Any, limit: int = CELL) -> str:
    """One value on one line."""
    text = f"{value:.6g}" if isinstance(value, float) else attempt(str, value)
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


# -- the text ---------------------------------------------------------------------------------


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        escaped = (cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(escaped)} |"

    return "\n".join(_lines(line, header, rows))


def _lines(
    line: Callable[[Iterable[str]], str], header: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    yield line(header)
    yield line("---" for _ in header)
    yield from map(line, rows)


def _csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().rstrip("\n")
