"""``%acp sessions`` and ``%acp resume``: the sessions of the agent, also earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..rendering.characters import one_line
from .base import Commands, no_arguments, unknown_option

if TYPE_CHECKING:
    from ..client.session import Session

SUBCOMMANDS = ("new", "use", "load", "resume", "fork", "close", "delete")


class SessionCommands(Commands):
    """List, open, fork, close and delete sessions."""

    TITLE = "Sessions"

    def _do_sessions(self, arguments: list[str]) -> None:
        """%acp sessions [--all], or %acp sessions new [--cwd DIR] | use N | load N | resume N |
        fork | close [N] | delete N [--yes]: list the sessions of this folder (of all folders),
        open one more, go on with an open or an earlier one, branch, end or delete one. N is a
        number of the list, or an id."""
        link = self._link
        name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
        if name in ("", "--all"):
            if rest:
                raise UsageError(
                    "%acp sessions takes no words with --all", remedy="See `%acp help sessions`."
                )
            self._say(link.call(self._cell(), link.sessions.table, name == "--all"))
            return
        if name not in SUBCOMMANDS:
            raise unknown_option(name, ["--all", *SUBCOMMANDS])
        command: Callable[[list[str]], None] = getattr(self, f"_session_{name}")
        command(rest)

    def _do_resume(self, arguments: list[str]) -> None:
        """%acp resume: go on in the session that this notebook used last, for example after the
        kernel was restarted; connects the agent first where it is known by a name."""
        from ..host.sessions import agent_of

        no_arguments("resume", arguments)
        link = self._host.link(self._alias)
        spec = None
        if link.agent is None:
            last = link.last_sessions.read(self._alias)
            if last is None:
                raise UsageError(
                    "no earlier session of this notebook is known",
                    remedy="Connect the agent; `%acp sessions` lists what it knows.",
                )
            spec = agent_of(self._host, last)
        session = link.call(self._cell(), link.sessions.go_on, spec)
        self._tell(session)

    def _session_new(self, arguments: list[str]) -> None:
        words, cwd = self._take_cwd(arguments)
        if words:
            raise unknown_option(words[0], ["--cwd"])
        link = self._link
        self._tell(link.call(self._cell(), link.sessions.new, cwd or self._host.cwd))

    def _session_use(self, arguments: list[str]) -> None:
        link = self._link
        self._tell(link.call(self._cell(), link.sessions.use, _one("use", arguments)))

    def _session_load(self, arguments: list[str]) -> None:
        words, cwd = self._take_cwd(arguments)
        link = self._link
        self._tell(link.call(self._cell(), link.sessions.load, _one("load", words), cwd))

    def _session_resume(self, arguments: list[str]) -> None:
        words, cwd = self._take_cwd(arguments)
        link = self._link
        self._tell(link.call(self._cell(), link.sessions.resume, _one("resume", words), cwd))

    def _session_fork(self, arguments: list[str]) -> None:
        no_arguments("sessions fork", arguments)
        link = self._link
        self._tell(link.call(self._cell(), link.sessions.fork))

    def _session_close(self, arguments: list[str]) -> None:
        link = self._link
        which = _one("close", arguments) if arguments else ""
        ident = link.call(self._cell(), link.sessions.close, which)
        self._say(f"Session {one_line(ident, 60)} is closed.")

    def _session_delete(self, arguments: list[str]) -> None:
        sure = "--yes" in arguments
        which = _one("delete", [word for word in arguments if word != "--yes"])
        link = self._link
        cell = self._cell()
        title = link.call(cell, link.sessions.delete, which, sure)
        self._say(f"Session {title} is deleted." if title else "Nothing was deleted.")

    def _take_cwd(self, arguments: list[str]) -> tuple[list[str], str | None]:
        words, cwd = [], None
        rest = iter(arguments)
        for word in rest:
            if word == "--cwd":
                cwd = self._directory(next(rest, None))
            elif word.startswith("--cwd="):
                cwd = self._directory(word.removeprefix("--cwd="))
            else:
                words.append(word)
        return words, cwd

    def _tell(self, session: Session) -> None:
        title = one_line(session.transcript.info.title or "", 60)
        name = f"{title} ({one_line(session.session_id, 60)})" if title else session.session_id
        self._say(f"The current session is {one_line(name, 130)}.")


def _one(name: str, arguments: list[str]) -> str:
    if len(arguments) != 1:
        raise UsageError(
            f"%acp sessions {name} takes one session",
            remedy="Use a number that `%acp sessions` shows, or an id.",
        )
    return arguments[0]
