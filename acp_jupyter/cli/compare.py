"""``acp-jupyter compare``: the results of a sweep side by side, as a notebook or a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    compare = commands.add_parser(
        "compare",
        help="put the results of a sweep side by side",
        description="Put the results of a sweep side by side: medians with quartiles and bootstrap "
        "intervals, answers to the same prompt, changed files. Prints the table, or writes a "
        "notebook or an HTML page that runs and loads nothing.",
    )
    compare.add_argument("results", type=Path, metavar="DIR", help="what `sweep -o` has made")
    compare.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write a .ipynb or .html file"
    )
    compare.add_argument(
        "--by",
        default="",
        metavar="COLUMN",
        help="make a group of each value of it, or of this parameter (default: agent, or the first "
        "parameter that varies)",
    )
    compare.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    compare.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from ..experiments.comparison import compare, write_report

    comparison = compare(arguments.results, arguments.by, seed=arguments.seed)
    if arguments.output is None:
        print(comparison.summary())
        return 0
    write_report(comparison, arguments.output)
    print(f"Wrote {arguments.output}")
    return 0
