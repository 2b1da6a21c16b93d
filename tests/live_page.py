"""A page with the extension, as the kernel meets it: a comm of target ``acp.live``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.live_kernel import LiveKernel

REPLY = 20.0
"""Seconds; generous, because a test machine may be busy."""


class LivePage:
    """One page that is connected to a kernel.

    Args:
        kernel: the kernel.
        subshell: the id of the subshell that its messages name, if any.
        greet: say hello, and wait for the first state.
    """

    def __init__(
        self, kernel: LiveKernel, subshell: str | None = None, *, greet: bool = True
    ) -> None:
        self.kernel = kernel
        self.comm_id = uuid4().hex
        self._header = {} if subshell is None else {"subshell_id": subshell}
        self._begun = len(kernel.seen)
        self._requests = 0
        self.send("comm_open", target_name="acp.live", data={})
        if greet:
            self.ask("hello", version=1)
            self.wait(lambda: self.states)

    def send(self, kind: str, **content: Any) -> str:
        """Send a comm message; returns its id."""
        content = {"comm_id": self.comm_id, **content}
        return self.kernel.send("shell", kind, content, header=self._header)

    def close(self) -> None:
        self.send("comm_close", data={})

    # -- what it gets --------------------------------------------------------------------------

    @property
    def received(self) -> list[dict[str, Any]]:
        """The data of the messages so far; each message must belong to no cell."""
        found = [
            message
            for message in self.kernel.seen[self._begun :]
            if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self.comm_id
        ]
        assert all(message["parent_header"] == {} for message in found)
        return [message["content"]["data"] for message in found]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [data for data in self.received if data["type"] == kind]

    @property
    def states(self) -> list[list[dict[str, Any]]]:
        return [data["links"] for data in self.of_type("state")]

    @property
    def statuses(self) -> list[str]:
        """The statuses of the first link, each once while it lasts."""
        found: list[str] = []
        for links in self.states:
            status = links[0]["status"] if links else "none"
            if not found or found[-1] != status:
                found.append(status)
        return found

    @property
    def link(self) -> dict[str, Any]:
        """The first link in its newest state."""
        return self.states[-1][0]

    def wait(self, until: Callable[[], Any], limit: float = REPLY) -> None:
        self.kernel.read(until, limit)

    def wait_status(self, status: str) -> None:
        self.wait(lambda: self.states and self.statuses[-1] == status)

    def wait_question(self) -> dict[str, Any]:
        self.wait(lambda: self.states and self.states[-1] and self.link["questions"])
        question: dict[str, Any] = self.link["questions"][0]
        return question

    # -- what it asks --------------------------------------------------------------------------

    def start(self, kind: str, **fields: Any) -> str:
        """Send a request; returns its id."""
        self._requests += 1
        ident = f"{self.comm_id}-{self._requests}"
        self.send("comm_msg", data={"id": ident, "type": kind, **fields})
        return ident

    def reply(self, ident: str) -> dict[str, Any]:
        """Wait for the reply to a request."""
        found: list[dict[str, Any]] = []

        def replied() -> bool:
            found[:] = [data for data in self.of_type("reply") if data["id"] == ident]
            return bool(found)

        self.wait(replied)
        assert len(found) == 1
        return found[0]

    def ask(self, kind: str, **fields: Any) -> Any:
        """Send a request and wait for its value; it must be granted."""
        reply = self.reply(self.start(kind, **fields))
        assert reply["ok"] is True, reply
        return reply["value"]

    def refused(self, kind: str, **fields: Any) -> str:
        """Send a request and wait for the error that refuses it."""
        reply = self.reply(self.start(kind, **fields))
        assert reply["ok"] is False, reply
        error: str = reply["error"]
        assert error
        return error
