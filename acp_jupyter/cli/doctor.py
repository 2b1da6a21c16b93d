"""``acp-jupyter doctor [AGENT]``: whether this installation works, or an agent.

Exit code 3: something is wrong that has to be mended, or the agent breaks a rule. Warnings do not
count, nor does what could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any, Final

WRONG: Final = 3
"""Exit code where a check failed."""


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    doctor = commands.add_parser(
        "doctor",
        help="check this installation, or an agent",
        description="Check this installation: versions, kernel, extension, programs, settings, "
        "and whether agents can be started. With an agent: start it in an empty folder and check "
        "what it advertises, what of that works, and where it breaks the rules of the protocol; "
        "nothing is permitted to it. Exit code 3: something has to be mended, or a rule is broken.",
    )
    doctor.add_argument(
        "agent", nargs="?", metavar="AGENT", help="a name, or a command line as one word"
    )
    doctor.add_argument("--json", action="store_true", help="as JSON, for programs")
    doctor.add_argument("--protocol", type=int, choices=(1, 2), help="version to ask the agent for")
    doctor.add_argument(
        "--no-prompts",
        action="store_true",
        help="send the agent no prompts (by default two short ones, the second is cancelled)",
    )
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    if arguments.agent is not None:
        return _agent(arguments)
    from ..doctor.installation import check_installation
    from ..doctor.report import as_text, worst

    checks = check_installation(os.environ)
    state = worst(checks)
    if arguments.json:
        found = [check.as_json() for check in checks]
        print(json.dumps({"state": state, "checks": found}, indent=1))
    else:
        print(as_text(checks))
    return WRONG if state == "fail" else 0


def _agent(arguments: argparse.Namespace) -> int:
    from ..doctor.agent import check_agent

    report = check_agent(
        arguments.agent, protocol=arguments.protocol, prompts=not arguments.no_prompts
    )
    print(json.dumps(report.as_json(), indent=1) if arguments.json else report.as_text())
    return WRONG if report.status == "fail" else 0
