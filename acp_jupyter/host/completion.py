"""What Tab offers in a prompt: magics, agents, the agent's slash commands, and mentions.

A prompt itself is prose: nothing of Python is offered in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..magics import commands as acp_commands
from ..services.agents import known_names

if TYPE_CHECKING:
    from .typed import Typed


SECOND_WORDS: Final = {
    "terminals": ["stop", "attach"],
    "roots": ["add", "remove"],
    "mcp": ["add", "remove"],
    "share": ["kernel", "off"],
}
"""What may follow a command of ``%acp``."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Matches that replace the text from ``start`` to the cursor.

    Attributes:
        types: the same with kinds and signatures, in the form that JupyterLab shows.
    """

    start: int
    matches: list[str] = field(default_factory=list)
    types: list[dict[str, Any]] = field(default_factory=list)

    def shifted(self, offset: int) -> Completion:
        """The same in a text that has ``offset`` characters before this one."""
        moved = [
            {**kind, "start": kind["start"] + offset, "end": kind["end"] + offset}
            for kind in self.types
        ]
        return Completion(self.start + offset, self.matches, moved)


def _none(text: str) -> tuple[int, list[str]]:
    return len(text), []


def complete(
    code: str,
    cursor: int,
    *,
    line_magics: Collection[str],
    cell_magics: Collection[str],
    agents: Mapping[str, object],
    commands: Sequence[Mapping[str, Any]],
    mentions: Callable[[str], tuple[int, list[str]]] = _none,
    typed: Typed | None = None,
) -> Completion | None:
    """What fits at the cursor; ``None`` where Python's own completion is meant.

    Args:
        code: the cell.
        cursor: position in characters.
        line_magics: known line magics.
        cell_magics: known cell magics.
        agents: configured agents.
        commands: the agent's slash commands, ``{"name", "description"}``.
        mentions: completes a mention at the end of a text (`Host.complete`).
        typed: knows what the agent offers, for the words of ``%acp``.
    """
    if code.lstrip().startswith("%%python"):
        return None
    before = code[:cursor]
    line = before[before.rfind("\n") + 1 :]
    if line.startswith("%acp "):
        return _acp(line, cursor, agents, typed)
    if line.startswith("%") and " " not in line:
        names = [f"%{name}" for name in line_magics]
        if line == before:
            names += [f"%%{name}" for name in {*cell_magics, "python"}]
        return _matching(line, cursor, sorted(names), "magic")
    if before.startswith("/") and " " not in before and "\n" not in before:
        found = {
            f"/{command['name']}": str(command.get("description") or "") for command in commands
        }
        return _matching(before, cursor, list(found), "command", found)
    start, matches = mentions(before)
    return _completion(start, cursor, matches, "mention") if matches else Completion(cursor)


def _acp(line: str, cursor: int, agents: Mapping[str, object], typed: Typed | None) -> Completion:
    words = line.split(" ")
    if len(words) == 2:
        names = [name for name in acp_commands() if name != "state"]
        if typed is not None:
            names = [name for name in names if not typed.hides(name)]
        return _matching(words[1], cursor, names, "command")
    found = typed.words(words[1:-1]) if typed is not None else None
    if found is not None:
        return _matching(words[-1], cursor, [shlex.quote(word) for word in found], "option")
    if words[1] == "agents" and len(words) == 3:
        return _matching(words[-1], cursor, ["update", *_registered()], "agent")
    if words[1] == "connect" and words[-2] == "--isolate":
        return _matching(words[-1], cursor, ["copy", "worktree"], "way")
    if words[1] == "connect" and "--" not in words[2:-1]:
        return _matching(
            words[-1],
            cursor,
            [
                *known_names(agents),
                *_registered(agents),
                "--cwd",
                "--isolate",
                "--mcp",
                "--protocol",
                "--token-env",
                "--yes",
                "--",
            ],
            "agent",
        )
    if words[1] == "permissions" and len(words) == 3:
        return _matching(words[-1], cursor, ["ask", "deny", "allow"], "policy")
    if words[1] in SECOND_WORDS and len(words) == 3:
        return _matching(words[-1], cursor, SECOND_WORDS[words[1]], "command")
    if words[1] == "help":
        return _matching(words[-1], cursor, acp_commands(), "command")
    return Completion(cursor)


def _registered(configured: Mapping[str, object] = MappingProxyType({})) -> list[str]:
    """Agents that come with the package's list; a fetched one is read when they are connected."""
    from ..services.registry.catalogue import read_snapshot

    return [name for name in read_snapshot()[0] if name not in configured]


def _matching(
    word: str, cursor: int, names: list[str], kind: str, texts: Mapping[str, str] | None = None
) -> Completion:
    matches = [name for name in names if name.startswith(word)]
    return _completion(cursor - len(word), cursor, matches, kind, texts)


def _completion(
    start: int, cursor: int, matches: list[str], kind: str, texts: Mapping[str, str] | None = None
) -> Completion:
    types = [
        {
            "start": start,
            "end": cursor,
            "text": name,
            "type": kind,
            "signature": (texts or {}).get(name, ""),
        }
        for name in matches
    ]
    return Completion(start, matches, types)
