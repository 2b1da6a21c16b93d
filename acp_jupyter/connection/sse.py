"""Server-sent events: bytes to messages, in any cut and of any size.

Only ``data`` matters here; the other fields and comments are dropped. Nothing is held back but the
name of a field, so the limits on a message are those of whoever takes the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["EventReader"]

LONGEST_NAME: Final = 64
"""Bytes of a field's name; what has no colon until then is no field."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"

_NAME, _DATA, _OTHER = range(3)


class EventReader:
    """Takes the bytes of one event stream."""

    def __init__(self) -> None:
        self._state = _NAME
        self._name = bytearray()
        self._value_begins = False
        self._has_data = False
        self._after_return = False
        self._first = True

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Pieces of messages in order, and whether each ends its message.

        Lines of one message are joined by a space: what they hold is JSON, where a line's end means
        no more than that.
        """
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        begin = 0
        while begin < len(data):
            end = _LINE_END.search(data, begin)
            yield from self._part(data[begin : end.start() if end else len(data)])
            if end is None:
                return
            begin = end.end()
            self._after_return = end[0] == b"\r" and begin == len(data)
            if self._state == _NAME and not self._name and self._has_data:
                self._has_data = False
                yield b"", True
            self._state = _NAME
            self._name.clear()

    def _part(self, part: bytes) -> Iterator[tuple[bytes, bool]]:
        if self._state == _NAME:
            self._name += part
            if self._first and len(self._name) >= len(_BOM):
                self._first = False
                if self._name.startswith(_BOM):
                    del self._name[: len(_BOM)]
            name, colon, rest = bytes(self._name).partition(b":")
            if not colon:
                if len(name) > LONGEST_NAME:
                    self._state = _OTHER
                return
            self._state = _DATA if name == b"data" else _OTHER
            self._value_begins = True
            part = rest
        if self._state != _DATA or not part:
            return
        if self._value_begins:
            self._value_begins = False
            part = part.removeprefix(b" ")
            if self._has_data:
                part = b" " + part
            self._has_data = True
        if part:
            yield part, False
