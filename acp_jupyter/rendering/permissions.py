"""Permission requests as HTML: the evidence first, the client's own labels, the agent's words
quoted; once decided, one line that stays in the notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..session.transcript import PermissionEntry, TerminalState
from . import toolcalls, words
from .characters import one_line, visible
from .elements import BODY, Safe, box, edged, el, fold, join, long_pre, muted, pre

FRAME: Final = Safe("max-height:32em;overflow:auto")
"""The choices below the evidence have to be seen."""


def render(entry: PermissionEntry, terminals: Mapping[str, TerminalState], cwd: str) -> Safe:
    """A request, pending or decided."""
    if entry.state == "pending":
        return _pending(entry, terminals, cwd)
    decision = words.decision(entry)
    line = el("span", decision.symbol, style=toolcalls.TONES.get(decision.tone))
    subject = join(_subject(entry))
    row: Safe = join([line, f" {decision.word}"])
    if subject:
        row = fold(row, el("div", subject, style=BODY))
    return box(row, style=edged({"good": "info", "bad": "error"}.get(decision.tone, "info")))


def _pending(entry: PermissionEntry, terminals: Mapping[str, TerminalState], cwd: str) -> Safe:
    who = "The agent asks" if entry.origin == "agent" else "This needs your permission"
    kind = muted(f" ({one_line(entry.kind, 40)})") if entry.kind != "other" else None
    call = entry.evidence or entry.tool_call
    evidence = join(toolcalls.evidence(call, terminals, cwd)) if call is not None else None
    return box(
        el("div", "? ", who, ": ", el("b", one_line(entry.title or words.asks(entry))), kind),
        long_pre(visible(entry.description)) if entry.description else None,
        _subject(entry),
        el("div", evidence, style=FRAME) if evidence else None,
        el("div", muted("Choices: "), _choices(entry)),
        style=edged("warning"),
    )


def _subject(entry: PermissionEntry) -> list[Safe]:
    """What would run or be touched, in full: nothing in it may be left out or hidden."""
    parts = []
    if entry.command:
        parts.append(pre(words.command_line(entry.command)))
    if entry.env:
        parts.append(el("div", muted("with"), pre("\n".join(words.variables(entry)))))
    if entry.cwd:
        parts.append(el("div", muted("in "), el("code", entry.cwd)))
    if entry.path:
        parts.append(el("div", muted("file "), el("code", entry.path)))
    return parts


def _choices(entry: PermissionEntry) -> Safe:
    """Labels by kind, words quoted; Deny is always there, also where the agent offers none."""
    shown = [
        join([el("b", words.option_label(option)), muted(f" {words.option_words(option)}")])
        for option in entry.options
    ]
    if not any(option.kind == "reject_once" for option in entry.options):
        shown.append(el("b", "Deny"))
    return join(shown, separator=" · ")
