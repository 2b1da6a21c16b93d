"""What is kept of a terminal's output, and the terminal as its user sees it.

Rules:

- Of the output the tail is kept, in bytes; text begins and ends at whole characters.
- Whoever follows a terminal reads what came since, at a pace of their own; one that is slower than
  the output misses a part, and is told.
- A view outlives its terminal: what was shown stays.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from .terminals import CommandRequest

__all__ = ["SHOWN_LIMIT", "Tail", "TerminalView"]

SHOWN_LIMIT: Final = 2**16
"""Bytes of output kept for the user: what a notebook can hold."""

ID_PREFIX: Final = "term_"


class Tail:
    """The last bytes of a stream, read as text.

    Args:
        size: bytes kept.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.total = 0
        self._kept = bytearray()
        self._lot = trio.lowlevel.ParkingLot()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._kept += data
        if len(self._kept) > self.size:
            del self._kept[: len(self._kept) - self.size]
        self.wake()

    def cut(self, size: int) -> None:
        """Keep no more than the last ``size`` bytes from now on."""
        self.size = min(self.size, size)
        del self._kept[: max(0, len(self._kept) - self.size)]

    def wake(self) -> None:
        """Let those who wait look again. On trio's thread, as all that follows."""
        self._lot.unpark_all()

    async def wait(self) -> None:
        """Wait until there is more, or the terminal has ended."""
        await self._lot.park()

    def since(self, position: int) -> tuple[bytes, int]:
        """What is kept of the bytes from ``position`` on, and how many before it are lost."""
        lost = max(0, self.total - len(self._kept) - position)
        new = self.total - position - lost
        return bytes(self._kept[len(self._kept) - new :]) if new else b"", lost

    def text(self, limit: int, *, final: bool) -> tuple[str, bool]:
        """The last ``limit`` bytes, and whether any came before them.

        Begins at a whole character; what is not UTF-8 is replaced. Unless ``final``, a character
        of which only the beginning has arrived is left out.
        """
        limit = min(limit, self.size)
        truncated = self.total > limit
        data = bytes(self._kept[max(0, len(self._kept) - limit) :])
        if truncated:
            data = data[_first_character(data) :]
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)
        encoded = text.encode()
        if len(encoded) > limit:  # replacements are longer than what they replace
            encoded = encoded[len(encoded) - limit :]
            return encoded[_first_character(encoded) :].decode(), True
        return text, truncated


def _first_character(data: bytes) -> int:
    """How many bytes at the start continue a character whose beginning was cut off."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:
        count += 1
    return count


class TerminalView:
    """A terminal as the user sees it; stays when the agent has released it.

    Attributes:
        terminal_id: the client's id.
        argv: the command and its arguments.
        cwd: absolute working directory.
        exit_code: ``None`` while it runs, and when a signal ended it.
        signal: name of that signal, such as ``SIGTERM``.
        running: whether the command runs.
        started: when it started, in `time.monotonic` seconds.
        ended: when it ended; ``None`` while it runs.
    """

    def __init__(self, terminal_id: str, request: CommandRequest, tail: Tail) -> None:
        self.terminal_id = terminal_id
        self.argv = list(request.argv)
        self.cwd = request.cwd
        self.exit_code: int | None = None
        self.signal: str | None = None
        self.running = True
        self.started = time.monotonic()
        self.ended: float | None = None
        self.tail = tail
        self._stop: Callable[[], None] | None = None

    @property
    def output(self) -> str:
        """The end of the output; decoded anew each time it is asked for."""
        return self.tail.text(SHOWN_LIMIT, final=not self.running)[0]

    @property
    def truncated(self) -> bool:
        """Whether `output` lacks the beginning."""
        return self.tail.total > min(SHOWN_LIMIT, self.tail.size)

    def exit_status(self) -> dict[str, Any]:
        """``TerminalExitStatus`` of the schema."""
        return {"exitCode": self.exit_code, "signal": self.signal}

    @property
    def number(self) -> int:
        """What the user calls it: the number in its id."""
        return int(self.terminal_id.removeprefix(ID_PREFIX))

    @property
    def elapsed(self) -> float:
        """Seconds that the command runs, or ran."""
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    def stop(self) -> bool:
        """The user ends the command, and all that it started; whether it ran.

        The agent is told what it would be told of any command that a signal ended.
        """
        if not self.running or self._stop is None:
            return False
        self._stop()
        return True

    def set_running(self, stop: Callable[[], None] | None) -> None:
        """By the service: the command runs from now on, and is stopped so; ``None``: it does not
        run any more."""
        if stop is not None:
            self.started = time.monotonic()
        elif self.ended is None:
            self.ended = time.monotonic()
            self.running = False
        self._stop = stop
        self.tail.wake()
