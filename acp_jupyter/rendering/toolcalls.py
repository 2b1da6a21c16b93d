"""Tool calls, terminals and diffs as HTML: one row, with the evidence inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..session.transcript import TerminalState, ToolCallEntry
from . import ansi, blocks, diff, words
from .characters import one_line, visible
from .elements import (
    BAD,
    BODY,
    BOX,
    BUSY,
    GOOD,
    PRE,
    Safe,
    box,
    edged,
    el,
    escape,
    fold,
    join,
    labelled,
    long_pre,
    muted,
    pre,
)

TONES: Final = {"good": GOOD, "bad": BAD, "busy": BUSY}
TERMINAL_TAIL: Final = 64 * 1024
MAX_LOCATIONS: Final = 5

SHOWN_LINES: Final = 30
"""Last lines of a terminal's output that are shown at once; those before them are folded."""


def toned(status: words.Status) -> Safe:
    """A status in its colour."""
    return el("span", str(status), style=TONES.get(status.tone))


def render(call: ToolCallEntry, terminals: Mapping[str, TerminalState], cwd: str) -> Safe:
    """A tool call as a row that opens. Open from the start: what failed, what changes files, and
    for as long as it runs a command of the client's."""
    status = words.tool_status(call)
    diffs = any(item.get("type") == "diff" for item in call.content)
    body = join(evidence(call, terminals, cwd))
    style = edged("error") if status.tone == "bad" else BOX
    if not body:
        return box(_summary(call, status, cwd), style=style)
    open_ = diffs or status.tone == "bad" or any(running(call, terminals))
    return box(
        fold(_summary(call, status, cwd), el("div", body, style=BODY), open_=open_), style=style
    )


def running(call: ToolCallEntry, terminals: Mapping[str, TerminalState]) -> Iterator[TerminalState]:
    """The client's own terminals that a tool call shows, and whose command runs."""
    for item in call.content:
        ident = item.get("terminalId") if item.get("type") == "terminal" else None
        state = terminals.get(ident) if isinstance(ident, str) else None
        if state is not None and state.own and state.running:
            yield state


def _summary(call: ToolCallEntry, status: words.Status, cwd: str) -> Safe:
    places = [words.location(item, cwd) for item in call.locations[:MAX_LOCATIONS]]
    more = len(call.locations) - MAX_LOCATIONS
    places += [f"and {more} more"] if more > 0 else []
    title = one_line(call.title or call.name or "(no title)")
    kind = one_line(call.kind, 40)
    added, removed = counts(call)
    return join(
        [
            f"{words.icon(call.kind)} ",
            muted(f"{kind} ") if call.kind != "other" else None,
            el("b", in_code(title)),
            " ",
            toned(status),
            [" ", diff.counts_html(added, removed)] if added or removed else None,
            [muted(" · ", ", ".join(places))] if places else None,
        ]
    )


def in_code(title: str) -> list[Safe]:
    """A title in which agents put code between backticks."""
    parts = title.split("`")
    if len(parts) % 2 == 0:
        return [escape(title)]
    return [el("code", part) if n % 2 else escape(part) for n, part in enumerate(parts) if part]


def evidence(
    call: ToolCallEntry, terminals: Mapping[str, TerminalState], cwd: str
) -> Iterator[Safe]:
    """Everything that a tool call has to show: input, content, diffs, terminals, output."""
    command, rest = words.execute_command(call.raw_input) if call.kind == "execute" else ("", None)
    if command:
        if not _shown_by_terminal(call, command, terminals):
            yield pre(f"$ {command}")
        if rest:
            yield labelled("input", long_pre(words.pretty(rest)), open_=False)
    elif call.raw_input not in (None, {}, [], ""):
        yield labelled("input", long_pre(words.pretty(call.raw_input)), open_=not call.content)
    for item in call.content:
        yield content(item, terminals, cwd)
    if call.raw_output not in (None, {}, [], "") and not _repeats(call):
        output = long_pre(words.pretty(call.raw_output))
        yield labelled("output", output, open_=not call.content)


def _shown_by_terminal(
    call: ToolCallEntry, command: str, terminals: Mapping[str, TerminalState]
) -> bool:
    """Whether a terminal of the call's shows the command above its output."""
    shown = [terminals.get(str(item.get("terminalId"))) for item in call.content]
    return any(
        state.argv and words.terminal_command(state) == visible(command)
        for state in shown
        if state is not None
    )


def _repeats(call: ToolCallEntry) -> bool:
    """Whether the raw output is only the content once more."""
    texts = [i["content"].get("text") for i in call.content if isinstance(i.get("content"), dict)]
    return isinstance(call.raw_output, str) and call.raw_output in texts


def content(item: Mapping[str, Any], terminals: Mapping[str, TerminalState], cwd: str) -> Safe:
    """One item of a tool call's content."""
    match item.get("type"):
        case "content" if isinstance(item.get("content"), dict):
            return blocks.to_html(item["content"])
        case "diff":
            return diff_html(item, cwd)
        case "terminal":
            ident = item.get("terminalId")
            known = terminals.get(ident) if isinstance(ident, str) else None
            return terminal(known)
        case _:
            return blocks.to_html(dict(item))


def diff_html(item: Mapping[str, Any], cwd: str) -> Safe:
    """A diff in the form of v1 (both texts) or v2 (a list of changes and a patch)."""
    if isinstance(item.get("path"), str) and "changes" not in item:
        compared = compared_texts(item)
        title = _file_title(words.relative(item["path"], cwd), compared)
        return fold(title, diff.to_html(compared), open_=not compared.is_long)
    parts = [el("div", change_line(change, cwd)) for change in changes(item)]
    patch = patch_text(item)
    if patch:
        parts.append(el("div", diff.counts_html(*diff.patch_counts(patch))))
        parts.append(diff.patch_to_html(patch))
    return join(parts) if parts else blocks.to_html(dict(item))


def compared_texts(item: Mapping[str, Any]) -> diff.Diff:
    """The comparison of a diff that has both texts (v1)."""
    old, new = item.get("oldText"), item.get("newText")
    return diff.compare(
        old if isinstance(old, str) else None, new if isinstance(new, str) else None
    )


def counts(call: ToolCallEntry) -> tuple[int, int]:
    """Added and removed lines of all its diffs."""
    pairs = [diff_counts(item) for item in call.content if item.get("type") == "diff"]
    return sum(added for added, _ in pairs), sum(removed for _, removed in pairs)


def diff_counts(item: Mapping[str, Any]) -> tuple[int, int]:
    """Added and removed lines of a diff in either form."""
    if isinstance(item.get("path"), str) and "changes" not in item:
        compared = compared_texts(item)
        return compared.added, compared.removed
    return diff.patch_counts(patch_text(item))


def _file_title(path: str, compared: diff.Diff) -> Safe:
    counts = diff.counts_html(compared.added, compared.removed)
    return join([el("code", one_line(path)), muted(f" {compared.verb} "), counts])


def changes(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = item.get("changes")
    if not isinstance(listed, list):
        return []
    return [change for change in listed if isinstance(change, dict)]


def patch_text(item: Mapping[str, Any]) -> str:
    patch = item.get("patch")
    text = patch.get("text") if isinstance(patch, dict) else None
    return text if isinstance(text, str) else ""


def change_line(change: Mapping[str, Any], cwd: str) -> str:
    """``move src/a.py → src/b.py``."""
    if not isinstance(change.get("path"), str):
        return one_line(words.pretty(dict(change)), 300)
    path = one_line(words.relative(change["path"], cwd))
    if isinstance(change.get("oldPath"), str):
        path = f"{one_line(words.relative(change['oldPath'], cwd))} → {path}"
    kind = change.get("fileType")
    of_kind = f" ({one_line(kind, 40)})" if isinstance(kind, str) and kind != "text" else ""
    return f"{one_line(change.get('operation') or 'change', 40)} {path}{of_kind}"


def terminal(state: TerminalState | None) -> Safe:
    """A terminal's command, the end of its output, and how it ended."""
    if state is None:
        return el("div", muted("terminal: no output yet"))
    command = words.terminal_command(state) if state.argv else ""
    output = state.output[-TERMINAL_TAIL:]
    cut = state.truncated or len(output) < len(state.output)
    early, count, last = ansi.to_html_split(output.rstrip("\n"), SHOWN_LINES)
    title = [el("b", f"$ {command}"), "\n"] if command else None
    note = [el("i", "[… earlier output left out …]"), "\n"] if cut else None
    where = muted(f" in {one_line(state.cwd)}") if state.cwd else None
    end = el("div", toned(words.terminal_end(state)), where)
    if not count:
        return el("div", el("pre", title, note, last, style=PRE), end)
    lines = f"{count:,} earlier line{'' if count == 1 else 's'}"
    return el(
        "div",
        el("pre", title, style=PRE) if title else None,
        fold(muted(lines), el("pre", note, early, style=PRE)),
        el("pre", last, style=PRE),
        end,
    )
