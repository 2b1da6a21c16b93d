"""Output of a command as text that a real terminal can be given, piece by piece.

What drives a terminal beyond the line that is being written is left out: a command must not set
the title or the clipboard, move about, or make the terminal answer as if its user had typed. Kept
are colours and text styles, carriage return, backspace and "erase line". Characters that deceive
are made visible, as in outputs (`ansi`).
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from .characters import visible

LONGEST: Final = 4096
"""Characters of a sequence whose end is waited for."""

_TOKEN: Final = re.compile(
    r"(?:\x1b\[|\x9b)(?P<kept>[0-9;:]*m|[0-2]?K)"
    r"|(?P<dropped>(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"
    r"|\x1b[ -/]*(?![\[\]PX^_])[0-~])"
    r"|(?P<begun>(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b[ -/]*"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*\x1b?)\Z)"
    r"|(?P<move>[\r\x08]+)"
    r"|(?P<text>[^\x1b\x90\x98\x9b\x9d\x9e\x9f\r\x08]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)


class TerminalText:
    """See the module; made for one stream from its beginning, or from anywhere in it."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """What can be shown of the next bytes.

        A character or sequence of which only the beginning has come is kept for the next call,
        unless this is the ``final`` one.
        """
        text = self._begun + self._decoder.decode(data, final)
        self._begun = ""
        shown = []
        for match in _TOKEN.finditer(text):
            value = match[0]
            match match.lastgroup:
                case "kept":
                    shown.append(f"\x1b[{match['kept']}")
                case "text":
                    shown.append(visible(value))
                case "move":
                    shown.append(value)
                case "begun" if not final and len(value) <= LONGEST:
                    self._begun = value
        return "".join(shown)
