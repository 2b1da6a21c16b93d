"""The sessions of a link as its user sees them: numbered, opened again, forked, closed, deleted.

Numbers are those of the list that was shown last; an id, or the beginning of one, does as well. An
id is the agent's and opaque. Coroutines run on the trio thread.

A session's directory is what the agent may read and write in. The agent says itself in which
directory an earlier session was, so one outside of the notebook's folder has to be named by the
user.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from ..errors import UsageError
from ..protocol.outgoing import NEWEST
from ..rendering.characters import one_line
from ..services.policy_file import check_outside
from ..services.remembered import agent_digest

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session
    from ..protocol.listing import Listed
    from ..services.agents import AgentSpec
    from ..services.last_sessions import Last
    from ..services.policy import Policy
    from ..session.attachments import Prompt
    from ..session.limits import Limits
    from ..session.transcript import Turn
    from .cell import CellContext
    from .host import Host
    from .link import Link

SHOWN: Final = 20
"""Sessions that are shown unless all are asked for."""

WIDTH: Final = 60
"""Characters shown of an id or a title."""


class LinkSessions:
    """See the module.

    Args:
        link: whose they are.

    Attributes:
        listed: what the last list showed, number 1 first.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self.listed: list[Listed] = []

    # -- what there is -------------------------------------------------------------------------

    async def table(self, _cell: CellContext, everything: bool) -> str:
        """The open sessions and those that the agent lists, as text.

        Args:
            everything: of all directories, all of them; else the first of the notebook's own.

        Raises:
            ACPError: the agent failed to tell.
        """
        from ..protocol.listing import Listed

        agent = self._agent()
        open_ones = [
            Listed(each.session_id, each.cwd, each.transcript.info.title or "")
            for each in agent.sessions.values()
        ]
        found, complete = open_ones, True
        if agent.alive and agent.offers("session/list"):
            cwd = None if everything else self._link.cwd
            told, complete = await agent.lifecycle.listed(cwd)
            known = {item.session_id for item in told}
            found = [*(each for each in open_ones if each.session_id not in known), *told]
        self.listed = found if everything else found[:SHOWN]
        lines = [self._line(number, item, agent) for number, item in enumerate(self.listed, 1)]
        more = len(found) - len(self.listed)
        if more or not complete:
            lines.append(f"… {f'{more:,} ' if more else ''}more: `%acp sessions --all`.")
        if not agent.offers("session/list"):
            lines.append("This agent does not list its earlier sessions.")
        return "\n".join([*lines, _what_can_be_done(agent)])

    def _line(self, number: int, item: Listed, agent: Agent) -> str:
        current = self._link.session
        state = "open" if item.session_id in agent.sessions else ""
        if current is not None and item.session_id == current.session_id:
            state = "current"
        folder = "" if item.cwd == self._link.cwd else one_line(item.cwd, 200)
        facts = [
            one_line(item.title, WIDTH) or "(no title)",
            one_line(item.session_id, WIDTH),
            state,
            one_line(item.updated_at, 40),
            folder,
        ]
        return f"{number:>3}. " + " · ".join(fact for fact in facts if fact)

    def find_open(self, which: str) -> Session:
        """An open session by its number, its id or the beginning of that.

        Raises:
            UsageError: there is none.
        """
        agent = self._agent()
        session = agent.sessions.get(self._ident(which, open_only=True))
        if session is None:
            raise UsageError(
                f"session {one_line(which, WIDTH)!r} is not open",
                remedy="`%acp sessions` lists them; load or resume it first.",
            )
        return session

    def knows(self, which: str) -> bool:
        """Whether that names an open session, or is a number."""
        agent = self._link.agent
        if agent is None:
            return False
        return (which.isascii() and which.isdigit()) or any(
            ident.startswith(which) for ident in agent.sessions
        )

    async def prompt(self, cell: CellContext, which: str, prompt: Prompt, limits: Limits) -> Turn:
        """Run a prompt turn in an open session; the current one stays the current one."""
        return await self._link.prompt_in(cell, self.find_open(which), prompt, limits)

    def _ident(self, which: str, *, open_only: bool = False) -> str:
        agent = self._agent()
        numbered = self.listed or [*self._as_listed()]
        if which.isascii() and which.isdigit() and 0 < int(which[:9]) <= len(numbered):
            return numbered[int(which) - 1].session_id
        known = [*agent.sessions] if open_only else []
        known += [] if open_only else [*agent.sessions, *(item.session_id for item in self.listed)]
        fits = {ident for ident in known if ident.startswith(which)}
        if which in fits or (not fits and not open_only):
            return which
        if len(fits) == 1:
            return fits.pop()
        raise UsageError(
            f"{len(fits) or 'no'} sessions have an id that begins with {one_line(which, WIDTH)!r}",
            remedy="`%acp sessions` lists them with numbers.",
        )

    def _as_listed(self) -> list[Listed]:
        from ..protocol.listing import Listed

        return [Listed(each.session_id, each.cwd) for each in self._agent().sessions.values()]

    # -- opening -------------------------------------------------------------------------------

    async def new(self, cell: CellContext, cwd: str) -> Session:
        """Open a new session in ``cwd``, and make it the current one."""
        return await self._open(
            cell, cwd, lambda agent: agent.lifecycle.new(cwd, policy=self._policy())
        )

    async def load(self, cell: CellContext, which: str, cwd: str | None) -> Session:
        """Open an earlier session with its history, and make it the current one."""
        self._agent().lifecycle.require("session/load")
        ident, cwd = self._earlier(which, cwd)
        return await self._open(
            cell, cwd, lambda agent: agent.lifecycle.load(ident, cwd, policy=self._policy())
        )

    async def resume(self, cell: CellContext, which: str, cwd: str | None) -> Session:
        """Open an earlier session without its history, and make it the current one."""
        self._agent().lifecycle.require("session/resume")
        ident, cwd = self._earlier(which, cwd)
        return await self._open(
            cell, cwd, lambda agent: agent.lifecycle.resume(ident, cwd, policy=self._policy())
        )

    async def fork(self, cell: CellContext) -> Session:
        """Open a session that begins where the current one is, and make it the current one."""
        self._agent().lifecycle.require("session/fork")
        current = self._link.session
        if current is None:
            raise UsageError("no session is open", remedy="Send a prompt first.")
        return await self._open(cell, current.cwd, lambda agent: agent.lifecycle.fork(current))

    async def go_on(self, cell: CellContext, spec: AgentSpec | None) -> Session:
        """Go on in the session that the notebook used last, see `services.last_sessions`.

        Args:
            cell: that runs.
            spec: the agent to start where none is connected.

        Raises:
            UsageError: none is known, or the agent cannot open earlier sessions.
            ACPError: it failed.
        """
        link = self._link
        assert link.client is not None
        live = link.agent
        chosen = live.spec if live is not None else spec
        last = None if chosen is None else _last_with(link, chosen)
        if last is None or not await trio.Path(last.cwd).is_dir():
            raise UsageError(
                "no earlier session of this notebook with that agent is known",
                remedy="`%acp sessions` lists those that the agent knows.",
            )
        if live is None:
            assert spec is not None
            return await link.connect(cell, spec, last.cwd, session_id=last.session_id)
        known = live.sessions.get(last.session_id)
        if known is not None and live.alive:
            link.client.use(known)
            return known
        if not live.lifecycle.reopens:
            live.lifecycle.require("session/resume")
        return await self._open(
            cell,
            last.cwd,
            lambda agent: agent.lifecycle.reopen(last.session_id, last.cwd, policy=self._policy()),
        )

    async def use(self, _cell: CellContext, which: str) -> Session:
        """Make an open session the current one."""
        session = self.find_open(which)
        assert self._link.client is not None
        self._link.client.use(session)
        return session

    async def _open(
        self, cell: CellContext, cwd: str, opening: Callable[[Agent], Awaitable[Session]]
    ) -> Session:
        check_outside(self._policy(), [cwd])
        session = await self._link.open(cell, opening)
        for item in self.listed:  # agents do not tell the title again
            if item.session_id == session.session_id and session.transcript.info.title is None:
                update = {"sessionUpdate": "session_info_update", "title": item.title or None}
                session.take([update])
        return session

    def _earlier(self, which: str, cwd: str | None) -> tuple[str, str]:
        """The id and the directory of a session that is opened again."""
        ident = self._ident(which)
        listed = next((item for item in self.listed if item.session_id == ident), None)
        own = self._link.cwd
        if cwd is not None:
            return ident, cwd
        if listed is None or not listed.cwd:
            return ident, own
        folder = os.path.realpath(listed.cwd)
        if os.path.commonpath([folder, own]) != own or not os.path.isdir(folder):
            raise UsageError(
                f"that session belongs to {one_line(listed.cwd, 200)}, "
                "which is no folder below the notebook's",
                remedy="Name the folder that the agent may work in with `--cwd FOLDER`.",
            )
        return ident, folder

    # -- ending --------------------------------------------------------------------------------

    async def close(self, _cell: CellContext, which: str) -> str:
        """Close an open session, by default the current one; returns its id."""
        agent = self._agent()
        agent.lifecycle.require("session/close")
        session = self.find_open(which) if which else self._link.session
        if session is None:
            raise UsageError("no session is open", remedy="There is nothing to close.")
        await agent.lifecycle.close(session)
        self._left()
        return session.session_id

    async def delete(self, cell: CellContext, which: str, sure: bool) -> str:
        """Delete a session for good, if the user agrees.

        Args:
            cell: that runs.
            which: its number or id.
            sure: it was asked before.

        Returns:
            What it is called; empty where the user did not agree.

        Raises:
            UsageError: the agent cannot delete sessions, or nobody can be asked.
            ACPError: it failed.
        """
        agent = self._agent()
        agent.lifecycle.require("session/delete")
        ident = self._ident(which)
        listed = next((item for item in self.listed if item.session_id == ident), None)
        title = one_line(listed.title, WIDTH) if listed is not None else ""
        name = f"{title} ({one_line(ident, WIDTH)})" if title else one_line(ident, WIDTH)
        if not sure and not await self._link.confirm(
            cell,
            f"Delete the session {name} for good",
            remedy=f"Add --yes: `%acp sessions delete {which} --yes`.",
        ):
            return ""
        await agent.lifecycle.delete(ident)
        self.listed = [item for item in self.listed if item.session_id != ident]
        self._left()
        return name

    def _left(self) -> None:
        assert self._link.client is not None
        self._link.client.leave()

    def _agent(self) -> Agent:
        if self._link.agent is None:
            raise UsageError(
                "no agent is connected",
                remedy="Run `%acp connect demo`, or `%acp connect -- COMMAND`.",
            )
        return self._link.agent

    def _policy(self) -> Policy:
        assert self._link.client is not None
        return self._link.client.policy


def agent_of(host: Host, last: Last) -> AgentSpec:
    """The agent that a notebook used last: by its name, or the one of the settings.

    No command is taken from what was kept: it says which one it was, not what to start.

    Raises:
        UsageError: it has no name here.
    """
    candidates = (lambda: host.agent_named(last.agent), host.default_agent)
    for candidate in candidates:
        try:
            spec = candidate()
        except UsageError:
            continue
        if spec.registry is not None or agent_digest(spec.argv) == last.digest:
            return replace(spec, protocol=last.protocol if last.protocol <= NEWEST else 1)
    raise UsageError(
        f"this notebook used {one_line(last.agent, 100)!r}, which has no name here",
        remedy="Run the cell that connects it, then `%acp resume`.",
    )


def _last_with(link: Link, spec: AgentSpec) -> Last | None:
    """Where the notebook was with an agent; one of the registry is the same in any version."""
    last = link.last_sessions.read(link.name, agent_digest(spec.argv))
    if last is None and spec.registry is not None:
        last = link.last_sessions.read(link.name)
        return last if last is not None and last.agent == spec.name else None
    return last


def _what_can_be_done(agent: Agent) -> str:
    """The commands about sessions that make sense with this agent."""
    words = [
        "`%acp sessions new`",
        "`use N`",
        *(
            f"`{word}`"
            for word, method in (
                ("load N", "session/load"),
                ("resume N", "session/resume"),
                ("fork", "session/fork"),
                ("close N", "session/close"),
                ("delete N", "session/delete"),
            )
            if agent.offers(method)
        ),
    ]
    return f"{', '.join(words)}."
