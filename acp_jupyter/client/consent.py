"""Which command a question has shown, so that a yes to it holds for that command alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from ..rendering import words
from ..session.transcript import PermissionEntry

SHELLS: Final = ("sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/sh", "/usr/bin/bash")
"""Shells through which agents run the one line that the user has seen."""

DIRECTORIES: Final = ("cwd", "workdir", "directory", "dir_path")
"""Where agents name the working directory in the input of a command's tool call."""

SHOWN_COMMAND: Final = 400
"""Characters of a command that every way of asking shows in full, however it spells them."""


def command_shown(entry: PermissionEntry, cwd: str) -> str:
    """The command line that a question has shown, openly and in full, to be run in ``cwd``; else
    empty: the input of other tool calls is folded away, and long commands are cut."""
    line, where = "", entry.cwd
    if entry.command:
        line = entry.command[0]
    elif entry.evidence is not None and entry.evidence.kind == "execute":
        line, rest = words.execute_command(entry.evidence.raw_input)
        if type(rest) is dict:
            where = next((rest[key] for key in DIRECTORIES if rest.get(key)), where)
            line = "" if "args" in rest else line
    shown = where in (None, "", cwd) and len(line) <= SHOWN_COMMAND
    return line if shown else ""


def command_line_of(argv: Sequence[str]) -> str:
    """A command as a shell would take it; of a shell that runs one line, that line."""
    if len(argv) == 3 and argv[0] in SHELLS and argv[1] in ("-c", "-lc"):
        return argv[2]
    return shlex.join(argv)
