"""Characters that deceive or that drive a terminal, and how they are shown; shortening of text.

Two levels, because prose and evidence differ:

* `visible` is for what a person judges by (titles, paths, commands, code, diffs, raw data): every
  control, bidirectional or invisible character is shown as ``⟨U+202E⟩``.
* `prose` is for what a person reads: escape sequences and control characters are removed, the
  characters that reorder text are shown, and joiners that scripts and emoji need are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

BIDI: Final = "\u202a-\u202e\u2066-\u2069"
TAGS: Final = "\U000e0000-\U000e0fff"  # invisible twins of ASCII
CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029"
    f"\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a{BIDI}{TAGS}"
)

SEQUENCE: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|\Z)"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c|\Z)"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"
)
"""A terminal's escape sequences (ECMA-48), as a regular expression without groups. Each branch
stops at the next escape character, so that matching stays linear."""

_SEQUENCE = re.compile(SEQUENCE)
_STRICT = re.compile(f"[{CONTROLS}{INVISIBLE}]")
_CONTROL = re.compile(f"[{CONTROLS}]")
_REORDERING = re.compile(f"[{BIDI}{TAGS}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")


def _code_point(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"


def _whole(text: str) -> str:
    """Line ends as ``\\n``; half characters, which cannot be encoded, as U+FFFD."""
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def visible(text: str) -> str:
    """Evidence: nothing in it is invisible but spaces, tabs and line ends."""
    return _STRICT.sub(_code_point, _whole(text))


def prose(text: str) -> str:
    """Text to read: no escape sequences, no controls, nothing that reorders it."""
    text = _whole(text)
    if "\x1b" in text or not text.isascii():
        text = _SEQUENCE.sub("", text)
        text = _REORDERING.sub(_code_point, text.replace("\u2028", "\n").replace("\u2029", "\n"))
    return _CONTROL.sub("", text.replace("\r", "\n"))


def one_line(text: object, limit: int = 200) -> str:
    """Anything as one visible line of at most about ``limit`` characters."""
    string = text if isinstance(text, str) else str(text)
    line = visible(_SPACE.sub(" ", string[: limit * 4]).strip())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Clipped:
    """A text cut in its middle; ``tail`` and ``note`` are empty if it was short enough."""

    head: str
    note: str = ""
    tail: str = ""

    def __str__(self) -> str:
        return f"{self.head}\n{self.note}\n{self.tail}" if self.note else self.head


def clip(text: str, limit: int = 20_000) -> Clipped:
    """Cut a long text in its middle, at line ends where there are some nearby."""
    if len(text) <= limit:
        return Clipped(text)
    head_end = limit * 2 // 3
    tail_start = len(text) - (limit - head_end)
    line_end = text.rfind("\n", head_end - 400, head_end)
    head_end = line_end if line_end > 0 else head_end
    line_start = text.find("\n", tail_start, tail_start + 400)
    tail_start = line_start + 1 if line_start >= 0 else tail_start
    note = f"[… {tail_start - head_end:,} characters left out …]"
    return Clipped(text[:head_end], note, text[tail_start:])
