"""What the commands of ``%acp`` share.

A command is a method ``_do_NAME(arguments)`` of a class that inherits `Commands`; its docstring is
its help, one paragraph that begins with ``%acp NAME``. Commands run on the main thread, which waits
for the trio thread in ``link.call`` and passes an interrupt on.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import UsageError

if TYPE_CHECKING:
    from ..host.cell import CellContext
    from ..host.host import Host
    from ..host.link import Link


class Commands:
    """Commands of ``%acp``.

    Args:
        shell: IPython's.
        host: what the commands act on.
        cell: makes the context of the cell that runs.

    Attributes:
        TITLE: of the group that its commands are listed in by ``%acp help``.
    """

    TITLE: ClassVar[str] = ""

    def __init__(self, shell: Any, host: Host, cell: Callable[[], CellContext]) -> None:
        self.shell = shell
        self._host = host
        self._cell = cell
        self._alias = ""

    @property
    def _link(self) -> Link:
        """The link that the command is for: the one of ``--as NAME``, else the one without."""
        if self._alias and self._alias not in self._host.links:
            raise _unknown_alias(self._alias, self._host)
        return self._host.link(self._alias)

    def _directory(self, given: str | None) -> str:
        if given is None:
            raise UsageError("--cwd needs a directory", remedy="For example `--cwd project`.")
        path = os.path.realpath(os.path.join(self._host.cwd, os.path.expanduser(given)))
        if not os.path.isdir(path):
            raise UsageError(f"{given} is no directory", remedy="Make it, or name another one.")
        return path

    def _say(self, text: str) -> None:
        self._cell().sink.stream(text + "\n")


def no_arguments(name: str, arguments: list[str]) -> None:
    if arguments:
        raise UsageError(f"%acp {name} takes no arguments", remedy="See `%acp help`.")


def unknown_option(name: str, known: list[str]) -> UsageError:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    nearest = f"Did you mean {close[0]}? " if close else ""
    return UsageError(
        f"{name} is no option of this command", remedy=f"{nearest}Known: {', '.join(known)}."
    )


def _unknown_alias(name: str, host: Host) -> UsageError:
    known = [alias for alias in host.links if alias]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    nearest = f"Did you mean {close[0]}? " if close else ""
    names = f"Known: {', '.join(known)}. " if known else ""
    return UsageError(
        f"no agent was connected as {name!r}",
        remedy=f"{nearest}{names}Connect one with `%acp connect NAME --as {name}`.",
    )
