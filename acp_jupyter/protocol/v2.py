"""Version 2: when the work that a prompt began has ended. Pure.

There the answer to ``session/prompt`` is a receipt. What the agent does is told by
``state_update``: it works, it waits for the user, it is idle; the last one says why it stopped.
Agents also work without a prompt, repeat what they said, and take a prompt into work that goes on
already. `Foreground` tells which idle is the end of the turn:

* Nothing ends a turn before its prompt was accepted; an error in place of the receipt is its end.
* An idle counts once the agent was seen at work since the prompt was sent, or once it answered
  (some agents never say that they work). Any other one repeats what was known before.
* Was the agent at work already, an idle counts once the prompt has its place among the messages, or
  the agent began to work again.
* Between an idle and the receipt, work that begins again takes the idle back.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .dialects import MAX_ID, dicts

JSON = Any
Dict = dict[str, Any]

IDLE: Final = "idle"

NO_REASON: Final = ""
"""The stop reason of an agent that reports none."""

ANSWER: Final = frozenset(
    {
        "agent_message_chunk",
        "agent_message",
        "agent_thought_chunk",
        "agent_thought",
        "tool_call_update",
        "tool_call_content_chunk",
        "plan_update",
    }
)
"""The kinds of update that a prompt is answered by."""


class Ended(msgspec.Struct, frozen=True):
    """Why the agent stopped.

    Attributes:
        stop_reason: an open set, `NO_REASON` where none was reported.
        error: JSON-RPC error object of the reason ``error``, else ``None``.
        usage: token counts of the work; may be empty.
    """

    stop_reason: str
    error: Dict | None = None
    usage: Dict = {}


class Foreground:
    """One prompt, from when it is sent.

    Args:
        state: of the session when it is sent; ``None`` if the agent has told none.
    """

    def __init__(self, state: str | None) -> None:
        self._worked_before = state not in (None, IDLE)
        self._works = False
        self._answered = False
        self._inserted = False
        self._accepted = False
        self._message_id: str | None = None
        self._users: set[str] = set()
        self._idle: Ended | None = None
        self.ended: Ended | None = None

    def accept(self, result: JSON) -> None:
        """The prompt was accepted: ``{"messageId"}``, or ``{}`` from older agents."""
        self._accepted = True
        ident = result.get("messageId") if type(result) is dict else None
        if type(ident) is str:
            self._message_id = ident
            self._inserted = ident in self._users
        if self._idle is not None and self._counts(self._idle, placed=self._inserted):
            self.ended = self._idle

    def take(self, update: Dict) -> None:
        """An update of the session that came since the prompt was sent."""
        kind = update.get("sessionUpdate")
        if kind in ("user_message", "user_message_chunk"):
            ident = update.get("messageId")
            if type(ident) is str and len(ident) <= MAX_ID and len(self._users) < MAX_ID:
                self._users.add(ident)
            self._inserted = self._message_id in (None, ident) or self._inserted
        elif kind in ANSWER:
            self._answered = True
        elif kind == "state_update" and self.ended is None:
            self._take_state(update)

    def _take_state(self, update: Dict) -> None:
        if update.get("state") != IDLE:
            self._works = True
            self._idle = None
            return
        idle = ended(update)
        if not self._accepted:
            self._idle = idle
        elif self._counts(idle, placed=self._inserted or self._message_id is None):
            self.ended = idle

    def _counts(self, idle: Ended, *, placed: bool) -> bool:
        if self._works:
            return True
        if self._worked_before:
            return placed
        return self._answered and idle.stop_reason != NO_REASON


def ended(update: Dict) -> Ended:
    """What an idle ``state_update`` says of the end; what is malformed counts as not said."""
    reason, error, usage = update.get("stopReason"), update.get("error"), update.get("usage")
    return Ended(
        stop_reason=reason[:100] if type(reason) is str else NO_REASON,
        error=error if reason == "error" and type(error) is dict else None,
        usage=usage if type(usage) is dict else {},
    )


def supported(data: JSON) -> list[int]:
    """The versions that an agent names in the data of the error "unsupported protocol version"."""
    versions = data.get("supported") if type(data) is dict else None
    if type(versions) is not list:
        return []
    return [version for version in versions if type(version) is int]


def background(update: Dict) -> list[Dict] | None:
    """What runs apart from the work that the session waits for; ``None`` if that is not told."""
    value = update.get("background")
    return dicts(value) if type(value) is list else None
