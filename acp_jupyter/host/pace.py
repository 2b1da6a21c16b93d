"""How often something is published: at once, and then once in an interval at most."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import ACPError

if TYPE_CHECKING:
    from ..connection.portal import Portal


_log = logging.getLogger(__name__)


class Pace:
    """Calls a function when asked to; the last asking is always served. On the trio thread.

    Args:
        portal: whose thread that is.
        interval: seconds between two calls.
        function: what to call.
    """

    def __init__(self, portal: Portal, interval: float, function: Callable[[], None]) -> None:
        self._portal = portal
        self._interval = interval
        self._function = function
        self._asked = False
        self._running = False

    def ask(self) -> None:
        """Have the function called: soon, or when the interval is over."""
        self._asked = True
        if self._running:
            return
        try:
            self._portal.submit(self._serve)
        except ACPError:
            return  # it is stopping, and nobody is left to be told
        self._running = True

    async def _serve(self) -> None:
        import trio

        try:
            while self._asked:
                self._asked = False
                self._call()
                await trio.sleep(self._interval)
        finally:
            self._running = False

    def _call(self) -> None:
        try:
            self._function()
        except Exception:  # noqa: BLE001  # nobody waits for it, and the next call may do better
            _log.exception("what is told to frontends could not be made")
