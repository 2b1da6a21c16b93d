"""Which MCP servers of files the user has allowed: exactly that command, address and variables.

"Allow once" holds as long as this process, "Always allow" is kept in a file of the user's
configuration; nothing of it comes from the workspace. A server that is changed is asked for again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ...errors import UsageError
from ..registry.places import config_folder, read_private, write_private
from .servers import McpServer

FILE: Final = "allowed-mcp-servers.json"

LARGEST: Final = 2**20


def consent_file() -> Path:
    """Where consents are kept."""
    return config_folder() / FILE


def read_consents() -> dict[str, str]:
    """What is allowed for good: what runs, for people, by identity.

    Raises:
        UsageError: the file cannot be used.
    """
    path = consent_file()
    data = read_private(path, LARGEST)
    if data is None:
        return {}
    try:
        return {str(identity): str(line) for identity, line in json.loads(data)["allowed"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read", remedy=f"Run `rm {path}`.") from error


class Consents:
    """What is allowed in this process."""

    def __init__(self) -> None:
        self._once: set[str] = set()

    def allowed(self, server: McpServer) -> bool:
        """Whether the user has allowed exactly this.

        Raises:
            UsageError: the file of consents cannot be used.
        """
        return server.identity in self._once or server.identity in read_consents()

    def allow(self, server: McpServer, *, for_good: bool) -> None:
        """Remember it.

        Raises:
            UsageError: it cannot be kept for good.
        """
        self._once.add(server.identity)
        if not for_good:
            return
        kept = {**read_consents(), server.identity: f"{server.name}: {server.line}"}
        try:
            write_private(consent_file(), json.dumps({"allowed": kept}, indent=1) + "\n")
        except OSError as error:
            raise UsageError(f"{consent_file()} cannot be written: {error.strerror}") from error
