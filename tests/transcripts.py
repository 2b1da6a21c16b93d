"""A transcript as plain JSON, for tests to compare: only what differs from the defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

from acp_jupyter.protocol.dialects import session_updates
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import (
    AttachmentsEntry,
    CellsEntry,
    CompactionEntry,
    ElicitationEntry,
    Entry,
    FilesEntry,
    FooterEntry,
    HistoryEntry,
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PlanEntry,
    ProposedCell,
    SessionInfo,
    TerminalEntry,
    TerminalState,
    TextBuffer,
    ToolCallEntry,
    Transcript,
    UnknownEntry,
)

NAMES: dict[type[Entry], str] = {
    AttachmentsEntry: "attachments",
    CellsEntry: "cells",
    CompactionEntry: "compaction",
    ElicitationEntry: "elicitation",
    FilesEntry: "files",
    FooterEntry: "footer",
    HistoryEntry: "history",
    MessageEntry: "message",
    NoticeEntry: "notice",
    PermissionEntry: "permission",
    PlanEntry: "plan",
    TerminalEntry: "terminal",
    ToolCallEntry: "tool_call",
    UnknownEntry: "unknown",
}
# What says nothing about what happened, and what would repeat other entries.
LEFT_OUT = {"id", "turn", "revision", "numbered", "decoder", "shown_by", "key", "meta"}


def compact(value: Any) -> Any:
    """Entries, states and text buffers as JSON."""
    if isinstance(value, TextBuffer):
        return str(value)
    if isinstance(value, Entry | ProposedCell | SessionInfo | TerminalState):
        fields = {
            field.name: compact(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in LEFT_OUT and getattr(value, field.name) != _default(field)
        }
        return {"entry": NAMES[type(value)], **fields} if isinstance(value, Entry) else fields
    if isinstance(value, dict):
        return {key: compact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [compact(item) for item in value]
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def compact_transcript(transcript: Transcript) -> dict[str, Any]:
    """``turns`` (lists of entries, late ones only in their footer), ``info`` and ``terminals``."""
    compacted: dict[str, Any] = {
        "turns": [
            [compact(entry) for entry in turn.entries if not entry.late]
            for turn in transcript.turns
        ]
    }
    if info := compact(transcript.info):
        compacted["info"] = info
    if terminals := {key: compact(state) for key, state in transcript.terminals.items()}:
        compacted["terminals"] = terminals
    return compacted


def play(steps: list[dict[str, Any]], version: int = 1) -> tuple[Reducer, Transcript]:
    """Reduce a sequence of ``session/update`` params, with steps of the client between them.

    Steps of the client: ``{"prompt": text or blocks}``, ``{"end": stop reason}``,
    ``{"history": true}`` (a replay begins) and ``{"history": false}`` (it is over).
    """
    transcript = Transcript()
    reducer = Reducer(transcript, version)
    for now, step in enumerate(steps):
        if "prompt" in step:
            blocks = step["prompt"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            reducer.start_turn(blocks, float(now))
        elif "end" in step:
            reducer.end_turn(float(now), stop_reason=step["end"])
        elif "history" in step:
            reducer.begin_history() if step["history"] else reducer.end_history()
        else:
            found = session_updates(step)
            assert found is not None, step
            for update in found[1]:
                reducer.apply(update, float(now))
    return reducer, transcript
