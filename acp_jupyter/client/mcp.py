"""The MCP servers that sessions are told of, and the one that the client itself is.

Rules:

- A server goes to an agent only by a transport that it advertised (C24); where it did not, the
  session is not opened, and the error names the capability.
- What the client shares (`Shared`) is offered as MCP over ACP where the agent takes that, else as a
  program that leads back here, where there is one. Each session gets an address of its own: who
  asks there is that session, and its user is asked for permission.
- ``mcp/message`` is served for addresses that were offered on this connection, and no others. In
  the protocol's earlier form an agent connects first, and messages name the connection.
- Servers that one session was opened with are told again when it is opened again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import ErrorCode, Refusal, UsageError
from ..protocol import mcp, outgoing
from ..services.mcp.servers import Ready

if TYPE_CHECKING:
    from .agent import Agent
    from .session import Session

JSON = Any

SERVED: Final = frozenset({"mcp/connect", "mcp/message", "mcp/disconnect"})
"""Methods of the agent's, where anything is shared; only the second is in today's schema."""

CONNECTIONS: Final = 100
"""Of the earlier form, that one agent may have at once."""

SESSIONS: Final = 1_000
"""Sessions whose own servers are remembered."""


class Shared(Protocol):
    """What the client offers to agents as an MCP server; made by a surface."""

    name: str

    def server(self, session: Callable[[], Session | None]) -> mcp.Server:
        """A server for one session; none yet while it is opened, none when that is over."""

    def bridge(self, server: mcp.Server) -> dict[str, Any]:
        """A program that leads to a server, as an item of ``mcpServers`` in version 1; POSIX."""


class McpServers:
    """What the sessions of one client are told of. On the trio thread.

    Attributes:
        servers: those of each session, by name; each is made ready for the session's folder,
            and an agent that runs on this machine or elsewhere.
        shared: what the client offers itself; ``None`` for nothing.
    """

    def __init__(self) -> None:
        self.servers: dict[str, Callable[[str, bool], Ready]] = {}
        self.shared: Shared | None = None
        self._own: dict[str, tuple[Ready, ...]] = {}

    def own(self, session_id: str) -> tuple[Ready, ...]:
        """The servers that one session was opened with, besides those of all sessions."""
        return self._own.get(session_id, ())

    def keep(self, session_id: str, own: tuple[Ready, ...]) -> None:
        """Remember `own`."""
        if own:
            self._own[session_id] = own
            if len(self._own) > SESSIONS:
                del self._own[next(iter(self._own))]


class Offers:
    """What the sessions of one agent were told of.

    Args:
        agent: whose sessions they are.

    Attributes:
        all: what its client wants them to be told.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.all = McpServers()
        self._open: list[Offer] = []
        self._connected: dict[str, mcp.Server] = {}

    def begin(self, cwd: str, own: Sequence[Ready] = ()) -> Offer:
        """What a session that is opened now is told of.

        Args:
            cwd: its folder.
            own: servers for it alone.

        Raises:
            UsageError: the agent does not reach one of them, or one cannot be used now.
        """
        if self._agent.replay is not None:  # the agent of a recording reaches nothing
            return Offer((), [])
        here = self._agent.spec.remote is None
        servers = {name: ready(cwd, here) for name, ready in self.all.servers.items()}
        servers |= {ready.name: ready for ready in own}
        for ready in servers.values():
            check(self._agent, ready)
            self._agent.conceal(ready.secrets)
        offer = Offer(tuple(own), [*servers.values()])
        if self.all.shared is not None:
            self._share(self.all.shared, offer)
        open_ones = set(self._agent.sessions.values())
        self._open = [old for old in self._open if old.session in open_ones] + [offer]
        return offer

    def done(self, offer: Offer, session: Session) -> None:
        """The session is open."""
        offer.session = session
        self.all.keep(session.session_id, offer.own)

    def facts(self, session: Session) -> list[dict[str, str]]:
        """What an open session was told of: ``name``, ``transport`` and ``digest``."""
        offer = next((offer for offer in self._open if offer.session is session), None)
        return offer.facts if offer is not None else []

    @property
    def sharing(self) -> bool:
        """Whether any server was offered as MCP over ACP."""
        return any(offer.server is not None for offer in self._open)

    async def serve(self, method: str, params: JSON) -> JSON:
        """One of `SERVED`, of the agent's.

        Raises:
            Refusal: it is for no server that was offered.
        """
        if type(params) is not dict:
            raise Refusal(f"{method} needs parameters", code=ErrorCode.INVALID_PARAMS)
        connection = params.get("connectionId")
        if method == "mcp/connect":
            return {"connectionId": self._connect(self._find(params))}
        if method == "mcp/disconnect":
            if type(connection) is str:
                self._connected.pop(connection, None)
            return {}
        inner = params.get("method")
        if type(inner) is not str:
            raise Refusal("mcp/message needs a method", code=ErrorCode.INVALID_PARAMS)
        if type(connection) is not str:
            return await self._find(params).answer(inner, params.get("params"))
        if connection not in self._connected:
            raise Refusal("no such MCP connection", code=ErrorCode.RESOURCE_NOT_FOUND)
        answer = await self._connected[connection].answer(inner, params.get("params"))
        if "error" in answer:
            raise Refusal(answer["error"]["message"], code=answer["error"]["code"])
        return answer["result"]

    def _find(self, params: dict[str, Any]) -> mcp.Server:
        for offer in self._open:
            if offer.server is not None and offer.ident == params.get("serverId"):
                return offer.server
        raise Refusal("no such MCP server", code=ErrorCode.RESOURCE_NOT_FOUND)

    def _connect(self, server: mcp.Server) -> str:
        ident = secrets.token_hex(16)
        self._connected[ident] = server
        if len(self._connected) > CONNECTIONS:
            del self._connected[next(iter(self._connected))]
        return ident

    def check_shared(self) -> str:
        """How the agent can be given what the client shares: "acp" or "stdio".

        Raises:
            UsageError: in no way.
        """
        transports = _transports(self._agent)
        if "acp" in transports:
            return "acp"
        if "stdio" in transports and self._agent.spec.remote is None and os.name == "posix":
            return "stdio"
        raise UsageError(
            f"agent {self._agent.spec.name!r} cannot be given what is shared: it does not "
            "advertise MCP over ACP, nor can a program of this machine be its MCP server",
            remedy="`%acp share off` takes it back; values can be sent in prompts, as @NAME.",
        )

    def _share(self, shared: Shared, offer: Offer) -> None:
        """Add what the client shares to an offer."""
        server = shared.server(lambda: self._session_of(offer))
        message: dict[str, Any]
        if self.check_shared() == "acp":
            offer.ident, offer.server = secrets.token_hex(16), server
            message = {"type": "acp", "name": shared.name, "serverId": offer.ident}
        else:
            message = shared.bridge(server)
            self._agent.conceal(item["value"] for item in message["env"])
        offer.messages.append(message)
        transport = message.get("type", "stdio")
        offer.facts.append({"name": shared.name, "transport": transport, "digest": ""})

    def _session_of(self, offer: Offer) -> Session | None:
        """The session of an offer, while it is open and anything is shared."""
        session = None if self.all.shared is None else offer.session
        open_ones = self._agent.sessions.values()
        return session if session is not None and session in open_ones else None


class Offer:
    """What one session is told of.

    Args:
        own: servers for it alone.
        servers: all, but for what the client shares.

    Attributes:
        messages: ``mcpServers``.
        facts: see `Offers.facts`.
        session: once it is open.
        ident, server: of what is shared by MCP over ACP.
    """

    def __init__(self, own: tuple[Ready, ...], servers: Sequence[Ready]) -> None:
        self.own = own
        self.messages = [ready.message for ready in servers]
        self.facts = [
            {"name": ready.name, "transport": ready.transport, "digest": ready.digest}
            for ready in servers
        ]
        self.session: Session | None = None
        self.ident = ""
        self.server: mcp.Server | None = None


def check(agent: Agent, ready: Ready) -> None:
    """Check that an agent reaches servers that way (C24).

    Raises:
        UsageError: it does not.
    """
    if ready.transport not in _transports(agent):
        where = "session.mcp" if agent.version > 1 else "mcpCapabilities"
        raise UsageError(
            f"agent {agent.spec.name!r} cannot use MCP server {ready.name!r}: it does not "
            f"advertise {where}.{ready.transport}",
            remedy=f"Leave it out (`%acp mcp remove {ready.name}`), or use another agent.",
        )


def _transports(agent: Agent) -> frozenset[str]:
    return frozenset() if agent.initialized is None else outgoing.mcp_transports(agent.initialized)
