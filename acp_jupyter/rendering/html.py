"""Any entry of a transcript as HTML for a notebook output.

What is returned is complete and static: it reads the same in a live notebook, in nbconvert and on
GitHub. Every type of entry has a case here; a new one does not pass the type checker without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, assert_never, cast

from ..session.transcript import (
    AttachmentsEntry,
    Block,
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
    SentItem,
    TerminalEntry,
    TerminalState,
    ToolCallEntry,
    UnknownEntry,
)
from . import blocks, changes, elicitation, highlighting, permissions, toolcalls, words
from .characters import one_line
from .elements import (
    BODY,
    BOX,
    EMPTY,
    MARKS,
    MUTED,
    NO_MATH,
    SMALL,
    Safe,
    box,
    edged,
    el,
    escape,
    fold,
    join,
    link,
    long_pre,
    muted,
)

AnyEntry: TypeAlias = (
    MessageEntry
    | ToolCallEntry
    | PlanEntry
    | PermissionEntry
    | ElicitationEntry
    | FilesEntry
    | AttachmentsEntry
    | TerminalEntry
    | NoticeEntry
    | UnknownEntry
    | CompactionEntry
    | HistoryEntry
    | CellsEntry
    | FooterEntry
)

HISTORY_LIMIT: Final = 300_000
"""Characters of HTML that the replay of an earlier session may take; text/plain takes a third."""

SENT_LIMIT: Final = 2_000_000
"""Characters of HTML that what went with one prompt may take: a plot or two, and many texts."""

MAX_PLAN_ITEMS: Final = 200
MAX_FILE_EVENTS: Final = 200

_EMPHASIS: Final = re.compile(r"^#+\s+|\*\*|`")
"""What marks a heading, strong words and code in the first line of a thought."""

Terminals: TypeAlias = Mapping[str, TerminalState]


def render(  # noqa: C901  # one case for each type of entry
    entry: Entry, *, terminals: Terminals, cwd: str = ""
) -> Safe:
    """An entry as HTML; empty for what the frontend shows anyway (the echo of the prompt).

    Args:
        entry: of any type.
        terminals: by terminal id, as in ``Transcript.terminals``.
        cwd: the session's directory; paths inside it are shown relative to it.
    """
    shown = cast(AnyEntry, entry)
    match shown:
        case MessageEntry():
            return _message(shown)
        case ToolCallEntry():
            return toolcalls.render(shown, terminals, cwd)
        case PlanEntry():
            return _plan(shown)
        case PermissionEntry():
            return permissions.render(shown, terminals, cwd)
        case ElicitationEntry():
            return elicitation.render(shown)
        case FilesEntry():
            return _files(shown, cwd)
        case AttachmentsEntry():
            return _attachments(shown)
        case TerminalEntry():
            return box(toolcalls.terminal(terminals.get(shown.terminal_id)))
        case NoticeEntry():
            return _notice(shown)
        case UnknownEntry():
            return _unknown(shown)
        case CompactionEntry():
            return _compaction(shown)
        case HistoryEntry():
            return _history(shown, terminals, cwd)
        case CellsEntry():
            return _cells(shown)
        case FooterEntry():
            return _footer(shown, terminals, cwd)
        case _:
            assert_never(shown)


def _message(entry: MessageEntry) -> Safe:
    match entry.role:
        case "agent":
            return blocks.parts_to_html(entry.parts)
        case "user":
            if entry.echo:
                return EMPTY
            you = el("b", "You", style=MUTED)
            return el("div", you, blocks.parts_to_html(entry.parts), style=BOX)
        case "thought":
            return _thought(entry)
        case _:
            assert_never(entry.role)


def _thought(entry: MessageEntry) -> Safe:
    text = entry.text
    others = [part for part in entry.parts if isinstance(part, dict)]
    first = one_line(_EMPHASIS.sub("", text.strip().split("\n", 1)[0]), 100)
    summary = el("span", "☁ ", first or "thinking", style=MUTED, class_=NO_MATH)
    body = el("div", blocks.clipped_markdown(text), map(blocks.to_html, others), style=BODY)
    return fold(summary, body)


def _plan(entry: PlanEntry) -> Safe:
    if entry.removed:
        return box(muted("☑ The agent dropped its plan."))
    if entry.text is not None:
        return box(el("b", "☑ Plan"), blocks.clipped_markdown(entry.text))
    if entry.uri is not None:
        return box(el("b", "☑ Plan: "), link(entry.uri))
    done = sum(item.get("status") == "completed" for item in entry.items)
    return box(
        el("b", "☑ Plan "),
        muted(f"{done} of {len(entry.items)} done"),
        map(_plan_item, entry.items[:MAX_PLAN_ITEMS]),
        _left_out(len(entry.items) - MAX_PLAN_ITEMS),
    )


def _plan_item(item: dict[str, object]) -> Safe:
    status = words.status(str(item.get("status") or "pending"))
    text = escape(one_line(item.get("content") or "", 500))
    if status.word == "in progress":
        text = el("b", text)
    elif status.tone == "good":
        text = muted(text)
    priority = item.get("priority")
    named = isinstance(priority, str) and priority not in ("", "medium")
    word = "" if status.word in ("pending", "in progress", "completed") else f" {status.word}"
    return el(
        "div",
        el("span", status.symbol, style=toolcalls.TONES.get(status.tone)),
        " ",
        text,
        muted(f" ({one_line(priority, 20)})") if named else None,
        muted(word) if word else None,
    )


def _left_out(count: int) -> Safe | None:
    return el("div", muted(f"and {count:,} more")) if count > 0 else None


def _files(entry: FilesEntry, cwd: str) -> Safe:
    if len(entry.events) == 1:
        event = toolcalls.toned(words.file_event(entry.events[0], cwd))
        return box(muted("▤ "), event, muted(" through this notebook"))
    refused = sum(event[2] == "refused" for event in entry.events)
    counts = f"▤ Files: {len(entry.events):,} through this notebook"
    summary = join([muted(counts), toolcalls.toned(_refused(refused)) if refused else None])
    shown = entry.events[-MAX_FILE_EVENTS:]
    lines = [el("div", toolcalls.toned(words.file_event(event, cwd))) for event in shown]
    body = el("div", _left_out(len(entry.events) - len(shown)), lines, style=BODY)
    return box(fold(summary, body, open_=refused > 0))


def _attachments(entry: AttachmentsEntry) -> Safe:
    lines: list[Safe] = []
    room = SENT_LIMIT
    for item in entry.items:
        body = _sent(item)
        if len(body) > room:
            body = muted("Not shown here: this output is large enough.")
        room -= len(body)
        lines.append(fold(muted(words.sent_item(item)), body))
    return box(fold(muted(words.sent(entry)), el("div", lines, style=BODY)))


def _sent(item: SentItem) -> Safe:
    """The block as the agent got it; text is evidence here, so it is not rendered."""
    text = words.block_text(item.block)
    return long_pre(text) if text is not None else blocks.to_html(item.block)


def _refused(count: int) -> words.Status:
    return words.Status(" ✗", f"{count:,} refused", "bad")


def _notice(entry: NoticeEntry) -> Safe:
    times = muted(words.times(entry.count)) if entry.count > 1 else None
    who = muted("agent: ") if entry.source == "agent" else None
    line = [MARKS.get(entry.level), who, one_line(entry.text, 1_000), times]
    if entry.detail:
        return box(fold(line, long_pre(entry.detail)), style=edged(entry.level))
    return box(line, style=edged(entry.level))


def _unknown(entry: UnknownEntry) -> Safe:
    summary = muted(
        f"update of an unknown kind: {words.quote(entry.kind)}{words.times(entry.count)}"
    )
    if not entry.raw:
        return box(summary)
    return box(fold(summary, long_pre("\n".join(entry.raw))))


def _compaction(entry: CompactionEntry) -> Safe:
    status = words.status(entry.status)
    summary = [muted("⇊ The agent summarised its context: "), toolcalls.toned(status)]
    error = muted(f" {one_line(entry.error, 300)}") if entry.error else None
    if not entry.summary:
        return box(summary, error)
    text = "".join(str(part) for part in entry.summary if not isinstance(part, dict))
    others = [blocks.to_html(part) for part in entry.summary if isinstance(part, dict)]
    return box(fold([summary, error], blocks.clipped_markdown(text), others))


def _history(entry: HistoryEntry, terminals: Terminals, cwd: str) -> Safe:
    parts: list[Safe] = []
    room = HISTORY_LIMIT
    for shown in reversed(entry.entries):
        part = _bounded(shown, terminals, cwd)
        room -= len(part)
        if room < 0:
            break
        parts.append(el("div", part))
    parts.reverse()
    title = f"↶ Earlier conversation: {words.updates(entry.count)}"
    if not parts:
        return box(muted(title))
    missing = muted("Only the end of it is shown.") if room < 0 else None
    return fold(muted(title), missing, parts, style=BOX)


def _bounded(entry: Entry, terminals: Terminals, cwd: str) -> Safe:
    """An entry inside another one, with its text shortened: the whole is re-sent with a change."""
    if isinstance(entry, MessageEntry) and entry.role == "agent":
        others = [blocks.to_html(part) for part in entry.parts if isinstance(part, dict)]
        return join([blocks.clipped_markdown(entry.text), others])
    return render(entry, terminals=terminals, cwd=cwd)


def _cells(entry: CellsEntry) -> Safe:
    """For frontends that cannot insert them: each opens, to be copied."""
    left_out = words.cells_left_out(entry)
    return box(
        el("b", "⊞ "),
        muted(words.proposed_cells(entry)),
        [_cell(cell, open_=not entry.from_answer) for cell in entry.cells],
        el("div", muted(left_out)) if left_out else None,
    )


def _cell(cell: ProposedCell, *, open_: bool) -> Safe:
    decided = cell.state != "proposed"
    state = toolcalls.toned(words.CELL_STATES[cell.state]) if decided else None
    first = one_line(next(filter(str.strip, cell.source.split("\n")), ""), 80)
    title = join([words.proposed_cell(cell), muted(" · "), el("code", first), " ", state])
    return fold(title, highlighting.to_html(cell.source, cell.language), open_=open_)


def _footer(entry: FooterEntry, terminals: Terminals, cwd: str) -> Safe:
    level, text = words.stop_warning(entry)
    line = el("span", words.footer(entry), style=Safe(f"{MUTED};{SMALL}"))
    late = _late(entry.late_entries, terminals, cwd)
    files = changes.to_html(entry.changes) if entry.changes is not None else None
    if not level:
        return el("div", el("div", line, class_=NO_MATH), files, late)
    head = box(el("div", MARKS.get(level), text), line, style=edged(level))
    return el("div", head, files, late)


def _late(entries: Iterable[Entry], terminals: Terminals, cwd: str) -> Safe | None:
    parts = [el("div", _bounded(entry, terminals, cwd)) for entry in entries]
    return el("div", el("b", "After the end of the turn"), parts) if parts else None


def block(content: Block) -> Safe:
    """A content block of a message that is an output of its own."""
    return el("div", blocks.to_html(content), class_=NO_MATH)
