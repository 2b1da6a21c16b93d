"""The language of requests: from the text of a prompt to a list of requests.

Rules:
- Requests are separated by newlines or ``;``; ``\\;`` is a plain semicolon.
- A word is a request only in lower case and only in the form its line of `WORDS` gives; a word that
  takes nothing and is followed by something is plain text ("table of contents").
- Neighbouring parts that are no requests stay one plain text, with the separators as written.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from acp_jupyter.demo_agent.wire import Json


class Word(NamedTuple):
    """One kind of request.

    Attributes:
        hint: what follows the word; empty when nothing may follow.
        description: one line for ``help`` and for the client's list of slash commands.
        pattern: what the text after the word must match; its groups are the arguments.
    """

    hint: str
    description: str
    pattern: str


_TEXT = r"(\S.*)"
_NUMBER = r"([0-9]{1,7})"

WORDS: dict[str, Word] = {
    "help": Word("", "List the requests this agent understands", ""),
    "plan": Word("A, B!, C", "Make a plan; its entries complete as the next requests run", _TEXT),
    "think": Word("TEXT", "Think aloud", _TEXT),
    "read": Word("FILE", "Read a file", _TEXT),
    "write": Word("FILE: TEXT", "Write a file, after asking", r"(\S.*?):(?: (.*)|)"),
    "edit": Word("FILE: OLD -> NEW", "Replace text in a file", r"(\S.*?): (.+?) ->(?: (.*)|)"),
    "delete": Word("FILE", "Delete a file, after asking", _TEXT),
    "search": Word("TEXT", "Search the files of the session's directories", _TEXT),
    "run": Word("COMMAND", "Run a command, after asking", _TEXT),
    "ask": Word("QUESTION? A | B", "Ask the user a question", _TEXT),
    "permissions": Word("N", "Ask for N permissions at once", _NUMBER),
    "show": Word("image | audio | link | resource", "Show content", "(image|audio|link|resource)"),
    "table": Word("", "Answer with a table", ""),
    "markdown": Word("", "Answer with a sample of Markdown", ""),
    "count": Word("N", "Count to N, one chunk a number", _NUMBER),
    "text": Word("N", "Answer with N characters", _NUMBER),
    "slow": Word("N", "Take N steps of 0.1 s", _NUMBER),
    "wait": Word("", "Be silent until cancelled", ""),
    "usage": Word("", "Report tokens and cost", ""),
    "mode": Word("ask | trust | plan", "Change the session's mode", _TEXT),
    "title": Word("TEXT", "Give the session a title", _TEXT),
    "commands": Word("", "Advertise the slash commands again", ""),
    "notice": Word("TEXT", "Send a notice", _TEXT),
    "compact": Word("", "Compact the context", ""),
    "unknown": Word("", "Send an update of an unknown kind", ""),
    "fail": Word("", "Fail with a JSON-RPC error", ""),
    "refuse": Word("", "Stop with a refusal", ""),
    "max": Word("tokens | requests", "Stop at a limit", "(tokens|requests)"),
    "crash": Word("", "Exit with status 17 in mid-turn", ""),
    "stderr": Word("TEXT", "Write a line to standard error", _TEXT),
}


class Request(NamedTuple):
    """One request of a prompt.

    Attributes:
        word: a key of `WORDS`; ``say`` for plain text, ``misuse`` for a word in a wrong form.
        arguments: the groups of the word's pattern; the text for ``say``; the word for ``misuse``.
        source: as written, for plans and thoughts.
    """

    word: str
    arguments: tuple[str, ...]
    source: str


_SEPARATOR = re.compile(r"(?<!\\)(;|\r?\n)")


def parse(text: str) -> list[Request]:
    """The requests of a prompt's text, in order; empty for an empty text."""
    parts = _SEPARATOR.split(text)
    requests: list[Request] = []
    plain = ""
    for index in range(0, len(parts), 2):
        separator = parts[index - 1] if index else ""
        request = _parse_one(parts[index].replace("\\;", ";").strip())
        if request is None:
            plain += separator + parts[index].replace("\\;", ";") if plain else parts[index]
            continue
        _add_plain(requests, plain)
        plain = ""
        requests.append(request)
    _add_plain(requests, plain)
    return requests


def _add_plain(requests: list[Request], plain: str) -> None:
    text = plain.replace("\\;", ";").strip()
    if text:
        requests.append(Request("say", (text,), text))


def _parse_one(part: str) -> Request | None:
    word, _, rest = part.removeprefix("/").partition(" ")
    known = WORDS.get(word)
    if known is None:
        # A slash promises a command: a mistyped one is told so, and is no plain text.
        return Request("misuse", (word,), part) if re.match(r"/\w", part) else None
    match = re.fullmatch(known.pattern, rest.strip())
    if match is not None:
        return Request(word, tuple(group or "" for group in match.groups()), part)
    return None if not known.hint and not part.startswith("/") else Request("misuse", (word,), part)


_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}


def unescape(text: str) -> str:
    """The text of ``write`` and ``edit`` with ``\\n``, ``\\t`` and ``\\\\`` resolved."""
    return re.sub(r"\\([nt\\])", lambda match: _ESCAPES[match.group(1)], text)


def usage(word: str) -> str:
    """One line that tells how a word is used, or that there is no such word."""
    known = WORDS.get(word)
    if known is None:
        return f"There is no request `/{word}`. Type `/help` to see what I understand."
    return f"`{word}` is used like this: `{_form(word)}`. Type `/help` to see what I understand."


def help_text() -> str:
    """The answer to ``help``: one table row a request."""
    rows = "\n".join(
        # A bar ends a table cell even inside a code span.
        "| `{}` | {} |".format(_form(word).replace("|", "\\|"), known.description)
        for word, known in WORDS.items()
    )
    return (
        "I am the demo agent. One request a line, or several separated by `;`:\n\n"
        f"| Request | What it does |\n|---|---|\n{rows}\n\nAnything else I say back to you.\n"
    )


def _form(word: str) -> str:
    return f"{word} {WORDS[word].hint}".strip()


def available_commands() -> list[Json]:
    """The words as the slash commands of ``available_commands_update``."""
    commands: list[Json] = []
    for word, known in WORDS.items():
        command: Json = {"name": word, "description": known.description}
        if known.hint:
            command["input"] = {"hint": known.hint}
        commands.append(command)
    return commands
