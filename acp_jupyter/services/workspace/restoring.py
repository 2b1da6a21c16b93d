"""Putting a file back as it was before a change, where it still is as the change left it."""

from __future__ import annotations

import stat

from ...errors import Refusal
from ...session.changes import FileChange
from .contents import Contents
from .disk import Folder
from .shown import Put


def restore(
    change: FileChange, contents: Contents, *, anyway: bool = False, put: Put = Folder.put
) -> bool:
    """Undo a change; returns whether there was something to undo.

    Args:
        change: of a file.
        contents: has what the file held before.
        anyway: also where it has changed since.
        put: puts it in place.

    Raises:
        Refusal: the file has changed since, what it was is not known, or it cannot be written.
    """
    before, after = change.before, change.after
    for version in (before, after):
        if version is None:
            continue
        if not (stat.S_ISREG(version.mode) or stat.S_ISLNK(version.mode)):
            raise Refusal("it was, or is, no regular file")
    if before is None and after is None:
        raise Refusal(change.note or "nothing is known of what it was: this is a replay")
    folder = Folder(change.root)
    now = folder.look(change.path)[0]
    if now == before:
        return False
    data: bytes | None = b""
    if before is not None and (change.kind != "mode" or now != after):
        data = contents.get(before.identity) if before.identity else None
        if data is None:
            raise Refusal("what it held before was not kept")
    put(folder, change.path, now=now if anyway else after, then=before, data=data or b"")
    return True
