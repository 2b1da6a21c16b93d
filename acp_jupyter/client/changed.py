"""Asking, around each turn, which files change while it runs; see `services.workspace.watch`.

Looking blocks, so it happens in a thread, and whoever waits for it waits a bounded time. What is
changed by a replay is what was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from ..session.changes import Changes

if TYPE_CHECKING:
    from ..services.workspace.watch import Seen, Watch

BEFORE: Final = 5.0
AFTER: Final = 6.0
"""Seconds that a look may take before the prompt is sent, and after its end; 100,000 files take
less than one. A file system that does not answer takes for ever."""

AFTER_CANCEL: Final = 1.5
"""The same for a turn that nobody waits for any more: its kernel may be about to end."""


class TurnChanges:
    """What changes while the turns of one session run. On trio's thread.

    Attributes:
        watch: looks; ``None`` if nobody is to.
        looking: a look is in progress.
    """

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.looking = False
        self._seen: Seen | None = None

    async def begin(self, roots: Sequence[str]) -> None:
        """Look at the files before a turn; cancelled with the task that waits."""
        self._seen = None
        watch = self.watch
        if watch is None:
            return
        self.looking = True
        try:
            with trio.move_on_after(BEFORE):
                self._seen = await trio.to_thread.run_sync(
                    watch.begin, list(roots), abandon_on_cancel=True
                )
        finally:
            self.looking = False
        # A cancel that came with the answer has to be felt now: after the prompt it is another one.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def end(self, *, abandoned: bool) -> Changes | None:
        """What has changed since; ``None`` if nobody looks.

        Args:
            abandoned: the task that waited for the turn was cancelled; this is done all the same.
        """
        watch, seen = self.watch, self._seen
        self._seen = None
        if watch is None:
            return None
        if seen is None:
            return Changes(notes=(_slow(),))
        self.looking = True
        try:
            with (
                trio.CancelScope(shield=True),
                trio.move_on_after(AFTER_CANCEL if abandoned else AFTER),
            ):
                return await trio.to_thread.run_sync(watch.end, seen, abandon_on_cancel=True)
        finally:
            self.looking = False
        return Changes(notes=(_slow(),))


def _slow() -> str:
    return "Changes of files are not known: it took too long to look at them."
