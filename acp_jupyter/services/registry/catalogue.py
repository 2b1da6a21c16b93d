"""Which agents of the registry are known here, by id and by short names.

The package brings a snapshot: ids, how they are launched, what their programs are called. A
registry that was fetched later takes its place; programs and short names still come from the
snapshot, as does what has gone from the registry since, to be started where it is installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from ...errors import UsageError
from .model import Invalid, Program, Registry, RegistryAgent, parse_agent, parse_registry
from .places import data_folder, read_private

ADDRESS: Final = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
"""The official registry."""

CACHE: Final = "registry.json"

LARGEST: Final = 8 * 2**20
"""Bytes of a registry; the official one has some 50,000."""

SNAPSHOT: Final = Path(__file__).with_name("snapshot.json")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is known of agents.

    Attributes:
        agents: by id.
        source: where that comes from, in words.
        problem: why a registry that was fetched is not used; may be empty.
    """

    agents: Mapping[str, RegistryAgent]
    source: str
    problem: str = ""

    def find(self, name: str) -> RegistryAgent | None:
        """The agent of that id or short name."""
        if name in self.agents:
            return self.agents[name]
        return next((agent for agent in self.agents.values() if name in agent.aliases), None)

    def names(self) -> list[str]:
        """All ids and short names."""
        aliases = [alias for agent in self.agents.values() for alias in agent.aliases]
        return sorted({*self.agents, *aliases})


@dataclass(frozen=True, slots=True)
class Fetched:
    """A registry as it was fetched.

    Attributes:
        url: from where.
        etag: its version, as the server calls it; may be empty.
        at: when, ISO 8601.
        document: decoded JSON.
    """

    url: str
    etag: str
    at: str
    document: Any

    def as_json(self) -> str:
        """For the cache; read by `read_cache`."""
        about = {"url": self.url, "etag": self.etag, "fetched": self.at}
        return json.dumps({**about, "registry": self.document})


def cache_file() -> Path:
    """Where a fetched registry is kept."""
    return data_folder() / CACHE


def load(address: str = "") -> Catalogue:
    """What is known here, without asking the network.

    Args:
        address: the registry of the settings, the official one if it is empty; what was fetched
            elsewhere is not used.
    """
    address = address or ADDRESS
    known, made = read_snapshot()
    source = f"the list that came with this version, of {made}"
    try:
        fetched = read_cache()
        if fetched is None or fetched.url != address or fetched.at[:10] < made.isoformat():
            return Catalogue(known, source)
        registry = parse_registry(fetched.document)
    except UsageError as error:
        return Catalogue(known, source, error.message)
    return Catalogue(_merged(registry, known), f"{address}, fetched {fetched.at}")


def read_cache() -> Fetched | None:
    """What was fetched last; ``None`` if nothing was.

    Raises:
        UsageError: it cannot be used.
    """
    path = cache_file()
    data = read_private(path, LARGEST * 2)
    if data is None:
        return None
    try:
        kept = json.loads(data)
        at = str(kept["fetched"])
        datetime.fromisoformat(at)
        return Fetched(str(kept["url"]), str(kept["etag"]), at, kept["registry"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read", remedy="Fetch it again: `acp-jupyter agents update`."
        ) from error


@cache
def read_snapshot() -> tuple[Mapping[str, RegistryAgent], date]:
    """The agents of the snapshot, and of when it is."""
    document = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    try:
        agents = [parse_agent(entry, curated=True) for entry in document["agents"]]
    except Invalid as error:
        raise AssertionError(f"the snapshot: {error}") from error
    return {agent.id: agent for agent in agents}, date.fromisoformat(document["date"])


def _merged(
    registry: Registry, snapshot: Mapping[str, RegistryAgent]
) -> Mapping[str, RegistryAgent]:
    agents = {}
    for ident, agent in registry.agents.items():
        agents[ident] = _with_program(agent, snapshot.get(ident))
    for ident, agent in snapshot.items():
        if ident not in agents:  # whatever took it out, nothing is downloaded for it any more
            agents[ident] = replace(agent, packages=(), binaries={})
    return dict(sorted(agents.items()))


def _with_program(agent: RegistryAgent, known: RegistryAgent | None) -> RegistryAgent:
    """An agent of a fetched registry with the name of its program.

    It is called as the registry says now; only if that is what the snapshot says too, it needs
    no question (``curated``).
    """
    first = agent.packages[0] if agent.packages else next(iter(agent.binaries.values()))
    name = known.program.name if known is not None and known.program is not None else ""
    if not name and agent.binaries:
        name = next(iter(agent.binaries.values())).cmd.rsplit("/", 1)[-1].removesuffix(".exe")
    if not name and agent.packages:
        name = agent.packages[0].cmd
    program = Program(name, first.args, first.env) if name else None
    return replace(
        agent,
        program=program,
        curated=known is not None and program is not None and known.program == program,
        aliases=known.aliases if known is not None else (),
    )
