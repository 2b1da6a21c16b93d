"""``acp-jupyter doctor``: whether this installation works, and what to do where it does not.

Exit code 3: something is wrong that has to be mended; warnings are none.
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
        help="check this installation",
        description="Check this installation: versions, kernel, extension, programs, settings, "
        "and whether agents can be started. Exit code 3: something has to be mended.",
    )
    doctor.add_argument("--json", action="store_true", help="as JSON, for programs")
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
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
