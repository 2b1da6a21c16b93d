"""Files that changed while a turn ran, whoever changed them. Pure.

A change is told by what stood on the disk before and after. How that is found out is the matter of
`services.workspace`; this is what a turn keeps of it, and what can be pickled with it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

Kind = Literal["created", "modified", "deleted", "mode"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

NAMED: Final = 1_000
"""Changed files that are named one by one; of more there is only the number."""


@dataclass(frozen=True, slots=True)
class Version:
    """A file, or a symbolic link, at one moment.

    Attributes:
        mode: type and permissions, as in `os.stat_result.st_mode`.
        identity: equal for equal contents: a hash, or of a very large file its size and times;
            empty where it is not known.
    """

    mode: int
    identity: str

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)

    @property
    def type(self) -> int:
        return stat.S_IFMT(self.mode)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that is not as it was.

    Attributes:
        path: below ``root``, with ``/``.
        kind: "created", "modified", "deleted", or "mode": only its permissions have changed.
        diff: the change as a git patch; empty where there is none.
        added, removed: lines; 0 for what is no text, or has no diff.
        note: why there is no diff; empty if there is one.
        root: the folder, absolute; empty if it is not known (of a replay).
        before, after: what it was and is; ``None`` where there was, or is, no file.
    """

    path: str
    kind: Kind
    diff: str = field(default="", repr=False)
    added: int = 0
    removed: int = 0
    note: str = ""
    root: str = ""
    before: Version | None = field(default=None, repr=False)
    after: Version | None = field(default=None, repr=False)

    @property
    def old_mode(self) -> int | None:
        """Its permissions before, such as 0o644; ``None`` if it was not there."""
        return None if self.before is None else self.before.permissions

    @property
    def new_mode(self) -> int | None:
        """Its permissions after."""
        return None if self.after is None else self.after.permissions


@dataclass(frozen=True, slots=True)
class Changes:
    """The files that changed while a turn ran, by path.

    Attributes:
        files: up to `NAMED` of them.
        more: how many others there are.
        notes: what is not known, a sentence each.
    """

    files: tuple[FileChange, ...] = ()
    more: int = 0
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.files) + self.more

    @property
    def added(self) -> int:
        """Lines, in all files."""
        return sum(change.added for change in self.files)

    @property
    def removed(self) -> int:
        """Lines, in all files."""
        return sum(change.removed for change in self.files)

    def patch(self, root: str | None = None) -> str:
        """What ``git apply`` takes; what has no diff is left out.

        Args:
            root: only of files in that folder.
        """
        return "".join(each.diff for each in self.files if root in (None, each.root))

    def __bool__(self) -> bool:
        return bool(self.files or self.more or self.notes)


def together(parts: Iterable[Changes]) -> Changes:
    """Those of several roots as one."""
    files: list[FileChange] = []
    more = 0
    notes: dict[str, None] = {}
    for part in parts:
        files += part.files
        more += part.more
        notes.update(dict.fromkeys(part.notes))
    left_out = len(files) - NAMED
    return Changes(tuple(files[:NAMED]), more + max(0, left_out), tuple(notes))


# -- as data, for a recording ---------------------------------------------------------------------


def to_data(changes: Changes, *, room: int) -> dict[str, Any]:
    """JSON of it, with up to ``room`` characters of diffs; names as they are shown."""
    files = []
    for change in changes.files:
        entry: dict[str, Any] = {"path": _unicode(change.path), "kind": change.kind}
        room -= len(change.diff)
        if room >= 0:
            entry["diff"] = change.diff
        entry |= {"added": change.added, "removed": change.removed, "note": _unicode(change.note)}
        files.append({name: value for name, value in entry.items() if value})
    return {"files": files, "more": changes.more, "notes": list(map(_unicode, changes.notes))}


def _unicode(text: str) -> str:
    """A text that can be encoded: file names may hold bytes that are none."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def from_data(files: Sequence[Any], more: int, notes: Sequence[str]) -> Changes:
    """The same again from a recording, which may hold anything: what is no change is left out."""
    found = [change for each in files[:NAMED] if (change := _change(each)) is not None]
    return Changes(tuple(found), max(0, more), tuple(notes[:10]))


def _change(held: Any) -> FileChange | None:
    if not isinstance(held, Mapping):
        return None
    path, kind = held.get("path"), held.get("kind")
    if not isinstance(path, str) or not path or kind not in KINDS:
        return None
    diff, note = held.get("diff", ""), held.get("note", "")
    added, removed = held.get("added", 0), held.get("removed", 0)
    texts = isinstance(diff, str) and isinstance(note, str)
    if not texts or type(added) is not int or type(removed) is not int:
        return None
    return FileChange(path, kind, diff, max(0, added), max(0, removed), note[:500])
