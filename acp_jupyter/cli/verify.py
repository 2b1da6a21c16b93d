"""``acp-jupyter verify``: what differs now from what a notebook was run with.

Exit codes: 0 nothing that was compared, 1 it could not be done, 2 the command line is wrong, 3
something differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

DIFFERENT = 3
"""Exit code where something differs."""


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    verify = commands.add_parser(
        "verify",
        help="tell what differs now from what a notebook was run with",
        description="Compare what a notebook says that `acp-jupyter run` ran it with to what is "
        "here now: packages, environment, repository, and on request source, policy and agents. "
        "Exit code 3: something differs.",
    )
    verify.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="an executed notebook")
    verify.add_argument(
        "--cwd", type=Path, metavar="DIR", help="where it ran (default: the notebook's folder)"
    )
    verify.add_argument(
        "--source", type=Path, metavar="NOTEBOOK", help="compare with the notebook that was run"
    )
    verify.add_argument(
        "--permissions", metavar="FILE|deny|allow", help="compare the permission policy with it"
    )
    verify.add_argument(
        "--agents", action="store_true", help="start each agent to ask for its version"
    )
    verify.add_argument("--json", action="store_true", help="print it as JSON")
    verify.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from ..experiments.verification import verify
    from ..rendering.characters import one_line

    found = verify(
        arguments.notebook,
        cwd=arguments.cwd,
        source=arguments.source,
        permissions=arguments.permissions,
        start_agents=arguments.agents,
    )
    if arguments.json:
        print(json.dumps(found.as_json(), indent=1))
    else:
        for difference in found.differences:
            print(
                f"{one_line(difference.what)}: {_shown(difference.then)} then, "
                f"{_shown(difference.now)} now"
            )
        if found.same:
            print("Nothing differs.")
        for line in found.not_compared:
            print(f"not compared: {one_line(line)}", file=sys.stderr)
    return 0 if found.same else DIFFERENT


def _shown(value: Any) -> str:
    from ..rendering.characters import one_line

    text = value if isinstance(value, str) else json.dumps(value)
    return one_line("none" if value is None else text)
