"""Entries whose bundles are kept in ``tests/golden/entries``, for pytest and jest to read.

Each file has ``data`` (of `entrydata.MIME`), ``html`` and ``text``, as one output has them.
``python -m tests.golden_entries`` writes them anew; then look at what has changed, because saved
notebooks and frontends of other versions have the old form. The files in `BY_HAND` are not
written: they stand for what this version does not make.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from acp_jupyter.protocol.forms import Field
from acp_jupyter.rendering import entrydata, mimebundle
from acp_jupyter.session.transcript import (
    CellsEntry,
    ElicitationEntry,
    Entry,
    FooterEntry,
    PermissionChoice,
    PermissionEntry,
    PlanEntry,
    ProposedCell,
    TerminalEntry,
    TerminalState,
    ToolCallEntry,
)

FOLDER = Path(__file__).parent / "golden" / "entries"
CWD = "/home/me/project"
IDENT = "acp-0123456789ab-e7"

BY_HAND = frozenset({"newer", "unknown_type"})
"""Of a later version; of a type that nobody knows."""

TERMINALS = {
    "t1": TerminalState(
        "t1",
        argv=["pytest", "-q"],
        cwd=CWD,
        output="\x1b[31mF\x1b[0m.\n1 failed, 1 passed\n",
        exit_code=1,
        running=False,
        turn=1,
    ),
    "t2": TerminalState(
        "t2", argv=["sleep", "600"], cwd=CWD, output="z\n", turn=1, own=True, elapsed=2.5
    ),
}

OPTIONS = [
    PermissionChoice("a", "Yes", "allow_once"),
    PermissionChoice("b", "Never in this project", "reject_always"),
]


def _made(entry: Entry, **fields: Any) -> Entry:
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


def _call(**fields: Any) -> Entry:
    return _made(ToolCallEntry("e7", 1), **fields)


def _edit() -> Entry:
    diff = {
        "type": "diff",
        "path": f"{CWD}/src/app.py",
        "oldText": "import os\n\nDEBUG = False\n",
        "newText": "import os\n\nDEBUG = True\nPORT = 8080\n",
    }
    return _call(
        title="Edit `src/app.py`",
        kind="edit",
        status="completed",
        content=[diff],
        locations=[{"path": f"{CWD}/src/app.py", "line": 3}, {"path": "/etc/passwd"}],
    )


def _command() -> Entry:
    return _call(
        title="pytest -q",
        kind="execute",
        status="in_progress",
        raw_input={"command": "pytest -q"},
        content=[{"type": "terminal", "terminalId": "t1"}],
    )


def _patch() -> Entry:
    patch = "diff --git a/a.py b/b.py\n--- a/a.py\n+++ b/b.py\n@@ -1,1 +1,2 @@\n-old\n+new\n+more\n"
    changes = [{"operation": "move", "path": f"{CWD}/b.py", "oldPath": f"{CWD}/a.py"}]
    item = {"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": patch}}
    return _call(title="Move and edit", kind="move", status="failed", content=[item])


def _hostile() -> Entry:
    return _call(
        title="<img src=x onerror=alert(1)>\u202egnp.exe\u200b",
        kind="<script>",
        status="done\n<b>",
        locations=[{"path": f"{CWD}/a\u202eb.py"}, {"path": f"{CWD}/../../etc/passwd"}],
        ended_by_turn="end_turn",
    )


def _plan() -> Entry:
    statuses = ("completed", "in_progress", "pending")
    items = [
        {"content": f"Step {number}", "priority": "medium", "status": status}
        for number, status in enumerate(statuses, 1)
    ]
    return _made(PlanEntry("e7", 1), items=items)


def _permission(state: str, **fields: Any) -> Entry:
    entry = PermissionEntry("e7", 1, title="Write src/app.py", kind="edit", options=OPTIONS)
    return _made(entry, state=state, asked_at=1.0, decided_at=3.5, **fields)


def _elicitation(state: str, **fields: Any) -> Entry:
    entry = ElicitationEntry("e7", 1, agent="Demo", message="Which port?")
    entry.fields = [Field("port", "integer", "Port", required=True)]
    return _made(entry, state=state, decided_by="user", asked_at=1.0, decided_at=4.0, **fields)


def _footer(**fields: Any) -> Entry:
    return _made(FooterEntry("e7", 1), duration=3.25, **fields)


def _cells(**fields: Any) -> Entry:
    entry = CellsEntry("e7", 2, agent="Demo", session="sess-1", from_answer=True)
    entry.cells = [
        ProposedCell("python", "import math\n\nprint(math.pi)"),
        ProposedCell("bash", "ls -l"),
        ProposedCell("markdown", "# Title\n\n<script>alert(1)</script>"),
    ]
    return _made(entry, **fields)


def _marked() -> Entry:
    entry = _cells(left_out=2)
    assert isinstance(entry, CellsEntry)
    for cell, state in zip(entry.cells, ("inserted", "run", "dismissed"), strict=True):
        _set_state(cell, state)
    return entry


def _set_state(cell: ProposedCell, state: Any) -> None:
    cell.state = state


ENTRIES: dict[str, Entry] = {
    "tool_call_edit": _edit(),
    "tool_call_command": _command(),
    "tool_call_patch": _patch(),
    "tool_call_cancelled": _call(title="Think", status="pending", ended_by_turn="cancelled"),
    "tool_call_hostile": _hostile(),
    "terminal": _made(TerminalEntry("e7", 1), terminal_id="t2"),
    "tool_call_running": _call(
        title="Sleep", status="in_progress", content=[{"type": "terminal", "terminalId": "t2"}]
    ),
    "plan": _plan(),
    "permission_allowed": _permission("allowed", chosen=0, decided_by="user"),
    "permission_denied": _permission("denied", decided_by="policy", rule="deny edit"),
    "permission_cancelled": _permission("cancelled", decided_by="cancel"),
    "elicitation_accepted": _elicitation("accepted", answers={"port": 8080}),
    "elicitation_declined": _elicitation("declined"),
    "footer": _footer(stop_reason="end_turn", usage={"used": 1200, "size": 200_000}),
    "footer_cancelled": _footer(stop_reason="cancelled"),
    "footer_failed": _footer(error="The agent ended with exit status 1."),
    "cells": _cells(),
    "cells_marked": _marked(),
}


def as_golden(entry: Entry) -> dict[str, Any]:
    """What a file keeps of an entry."""
    bundle = mimebundle.bundle(entry, terminals=TERMINALS, cwd=CWD, ident=IDENT)
    return {
        "data": bundle[entrydata.MIME],
        "html": bundle["text/html"],
        "text": bundle["text/plain"],
    }


def main() -> None:
    """Write all files, and remove those whose entry is gone."""
    for path in FOLDER.glob("*.json"):
        if path.stem not in ENTRIES.keys() | BY_HAND:
            path.unlink()
    for name, entry in ENTRIES.items():
        text = json.dumps(as_golden(entry), indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
