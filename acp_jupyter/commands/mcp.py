"""``%acp mcp`` and ``%acp share``: what agents can reach besides their own tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..rendering.characters import one_line
from .base import Commands, unknown_option

if TYPE_CHECKING:
    from ..services.mcp.servers import McpServer

EXAMPLE = "For example `%acp mcp add .mcp.json`, or `%acp mcp remove NAME`."

LATER = "Sessions are told of it from the next one on: `%acp sessions new`, or `%acp restart`."
"""The protocol knows no other time."""


class McpCommands(Commands):
    """Add, list and remove MCP servers; share the kernel as one."""

    TITLE = "MCP servers"

    def _do_mcp(self, arguments: list[str]) -> None:
        """%acp mcp, or %acp mcp add NAME|FILE|FILE:NAME … [--yes] | remove NAME: MCP servers that
        agents are told of. They are in the configuration, or in a file such as .mcp.json, whose
        servers are shown and asked for; --yes adds them unasked."""
        link = self._link
        words = [word for word in arguments if word != "--yes"]
        unknown = next((word for word in words if word.startswith("-")), "")
        if unknown:
            raise unknown_option(unknown, ["--yes"])
        match words:
            case []:
                self._list_servers()
            case ["add", *names] if names:
                unasked = len(words) < len(arguments)
                added = link.call(self._cell(), link.mcp.add, names, unasked)
                names_of = ", ".join(one_line(server.name, 100) for server in added)
                self._say(f"Added: {names_of}.{self._later()}")
            case ["remove", name]:
                link.call(self._cell(), link.mcp.remove, name)
                self._say(f"Removed: {one_line(name, 100)}.{self._later('')}")
            case _:
                raise UsageError("%acp mcp takes add or remove, and a name", remedy=EXAMPLE)

    def _do_share(self, arguments: list[str]) -> None:
        """%acp share, or %acp share kernel | off: let the agent ask for variables, the last plot
        and the last error, and run code with the variables in a namespace of its own. You are asked
        for each by name."""
        link = self._link
        match arguments:
            case []:
                shared = link.mcp.told.shared is not None
                self._say("The kernel is shared." if shared else "Nothing is shared.")
            case ["kernel"]:
                link.call(self._cell(), link.mcp.share, True)
                self._say(f"The kernel is shared; you are asked for each thing.{self._later()}")
            case ["off"]:
                link.call(self._cell(), link.mcp.share, False)
                self._say("Nothing is shared.")
            case _:
                raise UsageError(
                    "%acp share takes kernel or off", remedy="For example `%acp share kernel`."
                )

    def _later(self, text: str = LATER) -> str:
        """When an open session gets to know of it."""
        agent = self._link.agent
        if agent is None or not agent.alive:
            return ""
        return f" {text or 'Open sessions keep it.'}"

    def _list_servers(self) -> None:
        from ..services.mcp.files import familiar_files

        known = self._link.mcp
        lines = [*_lines("Agents are told of", known.servers.values())]
        others = [s for name, s in known.configured().items() if name not in known.servers]
        lines += _lines("In the configuration", others)
        files = familiar_files(self._host.cwd)
        if files:
            lines += ["Files that may have more (%acp mcp add FILE):", *(f"  {f}" for f in files)]
        if known.told.shared is not None:
            lines.append("The kernel is shared: %acp share")
        self._say("\n".join(lines) or f"There are no MCP servers. {EXAMPLE}")


def _lines(title: str, servers: Iterable[McpServer]) -> list[str]:
    found = [
        f"  {one_line(server.name, 60)} ({server.transport}): {server.line}"
        + (f", from {one_line(server.source, 200)}" if server.source else "")
        for server in servers
    ]
    return [f"{title}:", *found] if found else []
