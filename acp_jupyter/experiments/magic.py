"""``%%acp_check``, in the agent kernel and in Python notebooks."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from ..errors import UsageError

if TYPE_CHECKING:
    from ..host.cell import CellContext
    from ..host.host import Host
    from .checking import Checks

LIMIT = 60.0
"""Seconds that a command may take, if nothing else is said."""


@magics_class
class CheckMagics(Magics):
    """The cell magic ``%%acp_check``.

    Args:
        shell: IPython's.
        host: whose turns are checked.
        cell: makes the context of the cell that runs.
    """

    def __init__(self, shell: Any, host: Host, cell: Callable[[], CellContext]) -> None:
        super().__init__(shell)
        self._host = host
        self._cell = cell

    @magic_arguments()
    @argument("--session", "-s", default="", help="the agent connected with --as NAME")
    @argument("--fail", action="store_true", help="the cell fails where a check does not pass")
    @argument("--timeout", "-t", type=float, default=LIMIT, help="seconds for each command")
    @cell_magic("acp_check")  # type: ignore[arg-type]  # the decorator types no name
    def acp_check(self, line: str, cell: str) -> None:
        r"""Check the last turn of an agent, a line each.

        changed src/*.py, unchanged tests/**: files since `%acp snapshot`, or
        while the last prompt ran;
        command: python -m pytest -q (it is yours, and runs in the session's folder);
        tool used: edit, tool not used: execute; text contains: …; text matches: /…/i;
        json: .answer[0].x == 42; cost <= 0.05, seconds <= 60, tokens <= 5000;
        no permission denied; stop reason: end_turn.
        Empty lines and lines that begin with # are no checks.
        """
        from ..session.checks import parse

        try:
            options = parse_argstring(self.acp_check, line)
        except IPythonUsageError as error:
            raise UsageError(
                f"%%acp_check: {error}", remedy="`%%acp_check?` lists them."
            ) from error
        checks = parse(cell)
        if options.session and options.session not in self._host.links:
            raise UsageError(
                f"no agent was connected as {options.session!r}",
                remedy=f"Connect one with `%acp connect NAME --as {options.session}`.",
            )
        link = self._host.link(options.session)
        session = link.session
        if session is None:
            raise UsageError("no agent is connected", remedy="Prompt one first.")
        from .checking import run_checks

        results = run_checks(
            checks,
            session.transcript.turn,
            terminals=session.transcript.terminals,
            cwd=session.cwd,
            snapshot=link.snapshot,
            timeout=options.timeout,
        )
        self._show(results)
        if options.fail:
            results.raise_for_failure()

    def _show(self, results: Checks) -> None:
        from ..rendering import checks as rendering

        cell = self._cell()
        if cell.frontend.publish == "append":
            cell.sink.stream(rendering.as_text(results) + "\n")
        else:
            cell.sink.display(
                rendering.bundle(results),
                display_id=f"acp-checks-{secrets.token_hex(6)}",
                update=False,
                metadata=rendering.metadata(results),
            )
        if self._host.reporter is not None:
            self._host.reporter.checks(cell, results.as_json())
