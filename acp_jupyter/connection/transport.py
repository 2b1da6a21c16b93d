"""What a transport is: the way to an agent and back, whatever it goes over.

`stdio` starts a process; `websocket` and `streamable_http` reach one that runs elsewhere. Each
opens in an ``async with`` whose end leaves nothing behind, and passes on bytes: whole messages, one
a line. What the lines mean, and the limits on them, are the connection's.
"""

from __future__ import annotations

from typing import Protocol

from ..errors import ACPError


class Stream(Protocol):
    """A stream of bytes to the agent and back; ``b""`` from `receive_some` is its end."""

    async def receive_some(self) -> bytes: ...

    async def send_all(self, data: bytes) -> None:
        """Raises an `AgentError` where nobody reads any more."""


class Transport(Stream, Protocol):
    """A `Stream`, and what is to be known of the agent at its other end."""

    @property
    def pid(self) -> int | None:
        """The agent's process id; ``None`` where it runs elsewhere."""

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; ``None`` while it runs, or runs elsewhere."""

    async def wait_ended(self) -> None:
        """Wait until the agent, or the connection to it, has ended."""

    def ending(self) -> str:
        """How it ended, as the end of a sentence about the agent: "exited with code 3"."""

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be shown of what is sent and received, beyond the environment's secrets."""

    @property
    def failure(self) -> ACPError | None:
        """The error that says why it ended; ``None`` where `ending` says all."""

    def stderr_tail(self, lines: int = 20) -> str:
        """The last lines of its standard error, safe to show; nothing where it runs elsewhere."""

    def survivors(self) -> list[str]:
        """Processes of this machine that lived on when the agent had ended."""

    def kill(self) -> None:
        """End it now; returns at once."""

    async def aclose(self, grace: float = 0.5) -> None:
        """End it, within ``grace`` and a little more. May be called again."""
