"""What the files of a folder were at one moment, to tell later which ones have changed.

The rules:

* In a git worktree these are the files that git knows or would take, so not those that are ignored;
  elsewhere all. ``.git`` and ``.ipynb_checkpoints`` are left out.
* A file is told by a hash of its content, one beyond `LARGE` by its size and time. A symbolic link
  is told by where it leads, and is not followed.
* What is compared is what stands on the disk, never what an agent says of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..errors import UsageError
from .header import git

LARGE: Final = 8_000_000
"""Bytes beyond which a file is not read: reading all that a repository has takes a second or so."""

MAX_FILES: Final = 50_000

LEFT_OUT: Final = frozenset({".git", ".ipynb_checkpoints"})

State = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a folder at one moment; made by `take`.

    Attributes:
        folder: the folder, absolute.
        files: how each of them was, by its path with ``/``.
    """

    folder: str
    files: dict[str, State]

    def changed(self) -> list[str]:
        """The files that are not as they were: changed, new or gone.

        Raises:
            UsageError: there are too many by now.
        """
        paths = sorted({*self.files, *_listed(self.folder)})
        return [path for path in paths if _state(self.folder, path) != self.files.get(path)]


def take(folder: str) -> Snapshot:
    """Note how the files of a folder are.

    Raises:
        UsageError: there are too many of them.
    """
    states = ((path, _state(folder, path)) for path in _listed(folder))
    return Snapshot(folder, {path: state for path, state in states if state is not None})


def _listed(folder: str) -> set[str]:
    found: set[str] = set()
    for path in _of_git(folder) or _walk(folder, ""):
        found.add(path)
        if len(found) > MAX_FILES:
            raise UsageError(
                f"{folder} holds more than {MAX_FILES:,} files, too many to watch",
                remedy="Connect the agent in a smaller folder, with --cwd.",
            )
    return found


def _of_git(folder: str) -> Iterator[str] | None:
    """``None`` where git cannot tell: no worktree, or one that ignores the whole folder."""
    if git(folder, "check-ignore", "--quiet", ".") is not None:
        return None
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return None if listed is None else _expanded(folder, listed.split("\0"))


def _expanded(folder: str, paths: list[str]) -> Iterator[str]:
    """With the files of repositories within, of which git only names the folder."""
    for path in filter(None, paths):
        place = os.path.join(folder, path)
        if os.path.isdir(place) and not os.path.islink(place):
            yield from _walk(folder, path.rstrip("/"))
        elif not LEFT_OUT.intersection(path.split("/")):
            yield path


def _walk(folder: str, below: str) -> Iterator[str]:
    for place, folders, files in os.walk(os.path.join(folder, below)):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/")


def _state(folder: str, path: str) -> State | None:
    """How a file is; ``None`` where there is none."""
    place = os.path.join(folder, path)
    try:
        found = os.lstat(place)
        if stat.S_ISLNK(found.st_mode):
            return ("link", os.readlink(place))
        if stat.S_ISREG(found.st_mode) and found.st_size <= LARGE:
            digest = _digest(place)
            if digest:
                return ("file", digest)
    except OSError:
        return None
    return ("other", str(stat.S_IFMT(found.st_mode)), str(found.st_size), str(found.st_mtime_ns))


def _digest(place: str) -> str:
    """Of a file's content; empty if it cannot be read, or grows beyond all bounds meanwhile."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(place, flags)
    except PermissionError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGE + 1)
    return hashlib.sha256(data).hexdigest() if len(data) <= LARGE else ""
