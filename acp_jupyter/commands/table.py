"""Which class has which commands, so that a class is imported when one of its commands is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .base import Commands

CLASSES: Final = {
    "connection.ConnectionCommands": ("connect", "restart", "disconnect", "record", "log"),
    "agents.AgentCommands": ("agents",),
    "sessions.SessionCommands": ("sessions", "resume"),
    "options.OptionCommands": ("set", "permissions"),
    "turns.TurnCommands": ("queue", "budget", "snapshot"),
    "files.FileCommands": ("roots",),
    "workspace.WorkspaceCommands": ("changes", "undo", "accept", "discard"),
    "terminals.TerminalCommands": ("terminals",),
    "login.LoginCommands": ("login", "logout"),
    "providers.ProviderCommands": ("providers",),
    "mcp.McpCommands": ("mcp", "share"),
}
"""In the order of the help."""


def names() -> list[str]:
    """All commands of the classes."""
    return [name for each in CLASSES.values() for name in each]


def load(place: str) -> type[Commands]:
    """A class by its key in `CLASSES`."""
    module, name = place.split(".")
    found: type[Commands] = getattr(import_module(f".{module}", __package__), name)
    return found


def class_with(name: str) -> type[Commands] | None:
    """The class that has a command."""
    return next((load(place) for place, each in CLASSES.items() if name in each), None)
