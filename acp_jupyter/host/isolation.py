"""Agents that work in a copy: made when they are connected, settled when they are not any more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, get_args

from ..errors import ACPError, Refusal, UsageError

if TYPE_CHECKING:
    from ..services.workspace.isolated import Isolated
    from ..session.changes import FileChange
    from .host import Host
    from .link import Link

WAYS: Final = ("worktree", "copy")


def isolated(host: Host, folder: str, how: str) -> Isolated:
    """Copy a folder for an agent to work in; not the running notebook, which stays the user's.

    Raises:
        UsageError: there is no such way, or the folder cannot be copied in it.
        ACPError: the copy cannot be written.
    """
    from jupyter_core.paths import jupyter_data_dir

    from ..services.workspace.isolated import Isolate, isolate
    from ..services.workspace.watch import notebook_files
    from .recordings import notebook_of

    ways: tuple[Isolate, ...] = get_args(Isolate)
    way = next((each for each in ways if each == how), None)
    if way is None:
        raise UsageError(
            f"--isolate {how}: there is no such way", remedy=f"Use {' or '.join(WAYS)}."
        )
    base = os.path.join(jupyter_data_dir(), "acp-jupyter", "copies")
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ACPError(f"no copy can be made in {base}: {error}") from error
    notebook = notebook_of(host.environ, by_server=host.launch.by_server)
    leave_out = [] if notebook is None else notebook_files(notebook)
    return isolate(folder, way, base=base, leave_out=leave_out)


def isolated_of(link: Link) -> Isolated:
    """The copy in which a link's agent works, or worked last.

    Raises:
        UsageError: it works in none.
    """
    if link.isolated is None or link.isolated.gone:
        raise UsageError(
            "the agent works in no copy",
            remedy="Connect it with `%acp connect NAME --isolate copy`, or worktree.",
        )
    return link.isolated


def settle(copy: Isolated | None) -> str:
    """Remove a copy that no agent uses any more, if nothing in it waits to be accepted; else say
    where it is kept."""
    if copy is None or copy.gone:
        return ""
    try:
        count = copy.changes().count
    except ACPError as error:
        return f"The copy {copy.folder} is kept: {error.message}"
    if not count:
        copy.discard()
        return ""
    files = "1 changed file in it was" if count == 1 else f"{count:,} changed files in it were"
    return f"The copy {copy.folder} is kept: {files} not accepted."


def accept(
    host: Host, copy: Isolated, paths: Sequence[str] = ()
) -> tuple[list[FileChange], list[tuple[FileChange, str]]]:
    """Bring changes over, of all files or of some; returns those that were, and were not, and why.

    Raises:
        UsageError: one of the paths names no changed file.
        ACPError: the copy cannot be read.
    """
    changes = copy.changes()
    named = {path.strip("/") for path in paths}
    chosen = [
        change
        for change in changes.files
        if not named
        or any(change.path == name or change.path.startswith(f"{name}/") for name in named)
    ]
    for name in named:
        if not any(c.path == name or c.path.startswith(f"{name}/") for c in chosen):
            raise UsageError(
                f"{name} has not changed in the copy", remedy="`%acp changes` lists what has."
            )
    from .changed_files import putting

    put = putting(host)
    done: list[FileChange] = []
    refused: list[tuple[FileChange, str]] = []
    for change in chosen:
        try:
            copy.accept(change, put=put)
            done.append(change)
        except Refusal as refusal:
            refused.append((change, refusal.message))
    return done, refused
