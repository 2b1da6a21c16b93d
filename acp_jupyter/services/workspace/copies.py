"""Copies of a folder, what was changed in one, and worktrees of a repository.

The rules:

* A copy is bounded in files and bytes, and leaves out what is made again by tools (`IGNORED`).
* No symbolic link is followed. Those that lead out of the folder are left out of a copy: what is
  changed through one would be changed for all copies, and for the user.
* A worktree is checked out by nobody's filters and hooks: see `add_worktree`.
* Changes are what is on the disk afterwards, never what an agent tells of them.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...errors import ACPError, Refusal, UsageError
from ...session.changes import FileChange
from . import git
from .comparison import PATCHES, Held, difference
from .disk import Folder
from .snapshot import IGNORED

MAX_FILES: Final = 20_000
MAX_BYTES: Final = 500_000_000
"""Of one copy. Beyond them a worktree, or a smaller folder, is the better way."""

OFF: Final = {
    "filter": ("smudge=", "clean=", "process=", "required=false"),
    "hook": ("enabled=false",),
}
"""What switches a program off that a configuration names: a filter, or a hook (git 2.54)."""

GIT_LIMIT: Final = 120.0
"""Seconds for a command of git that writes a worktree."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds, and the links that it does not."""

    files: int
    bytes: int
    links_left_out: int


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


def copy_files(source: str, target: str, paths: Iterable[str]) -> None:
    """Copy some files of a folder into another one.

    Args:
        source: absolute; it is only read, through no link within it.
        target: is there.
        paths: below the source; links that lead out of it, and what is no file, are left out.

    Raises:
        UsageError: they are too large.
        ACPError: the copy cannot be written.
    """
    own, size = Folder(source), 0
    for count, path in enumerate(paths, 1):
        place, made = os.path.join(source, path), os.path.join(target, path)
        try:
            status = os.lstat(place)
            size += status.st_size
            _check_size(Path(source), count, size)
            os.makedirs(os.path.dirname(made), exist_ok=True)
            if stat.S_ISLNK(status.st_mode):
                if not _leads_out(place, source):
                    os.symlink(os.readlink(place), made)
            elif stat.S_ISREG(status.st_mode):
                Path(made).write_bytes(own.read(path))
                os.chmod(made, stat.S_IMODE(status.st_mode) & 0o777)
        except FileNotFoundError:
            continue  # it is gone by now
        except (OSError, Refusal) as error:
            raise ACPError(f"{place} cannot be copied: {error}") from error


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
        before: the folder as it was.
        after: the copy in which something ran.
        leave_out: paths that do not count, such as the notebook that was run.

    Raises:
        ACPError: one of them cannot be read.
    """
    found: list[FileChange] = []
    room = PATCHES
    try:
        old, new = (Folder(os.path.realpath(place)) for place in (before, after))
        paths = {*files(before), *files(after)}.difference(leave_out)
        for path in sorted(paths):
            sides = Held(*old.look(path)), Held(*new.look(path))
            change = difference(path, *sides, root=new.path, room=room)
            if change is not None:
                room -= len(change.diff)
                found.append(change)
    except OSError as error:
        raise ACPError(f"the copy {after} cannot be read: {error}") from error
    except Refusal as refusal:
        raise ACPError(f"the copy {after} cannot be read: {refusal.message}") from refusal
    return found


def files(folder: Path) -> Iterator[str]:
    """Paths of the files and links in a folder, with ``/``, but for those that no copy has.

    Raises:
        ACPError: there are too many.
    """
    root = os.path.realpath(folder)
    count = 0
    for entry in _walk(root):
        if entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
            count += 1
            if count > MAX_FILES * 2:
                raise ACPError(f"{root} has more than {MAX_FILES * 2:,} files: not compared")
            yield os.path.relpath(entry.path, root).replace(os.sep, "/")


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


def add_worktree(workspace: Path, place: Path, commit: str, *, checkout: bool = True) -> None:
    """Check a commit out into a new folder, on no branch.

    No hook runs, and no filter that the repository's own configuration names: those of the user's
    configuration do.

    Args:
        workspace: a folder of the repository.
        place: does not exist yet.
        commit: which one.
        checkout: write its files; else the folder is empty, and the worktree's index complete.

    Raises:
        UsageError: git refuses.
    """
    options = [] if checkout else ["--no-checkout"]
    words = ["worktree", "add", "--detach", "--force", *options, os.fspath(place), commit]
    settings = no_programs(workspace)
    _git(workspace, *words, settings=settings)
    if not checkout:
        _git(place, "read-tree", commit, settings=settings)


def no_programs(workspace: Path) -> list[str]:
    """Settings that switch off what a repository's own configuration would have run.

    Raises:
        UsageError: it cannot be told, or switched off.
    """
    listed = git.git(
        os.fspath(workspace), "config", "-z", "--show-scope", "--name-only", "--list", "--includes"
    )
    if listed is None:
        raise UsageError(
            f"git does not tell the configuration of {workspace}", remedy="Use --isolate copy."
        )
    words = listed.split("\0")
    found: set[tuple[str, str]] = set()
    for scope, key in zip(words[::2], words[1::2], strict=False):
        section, _, rest = key.partition(".")
        if scope in ("local", "worktree") and section in OFF and "." in rest:
            found.add((section, key.rpartition(".")[0]))
    settings: list[str] = []
    for section, name in sorted(found):
        if "=" in name:  # where git would end it
            raise UsageError(
                f"the configuration of {workspace} has a {section} whose name has a '=', which "
                "cannot be switched off",
                remedy="Rename it, or use --isolate copy.",
            )
        settings += [word for each in OFF[section] for word in ("-c", f"{name}.{each}")]
    return settings


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


def _git(workspace: Path, *arguments: str, settings: Sequence[str] = ()) -> str:
    command = [*git.COMMAND, *settings, "-C", os.fspath(workspace), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=GIT_LIMIT,
            stdin=subprocess.DEVNULL,
            env=git.environment(),
            check=False,
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
