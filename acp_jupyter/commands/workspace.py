"""``%acp changes`` and ``%acp undo``: what turns changed on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError
from ..rendering.characters import one_line
from .base import Commands

if TYPE_CHECKING:
    from ..host.changed_files import Undone


class WorkspaceCommands(Commands):
    """The files that agents change."""

    def _do_changes(self, arguments: list[str]) -> None:
        """%acp changes [TURN]: show which files changed while a turn ran, and how; by default the
        last one in which some did."""
        from ..host.changed_files import turn_of
        from ..rendering import changes

        turn = turn_of(self._link.session, _number("changes", arguments))
        if turn.changes is None:
            self._say(f"Nobody looked at the files while turn {turn.number} ran.")
        elif not turn.changes:
            self._say(f"No file changed while turn {turn.number} ran.")
        else:
            self._cell().present(changes.bundle(turn.changes, f"Turn {turn.number}"))

    def _do_undo(self, arguments: list[str]) -> None:
        """%acp undo [TURN]: put the files back that changed while a turn ran, by default the last
        one in which some did. What has changed since is left alone, unless you say so."""
        from ..host.changed_files import turn_of, undo_asking

        link = self._link
        turn = turn_of(link.session, _number("undo", arguments))
        undone = link.call(self._cell(), undo_asking, self._host, link.session, turn)
        self._say("\n".join(_told(turn.number, undone)))


def _number(name: str, arguments: list[str]) -> int | None:
    if len(arguments) > 1 or (arguments and not arguments[0].isdecimal()):
        raise UsageError(
            f"%acp {name} takes the number of a turn", remedy=f"For example `%acp {name} 2`."
        )
    return int(arguments[0]) if arguments else None


def _told(number: int, undone: Undone) -> list[str]:
    words = {"created": "removed", "deleted": "brought back"}
    lines = [
        f"{words.get(change.kind, 'as it was before')}: {one_line(change.path, 300)}"
        for change in undone.done
    ]
    lines += [f"as it was already: {one_line(change.path, 300)}" for change in undone.already]
    lines += [
        f"left alone: {one_line(change.path, 300)} ({one_line(reason, 300)})"
        for change, reason in undone.refused
    ]
    return lines or [f"No file changed while turn {number} ran."]
