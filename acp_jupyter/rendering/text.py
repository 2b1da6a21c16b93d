"""Any entry of a transcript as plain text, for terminals and for viewers without HTML.

No control character gets through. Messages are their Markdown source in full; the parts of other
entries are shortened to `blocks.TEXT_LIMIT`, since the HTML beside it holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never, cast

from ..session.transcript import (
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
    TerminalEntry,
    TerminalState,
    ToolCallEntry,
    UnknownEntry,
)
from . import ansi, blocks, changes, diff, elicitation, toolcalls, words
from .blocks import TEXT_LIMIT
from .characters import clip, one_line, prose, visible
from .html import HISTORY_LIMIT, MAX_FILE_EVENTS, MAX_PLAN_ITEMS, AnyEntry, Terminals

option_label = words.option_label
option_words = words.option_words


def render(  # noqa: C901  # one case for each type of entry
    entry: Entry, *, terminals: Terminals, cwd: str = ""
) -> str:
    """An entry as plain text; empty for the echo of the prompt. Arguments as in `html.render`."""
    shown = cast(AnyEntry, entry)
    match shown:
        case MessageEntry():
            return _message(shown)
        case ToolCallEntry():
            return "\n".join(_tool_call(shown, terminals, cwd))
        case PlanEntry():
            return "\n".join(_plan(shown))
        case PermissionEntry():
            return "\n".join(_permission(shown, terminals, cwd))
        case ElicitationEntry():
            return "\n".join(elicitation.lines(shown))
        case FilesEntry():
            events = shown.events[-MAX_FILE_EVENTS:]
            return "\n".join(str(words.file_event(event, cwd)) for event in events)
        case AttachmentsEntry():
            return words.sent(shown)
        case TerminalEntry():
            return "\n".join(_terminal(terminals.get(shown.terminal_id)))
        case NoticeEntry():
            return _notice(shown)
        case UnknownEntry():
            return _unknown(shown)
        case CompactionEntry():
            return _compaction(shown)
        case HistoryEntry():
            return _history(shown, terminals, cwd)
        case CellsEntry():
            return "\n".join(_cells(shown))
        case FooterEntry():
            return "\n".join(_footer(shown, terminals, cwd))
        case _:
            assert_never(shown)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))


def _raw(value: Any) -> str:
    return str(clip(visible(words.pretty(value)), TEXT_LIMIT))


def _message(entry: MessageEntry) -> str:
    match entry.role:
        case "agent":
            return blocks.parts_to_text(entry.parts)
        case "user":
            return "" if entry.echo else f"You: {blocks.parts_to_text(entry.parts)}"
        case "thought":
            text = str(clip(blocks.parts_to_text(entry.parts).strip("\n"), TEXT_LIMIT))
            return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case _:
            assert_never(entry.role)


# -- tool calls -------------------------------------------------------------------------------


def _tool_call(call: ToolCallEntry, terminals: Terminals, cwd: str) -> Iterator[str]:
    title = one_line(call.title or call.name or "(no title)")
    places = "".join(f"\n  {words.location(item, cwd)}" for item in call.locations[:5])
    yield f"[{one_line(call.kind, 40)}] {title} — {words.tool_status(call)}{places}"
    for part in _evidence(call, terminals, cwd):
        yield _indent(part)


def _evidence(call: ToolCallEntry, terminals: Terminals, cwd: str) -> Iterator[str]:
    command, rest = words.execute_command(call.raw_input) if call.kind == "execute" else ("", None)
    if command:
        yield f"$ {clip(visible(command), TEXT_LIMIT)}"
    given = rest if command else call.raw_input
    if given not in (None, {}, [], ""):
        yield f"input: {_raw(given)}"
    for item in call.content:
        yield _content(item, terminals, cwd)
    if call.raw_output not in (None, {}, [], "") and not call.content:
        yield f"output: {_raw(call.raw_output)}"


def _content(item: Mapping[str, Any], terminals: Terminals, cwd: str) -> str:
    match item.get("type"):
        case "content" if isinstance(item.get("content"), dict):
            return blocks.to_text(item["content"])
        case "diff":
            return _diff(item, cwd)
        case "terminal":
            ident = item.get("terminalId")
            known = terminals.get(ident) if isinstance(ident, str) else None
            return "\n".join(_terminal(known))
        case _:
            return blocks.to_text(dict(item))


def _diff(item: Mapping[str, Any], cwd: str) -> str:
    if isinstance(item.get("path"), str) and "changes" not in item:
        compared = toolcalls.compared_texts(item)
        path = words.relative(item["path"], cwd)
        title = f"{one_line(path)}: {compared.verb} {compared.summary}"
        return f"{title}\n{clip(diff.to_text(compared, path))}"
    lines = [toolcalls.change_line(change, cwd) for change in toolcalls.changes(item)]
    patch = toolcalls.patch_text(item)
    lines += [str(clip(diff.patch_to_text(patch)))] if patch else []
    return "\n".join(lines) if lines else _raw(dict(item))


def _terminal(state: TerminalState | None) -> Iterator[str]:
    if state is None:
        yield "terminal: no output yet"
        return
    if state.argv:
        yield f"$ {words.terminal_command(state)}"
    output = ansi.strip(state.output[-TEXT_LIMIT:]).rstrip("\n")
    if state.truncated or len(state.output) > TEXT_LIMIT:
        yield "[… earlier output left out …]"
    if output:
        yield output
    yield f"[{words.terminal_end(state)}]"


# -- the others -------------------------------------------------------------------------------


def _plan(entry: PlanEntry) -> Iterator[str]:
    if entry.removed:
        yield "The agent dropped its plan."
    elif entry.text is not None:
        yield f"Plan\n{clip(prose(entry.text), TEXT_LIMIT)}"
    elif entry.uri is not None:
        yield f"Plan: {one_line(entry.uri, 300)}"
    else:
        yield "Plan"
        for item in entry.items[:MAX_PLAN_ITEMS]:
            status = words.status(str(item.get("status") or "pending"))
            priority = item.get("priority")
            named = isinstance(priority, str) and priority not in ("", "medium")
            after = f" ({one_line(priority, 20)})" if named else ""
            yield f"  {status.symbol} {one_line(item.get('content') or '', 500)}{after}"


def _permission(entry: PermissionEntry, terminals: Terminals, cwd: str) -> Iterator[str]:
    yield str(words.decision(entry))
    if entry.state != "pending":
        return
    if entry.description:
        yield _indent(str(clip(visible(entry.description), TEXT_LIMIT)))
    if entry.command:
        yield f"  $ {words.command_line(entry.command)}"
    for variable in words.variables(entry):
        yield f"  with {variable}"
    if entry.cwd:
        yield f"  in {visible(entry.cwd)}"
    if entry.path:
        yield f"  file {visible(entry.path)}"
    call = entry.evidence or entry.tool_call
    if call is not None:
        for part in _evidence(call, terminals, cwd):
            yield _indent(part)
    for option in entry.options:
        yield f"  - {option_label(option)} {option_words(option)}".rstrip()


def _notice(entry: NoticeEntry) -> str:
    who = "agent: " if entry.source == "agent" else ""
    level = "" if entry.level == "info" else f"{entry.level}: "
    line = f"{who}{level}{one_line(entry.text, 1_000)}{words.times(entry.count)}"
    detail = str(clip(visible(entry.detail), TEXT_LIMIT))
    return f"{line}\n{_indent(detail)}" if detail else line


def _unknown(entry: UnknownEntry) -> str:
    raw = str(clip(visible("\n".join(entry.raw)), TEXT_LIMIT))
    title = f"update of an unknown kind: {words.quote(entry.kind)}{words.times(entry.count)}"
    return f"[{title}]\n{_indent(raw)}".rstrip()


def _compaction(entry: CompactionEntry) -> str:
    error = f" {one_line(entry.error, 300)}" if entry.error else ""
    line = f"The agent summarised its context: {words.status(entry.status)}{error}"
    summary = str(clip(blocks.parts_to_text(entry.summary), TEXT_LIMIT))
    return f"{line}\n{_indent(summary)}" if summary else line


def _history(entry: HistoryEntry, terminals: Terminals, cwd: str) -> str:
    parts: list[str] = []
    room = HISTORY_LIMIT // 3
    for shown in reversed(entry.entries):
        part = str(clip(render(shown, terminals=terminals, cwd=cwd), TEXT_LIMIT))
        room -= len(part)
        if room < 0:
            break
        parts.append(part)
    parts.append(f"Earlier conversation: {words.updates(entry.count)}")
    parts.reverse()
    return "\n\n".join(part for part in parts if part)


def _cells(entry: CellsEntry) -> Iterator[str]:
    """One line for each cell; code that the answer does not show is added."""
    yield f"{words.proposed_cells(entry)}:"
    for cell in entry.cells:
        first = next(filter(str.strip, cell.source.split("\n")), "")
        state = words.CELL_STATES[cell.state].symbol
        yield f"  {state} {words.proposed_cell(cell)}: {one_line(first, 80)}"
        if not entry.from_answer:
            yield _indent(_indent(str(clip(visible(cell.source), TEXT_LIMIT))))
    if entry.left_out:
        yield f"  [{words.cells_left_out(entry)}]"


def _footer(entry: FooterEntry, terminals: Terminals, cwd: str) -> Iterator[str]:
    _, warning = words.stop_warning(entry)
    if warning:
        yield warning
    yield f"[{words.footer(entry)}]"
    if entry.changes is not None:
        yield from changes.to_lines(entry.changes)
    if entry.late_entries:
        yield "After the end of the turn:"
    for late in entry.late_entries:
        yield _indent(str(clip(render(late, terminals=terminals, cwd=cwd), TEXT_LIMIT)))
