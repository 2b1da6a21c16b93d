"""`connect`, and the handles it leads to: `Agent` and `Session`.

Each handle has plain methods, which block, and coroutines named ``a…`` for ``await`` in a cell or
under asyncio. Both do the same on the same trio thread. In a notebook questions for permission
appear in the cell that prompts; in a script they are asked on the terminal, and denied where
there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..errors import ACPError, TurnCancelled, TurnRunning, UsageError
from ..host.cell import CellContext, no_cell
from ..host.frontend import Frontend
from ..host.host import Host
from ..host.link import Link
from ..services.agents import AgentSpec, from_command
from ..session.attachments import Prompt
from ..session.limits import Limits
from ..session.prompt import check_meta
from .opening import Ends, Meta, Opens
from .suggesting import Suggests
from .surroundings import ipython
from .terminal import Terminal
from .turn import Turn, last_turn

if TYPE_CHECKING:
    import pandas

    from ..client.agent import Agent as LiveAgent
    from ..client.session import Session as LiveSession
    from ..connection.portal import PortalFuture
    from ..experiments.checking import Checks
    from ..host.mcp import Given
    from ..services.decisions import Record
    from ..services.policy import Policy
    from ..services.workspace.snapshot import Snapshot
    from ..session.changes import FileChange

Permissions = str | os.PathLike[str] | Mapping[str, Any]
"""A mode, the path of a policy file, or a policy as a dict."""

T = TypeVar("T")

TICK: Final = 0.1
"""Seconds in which an interrupt of a cell that awaits is noticed."""


def connect(
    agent: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    permissions: Permissions | None = None,
    env: Mapping[str, str] | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
    protocol: int | None = None,
    token_env: str | None = None,
    isolate: str | None = None,
    login: str = "",
    mcp_servers: Sequence[Given] = (),
    share_kernel: bool = False,
) -> Agent:
    """Start an agent, or connect to one that runs elsewhere.

    Args:
        agent: a name (``"demo"`` or a configured one), a command line, a command as a list, an
            address (``"wss://…"``, ``"https://…"``), or a recording: ``"replay:FILE"``.
        cwd: working directory of its sessions; by default the current one.
        permissions: "ask", "deny" or "allow", the path of a policy file, or a policy as a dict
            with "default" and "rules"; by default what the settings say.
        env: variables added to the agent's environment.
        login: id or name of the way to log in, where the agent wants it; by default it is asked.
        roots: directories in which it may read and write files besides its own.
        protocol: version to ask for, 1 or 2 (a draft; an agent that has only 1 is started again
            with that); by default what the settings say.
        token_env: name of the environment variable that holds the token for an address.
        isolate: "copy" or "worktree": it works in a copy of ``cwd``, see `Agent.accept`.
        mcp_servers: MCP servers that its sessions are told of: names of the configuration, files
            (``"FILE"``, ``"FILE:NAME"``, whose servers are asked for), or dicts with "name" and
            what stands under "mcpServers" in such files.
        share_kernel: let it ask for variables and run code, as `%acp share kernel` does.

    Returns:
        A handle; use it in a ``with`` statement, or call its ``close``.

    Raises:
        UsageError: nobody knows the name, or an argument cannot be.
        AgentNotFound: the command does not exist.
        ACPError: it could not be started, or refused.
    """
    handle = _prepare(agent, cwd, permissions, env, protocol, token_env)
    handle._link.logins.preset = login
    try:
        handle._isolate(isolate)
        handle._roots = [handle._directory(root) for root in roots]
        handle._mcp_servers, handle._share_kernel = list(mcp_servers), share_kernel
        handle._call(handle._connect)
    except BaseException:
        handle.close()
        raise
    return handle


async def aconnect(
    agent: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    permissions: Permissions | None = None,
    env: Mapping[str, str] | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
    protocol: int | None = None,
    token_env: str | None = None,
    isolate: str | None = None,
    login: str = "",
    mcp_servers: Sequence[Given] = (),
    share_kernel: bool = False,
) -> Agent:
    """`connect`, for ``await``."""
    handle = _prepare(agent, cwd, permissions, env, protocol, token_env)
    handle._link.logins.preset = login
    try:
        handle._isolate(isolate)
        handle._roots = [handle._directory(root) for root in roots]
        handle._mcp_servers, handle._share_kernel = list(mcp_servers), share_kernel
        await handle._acall(handle._connect)
    except BaseException:
        await asyncio.shield(handle.aclose())
        raise
    return handle


def _prepare(
    agent: str | Sequence[str],
    cwd: str | os.PathLike[str] | None,
    permissions: Permissions | None,
    env: Mapping[str, str] | None,
    protocol: int | None,
    token_env: str | None,
) -> Agent:
    from ..host.settings import read_protocol
    from ..services.policy_file import read_policy

    host, cell = _surroundings()
    if isinstance(agent, str):
        spec = host.agent_of(agent)
    else:
        spec = from_command([os.fspath(word) for word in agent])
    version = None if protocol is None else read_protocol(protocol)
    spec = host.settings.asked(spec, version)
    if token_env:
        from ..services.remote_agents import with_token

        spec = with_token(spec, token_env)
    if env:
        spec = replace(spec, env={**spec.env, **env})
    directory = os.path.realpath(cwd) if cwd is not None else host.cwd
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is no directory", remedy="Make it, or name another one.")
    policy = read_policy(permissions) if permissions is not None else None
    return Agent(host, cell, spec, directory, policy)


def _surroundings() -> tuple[Host, Callable[[], CellContext]]:
    """The host, and what makes the context of each call: of the notebook, or of the script."""
    shell = ipython()
    if shell is not None:
        from ..extension import current_cell, host_of

        host = host_of(shell)
        return host, lambda: current_cell(shell, host)
    frontend = Frontend("final", ("terminal",) if sys.stdin and sys.stdin.isatty() else ())
    return Host(None, None, os.environ), lambda: no_cell(frontend)


class Agent(Opens, Suggests):
    """A handle of a running agent; made by `connect`.

    Attributes:
        cwd: working directory of its sessions.
    """

    def __init__(
        self,
        host: Host,
        cell: Callable[[], CellContext],
        spec: AgentSpec,
        cwd: str,
        policy: Policy | None,
    ) -> None:
        self._host = host
        self._cell = cell
        self._spec = spec
        self._policy = policy
        self._own_host = host.kernel is None
        self._link: Link = host.new_link(quiet=True)
        self._roots: list[str] = []
        self._mcp_servers: list[Given] = []
        self._share_kernel = False
        self._sessions: list[Session] = []
        self._unused: LiveSession | None = None
        self._closed = False
        self.cwd = cwd

    # -- what it is ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name and version, as the agent says them."""
        from ..host.banner import agent_title

        return agent_title(self._live)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it advertised, in the official form."""
        return dict(self._live.agent_capabilities)

    @property
    def changes(self) -> list[FileChange]:
        """What differs in the copy of ``isolate`` from what it was made of, and was not accepted.

        Raises:
            UsageError: it works in no copy.
        """
        from ..host.isolation import isolated_of

        return list(isolated_of(self._link).changes().files)

    def accept(self, *paths: str) -> dict[str, str]:
        """Bring `changes` over to the folder: of all files, or of some files and folders.

        A file is left alone if the original has changed since the copy was made.

        Returns:
            The files that were left alone, and why.

        Raises:
            UsageError: it works in no copy, or a path names no changed file.
        """
        from ..host.isolation import accept, isolated_of

        _, refused = accept(self._host, isolated_of(self._link), paths)
        return {change.path: reason for change, reason in refused}

    def discard(self) -> None:
        """End it, and remove its copy with all that was not accepted.

        Raises:
            UsageError: it works in no copy.
        """
        from ..host.isolation import isolated_of

        copy = isolated_of(self._link)
        self.close()
        copy.discard()

    def _isolate(self, way: str | None) -> None:
        if way is None:
            return
        from ..host.isolation import isolated

        if self._spec.remote is not None:
            raise UsageError(
                "an agent that runs elsewhere cannot work in a copy here",
                remedy="Connect it without isolate.",
            )
        self._link.isolated = isolated(self._host, self.cwd, way)
        self.cwd = self._link.isolated.folder

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._link.agent is not None and self._link.agent.alive

    @property
    def sessions(self) -> list[Session]:
        """The sessions opened through this handle."""
        return list(self._sessions)

    @property
    def stderr(self) -> str:
        """The last lines of its standard error, secrets removed."""
        return self._live.stderr_tail()

    # -- sessions ------------------------------------------------------------------------------

    def new_session(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        meta: Meta | None = None,
        mcp_servers: Sequence[Given] = (),
    ) -> Session:
        """Open a session, in ``cwd`` or the agent's own directory.

        Args:
            cwd: relative to that.
            meta: sent along as ``_meta``, for example a ``traceparent``.
            mcp_servers: further ones for this session, as in `connect`.

        Raises:
            ACPError: the agent has ended, or refused.
        """
        given = None if meta is None else check_meta(meta)
        return self._call(self._new_session, self._directory(cwd), given, mcp_servers)

    async def anew_session(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        meta: Meta | None = None,
        mcp_servers: Sequence[Given] = (),
    ) -> Session:
        """`new_session`, for ``await``."""
        given = None if meta is None else check_meta(meta)
        return await self._acall(self._new_session, self._directory(cwd), given, mcp_servers)

    def close(self) -> None:
        """End the agent and all that it started; again does nothing.

        The copy of ``isolate`` is kept, in `cwd`, if something in it was not accepted.
        """
        if self._closed:
            return
        self._closed = True
        if self._link.client is not None and not self._link.client.closed:
            self._link.call(self._cell(), self._link.disconnect, exclusive=False)
        if self._link.isolated is not None:
            from ..host.isolation import settle

            settle(self._link.isolated)
        self._host.drop(self._link)
        if self._own_host:
            self._host.close()

    async def aclose(self) -> None:
        """`close`, for ``await``."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        if self._link.agent is None:
            return f"<Agent {self._spec.name}: ended>"
        state = "running" if self.alive else "ended"
        return f"<Agent {self.name}: {state}, {len(self._sessions)} sessions>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Called by IPython to display it."""
        from ..host.banner import state

        policy = self._policy or self._host.policy
        return dict(state(self._link.agent, self._link.session, policy).as_bundle())

    # -- crossing to the trio thread -----------------------------------------------------------

    @property
    def _live(self) -> LiveAgent:
        self._refuse_closed()
        assert self._link.agent is not None
        return self._link.agent

    def _refuse_closed(self) -> None:
        if self._closed or (self._link.client is not None and self._link.client.closed):
            raise UsageError(f"agent {self._spec.name!r} was closed", remedy="Connect it again.")

    def _call(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        self._refuse_closed()
        return self._link.call(self._cell(), function, *args, exclusive=False)

    def _submit(self, function: Callable[..., Awaitable[T]], *args: object) -> PortalFuture[T]:
        self._refuse_closed()
        return self._link.submit(self._cell(), function, *args, exclusive=False)

    async def _acall(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        job = self._submit(function, *args)
        return await _await(job, job.cancel)

    async def _connect(self, cell: CellContext) -> None:
        for root in self._roots:
            await self._link.add_root(cell, root)
        await self._link.mcp.add(cell, self._mcp_servers)
        await self._link.mcp.share(cell, self._share_kernel)
        session = await self._link.connect(cell, self._spec, self.cwd)
        if self._policy is not None:
            await self._link.set_own_policy(self._policy)
        self._unused = session

    async def _new_session(
        self, cell: CellContext, cwd: str, meta: Meta | None, mcp_servers: Sequence[Given]
    ) -> Session:
        if meta is not None or mcp_servers:
            servers = await self._link.mcp.ready(cell, mcp_servers, cwd)
            return await self._open(
                cell,
                lambda agent, policy: agent.lifecycle.new(
                    cwd, policy=policy, meta=meta, mcp_servers=servers
                ),
                cwd,
            )
        live, self._unused = self._unused, None
        if live is None or live.cwd != cwd or not self.alive:
            live = await self._link.new_session(cell, cwd)
        return self._adopt(live)

    def _adopt(self, live: LiveSession) -> Session:
        session = Session(self, live)
        self._sessions.append(session)
        return session

    def _directory(self, cwd: str | os.PathLike[str] | None) -> str:
        directory = self.cwd if cwd is None else os.path.realpath(os.path.join(self.cwd, cwd))
        if not os.path.isdir(directory):
            raise UsageError(f"{directory} is no directory", remedy="Make it, or name another one.")
        return directory


class Session(Ends):
    """A session of an agent; made by `Agent.new_session`. One prompt at a time."""

    def __init__(self, agent: Agent, live: LiveSession) -> None:
        self.agent = agent
        self._live = live
        self._turns: list[Turn] = []
        self._snapshot: Snapshot | None = None

    @property
    def id(self) -> str:
        """The agent's id of it; opaque."""
        return self._live.session_id

    @property
    def cwd(self) -> str:
        return self._live.cwd

    @property
    def roots(self) -> list[str]:
        """The directories in which the agent may read and write files; the first is `cwd`."""
        return list(self._live.roots.paths)

    @property
    def title(self) -> str | None:
        return self._live.transcript.info.title

    @property
    def turns(self) -> list[Turn]:
        """The turns prompted through this handle, also failed and cancelled ones."""
        return list(self._turns)

    @property
    def decisions(self) -> list[Record]:
        """What was decided about requests for permission, oldest first; ``as_json`` exports one."""
        return self._live.decisions

    @property
    def options(self) -> dict[str, str | bool]:
        """What the agent lets the user set (its mode, its model), by name, as it stands."""
        return {option.id: option.value for option in self._live.options}

    def set_option(self, name: str, value: str | bool) -> None:
        """Set one of `options`.

        Raises:
            UsageError: the agent offers no such option, or no such value of it.
            ACPError: it refused, or does not answer.
        """
        self.agent._call(self._set_option, name, value)

    async def aset_option(self, name: str, value: str | bool) -> None:
        """`set_option`, for ``await``."""
        await self.agent._acall(self._set_option, name, value)

    @property
    def terminals(self) -> list[Terminal]:
        """The commands that the agent runs here, and the last that have ended, oldest first."""
        portal = self.agent._host.portal
        return [Terminal(view, portal) for view in self._live.terminals.views]

    @property
    def commands(self) -> list[dict[str, Any]]:
        """The agent's slash commands ``{"name", "description", "input"?}``."""
        return list(self._live.transcript.info.commands)

    def prompt(
        self,
        text: str,
        *,
        attach: Sequence[object] = (),
        show: bool = False,
        timeout: float | None = None,
        budget: float | None = None,
        tokens: int | None = None,
        meta: Meta | None = None,
        **named: object,
    ) -> Turn:
        """Send a prompt and wait for the end of the turn.

        Args:
            text: what to say; ``@name`` and ``@path/to/file`` in it are sent along.
            attach: more to send along: objects, or paths as strings.
            show: stream the answer into the cell's output too (notebooks).
            timeout: seconds after which the turn is cancelled.
            budget: cost after which it is cancelled, in the currency that the agent reports.
            tokens: tokens of context after which it is cancelled.
            meta: sent along as ``_meta``.
            named: objects by the name under which the text mentions them.

        Raises:
            TurnCancelled: it was interrupted, or beyond a limit; the turn is in `turns`.
            TurnRunning: an earlier prompt is still running.
            ACPError: it failed; the turn is in `turns`.
        """
        limits = Limits(timeout, budget, tokens)
        prompt = self._gather(text, attach, named, meta)
        return self.agent._call(self._prompt, prompt, limits, show, None)

    async def aprompt(
        self,
        text: str,
        *,
        attach: Sequence[object] = (),
        show: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  # the turn is cancelled in order, not the task
        budget: float | None = None,
        tokens: int | None = None,
        meta: Meta | None = None,
        **named: object,
    ) -> Turn:
        """`prompt`, for ``await``; cancelling the task cancels the turn."""
        limits = Limits(timeout, budget, tokens)
        prompt = self._gather(text, attach, named, meta)
        job = self.agent._submit(self._prompt, prompt, limits, show, None)
        return await _await(job, lambda: self._stop(job))

    async def stream(
        self,
        text: str,
        *,
        attach: Sequence[object] = (),
        show: bool = False,
        meta: Meta | None = None,
        **named: object,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Send a prompt and go through the updates as they come, each a ``session/update`` body.

        The turn itself is the last of `turns`. Leaving the loop early cancels it; to wait for
        that, go through ``contextlib.aclosing(session.stream(…))``.

        Raises:
            ACPError: as `prompt` does, after the last update.
        """
        loop = asyncio.get_running_loop()
        updates: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        def put(update: dict[str, Any] | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody reads on
                loop.call_soon_threadsafe(updates.put_nowait, update)

        prompt = self._gather(text, attach, named, meta)
        job = self.agent._submit(self._prompt, prompt, Limits(), show, put)
        job.add_done_callback(lambda _: put(None))
        ended = asyncio.wrap_future(job)
        try:
            async with _turning():
                while (update := await updates.get()) is not None:
                    yield update
        finally:
            if not job.done():
                self._stop(job)
            with contextlib.suppress(TurnCancelled, asyncio.CancelledError):
                await asyncio.shield(ended)
        await ended

    def snapshot(self) -> Snapshot:
        """Note how the files of the session's folder are; `check` compares with the last one.

        Raises:
            UsageError: there are too many of them.
        """
        from ..services.workspace.snapshot import take

        self._snapshot = take(os.path.realpath(self.cwd))
        return self._snapshot

    def check(
        self, *lines: str, timeout: float = 60.0, fail: bool = False, **named: object
    ) -> Checks:
        """`Turn.check` of the last turn, files compared with the last `snapshot`, if any."""
        if not self._turns:
            raise UsageError("there is no turn to check", remedy="Prompt the agent first.")
        return self._turns[-1].check(
            *lines, snapshot=self._snapshot, timeout=timeout, fail=fail, **named
        )

    def cancel(self) -> None:
        """Cancel the running turn, from any thread; a second call ends the agent."""
        self.agent._host.portal.run_soon(self._live.cancel)

    def _stop(self, job: PortalFuture[Turn]) -> None:
        """Cancel the turn of a job, or the job where its turn has not begun."""

        def stop() -> None:
            if not self._live.cancel():
                job.cancel()

        self.agent._host.portal.run_soon(stop)

    def to_frame(self) -> pandas.DataFrame:
        """One row for each turn: number, prompt, text, stop reason, times, usage, counts.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("pandas is not installed", remedy="pip install pandas") from error
        return pd.DataFrame([_row(turn) for turn in self._turns])

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.agent._spec.name}: {len(self._turns)} turns>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Called by IPython to display it."""
        from ..rendering.facts import Facts

        rows = [(f"Turn {turn.number}", repr(turn)) for turn in self._turns]
        return dict(Facts(self.title or f"Session {self.id}", rows).as_bundle())

    def _gather(
        self,
        text: str,
        attach: Sequence[object],
        named: Mapping[str, object],
        meta: Meta | None,
    ) -> Prompt:
        prompt = self.agent._host.gather(text, attach, namespace=named, cwd=self.cwd)
        return prompt if meta is None else replace(prompt, meta=check_meta(meta))

    async def _set_option(self, _cell: CellContext, name: str, value: str | bool) -> None:
        await self._live.set_option(name, value)

    async def _prompt(
        self,
        cell: CellContext,
        prompt: Prompt,
        limits: Limits,
        show: bool,
        on_update: Callable[[dict[str, Any]], None] | None,
    ) -> Turn:
        live, agent = self._live, self.agent._live
        if live.busy:  # before anything of the turn that runs is changed
            raise TurnRunning(
                "a turn is still running in this session",
                remedy="Wait for its end, or use another session: `agent.new_session()`.",
            )
        before = live.transcript.turn.number
        live.on_update = on_update
        try:
            await self.agent._link.prompt_in(cell, live, prompt, limits, show=show)
        finally:
            live.on_update = None
            if live.transcript.turn.number > before:  # also one that failed is kept
                self._turns.append(last_turn(agent, live))
        return self._turns[-1]


@contextlib.asynccontextmanager
async def _turning() -> AsyncIterator[None]:
    """Keep the event loop turning: what a signal's handler asks of it, as ipykernel's does that
    cancels the cell, is only done with the next event, and a slow agent makes none."""

    async def tick() -> None:
        while True:  # noqa: ASYNC110  # it waits for nothing: the events are what it is for
            await asyncio.sleep(TICK)

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()


async def _await(job: PortalFuture[T], cancel: Callable[[], object]) -> T:
    """Wait for a job under asyncio; a cancelled task cancels it, and waits for its end."""
    waiting = asyncio.wrap_future(job)
    try:
        async with _turning():
            return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        cancel()
        with contextlib.suppress(ACPError, asyncio.CancelledError):
            await waiting
        raise


def _row(turn: Turn) -> dict[str, Any]:
    cost = turn.usage.get("cost")
    return {
        "turn": turn.number,
        "prompt": "".join(block.get("text", "") for block in turn.prompt),
        "text": turn.text,
        "stop_reason": turn.stop_reason,
        "error": turn.error,
        "first_chunk_s": turn.timings.first_chunk,
        "duration_s": turn.timings.duration,
        "tokens": turn.usage.get("used"),
        "cost": cost.get("amount") if isinstance(cost, dict) else None,
        "tool_calls": len(turn.tool_calls),
        "permissions": len(turn.permissions),
        "diffs": len(turn.diffs),
    }
