"""``%acp help``: all commands at a glance, by what they are about.

Each command's docstring begins with how it is written and goes on, after the first ``: ``, with
what it does; the list shows the shortest form and the first clause of that, `full` all of it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Final

WIDTH: Final = 80
"""Characters of a line: what a terminal shows, and a cell of JupyterLab beside an open panel."""

COLUMN: Final = 24
"""Characters in which the form of a command stands; a longer one has a line for itself."""

_OPTIONS: Final = re.compile(r" \[--[^]]*\]")
_OTHER_FORMS: Final = re.compile(r",| or ")
_CLAUSE_END: Final = re.compile(r"[;.](?:\s|$)")


def full(docstring: str) -> str:
    """The whole help of a command, in one paragraph."""
    return " ".join(docstring.split())


def overview(groups: Iterable[tuple[str, list[str]]]) -> str:
    """The list of commands.

    Args:
        groups: titles with the docstrings of their commands; those of the same title go together.
    """
    found: dict[str, list[str]] = {}
    for title, docstrings in groups:
        found.setdefault(title, []).extend(_line(full(each)) for each in docstrings)
    blocks = ["\n".join([title, *lines]) for title, lines in found.items() if lines]
    return "\n\n".join([*blocks, "`%acp help NAME` tells all of a command."])


def _line(docstring: str) -> str:
    usage, _, text = docstring.partition(": ")
    form = _OTHER_FORMS.split(_OPTIONS.sub("", usage), maxsplit=1)[0]
    clause = _CLAUSE_END.split(text, maxsplit=1)[0]
    indent = " " * (COLUMN + 4)
    head = f"  {form.ljust(COLUMN)}  "
    if len(form) > COLUMN:
        head = f"  {form}\n{indent}"
    lines = textwrap.wrap(clause, WIDTH - len(indent))
    return head + f"\n{indent}".join(lines)
