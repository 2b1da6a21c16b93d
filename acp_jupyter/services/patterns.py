"""Patterns of permission rules, for paths and commands. Pure.

Rules:

- Rules that allow are read strictly, rules that deny or ask generously: what is not certain is
  never allowed, and rather asked or denied once too often.
- In a path pattern ``*`` and ``?`` stay within a name, ``**`` stands for any number of names.
- In a command pattern ``*`` within a word stays within that word; standing alone it is any number
  of words.
- Where a rule allows, a wildcard of a command stands for `PLAIN` characters only: never for
  quotes, line ends or anything else that a shell obeys, and never for a step upward (``..``). So
  ``make *`` is never ``make; rm -rf ~``, whoever runs it.
- Where a rule denies or asks, a command is also held against the pattern in parts: each command of
  a shell line, without quotes, assignments, wrappers such as ``sudo`` and the program's folder, and
  the line within ``sh -c``. This finds what is written plainly; no list of forbidden commands is
  ever complete.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ..errors import UsageError

__all__ = [
    "TEXT_LIMIT",
    "check_path_pattern",
    "is_plain_line",
    "literal",
    "matches_name",
    "may_allow_command",
    "may_deny_command",
    "readings",
    "runs_shell",
    "within_path",
]

TEXT_LIMIT: Final = 4096
"""Characters of a command that a pattern is held against; a longer one is never allowed by a rule
and is matched by every rule that denies or asks about commands."""

READINGS: Final = 200
"""Parts of one command that are looked at; the agent may send any number."""

PLAIN: Final = r"A-Za-z0-9_@+=:,./ -"
"""Characters that are themselves in every shell (as a set of a regular expression)."""

_PLAIN_WORD: Final = PLAIN.replace(" ", "")
_PLAIN_TEXT: Final = re.compile(f"[{PLAIN}]+")
_PLAIN_LINE: Final = re.compile(
    # No assignment before the command, no word that begins with "=" (zsh looks that up).
    r"[A-Za-z0-9_@+:,./-]+(?: [A-Za-z0-9_@+:,./-][A-Za-z0-9_@+=:,./-]*)*"
)
_UPWARD: Final = re.compile(r"(?<![^/=:, ])\.\.(?![^/:, ])")
_SPLIT: Final = re.compile(r"[;&|\n\r()`{}<>]|\$\(")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SHELLS: Final = frozenset(
    [
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "mksh",
        "ash",
        "fish",
        "csh",
        "tcsh",
        "busybox",
        "cmd",
        "powershell",
        "pwsh",
        "eval",
        "source",
        ".",
    ]
)
_WRAPPERS: Final = frozenset(
    [
        "sudo",
        "doas",
        "env",
        "exec",
        "command",
        "builtin",
        "nohup",
        "time",
        "nice",
        "xargs",
        "setsid",
        "then",
        "do",
        "else",
        "if",
        "while",
        "!",
    ]
)

Token = tuple[str, str]
"""("literal", character), ("star", ""), ("stars", ""), ("any", "") or ("class", set)."""


def literal(text: str) -> str:
    """The pattern that is exactly this text."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _tokens(pattern: str) -> Iterator[Token]:
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            stars = at
            while at < len(pattern) and pattern[at] == "*":
                at += 1
            yield ("stars" if at > stars else "star", "")
        elif char == "?":
            yield ("any", "")
        elif char == "[" and (end := pattern.find("]", at + 1 + pattern.startswith("!", at))) > 0:
            yield ("class", pattern[at:end])
            at = end + 1
        else:
            yield ("literal", char)


def _set(body: str) -> str:
    """A glob's set as one of a regular expression."""
    negated = body.startswith("!")
    chars = body[1:] if negated else body
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", chars)
    return f"[{'^' if negated else ''}{escaped}]"


def _compiled(pattern: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise UsageError(f"the pattern {pattern!r} cannot be read: {error}") from error


# -- paths and names ------------------------------------------------------------------------------


def check_path_pattern(pattern: str) -> None:
    """Raise `UsageError` for a path pattern that could never match."""
    parts = pattern.split("/")
    if not pattern or pattern.startswith(("/", "~")) or re.match(r"[A-Za-z]:", pattern):
        raise UsageError(
            f"the path pattern {pattern!r} is not relative to the session's folder",
            remedy="For example src/** or *.py.",
        )
    if ".." in parts or "." in parts:
        raise UsageError(f"the path pattern {pattern!r} has a part that is '.' or '..'")
    _path_pattern(pattern)


def within_path(pattern: str, path: str, *, strict: bool) -> bool:
    """Whether a path, relative to a root, is one of the pattern's.

    Args:
        pattern: the glob.
        path: with ``/``.
        strict: compare exactly; else as the most forgiving file system would.
    """
    if strict:
        return _path_pattern(pattern).fullmatch(path) is not None
    return _path_pattern(pattern.casefold()).fullmatch(path.casefold()) is not None


@lru_cache(maxsize=512)
def _path_pattern(pattern: str) -> re.Pattern[str]:
    names = pattern.split("/")
    if names[-1] == "":  # a folder: all that is in it
        names[-1] = "**"
    text = ""
    for index, name in enumerate(names):
        last = index == len(names) - 1
        if name == "**":
            text += ".+" if last else "(?:[^/]+/)*"
        else:
            text += _one_name(name) + ("" if last else "/")
    return _compiled(pattern, text)


def _one_name(name: str) -> str:
    text = ""
    for token, value in _tokens(name):
        match token:
            case "literal":
                text += re.escape(value)
            case "any":
                text += "[^/]"
            case "class":
                text += f"(?!/){_set(value)}"
            case _:
                text += "[^/]*"
    return text


def matches_name(pattern: str, name: str) -> bool:
    """Whether an agent's name is one of the pattern's."""
    return _name_pattern(pattern).fullmatch(name) is not None


@lru_cache(maxsize=64)
def _name_pattern(pattern: str) -> re.Pattern[str]:
    return _compiled(pattern, _one_name(pattern).replace("[^/]", "."))


# -- commands -------------------------------------------------------------------------------------


def is_plain_line(line: str) -> bool:
    """Whether a command line is the same words in every shell, and no shell."""
    return _PLAIN_LINE.fullmatch(line) is not None and not runs_shell(line.split(" "))


def runs_shell(argv: list[str] | tuple[str, ...]) -> bool:
    """Whether a command names a shell, which would read its arguments as a line."""
    names = (re.split(r"[/\\]", word.lower())[-1].removesuffix(".exe") for word in argv)
    return any(name in _SHELLS for name in names)


def may_allow_command(glob: str | None, regex: str | None, text: str) -> bool:
    """Whether a rule that allows covers a command; strict."""
    if len(text) > TEXT_LIMIT:
        return False
    if regex is not None:
        plain = _PLAIN_TEXT.fullmatch(text) is not None and not _UPWARD.search(text)
        if not plain or _compiled(regex, regex).fullmatch(text) is None:
            return False
        return not _begins_with_assignment(text, "")
    if glob is None or _strict_command(glob).fullmatch(text) is None:
        return False
    if len(_UPWARD.findall(text)) > len(_UPWARD.findall(glob)):
        return False
    return not _begins_with_assignment(text, glob)


def _begins_with_assignment(text: str, glob: str) -> bool:
    """Whether variables are set before the command that the pattern does not set word by word."""
    first = text.split(" ", 1)[0]
    return "=" in first and literal(first) != glob.split(" ", 1)[0]


@lru_cache(maxsize=512)
def _strict_command(pattern: str) -> re.Pattern[str]:
    tokens = list(_tokens(pattern))
    text = ""
    for index, (token, value) in enumerate(tokens):
        match token:
            case "literal":
                text += re.escape(value)
            case "any":
                text += f"[{_PLAIN_WORD}]"
            case "class":
                text += f"(?=[{PLAIN}]){_set(value)}" if value.startswith("!") else _set(value)
            case _:
                alone = _is_edge(tokens, index - 1) and _is_edge(tokens, index + 1)
                text += f"[{PLAIN if alone else _PLAIN_WORD}]*"
    return _compiled(pattern, text)


def _is_edge(tokens: list[Token], index: int) -> bool:
    return not 0 <= index < len(tokens) or tokens[index] in (
        ("literal", " "),
        ("literal", "'"),
        ("literal", '"'),
    )


def may_deny_command(glob: str | None, regex: str | None, text: str) -> bool:
    """Whether a rule that denies or asks covers a command; generous."""
    if len(text) > TEXT_LIMIT:
        return True
    found = readings(text)
    if len(found) > READINGS:
        return True
    if regex is not None:
        pattern = _compiled(regex, regex)
        return any(pattern.search(reading) for reading in found)
    if glob is None:
        return False
    pattern = _loose_command(glob)
    return any(pattern.fullmatch(reading) for reading in found)


@lru_cache(maxsize=512)
def _loose_command(pattern: str) -> re.Pattern[str]:
    text = ""
    for token, value in _tokens(pattern):
        match token:
            case "literal":
                text += re.escape(value)
            case "any":
                text += "."
            case "class":
                text += _set(value)
            case _:
                text += ".*"
    return _compiled(pattern, text)


@lru_cache(maxsize=16)
def readings(text: str) -> tuple[str, ...]:
    """A command as written, and each command that is plainly within it; see the module."""
    found = {text: None}
    todo = [text]
    while todo and len(found) <= READINGS:
        for part in _SPLIT.split(todo.pop()):
            words = _words(part)
            for word in words:
                if _SPLIT.search(word) or " " in word:
                    if word not in found:
                        todo.append(word)
                    found[word] = None
            for reading in _without_wrappers(words):
                found[reading] = None
    return tuple(found)


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part)
    except ValueError:  # an open quote
        return re.sub(r"[\\'\"]", "", part).split()


def _without_wrappers(words: list[str]) -> Iterator[str]:
    """The command of some words, with each wrapper before it taken away in turn."""
    while words:
        name = words[0].rsplit("/", 1)[-1]
        yield " ".join((name, *words[1:]))
        if name not in _WRAPPERS and not _ASSIGNMENT.match(name):
            return
        words = words[1:]
        while words and words[0].startswith("-"):  # the wrapper's own options
            words = words[1:]
