"""Cutting a growing message, so that each update sends its unfinished end only.

A message is published as a row of outputs. Once the last one passes `TARGET` characters it is
frozen at a good place, never to be sent again, and the text goes on in a new one. Good places, in
this order:

1. after a blank line outside code, before a line that begins no list item and is not indented;
2. after a blank line, before a list item (the list goes on as a list);
3. inside a long code block: at a line end. The block is closed there with its fence and opened
   again in the next segment with the same info string;
4. after a blank line, before an indented line: the next segment begins with an empty list item,
   so that the text stays indented;
5. at a line end (of a table: with its head repeated), at a space, anywhere.

Later places are only taken when a segment grew longer without an earlier one. What is added is
kept apart (`Segment.opened`, `Segment.closed`); what is between belongs to the message, and no
character of it is lost or doubled. Frozen text is not looked at again, and the tail is bounded,
so the work is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TARGET: Final = 1_500  # measured in JupyterLab: the browser's work stays linear
CODE_TARGET: Final = 3_000  # a cut code block shows a seam; about 80 lines stay in one piece
LIST_TARGET: Final = 3_000
LIMIT: Final = 6_000

BURST: Final = 16
"""Segments that one cut makes at the most of text outside code: what came all at once goes out in
fewer and larger pieces, because each of them is a message."""

LARGEST: Final = 20
"""Times that a segment of a burst may be longer than any other."""

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?=[ \t\n])[ \t]*")
_TABLE_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?")


@dataclass(frozen=True, slots=True)
class Segment:
    """One output of a message.

    Attributes:
        index: 0, 1, … in the message; a segment with a known index replaces it.
        source: what it holds of the message.
        frozen: it will not change any more.
        opened, closed: Markdown added before and after, to carry a structure over a cut.
    """

    index: int
    source: str
    frozen: bool
    opened: str = ""
    closed: str = ""

    @property
    def text(self) -> str:
        """Markdown that stands by itself."""
        return f"{self.opened}{self.source}{self.closed}"


@dataclass(frozen=True, slots=True)
class _Fence:
    """An open code block.

    Attributes:
        indent, mark, info: its opening line.
        column: a line indented less ends the list around it, and the block with it; 0 if there
            is no list.
    """

    indent: int
    mark: str
    info: str
    column: int

    @property
    def opening(self) -> str:
        return f"{_list_items(self.column, self.indent)}{' ' * self.indent}{self.mark}{self.info}\n"

    @property
    def closing(self) -> str:
        return f"{' ' * self.indent}{self.mark}\n"

    def is_closed_by(self, line: str) -> bool:
        text = line.strip()
        return len(text) >= len(self.mark) and not text.strip(self.mark[0])


@dataclass(frozen=True, slots=True)
class _Context:
    """What is open at a place in the text.

    Attributes:
        fence: the code block.
        column: where the content of the list item before begins; 0 outside lists.
        table: head and rule of the table.
    """

    fence: _Fence | None = None
    column: int = 0
    table: str = ""


TOP: Final = _Context()


@dataclass(frozen=True, slots=True)
class _Cut:
    """A place to cut, what is open there, and what is added on both sides."""

    at: int
    context: _Context = TOP
    opened: str = ""
    closed: str = ""


def _list_items(column: int, indent: int) -> str:
    """Empty list items within which a line with that indentation belongs to the list."""
    depth = max(column // 2, (indent - 2) // 2)
    return "- " * (depth - 1) + "-\n" if depth > 0 and column else ""


class SegmentCutter:
    """The cuts of one message.

    Args:
        bursts: let segments grow where much text comes at once.
    """

    def __init__(self, *, bursts: bool = True) -> None:
        self._bursts = bursts
        self._text = ""
        self._restart()

    def _restart(self) -> None:
        self._scale = 1.0
        self._start = 0
        self._index = 0
        self._opened = ""
        self._context = TOP

    def cut(self, text: str, *, final: bool = False) -> list[Segment]:
        """The segments that are new or changed since the last call.

        Args:
            text: the whole message so far. If it does not go on from the text of the last call,
                all of it is cut anew, and segments left over come back empty.
            final: nothing will follow; the last segment is frozen too.
        """
        known = 0
        if not text.startswith(self._text):
            known = self._index + 1
            self._restart()
        elif len(text) == len(self._text) and not final:
            return []
        self._text = text
        if self._bursts:
            self._scale = min(max((len(text) - self._start) / (BURST * TARGET), 1.0), LARGEST)
        segments = []
        while len(text) - self._start > TARGET and (cut := self._find(text)) is not None:
            segments.append(self._freeze(text, cut))
        if self._start < len(text):
            segments.append(Segment(self._index, text[self._start :], final, self._opened))
        segments += [Segment(index, "", True) for index in range(self._index + 1, known)]
        return segments

    def _freeze(self, text: str, cut: _Cut) -> Segment:
        source = text[self._start : cut.at]
        segment = Segment(self._index, source, True, self._opened, cut.closed)
        self._index += 1
        self._start = cut.at
        self._opened = cut.opened
        self._context = cut.context
        return segment

    def _find(self, text: str) -> _Cut | None:
        """Where to cut the tail; ``None`` if it should rather grow first."""
        limit = int(LIMIT * self._scale)
        scan = _Scan(text, self._start, self._context, limit)
        for places, reach in (
            (scan.clear, int(TARGET * self._scale)),
            (scan.before_items, int(LIST_TARGET * self._scale)),
            (scan.in_code, CODE_TARGET),
            (scan.before_indented, limit),
            (scan.line_ends, limit),
        ):
            if scan.length > reach and places:
                return _best(places, self._start + reach)
        return scan.inside_line() if scan.length > limit else None


def _best(places: list[_Cut], reach: int) -> _Cut:
    """The last place up to ``reach``, else the first one after it."""
    best = places[0]
    for place in places:
        if place.at > reach:
            break
        best = place
    return best


class _Scan:
    """One look at the tail, line by line, no further than ``limit`` characters."""

    def __init__(self, text: str, start: int, context: _Context, limit: int) -> None:
        self.text = text
        self.start = start
        self.limit = limit
        self.end = min(len(text), start + limit)
        self.length = len(text) - start
        self.fence, self.column, self.table = context.fence, context.column, context.table
        self.before = ""  # the line before
        self.clear: list[_Cut] = []
        self.before_items: list[_Cut] = []
        self.in_code: list[_Cut] = []
        self.before_indented: list[_Cut] = []
        self.line_ends: list[_Cut] = []
        at = start
        while at < self.end:
            line_end = text.find("\n", at, self.end) + 1 or self.end
            line = text[at:line_end]
            # What a line is can be told once it is complete, or longer than any marker.
            told = at > start and (line.endswith("\n") or len(line) >= 12)
            self._line(at, line, told)
            self.before = line
            at = line_end

    def _line(self, at: int, line: str, told: bool) -> None:
        fence = self.fence
        if fence is not None:
            if not self._ends_list(fence, line):
                self._code_line(at, line, fence, told)
                return
            self.fence = None
        if line.isspace():
            self.table = ""
            return
        item = _ITEM.match(line)
        if told:
            self._note_place(at, line, item is not None)
        self._enter(line, item)

    def _ends_list(self, fence: _Fence, line: str) -> bool:
        indent = len(line) - len(line.lstrip(" "))
        return indent < fence.column and line.endswith("\n") and not line.isspace()

    def _code_line(self, at: int, line: str, fence: _Fence, told: bool) -> None:
        if fence.is_closed_by(line):
            self.fence = None
        elif told and not _FENCE.match(self.before):
            context = _Context(fence, self.column)
            self.in_code.append(_Cut(at, context, fence.opening, fence.closing))

    def _note_place(self, at: int, line: str, is_item: bool) -> None:
        if not self.before.isspace():
            self.line_ends.append(_Cut(at, _Context(None, self.column, self.table), self.table))
        elif is_item:
            self.before_items.append(_Cut(at, _Context(None, self.column)))
        elif line[0] in " \t":
            indent = len(line) - len(line.lstrip(" "))
            opened = _list_items(min(self.column, indent), indent)
            self.before_indented.append(_Cut(at, _Context(None, self.column), opened))
        else:
            self.clear.append(_Cut(at))

    def _enter(self, line: str, item: re.Match[str] | None) -> None:
        """Note what the line opens."""
        if item is not None:
            self.column = item.end() if line[item.end() :].strip() else len(item[0].rstrip()) + 1
        elif line[0] not in " \t" and (self.before.isspace() or line.startswith(("```", "~~~"))):
            self.column = 0
        at = item.end() if item is not None else 0
        opening = _FENCE.match(line, at)
        if opening is not None and not (opening["fence"][0] == "`" and "`" in opening["info"]):
            indent = at + len(opening["indent"])
            if indent < 4 or self.column:
                column = min(self.column, indent)
                self.fence = _Fence(indent, opening["fence"], opening["info"].strip(), column)
        elif "|" in line and "|" in self.before and _TABLE_RULE.fullmatch(line):
            self.table = self.before + line

    def inside_line(self) -> _Cut:
        """A cut in a line that is longer than a segment may be."""
        space = self.text.rfind(" ", self.start + self.limit // 2, self.end)
        at = space + 1 if space > 0 else self.end
        if self.fence is not None:
            context = _Context(self.fence, self.column)
            return _Cut(at, context, self.fence.opening, "\n" + self.fence.closing)
        return _Cut(at, _Context(None, self.column))


# -- putting together -------------------------------------------------------------------------

_ADDED_ITEMS = re.compile(r"(?:- )*-\n")


def join(texts: Iterable[str]) -> str:
    """The message whose segments have these texts, without what the cuts added.

    Messages that only stand one after the other are set apart by a blank line.
    """
    parts: list[str] = []
    context = TOP
    last = ""
    for text in filter(None, texts):
        if last:
            before, context, last = _seam(last, context, text)
            parts.append(before)
        else:
            last = text
    return "".join([*parts, last])


def _seam(before: str, context: _Context, after: str) -> tuple[str, _Context, str]:
    """What the texts on both sides of a cut hold of the message, and what is open there."""
    in_code = _code_seam(before, context, after)
    if in_code is not None:
        return in_code
    scan = _Scan(before, 0, context, len(before))
    inside = _Context(None, scan.column, scan.table)
    if scan.before.isspace() and before.endswith("\n"):
        added = _ADDED_ITEMS.match(after)
        rest = after[added.end() :] if added else ""
        indent = len(rest) - len(rest.lstrip(" "))
        if added and added[0] == _list_items(min(scan.column, indent), indent):
            return before, inside, rest
        is_clear = after[0] not in " \t" and _ITEM.match(after) is None
        return before, TOP if is_clear else inside, after
    if scan.table and after.startswith(scan.table):
        return before, inside, after[len(scan.table) :]
    if len(before) + len(after) <= LIMIT:  # nothing shorter is cut there: two messages
        return before.rstrip("\n") + "\n\n", TOP, after
    return before, inside, after


def _code_seam(before: str, context: _Context, after: str) -> tuple[str, _Context, str] | None:
    """The same where the cut went through a code block."""
    start = before.rfind("\n", 0, -1) + 1
    source = before[:start]
    scan = _Scan(source, 0, context, len(source))
    fence = scan.fence
    if fence is None or before[start:] != fence.closing or not after.startswith(fence.opening):
        return None
    rest = after[len(fence.opening) :]
    within_line = source[:-1]
    if not scan.in_code and _breaks_line(within_line, rest):
        source = within_line
    return source, _Context(fence, scan.column), rest


def _breaks_line(before: str, after: str) -> bool:
    """Whether `_Scan.inside_line` would have cut there."""
    if len(before) < LIMIT // 2 or not after:
        return False
    word = after[: max(0, LIMIT - len(before))]
    return len(before) == LIMIT or (before.endswith(" ") and not set(word) & {" ", "\n"})
