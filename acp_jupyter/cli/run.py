"""``acp-jupyter run``: a notebook executed headless, with parameters and a permission policy.

Exit codes: 0 all cells ran, 1 it could not be run or its kernel died, 2 the command line is wrong,
3 a cell failed, 4 a check did not pass (with ``--fail-on-check``, or in a cell that begins with
``%%acp_check --fail``), 5 a permission was denied (``--fail-on-denied``), 6 the budget is spent, 7
a cell took longer than ``--timeout``, 130 it was interrupted, 143 it was told to end. But for 1 and
2, the executed notebook was written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    run = commands.add_parser(
        "run",
        help="execute a notebook headless, with parameters",
        description="Execute a notebook with nobody there. Exit codes: 3 a cell failed, 4 a check "
        "did not pass, 5 a permission was denied, 6 the budget is spent, 7 a cell took too long.",
    )
    run.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    run.add_argument(
        "-o", "--output", type=Path, required=True, help="write the executed notebook there"
    )
    add_parameters(run)
    run.add_argument(
        "--permissions",
        metavar="FILE|deny|allow",
        help="the permission policy (default: as configured; nobody can be asked)",
    )
    run.add_argument("--budget", type=float, help="cost that all prompts together may take")
    run.add_argument("--seconds", type=float, help="seconds that all prompts together may take")
    run.add_argument("--tokens", type=int, help="tokens of context that a session may use")
    run.add_argument("--timeout", type=float, metavar="S", help="seconds that one cell may take")
    run.add_argument(
        "--cwd", type=Path, metavar="DIR", help="where it runs (default: the notebook's folder)"
    )
    run.add_argument("--kernel", default="", help="run it in this kernel, not in its own")
    run.add_argument(
        "--fail-on-check", action="store_true", help="exit with 4 where a check does not pass"
    )
    run.add_argument(
        "--fail-on-denied", action="store_true", help="exit with 5 where a permission was denied"
    )
    run.add_argument(
        "--record",
        action="store_true",
        help="keep what the agents say in a recording beside the executed notebook",
    )
    run.add_argument("--json", action="store_true", help="print a summary on standard output")
    run.add_argument("--quiet", action="store_true", help="show no progress on standard error")
    run.set_defaults(run=_run)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """The options for parameters, which are papermill's."""
    parser.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter: a number, true, false, null, JSON, or else a text",
    )
    parser.add_argument(
        "-r",
        "--raw",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="a parameter that is a text, whatever it looks like",
    )
    parser.add_argument(
        "-f",
        "--parameters-file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="parameters of a JSON, TOML or YAML file; those of -p and -r go before them",
    )


def parameters_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `add_parameters` was given.

    Raises:
        UsageError: it cannot be understood.
    """
    from ..experiments import parameters

    found: dict[str, Any] = {}
    for path in arguments.parameters_file:
        found |= parameters.read_file(path)
    found |= parameters.read_assignments(arguments.parameter)
    return found | parameters.read_assignments(arguments.raw, raw=True)


def _run(arguments: argparse.Namespace) -> int:
    from ..experiments.progress import Lines, Silent
    from ..experiments.run import run_notebook
    from ..rendering.characters import one_line
    from ..session.limits import Limits

    result = run_notebook(
        arguments.notebook,
        arguments.output,
        parameters_of(arguments),
        permissions=arguments.permissions,
        budget=Limits(arguments.seconds, arguments.budget, arguments.tokens),
        timeout=arguments.timeout,
        cwd=arguments.cwd,
        kernel=arguments.kernel,
        fail_on_check=arguments.fail_on_check,
        fail_on_denied=arguments.fail_on_denied,
        record=arguments.record,
        progress=Silent() if arguments.quiet else Lines(sys.stderr),
    )
    if arguments.json:
        print(json.dumps(result.as_json(), indent=1))
    elif arguments.quiet and result.error:
        print(f"acp-jupyter: {one_line(result.error, 400)}", file=sys.stderr)
    return result.exit_code
