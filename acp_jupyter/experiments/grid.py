"""The grid of a sweep: which parameters take which values, and the points that follow.

Pure. A point is one set of parameters and the number of its repetition. Its key is a hash of what
the run depends on, the notebook and the point: a run that is stored under a key is never repeated.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..errors import UsageError
from .parameters import read_value

Value: TypeAlias = str | int | float | bool | None
Grid: TypeAlias = Mapping[str, Sequence[Value]]

MAX_POINTS: Final = 10_000
"""Each point is a directory of its own, and more of them than this is a slip of the pen."""

KEY_LENGTH: Final = 20
"""Hexadecimal digits: 80 bits, with which no two points of a sweep share a key by chance."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep.

    Attributes:
        parameters: names and values, in the grid's order.
        repeat: 1, 2, … among the runs with the same parameters.
    """

    parameters: Mapping[str, Value]
    repeat: int

    @property
    def label(self) -> str:
        """In words: ``agent=demo, model=small, repeat 2``."""
        named = [f"{name}={shown(value)}" for name, value in self.parameters.items()]
        return ", ".join([*named, f"repeat {self.repeat}"])


def shown(value: Value) -> str:
    """A value as it is written on a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def parse(axes: Sequence[str], constants: Mapping[str, Value] | None = None) -> dict[str, Any]:
    """Read the options of a command line.

    Args:
        axes: each ``NAME=VALUE,VALUE…``, or ``NAME=[…]`` with a JSON list, whose texts may hold
            commas.
        constants: parameters with the one value that all points have.

    Raises:
        UsageError: one of them cannot be understood, or a name is given twice.
    """
    grid: dict[str, Sequence[Value]] = {}
    for axis in axes:
        name, equals, text = axis.partition("=")
        if not equals or not text:
            raise UsageError(
                f"--grid {axis}: that is no name with values",
                remedy="For example `--grid agent=demo,claude-acp`.",
            )
        if name in grid:
            raise UsageError(
                f"--grid {name} is given twice",
                remedy=f"Write all values in one: `--grid {name}=A,B`.",
            )
        grid[name] = _values(name, text)
    for name, value in (constants or {}).items():
        if name in grid:
            raise UsageError(
                f"{name} is a parameter with one value and an axis of the grid too",
                remedy="Leave one of them out.",
            )
        grid[name] = [value]
    check(grid)
    return dict(grid)


def _values(name: str, text: str) -> list[Value]:
    if not text.startswith("["):
        return [read_value(word.strip()) for word in text.split(",")]
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--grid {name}: what begins with [ has to be a JSON list ({error})",
            remedy=f"""For example `--grid '{name}=["one, two", "three"]'`.""",
        ) from error
    return list(values)


def check(grid: Grid) -> None:
    """Refuse a grid that no notebook could be run with.

    Raises:
        UsageError: a name is no variable's, or its values are none, equal or of no simple type.
    """
    for name, values in grid.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(
                f"{name!r} cannot be a parameter",
                remedy="Name a variable of the cell that is tagged `parameters`.",
            )
        if isinstance(values, str) or not values:
            raise UsageError(f"the parameter {name} has no list of values")
        for value in values:
            if type(value) not in (str, int, float, bool, type(None)) or value != value:
                raise UsageError(
                    f"the parameter {name} has the value {value!r}",
                    remedy="Use texts, numbers, true, false and null.",
                )
        if len({_canonical(value) for value in values}) < len(values):
            raise UsageError(
                f"the parameter {name} has a value twice", remedy="To run it again, use --repeat."
            )


def points(grid: Grid, repeat: int = 1) -> list[Point]:
    """All points: the first repetition of each first, so that an early stop leaves a whole one.

    Raises:
        UsageError: there are none, or too many.
    """
    check(grid)
    if repeat < 1:
        raise UsageError(f"a sweep runs each point at least once, not {repeat} times")
    count = repeat
    for values in grid.values():
        count *= len(values)
    if count > MAX_POINTS:
        raise UsageError(
            f"the grid has {count:,} points, more than {MAX_POINTS:,}",
            remedy="Leave out values, or make several sweeps of it.",
        )
    return list(_points(grid, repeat))


def _points(grid: Grid, repeat: int) -> Iterator[Point]:
    for number in range(1, repeat + 1):
        for values in itertools.product(*grid.values()):
            yield Point(dict(zip(grid, values, strict=True)), number)


def key(notebook: str, point: Point) -> str:
    """What a run is stored under.

    Args:
        notebook: its digest, see `digest`.
        point: the order of its parameters does not matter.
    """
    held = [1, notebook, sorted(point.parameters.items()), point.repeat]
    return hashlib.sha256(_canonical(held).encode()).hexdigest()[:KEY_LENGTH]


def digest(notebook: Mapping[str, Any]) -> str:
    """A hash of what a notebook does: sources, kinds and tags of its cells, and its kernel.

    Outputs, execution counts and the looks of it do not count: saving it again changes nothing.
    """
    metadata = notebook.get("metadata") or {}
    cells = [
        [
            cell.get("cell_type"),
            _joined(cell.get("source", "")),
            (cell.get("metadata") or {}).get("tags") or [],
        ]
        for cell in notebook.get("cells", [])
    ]
    kernel = (metadata.get("kernelspec") or {}).get("name")
    return hashlib.sha256(_canonical([1, kernel, cells]).encode()).hexdigest()


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
