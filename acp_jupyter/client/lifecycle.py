"""The sessions of an agent: opened, listed, forked, closed and deleted.

Rules:
- What the agent did not advertise is not called (C15-C19): a `UsageError` says what it lacks.
- A session is known here before the agent is asked for its history, so that all of it lands in
  its transcript. One that could not be opened is forgotten again.
- All roots are sent each time a session is opened (C20-C22), to agents that take them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from ..errors import (
    AgentError,
    AgentUnresponsive,
    AuthenticationRequired,
    Refusal,
    RemoteProtocolError,
    RequestError,
    TurnRunning,
    UsageError,
)
from ..protocol import dialects
from ..protocol.listing import Listed, page
from ..protocol.methods import supports
from ..services.mcp.servers import Ready
from ..services.policy import Policy
from .mcp import Offer, Offers
from .session import Session

if TYPE_CHECKING:
    from .agent import Agent

JSON = Any
Meta = Mapping[str, Any]

LISTED: Final = 1_000
PAGES: Final = 200
"""Sessions and pages after which a list is not gone on with: nobody reads further."""

ADDITIONAL_DIRECTORIES: Final = ("sessionCapabilities", "additionalDirectories")

ANSWER_LIMIT: Final = 30.0
"""Seconds an agent has to list a page, to close or to delete a session."""

WORDS: Final = {
    "session/list": "list its sessions",
    "session/load": "load sessions",
    "session/resume": "resume sessions",
    "session/fork": "fork sessions",
    "session/close": "close sessions",
    "session/delete": "delete sessions",
}
"""What a method is for, to end "this agent cannot …"."""


class Lifecycle:
    """See the module. One per agent; all methods run on the trio thread.

    Attributes:
        mcp: the MCP servers that sessions are told of.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.mcp = Offers(agent)

    def require(self, method: str) -> None:
        """Check that the agent advertised what a method needs.

        Raises:
            UsageError: it did not.
        """
        if not self._agent.offers(method):
            name = self._agent.spec.name
            raise UsageError(
                f"agent {name!r} cannot {WORDS[method]}",
                remedy=f"It does not advertise {method}; `%acp` shows what it can do.",
            )

    async def new(
        self,
        cwd: str,
        *,
        policy: Policy,
        meta: Meta | None = None,
        mcp_servers: Sequence[Ready] = (),
    ) -> Session:
        """Open a session in ``cwd`` (absolute), with further MCP servers for it alone.

        Raises:
            UsageError: the agent cannot use one of the MCP servers.
            AuthenticationRequired: the user has to log in first.
            ACPError: it failed.
        """
        offer = self.mcp.begin(cwd, mcp_servers)
        return await self._made("session/new", self._params(cwd, meta, offer), cwd, policy, offer)

    async def fork(self, session: Session, *, meta: Meta | None = None) -> Session:
        """Open a session that begins where another one is now.

        Raises:
            UsageError: the agent cannot.
            ACPError: it failed.
        """
        self.require("session/fork")
        offer = self.mcp.begin(session.cwd, self.mcp.all.own(session.session_id))
        params = {"sessionId": session.session_id, **self._params(session.cwd, meta, offer)}
        policy = session.permissions.policy
        return await self._made("session/fork", params, session.cwd, policy, offer, history=True)

    async def load(
        self, session_id: str, cwd: str, *, policy: Policy, meta: Meta | None = None
    ) -> Session:
        """Open an earlier session again, its history replayed into the transcript (C15).

        Raises:
            UsageError: the agent cannot load sessions, or it is open.
            ACPError: it failed; the session is not open.
        """
        return await self._reopened("session/load", session_id, cwd, policy, meta)

    async def resume(
        self, session_id: str, cwd: str, *, policy: Policy, meta: Meta | None = None
    ) -> Session:
        """Open an earlier session again; its history is not asked for (C16).

        Agents that replay it all the same have it folded, as `load` has it.

        Raises:
            UsageError: the agent cannot resume sessions, or it is open.
            ACPError: it failed; the session is not open.
        """
        return await self._reopened("session/resume", session_id, cwd, policy, meta)

    async def reopen(self, session_id: str, cwd: str, *, policy: Policy) -> Session:
        """Open an earlier session again in the way that the agent has: resumed, else loaded.

        Raises:
            UsageError: it has neither.
            ACPError: it failed.
        """
        if self._agent.offers("session/resume"):
            try:
                return await self.resume(session_id, cwd, policy=policy)
            except RequestError:  # some advertise it, and then do not know it
                if not self._agent.offers("session/load"):
                    raise
        return await self.load(session_id, cwd, policy=policy)

    @property
    def reopens(self) -> bool:
        """Whether the agent can open earlier sessions again."""
        return self._agent.offers("session/resume") or self._agent.offers("session/load")

    async def listed(self, cwd: str | None = None) -> tuple[list[Listed], bool]:
        """The sessions that the agent knows, all pages, in its order.

        Args:
            cwd: only those of that directory.

        Returns:
            The sessions, and whether those are all: a list without an end is cut.

        Raises:
            UsageError: the agent cannot list sessions.
            ACPError: it failed.
        """
        self.require("session/list")
        found: dict[str, Listed] = {}
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(PAGES):
            params = {"cwd": cwd, "cursor": cursor}
            given = {key: value for key, value in params.items() if value is not None}
            sessions, cursor = page(await self._answered("session/list", given))
            for item in sessions:
                found.setdefault(item.session_id, item)
            if cursor is None:
                return [*found.values()], True
            if cursor in seen or len(found) > LISTED:
                break
            seen.add(cursor)
        return [*found.values()][:LISTED], False

    async def close(self, session: Session) -> None:
        """End a session: the agent keeps it, but has done with it (C17).

        Raises:
            UsageError: the agent cannot close sessions.
            TurnRunning: a turn is running in it.
            ACPError: it failed.
        """
        self.require("session/close")
        _refuse_running(session)
        await self._answered("session/close", {"sessionId": session.session_id})
        await self._forget(session)

    async def delete(self, session_id: str) -> None:
        """Have the agent forget a session for good; one that is open is closed by that (C19).

        Raises:
            UsageError: the agent cannot delete sessions.
            TurnRunning: a turn is running in it.
            ACPError: it failed.
        """
        self.require("session/delete")
        session = self._agent.sessions.get(session_id)
        if session is not None:
            _refuse_running(session)
        await self._answered("session/delete", {"sessionId": session_id})
        if session is not None:
            await self._forget(session)

    # -- how ---------------------------------------------------------------------------------

    def _params(self, cwd: str, meta: Meta | None, offer: Offer) -> dict[str, Any]:
        extra: dict[str, Any] = {} if meta is None else {"_meta": dict(meta)}
        roots = [root for root in self._agent.workplace.roots if root != cwd]
        if roots and supports(self._agent.agent_capabilities, ADDITIONAL_DIRECTORIES):
            extra["additionalDirectories"] = roots
        return {"cwd": cwd, "mcpServers": offer.messages, **extra}

    async def _made(
        self,
        method: str,
        params: JSON,
        cwd: str,
        policy: Policy,
        offer: Offer,
        *,
        history: bool = False,
    ) -> Session:
        agent = self._agent
        with agent.opening():
            try:
                answer = await agent.request(method, params)
                state = dialects.session_state(answer)
                ident = dialects.session_id_of({"sessionId": state.session_id})
            except AuthenticationRequired as error:
                error.remedy = error.remedy or how_to_log_in(agent)
                raise
            except Refusal as error:
                raise RemoteProtocolError(
                    f"the agent's answer to {method} has no usable session id",
                    remedy="`%acp log` shows it; the agent needs a fix.",
                ) from error
            session = agent.add_session(ident, cwd, policy)
        self.mcp.done(offer, session)
        session.reducer.session_state(state)
        if history:
            session.reducer.begin_history()
        agent.hand_over(session)
        if history:
            session.reducer.end_history()
        return session

    async def _reopened(
        self, method: str, session_id: str, cwd: str, policy: Policy, meta: Meta | None
    ) -> Session:
        self.require(method)
        agent = self._agent
        if session_id in agent.sessions:
            raise UsageError(
                "that session is open already", remedy="`%acp sessions use` makes it the current."
            )
        offer = self.mcp.begin(cwd, self.mcp.all.own(session_id))
        session = agent.add_session(session_id, cwd, policy)
        self.mcp.done(offer, session)
        reducer = session.reducer
        reducer.begin_history()
        params = {"sessionId": session_id, **self._params(cwd, meta, offer)}
        replayed: list[object] = []
        try:
            answer = await agent.request(
                method, params, on_answer=lambda: replayed.append(reducer.end_history())
            )
            if not answer and not any(replayed) and method == "session/load" and agent.version == 1:
                # The protocol wants a replay; agents on the Python SDK say "no such session" so.
                raise AgentError(
                    "the agent answered session/load with nothing and replayed nothing"
                )
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await self._forget(session)
            if isinstance(error, AuthenticationRequired):
                error.remedy = error.remedy or how_to_log_in(agent)
            raise
        reducer.session_state(dialects.session_state(answer))
        session.loaded = True
        return session

    async def _forget(self, session: Session) -> None:
        self._agent.sessions.pop(session.session_id, None)
        await session.aclose()
        self._agent.on_news()

    async def _answered(self, method: str, params: JSON) -> JSON:
        with trio.move_on_after(ANSWER_LIMIT) as scope:
            return await self._agent.request(method, params)
        assert scope.cancelled_caught
        raise AgentUnresponsive(
            f"the agent did not answer {method} within {ANSWER_LIMIT:.0f} s",
            remedy="Try again; `%acp log` shows what was said.",
        )


def how_to_log_in(agent: Agent) -> str:
    """What a user can do whom an agent wants to log in first."""
    methods = agent.initialized.auth_methods if agent.initialized is not None else []
    names = [str(method["name"])[:80] for method in methods[:10]]
    offered = f" It offers: {', '.join(names)}." if names else ""
    return f"Run `%acp login`, or log in with the agent's own command line in a terminal.{offered}"


def _refuse_running(session: Session) -> None:
    if session.running:
        raise TurnRunning(
            "a turn is still running in that session",
            remedy="Wait for its end, or stop it with the stop button.",
        )
