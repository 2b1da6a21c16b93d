"""Commands of git that look at a repository, and start no program that it names.

A repository's configuration can name programs: hooks, a file system monitor, filters, textconv, an
ssh command. The rules:

* Only commands are run that need no filter: they list, and give out contents as they are stored.
* Hooks and the monitor are switched off, and no protocol is allowed, so nothing is fetched.
* Nothing of the user's is written: not the index, no reference. What adds and removes worktrees is
  in `copies`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final

from ...connection.environment import child_environment

LIMIT: Final = 20.0
"""Seconds for a command: the status of a large worktree takes some."""

COMMAND: Final = (
    "git",
    "--no-optional-locks",
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
)
"""It only looks, and starts no program that the repository's configuration names."""


def environment() -> dict[str, str]:
    """For git: nothing that a caller's own git has set, and nothing is fetched or asked."""
    known = child_environment(os.environ)  # not even git needs the server's token
    kept = {name: value for name, value in known.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def git(cwd: str, *arguments: str, limit: float = LIMIT) -> str | None:
    """What a command of git prints; ``None`` if it fails or there is none."""
    found = git_bytes(cwd, arguments, limit=limit)
    return None if found is None else os.fsdecode(found)


def git_bytes(
    cwd: str, arguments: Sequence[str], *, given: bytes = b"", limit: float = LIMIT
) -> bytes | None:
    """The same as bytes, with something on its standard input."""
    try:
        done = subprocess.run(
            [*COMMAND, "-C", cwd, *arguments],
            capture_output=True,
            input=given,
            timeout=limit,
            env=environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def in_worktree(folder: str) -> bool:
    """Whether git could know the folder: it, or one above, has a ``.git``."""
    place = folder
    while True:
        if os.path.lexists(os.path.join(place, ".git")):
            return True
        above = os.path.dirname(place)
        if above == place:
            return False
        place = above


def blobs(cwd: str, idents: Sequence[str]) -> Iterator[bytes | None]:
    """Contents from the object database, as they are stored; ``None`` for one not there.

    Args:
        cwd: a folder of the worktree.
        idents: names of blobs, which are not too large: all of them are in memory at once.
    """
    given = "".join(f"{ident}\n" for ident in idents).encode()
    out = git_bytes(cwd, ["cat-file", "--batch"], given=given) if idents else None
    at = 0
    for _ in idents:
        end = -1 if out is None else out.find(b"\n", at)
        if out is None or end < 0:
            yield None
            continue
        words = out[at:end].split(b" ")
        at = end + 1
        if len(words) != 3 or words[1] != b"blob" or not words[2].isdigit():
            yield None
            continue
        size = int(words[2])
        yield out[at : at + size]
        at += size + 1


def filtered(cwd: str, paths: Sequence[str]) -> set[str]:
    """Those of which git stores something else than stands in the worktree."""
    names = ["filter", "ident", "working-tree-encoding"]
    given = b"".join(os.fsencode(path) + b"\0" for path in paths)
    out = git_bytes(cwd, ["check-attr", "-z", "--stdin", *names], given=given)
    if out is None:
        return set(paths)
    words = [os.fsdecode(word) for word in out.split(b"\0")[:-1]]
    triples = zip(words[::3], words[2::3], strict=False)
    return {path for path, value in triples if value not in ("unspecified", "unset")}
