"""Updates for sessions that are not known yet: agents send some before the answer that names it.

They wait for `HELD_SECONDS`, at most `HELD_UPDATES` of them, and are dropped then, which is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

from ..protocol.dialects import MAX_ID

Updates = list[dict[str, Any]]

HELD_SECONDS: Final = 10.0
HELD_UPDATES: Final = 2000


class Held:
    """See the module. On the trio thread.

    Args:
        dropped: called with how many were dropped.
    """

    def __init__(self, dropped: Callable[[int], object]) -> None:
        self._dropped = dropped
        self._waiting: deque[tuple[float, str, Updates]] = deque(maxlen=HELD_UPDATES)

    def hold(self, session_id: str, updates: Updates, nursery: trio.Nursery | None) -> None:
        """Keep updates until their session is known."""
        dropped = self._drop_until(trio.current_time() - HELD_SECONDS)
        if len(self._waiting) == HELD_UPDATES:
            dropped += 1
        self._waiting.append((trio.current_time(), session_id[: MAX_ID + 1], updates))
        if len(self._waiting) == 1 and nursery is not None:
            nursery.start_soon(self._drop_old)
        if dropped:
            self._dropped(dropped)

    def take(self, session_id: str) -> list[Updates]:
        """The updates of a session that is known now, in order."""
        waiting, self._waiting = self._waiting, deque(maxlen=HELD_UPDATES)
        found: list[Updates] = []
        for item in waiting:
            if item[1] == session_id:
                found.append(item[2])
            else:
                self._waiting.append(item)
        return found

    async def _drop_old(self) -> None:
        while self._waiting:
            await trio.sleep_until(self._waiting[0][0] + HELD_SECONDS)
            dropped = self._drop_until(trio.current_time() - HELD_SECONDS)
            if dropped:
                self._dropped(dropped)

    def _drop_until(self, time: float) -> int:
        dropped = 0
        while self._waiting and self._waiting[0][0] <= time:
            self._waiting.popleft()
            dropped += 1
        return dropped
