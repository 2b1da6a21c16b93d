"""``%acp terminals``: the commands that agents run."""

from __future__ import annotations

import shlex

from ..errors import UsageError
from ..rendering.characters import one_line
from .base import Commands

WIDTH = 100
"""Characters of a command in the list."""


class TerminalCommands(Commands):
    """What runs, how it is stopped, and how it is looked at elsewhere."""

    TITLE = "Files and commands of the agent"

    def _do_terminals(self, arguments: list[str]) -> None:
        """%acp terminals, %acp terminals stop N, or %acp terminals attach N: list the commands
        that agents run and have run here; stop one, with all that it started; or say with what
        command line its output is shown live in any terminal of this machine."""
        match arguments:
            case []:
                self._say(self._list() or "No agent has run a command here.")
            case ["stop", number]:
                self._say(f"Stopping: {self._on_trio('stop', number)}")
            case ["attach", number]:
                self._say(self._on_trio("attach", number))
            case _:
                raise UsageError(
                    "%acp terminals takes nothing, stop N or attach N",
                    remedy="For example `%acp terminals stop 1`.",
                )

    def _list(self) -> str:
        from ..host.terminals import ending

        return "\n".join(
            f"{view.number}. {one_line(shlex.join(view.argv), WIDTH)} · {ending(view)}"
            for view in self._host.terminals.views()
        )

    def _on_trio(self, what: str, number: str) -> str:
        if not number.isdecimal():
            raise UsageError(f"{number} is no number", remedy="`%acp terminals` lists them.")
        if not self._host.portal.running:
            raise UsageError("no agent has run a command here")

        async def do() -> str:
            terminals = self._host.terminals
            if what == "attach":
                return terminals.attach(int(number))
            return one_line(shlex.join(terminals.stop(int(number)).argv), WIDTH)

        return self._host.portal.call(do)
