"""One prompt turn: what it sends, and how it ends.

Rules:
- Whatever is sent goes through `Turn.emit`, which also keeps it for ``session/load``.
- A turn ends with one stop reason or one error; a cancelled turn always with ``cancelled``.
- No tool call outlives its turn: what is unfinished at the end is marked failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acp_jupyter.demo_agent import samples, second
from acp_jupyter.demo_agent.settings import Offers
from acp_jupyter.demo_agent.store import Session, Store
from acp_jupyter.demo_agent.wire import (
    Cancelled,
    Closed,
    Connection,
    Json,
    Pending,
    RpcError,
)

CONTEXT_SIZE = {"small": 8_000, "large": 64_000}
# US dollars per token, in and out.
PRICES = {"small": (0.000_001, 0.000_004), "large": (0.000_010, 0.000_040)}

# Ending and releasing a terminal after a cancel: more than a busy client needs.
CLEAN_UP_TIMEOUT_S = 5.0


class Stop(Exception):
    """Ends the turn with a stop reason other than ``end_turn``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ToolCall:
    """One tool call of a turn; announced as ``pending`` when it is made.

    Attributes:
        state: its fields as the client knows them.
        keep: fields to remember in another form than they were sent in; a terminal lives no longer
            than its turn, so its output is remembered as text.
    """

    def __init__(self, turn: Turn, call_id: str, announcement: Json) -> None:
        self._turn = turn
        self.call_id = call_id
        self.state = announcement
        self.keep: Json = {}

    def update(self, **changes: Any) -> None:
        """Send the changed fields."""
        self.state.update(changes)
        update = {"sessionUpdate": "tool_call_update", "toolCallId": self.call_id, **changes}
        self._turn.emit(update, keep={**update, **self.keep})

    def start(self, **changes: Any) -> None:
        self.update(status="in_progress", **changes)

    def complete(self, **changes: Any) -> None:
        self._turn.open_calls.pop(self.call_id, None)
        self.update(status="completed", **changes)

    def fail(self, reason: str, **changes: Any) -> None:
        self._turn.open_calls.pop(self.call_id, None)
        self.update(status="failed", **{"rawOutput": {"error": reason}, **changes})


class Plan:
    """The plan of a turn, sent whole at every change."""

    def __init__(self, turn: Turn, items: list[str]) -> None:
        self._turn = turn
        self.entries: list[Json] = [
            {
                "content": item.removesuffix("!"),
                "priority": "high" if item.endswith("!") else "medium",
                "status": "pending",
            }
            for item in items
        ]
        self._send()

    def start_next(self) -> Json | None:
        """Mark the first pending entry as in progress; None if there is none."""
        for entry in self.entries:
            if entry["status"] == "pending":
                self.mark(entry, "in_progress")
                return entry
        return None

    def mark(self, entry: Json, status: str) -> None:
        entry["status"] = status
        self._send()

    def _send(self) -> None:
        self._turn.emit({"sessionUpdate": "plan", "entries": [dict(e) for e in self.entries]})


class Turn:
    """A running prompt turn.

    Args:
        connection: the wire.
        store: where the session is saved.
        session: the session it belongs to; its ``turns`` counts this one already.
        offers: what the client offers.
    """

    def __init__(
        self, connection: Connection, store: Store, session: Session, offers: Offers
    ) -> None:
        self.connection = connection
        self.session = session
        self.number = session.turns
        self._store = store
        self.offers = offers
        self.open_calls: dict[str, ToolCall] = {}
        self.plan: Plan | None = None
        self.cancelled = False
        self.output_length = 0
        self._asked = 0
        self._messages = 0
        self._message_kind = ""

    @property
    def prompt_id(self) -> str:
        """Id of the user's message."""
        return f"{self.session.session_id}-{self.number}-0"

    # -- sending ---------------------------------------------------------------------------------

    def emit(self, update: Json, keep: Json | None = None) -> None:
        """Send a session update and keep it (or ``keep`` in its place) in the history."""
        if update["sessionUpdate"] not in ("agent_message_chunk", "agent_thought_chunk"):
            self._message_kind = ""
        self.send_update(update)
        self.session.history.add(update if keep is None else keep)

    def send_update(self, update: Json) -> None:
        """Send a session update that is no part of the conversation's history."""
        said = second.update(update) if self.connection.second else update
        if said is not None:
            params = {"sessionId": self.session.session_id, "update": said}
            self.connection.notify("session/update", params)

    def chunk(self, content: Json, kind: str = "agent_message_chunk") -> None:
        """Send one content block of a message; text of one kind in a row is one message."""
        self.check()
        if kind != self._message_kind:
            self._messages += 1
            self._message_kind = kind
        message_id = f"{self.session.session_id}-{self.number}-{self._messages}"
        self.emit({"sessionUpdate": kind, "content": content, "messageId": message_id})

    def new_message(self) -> None:
        """The next chunk starts a message of its own."""
        self._message_kind = ""

    def write(self, text: str) -> None:
        """One chunk of the answer."""
        self.output_length += len(text)
        self.chunk({"type": "text", "text": text})

    def say(self, text: str) -> None:
        """A paragraph of the answer, in small chunks."""
        for piece in samples.pieces(text + "\n\n"):
            self.write(piece)

    def think(self, text: str) -> None:
        self.output_length += len(text)
        self.chunk({"type": "text", "text": text + "\n"}, "agent_thought_chunk")

    def tool_call(self, title: str, kind: str, name: str, **fields: Any) -> ToolCall:
        """Announce a tool call with status ``pending``."""
        self.check()
        self.session.tool_calls += 1
        call_id = f"call-{self.session.tool_calls}"
        announcement = {
            "toolCallId": call_id,
            "title": title,
            "kind": kind,
            "name": name,
            "status": "pending",
            **fields,
        }
        call = self.open_calls[call_id] = ToolCall(self, call_id, announcement)
        self.emit({"sessionUpdate": "tool_call", **announcement})
        return call

    def begin(self, method: str, params: Json) -> Pending:
        """Send a request of this session to the client; see `wait`."""
        self.check()
        if self.connection.second:
            params = second.request(method, params)
            self._asked += 1
            self.state("requires_action")
        return self.connection.begin(method, {"sessionId": self.session.session_id, **params})

    def wait(self, pending: Pending, on_cancel: Callable[[], None] | None = None) -> Any:
        """Wait for the answer; see `Connection.wait` for what it raises."""
        try:
            return self.connection.wait(
                pending, cancelled=lambda: self.cancelled, on_cancel=on_cancel
            )
        finally:
            self._asked -= self.connection.second
            if self._asked == 0:
                self.state("running")

    def state(self, state: str, **more: Any) -> None:
        """Tell whether the session works (version 2 alone has that)."""
        if self.connection.second:
            self.send_update({"sessionUpdate": "state_update", "state": state, **more})

    def request(self, method: str, params: Json) -> Any:
        """Send a request and wait for the answer."""
        return self.wait(self.begin(method, params))

    def clean_up(self, method: str, params: Json) -> Any:
        """A request that goes out although the turn is cancelled; None if it fails."""
        params = {"sessionId": self.session.session_id, **params}
        try:
            return self.connection.wait(
                self.connection.begin(method, params),
                cancelled=lambda: False,
                timeout=CLEAN_UP_TIMEOUT_S,
            )
        except RpcError:
            return None

    # -- ending ----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Called on the reader's thread; wakes the turn wherever it waits."""
        with self.connection.changed:
            self.cancelled = True
            self.connection.changed.notify_all()

    def check(self) -> None:
        """Raise if the turn was cancelled or the client is gone."""
        if self.connection.closed:
            raise Closed
        if self.cancelled:
            raise Cancelled

    def pause(self, seconds: float | None) -> None:
        """Wait, but no longer than until the turn is cancelled."""
        with self.connection.changed:
            self.connection.changed.wait_for(
                lambda: self.cancelled or self.connection.closed, seconds
            )
        self.check()

    def save(self) -> None:
        """Write the session to the store as it stands."""
        self._store.save(self.session)

    def fail_open_calls(self, reason: str) -> None:
        for call in list(self.open_calls.values()):
            call.fail(reason)

    def usage(self) -> Json:
        """The ``usage_update`` of the session as it stands."""
        session = self.session
        price_in, price_out = PRICES[session.model]
        used = session.input_tokens + session.output_tokens
        cost = session.input_tokens * price_in + session.output_tokens * price_out
        return {
            "sessionUpdate": "usage_update",
            "used": min(used, CONTEXT_SIZE[session.model]),
            "size": CONTEXT_SIZE[session.model],
            "cost": {"amount": round(cost, 6), "currency": "USD"},
        }
