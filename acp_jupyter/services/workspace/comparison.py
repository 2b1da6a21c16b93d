"""What differs between two moments of a folder, or between two folders.

Only what can differ is read: files whose times, size or mode do, or that were changed shortly
before the first moment. A patch needs what a file held before: that was kept, or the repository has
it, or else the change says that it is not known.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from ...errors import Refusal
from ...session.changes import NAMED, Changes, FileChange, Kind, Version
from . import patch
from .contents import Contents
from .disk import KEPT, Folder
from .git import blobs, filtered
from .snapshot import Snapshot

PATCHES: Final = 4_000_000
"""Characters of all patches of one comparison."""

UNKNOWN: Final = "what it held before was not kept"
TOO_LARGE: Final = "too large to be compared"
TOO_LONG: Final = "the patch would be too long"


class Held(NamedTuple):
    """A file at one moment: what it was, and its content if that is known."""

    version: Version | None
    data: bytes | None


NOTHING: Final = Held(None, None)


def compare(
    before: Snapshot,
    after: Snapshot,
    contents: Contents,
    *,
    limit: int = NAMED,
    seconds: float | None = None,
) -> Changes:
    """What has changed in a folder.

    Args:
        before: how it was.
        after: how it is, the same folder; files are read once more where they differ.
        contents: has what ``before`` kept; what the changed files hold now is added.
        limit: changes that are told one by one.
        seconds: that it may take; what is left then is only counted. ``None`` is no limit.
    """
    until = None if seconds is None else time.monotonic() + seconds
    suspects = list(_suspects(before, after))
    stored = _stored(before, suspects[: 2 * limit], contents)
    folder = Folder(after.folder)
    found: list[FileChange] = []
    room = PATCHES
    for number, path in enumerate(suspects):
        late = until is not None and time.monotonic() > until
        if len(found) >= limit or late:
            rest = suspects[number:]
            return Changes(tuple(found), sum(_differs(before, after, path) for path in rest))
        old = stored.get(path) or _before(before, path, contents)
        if not _differs(before, after, path) and not (old.version and old.version.identity):
            continue
        try:
            new = Held(*folder.look(path))
        except Refusal as refusal:
            found.append(FileChange(path, "modified", note=refusal.message, root=after.folder))
            continue
        if new.data is not None:
            contents.put(new.data)
        change = difference(path, old, new, root=after.folder, room=room)
        if change is not None:
            room -= len(change.diff)
            found.append(change)
    return Changes(tuple(found))


def _suspects(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Files that may have changed, by path."""
    for path in sorted(before.files.keys() | after.files.keys()):
        old, new = before.files.get(path), after.files.get(path)
        if old != new or (old is not None and before.is_racy(old)):
            yield path


def _differs(before: Snapshot, after: Snapshot, path: str) -> bool:
    return before.files.get(path) != after.files.get(path)


def _before(snapshot: Snapshot, path: str, contents: Contents) -> Held:
    state = snapshot.files.get(path)
    if state is None:
        return NOTHING
    ident = snapshot.identities.get(path, "")
    return Held(Version(state.mode, ident), contents.get(ident) if ident else None)


def _stored(snapshot: Snapshot, paths: list[str], contents: Contents) -> dict[str, Held]:
    """What those files held that were as the repository has them."""
    asked = [path for path in paths if path in snapshot.blobs]
    # One whose line ends git translates has another size in the repository.
    asked = [path for path in asked if snapshot.files[path].size <= KEPT]
    if not asked:
        return {}
    left_out = filtered(snapshot.folder, asked)
    asked = [path for path in asked if path not in left_out]
    found: dict[str, Held] = {}
    got = blobs(snapshot.folder, [snapshot.blobs[path].hex() for path in asked])
    for path, data in zip(asked, got, strict=True):
        state = snapshot.files[path]
        if data is not None and len(data) == state.size:
            found[path] = Held(Version(state.mode, contents.put(data)), data)
    return found


def difference(
    path: str, old: Held, new: Held, *, root: str = "", room: int = PATCHES
) -> FileChange | None:
    """The change that leads from one to the other; ``None`` if there is none.

    Args:
        path: of the file.
        old: what it was.
        new: what it is.
        root: its folder.
        room: characters that its patch may have.
    """
    one, other = old.version, new.version
    if one is None and other is None:
        return None
    kind: Kind = "created" if one is None else "deleted" if other is None else "modified"
    if one is not None and other is not None and one.type == other.type:
        same = one.identity == other.identity
        if same and (one.permissions == other.permissions or stat.S_ISLNK(one.mode)):
            return None
        kind = "mode" if same and one.identity else kind
    made, note = _patch(path, old, new, kind, room)
    return FileChange(
        path, kind, made.text, made.added, made.removed, note, root, before=one, after=other
    )


def _patch(path: str, old: Held, new: Held, kind: Kind, room: int) -> tuple[patch.Patch, str]:
    """The patch, or why there is none."""
    sides: list[patch.Side | None] = []
    for held in (old, new):
        if held.version is None:
            sides.append(None)
        elif kind == "mode":
            sides.append(patch.Side(held.version.mode, b""))
        elif not (stat.S_ISREG(held.version.mode) or stat.S_ISLNK(held.version.mode)):
            return patch.Patch(""), "it is no regular file"
        elif held.data is None:
            return patch.Patch(""), UNKNOWN if held is old and not _large(held) else TOO_LARGE
        else:
            sides.append(patch.Side(held.version.mode, held.data))
    made = patch.make(path, sides[0], sides[1])
    if len(made.text) > room:
        return patch.Patch("", made.added, made.removed), TOO_LONG
    if not made.text:
        return made, "only permissions have changed that git does not keep"
    return made, ""


def _large(held: Held) -> bool:
    """Whether it was read, so not kept for its size."""
    return held.version is not None and bool(held.version.identity)
