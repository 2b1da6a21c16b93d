"""How the files of a folder are at one moment, to tell later which ones have changed.

The rules:

* In a git worktree these are the files that git knows or would take, so not those that are ignored;
  elsewhere all but those in `IGNORED`. ``.git`` and ``.ipynb_checkpoints`` are left out.
* All files are looked at, few are read: those that the repository's index does not tell the content
  of, as far as the time allows, and none again that was read and has the same times and size since.
* A symbolic link is told by where it leads, and is not followed.
* What is compared is what stands on the disk, never what an agent says of it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from ...errors import Refusal, UsageError
from .contents import Contents
from .disk import HASHED, KEPT, TEMPORARY, Folder
from .git import git, in_worktree
from .index import Index, read_index

MAX_FILES: Final = 200_000
"""Beyond them a folder is not watched: looking at them takes some seconds, and 80 MB."""

READ_AT_ONCE: Final = 64 * 2**20
"""Bytes of files that one snapshot reads to keep them."""

READ_ALWAYS: Final = 500
"""Files that are read whatever the time: a slow machine shall not make a difference."""

LEFT_OUT: Final = frozenset({".git", ".ipynb_checkpoints", "..", ""})
"""Names that no path has which is looked at; the last two are in indexes that were tampered with:
they lead out of the folder."""

IGNORED: Final = frozenset(
    {
        *(".git", ".hg", ".svn"),
        *(".venv", "venv", "node_modules", ".tox", ".nox"),
        *("__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
        ".DS_Store",
    }
)
"""Names left out where there is no repository that says what to ignore, and in copies: what
versions keep, what is installed, what tools cache."""

RACY_NS: Final = 2 * 10**9
"""Changed as shortly before a snapshot, a file may change again and keep its times: file systems
count in steps, some of 2 s."""


class State(NamedTuple):
    """What is noted of a file."""

    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a folder at one moment; made by `take`.

    Attributes:
        folder: the folder, absolute.
        files: how each of them was, by its path with ``/``.
        identities: of those that were read, see `session.changes.Version`.
        blobs: names of the blobs of those whose content the repository has.
        taken: when, in nanoseconds since the epoch.
        leave_out: see `take`.
        index: the repository's, if there is one.
    """

    folder: str
    files: dict[str, State]
    taken: int
    identities: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    leave_out: frozenset[str] = frozenset()
    index: Index | None = field(default=None, repr=False)

    def changed(self) -> list[str]:
        """The files that are not as they were: changed, new or gone.

        Raises:
            UsageError: there are too many by now.
        """
        from .comparison import compare

        now = take(self.folder, leave_out=self.leave_out, read=False)
        return [change.path for change in compare(self, now, Contents(), limit=MAX_FILES).files]

    def is_racy(self, state: State) -> bool:
        return state.ctime >= self.taken - RACY_NS


def take(
    folder: str,
    *,
    contents: Contents | None = None,
    earlier: Snapshot | None = None,
    leave_out: Collection[str] = (),
    read: bool = True,
    seconds: float | None = None,
) -> Snapshot:
    """Note how the files of a folder are.

    Args:
        folder: absolute, links in it resolved.
        contents: keeps what is read.
        earlier: of the same folder; what has not changed since is not read again.
        leave_out: files, absolute, which do not count.
        read: read files whose content is not known otherwise.
        seconds: that reading may take; ``None`` is as long as it takes.

    Raises:
        UsageError: there are too many of them.
    """
    begun, started = time.time_ns(), time.monotonic()
    listed = _listed(folder, None if earlier is None else earlier.index)
    prefix = folder.rstrip("/") + "/"
    excluded = {path.removeprefix(prefix) for path in leave_out}
    files: dict[str, State] = {}
    blobs: dict[str, bytes] = {}
    for path in listed.paths:
        if path in files or path in excluded:
            continue
        try:
            status = os.lstat(prefix + path)
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        files[path] = state = _state(status)
        if listed.index is not None:
            blob = b""
            if earlier is not None and earlier.files.get(path) == state:
                blob = b"" if earlier.is_racy(state) else earlier.blobs.get(path, b"")
            blob = blob or listed.index.known(path, status)
            if blob:
                blobs[path] = blob
        if len(files) > MAX_FILES:
            raise UsageError(
                f"{folder} holds more than {MAX_FILES:,} files, too many to watch",
                remedy="Connect the agent in a smaller folder, with --cwd.",
            )
    left_out = frozenset(leave_out)
    made = Snapshot(folder, files, begun, blobs=blobs, leave_out=left_out, index=listed.index)
    if read:
        _read(made, earlier, contents, None if seconds is None else started + seconds)
    return made


def _state(status: os.stat_result) -> State:
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return State(status.st_mode, status.st_size, *times, status.st_ino)


def _read(
    made: Snapshot, earlier: Snapshot | None, contents: Contents | None, until: float | None
) -> None:
    """Find out what the files hold whose content the repository does not know."""
    folder = Folder(made.folder)
    read = size = 0
    for path, state in made.files.items():
        if path in made.blobs:
            continue
        known = "" if earlier is None else earlier.identities.get(path, "")
        if known and earlier is not None and earlier.files.get(path) == state:
            keeps = contents is None or state.size > KEPT or known in contents
            if keeps and not earlier.is_racy(state):
                made.identities[path] = known
                continue
        in_time = until is None or read < READ_ALWAYS or time.monotonic() < until
        too_much = until is not None and size + state.size > READ_AT_ONCE
        if not in_time or too_much:
            continue
        try:
            version, data = folder.look(path)
        except Refusal:
            continue
        if version is None or version.mode != state.mode or not version.identity:
            continue
        read, size = read + 1, size + min(state.size, HASHED)
        made.identities[path] = version.identity
        if contents is not None and data is not None:
            contents.put(data)


# -- which files there are ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    """The paths of a folder's files, and its part of the repository's index."""

    paths: Iterator[str]
    index: Index | None = None


def _listed(folder: str, earlier: Index | None) -> _Listed:
    found = _of_git(folder, earlier) if in_worktree(folder) else None
    return found or _Listed(_walk(folder, ""))


def _of_git(folder: str, earlier: Index | None) -> _Listed | None:
    """``None`` where git cannot tell: no worktree, or one that ignores the whole folder."""
    asked = ("--show-object-format", "--git-path", "index", "--show-prefix")
    words = (git(folder, "rev-parse", *asked) or "").split("\n")
    if len(words) < 3 or git(folder, "check-ignore", "--quiet", ".") is not None:
        return None
    where = os.path.join(folder, words[1])
    sha256 = words[0] == "sha256"
    index = read_index(where, prefix=words[2], sha256=sha256, earlier=earlier)
    cached = ["--cached"] if index is None and os.path.exists(where) else []
    listed = git(folder, "ls-files", "-z", *cached, "--others", "--exclude-standard")
    if listed is None:
        return None
    known = Index({}, 0) if index is None else index
    return _Listed(_expanded(folder, known, listed.split("\0")), index)


def _expanded(folder: str, index: Index, others: Iterable[str]) -> Iterator[str]:
    """With the files of repositories within, of which git only names the folder."""
    for path in chain(index.entries, others):
        name = path.removesuffix("/")
        # Most look like none of them: splitting takes longer.
        suspicious = any(part in name for part in (".git", ".ipynb", "..", "//")) or path[:1] == "/"
        if not name or (suspicious and LEFT_OUT.intersection(name.split("/"))):
            continue
        if path == "./":  # all of it is another repository, or seems so
            yield from _walk(folder, "")
        elif path[-1] == "/" or path in index.repositories:
            yield from _walk(folder, name)
        else:
            yield path


def _walk(folder: str, below: str) -> Iterator[str]:
    waiting = [below]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(os.path.join(folder, place)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue  # it may not be read, or is gone
        for entry in entries:
            path = f"{place}/{entry.name}" if place else entry.name
            if entry.name in IGNORED or entry.name.startswith(TEMPORARY):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            else:
                yield path
