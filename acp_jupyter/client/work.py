"""A prompt of version 2: sent, accepted, and waited for until the agent has stopped working."""

from __future__ import annotations

from typing import Any, Final, Protocol

import trio

from ..connection.connection import request_error
from ..errors import ACPError, ErrorCode
from ..protocol.v2 import NO_REASON, Ended, Foreground
from ..session.reducer import Reducer

JSON = Any

_NO_DETAILS: Final = {"code": ErrorCode.INTERNAL_ERROR, "message": "it gave no details"}


class Worker(Protocol):
    """What this needs of an agent."""

    async def request(self, method: str, params: JSON) -> JSON: ...

    async def wait_gone(self) -> ACPError:
        """Wait until the agent cannot be heard any more; returns why."""


class Work:
    """The prompts of one session, one after the other. All methods run on the trio thread.

    Args:
        reducer: of the session's transcript, which sees the updates.
    """

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._over = trio.Event()
        self._error: ACPError | None = None

    async def prompt(self, agent: Worker, params: dict[str, Any]) -> JSON:
        """Send a prompt and wait for the end of the work that it began.

        Returns:
            The answer to ``session/prompt`` in the form of version 1.

        Raises:
            RequestError: the prompt was not accepted, or the work ended with an error.
            ACPError: the agent has ended, or was given up.
        """
        self._over, self._error = trio.Event(), None
        foreground = Foreground(self._reducer.transcript.info.state)
        self._reducer.foreground = foreground
        try:
            foreground.accept(await agent.request("session/prompt", params))
            self.look()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, agent)
                await self._over.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._reducer.foreground = None
        if foreground.ended is None:
            assert self._error is not None
            raise self._error
        return self._answer(foreground.ended)

    def look(self) -> None:
        """All that had arrived was applied: is the work over?"""
        foreground = self._reducer.foreground
        if foreground is not None and foreground.ended is not None:
            self._over.set()

    def fail(self, error: ACPError) -> None:
        """Give up the prompt that waits, if any does."""
        self._error = self._error or error
        self._over.set()

    async def _watch(self, agent: Worker) -> None:
        self.fail(await agent.wait_gone())

    def _answer(self, end: Ended) -> JSON:
        if end.stop_reason == "error":
            raise request_error("the agent's work ended with an error", end.error or _NO_DETAILS)
        reason = end.stop_reason
        if reason == NO_REASON:
            reason = "end_turn"
            self._reducer.notice("no-reason", "The agent did not say why it stopped.")
        return {"stopReason": reason, "usage": end.usage}
