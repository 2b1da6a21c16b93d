"""When a session's changes are published.

The first change after a pause goes out at once, and only the following ones are coalesced: at most
20 publications a second, fewer when they are large. Then a slow stream has the latency of one
message each, and a fast one costs next to nothing. The last state is always published before the
turn is over (`Pump.drain`).
"""

from __future__ import annotations

from typing import Final

import trio

from ..client.session import Session
from ..session.transcript import KEPT_TURNS, Turn
from .output import Output

INTERVAL: Final = 0.05
"""Seconds between two publications of a steady stream."""

BYTES_PER_SECOND: Final = 500_000
"""A Jupyter server drops streams beyond 1 MB/s; half of it leaves room for others."""


BURST: Final = 400
"""Entries published together: beyond 1,000 messages at once the kernel's own socket drops some, and
with them, at the end of a cell, the one that says that it is over."""


class Pump:
    """Publishes what changes in one session. Runs on the trio thread.

    Args:
        session: whose ``on_change`` it takes over.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._outputs: dict[int, Output] = {}
        self._changed = trio.Event()
        self._last = float("-inf")
        self._pause = INTERVAL
        session.on_change = self._wake

    def begin(self, turn: Turn, output: Output) -> None:
        """From here on, what belongs to ``turn`` is published to ``output``."""
        self._outputs[turn.number] = output
        while len(self._outputs) > KEPT_TURNS:
            del self._outputs[next(iter(self._outputs))]

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._changed.wait()
            await self._wait_until_due()
            self.flush(BURST)

    async def drain(self) -> None:
        """Publish all that has changed, in bursts; cancelled, the rest at once."""
        transcript = self._session.transcript
        try:
            while transcript.dirty:
                self.flush(BURST)
                if transcript.dirty:
                    await self._wait_until_due()
        finally:
            self.flush()

    async def _wait_until_due(self) -> None:
        # Again, where `run` or `drain` was faster: it has put off the next publication.
        while (due := self._last + self._pause) > trio.current_time():  # noqa: ASYNC110
            await trio.sleep_until(due)

    def flush(self, limit: int | None = None) -> None:
        """Publish what has changed, now; up to ``limit`` entries of it."""
        transcript = self._session.transcript
        if self._changed.is_set():  # else `run` may wait for this very one
            self._changed = trio.Event()
        sent = 0
        for entry in transcript.take_changed(limit):
            output = self._outputs.get(entry.turn)
            if output is not None:
                before = output.sent
                output.show(entry)
                sent += output.sent - before
        self._last = trio.current_time()
        self._pause = max(INTERVAL, sent / BYTES_PER_SECOND)
        if transcript.dirty:
            self._changed.set()

    def _wake(self) -> None:
        self._changed.set()
