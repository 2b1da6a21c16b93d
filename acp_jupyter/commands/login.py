"""``%acp login`` and ``%acp logout``."""

from __future__ import annotations

from ..errors import UsageError
from .base import Commands, no_arguments


class LoginCommands(Commands):
    """Who the agent takes the user for."""

    TITLE = "Logins and models"

    def _do_login(self, arguments: list[str]) -> None:
        """%acp login [METHOD]: log in to the agent, in a way that it offers; what is typed is
        masked and kept nowhere."""
        if len(arguments) > 1:
            raise UsageError(
                "%acp login takes the id of one way to log in",
                remedy="Without one, you are asked which.",
            )
        link = self._link
        if not link.call(self._cell(), link.logins.log_in, *(arguments or [""])):
            self._say("The agent did not want you to log in.")

    def _do_logout(self, arguments: list[str]) -> None:
        """%acp logout: have the agent forget who you are."""
        no_arguments("logout", arguments)
        link = self._link
        link.call(self._cell(), link.logins.log_out)
        self._say("Logged out. New sessions, and prompts, may want you to log in again.")
