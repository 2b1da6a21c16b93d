"""Changes of files: compared by lines, long unchanged stretches left out, as HTML or as text.

A change is shown whole where that is possible, since permission is given by it. What is larger
than `MAX_LINES` or `MAX_CHARACTERS` is summarised, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from .characters import visible
from .elements import BAD, GOOD, PRE, Safe, el, escape, join, muted

CONTEXT: Final = 3
MAX_LINES: Final = 5_000
MAX_CHARACTERS: Final = 400_000
MAX_LINE: Final = 2_000
SUMMARY_LINES: Final = 100
MAX_EDITS: Final = 800
"""Edits up to which the shortest way is looked for; time and memory grow with their square."""

ADDED = Safe("display:block;background:rgba(46,160,67,.2)")
REMOVED = Safe("display:block;background:rgba(248,81,73,.2)")
FOLDED_LINES: Final = 60
"""Lines from which on a diff waits to be opened."""

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")

Edit = tuple[str, str]
"""A sign (``" "``, ``"+"``, ``"-"``) and a line."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines around a change; the numbers of its first line in the old and the new text."""

    old: int
    new: int
    edits: tuple[Edit, ...]

    def counts(self) -> tuple[int, int]:
        """Lines of the old and of the new text in it."""
        signs = [sign for sign, _ in self.edits]
        return len(signs) - signs.count("+"), len(signs) - signs.count("-")

    def ends(self) -> tuple[int, int]:
        """The numbers of the lines after it."""
        old, new = self.counts()
        return self.old + old, self.new + new


@dataclass(frozen=True, slots=True)
class Diff:
    """A comparison.

    Attributes:
        verb: "edited", "new file", "deleted", "emptied" or "unchanged".
        note: what is not shown; empty if all is.
    """

    verb: str
    added: int
    removed: int
    hunks: tuple[Hunk, ...]
    note: str = ""

    @property
    def summary(self) -> str:
        return counts_text(self.added, self.removed)

    @property
    def is_long(self) -> bool:
        return sum(len(hunk.edits) for hunk in self.hunks) > FOLDED_LINES


@lru_cache(maxsize=16)
def compare(old: str | None, new: str | None) -> Diff:
    """Compare two texts; ``None`` is a file that is not there.

    Cached, because an entry is rendered again with each change of its status.
    """
    before, after = _lines(old), _lines(new)
    if all(line.endswith("\r") for line in (*before, *after)):
        before, after = [line[:-1] for line in before], [line[:-1] for line in after]
    edits, exact = _edits(before, after)
    added = sum(sign == "+" for sign, _ in edits)
    removed = sum(sign == "-" for sign, _ in edits)
    if old is None:
        verb = "new file"
    elif new is None:
        verb = "deleted"
    elif not after and before:
        verb = "emptied"
    else:
        verb = "edited" if added or removed else "unchanged"
    hunks, note = _bounded(tuple(_hunks(edits)), added, removed)
    if not note and not exact:
        note = "more changes than are compared line by line: shown as removed and added"
    if not note and old is not None and new is not None and after:
        note = _ends(old, new)
        verb = "edited" if note else verb
    return Diff(verb, added, removed, hunks, note)


def hunks(before: list[str], after: list[str]) -> tuple[Hunk, ...]:
    """What two texts differ in, by lines, all of it; each line with its end, if it has one."""
    return tuple(_hunks(_edits(before, after)[0]))


def _lines(text: str | None) -> list[str]:
    if not text:
        return []
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _ends(old: str, new: str) -> str:
    if old.endswith("\n") == new.endswith("\n"):
        return ""
    return "adds" * new.endswith("\n") + "removes" * old.endswith("\n") + " the line end at the end"


def _edits(before: list[str], after: list[str]) -> tuple[list[Edit], bool]:
    """All lines with their signs, and whether the shortest difference was found."""
    head = 0
    shortest = min(len(before), len(after))
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    same: list[Edit] = [(" ", line) for line in before[:head]]
    rest: list[Edit] = [(" ", line) for line in before[len(before) - tail :]]
    middle = _shortest(old, new) if old and new else None
    exact = middle is not None or not (old and new)
    if middle is None:
        middle = [*(("-", line) for line in old), *(("+", line) for line in new)]
    return [*same, *middle, *rest], exact


def _shortest(old: Sequence[str], new: Sequence[str]) -> list[Edit] | None:
    """E. Myers, "An O(ND) Difference Algorithm" (1986): the greedy form, up to `MAX_EDITS`."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    n, m = len(a), len(b)
    limit = min(n + m, MAX_EDITS)
    furthest = [0] * (2 * limit + 3)
    middle = limit + 1
    trace: list[list[int]] = []
    for d in range(limit + 1):
        trace.append(furthest[middle - d - 1 : middle + d + 2])
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and furthest[middle + k - 1] < furthest[middle + k + 1])
            x = furthest[middle + k + 1] if down else furthest[middle + k - 1] + 1
            y = x - k
            while x < n and y < m and a[x] == b[y]:
                x += 1
                y += 1
            furthest[middle + k] = x
            if x >= n and y >= m:
                return _backtrack(old, new, trace)
    return None


def _backtrack(old: Sequence[str], new: Sequence[str], trace: list[list[int]]) -> list[Edit]:
    edits: list[Edit] = []
    x, y = len(old), len(new)
    for d in range(len(trace) - 1, -1, -1):
        furthest = trace[d]  # of k = -d-1 … d+1
        k = x - y
        at = k + d + 1
        down = k == -d or (k != d and furthest[at - 1] < furthest[at + 1])
        before_k = k + 1 if down else k - 1
        before_x = furthest[before_k + d + 1] if d else 0
        before_y = before_x - before_k if d else 0
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            edits.append((" ", old[x]))
        if d and down:
            y -= 1
            edits.append(("+", new[y]))
        elif d:
            x -= 1
            edits.append(("-", old[x]))
    edits.reverse()
    return edits


def _hunks(edits: list[Edit]) -> Iterator[Hunk]:
    """The changes with `CONTEXT` lines around them."""
    changed = [index for index, (sign, _) in enumerate(edits) if sign != " "]
    numbers = [(1, 1)]
    for sign, _ in edits:
        old, new = numbers[-1]
        numbers.append((old + (sign != "+"), new + (sign != "-")))
    at = 0
    while at < len(changed):
        start = max(0, changed[at] - CONTEXT)
        while at + 1 < len(changed) and changed[at + 1] - changed[at] <= 2 * CONTEXT + 1:
            at += 1
        end = min(len(edits), changed[at] + CONTEXT + 1)
        yield Hunk(*numbers[start], tuple(edits[start:end]))
        at += 1


def _bounded(hunks: tuple[Hunk, ...], added: int, removed: int) -> tuple[tuple[Hunk, ...], str]:
    lines = sum(len(hunk.edits) for hunk in hunks)
    long = sum(len(line) for hunk in hunks for _, line in hunk.edits) > MAX_CHARACTERS
    if lines <= MAX_LINES and not long:
        return hunks, ""
    kept: list[Hunk] = []
    room = SUMMARY_LINES
    for hunk in hunks:
        if room > 0:
            kept.append(Hunk(hunk.old, hunk.new, hunk.edits[:room]))
            room -= len(hunk.edits)
    shown = sum(len(hunk.edits) for hunk in kept)
    changed = f"{added + removed:,} changed lines"
    return tuple(kept), f"{changed}: too many to show, only the first {shown} lines are here"


# -- as HTML and text -------------------------------------------------------------------------


def _shorten(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]} [… {len(line) - MAX_LINE:,} characters more]"


def to_html(diff: Diff) -> Safe:
    """A diff with line numbers; each stretch of added or removed lines is one element."""
    width = max((len(str(max(hunk.ends()))) for hunk in diff.hunks), default=1)
    parts: list[Safe] = []
    last = 1
    for hunk in diff.hunks:
        if hunk.old > last:
            parts.append(muted(f"{'⋯':>{width}}  {hunk.old - last:,} unchanged lines\n"))
        parts += _hunk_html(hunk, width)
        last = hunk.ends()[0]
    body = el("pre", parts, style=PRE) if parts else None
    return el("div", body, muted(diff.note) if diff.note else None)


def _hunk_html(hunk: Hunk, width: int) -> Iterator[Safe]:
    old, new = hunk.old, hunk.new
    for sign, group in groupby(hunk.edits, key=lambda edit: edit[0]):
        text = ""
        for _, line in group:
            left = "" if sign == "+" else str(old)
            right = "" if sign == "-" else str(new)
            text += f"{left:>{width}} {right:>{width}} {sign} {visible(_shorten(line))}\n"
            old += sign != "+"
            new += sign != "-"
        style = {"+": ADDED, "-": REMOVED}.get(sign)
        yield escape(text) if style is None else el("span", text, style=style)


def to_text(diff: Diff, path: str = "") -> str:
    """The unified form, without line numbers but those of its hunks."""
    name = visible(path).replace("\n", " ")
    old = "/dev/null" if diff.verb == "new file" else name
    new = "/dev/null" if diff.verb == "deleted" else name
    lines = [f"--- {old}", f"+++ {new}"] if path else []
    for hunk in diff.hunks:
        removed, added = hunk.counts()
        # An empty side is numbered by the line before it.
        start, end = hunk.old - (not removed), hunk.new - (not added)
        lines.append(f"@@ -{start},{removed} +{end},{added} @@")
        lines += [f"{sign}{visible(_shorten(line))}" for sign, line in hunk.edits]
    if diff.note:
        lines.append(f"[{diff.note}]")
    return "\n".join(lines)


def counts_text(added: int, removed: int) -> str:
    """Added and removed lines, as ``+12`` and a minus sign with ``3``."""
    return f"+{added:,} \N{MINUS SIGN}{removed:,}"


def counts_html(added: int, removed: int) -> Safe:
    """The same in colour."""
    plus, minus = counts_text(added, removed).split()
    return join([el("span", plus, style=GOOD), " ", el("span", minus, style=BAD)])


# -- patches ----------------------------------------------------------------------------------


def patch_counts(patch: str) -> tuple[int, int]:
    """Added and removed lines of a git patch."""
    added = removed = 0
    inside = False
    for line in patch.split("\n"):
        if _HUNK.match(line):
            inside = True
        elif line.startswith("diff --git"):
            inside = False
        elif inside:
            added += line.startswith("+")
            removed += line.startswith("-")
    return added, removed


def _patch_lines(patch: str) -> tuple[list[str], str]:
    lines = patch.rstrip("\n").split("\n")
    if len(lines) <= MAX_LINES and len(patch) <= MAX_CHARACTERS:
        return lines, ""
    note = f"{len(lines):,} lines: too many to show, only the first {SUMMARY_LINES} are here"
    return lines[:SUMMARY_LINES], note


def patch_to_html(patch: str) -> Safe:
    """A git patch with line numbers: its header lines, and the hunks between them."""
    lines, note = _patch_lines(patch)
    parts: list[Safe] = []
    header: list[str] = []
    hunks: list[Hunk] = []

    def finish() -> None:
        if header:
            parts.append(el("pre", muted("\n".join(map(_shorten, header))), style=PRE))
        if hunks:
            parts.append(to_html(Diff("edited", 0, 0, tuple(hunks))))
        header.clear()
        hunks.clear()

    for part in _patch_parts(lines):
        if isinstance(part, Hunk):
            hunks.append(part)
        else:
            if hunks:
                finish()
            header.append(part)
    finish()
    return el("div", parts, muted(note) if note else None)


def _patch_parts(lines: list[str]) -> Iterator[str | Hunk]:
    """The lines of a patch that are outside of hunks, and the hunks.

    A hunk ends where its head says so. Changes beyond that, and what cuts it short, are not hidden.
    """
    at = 0
    while at < len(lines):
        head = _HUNK.match(lines[at])
        if head is None:
            yield lines[at]
            at += 1
            continue
        old, new = int(head[1]), int(head[3])
        left = [int(head[2] or 1), int(head[4] or 1)]
        # An empty side is numbered by the line before it.
        start = (old + (left[0] == 0), new + (left[1] == 0))
        edits: list[Edit] = []
        at += 1
        while at < len(lines):
            line = lines[at] or " "  # mail programs strip blanks at the ends of lines
            if line[0] == "\\":  # "\ No newline at end of file"
                at += 1
                continue
            is_change = line[0] in "+-" and not line.startswith(("+++ ", "--- "))
            if not (is_change or (max(left) > 0 and line[0] in " +-")):
                break
            edits.append((line[0], line[1:]))
            left[0] -= line[0] != "+"
            left[1] -= line[0] != "-"
            at += 1
        yield Hunk(*start, tuple(edits))


def patch_to_text(patch: str) -> str:
    lines, note = _patch_lines(patch)
    shown = "\n".join(visible(_shorten(line)) for line in lines)
    return f"{shown}\n[{note}]" if note else shown
