"""The client's own wording about entries, the same in HTML and in plain text.

Everything here returns plain strings, made of one visible line each. What the agent said is
quoted, so that it cannot pass for the client's words.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..session.transcript import (
    AttachmentsEntry,
    Block,
    CellsEntry,
    CellState,
    FooterEntry,
    PermissionChoice,
    PermissionEntry,
    ProposedCell,
    SentItem,
    TerminalState,
    ToolCallEntry,
)
from .characters import one_line, visible
from .images import bytes_text

# Plain symbols, no emoji: not every machine has a font for those.
KIND_ICONS: Final = {
    "read": "☰",
    "edit": "✎",
    "delete": "⌫",
    "move": "⇄",
    "search": "⌕",
    "execute": "⚙",
    "think": "☁",
    "fetch": "⇣",
    "switch_mode": "⟲",
}
OTHER_ICON: Final = "◆"


class Status(NamedTuple):
    """How far something is: a symbol, a word, and a tone (good, bad, busy or "")."""

    symbol: str
    word: str
    tone: str = ""

    def __str__(self) -> str:
        return f"{self.symbol} {self.word}"


STATUSES: Final = {
    "pending": Status("○", "pending"),
    "in_progress": Status("◐", "in progress", "busy"),
    "paused": Status("◫", "paused"),
    "completed": Status("✓", "completed", "good"),
    "failed": Status("✗", "failed", "bad"),
    "cancelled": Status("⊘", "cancelled"),
}

MAX_NUMBER: Final = 10**15
"""Tokens and costs from here on are nonsense; much larger integers are no floats any more."""

OPTION_LABELS: Final = {
    "allow_once": "Allow once",
    "allow_always": "Always allow",
    "reject_once": "Deny",
    "reject_always": "Always deny",
}
DECIDED: Final = {
    "allow_once": "Allowed once",
    "allow_always": "Always allowed",
    "reject_once": "Denied",
    "reject_always": "Always denied",
}
DECIDERS: Final = {"user": " by you", "policy": " by policy"}

STOP_WARNINGS: Final = {
    "refusal": "The agent refused; this turn was dropped from its history.",
    "max_tokens": "The answer reached the limit of tokens and is incomplete.",
    "max_turn_requests": "The agent reached its limit of model requests in one turn and stopped.",
    "cancelled": "Cancelled. What had arrived is kept.",
}


def times(count: int) -> str:
    """How often, if more than once."""
    return f" \N{MULTIPLICATION SIGN}{count:,}" if count > 1 else ""


def updates(count: int) -> str:
    """How many updates a history has."""
    return f"{count:,} update" if count == 1 else f"{count:,} updates"


def quote(text: object, limit: int = 80) -> str:
    """The agent's words, marked as such."""
    return f"“{one_line(text, limit)}”"


def status(name: str) -> Status:
    return STATUSES.get(name) or Status("•", one_line(name, 40))


def tool_status(call: ToolCallEntry) -> Status:
    """A tool call's status; a turn that ended says that an unfinished call will not go on."""
    ended = call.ended_by_turn
    if ended is None or call.status in call.FINAL:
        return status(call.status)
    if ended == "cancelled":
        return STATUSES["cancelled"]
    if ended == "denied":  # several agents say nothing more of a call that was not allowed
        return Status("✗", "denied", "bad")
    if not call.announced:  # known from its permission request alone
        return Status("◌", "no result was reported")
    return Status("◌", f"unfinished when the turn ended ({one_line(ended, 40)})")


def icon(kind: str) -> str:
    return KIND_ICONS.get(kind, OTHER_ICON)


def relative(path: str, cwd: str) -> str:
    """A path as seen from the session's directory, where it is inside it."""
    base = cwd.rstrip("/\\")
    if base and path.startswith(base) and path[len(base) : len(base) + 1] in ("/", "\\"):
        return path[len(base) + 1 :] or path
    return path


def location(item: Mapping[str, Any], cwd: str) -> str:
    """``src/a.py:12``."""
    path = one_line(relative(str(item.get("path", "")), cwd), 200)
    line = item.get("line")
    return f"{path}:{line}" if type(line) is int else path


def command_line(argv: Sequence[str]) -> str:
    """A command as a shell would take it, with nothing hidden in it."""
    return visible(shlex.join(argv))


def variables(entry: PermissionEntry) -> list[str]:
    """The variables of a command, each as a shell would set it, with nothing left out."""
    return [f"{visible(name)}={visible(shlex.quote(value))}" for name, value in entry.env]


def terminal_command(terminal: TerminalState) -> str:
    # An agent's own terminal comes with one string, a shell's command line.
    argv = terminal.argv
    return visible(argv[0]) if len(argv) == 1 else command_line(argv)


def terminal_end(terminal: TerminalState) -> Status:
    """How a terminal's command ended, or that it runs; with the time, from a second on."""
    took = f" · {seconds(terminal.elapsed)}" if terminal.elapsed >= 1 else ""
    if terminal.signal:
        return Status("✗", f"ended by signal {one_line(terminal.signal, 40)}{took}", "bad")
    if terminal.exit_code is not None:
        tone = "good" if terminal.exit_code == 0 else "bad"
        icon = "✓" if tone == "good" else "✗"
        return Status(icon, f"exit status {terminal.exit_code}{took}", tone)
    if terminal.running:
        return Status("◐", f"running{took}", "busy")
    return Status("•", "ended")


def execute_command(raw_input: Any) -> tuple[str, Any]:
    """The command in a tool call's input, if there is one, and what else is in that input."""
    if not isinstance(raw_input, dict):
        return "", raw_input
    for key in ("command", "cmd", "argv"):
        command = raw_input.get(key)
        words = isinstance(command, list) and all(isinstance(word, str) for word in command)
        if (isinstance(command, str) or words) and command:
            used = {key}
            text = command if isinstance(command, str) else shlex.join(command)
            extra = raw_input.get("args")
            if isinstance(extra, list) and all(isinstance(word, str) for word in extra):
                text = shlex.join([text, *extra]) if extra else text
                used.add("args")
            rest = {name: value for name, value in raw_input.items() if name not in used}
            return text, rest or None
    return "", raw_input


def pretty(value: Any) -> str:
    """Any JSON as text; a string as itself."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "(nested too deeply to show)"


def seconds(value: float) -> str:
    """A duration for people."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


# -- permissions ------------------------------------------------------------------------------


def option_label(option: PermissionChoice) -> str:
    """The client's label, by kind; the agent's words are quoted beside it, never instead."""
    return OPTION_LABELS.get(option.kind, "Choose")


def option_words(option: PermissionChoice) -> str:
    """The agent's words for an option, quoted; empty for the client's own."""
    return quote(option.name) if option.name else ""


def asks(entry: PermissionEntry) -> str:
    """What the permission is about, in one line."""
    about = one_line(entry.title, 160)
    if entry.command:
        command = one_line(command_line(entry.command), 160)
        return f"{about}: {command}" if about and about != command else command
    if entry.path and entry.path not in entry.title:
        return f"{about}: {one_line(entry.path)}" if about else one_line(entry.path)
    return about or "(no title)"


def decision(entry: PermissionEntry) -> Status:
    """What became of a permission request, in one line."""
    after = ""
    if entry.decided_at is not None and entry.decided_by in ("user", "cancel", "agent"):
        after = f" after {seconds(max(0.0, entry.decided_at - entry.asked_at))}"
    reason = one_line(entry.reason, 300)
    chosen = None
    if entry.chosen is not None and 0 <= entry.chosen < len(entry.options):
        chosen = entry.options[entry.chosen]
    by = DECIDERS.get(entry.decided_by, "")
    if entry.rule:
        remembered = "remembered " if entry.decided_by == "remembered" else ""
        by = f" by {remembered}{one_line(entry.rule, 200)}"
    match entry.state:
        case "pending":
            return Status("?", f"Permission needed — {asks(entry)}", "busy")
        case "allowed":
            verb = DECIDED.get(chosen.kind, "Chosen") if chosen else "Allowed"
            words = f" {quote(chosen.name)}" if chosen and chosen.name else ""
            why = f" ({reason})" if reason else ""
            return Status("✓", f"{verb}{by}{after}{words} — {asks(entry)}{why}", "good")
        case "denied":
            if entry.decided_by == "nobody" and reason:
                return Status("✗", f"Denied: {reason}", "bad")
            verb = DECIDED.get(chosen.kind, "Denied") if chosen else "Denied"
            why = f" ({reason})" if reason else ""
            return Status("✗", f"{verb}{by}{after} — {asks(entry)}{why}", "bad")
        case "cancelled":
            verb = "Withdrawn by the agent" if entry.decided_by == "agent" else "Cancelled"
            return Status("⊘", f"{verb}{after} — {asks(entry)}")
        case "failed":
            why = f": {reason}" if reason else ""
            return Status("✗", f"Invalid permission request{why} — {asks(entry)}", "bad")


# -- files ------------------------------------------------------------------------------------


def file_event(event: tuple[str, str, str, str], cwd: str) -> Status:
    """One line of the audit: what the agent did with a file through the client."""
    operation, path, outcome, reason = event
    name = one_line(relative(path, cwd), 200)
    why = f" ({one_line(reason, 200)})" if reason else ""
    if outcome == "served":
        return Status("✓", f"{'wrote' if operation == 'write' else 'read'} {name}{why}")
    if outcome == "missing":  # the way agents find out whether a file is there
        return Status("○", f"no such file: {name}")
    return Status("✗", f"{operation} refused: {name}{why}", "bad")


# -- what went with a prompt ------------------------------------------------------------------

_SENT: Final = {
    "text": "in the text",
    "image": "image",
    "audio": "audio",
    "resource_link": "link",
    "resource": "",
}
"""How an attachment went, where that is not what one expects."""

SENT_NAMED: Final = 8
"""Attachments that the line names; the rest is a number."""


def sent(entry: AttachmentsEntry) -> str:
    """``Sent with the prompt: @df (12.0 kB: schema, 5 of 10,000 rows), @fig (image, 40.1 kB)``."""
    named = ", ".join(sent_item(item) for item in entry.items[:SENT_NAMED])
    more = len(entry.items) - SENT_NAMED
    return f"↥ Sent with the prompt: {named}{f', and {more:,} more' if more > 0 else ''}"


def sent_item(item: SentItem) -> str:
    """What went, how, how much of it, and what is missing."""
    how = _SENT.get(str(item.block.get("type")), "")
    size = bytes_text(item.size) if item.size is not None else ""
    facts = ", ".join(filter(None, (how, size)))
    note = one_line(item.note, 300)
    about = ": ".join(filter(None, (facts, note)))
    return f"@{one_line(item.name, 100)}{f' ({about})' if about else ''}"


def block_text(block: Block) -> str | None:
    """The text in a text block or an embedded text; ``None`` in any other."""
    resource = block.get("resource")
    text = resource.get("text") if isinstance(resource, Mapping) else block.get("text")
    return text if isinstance(text, str) else None


# -- proposed cells ---------------------------------------------------------------------------

CELL_STATES: Final[dict[CellState, Status]] = {
    "proposed": Status("○", "proposed"),
    "inserted": Status("✓", "inserted", "good"),
    "run": Status("✓", "run", "good"),
    "dismissed": Status("⊘", "dismissed"),
}

LANGUAGES: Final = {"python": "Python", "bash": "Shell", "markdown": "Markdown"}
"""Languages by the names that people write; any other is shown as it came."""


def proposed_cells(entry: CellsEntry) -> str:
    """``2 proposed cells, 1 inserted``."""
    count = len(entry.cells)
    parts = [f"{count} proposed cell{'' if count == 1 else 's'}"]
    for state in ("inserted", "run", "dismissed"):
        number = sum(cell.state == state for cell in entry.cells)
        parts += [f"{number} {state}"] if number else []
    return ", ".join(parts)


def proposed_cell(cell: ProposedCell) -> str:
    """``Python, 12 lines``."""
    language = LANGUAGES.get(cell.language) or one_line(cell.language, 40)
    count = cell.source.count("\n") + 1
    return f"{language}, {count:,} line{'' if count == 1 else 's'}"


def cells_left_out(entry: CellsEntry) -> str:
    """Why the answer may have more code than cells; empty if it does not."""
    count = entry.left_out
    return f"{count:,} more not proposed: too many or too long" if count else ""


# -- the end of a turn ------------------------------------------------------------------------


def stop_warning(entry: FooterEntry) -> tuple[str, str]:
    """Level and text of what the user must not miss; two empty strings if all is well."""
    reason = entry.stop_reason
    if reason is None:
        return ("error", one_line(entry.error or "The turn failed.", 500))
    if reason == "end_turn":
        return ("", "")
    text = STOP_WARNINGS.get(reason)
    if text is None:
        return ("warning", f"Unknown stop reason {quote(reason)}.")
    return ("info" if reason == "cancelled" else "warning", text)


def footer(entry: FooterEntry) -> str:
    """``end_turn · 3.2 s · 1,234 tokens · $0.01``."""
    reason = "failed" if entry.stop_reason is None else one_line(entry.stop_reason, 60)
    parts = [reason, seconds(entry.duration), *_usage(entry.usage)]
    return " · ".join(part for part in parts if part)


def _usage(usage: Mapping[str, Any]) -> list[str]:
    parts = []
    total = usage.get("totalTokens")
    if type(total) is int:
        parts.append(f"{total:,} tokens")
    else:
        named = (("inputTokens", "in"), ("outputTokens", "out"))
        tokens = [f"{usage[k]:,} {word}" for k, word in named if type(usage.get(k)) is int]
        parts += [f"tokens {', '.join(tokens)}"] if tokens else []
    used, size = usage.get("used"), usage.get("size")
    if type(used) is int and type(size) is int and 0 <= used < MAX_NUMBER > size > 0:
        parts.append(f"context {100 * used / size:.0f} % of {size:,}")
    parts.append(_cost(usage.get("cost")))
    return parts


def _cost(cost: Any) -> str:
    if not isinstance(cost, dict):
        return ""
    amount, currency = cost.get("amount"), cost.get("currency")
    if not isinstance(amount, int | float) or not -MAX_NUMBER < amount < MAX_NUMBER:
        return ""
    number = f"{amount:.2f}"
    if amount and abs(amount) < 0.01:
        number = f"{amount:.6f}".rstrip("0").rstrip(".")  # cents of a cent, never 8e-05
    if currency == "USD":
        return f"${number}"
    return f"{number} {one_line(currency, 12)}" if isinstance(currency, str) else number
