"""The command ``acp-jupyter``: one module a command.

Exit codes of all of them: 0 done, 1 it failed, 2 the command line is wrong; a module whose command
has more of them says so at its head.

A command's module has ``add(commands)``, which describes its command line and names the function to
run. Heavy libraries are imported inside functions: ``--version`` and ``--help`` have to be quick.
"""

from __future__ import annotations

import argparse
import sys

from .. import __version__
from ..errors import ACPError
from . import (
    agents,
    attach,
    compare,
    demo,
    doctor,
    export,
    install,
    mcp_bridge,
    policy,
    replay,
    run,
    sweep,
    verify,
)

COMMANDS = (
    demo,
    install,
    doctor,
    agents,
    run,
    verify,
    sweep,
    compare,
    policy,
    export,
    replay,
    attach,
    mcp_bridge,
)
"""In the order of ``--help``."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    if argv is None:
        argv = sys.argv[1:]
    if argv[:1] == ["agent"]:  # its arguments are its own
        from ..demo_agent import main as agent

        return agent(argv[1:])
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except ACPError as error:
        print(f"acp-jupyter: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="acp-jupyter", description="Coding agents in Jupyter, by the Agent Client Protocol."
    )
    parser.add_argument("--version", action="version", version=f"acp-jupyter {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    commands.add_parser("agent", help="run the bundled agent on standard input and output")
    return parser
