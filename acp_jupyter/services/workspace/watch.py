"""Which files changed in the session's roots while a turn ran, whoever changed them.

A look at all files before the prompt is sent, and one after its end; both block, and are bounded in
time, so that neither holds a turn up for long: what is not known is said. The running notebook does
not count, nor what is recorded beside it: both change as the user works.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import UsageError
from ...session.changes import Changes, FileChange, together
from .comparison import compare
from .contents import Contents
from .disk import Folder
from .restoring import restore
from .shown import Put
from .snapshot import Snapshot, take

READING: Final = 0.8
"""Seconds for reading files whose content is not known yet; the next turn goes on with it."""

ELSEWHERE: Final = "Changes of files are not known where the Jupyter server has them elsewhere."

COMPARING: Final = 3.0
"""Seconds for comparing what has changed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How the roots were when a turn began."""

    snapshots: tuple[Snapshot, ...]
    notes: tuple[str, ...] = ()


class Watch:
    """Watches the roots of one session; see the module.

    Args:
        leave_out: files, absolute, whose changes do not count.
        elsewhere: whether some files are not on this disk, where nobody looks at them.
    """

    def __init__(
        self, leave_out: Collection[str] = (), *, elsewhere: Callable[[], bool] = lambda: False
    ) -> None:
        self._elsewhere = elsewhere
        self.leave_out = frozenset(map(os.path.realpath, leave_out))
        self.contents = Contents()
        self._last: dict[str, Snapshot] = {}

    def begin(self, roots: Sequence[str]) -> Seen:
        """How the roots are now, where that can be told."""
        snapshots: list[Snapshot] = []
        notes: list[str] = []
        for root in _outermost(roots):
            try:
                snapshot = take(
                    root,
                    contents=self.contents,
                    earlier=self._last.get(root),
                    leave_out=self.leave_out,
                    seconds=READING,
                )
            except UsageError as error:
                notes.append(f"Changes of files are not known: {error.message}.")
                continue
            self._last[root] = snapshot
            snapshots.append(snapshot)
        return Seen(tuple(snapshots), tuple(notes))

    def end(self, seen: Seen) -> Changes:
        """What has changed since."""
        found = [Changes(notes=seen.notes)]
        if self._elsewhere():
            found.append(Changes(notes=(ELSEWHERE,)))
        for before in seen.snapshots:
            try:
                now = take(before.folder, earlier=before, leave_out=self.leave_out, read=False)
            except UsageError as error:
                found.append(Changes(notes=(f"Changes of files are not known: {error.message}.",)))
                continue
            found.append(compare(before, now, self.contents, seconds=COMPARING))
        return together(found)

    def restore(self, change: FileChange, *, anyway: bool = False, put: Put = Folder.put) -> bool:
        """Undo a change; see `restoring.restore`."""
        return restore(change, self.contents, anyway=anyway, put=put)


def _outermost(roots: Sequence[str]) -> list[str]:
    """The roots, resolved, without those within others."""
    resolved = list(dict.fromkeys(map(os.path.realpath, roots)))
    return [
        root
        for root in resolved
        if not any(other != root and root.startswith(other.rstrip("/") + "/") for other in resolved)
    ]


def notebook_files(notebook: str | os.PathLike[str]) -> list[str]:
    """A notebook, and what is written beside it while it is in use."""
    folder, name = os.path.split(os.path.realpath(notebook))
    stem = name.removesuffix(".ipynb")
    names = (name, f".~{name}", f"{stem}.acp.jsonl")
    return [os.path.join(folder, each) for each in names]
