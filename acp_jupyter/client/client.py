"""All agents of one surface, and which session is the current one.

A `Client` lives in one task (`run`) and starts each agent in a task of its own. It knows what to
do after an agent has died: start it again at the next prompt, load the session where the agent can,
and stop doing so when it crashes again and again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

import trio

from ..errors import (
    ACPError,
    AgentCrashLoop,
    AgentError,
    AgentExited,
    AuthenticationRequired,
    RequestError,
    UsageError,
)
from ..services.agents import AgentSpec
from ..services.policy import Policy
from ..services.policy_file import check_outside
from ..services.recording import Recorder
from ..services.replay import Tapes
from ..services.workplace import Workplace
from .agent import CLOSE_GRACE, DISCONNECT_GRACE, Agent
from .extensions import Extensions
from .mcp import McpServers
from .session import Session

CRASHES: Final = 5
CRASH_WINDOW: Final = 180.0
"""That many crashes within that many seconds, and only the user starts the agent again."""


_AGAIN: Final = {False: "The agent was started again", True: "The agent was connected again"}
"""What happened, for one that may run elsewhere."""


Login = Callable[[Agent, AuthenticationRequired], Awaitable[AgentSpec | None]]
"""Has the user log in to an agent that answered with that error; returns ``None`` where that is
done, else how to start the agent again."""


class Client:
    """See the module. All methods run on the trio thread.

    Args:
        environ: the environment that agents' environments are made from.
        version: of this package, for ``clientInfo``.

    Attributes:
        policy: the permission policy for sessions opened from now on.
        workplace: what its sessions work on; may be set before the first connect.
        current: the session that prompts go to; ``None`` before the first connect.
        on_session: called with each new session, before anything is shown of it.
        on_news: called when anything about its agents may have changed; must be cheap.
        starting: an agent is being started.
        extensions: what the user handles besides the protocol, of each agent that is started.
        mcp: the MCP servers that the sessions of each agent are told of.
        tapes: which connections of recordings were replayed; those of one notebook share it.
        recorder: who records an agent that is started, if anybody.
    """

    def __init__(self, *, environ: Mapping[str, str], version: str) -> None:
        self._environ = environ
        self._version = version
        self._nursery: trio.Nursery | None = None
        self._open = trio.Event()
        self.closed = False
        self._agents: list[Agent] = []
        self._crashes: deque[float] = deque(maxlen=CRASHES)
        self.policy = Policy()
        self.workplace = Workplace()
        self.current: Session | None = None
        self.agent: Agent | None = None
        self.on_session: Callable[[Agent, Session], None] = _nothing
        self.on_news: Callable[[], None] = _no_news
        self.starting = False
        self.extensions = Extensions()
        self.mcp = McpServers()
        self.tapes = Tapes()
        self.recorder: Callable[[], Recorder | None] = _no_recorder

    async def wait_open(self) -> None:
        """Wait until `run` runs."""
        await self._open.wait()

    async def run(self) -> None:
        """Serve until cancelled; ends all agents then."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._open.set()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self.closed = True

    async def connect(
        self,
        spec: AgentSpec,
        cwd: str,
        *,
        limit: float | None = None,
        session_id: str | None = None,
        login: Login | None = None,
    ) -> Session:
        """Start an agent and open a session; it becomes the current one.

        The agent that was current before is ended.

        Args:
            spec: how to start it.
            cwd: absolute working directory of the session.
            limit: seconds for the agent to answer; ``None`` waits until cancelled.
            session_id: of an earlier session to go on with; where that cannot be, a new one is
                opened, which says so.
            login: has the user log in where the agent wants it.

        Raises:
            AuthenticationRequired: it wants the user to log in first.
            ACPError: it could not be started, or refused.
        """
        await self.disconnect(grace=CLOSE_GRACE)
        self._crashes.clear()
        return await self._start(spec, cwd, session_id, limit, again=True, login=login)

    async def session(self, *, limit: float | None = None) -> Session:
        """The current session, opened again if its agent has died.

        Raises:
            UsageError: nothing is connected.
            AgentCrashLoop: it died too often.
            ACPError: it could not be started again.
        """
        if self.agent is None:
            raise UsageError(
                "no agent is connected",
                remedy="Run `%acp connect demo`, or `%acp connect -- COMMAND`.",
            )
        if not self.agent.alive:
            return await self._reopen(limit)
        if self.current is None:  # the last one was closed
            agent, policy = self.agent, self.policy
            self.current = await self._open_session(agent, agent.cwd, None, policy, limit)
        return self.current

    async def restart(self, *, limit: float | None = None) -> Session:
        """End the current agent and start it anew, with a new session.

        Raises:
            UsageError: nothing was connected.
            ACPError: it could not be started.
        """
        if self.agent is None:
            raise UsageError("no agent is connected", remedy="Run `%acp connect` first.")
        spec = self.agent.spec
        cwd = self.agent.cwd if self.current is None else self.current.cwd
        self.starting = True  # also while the old one ends: nobody disconnected it
        try:
            await self.disconnect(grace=CLOSE_GRACE)
            self._crashes.clear()
            return await self._start(spec, cwd, None, limit)
        finally:
            self.starting = False

    async def new_session(self, cwd: str, *, limit: float | None = None) -> Session:
        """Open one more session of the current agent, which is started again if it has died.

        Raises:
            UsageError: nothing is connected.
            ACPError: it failed.
        """
        check_outside(self.policy, [cwd, *self.workplace.roots])
        return await self.open(lambda agent: agent.lifecycle.new(cwd, policy=self.policy), limit)

    async def open(
        self, opening: Callable[[Agent], Awaitable[Session]], limit: float | None
    ) -> Session:
        """Open a session of the current agent, which is started again if it has died.

        Args:
            opening: a way of its `lifecycle`.
            limit: seconds for that; ``None`` waits until cancelled.

        Raises:
            UsageError: nothing is connected.
            ACPError: it failed.
        """
        if self.agent is None or not self.agent.alive:
            await self.session(limit=limit)
        assert self.agent is not None
        with trio.move_on_after(limit if limit is not None else float("inf")):
            session = await opening(self.agent)
            self.on_session(self.agent, session)
            self.on_news()
            return session
        raise _no_session(self.agent, limit)

    def use(self, session: Session) -> None:
        """Make an open session the current one."""
        self.current = session
        self.on_news()

    def leave(self) -> None:
        """Go on with another open session, or none, where the current one is not open any more."""
        open_ones = [*self.agent.sessions.values()] if self.agent is not None else []
        if self.current not in open_ones:
            self.current = open_ones[-1] if open_ones else None
        self.on_news()

    def add_root(self, path: str) -> None:
        """Let the sessions work in one more directory, the open ones at once.

        Agents are told of it when a session is opened next: the protocol knows no other way.

        Raises:
            UsageError: the file of the permission policy is in it.
        """
        check_outside(self.policy, [path])
        sessions = self._open_sessions()
        for session in sessions:
            check_outside(session.permissions.policy, [path])
        if path not in self.workplace.roots:
            self.workplace.roots.append(path)
        for session in sessions:
            session.roots.add(path)

    def remove_root(self, path: str) -> None:
        """Take back `add_root`.

        Raises:
            UsageError: it was not added.
        """
        if path not in self.workplace.roots:
            raise UsageError(
                f"{path} is none of the directories that were added",
                remedy="`%acp roots` lists them.",
            )
        self.workplace.roots.remove(path)
        for session in self._open_sessions():
            if path != session.cwd:
                session.roots.remove(path)

    def _open_sessions(self) -> list[Session]:
        return list(self.agent.sessions.values()) if self.agent is not None else []

    async def disconnect(self, *, grace: float = DISCONNECT_GRACE) -> Agent | None:
        """End the current agent; returns it, or ``None`` if there was none."""
        agent, self.agent, self.current = self.agent, None, None
        self.on_news()
        if agent is None:
            return None
        await self._end(agent, grace)
        return agent

    async def shutdown(self) -> None:
        """End all agents, within about two seconds."""
        async with trio.open_nursery() as nursery:
            for agent in self._agents:
                nursery.start_soon(self._end, agent, CLOSE_GRACE)
        self.agent = self.current = None

    async def _end(self, agent: Agent, grace: float) -> None:
        agent.close(grace=grace)
        await agent.ended.wait()
        if agent in self._agents:
            self._agents.remove(agent)

    async def _reopen(self, limit: float | None) -> Session:
        """Start the agent that died once more; load its session where that is possible."""
        assert self.agent is not None
        dead, old = self.agent, self.current
        with trio.move_on_after(5.0):
            await dead.ended.wait()
        if dead in self._agents:
            self._agents.remove(dead)
            if dead.spec.remote is None:  # a lost connection is the network's fault more often
                self._crashes.append(trio.current_time())
        if self._crash_loop():
            raise AgentCrashLoop(
                f"agent {dead.spec.name!r} ended {CRASHES} times within "
                f"{CRASH_WINDOW / 60:.0f} minutes and is not started again by itself",
                remedy="Run `%acp restart` to start it once more, or `%acp log` to see why.",
                stderr=dead.stderr_tail(),
            )
        loadable = old.session_id if old is not None and dead.lifecycle.reopens else None
        cwd = dead.cwd if old is None else old.cwd
        policy = self.policy if old is None else old.permissions.policy
        try:
            session = await self._start(dead.spec, cwd, loadable, limit, policy=policy)
        except AgentExited:
            self._crashes.append(trio.current_time())  # it did not even come up
            raise
        remote = dead.spec.remote is not None
        why = dead.error.message if dead.error is not None else "the agent had ended"
        if session.loaded:  # the id does not tell: agents that count begin again with the same one
            text = f"{_AGAIN[remote]}, and the session was loaded."
        else:
            text = f"{_AGAIN[remote]}; it does not remember the earlier turns."
        session.tell("restarted", text, level="warning", detail=why)
        return session

    def _crash_loop(self) -> bool:
        """Whether only the user starts the agent again. No crash is added after that, so it stays
        so until then."""
        crashes = self._crashes
        return len(crashes) == CRASHES and crashes[-1] - crashes[0] < CRASH_WINDOW

    async def _start(
        self,
        spec: AgentSpec,
        cwd: str,
        session_id: str | None,
        limit: float | None,
        *,
        policy: Policy | None = None,
        again: bool = False,
        login: Login | None = None,
    ) -> Session:
        if self._nursery is None:
            raise AgentError("the client is closed", remedy="Restart the kernel.")
        policy = policy or self.policy
        check_outside(policy, [cwd, *self.workplace.roots])
        if spec.replay is not None:
            spec = await self.tapes.take(spec, again=again)
        self.starting = True
        self.on_news()
        try:
            session: Session | None = None
            agent, note = None, ""
            while session is None:  # until the user is logged in, or gives up
                agent, note = await self._initialized(self._nursery, spec, cwd, policy, limit)
                try:
                    session, spec = await self._open_first(
                        agent, cwd, session_id, policy, limit, login
                    )
                except BaseException:
                    with trio.CancelScope(shield=True):
                        await self._end(agent, 0.0)
                    raise
                if session is None:
                    await self._end(agent, CLOSE_GRACE)
            assert agent is not None
            self.agent, self.current = agent, session
            if note:
                session.tell("protocol", note)
            return session
        finally:
            self.starting = False
            self.on_news()

    async def _open_first(
        self,
        agent: Agent,
        cwd: str,
        session_id: str | None,
        policy: Policy,
        limit: float | None,
        login: Login | None,
    ) -> tuple[Session | None, AgentSpec]:
        """The first session of an agent; ``None`` where it has to be started again, and how."""
        try:
            return await self._open_session(agent, cwd, session_id, policy, limit), agent.spec
        except AuthenticationRequired as error:
            if login is None:
                raise
            again = await login(agent, error)
            if again is not None:
                return None, again
        return await self._open_session(agent, cwd, session_id, policy, limit), agent.spec

    async def _initialized(
        self,
        nursery: trio.Nursery,
        spec: AgentSpec,
        cwd: str,
        policy: Policy,
        limit: float | None,
    ) -> tuple[Agent, str]:
        """A running agent that agreed on a version, and what the user has to know of that.

        An agent that was asked for version 2 and has only 1 cannot have understood what the client
        said of itself: it is started again, and asked for version 1.
        """
        agent = Agent(
            spec,
            cwd=cwd,
            environ=self._environ,
            client_version=self._version,
            recorder=self.recorder(),
        )
        agent.workplace = self.workplace
        agent.extensions = self.extensions
        agent.lifecycle.mcp.all = self.mcp
        agent.on_news = self._tell_news
        await nursery.start(agent.serve)
        self._agents.append(agent)
        try:
            await agent.initialize(policy, limit=limit)
            if agent.version == spec.protocol or spec.replay is not None:
                return agent, ""
        except BaseException as error:
            if spec.protocol == 1 or not isinstance(error, RequestError | AgentExited):
                with trio.CancelScope(shield=True):
                    await self._end(agent, 0.0)
                raise
        if agent.recording is not None:
            agent.recording.drop()
        await self._end(agent, 0.0)
        first = replace(spec, protocol=1)
        agent, _ = await self._initialized(nursery, first, cwd, policy, limit)
        return agent, (
            f"{spec.name} does not speak version {spec.protocol} of the protocol: "
            "it was started again, with version 1."
        )

    def _tell_news(self) -> None:
        self.on_news()  # which the surface may have set since

    async def _open_session(
        self, agent: Agent, cwd: str, session_id: str | None, policy: Policy, limit: float | None
    ) -> Session:
        with trio.move_on_after(limit if limit is not None else float("inf")):
            if session_id is not None:
                try:
                    session = await agent.lifecycle.reopen(session_id, cwd, policy=policy)
                    self.on_session(agent, session)
                    return session
                except ACPError as error:
                    if not agent.alive:
                        raise
                    session = await agent.lifecycle.new(cwd, policy=policy)
                    self.on_session(agent, session)
                    session.reducer.notice(
                        "load", f"The session could not be loaded: {error.message}"
                    )
                    return session
            session = await agent.lifecycle.new(cwd, policy=policy)
            self.on_session(agent, session)
            return session
        raise _no_session(agent, limit)


def _no_session(agent: Agent, limit: float | None) -> AgentError:
    return AgentError(
        f"agent {agent.spec.name!r} did not open a session within {limit or 0:.0f} s",
        remedy="Check the agent's own settings; `%acp log` shows what was said.",
        stderr=agent.stderr_tail(),
    )


def _nothing(_agent: Agent, _session: Session) -> None:
    return None


def _no_news() -> None:
    return None


def _no_recorder() -> None:
    return None
