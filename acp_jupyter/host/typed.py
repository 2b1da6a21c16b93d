"""What the words of ``%acp`` complete to, from the agent that is connected. In any thread.

What the agent did not advertise is not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..session.options import options

if TYPE_CHECKING:
    from ..client.agent import Agent
    from .link import Link

NEEDS: Final = {
    "logout": "logout",
    "providers": "providers/list",
}
"""Commands that make no sense without a method of the agent's."""

SESSION_NEEDS: Final = {
    "new": "session/new",
    "use": "session/new",
    "load": "session/load",
    "resume": "session/resume",
    "fork": "session/fork",
    "close": "session/close",
    "delete": "session/delete",
}


class Typed:
    """What can follow the words that were typed, see the module.

    Args:
        link: whose agent it is.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._words: dict[str, Callable[[list[str]], list[str]]] = {
            "set": self._set,
            "sessions": self._sessions,
            "login": self._login,
        }

    def hides(self, command: str) -> bool:
        """Whether a command makes no sense with the agent that is connected."""
        agent = self._running()
        if agent is None:
            return False
        if command == "resume":
            return not agent.lifecycle.reopens
        return command in NEEDS and not agent.offers(NEEDS[command])

    def words(self, before: list[str]) -> list[str] | None:
        """What the next word can be; ``None`` where that is not for this to say.

        Args:
            before: the command and the words after it that are complete.
        """
        complete = self._words.get(before[0]) if before else None
        return None if complete is None else complete(before[1:])

    def _set(self, before: list[str]) -> list[str]:
        session = self._link.session
        known = options(session.transcript.info) if session is not None else []
        if not before:
            return [option.id for option in known]
        chosen = next((option for option in known if option.id == before[0]), None)
        if chosen is None or len(before) > 1:
            return []
        if chosen.kind == "boolean":
            return ["true", "false"]
        return [value.value for value in chosen.values]

    def _sessions(self, before: list[str]) -> list[str]:
        agent = self._running()
        if not before:
            if agent is None:
                return ["--all", *SESSION_NEEDS]
            offered = [word for word, method in SESSION_NEEDS.items() if agent.offers(method)]
            return (["--all"] if agent.offers("session/list") else []) + offered
        if len(before) == 1 and before[0] in ("load", "resume", "delete"):
            count = len(self._link.sessions.listed)
            return [str(number) for number in range(1, count + 1)]
        return []

    def _login(self, before: list[str]) -> list[str]:
        from ..protocol.auth import auth_methods

        agent = self._running()
        if before or agent is None or agent.initialized is None:
            return []
        return [method.id for method in auth_methods(agent.initialized) if method.id.isprintable()]

    def _running(self) -> Agent | None:
        agent = self._link.agent
        return agent if agent is not None and agent.alive else None
