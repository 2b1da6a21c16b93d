"""``acp-jupyter sweep``: a notebook executed for each point of a grid, into a table.

Exit codes: 0 all runs of the grid are there and ended well, 1 the sweep could not be made, 2 the
command line is wrong, 3 all are there and some ended otherwise (the table says how), 4 some could
not be made, 130 it was interrupted. After 4 and 130 the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .run import add_parameters, parameters_of

if TYPE_CHECKING:
    from ..experiments.sweeps import Plan, Sweep

INTERRUPTED = 130


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    sweep = commands.add_parser(
        "sweep",
        help="execute a notebook for each point of a grid, into one table",
        description="Execute a notebook for each point of a grid of parameters, each run in a copy "
        "of the workspace. The same command again runs only what is missing. Exit codes: 3 some "
        "notebooks did not end well, 4 some runs could not be made, 130 it was interrupted.",
    )
    sweep.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    sweep.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the results' directory"
    )
    sweep.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="a parameter with its values, or with a JSON list of them; may be repeated",
    )
    add_parameters(sweep)
    sweep.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each point")
    sweep.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at once")
    sweep.add_argument(
        "--dask", metavar="ADDRESS", help="have the workers of this Dask scheduler make the runs"
    )
    _add_settings(sweep)
    sweep.add_argument(
        "--retry-failed", action="store_true", help="run those again that did not end well"
    )
    sweep.add_argument("--dry-run", action="store_true", help="only list the runs")
    sweep.add_argument("--json", action="store_true", help="print a summary on standard output")
    sweep.add_argument("--quiet", action="store_true", help="show no progress on standard error")
    sweep.set_defaults(run=_sweep)


def _add_settings(sweep: argparse.ArgumentParser) -> None:
    """The options for how each run is made."""
    sweep.add_argument(
        "--workspace", type=Path, metavar="DIR", help="default: the notebook's folder"
    )
    sweep.add_argument(
        "--isolate",
        choices=["copy", "worktree"],
        default="copy",
        help="give each run a copy of the workspace, or a worktree of its git repository, with "
        "what is committed",
    )
    sweep.add_argument("--timeout", type=float, metavar="S", help="seconds that one cell may take")
    sweep.add_argument(
        "--permissions",
        metavar="FILE|deny|allow",
        help="the permission policy (default: as configured; nobody can be asked)",
    )
    sweep.add_argument("--budget", type=float, help="cost that one run may take")
    sweep.add_argument(
        "--record", action="store_true", help="keep what agents said, to replay each run"
    )


def _sweep(arguments: argparse.Namespace) -> int:
    from ..experiments import grid, sweeps

    planned = sweeps.plan(
        arguments.notebook,
        grid.parse(arguments.grid, parameters_of(arguments)),
        output=arguments.output,
        repeat=arguments.repeat,
        folder=arguments.workspace,
        isolate=arguments.isolate,
        settings=sweeps.Settings(
            arguments.timeout, arguments.permissions, arguments.budget, arguments.record
        ),
    )
    if arguments.dry_run:
        _list(planned, as_json=arguments.json)
        return 0
    try:
        made = sweeps.execute(
            planned,
            jobs=arguments.jobs,
            dask=arguments.dask,
            retry_failed=arguments.retry_failed,
            say=_silent if arguments.quiet else _say,
        )
    except KeyboardInterrupt:
        _say("Interrupted. The same command goes on with the runs that are missing.")
        return INTERRUPTED
    if arguments.json:
        print(json.dumps(made.as_json(), indent=1))
    elif not arguments.quiet:
        _tell(made)
    return 4 if made.lost else 3 if made.failed else 0


def _say(line: str) -> None:
    from ..rendering.characters import visible

    print(visible(line), file=sys.stderr, flush=True)


def _silent(_line: str) -> None:
    """Nothing."""


def _list(planned: Plan, *, as_json: bool) -> None:
    """Each run of the grid, and whether it is there."""
    states = [
        {
            "run": key,
            "parameters": dict(point.parameters),
            "repeat": point.repeat,
            "finished": key in planned.finished,
        }
        for key, point in planned.points.items()
    ]
    if as_json:
        print(json.dumps(states, indent=1))
        return
    for key, point in planned.points.items():
        state = "there" if key in planned.finished else "missing"
        print(f"{key}  {state:<7}  {point.label}")
    print(f"{len(planned.missing)} of {len(planned.points)} runs are missing.")


def _tell(made: Sweep) -> None:
    print(f"{made.total} runs: {made.before} were there, {made.done} made now.", end="")
    print(f" {len(made.lost)} could not be made." if made.lost else "")
    if made.failed:
        print(f"{len(made.failed)} did not end well: the column `error` of the table says why.")
    print(f"Table: {made.path / 'table.csv'}")
