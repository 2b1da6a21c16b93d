"""The agent's questions to the user, as HTML and as plain text.

The agent's name comes first (C49), its words are shown as text without links or Markdown (C61).
Of a web address the host stands alone and the whole address as text; it becomes a link only when
the user has consented (C51, C58, C60). Values that look like a key or a token are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..protocol.elicitation import host_of, is_deceptive
from ..protocol.forms import Field, hint, looks_secret
from ..session.transcript import ElicitationEntry
from . import toolcalls, words
from .characters import clip, one_line, visible
from .elements import BODY, LINES, NO_MATH, Safe, box, edged, el, fold, join, link, muted

MAX_SHOWN: Final = 4_000
"""Characters shown of one text of the agent's, or of an answer."""

CHOICES_SHOWN: Final = 20

DECEPTIVE: Final = "its letters may look like those of another host"
HIDDEN: Final = "(not shown: it looks like a key or a token)"


# -- words --------------------------------------------------------------------------------------


def asks(entry: ElicitationEntry) -> str:
    """What is asked and by whom, in one line."""
    about = one_line(entry.message or entry.title, 160) or "(no question)"
    return f"{one_line(entry.agent, 60)} asks: {about}"


def outcome(entry: ElicitationEntry) -> words.Status:
    """What became of a question, in one line."""
    after = ""
    if entry.decided_at is not None and entry.decided_by in ("user", "cancel", "agent"):
        after = f" after {words.seconds(max(0.0, entry.decided_at - entry.asked_at))}"
    reason = f" ({one_line(entry.reason, 300)})" if entry.reason else ""
    by = words.DECIDERS.get(entry.decided_by, "")
    match entry.state:
        case "pending":
            return words.Status("?", asks(entry), "busy")
        case "accepted":
            verb = "Answered" if entry.mode == "form" else "Link shown"
            return words.Status("✓", f"{verb}{by}{after} — {asks(entry)}", "good")
        case "completed":
            return words.Status("✓", f"Completed, says the agent — {asks(entry)}", "good")
        case "declined":
            return words.Status("✗", f"Declined{by}{after} — {asks(entry)}{reason}", "bad")
        case "cancelled":
            how = "Withdrawn by the agent" if entry.decided_by == "agent" else f"Cancelled{by}"
            return words.Status("⊘", f"{how}{after} — {asks(entry)}{reason}")


def answer_text(field: Field, value: Any) -> str:
    """One answer as it is shown."""
    titles = {choice.value: choice.title for choice in field.choices}
    values = value if isinstance(value, list) else [value]
    if field.secret or any(looks_secret(item) for item in values):
        return HIDDEN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_named(item, titles) for item in value) or "none"
    return _named(value, titles)


def _named(value: Any, titles: dict[str, str]) -> str:
    title = titles.get(value) if isinstance(value, str) else None
    return choice_text(value, title) if title is not None else _short(str(value))


def choice_text(value: str, title: str) -> str:
    """A choice in the agent's words; the value stands beside a title that says something else."""
    shown = one_line(title or value, 100)
    return shown if not title or title == value else f"{shown} [{one_line(value, 60)}]"


def label(field: Field) -> str:
    """A field's title in one line, marked where a value is needed."""
    needed = " *" if field.required else ""
    return f"{one_line(field.title, 100) or '(no title)'}{needed}"


def _short(text: str) -> str:
    return str(clip(visible(text), MAX_SHOWN))


def _answers(entry: ElicitationEntry) -> Iterator[tuple[str, str]]:
    for field in entry.fields:
        if field.name in entry.answers:
            title = one_line(field.title, 100) or one_line(field.name, 100)
            yield title, answer_text(field, entry.answers[field.name])


# -- HTML ---------------------------------------------------------------------------------------


def render(entry: ElicitationEntry) -> Safe:
    """A question, open or closed."""
    if entry.state == "pending":
        return box(_question(entry), style=edged("warning"))
    status = outcome(entry)
    line: Safe = join([el("span", status.symbol, style=toolcalls.TONES.get(status.tone))])
    line = join([line, f" {status.word}"])
    details = join([_form_answers(entry), _address(entry) if entry.mode == "url" else None])
    if entry.mode == "url" and entry.state == "accepted":
        return box(el("div", line), details, style=edged("info"))
    row = fold(line, el("div", details, style=BODY)) if details else line
    return box(row, style=edged({"bad": "error"}.get(status.tone, "info")))


def _question(entry: ElicitationEntry) -> Safe:
    agent = one_line(entry.agent, 60)
    what = "asks you" if entry.mode == "form" else "asks you to visit a web address"
    parts = [
        el("div", "? ", el("b", agent), f" {what}:"),
        el("div", _short(entry.message), style=LINES),
    ]
    if entry.title:
        parts.append(el("div", el("b", one_line(entry.title))))
    if entry.description:
        parts.append(el("div", muted(_short(entry.description)), style=LINES))
    if entry.mode == "url":
        parts.append(_address(entry))
    parts.extend(field_html(field) for field in entry.fields)
    return join(parts)


def field_html(field: Field, *, choices: bool = True) -> Safe:
    """What a field asks for: title, kind, description, and (if asked for) the choices."""
    about = el("div", _short(field.description), style=LINES) if field.description else None
    listed = None
    if field.choices and choices:
        shown = [choice_line(item.value, item.title, item.description) for item in field.choices]
        more = len(shown) - CHOICES_SHOWN
        listed = el("div", " · ".join(shown[:CHOICES_SHOWN]), f" … {more} more" if more > 0 else "")
    default = None
    if field.default not in (None, "", []):
        default = muted(f", {one_line(answer_text(field, field.default))} if unchanged")
    return el(
        "div",
        el("b", label(field)),
        muted(f" {hint(field)}"),
        default,
        el("div", about, listed, style=BODY),
        class_=NO_MATH,
    )


def choice_line(value: str, title: str, description: str) -> str:
    """A choice with what the agent says of it."""
    about = f" ({one_line(description, 100)})" if description else ""
    return f"{choice_text(value, title)}{about}"


def _form_answers(entry: ElicitationEntry) -> Safe | None:
    rows = [
        el("tr", el("td", title), el("td", answer, style=LINES))
        for title, answer in _answers(entry)
    ]
    return el("table", el("tbody", rows)) if rows else None


def _address(entry: ElicitationEntry) -> Safe:
    host = host_of(entry.url)
    warning = None
    if host and is_deceptive(host):
        warning = el("div", "⚠ ", el("b", DECEPTIVE))
    url: Safe = el("code", visible(entry.url))
    if entry.state == "accepted":
        # `link` shortens what it shows, so the address stands in full beside it.
        url = join([el("div", link(entry.url, f"Open {host}")), url])
    shown = el("div", "Host: ", el("b", visible(host))) if host else None
    return el("div", shown, warning, el("div", url))


# -- plain text ---------------------------------------------------------------------------------


def lines(entry: ElicitationEntry) -> Iterator[str]:
    """A question as plain text."""
    if entry.state != "pending":
        yield str(outcome(entry))
        for title, answer in _answers(entry):
            yield f"  {title}: {answer}"
        if entry.mode == "url":
            yield from _address_lines(entry)
        return
    yield from question_lines(entry)
    for field in entry.fields:
        yield from field_lines(field)


def question_lines(entry: ElicitationEntry) -> Iterator[str]:
    """Who asks and what, without the fields of a form."""
    what = "asks you" if entry.mode == "form" else "asks you to visit a web address"
    yield f"? {one_line(entry.agent, 60)} {what}:"
    for part in (entry.message, entry.title, entry.description):
        if part:
            yield "\n".join(f"  {line}" for line in _short(part).split("\n"))
    if entry.mode == "url":
        yield from _address_lines(entry)


def field_lines(field: Field) -> Iterator[str]:
    """What a field asks for."""
    yield f"  - {label(field)}: {hint(field)}"
    if field.description:
        yield f"      {one_line(field.description, 400)}"
    shown = [choice_line(item.value, item.title, item.description) for item in field.choices]
    for number, choice in enumerate(shown[:CHOICES_SHOWN], 1):
        yield f"      [{number}] {choice}"
    if len(shown) > CHOICES_SHOWN:
        yield f"      … {len(shown) - CHOICES_SHOWN} more"


def _address_lines(entry: ElicitationEntry) -> Iterator[str]:
    host = host_of(entry.url)
    if host:
        yield f"  host {visible(host)}"
        if is_deceptive(host):
            yield f"  warning: {DECEPTIVE}"
    yield f"  address {visible(entry.url)}"
