"""The agent's questions to the user, line by line: for standard input and terminals.

`dialogue` is a generator that yields prompts and is sent the replies; it does no input itself.
Nothing is answered before the user has seen all values together (C50).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from ..protocol.forms import Field, content, hint, validate
from ..rendering.characters import one_line
from ..rendering.elicitation import answer_text, choice_line, label, question_lines
from ..services.elicitation import Answer
from ..session.transcript import ElicitationEntry

TRIES: Final = 3
"""Replies to one question that are no answer, before it counts as cancelled."""

DECLINE, CANCEL, SKIP, EDIT = "/decline", "/cancel", "/skip", "/edit"

_YES_OR_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}

Dialogue = Generator[str, str, Answer]


class Masked(str):
    """A prompt for something that is not shown while it is typed."""

    __slots__ = ()


class _Ended(Exception):
    """The user left the dialogue, by this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.action)
        self.answer = answer


def dialogue(entry: ElicitationEntry) -> Dialogue:
    """Put a question to the user.

    Yields:
        Prompts; each is answered by what the user typed.

    Returns:
        The answer.
    """
    question = "\n".join(question_lines(entry))
    try:
        if entry.mode == "url":
            return (yield from _consent(question))
        return (yield from _form(entry, question))
    except _Ended as ended:
        return ended.answer


def _consent(question: str) -> Dialogue:
    prompt = f"{question}\n  [1] Show the link\n  [2] Decline\n  [3] Cancel\n> "
    for _ in range(TRIES):
        match (yield prompt).strip().lower():
            case "1" | "y" | "yes":
                return Answer("accept")
            case "2" | "n" | "no" | "/decline":
                return Answer("decline")
            case "3" | "/cancel":
                return Answer("cancel")
        prompt = "Answer with a number from 1 to 3: "
    return _no_answer()


def _form(entry: ElicitationEntry, question: str) -> Dialogue:
    fields = [field for field in entry.fields if field.kind != "unknown"]
    values: dict[str, Any] = {field.name: field.default for field in fields}
    intro = f"{question}\n{_commands(fields)}\n"
    while True:
        for field in fields:
            values[field.name] = yield from _ask(field, values[field.name], intro)
            intro = ""
        given = content(fields, values)
        if (yield from _reviewed(fields, given, intro)):
            return Answer("accept", content=given)
        intro = ""


def _commands(fields: list[Field]) -> str:
    skip = "" if all(field.required for field in fields) else f", {SKIP} leaves a field empty"
    return f"({DECLINE} or {CANCEL} at any time{skip})"


def _ask(field: Field, now: Any, intro: str) -> Generator[str, str, Any]:
    """One field; ``now`` is what an empty reply gives."""
    given = now not in (None, "", [])
    kept = f" [{answer_text(field, now)}]" if given else ""
    choices = "".join(
        f"\n  [{number}] {choice_line(choice.value, choice.title, choice.description)}"
        for number, choice in enumerate(field.choices, 1)
    )
    about = f"\n  {one_line(field.description, 400)}" if field.description else ""
    ask = f"{label(field)} ({hint(field)}){about}{choices}{kept}: "
    prompt = intro + ask
    for _ in range(TRIES):
        reply = yield from _reply(Masked(prompt) if field.secret else prompt)
        value = now if not reply.strip() else _read(field, reply)
        if reply.strip() == SKIP:
            value = None
        problem = validate([field], {field.name: value}).get(field.name)
        if problem is None:
            return value
        prompt = f"{problem}\n{ask}"
    raise _Ended(_no_answer())


def _reviewed(fields: list[Field], given: dict[str, Any], intro: str) -> Generator[str, str, bool]:
    """Show what would be sent; whether it may be."""
    shown = [
        f"  {label(field)}: {answer_text(field, given[field.name])}"
        for field in fields
        if field.name in given
    ]
    listed = "\n".join(["This is sent:", *shown] if shown else ["No values are sent."])
    prompt = f"{intro}{listed}\nEnter sends it, {EDIT} changes it, {DECLINE} or {CANCEL}: "
    for _ in range(TRIES):
        reply = (yield from _reply(prompt)).strip().lower()
        if reply in ("", "y", "yes"):
            return True
        if reply == EDIT:
            return False
        prompt = f"Enter, {EDIT}, {DECLINE} or {CANCEL}: "
    raise _Ended(_no_answer())


def _reply(prompt: str) -> Generator[str, str, str]:
    reply = yield prompt
    if reply.strip() == DECLINE:
        raise _Ended(Answer("decline"))
    if reply.strip() == CANCEL:
        raise _Ended(Answer("cancel"))
    return reply


def _no_answer() -> Answer:
    return Answer("cancel", reason=f"{TRIES} replies were no answer")


def _read(field: Field, reply: str) -> Any:
    """What a reply means; what it cannot mean fails in `validate`."""
    match field.kind:
        case "boolean":
            return _YES_OR_NO.get(reply.strip().lower(), reply)
        case "choice":
            return _chosen(field, reply)
        case "choices":
            return [_chosen(field, part) for part in reply.split(",") if part.strip()]
        case _:
            return reply


def _chosen(field: Field, reply: str) -> str:
    """A choice by its number, its value or its title."""
    reply = reply.strip()
    number = int(reply) if reply.isascii() and reply.isdigit() and len(reply) < 5 else 0
    if 1 <= number <= len(field.choices):
        return field.choices[number - 1].value
    for choice in field.choices:
        if reply in (choice.value, choice.title):
            return choice.value
    return reply
