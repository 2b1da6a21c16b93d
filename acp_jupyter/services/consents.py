"""What the user has allowed to be run, by an identity that changes with what would run.

"Allow once" holds as long as this process, "Always allow" is kept in a file of the user's
configuration; nothing of it comes from the workspace.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ..errors import UsageError
from .registry.places import config_folder, read_private, write_private

AGENTS: Final = "allowed-agents.json"
"""The file of agents that may be downloaded: exactly that agent, version and source."""

MCP_SERVERS: Final = "allowed-mcp-servers.json"
"""The file of MCP servers that files name: exactly that command, address and variables."""

LARGEST: Final = 2**20
"""Bytes of such a file."""


def consent_file(name: str) -> Path:
    """Where consents are kept."""
    return config_folder() / name


def read_consents(name: str) -> dict[str, str]:
    """What is allowed for good: words for people, by identity.

    Args:
        name: of the file.

    Raises:
        UsageError: the file cannot be used.
    """
    path = consent_file(name)
    data = read_private(path, LARGEST)
    if data is None:
        return {}
    try:
        kept = json.loads(data)["allowed"]
        return {str(identity): str(words) for identity, words in kept.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read", remedy=f"Run `rm {path}`.") from error


class Consents:
    """What is allowed in this process.

    Args:
        name: of the file for what is allowed for good.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._once: set[str] = set()

    def allowed(self, identity: str) -> bool:
        """Whether the user has allowed exactly this.

        Raises:
            UsageError: the file of consents cannot be used.
        """
        return identity in self._once or identity in read_consents(self._name)

    def allow(self, identity: str, words: str, *, for_good: bool) -> None:
        """Remember it.

        Args:
            identity: of what would run.
            words: what it is, for people who read the file.
            for_good: keep it in the file.

        Raises:
            UsageError: it cannot be kept for good.
        """
        self._once.add(identity)
        if not for_good:
            return
        path = consent_file(self._name)
        text = json.dumps({"allowed": {**read_consents(self._name), identity: words}}, indent=1)
        try:
            write_private(path, text + "\n")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
