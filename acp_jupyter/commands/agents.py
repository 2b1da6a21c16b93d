"""``%acp agents``: who can be connected by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import UsageError
from .base import Commands

if TYPE_CHECKING:
    from ..host.cell import CellContext
    from ..services.registry.fetching import Update

LEFT_OUT: Final = 10
"""Entries of a registry that cannot be used, as many as are told."""


class AgentCommands(Commands):
    """The agents there are."""

    TITLE = "Agents"

    def _do_agents(self, arguments: list[str]) -> None:
        """%acp agents [NAME], %acp agents update: list the agents that can be connected by name,
        which of them are installed and how to get the others; fetch the current registry."""
        if len(arguments) > 1:
            raise UsageError(
                "%acp agents takes one word", remedy="Use the name of an agent, or update."
            )
        if arguments == ["update"]:
            self._update_agents()
        elif arguments:
            self._show_agent(arguments[0])
        else:
            self._list_agents()

    def _list_agents(self) -> None:
        from ..rendering.facts import Facts
        from ..services.registry.catalogue import load
        from ..services.registry.choosing import this_platform
        from ..services.registry.listing import list_agents

        settings = self._host.settings
        catalogue = load(settings.registry)
        listed = list_agents(
            settings.agents, catalogue, this_platform(), self._host.installing.which
        )
        rows = [(" ".join((agent.id, agent.version)).strip(), agent.words) for agent in listed]
        self._cell().show(Facts("Agents for %acp connect NAME", rows))
        self._say(f"Known from {catalogue.source}. `%acp agents update` fetches the current list.")
        if catalogue.problem:
            self._say(f"The list that was fetched is not used: {catalogue.problem}")

    def _show_agent(self, name: str) -> None:
        from ..rendering.facts import Facts
        from ..services.registry.catalogue import load
        from ..services.registry.choosing import this_platform
        from ..services.registry.listing import facts_of, list_agents

        settings = self._host.settings
        catalogue = load(settings.registry)
        found = catalogue.find(name)
        ident = found.id if found is not None and name not in settings.agents else name
        which = self._host.installing.which
        for agent in list_agents(settings.agents, catalogue, this_platform(), which):
            if agent.id == ident:
                self._cell().show(Facts(agent.name, facts_of(agent)))
                return
        self._host.agent_named(name)  # says that nobody knows it, and who is near

    def _update_agents(self) -> None:
        link = self._link
        update = link.call(self._cell(), _update, self._host.settings.registry, exclusive=False)
        count = len(update.registry.agents)
        news = "" if update.changed else ", as before"
        self._say(f"Agents in the registry: {count}{news}. `%acp agents` lists them.")
        for reason in update.registry.left_out[:LEFT_OUT]:
            self._say(f"Left out: {reason}")


async def _update(_cell: CellContext, address: str) -> Update:
    import trio

    from ..services.registry.fetching import update

    return await trio.to_thread.run_sync(update, address, abandon_on_cancel=True)
