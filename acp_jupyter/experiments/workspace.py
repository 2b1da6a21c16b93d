"""Copies of a workspace: each run has one of its own, and what it changed in it is measured.

The rules:

* A copy is bounded in files and bytes, and leaves out what is made again by tools (`IGNORED`).
* No symbolic link is followed. Those that lead out of the workspace are left out of a copy: what
  is changed through one would be changed for all runs, and for the user.
* Changes are what is on the disk afterwards, never what an agent tells of them.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from ..errors import ACPError, UsageError
from ..rendering import diff

IGNORED: Final = frozenset(
    {
        *(".git", ".hg", ".svn"),
        *(".venv", "venv", "node_modules", ".tox", ".nox"),
        *("__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
        ".DS_Store",
    }
)
"""Names left out everywhere: what versions keep, what is installed, what tools cache."""

MAX_FILES: Final = 20_000
MAX_BYTES: Final = 500_000_000
"""Of one copy. Beyond them a worktree, or a smaller folder, is the better way."""

MAX_TEXT: Final = 1_000_000
"""Bytes up to which a changed file is compared line by line."""

MAX_SHOWN: Final = 200
"""Changed files whose difference is kept as text."""

GIT_LIMIT: Final = 120.0
"""Seconds for one command of git."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds, and the links that it does not."""

    files: int
    bytes: int
    links_left_out: int


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that is not as it was.

    Attributes:
        path: in the workspace, with ``/``.
        change: "added", "removed" or "changed".
        lines_added, lines_removed: 0 for what is no text, or is too large to be compared.
        text: the difference; empty where there is none to read.
    """

    path: str
    change: str
    lines_added: int = 0
    lines_removed: int = 0
    text: str = field(default="", repr=False)


def copy(source: Path, target: Path, *, leave_out: Collection[Path] = ()) -> Copied:
    """Copy a folder to a place that does not exist yet.

    Args:
        source: it is only read.
        target: made; a part of it may be left where copying fails.
        leave_out: files and folders that do not belong to it, such as the results.

    Raises:
        UsageError: it is too large, or cannot be read.
        ACPError: the copy cannot be written.
    """
    excluded = {os.path.realpath(path) for path in leave_out}
    root = os.path.realpath(source)
    files = size = links = 0
    try:
        target.mkdir(parents=True)
        for entry in _walk(root, excluded):
            place = target / os.path.relpath(entry.path, root)
            if entry.is_symlink():
                if _leads_out(entry.path, root):
                    links += 1
                else:
                    os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir(follow_symlinks=False):
                place.mkdir()
            else:
                files, size = files + 1, size + entry.stat(follow_symlinks=False).st_size
                _check_size(source, files, size)
                shutil.copy2(entry.path, place, follow_symlinks=False)
    except OSError as error:
        raise ACPError(f"the workspace {source} cannot be copied: {error}") from error
    return Copied(files, size, links)


def _check_size(source: Path, files: int, size: int) -> None:
    if files > MAX_FILES or size > MAX_BYTES:
        raise UsageError(
            f"the workspace {source} is too large for a copy of it in each run: more than "
            f"{MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB",
            remedy="Name a smaller one with --workspace, or use --isolate worktree.",
        )


def _walk(root: str, excluded: Collection[str] = ()) -> Iterator[os.DirEntry[str]]:
    """Files, folders and links below a folder, each folder before what is in it."""
    with os.scandir(root) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in IGNORED or entry.path in excluded:
            continue
        if entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            yield entry
            yield from _walk(entry.path, excluded)
        # Sockets, pipes and devices hold no content.


def _leads_out(link: str, root: str) -> bool:
    """Whether a link leads elsewhere than into the workspace by a relative path."""
    if os.path.isabs(os.readlink(link)):
        return True
    target = os.path.realpath(link)
    return os.path.commonpath([target, root]) != root


# -- what has changed -----------------------------------------------------------------------------


def changes(before: Path, after: Path, *, leave_out: Collection[str] = ()) -> list[FileChange]:
    """How a copy differs from what it was made of, by path.

    Args:
        before: the workspace as it was.
        after: the copy in which something ran.
        leave_out: paths that do not count, such as the notebook that was run.

    Raises:
        ACPError: one of them cannot be read.
    """
    try:
        old, new = _contents(before), _contents(after)
        found: list[FileChange] = []
        for path in sorted(old.keys() | new.keys() - set(leave_out)):
            if path in leave_out:
                continue
            change = _change(path, old.get(path), new.get(path), keep_text=len(found) < MAX_SHOWN)
            if change is not None:
                found.append(change)
    except OSError as error:
        raise ACPError(f"the copy {after} cannot be read: {error}") from error
    return found


def _contents(root: Path) -> dict[str, os.DirEntry[str]]:
    entries: dict[str, os.DirEntry[str]] = {}
    for entry in _walk(os.path.realpath(root)):
        if entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
            if len(entries) >= MAX_FILES * 2:
                raise ACPError(f"{root} has more than {MAX_FILES * 2:,} files: not compared")
            relative = os.path.relpath(entry.path, os.path.realpath(root))
            entries[relative.replace(os.sep, "/")] = entry
    return entries


def _change(
    path: str, old: os.DirEntry[str] | None, new: os.DirEntry[str] | None, *, keep_text: bool
) -> FileChange | None:
    if old is not None and new is not None and _same(old, new):
        return None
    change = "added" if old is None else "removed" if new is None else "changed"
    before, after = _text(old), _text(new)
    if (old is not None and before is None) or (new is not None and after is None):
        return FileChange(path, change)
    compared = diff.compare(before, after)
    text = diff.to_text(compared, path) if keep_text else ""
    return FileChange(path, change, compared.added, compared.removed, text)


def _same(old: os.DirEntry[str], new: os.DirEntry[str]) -> bool:
    if old.is_symlink() or new.is_symlink():
        return (
            old.is_symlink() and new.is_symlink() and os.readlink(old.path) == os.readlink(new.path)
        )
    sizes = {entry.stat(follow_symlinks=False).st_size for entry in (old, new)}
    if len(sizes) > 1:
        return False
    with _opened(old.path) as one, _opened(new.path) as other:
        while True:
            held = one.read(MAX_TEXT)
            if held != other.read(MAX_TEXT):
                return False
            if not held:
                return True


def _text(entry: os.DirEntry[str] | None) -> str | None:
    """What a file says; ``None`` for what is not there, no text or too large."""
    if entry is None:
        return None
    if entry.is_symlink():
        return f"link to {os.readlink(entry.path)}\n"
    if entry.stat(follow_symlinks=False).st_size > MAX_TEXT:
        return None
    with _opened(entry.path) as file:
        held = file.read(MAX_TEXT + 1)
    try:
        return None if len(held) > MAX_TEXT or b"\0" in held else held.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _opened(path: str) -> BinaryIO:
    """A file that is none of the links or pipes an agent may have put in its place since."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file any more")
    return os.fdopen(descriptor, "rb")


# -- git ------------------------------------------------------------------------------------------


def commit_of(workspace: Path) -> str:
    """The commit that a worktree of a folder would hold.

    Raises:
        UsageError: it is no top folder of a git repository.
    """
    top = _git(workspace, "rev-parse", "--show-toplevel")
    if os.path.realpath(top) != os.path.realpath(workspace):
        raise UsageError(
            f"{workspace} lies in the git repository {top}, but is not its top folder",
            remedy=f"Use --workspace {top}, or --isolate copy.",
        )
    return _git(workspace, "rev-parse", "HEAD")


def add_worktree(workspace: Path, place: Path, commit: str) -> None:
    """Check a commit out into a new folder, on no branch.

    Raises:
        UsageError: git refuses.
    """
    _git(workspace, "worktree", "add", "--detach", "--force", os.fspath(place), commit)


def remove_worktree(workspace: Path, place: Path) -> None:
    """Remove a folder made by `add_worktree`, and what git noted of it."""
    shutil.rmtree(place, ignore_errors=True)
    prune_worktrees(workspace)


def prune_worktrees(workspace: Path) -> None:
    """Have git forget worktrees whose folder is gone.

    Raises:
        UsageError: git refuses.
    """
    _git(workspace, "worktree", "prune")


def _git(workspace: Path, *arguments: str) -> str:
    command = ["git", "-C", os.fspath(workspace), *arguments]
    try:
        done = subprocess.run(  # noqa: PLW1510  # its words are told
            command, capture_output=True, text=True, timeout=GIT_LIMIT, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise UsageError(
            "git is not installed", remedy="Install it, or use --isolate copy."
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git {arguments[0]} did not end: {error}") from error
    if done.returncode:
        raise UsageError(
            f"git {arguments[0]} refuses {workspace}: {done.stderr.strip()[:500]}",
            remedy="Use --isolate copy where there is no repository with a commit.",
        )
    return done.stdout.strip()
