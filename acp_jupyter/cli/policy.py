"""``acp-jupyter policy``: a permission policy made of the decisions in a notebook.

Exit code 3: the notebook holds no decision that a rule can be made of, and nothing was written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .files import read_notebook, write_new

NO_RULES = 3
"""Exit code where there is nothing to make a policy of."""


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    policy = commands.add_parser(
        "policy",
        help="make a permission policy of the decisions in a notebook",
        description="Make a permission policy, for runs that nobody watches, of what you decided "
        "in an interactive run: exact rules, which are printed. Exit code 3: there are none.",
    )
    policy.add_argument(
        "--from", dest="notebook", type=Path, required=True, metavar="NOTEBOOK", help="a saved run"
    )
    policy.add_argument(
        "-o", "--output", type=Path, help="write the policy there (.toml or .json), a new file"
    )
    policy.set_defaults(run=_policy)


def _policy(arguments: argparse.Namespace) -> int:
    from ..services.decisions import from_json
    from ..services.policy_made import as_json, as_toml, make_policy, records_in

    notebook = read_notebook(arguments.notebook)
    found = [
        from_json(item)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for item in records_in(cell.outputs)
    ]
    made = make_policy(record for record in found if record is not None)
    for line in made.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if None in found:
        print(f"left out: {found.count(None)} that cannot be read", file=sys.stderr)
    if not made.rules:
        print("The notebook holds no decision that a rule can be made of.", file=sys.stderr)
        return NO_RULES
    target = arguments.output
    if target is not None and target.suffix == ".json":
        text = as_json(made) + "\n"
    else:
        text = as_toml(made, source=arguments.notebook.name)
    if target is not None:
        write_new(target, text)
    print(text, end="")
    return 0
