"""What agents and users add to the protocol: methods that it does not have.

Rules:
- A user's handler is a plain function. It runs in a thread of its own, one at a time for what the
  agent tells, in the order of the wire, so that it may do anything but hold up the connection.
- A request that nobody handles is answered "method not found" (C66); a notification is ignored and
  counted (C67). Names need no leading ``_`` to be handled: agents in use have some without.
- No handler takes the place of a method that the protocol has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import trio

from ..errors import ErrorCode, Refusal, UsageError
from ..protocol.methods import AGENT_METHODS, CANCEL_REQUEST, CLIENT_METHODS

JSON = Any
Handler = Callable[[JSON], JSON]
"""Takes the parameters; of a request it returns the result, which has to be JSON."""

WAITING: Final = 1_000
"""Notifications that wait for a handler; further ones are dropped, and counted as ignored."""

COUNTED: Final = 100
"""Names of ignored notifications that are told apart."""

LONGEST: Final = 200
"""Characters of a name."""


class Extensions:
    """See the module. All methods run on the trio thread.

    Attributes:
        ignored: notifications that nobody handled, by name; the rest is counted under "".
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._sender: trio.MemorySendChannel[tuple[Handler, JSON]] | None = None
        self._receiver: trio.MemoryReceiveChannel[tuple[Handler, JSON]] | None = None
        self.ignored: dict[str, int] = {}

    def on(self, method: str, handler: Handler | None) -> None:
        """Handle requests and notifications of that name; ``None`` not any more.

        Raises:
            UsageError: the protocol has that method.
        """
        refuse_standard(method)
        if handler is None:
            self._handlers.pop(method, None)
        else:
            self._handlers[method] = handler

    async def serve(self, method: str, params: JSON) -> JSON:
        """Answer a request.

        Raises:
            Refusal: nobody handles it, or its handler failed.
        """
        handler = self._handlers.get(method)
        if handler is None:
            raise Refusal(f"Method not found: {method[:LONGEST]}", code=ErrorCode.METHOD_NOT_FOUND)
        result, failure = await trio.to_thread.run_sync(
            _called, handler, params, abandon_on_cancel=True
        )
        if failure:
            raise Refusal(failure, code=ErrorCode.INTERNAL_ERROR)
        return result

    def told(self, method: str, params: JSON, nursery: trio.Nursery | None) -> None:
        """Take a notification."""
        handler = self._handlers.get(method)
        if handler is not None and nursery is not None:
            if self._sender is None:
                self._sender, self._receiver = trio.open_memory_channel(WAITING)
                nursery.start_soon(self._deliver)
            try:
                self._sender.send_nowait((handler, params))
                return
            except trio.WouldBlock:
                pass
        name = method[:LONGEST]
        if name not in self.ignored and len(self.ignored) >= COUNTED:
            name = ""
        self.ignored[name] = self.ignored.get(name, 0) + 1

    async def _deliver(self) -> None:
        assert self._receiver is not None
        try:
            async for handler, params in self._receiver:
                await trio.to_thread.run_sync(_called, handler, params, abandon_on_cancel=True)
        finally:
            self._sender = self._receiver = None  # that connection has ended; the next begins anew


def refuse_standard(method: str) -> None:
    """Hold back a method of the protocol itself.

    Raises:
        UsageError: it is one, or no name at all.
    """
    if method in AGENT_METHODS or method in CLIENT_METHODS or method == CANCEL_REQUEST:
        raise UsageError(
            f"{method} is a method of the protocol itself",
            remedy="Names of extensions begin with `_`.",
        )
    if not method or len(method) > LONGEST:
        raise UsageError("a method needs a name", remedy="For example `_vendor/method`.")


def _called(handler: Handler, params: JSON) -> tuple[JSON, str]:
    """What a handler of the user's returned, and its failure in words for the agent."""
    try:
        result = handler(params)
        msgspec.json.encode(result)
    except Exception as error:  # noqa: BLE001 - a user's code; the agent gets its kind as an error
        return None, f"{type(error).__name__} in the handler of the client's user"
    return result, ""
