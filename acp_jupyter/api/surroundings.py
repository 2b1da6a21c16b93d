"""Where a program runs that uses the Python API: in a notebook or not."""

from __future__ import annotations

import sys
from typing import Any


def ipython() -> Any:
    """The shell of an IPython kernel, if this is one; IPython is not imported for it."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


def report_checks(results: list[dict[str, str]]) -> None:
    """Tell the program that runs this notebook, if there is one."""
    shell = ipython()
    if shell is None:
        return
    from ..extension import current_cell, host_of

    host = host_of(shell)
    if host.reporter is not None:
        host.reporter.checks(current_cell(shell, host), results)
