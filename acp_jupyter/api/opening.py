"""What an `Agent` does with earlier sessions, and what a `Session` does with itself as one.

Each method has its coroutine named ``a…``. All of them need a capability of the agent; where it is
missing, a `UsageError` says so and nothing is sent.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UsageError
from ..protocol.listing import Listed
from ..session.prompt import check_meta

if TYPE_CHECKING:
    from ..client.agent import Agent as LiveAgent
    from ..client.extensions import Handler
    from ..client.session import Session as LiveSession
    from ..host.cell import CellContext
    from ..host.link import Link
    from ..services.policy import Policy
    from .agent import Agent, Session

T = TypeVar("T")
Folder = str | os.PathLike[str]
Meta = Mapping[str, Any]
Opening = Callable[["LiveAgent", "Policy"], Awaitable["LiveSession"]]


class Opens:
    """Of an `Agent`: earlier sessions, logging in, extensions."""

    if TYPE_CHECKING:
        _link: Link
        cwd: str

        def _call(self, function: Callable[..., Awaitable[T]], *args: object) -> T: ...
        async def _acall(self, function: Callable[..., Awaitable[T]], *args: object) -> T: ...
        def _directory(self, cwd: Folder | None) -> str: ...
        def _adopt(self, live: LiveSession) -> Session: ...
        @property
        def _live(self) -> LiveAgent: ...

    # -- earlier sessions ----------------------------------------------------------------------

    def list_sessions(self, cwd: Folder | None = None) -> list[Listed]:
        """The sessions that the agent knows, in its order; at most 1,000.

        Args:
            cwd: only those of that directory; by default of all.

        Raises:
            UsageError: the agent cannot list sessions.
            ACPError: it failed.
        """
        return self._call(self._listed, None if cwd is None else self._directory(cwd))

    async def alist_sessions(self, cwd: Folder | None = None) -> list[Listed]:
        """`list_sessions`, for ``await``."""
        return await self._acall(self._listed, None if cwd is None else self._directory(cwd))

    def load_session(
        self, session_id: str, cwd: Folder | None = None, *, meta: Meta | None = None
    ) -> Session:
        """Open an earlier session; its history is one entry of its transcript.

        Args:
            session_id: the agent's.
            cwd: its directory, in which the agent may work; by default the agent's own.
            meta: sent along as ``_meta``.

        Raises:
            UsageError: the agent cannot load sessions, or it is open.
            ACPError: it failed.
        """
        return self._call(self._open, *self._earlier("load", session_id, cwd, meta))

    async def aload_session(
        self, session_id: str, cwd: Folder | None = None, *, meta: Meta | None = None
    ) -> Session:
        """`load_session`, for ``await``."""
        return await self._acall(self._open, *self._earlier("load", session_id, cwd, meta))

    def resume_session(
        self, session_id: str, cwd: Folder | None = None, *, meta: Meta | None = None
    ) -> Session:
        """`load_session` without the history."""
        return self._call(self._open, *self._earlier("resume", session_id, cwd, meta))

    async def aresume_session(
        self, session_id: str, cwd: Folder | None = None, *, meta: Meta | None = None
    ) -> Session:
        """`resume_session`, for ``await``."""
        return await self._acall(self._open, *self._earlier("resume", session_id, cwd, meta))

    def _earlier(
        self, way: str, session_id: str, cwd: Folder | None, meta: Meta | None
    ) -> tuple[Opening, str]:
        folder = self._directory(cwd)
        given = None if meta is None else check_meta(meta)

        async def opening(agent: LiveAgent, policy: Policy) -> LiveSession:
            open_it = agent.lifecycle.load if way == "load" else agent.lifecycle.resume
            return await open_it(session_id, folder, policy=policy, meta=given)

        return opening, folder

    async def _open(self, cell: CellContext, opening: Opening, cwd: str) -> Session:
        from ..services.policy_file import check_outside

        client = self._link.client
        assert client is not None
        check_outside(client.policy, [cwd])
        live = await self._link.open(cell, lambda agent: opening(agent, client.policy), use=False)
        return self._adopt(live)

    async def _listed(self, _cell: CellContext, cwd: str | None) -> list[Listed]:
        found, _ = await self._live.lifecycle.listed(cwd)
        return found

    # -- extensions ----------------------------------------------------------------------------

    def on_extension(self, method: str, handler: Handler | None) -> None:
        """Handle requests and notifications of the agent's that the protocol does not have.

        Args:
            method: their name, for example ``_vendor/method``.
            handler: called with the parameters, in a thread of its own; what it returns answers a
                request. ``None`` takes the one before away. Without one, requests are answered
                "method not found", and notifications are ignored.

        Raises:
            UsageError: the protocol has that method.
        """
        client = self._link.client
        assert client is not None

        async def set_handler(_cell: CellContext) -> None:
            client.extensions.on(method, handler)

        self._call(set_handler)

    @property
    def ignored_notifications(self) -> dict[str, int]:
        """How many notifications nobody handled, by name; those of too many names under ""."""
        client = self._link.client
        return {} if client is None else dict(client.extensions.ignored)

    def ext_request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request that the protocol does not have; returns the result.

        Raises:
            UsageError: the protocol has that method, or ``params`` is no JSON.
            RequestError: the agent answered with an error.
            ACPError: it failed.
        """
        return self._call(self._ext_request, method, check_meta(params or {}))

    async def aext_request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """`ext_request`, for ``await``."""
        return await self._acall(self._ext_request, method, check_meta(params or {}))

    def ext_notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification that the protocol does not have.

        Raises:
            UsageError: the protocol has that method, or ``params`` is no JSON.
            ACPError: the agent has ended, or does not read.
        """
        self._call(self._ext_notify, method, check_meta(params or {}))

    async def _ext_request(self, _cell: CellContext, method: str, params: dict[str, Any]) -> Any:
        from ..client.extensions import refuse_standard

        refuse_standard(method)
        return await self._live.request(method, params)

    async def _ext_notify(self, _cell: CellContext, method: str, params: dict[str, Any]) -> None:
        from ..client.extensions import refuse_standard

        refuse_standard(method)
        self._live.notify(method, params)


class Ends:
    """Of a `Session`: branched, closed, deleted."""

    if TYPE_CHECKING:
        agent: Agent
        _live: LiveSession

    def fork(self) -> Session:
        """Open a session that begins where this one is now.

        Raises:
            UsageError: the agent cannot fork sessions.
            ACPError: it failed.
        """
        return self.agent._call(self.agent._open, self._forking, self._live.cwd)

    async def afork(self) -> Session:
        """`fork`, for ``await``."""
        return await self.agent._acall(self.agent._open, self._forking, self._live.cwd)

    def close(self) -> None:
        """End it; the agent keeps it, and may open it again.

        Raises:
            UsageError: the agent cannot close sessions.
            TurnRunning: a turn is running in it.
            ACPError: it failed.
        """
        self.agent._call(self._end, "close")

    async def aclose(self) -> None:
        """`close`, for ``await``."""
        await self.agent._acall(self._end, "close")

    def delete(self) -> None:
        """Have the agent forget it for good, without a question.

        Raises:
            UsageError: the agent cannot delete sessions.
            TurnRunning: a turn is running in it.
            ACPError: it failed.
        """
        self.agent._call(self._end, "delete")

    async def adelete(self) -> None:
        """`delete`, for ``await``."""
        await self.agent._acall(self._end, "delete")

    async def _forking(self, agent: LiveAgent, _policy: Policy) -> LiveSession:
        if self._live.session_id not in agent.sessions:
            raise UsageError("that session is not open", remedy="Load or resume it first.")
        return await agent.lifecycle.fork(self._live)

    async def _end(self, _cell: CellContext, how: str) -> None:
        agent, link = self.agent._live, self.agent._link
        if how == "delete":
            await agent.lifecycle.delete(self._live.session_id)
        else:
            await agent.lifecycle.close(self._live)
        assert link.client is not None
        link.client.leave()
