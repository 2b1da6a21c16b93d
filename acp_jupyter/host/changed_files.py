"""What agents changed on the disk, for the notebook: watched around turns, shown, undone.

Undoing is done where a file still is as the turn left it. What has changed since is left alone,
unless the user says so when asked.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import Refusal, UsageError

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session
    from ..services.workspace.disk import Folder
    from ..services.workspace.shown import Put
    from ..session.changes import FileChange, Version
    from ..session.transcript import Turn
    from .cell import CellContext
    from .host import Host


def watch(host: Host, agent: Agent, session: Session) -> None:
    """Have a new session tell which files change while its turns run.

    Not a replay, which changes none, and not an agent that works elsewhere.
    """
    if not host.settings.changes or agent.replay is not None or agent.spec.remote is not None:
        return
    from ..services.workspace.watch import Watch, notebook_files
    from .recordings import notebook_of

    left_out: list[str] = []
    notebook = notebook_of(host.environ, by_server=host.launch.by_server)
    if notebook is not None:
        left_out += notebook_files(notebook)
    recorder = host.recordings.current()
    if recorder is not None:
        left_out.append(os.fspath(recorder.path))
    server = host.kernel_server
    served = None if server is None else server.served
    session.changed.watch = Watch(
        left_out, elsewhere=lambda: served is not None and served.elsewhere
    )


def turn_of(session: Session | None, number: int | None) -> Turn:
    """The turn of that number, or the last one in which files changed, else the last one.

    Raises:
        UsageError: there is none, or it has not ended.
    """
    turns = [] if session is None else [turn for turn in session.transcript.turns if turn.number]
    if number is None:
        ended = [turn for turn in turns if turn.ended is not None]
        changed = [turn for turn in ended if turn.changes is not None and turn.changes.count]
        found = (changed or ended)[-1:]
    else:
        found = [turn for turn in turns if turn.number == number]
    if not found:
        which = "no prompt" if number is None else f"no turn {number}"
        raise UsageError(
            f"{which} is known in this session", remedy="The last 20 turns of it are known."
        )
    if found[0].ended is None:
        raise UsageError("the turn is still running", remedy="Wait for its end, or stop it.")
    return found[0]


@dataclass(slots=True)
class Undone:
    """What became of the changes that were to be undone."""

    done: list[FileChange] = field(default_factory=list)
    already: list[FileChange] = field(default_factory=list)
    refused: list[tuple[FileChange, str]] = field(default_factory=list)


def putting(host: Host) -> Put:
    """What puts files in place as the user sees them; from any thread but trio's."""
    from ..services.workspace import shown
    from ..services.workspace.disk import Folder

    def put(
        folder: Folder, path: str, *, now: Version | None, then: Version | None, data: bytes
    ) -> None:
        async def in_sight() -> None:
            documents = host.documents()
            await shown.put(documents, folder, path, now=now, then=then, data=data)

        host.portal.submit(in_sight).result()

    return put if host.portal.running else Folder.put


async def undo(
    host: Host, session: Session, changes: Sequence[FileChange], *, anyway: bool = False
) -> Undone:
    """Put files back as they were before a turn.

    Args:
        host: of the notebook.
        session: the turn's.
        changes: the turn's.
        anyway: also what has changed since.

    Raises:
        UsageError: a prompt is running.
    """
    import trio

    found = session.changed.watch
    if session.busy:
        raise UsageError("a prompt is running", remedy="Wait for its end, or stop it.")
    undone, put = Undone(), putting(host)
    if found is None:
        undone.refused += [(change, "what it held before was not kept") for change in changes]
        return undone
    for change in reversed(changes):
        try:
            restore = functools.partial(found.restore, change, anyway=anyway, put=put)
            if await trio.to_thread.run_sync(restore):
                undone.done.append(change)
            else:
                undone.already.append(change)
        except Refusal as refusal:
            undone.refused.append((change, refusal.message))
    return undone


async def undo_asking(cell: CellContext, host: Host, session: Session, turn: Turn) -> Undone:
    """`undo` a turn; about what has changed since, the user is asked where that is possible."""
    from ..services.workspace.disk import CHANGED
    from .confirming import confirm

    changes = () if turn.changes is None else turn.changes.files
    undone = await undo(host, session, changes)
    since = [change for change, reason in undone.refused if reason == CHANGED]
    if not since:
        return undone
    names = ", ".join(change.path for change in since[:5])
    more = f" and {len(since) - 5:,} more" if len(since) > 5 else ""
    try:
        agreed = await confirm(
            host,
            cell,
            f"Undo the changes of {names}{more} although they have changed since?",
            why="What they hold now is lost.",
            remedy="Put them right by hand.",
        )
    except UsageError:  # nobody is there to be asked: they are left as they are
        agreed = False
    if agreed:
        again = await undo(host, session, since, anyway=True)
        undone.refused = [each for each in undone.refused if each[0] not in since]
        undone.refused += again.refused
        undone.done += again.done
        undone.already += again.already
    return undone
