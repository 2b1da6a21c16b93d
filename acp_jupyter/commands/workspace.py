"""``%acp changes``, ``undo``, ``accept`` and ``discard``: what agents changed on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError
from ..rendering.characters import one_line
from .base import Commands, no_arguments

if TYPE_CHECKING:
    from ..host.changed_files import Undone
    from ..session.transcript import Turn


class WorkspaceCommands(Commands):
    """The files that agents change."""

    TITLE = "Files and commands of the agent"

    def _do_changes(self, arguments: list[str]) -> None:
        """%acp changes [TURN]: show which files changed while a turn ran, and how; by default the
        last one in which some did. Of an agent that works in a copy, without a number: how the
        copy differs from the folder."""
        from ..host.changed_files import turn_of
        from ..rendering import changes

        copy = self._link.isolated
        if copy is not None and not copy.gone and not arguments:
            found = copy.changes()
            head = f"In the copy {copy.folder}"
            if found:
                self._cell().present(changes.bundle(found, head, what="Not accepted"))
            else:
                self._say(f"{head} nothing waits to be accepted.")
            return
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
        self._say("\n".join(_told(turn, undone)))

    def _do_accept(self, arguments: list[str]) -> None:
        """%acp accept [PATH…]: bring over what the agent changed in its copy, of all files or of
        some, where the original is as it was when the copy was made."""
        from ..host.isolation import accept, isolated_of
        from ..rendering.changes import line

        link = self._link
        copy = isolated_of(link)
        if link.session is not None and link.session.busy:
            raise UsageError("a prompt is running", remedy="Wait for its end, or stop it.")
        done, refused = accept(self._host, copy, arguments)
        lines = [f"accepted: {line(change)}" for change in done]
        for change, reason in refused:
            path, why = one_line(change.path, 300), one_line(reason, 300)
            lines.append(f"left alone: {path} ({why})")
        if refused:
            lines.append(f"What was left alone is in {copy.folder}.")
        self._say("\n".join(lines) or "Nothing waits to be accepted.")

    def _do_discard(self, arguments: list[str]) -> None:
        """%acp discard: end the agent that works in a copy, and remove the copy with all that was
        not accepted."""
        from ..host.isolation import isolated_of

        no_arguments("discard", arguments)
        link = self._link
        copy = isolated_of(link)
        link.call(self._cell(), link.disconnect)
        copy.discard()
        self._say(f"The copy {copy.folder} was removed.")


def _number(name: str, arguments: list[str]) -> int | None:
    if len(arguments) > 1 or (arguments and not arguments[0].isdecimal()):
        raise UsageError(
            f"%acp {name} takes the number of a turn", remedy=f"For example `%acp {name} 2`."
        )
    return int(arguments[0]) if arguments else None


def _told(turn: Turn, undone: Undone) -> list[str]:
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
    if turn.changes is not None:
        lines += turn.changes.notes
    return lines or [f"No file changed while turn {turn.number} ran."]
