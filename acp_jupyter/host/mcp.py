"""Which MCP servers the sessions of a link are told of: by name, and with consent.

A server of the user's configuration, or one that a program gives, is named, and that is consent.
One that a file has is shown once, with what will run, before any agent is told of it; where nobody
can answer it is refused, unless ``--yes`` says otherwise or it is moved to the configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..client import mcp
from ..errors import UsageError
from ..services.mcp.files import read_file
from ..services.mcp.servers import McpServer, Ready, read_server
from ..session.transcript import PermissionChoice, PermissionEntry

if TYPE_CHECKING:
    from .cell import CellContext
    from .host import Host
    from .link import Link

Given = str | Mapping[str, Any]
"""A server as the user names it: a name, ``FILE``, ``FILE:NAME``, or itself, with its "name"."""


class LinkMcp:
    """See the module.

    Args:
        host: of the notebook.
        link: whose sessions they are.

    Attributes:
        told: what the client tells its agents.
        servers: those of all sessions, by name.
    """

    def __init__(self, host: Host, link: Link) -> None:
        self._host = host
        self._link = link
        self.told = mcp.McpServers()
        self.servers: dict[str, McpServer] = {}

    # -- on the trio thread --------------------------------------------------------------------

    async def add(
        self, cell: CellContext, given: Sequence[Given], unasked: bool = False, check: bool = True
    ) -> list[McpServer]:
        """Have sessions told of servers, from the next one on; all of them or none.

        Args:
            cell: that runs.
            given: what the user named.
            unasked: without a question.
            check: whether the agent that is connected reaches them.

        Raises:
            UsageError: there is no such server, the user says no, or the agent that is connected
                does not reach it.
        """
        servers = [server for item in given for server in self.find(item)]
        await self._allow(cell, servers, unasked)
        agent = self._link.agent
        if check and agent is not None and agent.alive:
            for server in servers:
                here = agent.spec.remote is None
                mcp.check(agent, server.ready(self._host.environ, agent.cwd, here=here))
        for server in servers:
            self.servers[server.name] = server
            self.told.servers[server.name] = self._maker(server)
        return servers

    async def ready(self, cell: CellContext, given: Sequence[Given], cwd: str) -> list[Ready]:
        """Servers for one session in ``cwd``.

        Raises:
            UsageError: as `add`.
        """
        servers = [server for item in given for server in self.find(item)]
        await self._allow(cell, servers, unasked=False)
        agent = self._link.agent
        here = agent is None or agent.spec.remote is None
        return [self._maker(server)(cwd, here) for server in servers]

    def restore(self, servers: Mapping[str, McpServer]) -> None:
        """Go back to the servers of before an `add`."""
        self.servers = dict(servers)
        self.told.servers = {name: self._maker(server) for name, server in servers.items()}

    async def remove(self, _cell: CellContext, name: str) -> None:
        """Have sessions not told of a server any more, from the next one on.

        Raises:
            UsageError: they are not.
        """
        if name not in self.servers:
            known = ", ".join(self.servers)
            raise UsageError(
                f"no MCP server {name!r} was added",
                remedy=f"Added: {known}." if known else "`%acp mcp` lists what there is.",
            )
        del self.servers[name], self.told.servers[name]

    async def share(self, _cell: CellContext, on: bool) -> None:
        """Share the kernel with the link's agents, from the next session on; or what is shared no
        more, at once.

        Raises:
            UsageError: there is no kernel, or the agent that is connected cannot be given it.
        """
        if not on:
            self.told.shared = None
            return
        if getattr(self._host.kernel, "shell", None) is None:
            raise UsageError(
                "there is no kernel to share: this is no notebook",
                remedy="Use it in a notebook; a script can pass values in its prompts.",
            )
        agent = self._link.agent
        if agent is not None and agent.alive:
            agent.lifecycle.mcp.check_shared()
        self.told.shared = self._host.kernel_share

    # -- in any thread -------------------------------------------------------------------------

    def find(self, given: Given) -> list[McpServer]:
        """The servers that the user means.

        Raises:
            UsageError: there are none.
        """
        if not isinstance(given, str):
            value = dict(given)
            return [read_server(str(value.pop("name", "")), value)]
        configured = self.configured()
        if given in configured:
            return [configured[given]]
        file, name = given, ""
        if not os.path.isfile(self._path(file)):
            file, _, name = given.rpartition(":")
        if not file or not os.path.isfile(self._path(file)):
            known = ", ".join(configured)
            raise UsageError(
                f"there is no MCP server {given!r} in the configuration, and no such file",
                remedy=f"{f'Known: {known}. ' if known else ''}`%acp mcp` lists what there is; "
                "c.ACPJupyter.mcp_servers in jupyter_acp_config.py has names.",
            )
        servers = read_file(self._path(file))
        if name and name not in servers:
            raise UsageError(
                f"{file} has no MCP server {name!r}", remedy=f"It has: {', '.join(servers)}."
            )
        return [servers[name]] if name else [*servers.values()]

    def configured(self) -> dict[str, McpServer]:
        """Those of the user's configuration, by name.

        Raises:
            UsageError: one of them is none.
        """
        servers = self._host.settings.mcp_servers
        return {name: read_server(name, value) for name, value in servers.items()}

    def _path(self, written: str) -> str:
        return os.path.realpath(os.path.join(self._host.cwd, os.path.expanduser(written)))

    def _maker(self, server: McpServer) -> Any:
        environ = self._host.environ
        return lambda cwd, here: server.ready(environ, cwd, here=here)

    # -- consent -------------------------------------------------------------------------------

    async def _allow(self, cell: CellContext, servers: Sequence[McpServer], unasked: bool) -> None:
        consents = self._host.mcp_consents
        for server in servers:
            if server.source and not unasked and not consents.allowed(server.identity):
                for_good = await self._ask(cell, server)
                words = f"{server.name}: {server.line}"
                consents.allow(server.identity, words, for_good=for_good)

    async def _ask(self, cell: CellContext, server: McpServer) -> bool:
        """Ask whether agents may be told of a server; whether the answer holds for good.

        Raises:
            UsageError: they may not, or nobody can be asked.
        """
        from ..services.permissions import CannotAsk
        from .asking import Asking

        entry = question(server)
        try:
            chosen = await Asking(self._host, cell, label=self._link.label).choose(entry)
        except CannotAsk as error:
            raise UsageError(
                f"MCP server {server.name!r} of {server.source} needs your consent, and nobody can "
                f"be asked: {error}",
                remedy=f"Write `--yes`, or have {server.name!r} in c.ACPJupyter.mcp_servers.",
            ) from error
        kind = "reject_once" if chosen is None else entry.options[chosen].kind
        if not kind.startswith("allow"):
            raise UsageError(
                f"MCP server {server.name!r} was not added: you did not allow it",
                remedy="Run the cell again to be asked again.",
            )
        return kind == "allow_always"


def question(server: McpServer) -> PermissionEntry:
    """What the user is asked before agents are told of a server that a file has."""
    from ..rendering.characters import one_line

    started = server.transport == "stdio"
    rows = [
        ("From", server.source),
        ("The agent will start" if started else "The agent will connect to", server.line),
    ]
    if started:
        rows.append(("As", "a program of its own, which does what it does without asking you"))
    taken = server.taken_from_environment()
    if taken:
        rows.append(("It gets from your environment", ", ".join(taken)))
    return PermissionEntry(
        "mcp-server",
        0,
        question_id="mcp-server",
        title=f"Agents are told of MCP server {one_line(server.name, 100)}",
        kind="execute" if started else "fetch",
        # One line each: what the file says must not look like a line of ours.
        description="\n".join(f"{name}: {one_line(value, 600)}" for name, value in rows),
        options=[
            PermissionChoice("allow", "", "allow_once"),
            PermissionChoice("always", "", "allow_always"),
            PermissionChoice("reject", "", "reject_once"),
        ],
        origin="client",
    )
