"""``python -m tests.bench``: measure, print the table, exit with 1 if a goal was missed.

With names behind it, only those measures run. ``--list`` says which there are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.goals import GOALS, Row, table
from tests.bench.measures import MEASURES

LEAST_RUNS = 5


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help="default: all")
    parser.add_argument("--runs", type=int, default=LEAST_RUNS, help="of each; default 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    parser.add_argument("--list", action="store_true", help="name the measures and their rows")
    options = parser.parse_args(arguments)
    for name in options.measures:
        if name not in MEASURES:
            parser.error(f"no measure {name!r}; there are: {', '.join(MEASURES)}")
    if options.runs < 1:
        parser.error("--runs: at least one")
    return options


def measured(name: str, runs: int) -> Iterator[Row]:
    """The rows of one measure; those that a failure left without a value say why."""
    measure, expected = MEASURES[name]
    done: set[str] = set()
    try:
        for row in measure(runs):
            done.add(row.name)
            yield row
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"{name}: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        reason = str(error).partition("\n")[0]
        yield from (Row(row, None, reason) for row in expected if row not in done)


def machine() -> dict[str, Any]:
    packages = ("ipykernel", "jupyter_client", "msgspec", "trio", "agent-client-protocol")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        **{package: version(package) for package in packages},
    }


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0 when every goal that was measured is kept, else 1."""
    options = parse(arguments)
    if options.list:
        for name, (_, keys) in MEASURES.items():
            print(name, *(f"    {GOALS[key].text}" for key in keys), sep="\n")
        return 0
    rows: list[Row] = []
    for name in options.measures or MEASURES:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        rows += measured(name, options.runs)
    rows.sort(key=lambda row: list(GOALS).index(row.name))
    about = machine()
    print(table(rows))
    print(f"\n{options.runs} runs of each, in turn;", ", ".join(f"{k} {about[k]}" for k in about))
    if options.json:
        result = {"runs": options.runs, "machine": about, "rows": [_as_json(row) for row in rows]}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    missed = [row for row in rows if row.missed]
    for row in missed:
        print(f"missed: {row.goal.text}", file=sys.stderr)
    return 1 if missed else 0


def _as_json(row: Row) -> dict[str, Any]:
    return {**asdict(row), **asdict(row.goal), "verdict": row.verdict}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
