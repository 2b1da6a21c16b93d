"""What the user has allowed to be downloaded and run: exactly that agent, version and source.

"Allow once" holds as long as this process, "Always allow" is kept in a file of the user's
configuration; nothing of it comes from the workspace.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ...errors import UsageError
from .choosing import Launch
from .places import config_folder, read_private, write_private

FILE: Final = "allowed-agents.json"

LARGEST: Final = 2**20


def consent_file() -> Path:
    """Where consents are kept."""
    return config_folder() / FILE


def read_consents() -> dict[str, str]:
    """What is allowed for good: names, for people, by identity.

    Raises:
        UsageError: the file cannot be used.
    """
    path = consent_file()
    data = read_private(path, LARGEST)
    if data is None:
        return {}
    try:
        kept = json.loads(data)["allowed"]
        return {str(identity): str(name) for identity, name in kept.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read", remedy=f"Run `rm {path}`.") from error


class Consents:
    """What is allowed in this process."""

    def __init__(self) -> None:
        self._once: set[str] = set()

    def allowed(self, launch: Launch) -> bool:
        """Whether the user has allowed exactly this.

        Raises:
            UsageError: the file of consents cannot be used.
        """
        return launch.identity in self._once or launch.identity in read_consents()

    def allow(self, launch: Launch, *, for_good: bool) -> None:
        """Remember it.

        Raises:
            UsageError: it cannot be kept for good.
        """
        self._once.add(launch.identity)
        if not for_good:
            return
        agent = launch.agent
        name = f"{agent.id} {agent.version}, {launch.source}".replace("  ", " ")
        text = json.dumps({"allowed": {**read_consents(), launch.identity: name}}, indent=1)
        try:
            write_private(consent_file(), text + "\n")
        except OSError as error:
            raise UsageError(f"{consent_file()} cannot be written: {error.strerror}") from error
