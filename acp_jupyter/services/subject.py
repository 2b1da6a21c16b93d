"""What a question is about, told by the client itself. No I/O.

Rules:

- A command makes it "execute": the client's own question before it starts one, or a raw input with
  a command anywhere in it. A diff, or a write through the client, makes it "edit"; a read through
  the client "read". Anything else is "other", whatever kind or title the agent gives it.
- A command in the raw input is one line for the agent's own shell, unless it is a list of words,
  or a line that is the same words in every shell.
- All paths that a request names count: of diffs, locations, and of the raw input. One that cannot
  be placed within the roots by its text alone makes the request one that is not contained.
"""

from __future__ import annotations

import itertools
import json
import os.path
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import Refusal
from ..session.transcript import PermissionEntry, ToolCallEntry
from .files import FileAccess, Operation
from .patterns import TEXT_LIMIT, is_plain_line, readings, runs_shell
from .policy import Subject
from .protected import is_protected
from .roots import Roots
from .terminals import CommandRequest

__all__ = ["of_access", "of_command", "of_file", "of_permission"]

COMMAND_KEYS: Final = frozenset(
    {
        *("command", "commands", "cmd", "command_line", "commandline", "shell_command", "argv"),
        *("bash", "shell", "script", "code"),
    }
)
"""Names, in lower case, under which agents put what they would run."""

PATH_KEYS: Final = frozenset(
    {
        *("path", "paths", "file", "files", "filename", "file_name", "file_path", "filepath"),
        *("abs_path", "absolute_path", "relative_path", "target_file", "notebook_path", "uri"),
        *("old_path", "new_path", "source", "destination", "directory", "dir", "changes"),
    }
)
"""Names under which agents put files; also the keys of an object under such a name are paths."""

CWD_KEYS: Final = frozenset({"cwd", "workdir", "working_directory"})

ARGUMENT_KEYS: Final = frozenset({"command", "cmd", "argv", "args", *CWD_KEYS, "description"})
"""A raw input of nothing else is a command and no more."""

DEPTH: Final = 8
PATHS: Final = 200
"""How deep a raw input is searched, and paths that a request may name; one with more is asked."""

WORDS: Final = 2_000
"""Words of a command that are looked at as names of files."""

_NAME_EDGES: Final = re.compile(r"[\s;&|<>()`'\"$=:,{}\\]+")


@dataclass
class _Found:
    """What a raw input names."""

    commands: list[tuple[int, str, Any]] = field(default_factory=list)  # depth, key, value
    paths: list[str] = field(default_factory=list)
    cwds: list[str] = field(default_factory=list)
    certain: bool = True

    def search(self, value: Any, depth: int = 0) -> None:
        if depth > DEPTH or len(self.paths) > PATHS:
            self.certain = False
        elif type(value) is list:
            for item in value:
                self.search(item, depth + 1)
        elif type(value) is dict:
            for key, item in value.items():
                self._field(str(key).lower(), item, depth)

    def _field(self, key: str, item: Any, depth: int) -> None:
        if key in COMMAND_KEYS and item not in (None, "", [], {}, False, True):
            self.commands.append((depth, key, item))
        elif key in CWD_KEYS and type(item) is str:
            self.cwds.append(item)
        elif key in PATH_KEYS:
            self._paths_of(item)
        self.search(item, depth + 1)

    def _paths_of(self, item: Any) -> None:
        if type(item) is str and item:
            self.paths.append(item)
        elif type(item) is list or type(item) is dict:
            named = itertools.islice(item, PATHS + 1)
            self.paths.extend(each for each in named if type(each) is str and each)


class _Places:
    """Places paths within the roots, by their text alone."""

    def __init__(self, roots: Roots, cwd: str) -> None:
        self._roots = roots
        self._cwd = cwd
        self.paths: list[str] = []
        self.suspects: list[str] = []
        self.contained = True
        self.protected = ""

    def add(self, path: object) -> None:
        """A path that the request is about."""
        if type(path) is not str or not path:
            self.contained = False
            return
        elsewhere = path.startswith("~") or "://" in path
        placed = None if elsewhere else self._place(path)
        if placed is None:
            self.contained = False
        else:
            self.paths.append(placed)
        self.suspect(path)

    def add_all(self, paths: Sequence[object]) -> None:
        for path in paths[:PATHS]:
            self.add(path)
        if len(paths) > PATHS:
            self.contained = False
            self.protected = self.protected or "too many files to look through"

    def check_cwd(self, path: str) -> None:
        if self._place(path) is None:
            self.contained = False

    def suspect(self, text: str) -> None:
        """Something that may name a file."""
        plain = os.path.normpath(os.path.join(self._cwd, text.removeprefix("file://")))
        placed = self._place(plain)
        self.suspects.append(text if placed is None else placed)
        self._protect(text if placed is None else placed)

    def suspect_words(self, command: str) -> None:
        """What may name a file in a command, with its quotes and without."""
        texts = readings(command) if len(command) <= TEXT_LIMIT else [command]
        words = {word for text in texts for word in _NAME_EDGES.split(text)} - {""}
        if len(words) > WORDS:
            self.protected = self.protected or "the command is too long to be looked through"
        for word in sorted(words)[:WORDS]:
            self.suspect(word)

    def _place(self, path: str) -> str | None:
        absolute = path if os.path.isabs(path) else f"{self._cwd.rstrip('/')}/{path}"
        try:
            return "/".join(self._roots.locate(absolute).parts) or "."
        except Refusal:
            return None

    def _protect(self, path: str) -> None:
        if not self.protected and (reason := is_protected(path.replace("\\", "/"))):
            self.protected = reason


def of_permission(entry: PermissionEntry, *, agent: str, cwd: str, roots: Roots) -> Subject:
    """What a permission request of the agent's is about."""
    call = entry.tool_call
    raw = call.raw_input if call is not None else None
    found = _Found()
    found.search(raw)
    places = _Places(roots, cwd)
    places.contained = found.certain
    kinds = set()
    diffs = list(_diff_paths(call)) if call is not None else []
    if diffs:
        kinds.add("edit")
    named = [item.get("path") for item in call.locations] if call is not None else []
    places.add_all([*diffs, *named, *found.paths])
    for folder in (*found.cwds, *([entry.cwd] if entry.cwd else [])):
        places.check_cwd(folder)
    command: tuple[str, bool] | None = None
    if found.commands or entry.command:
        kinds.add("execute")
        command = _command_of(raw, found, entry.command)
        if command is not None:
            places.suspect_words(command[0])
        else:
            for _depth, _key, value in found.commands:
                places.suspect_words(value if type(value) is str else json.dumps(value))
    return Subject(
        agent=agent,
        kinds=frozenset(kinds) or frozenset({"other"}),
        claimed=entry.kind,
        command=command[0] if command is not None else None,
        shell=command[1] if command is not None else bool(kinds & {"execute"}),
        paths=tuple(dict.fromkeys(places.paths)),
        suspects=tuple(dict.fromkeys(places.suspects)),
        contained=places.contained,
        protected=places.protected,
        identity=_identity(entry, command, found, cwd, is_command=kinds == {"execute"}),
    )


def of_command(request: CommandRequest, *, agent: str, cwd: str, roots: Roots) -> Subject:
    """What the client's own question is about before it starts a command."""
    line = request.argv[-1] if request.shell else shlex.join(request.argv)
    shell = not is_plain_line(line) if request.shell else runs_shell(request.argv)
    settings = [f"{name}={shlex.quote(value)}" for name, value in request.env]
    text = " ".join((*settings, line))
    places = _Places(roots, cwd)
    places.check_cwd(request.cwd)
    places.suspect_words(text)
    return Subject(
        agent=agent,
        kinds=frozenset({"execute"}),
        claimed="execute",
        command=text,
        shell=shell,
        suspects=tuple(dict.fromkeys(places.suspects)),
        contained=places.contained,
        protected=places.protected,
        identity=_command_identity(text, shell, request.cwd),
    )


def of_access(
    operation: Operation, path: str, *, agent: str, cwd: str, roots: Roots, text: str = ""
) -> Subject:
    """What a read or a write through the client is about; ``text`` is what would be written."""
    places = _Places(roots, cwd)
    places.add(path)
    kind = "read" if operation == "read" else "edit"
    return Subject(
        agent=agent,
        kinds=frozenset({kind}),
        claimed=kind,
        paths=tuple(places.paths),
        suspects=tuple(places.suspects),
        contained=places.contained,
        protected=places.protected,
        identity=_canonical([f"fs/{operation}", path, text]),
    )


def of_file(access: FileAccess, *, agent: str, cwd: str, roots: Roots) -> Subject:
    """The same for the client's own question; see `of_access`."""
    return of_access(
        access.operation,
        access.path,
        agent=agent,
        cwd=cwd,
        roots=roots,
        text=access.new_text or "",
    )


def _diff_paths(call: ToolCallEntry) -> Iterator[object]:
    """The path of each diff; version 2's diffs list theirs under ``changes``."""
    for item in call.content:
        if item.get("type") != "diff":
            continue
        if "changes" not in item:
            yield item.get("path")
            continue
        found = _Found()
        found.search(item["changes"])
        yield from found.paths if found.paths and found.certain else [None]


def _command_of(raw: Any, found: _Found, told: list[str] | None) -> tuple[str, bool] | None:
    """The command, and whether a shell may read it; ``None`` where it is not one plain thing."""
    if told and len(told) == 1 and not found.commands:
        return told[0], not is_plain_line(told[0])
    if told or len(found.commands) != 1 or type(raw) is not dict or raw.get("env"):
        return None
    depth, key, command = found.commands[0]
    if depth or key not in ("command", "cmd", "argv"):
        return None
    arguments = raw.get("args")
    if type(command) is str and arguments in (None, []):
        return command, not is_plain_line(command)
    if type(command) is str and type(arguments) is list:
        command, arguments = [command, *arguments], None
    if type(command) is not list or arguments or not command:
        return None
    if not all(type(word) is str for word in command):
        return None
    return shlex.join(command), runs_shell(command)


# -- the identity of a request --------------------------------------------------------------------


def _identity(
    entry: PermissionEntry,
    command: tuple[str, bool] | None,
    found: _Found,
    cwd: str,
    *,
    is_command: bool,
) -> str:
    """The tool and its exact arguments.

    A command and nothing else is the same whoever asks about it, the agent or the client.
    """
    call = entry.tool_call
    raw = call.raw_input if call is not None else None
    known = type(raw) is not dict or {str(key).lower() for key in raw} <= ARGUMENT_KEYS
    folders = {*found.cwds, *([entry.cwd] if entry.cwd else [])} or {cwd}
    if is_command and command is not None and known and len(folders) == 1:
        return _command_identity(*command, folders.pop())
    shown = (call.name, call.kind, call.content, call.locations, raw) if call is not None else ()
    return _canonical(
        ["tool", entry.title, entry.description, entry.kind, entry.command, entry.cwd, *shown]
    )


def _command_identity(text: str, shell: bool, cwd: str) -> str:
    return _canonical(["execute", text, shell, cwd])


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
