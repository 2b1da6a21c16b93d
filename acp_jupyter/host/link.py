"""One agent of the notebook: its client, what runs with it, and what it shows.

A `Link` is what `%acp connect` makes (the one without a name, or the one of `--as NAME`), and what
`acp_jupyter.connect` returns a handle of. One thing at a time is done with its current session;
further sessions of the same agent run beside it. Coroutines run on the trio thread.
"""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .. import __version__
from ..errors import AuthenticationRequired, TurnCancelled, TurnRunning, UsageError
from ..session.limits import NO_LIMITS, Limits, Spent, cost_of, within
from .cell import CellContext
from .starting import started

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.client import Client
    from ..client.session import Session
    from ..connection.portal import PortalFuture
    from ..display import Bundle
    from ..display.output import Output
    from ..display.pump import Pump
    from ..questions.widget import WidgetAsker
    from ..services.agents import AgentSpec
    from ..services.last_sessions import LastSessions
    from ..services.permissions import Asker
    from ..services.policy import Policy
    from ..services.workspace.isolated import Isolated
    from ..services.workspace.snapshot import Snapshot
    from ..session.attachments import Prompt
    from ..session.transcript import Entry, Turn
    from .asking import Asked
    from .host import Host
    from .login import Logins
    from .mcp import LinkMcp
    from .sessions import LinkSessions
    from .typed import Typed

T = TypeVar("T")

START_LIMIT: Final = 60.0
"""Seconds an agent has to get ready where nobody can interrupt: the slowest agents seen take 5,
one that is downloaded at its first start may take many more."""

SETTLED: Final = 0.05
SETTLE_LIMIT: Final = 0.5
"""Seconds without a word after which an agent has said what it says at first, and for that."""

REPLAY_LIMIT: Final = 20.0
"""The same for a recording at original speed, which knows when that is."""


class Link:
    """See the module.

    Args:
        host: whose link it is.
        key: unique among the host's links.
        name: what the user gave with ``--as``; may be empty.
        quiet: show no banner, and of turns only the questions, unless asked for.

    Attributes:
        label: stands before questions on standard input, where several links ask in one cell.
        queue: prompts that follow the one that is running, in its cell.
        caps: what all turns of the link together may take.
        spent: what they have taken.
        snapshot: how files were, for checks; ``None`` until somebody asks for one.
        isolated: the copy in which the agent works, or worked last; ``None`` if in none.
    """

    def __init__(self, host: Host, key: str, *, name: str = "", quiet: bool = False) -> None:
        self._host = host
        self.key = key
        self.name = name
        self._quiet = quiet
        self.label = ""
        self.queue: deque[Prompt] = deque()
        self.caps = NO_LIMITS
        self.spent = Spent()
        self.snapshot: Snapshot | None = None
        self.isolated: Isolated | None = None
        self.client: Client | None = None
        self._shown: dict[str, _Shown] = {}
        self._busy = False
        self._jobs: list[PortalFuture[Any]] = []
        self._cell: CellContext | None = None
        self._place: tuple[object, ...] = ()

    # -- from the surface's threads ------------------------------------------------------------

    @property
    def agent(self) -> Agent | None:
        """The agent that runs, or ran last."""
        return self.client.agent if self.client is not None else None

    @property
    def session(self) -> Session | None:
        """The current session."""
        return self.client.current if self.client is not None else None

    def cell_of(self, session: Session) -> str:
        """Id of the notebook's cell that shows what happens in a session; may be empty."""
        shown = self._shown.get(session.display_prefix)
        return shown.cell.ident_in_notebook if shown is not None else ""

    @property
    def asked(self) -> list[Asked]:
        """The client's own questions that wait in the cell that uses the agent."""
        return [asked for asked in self._host.asked if asked.cell is self._cell]

    def submit(
        self,
        cell: CellContext,
        function: Callable[..., Awaitable[T]],
        *args: object,
        exclusive: bool = True,
    ) -> PortalFuture[T]:
        """Run ``function(cell, *args)``, one of the coroutines below; `interrupt` reaches it.

        Args:
            cell: the cell that runs.
            function: what to run.
            args: its further arguments.
            exclusive: refuse it while another one is running for this link.
        """
        self._host.portal.start()
        job = self._host.portal.submit(self._run, cell, function, args, exclusive)
        # A second cell, which will be refused, must not keep the interrupt from the first.
        self._jobs = [other for other in self._jobs if not other.done()] + [job]
        return job

    def call(
        self,
        cell: CellContext,
        function: Callable[..., Awaitable[T]],
        *args: object,
        exclusive: bool = True,
    ) -> T:
        """`submit`, and wait; SIGINT becomes an `interrupt` meanwhile (see `Interrupts`).

        Raises:
            TurnCancelled: it was interrupted.
            ACPError: as the coroutine does.
        """
        too_early = False

        def on_sigint(*_: object) -> None:
            nonlocal too_early
            too_early = not self.interrupt()

        with self._host.interrupts.call(on_sigint):
            job = self.submit(cell, function, *args, exclusive=exclusive)
            if too_early:
                self.interrupt()
            try:
                return self._host.portal.wait(job, serve=self._host.serve_waiting)
            except concurrent.futures.CancelledError as error:
                raise TurnCancelled("it was interrupted") from error

    def interrupt(self) -> bool:
        """Stop what runs: a turn by its cancel ladder, anything else at once.

        From any thread, signal handlers included. Returns whether something was running.
        """
        job = next((job for job in self._jobs if not job.done()), None)
        if job is None:
            return False
        return self._host.portal.run_soon(self._interrupt, job)

    # -- on the trio thread --------------------------------------------------------------------

    async def _run(
        self,
        cell: CellContext,
        function: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
        exclusive: bool,
    ) -> T:
        if not exclusive:
            await self._open_client()
            return await function(cell, *args)
        if self._busy:
            raise TurnRunning(
                "another cell is still using the agent",
                remedy="Wait for its end, or stop it with the stop button.",
            )
        self._busy, self._cell = True, cell
        try:
            await self._open_client()
            return await function(cell, *args)
        finally:
            self._busy = False

    def _interrupt(self, job: PortalFuture[Any]) -> None:
        sessions = self.agent.sessions.values() if self.agent is not None else ()
        stopped = [session.cancel() for session in sessions if session.running]
        if not any(stopped):
            job.cancel()

    async def _open_client(self) -> Client:
        from ..client.client import Client
        from ..services.workplace import Workplace

        if self.client is None or self.client.closed:
            client = Client(environ=self._host.environ, version=__version__)
            client.on_session = self._on_session
            client.on_news = self._host.touch
            client.policy = self._host.policy
            client.tapes = self._host.recordings.tapes
            client.workplace = Workplace(
                self._host.kernel_server,
                self._host.documents,
                save_hooks=self._host.settings.save_hooks,
            )
            client.recorder = self._host.recordings.current
            client.mcp = self.mcp.told
            self._host.portal.submit(client.run)
            await client.wait_open()
            self.client = client
        return self.client

    async def connect(
        self, cell: CellContext, spec: AgentSpec, cwd: str, session_id: str | None = None
    ) -> Session:
        """Start an agent and open a session in ``cwd``, or go on with an earlier one."""
        assert self.client is not None
        self._cell = cell
        spec = self._host.recordings.in_place_of(spec)
        limit = _start_limit(cell)
        if spec.registry is not None:
            install = self._host.installing.ready
            spec, limit = await install(cell, spec, limit, label=self.label)
        return await self.starting(
            cell, self.logins.connect(self.client, cell, spec, cwd, limit, session_id)
        )

    async def starting(self, cell: CellContext, starting: Awaitable[Session]) -> Session:
        """Wait until a session is open, and for what its agent says right after that."""
        self._cell = cell
        # The time that the user takes to log in is not the agent's.
        session = await started(cell, starting, lambda: not self.logins.asking)
        await self._settle()
        return session

    @cached_property
    def logins(self) -> Logins:
        """Who the agent takes the user for."""
        from .login import Logins

        return Logins(self._host, self)

    @cached_property
    def mcp(self) -> LinkMcp:
        """The MCP servers that its sessions are told of."""
        from .mcp import LinkMcp

        return LinkMcp(self._host, self)

    @cached_property
    def typed(self) -> Typed:
        """What the words of ``%acp`` complete to."""
        from .typed import Typed

        return Typed(self)

    async def restart(self, cell: CellContext) -> Session:
        """Start the current agent anew, or the one named by the settings."""
        assert self.client is not None
        if self.client.agent is None:
            return await self.connect(cell, self._host.default_agent(), self._host.cwd)
        self._cell = cell
        session = await started(cell, self.client.restart(limit=_start_limit(cell)))
        await self._settle()
        return session

    async def _settle(self) -> None:
        """Wait for what agents say right after they have opened a session (their commands): it
        belongs to the cell that connects, and a frontend may not listen any more after it."""
        import trio

        agent = self.agent
        if agent is None:
            return
        with trio.move_on_after(SETTLE_LIMIT if agent.replay is None else REPLAY_LIMIT):
            if agent.replay is not None:
                await agent.replay.wait_ready()
            while agent.alive and (left := agent.last_received + SETTLED - trio.current_time()) > 0:  # noqa: ASYNC110
                await trio.sleep(left)
        for shown in self._shown.values():
            shown.pump.flush()

    async def new_session(self, cell: CellContext, cwd: str) -> Session:
        """Open one more session of the agent; it does not become the current one."""
        assert self.client is not None
        self._cell = cell
        return await started(cell, self.client.new_session(cwd, limit=_start_limit(cell)))

    async def open(
        self,
        cell: CellContext,
        opening: Callable[[Agent], Awaitable[Session]],
        *,
        use: bool = True,
    ) -> Session:
        """Open a session in a way of the agent's `lifecycle`.

        Args:
            cell: that runs.
            opening: the way.
            use: it becomes the current one.
        """
        assert self.client is not None
        self._cell = cell
        session = await started(cell, self.client.open(opening, _start_limit(cell)))
        if not use:
            return session
        self.client.use(session)
        await self._settle()
        await self.keep_place(cell, session)
        return session

    @property
    def cwd(self) -> str:
        """The notebook's folder."""
        return self._host.cwd

    @property
    def last_sessions(self) -> LastSessions:
        """Which sessions the notebook used last."""
        return self._host.last_sessions

    @cached_property
    def sessions(self) -> LinkSessions:
        """The sessions as the user names them."""
        from .sessions import LinkSessions

        return LinkSessions(self)

    async def confirm(self, cell: CellContext, title: str, *, why: str = "", remedy: str) -> bool:
        """See `confirming.confirm`."""
        from .confirming import confirm

        return await confirm(self._host, cell, title, why=why, remedy=remedy)

    async def keep_place(self, cell: CellContext, session: Session) -> None:
        """Note that the notebook is in that session, for when its kernel has been restarted."""
        import trio

        from ..services.remembered import agent_digest

        agent = self.agent
        if self._quiet or not cell.attended or agent is None or agent.replay is not None:
            return
        digest = agent_digest(agent.spec.argv)
        place = (
            *(self.name, agent.spec.name, digest, session.session_id, session.cwd),
            agent.spec.protocol,
        )
        if place != self._place:
            self._place = place
            await trio.to_thread.run_sync(self.last_sessions.write, *place)

    async def disconnect(self, _cell: CellContext) -> Agent | None:
        """End the current agent, if there is one; returns it."""
        assert self.client is not None
        return await self.client.disconnect()

    async def set_policy(self, _cell: CellContext, policy: Policy) -> None:
        """Change the permission policy, for the sessions that are open too.

        Raises:
            UsageError: its file is where the agent could rewrite it; nothing is changed.
        """
        await self.set_own_policy(policy)
        self._host.policy = policy

    async def revoke(self, _cell: CellContext, number: int | None) -> int:
        """Forget a remembered answer of the current session, or (``None``) all; returns how many.

        Raises:
            UsageError: there is none with that number.
        """
        known = self.session.permissions.remembered if self.session is not None else None
        if number is None:
            return known.revoke_all() if known is not None else 0
        if known is None:
            raise UsageError("no session is open", remedy="Nothing is remembered.")
        known.revoke(number)
        return 1

    async def add_root(self, _cell: CellContext, path: str) -> None:
        """Let the sessions work in one more directory (absolute, resolved).

        Raises:
            UsageError: the file of the permission policy is in it.
        """
        assert self.client is not None
        self.client.add_root(path)

    async def remove_root(self, _cell: CellContext, path: str) -> None:
        """Take back `add_root`.

        Raises:
            UsageError: it was not added.
        """
        assert self.client is not None
        self.client.remove_root(path)

    async def set_own_policy(self, policy: Policy) -> None:
        """Change the permission policy of this link alone.

        Raises:
            UsageError: see `set_policy`.
        """
        from ..services.policy_file import check_outside

        assert self.client is not None
        sessions = list(self.agent.sessions.values()) if self.agent is not None else []
        check_outside(policy, [path for session in sessions for path in session.roots.paths])
        self.client.policy = policy
        for session in sessions:
            session.permissions.policy = policy

    async def set_option(self, cell: CellContext, name: str, value: str | bool) -> None:
        """Set what the agent lets the user set, in the current session, connecting first.

        Raises:
            UsageError: the agent offers no such option, or no such value of it.
            ACPError: it refused, or does not answer.
        """
        assert self.client is not None
        if self.client.agent is None:
            await self.connect(cell, self._host.default_agent(), self._host.cwd)
        self._cell = cell
        session = await started(cell, self.client.session(limit=_start_limit(cell)))
        await session.set_option(name, value)

    async def prompt(self, cell: CellContext, prompt: Prompt, limits: Limits = NO_LIMITS) -> Turn:
        """Run one prompt turn in the current session, connecting first where needed.

        Raises:
            TurnCancelled: it was cancelled.
            ACPError: it failed.
        """
        assert self.client is not None
        if self.client.agent is None:
            session = await self.connect(cell, self._host.default_agent(), self._host.cwd)
        else:
            self._cell = cell
            session = await started(cell, self.client.session(limit=_start_limit(cell)))
        try:
            try:
                turn = await self.prompt_in(cell, session, prompt, limits)
            except AuthenticationRequired as error:
                if self.agent is None or not self.agent.alive:
                    raise
                await self.logins.after(error, cell, self.agent)
                session = await self.client.session(limit=_start_limit(cell))
                turn = await self.prompt_in(cell, session, prompt, limits)
            while self.queue:
                turn = await self.prompt_in(cell, session, self.queue.popleft(), limits)
            await self.keep_place(cell, session)
        finally:
            if self.queue:  # one of them failed: what was meant to follow it does not go on
                dropped = len(self.queue)
                self.queue.clear()
                cell.sink.stream(f"{dropped} queued prompts were not sent.\n")
        return turn

    async def enqueue(self, _cell: CellContext, prompt: Prompt) -> int:
        """Have a prompt sent when the running turn has ended, in the same cell; its place.

        Raises:
            UsageError: no turn is running that it could follow.
        """
        if self.session is None or not self.session.running or not self._busy:
            raise UsageError(
                "no prompt is running that this one could wait for",
                remedy="Write it in a cell.",
            )
        self.queue.append(prompt)
        return len(self.queue)

    async def prompt_in(
        self,
        cell: CellContext,
        session: Session,
        prompt: Prompt,
        limits: Limits = NO_LIMITS,
        *,
        show: bool | None = None,
    ) -> Turn:
        """Run one prompt turn in a session of this link; several sessions may run at once.

        Args:
            cell: the cell that runs.
            session: a session of this link's agent.
            prompt: what to send.
            limits: what the turn may take.
            show: publish all of it, or only the questions; by default as the link is.
        """
        from ..session.attachments import blocks, sent_items

        shown = self._shown[session.display_prefix]
        shown.cell = cell
        if session.recording is not None:
            session.recording.cell = cell.ident_in_notebook
        widgets, session.permissions.askers = self._askers(cell, session)
        output = self._output(cell, session, widgets, show=show)
        limits = within(within(limits, self.caps, self.spent), self._host.caps, self._host.spent)
        number = session.transcript.turn.number
        before = cost_of(session.transcript.info.usage)
        capabilities = session.agent.prompt_capabilities
        found = prompt.attachments
        if found:
            found = self._host.pictures.place(found, capabilities)

        def on_start(turn: Turn) -> None:
            shown.pump.begin(turn, output)
            if self._host.reporter is not None:
                self._host.reporter.begin(cell, self, turn)
            session.sent(sent_items(found, capabilities))

        try:
            return await session.prompt(
                blocks(prompt.text, found, capabilities),
                on_start=on_start,
                limits=limits,
                meta=prompt.meta,
                silence_limit=None if cell.attended else self._host.settings.silence_limit,
            )
        finally:
            if session.transcript.turn.number > number:
                self._count(session, before)
            try:
                await shown.pump.drain()
            finally:
                if self._host.reporter is not None and session.transcript.turn.number > number:
                    self._host.reporter.end(cell, self, session)

    def _count(self, session: Session, before: tuple[float, str] | None) -> None:
        """Add what a turn took to what the notebook has spent."""
        turn = session.transcript.turn
        after = cost_of(session.transcript.info.usage)
        for spent in (self.spent, self._host.spent):
            if turn.ended is not None:
                spent.seconds += turn.ended - turn.started
            if after is not None:
                spent.cost += max(0.0, after[0] - (before[0] if before is not None else 0.0))

    # -- showing and asking --------------------------------------------------------------------

    def _on_session(self, agent: Agent, session: Session) -> None:
        from ..display.pump import Pump
        from .banner import connected
        from .changed_files import watch

        assert self.client is not None
        assert self._cell is not None
        if (
            self.client.agent is None and not self._quiet
        ):  # else it takes the place of one that died: a line says so
            self._cell.show(connected(agent, session))
        self._shown = {prefix: shown for prefix, shown in self._shown.items() if shown.agent.alive}
        session.reducer.proposes_cells = self._host.settings.propose_cells
        watch(self._host, agent, session)
        pump = Pump(session)
        self._shown[session.display_prefix] = _Shown(agent, pump, self._cell)
        pump.begin(session.transcript.turn, self._output(self._cell, session, None))
        pump.flush()  # what came before the session was known, or was loaded with it
        session.start_soon(pump.run)
        if self._host.reporter is not None:
            self._host.reporter.agent(self._cell, self, agent, session)

    def _output(
        self,
        cell: CellContext,
        session: Session,
        widgets: WidgetAsker | None,
        *,
        show: bool | None = None,
    ) -> Output:
        from ..display.output import Output, no_extras

        return Output(
            cell.sink,
            cell.frontend.publish,
            prefix=session.display_prefix,
            cwd=session.cwd,
            base=self._host.cwd,
            terminals=session.transcript.terminals,
            extras=widgets.extras if widgets is not None else no_extras,
            beside=self._stop_buttons(cell, session),
            only_questions=self._quiet if show is None else not show,
        )

    def _stop_buttons(
        self, cell: CellContext, session: Session
    ) -> Callable[[Entry], Bundle | None]:
        from ..display.output import nothing_beside
        from ..questions.stopping import StopButtons

        host = self._host
        if host.tap is None or "widgets" not in cell.frontend.ask:
            return nothing_beside
        return StopButtons(
            host.tap,
            host.portal.run_soon,
            cell.context,
            terminals=session.transcript.terminals,
            stop=session.terminals.stop,
            unwanted=lambda: host.live is not None and host.live.listening,
        ).beside

    def _askers(
        self, cell: CellContext, session: Session
    ) -> tuple[WidgetAsker | None, list[Asker]]:
        from .asking import askers

        return askers(self._host, cell, cwd=session.cwd, label=self.label, refresh=session.refresh)


class _Shown:
    """A session whose changes are published, and the cell that shows them."""

    def __init__(self, agent: Agent, pump: Pump, cell: CellContext) -> None:
        self.agent = agent
        self.pump = pump
        self.cell = cell


def _start_limit(cell: CellContext) -> float | None:
    return None if cell.attended else START_LIMIT


def cancelled() -> TurnCancelled:
    """What a cell ends with that was interrupted before its turn had begun."""
    return TurnCancelled("it was interrupted before the prompt was sent")
