"""``acp-jupyter agents``: the agents that can be connected by name.

Exit code 3: an agent was named, and it is not installed and cannot be run here. ``update``: exit
code 4 if the registry cannot be reached, when what was known is used as before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Final

MISSING: Final = 3
"""Exit code for an agent that cannot be started here."""

UNREACHABLE: Final = 4
"""Exit code where the registry cannot be fetched."""

UPDATE: Final = "update"


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    agents = commands.add_parser(
        "agents",
        help="list the agents that can be connected by name",
        description="List the agents that can be connected by name, which of them are installed, "
        "and how to get the others; with a name, all about that one. `update` fetches the "
        "registry. Exit code 3: the agent that was named is not here; 4: the registry cannot be "
        "reached.",
    )
    agents.add_argument("name", nargs="?", help=f"of one agent, or {UPDATE}")
    agents.add_argument("--json", action="store_true", help="as JSON, for programs")
    agents.set_defaults(run=_agents)


def _agents(arguments: argparse.Namespace) -> int:
    from ..host.installing import search_path
    from ..host.settings import ACPJupyter
    from ..services.registry.catalogue import load
    from ..services.registry.choosing import find_program, this_platform
    from ..services.registry.listing import list_agents

    settings = ACPJupyter.load(os.environ)
    if arguments.name == UPDATE:
        return _update(settings.registry, as_json=arguments.json)
    catalogue = load(settings.registry)
    which = find_program(search_path(os.environ.get("PATH", os.defpath)))
    listed = list_agents(settings.agents, catalogue, this_platform(), which)
    if arguments.name:
        return _one(arguments.name, settings, listed, as_json=arguments.json)
    if arguments.json:
        agents = [agent.as_json() for agent in listed]
        print(json.dumps({"source": catalogue.source, "agents": agents}, indent=1))
    else:
        _table([(agent.id, agent.version, agent.words) for agent in listed])
        print(f"\nKnown from {catalogue.source}.")
        print("`acp-jupyter agents update` fetches the current list; `acp-jupyter agents NAME`")
        print("tells more of one. Connect one in a notebook: `%acp connect NAME`.")
    if catalogue.problem:
        print(f"The list that was fetched is not used: {catalogue.problem}", file=sys.stderr)
    return 0


def _one(name: str, settings: Any, listed: list[Any], *, as_json: bool) -> int:
    from ..rendering.facts import Facts
    from ..services.agents import from_name
    from ..services.registry.listing import facts_of

    spec = from_name(name, settings.agents, settings.registry)
    ident = spec.registry.id if spec.registry is not None else name
    agent = next(each for each in listed if each.id == ident)
    if as_json:
        print(json.dumps(agent.as_json(), indent=1))
    else:
        print(Facts(agent.name, facts_of(agent)).as_text())
    return MISSING if agent.state == "missing" else 0


def _update(address: str, *, as_json: bool) -> int:
    from ..rendering.characters import one_line
    from ..services.registry.fetching import CannotFetch, update

    try:
        found = update(address)
    except CannotFetch as error:
        print(f"acp-jupyter: {error}", file=sys.stderr)
        print("What was known before is used as before.", file=sys.stderr)
        return UNREACHABLE
    left_out = [one_line(reason) for reason in found.registry.left_out]
    count = len(found.registry.agents)
    if as_json:
        print(json.dumps({"agents": count, "changed": found.changed, "left_out": left_out}))
        return 0
    print(f"Agents in the registry: {count}{'' if found.changed else ', as before'}.")
    for reason in left_out:
        print(f"Left out: {reason}")
    return 0


def _table(rows: list[tuple[str, ...]]) -> None:
    from ..rendering.characters import one_line

    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for *cells, last in rows:
        start = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(f"{start}  {one_line(last, 400)}")
