"""The agents that can be connected by name, and what there is of them on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from ...errors import UsageError
from ...rendering.characters import one_line
from ..agents import DEMO, AgentSpec, from_name, known_names
from . import binaries
from .catalogue import Catalogue
from .choosing import Which, how_to_get, plan_launch
from .model import RegistryAgent

State = Literal["installed", "npx", "uvx", "download", "missing"]

STATES: Final[Mapping[State, str]] = {
    "installed": "installed",
    "npx": "npx downloads it",
    "uvx": "uvx downloads it",
    "download": "can be downloaded",
    "missing": "not here",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent that can be connected by name.

    Attributes:
        id: that name.
        aliases: other names for it.
        origin: "bundled", "configured" (by the user), or "registry".
        state: what there is of it: "installed", "npx" or "uvx" (which download it), "download" (a
            program for this platform), or "missing".
        command: what would be started; empty where it is missing.
        how: how to get it, where it is missing.
        checksum: of a download, whether the registry gives one.
    """

    id: str
    name: str
    origin: Literal["bundled", "configured", "registry"]
    state: State
    command: tuple[str, ...] = ()
    how: str = ""
    aliases: tuple[str, ...] = ()
    version: str = ""
    description: str = ""
    license: str = ""
    website: str = ""
    checksum: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "command": list(self.command), "aliases": list(self.aliases)}

    @property
    def words(self) -> str:
        """The state in words, with what to do where that is needed."""
        text = STATES[self.state]
        if self.state == "download" and not self.checksum:
            text += " (the registry gives no checksum)"
        if self.state == "missing":
            text += f", see {self.website}" if self.website else f": {self.how}"
        return text


def list_agents(
    configured: Mapping[str, object], catalogue: Catalogue, platform_key: str, which: Which
) -> list[Listed]:
    """All agents that can be connected by name: the bundled one, the user's, the registry's.

    Args:
        configured: the user's own, as `agents.from_name` takes them.
        catalogue: what is known of the registry.
        platform_key: of this machine.
        which: finds programs.
    """
    own = [_own(name, configured, which) for name in known_names(configured)]
    return own + [
        _registered(agent, platform_key, which)
        for agent in catalogue.agents.values()
        if agent.id not in configured
    ]


def _own(name: str, configured: Mapping[str, object], which: Which) -> Listed:
    origin: Literal["bundled", "configured"] = "configured" if name in configured else "bundled"
    try:
        spec: AgentSpec = from_name(name, configured)
    except UsageError as error:
        return Listed(name, name, origin, "missing", how=str(error).replace("\n", " "))
    program = spec.argv[0]
    there = "/" in program or "\\" in program or which(program) is not None
    return Listed(
        name,
        name,
        origin,
        "installed" if there else "missing",
        spec.argv,
        "" if there else f"there is no program {program} on the PATH",
        description="writes files, runs commands, needs no model" if name == DEMO else "",
    )


def _registered(agent: RegistryAgent, platform_key: str, which: Which) -> Listed:
    state: State = "missing"
    command: tuple[str, ...] = ()
    how = ""
    checksum = None
    try:
        launch = plan_launch(agent, platform_key, which)
    except UsageError:
        how = how_to_get(agent, platform_key)
    else:
        command = launch.argv
        match launch.way:
            case "path":
                state = "installed"
            case "binary":
                assert launch.binary is not None
                place = binaries.place_of(agent, launch.binary)
                state = "installed" if place.is_dir() else "download"
                checksum = bool(launch.binary.sha256)
                command = (str(place / launch.binary.cmd), *launch.binary.args)
            case runner:
                state = runner
    return Listed(
        agent.id,
        agent.name,
        "registry",
        state,
        command,
        how,
        agent.aliases,
        agent.version,
        agent.description,
        agent.license,
        agent.website,
        checksum,
    )


def facts_of(agent: Listed) -> list[tuple[str, str]]:
    """All that is known of one, as rows."""
    rows = [
        ("Name", ", ".join((agent.id, *agent.aliases))),
        ("What it is", agent.description),
        ("Version", agent.version),
        ("Licence", agent.license),
        ("Website", agent.website),
        ("Here", agent.words),
        ("How to get it", agent.how),
        ("Command", " ".join(agent.command)),
        ("From", {"bundled": "this package", "configured": "your settings"}.get(agent.origin, "")),
    ]
    return [(name, one_line(value, 1_000)) for name, value in rows if value]
