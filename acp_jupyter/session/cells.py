"""From an answer to the cells that it proposes.

A fenced code block becomes a cell if its language is one that a notebook runs, and if it is code:
console transcripts, differences and tracebacks are not. The rules:

* A block is taken as a whole or not at all: half of a program must not be run.
* Blocks are found a line at a time, in linear time; fences inside list items are, with the
  indentation of the item taken away. Fences in quotations and blocks without one are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from .transcript import ProposedCell

MAX_CELLS: Final = 20
"""Cells proposed at once: a user who has to decide about more decides about none."""

MAX_SOURCE: Final = 64 * 1024
"""Characters of a cell: more than anybody writes into one."""

MAX_TOTAL: Final = 256 * 1024
"""Characters of all cells proposed at once: each is sent as HTML and as data."""

LANGUAGES: Final = {
    name: language
    for language, names in {
        "python": "python py python3 py3 ipython ipython3",
        "bash": "bash sh shell zsh",
        "markdown": "markdown md",
    }.items()
    for name in names.split()
}
"""Languages of code blocks to those of cells."""

_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)]) {1,4}(?=\S)")

_NO_CODE: Final = {
    "python": re.compile(r">>> |In \[\d*\]:|Traceback \(most recent call last\)"),
    "bash": re.compile(r"[$%] |\S+@\S+[:~ ].*[$#%] "),
    "markdown": re.compile(r"(?!)"),
}
"""How the first line begins of what was copied from a console."""

_DIFF = re.compile(r"diff --git |(?:---|\+\+\+) [ab]/|@@ -\d")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced code block of an answer.

    Attributes:
        language: first word after the fence, in lower case; may be empty.
        code: with its final newline.
        closed: whether the fence that ends it was there; if not, the answer may have been cut.
    """

    language: str
    code: str
    closed: bool = True


@dataclass(slots=True)
class _Open:
    """A block whose end has not come yet; ``container`` is where its list item's text begins."""

    fence: str
    language: str
    indent: int
    container: int
    lines: list[str] = field(default_factory=list)

    def ends_with(self, line: str, indent: int) -> bool:
        rest = line.strip()
        is_fence = len(rest) >= len(self.fence) and rest == self.fence[0] * len(rest)
        return is_fence and indent - self.container < 4

    def block(self, *, closed: bool) -> CodeBlock:
        return CodeBlock(self.language, "".join(f"{line}\n" for line in self.lines), closed)


def code_blocks(text: str) -> list[CodeBlock]:
    """The fenced code blocks of a Markdown text, in order."""
    found: list[CodeBlock] = []
    block: _Open | None = None
    columns = [0]  # where the text begins of the list items that are open
    for line in text.replace("\r\n", "\n").split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if block is not None:
            outside = indent < block.container and line.strip() != ""
            if not outside and not block.ends_with(line, indent):
                block.lines.append(line[min(indent, block.indent) :])
                continue
            found.append(block.block(closed=True))
            block = None
            if not outside:
                continue
        if line.strip():
            block = _opened(line, indent, columns)
    if block is not None:
        if block.lines and not block.lines[-1]:
            block.lines.pop()  # what follows the last line end is no line
        found.append(block.block(closed=False))
    return found


def _opened(line: str, column: int, columns: list[int]) -> _Open | None:
    """The block that a line opens, if it does; ``columns`` is brought up to date."""
    while columns[-1] > column:
        columns.pop()
    while column - columns[-1] < 4 and (item := _ITEM.match(line, column)):
        column = item.end()
        columns.append(column)
    opening = _FENCE.match(line, column)
    if opening is None or column - columns[-1] >= 4:
        return None
    fence, info = opening["fence"], opening["info"]
    if fence[0] == "`" and "`" in info:
        return None
    words = info.split(None, 1)
    return _Open(fence, words[0].lower() if words else "", column, columns[-1])


def as_cell(block: CodeBlock) -> ProposedCell | None:
    """A code block as a cell; ``None`` if it is not one that a notebook could run."""
    language = LANGUAGES.get(block.language.strip("{}.,"))
    source = block.code.strip("\n")
    if language is None or not block.closed or not source.strip():
        return None
    start = source.lstrip()
    if _NO_CODE[language].match(start) or _DIFF.match(start):
        return None
    return ProposedCell(language, source)


def from_answer(messages: Iterable[str]) -> list[ProposedCell]:
    """The cells in the messages of one answer, each once."""
    cells: dict[tuple[str, str], ProposedCell] = {}
    for message in messages:
        for block in code_blocks(message):
            cell = as_cell(block)
            if cell is not None:
                cells.setdefault((cell.language, cell.source), cell)
    return list(cells.values())


def bounded(cells: Sequence[ProposedCell]) -> tuple[list[ProposedCell], int]:
    """The cells that are proposed, and how many are left out: too long, or too many."""
    kept: list[ProposedCell] = []
    room = MAX_TOTAL
    for cell in cells:
        size = len(cell.source)
        if size <= min(MAX_SOURCE, room) and len(kept) < MAX_CELLS:
            kept.append(cell)
            room -= size
    return kept, len(cells) - len(kept)
