"""``%acp roots``: where the agent may read and write files."""

from __future__ import annotations

import os

from ..errors import UsageError
from ..rendering.characters import visible
from .base import Commands


class FileCommands(Commands):
    """The directories of a session."""

    TITLE = "Files and commands of the agent"

    def _do_roots(self, arguments: list[str]) -> None:
        """%acp roots, or %acp roots add|remove DIR: list the directories in which the agent may
        read and write files; add one to the session's own, or take it back."""
        link = self._link
        match arguments:
            case []:
                pass
            case ["add", given]:
                link.call(self._cell(), link.add_root, _directory(given, self._host.cwd))
            case ["remove", given]:
                link.call(self._cell(), link.remove_root, _resolved(given, self._host.cwd))
            case _:
                raise UsageError(
                    "%acp roots takes add or remove, and a directory",
                    remedy="For example `%acp roots add ../data`.",
                )
        own = self._host.cwd if link.session is None else link.session.cwd
        added = link.client.workplace.roots if link.client is not None else []
        lines = [own, *(f"{path}  (added)" for path in added)]
        self._say(visible("\n".join(lines)))


def _resolved(given: str, base: str) -> str:
    return os.path.realpath(os.path.join(base, os.path.expanduser(given)))


def _directory(given: str, base: str) -> str:
    path = _resolved(given, base)
    if not os.path.isdir(path):
        raise UsageError(f"{given} is no directory", remedy="Make it, or name another one.")
    return path
