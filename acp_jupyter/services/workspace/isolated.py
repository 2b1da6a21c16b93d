"""A copy in which an agent works, until what it changed is accepted or discarded.

The rules:

* A copy has what the folder has at that moment, uncommitted and untracked files too: the agent
  sees what the user sees. "worktree" is a worktree of the repository, of the commit that is checked
  out, with the files that git knows or would take; "copy" is a plain copy, bounded, without
  repository and without what tools make again (see `copies`).
* It lies outside of the folder, in a directory that only the user can read.
* A change is accepted only where the original is as it was when the copy was made, or is like the
  copy already. All else is refused, and named.
* A copy with changes that were not accepted is kept until it is discarded.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from ...errors import ACPError, Refusal, UsageError
from ...session.changes import NAMED, Changes, FileChange, Version
from . import copies
from .comparison import PATCHES, Held, difference
from .disk import Folder
from .git import git
from .shown import Put
from .snapshot import take

Isolate = Literal["copy", "worktree"]

PREFIX: Final = "acp-isolated-"


class Isolated:
    """A copy; made by `isolate`.

    Attributes:
        original: the folder that was copied, absolute.
        folder: its copy, in which the agent works.
        place: the private directory that holds it.
        how: see `isolate`.
    """

    def __init__(self, original: str, folder: str, place: str, how: Isolate) -> None:
        self.original = original
        self.folder = folder
        self.place = place
        self.how: Isolate = how
        self.gone = False
        self._copy, self._own = Folder(folder), Folder(original)
        self._base = {path: held.version for path, held in _held(self._copy, how).items()}

    def changes(self) -> Changes:
        """How the copy differs from what it was made of.

        Raises:
            ACPError: it cannot be read.
        """
        found: list[FileChange] = []
        more, room = 0, PATCHES
        now = _held(self._copy, self.how)
        for path in sorted(self._base.keys() | now.keys()):
            new = now.get(path, Held(None, None))
            if self._base.get(path) == new.version:
                continue
            if len(found) >= NAMED:
                more += 1
                continue
            change = difference(path, self._before(path), new, root=self.original, room=room)
            if change is not None:
                room -= len(change.diff)
                found.append(change)
        return Changes(tuple(found), more)

    def _before(self, path: str) -> Held:
        """What a file was when the copy was made; the original tells it, unless it has changed."""
        base = self._base.get(path)
        version, data = self._own.look(path)
        return Held(base, data if version == base else None)

    def accept(self, change: FileChange, *, put: Put = Folder.put) -> None:
        """Bring one of the `changes` over to the original.

        Args:
            change: which.
            put: puts the file in place.

        Raises:
            Refusal: the original has changed too, or it cannot be written.
        """
        version, data = self._copy.look(change.path)
        if version == self._own.look(change.path)[0]:
            self._settle(change.path, version)
            return
        if version is not None and data is None:
            data = self._whole(change.path, version)
        base = self._base.get(change.path)
        put(self._own, change.path, now=base, then=version, data=data or b"")
        self._settle(change.path, version)

    def _settle(self, path: str, version: Version | None) -> None:
        if version is None:
            self._base.pop(path, None)
        else:
            self._base[path] = version

    def _whole(self, path: str, version: Version) -> bytes:
        """The content of a file that is too large to be compared."""
        data = self._copy.read(path)
        if self._copy.look(path)[0] != version:
            raise Refusal("the copy is still being changed")
        return data

    def discard(self) -> None:
        """Remove the copy and all that is in it."""
        if self.gone:
            return
        self.gone = True
        if self.how == "worktree":
            try:
                copies.remove_worktree(Path(self.original), Path(self._top))
            except UsageError:
                pass  # the repository is gone: its notes of the worktree are, too
        shutil.rmtree(self.place, ignore_errors=True)

    @property
    def _top(self) -> str:
        """The copy of the repository's top folder."""
        name = os.path.relpath(self.folder, self.place).split(os.sep)[0]
        return os.path.join(self.place, name)


def isolate(
    folder: str, how: Isolate, *, base: str | None = None, leave_out: Collection[str] = ()
) -> Isolated:
    """Copy a folder, for an agent to work in the copy.

    Args:
        folder: absolute, links in it resolved.
        how: "copy", or "worktree": a worktree of the repository that it is in.
        base: a directory to put it in; by default that for temporary files.
        leave_out: files, absolute, that do not belong to it.

    Raises:
        UsageError: it is too large, or there is no repository with a commit.
        ACPError: the copy cannot be written.
    """
    place = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX, dir=base))  # its mode is 0700
    try:
        if how == "copy":
            made = os.path.join(place, os.path.basename(folder) or "folder")
            copies.copy(Path(folder), Path(made), leave_out=list(map(Path, leave_out)))
        else:
            made = _worktree(folder, place, leave_out)
        return Isolated(folder, made, place, how)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        if how == "worktree":
            git(folder, "worktree", "prune")
        raise


def _worktree(folder: str, place: str, leave_out: Collection[str]) -> str:
    """A worktree as the user's is, the files in it copied: nothing is checked out, so that no
    filter has to run. Returns the copy of the folder, which may be below the top one."""
    top = (git(folder, "rev-parse", "--show-toplevel") or "").rstrip("\n")
    commit = (git(folder, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
    if not top or not commit:
        raise UsageError(
            f"{folder} is in no git repository with a commit", remedy="Use --isolate copy."
        )
    top = os.path.realpath(top)
    target = os.path.join(place, os.path.basename(top) or "repository")
    copies.add_worktree(Path(top), Path(target), commit, checkout=False)
    listed = take(top, leave_out=leave_out, read=False)
    copies.copy_files(top, target, listed.files)
    made = os.path.normpath(os.path.join(target, os.path.relpath(folder, top)))
    os.makedirs(made, exist_ok=True)
    return made


def _held(folder: Folder, how: Isolate) -> dict[str, Held]:
    """All files of a copy."""
    try:
        listed = (
            take(folder.path, read=False).files
            if how == "worktree"
            else copies.files(Path(folder.path))
        )
        found = {path: Held(*folder.look(path)) for path in listed}
    except (OSError, Refusal) as error:
        raise ACPError(f"the copy {folder.path} cannot be read: {error}") from error
    return {path: held for path, held in found.items() if held.version is not None}
