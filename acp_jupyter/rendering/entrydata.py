"""The data of an entry, for a frontend that can do more than show its HTML.

It goes out beside ``text/html`` and ``text/plain`` in the same output. The rules:

* It repeats no long text: the renderer takes the body from the HTML. Cells are the exception,
  because what is inserted into a notebook is their source and not what HTML shows of it.
* Text of the agent's has its deceptive characters made visible, as in the HTML.
* A question that is open has no data: its output has the buttons, and a frontend would prefer this.
* `VERSION` grows when a reader of an older version would misread an entry; such a reader shows
  the HTML. New fields do not need that.
* Terminals are named while their command runs: there are buttons for them then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final

from ..session.transcript import (
    CellsEntry,
    ElicitationEntry,
    Entry,
    FooterEntry,
    PermissionEntry,
    PlanEntry,
    TerminalEntry,
    TerminalState,
    ToolCallEntry,
)
from . import changes, elicitation, toolcalls, words
from .characters import one_line, visible

MIME: Final = "application/vnd.acp.entry+json"
VERSION: Final = 1

LABEL: Final = 200
"""Characters of a label, which a screen reader reads out."""

MAX_LOCATIONS: Final = 20
MAX_PATH: Final = 1_000

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")

Data = dict[str, Any]


def of(
    entry: Entry,
    ident: str,
    *,
    cwd: str = "",
    base: str = "",
    terminals: Mapping[str, TerminalState] | None = None,
) -> Data | None:
    """The data of an entry; ``None`` if its HTML says it all.

    Args:
        entry: of any type.
        ident: the entry's id among all that a page shows.
        cwd: the session's directory, which relative paths of the agent's start from.
        base: the notebook's folder, from which a frontend opens files; by default ``cwd``.
        terminals: by terminal id, as in ``Transcript.terminals``.
    """
    known = terminals or {}
    match entry:
        case ToolCallEntry():
            kind, data = "tool_call", _tool_call(entry, cwd, base or cwd)
            if running := [state.terminal_id for state in toolcalls.running(entry, known)]:
                data["terminals"] = running
        case TerminalEntry() if (state := known.get(entry.terminal_id)) and state.running:
            label = f"Terminal: {one_line(words.terminal_command(state), 160)}"
            kind, data = "terminal", {"label": label, "terminals": [entry.terminal_id]}
        case PlanEntry(text=None, uri=None, removed=False):
            kind, data = "plan", _plan(entry)
        case PermissionEntry() if entry.state != "pending":
            label = words.decision(entry).word
            kind, data = "permission", {"label": label, "state": entry.state}
        case ElicitationEntry() if entry.state != "pending":
            label = elicitation.outcome(entry).word
            kind, data = "elicitation", {"label": label, "state": entry.state}
        case CellsEntry():
            kind, data = "cells", _cells(entry)
        case FooterEntry():
            kind, data = "footer", _footer(entry)
        case _:
            return None
    label = one_line(data.pop("label"), LABEL)
    return {"version": VERSION, "type": kind, "id": ident, "label": label, **data}


def _tool_call(call: ToolCallEntry, cwd: str, base: str) -> Data:
    title = one_line(call.title or call.name or "(no title)", 160)
    added, removed = toolcalls.counts(call)
    return {
        "label": f"{title.replace('`', '')}: {words.tool_status(call).word}",
        "kind": one_line(call.kind, 40),
        "title": title,
        "status": one_line(_status(call), 40),
        "finished": call.finished,
        "locations": list(_locations(call, cwd, base)),
        "added": added,
        "removed": removed,
    }


def _status(call: ToolCallEntry) -> str:
    """The agent's last word, or why there will be no further one."""
    ended = call.ended_by_turn
    if ended is None or call.status in call.FINAL:
        return call.status
    return ended if ended in ("cancelled", "denied") else "unfinished"


def _plan(entry: PlanEntry) -> Data:
    done = sum(item.get("status") == "completed" for item in entry.items)
    total = len(entry.items)
    return {"label": f"Plan: {done} of {total} done", "done": done, "total": total}


def _footer(entry: FooterEntry) -> Data:
    _, warning = words.stop_warning(entry)
    reason = entry.stop_reason
    files = changes.title(entry.changes) if entry.changes is not None else ""
    return {
        "label": f"{warning} {words.footer(entry)} {files}".strip(),
        "stopReason": None if reason is None else one_line(reason, 60),
        "duration": round(entry.duration, 3),
    }


def _cells(entry: CellsEntry) -> Data:
    return {
        "label": words.proposed_cells(entry),
        "cells": [
            {
                "language": one_line(cell.language, 40),
                "source": visible(cell.source),
                "state": cell.state,
            }
            for cell in entry.cells
        ],
        "origin": {
            "agent": one_line(entry.agent, 100),
            "session": one_line(entry.session, 200),
            "turn": entry.turn,
        },
    }


# -- files ------------------------------------------------------------------------------------


def _locations(call: ToolCallEntry, cwd: str, base: str) -> Iterator[Data]:
    """What the agent names, then the files of its diffs; each path and line once."""
    seen: set[tuple[str, int | None]] = set()
    named: set[str] = set()
    for item in (*call.locations, *_changed_files(call.content)):
        path = relative_path(item.get("path"), cwd, base)
        line = item.get("line")
        line = line if type(line) is int and line >= 0 else None
        if path is None or (path, line) in seen or (line is None and path in named):
            continue
        seen.add((path, line))
        named.add(path)
        yield {"path": path} if line is None else {"path": path, "line": line}
        if len(seen) == MAX_LOCATIONS:
            return


def _changed_files(content: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in content:
        if item.get("type") == "diff":
            yield from toolcalls.changes(item) or [{"path": item.get("path")}]


def relative_path(path: object, cwd: str, base: str) -> str | None:
    """A path as seen from ``base``, with ``/``; ``None`` if it leads elsewhere.

    Only what is inside of ``base`` or ``cwd`` is named: a frontend can open nothing else.

    >>> relative_path("/home/me/project/src/a.py", "/home/me/project", "/home/me/project/notes")
    '../src/a.py'
    """
    if not isinstance(path, str) or not path or len(path) > MAX_PATH or visible(path) != path:
        return None
    flavour = PureWindowsPath if _WINDOWS.match(base) else PurePosixPath
    if "\n" in path or not flavour(base).is_absolute() or not flavour(cwd).is_absolute():
        return None
    target = _resolved(flavour(cwd, path))
    start = _resolved(flavour(base))
    if not (target.is_relative_to(start) or target.is_relative_to(_resolved(flavour(cwd)))):
        return None
    above = 0
    while not target.is_relative_to(start):
        if start == start.parent:
            return None
        start, above = start.parent, above + 1
    rest = target.relative_to(start).parts
    return "/".join([".."] * above + list(rest)) or None


def _resolved(path: PurePath) -> PurePath:
    """A path without ``..``, as far as its text tells."""
    parts: list[str] = []
    for part in path.parts[1:]:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return type(path)(path.anchor, *parts)
