"""Checks: what a prompt turn has to have done, one a line. Pure.

::

    changed src/*.py             a file that matches has changed, appeared or gone
    unchanged tests/**           none has
    command: python -m pytest    it ends with exit code 0
    tool used: edit              a tool call of that kind was completed
    tool not used: execute       there was none, nor did the client do such a thing for the agent
    text contains: 42            the answer does, in just this case
    text matches: /total: \\d+/i  somewhere; i is the only flag
    json: .answer[0].x == 42     ==, !=, <, <=, >, >= and a JSON value; a path alone has to be there
    cost <= 0.05                 of the turn, in the currency that the agent reports
    seconds < 60                 from the prompt to the end of the turn
    tokens <= 5000               of context in use, as the agent reports
    no permission denied
    stop reason: end_turn

Empty lines and lines that begin with ``#`` are no checks. A check passes, fails, or is an error: it
could not be decided, for instance because the agent reports no cost. JSON is the whole answer, or
else its last code block that is JSON. Patterns are those of policies: ``*`` stays within a folder,
``**`` does not, and paths start in the session's folder. What changed, and how a command ended, is
found out by the caller; the kind of a tool call is what the agent says it is.
"""

from __future__ import annotations

import difflib
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..errors import UsageError
from .cells import code_blocks
from .limits import turn_cost, turn_tokens
from .transcript import (
    FilesEntry,
    MessageEntry,
    PermissionEntry,
    TerminalState,
    ToolCallEntry,
    Turn,
)

Status = Literal["passed", "failed", "error"]

DETAIL: Final = 2_000
"""Characters kept of what a check found."""

SHOWN_PATHS: Final = 10

NAMES: Final = (
    "changed",
    "unchanged",
    "command:",
    "tool used:",
    "tool not used:",
    "text contains:",
    "text matches:",
    "json:",
    "cost",
    "seconds",
    "tokens",
    "no permission denied",
    "stop reason:",
)

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_LIMIT = re.compile(r"(cost|seconds|tokens)\s*(<=|<)\s*([0-9][0-9_,]*\.?[0-9]*(?:[eE]-?[0-9]+)?)")
_REGEX = re.compile(r"/(.*)/(i?)", re.DOTALL)
_STEP = re.compile(r"""\.?\[(-?\d+)\]|\.?\[("(?:[^"\\]|\\.)*")\]|\.([A-Za-z_][\w-]*)""")


@dataclass(frozen=True, slots=True)
class Check:
    """One line.

    Attributes:
        line: as written.
        name: of `NAMES`.
        argument: what follows it: a pattern, a command, a text, a path.
        compare: the comparison, of ``cost``, ``seconds``, ``tokens`` and ``json:``.
        value: what it is compared with.
    """

    line: str
    name: str
    argument: str = ""
    compare: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a check.

    Attributes:
        check: the line.
        status: see the module.
        detail: what was found.
    """

    check: str
    status: Status
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    def as_json(self) -> dict[str, str]:
        return {"check": self.check, "status": self.status, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended; ``exit_code`` is ``None`` where it did not, and ``output`` says why."""

    exit_code: int | None
    output: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """What checks are held against.

    Attributes:
        turn: the turn.
        terminals: of its session.
        changed: files that are not as they were, ``None`` where nobody knows.
        unknown: why nobody knows.
        commands: how the commands of the checks ended.
    """

    turn: Turn
    terminals: Mapping[str, TerminalState] = field(default_factory=dict)
    changed: Sequence[str] | None = None
    unknown: str = ""
    commands: Mapping[str, CommandEnd] = field(default_factory=dict)


# -- reading --------------------------------------------------------------------------------------


def parse(text: str) -> list[Check]:
    """Read checks, one a line.

    Raises:
        UsageError: a line is none.
    """
    lines = (line.strip() for line in text.splitlines())
    return [parse_line(line) for line in lines if line and not line.startswith("#")]


def parse_line(line: str) -> Check:
    """Read one check.

    Raises:
        UsageError: it is none.
    """
    limit = _LIMIT.fullmatch(line)
    if limit is not None:
        number = float(re.sub("[_,]", "", limit[3]))
        return Check(line, limit[1], compare=limit[2], value=number)
    if line == "no permission denied":
        return Check(line, line)
    for name in NAMES:
        rest = line.removeprefix(name)
        if rest == line or not (name.endswith(":") or name in ("changed", "unchanged")):
            continue
        argument = rest.strip()
        if not argument or not (name.endswith(":") or rest[0].isspace()):
            continue
        if name == "text matches:":
            _pattern(argument)
        elif name == "json:":
            return _json_check(line, argument)
        return Check(line, name, argument)
    raise _no_check(line)


def _no_check(line: str) -> UsageError:
    first = re.split(r"[:<=]", line)[0].strip()
    names = [name.rstrip(":") for name in NAMES]
    close = difflib.get_close_matches(first, names, n=1, cutoff=0.6)
    known = [
        f"{name} <= NUMBER" if name in ("cost", "seconds", "tokens") else name for name in NAMES
    ]
    nearest = f"Did you mean {close[0]!r}? " if close and close[0] != first else ""
    return UsageError(
        f"{line!r} is no check", remedy=f"{nearest}A line is one of: {', '.join(known)}."
    )


def _pattern(argument: str) -> re.Pattern[str]:
    match = _REGEX.fullmatch(argument)
    if match is None:
        raise UsageError(
            f"{argument!r} is no regular expression between slashes",
            remedy="For example `text matches: /total: \\d+/`.",
        )
    try:
        return re.compile(match[1], re.IGNORECASE if match[2] else 0)
    except re.error as error:
        raise UsageError(f"{argument!r} is no regular expression: {error}") from error


def _json_check(line: str, argument: str) -> Check:
    """``PATH``, or ``PATH COMPARISON JSON``."""
    end = 0
    while (step := _STEP.match(argument, end)) is not None:
        end = step.end()
    path, rest = argument[:end], argument[end:].strip()
    if not path and argument.startswith("."):  # the whole
        path, rest = ".", argument[1:].strip()
    compare = next((name for name in _COMPARE if rest.startswith(name)), "")
    if not path or (rest and not compare):
        raise UsageError(
            f"{line!r} has no path that can be read, or no comparison behind it",
            remedy='For example `json: .answers[0]["full name"] == "Ada"`.',
        )
    if not compare:
        return Check(line, "json:", path)
    try:
        value = json.loads(rest.removeprefix(compare))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{line!r} compares with something that is no JSON: {error}",
            remedy='A text stands in double quotes: `json: .name == "Ada"`.',
        ) from error
    return Check(line, "json:", path, compare, value)


# -- deciding -------------------------------------------------------------------------------------


def evaluate(checks: Iterable[Check], found: Found, matches: Matches) -> list[Result]:
    """Hold checks against what was found.

    Args:
        checks: from `parse`.
        found: all there is to know.
        matches: whether a path matches a pattern, as policies have it.
    """
    return [_evaluate(check, found, matches) for check in checks]


Matches = Callable[[str, str], bool]


def _evaluate(check: Check, found: Found, matches: Matches) -> Result:
    match check.name:
        case "changed" | "unchanged":
            status, detail = _files(check, found, matches)
        case "command:":
            status, detail = _command(found.commands.get(check.argument))
        case "tool used:" | "tool not used:":
            status, detail = _tool(check, found)
        case "text contains:" | "text matches:":
            status, detail = _text(check, answer(found.turn))
        case "json:":
            status, detail = _json(check, answer(found.turn))
        case "cost" | "seconds" | "tokens":
            status, detail = _limit(check, found.turn)
        case "no permission denied":
            status, detail = _permissions(found.turn)
        case _:
            reason = found.turn.stop_reason or found.turn.error or "none"
            status, detail = _as_status(reason == check.argument), f"it is {reason}"
    return Result(check.line, status, detail[:DETAIL])


def _as_status(passed: bool) -> Status:
    return "passed" if passed else "failed"


def _files(check: Check, found: Found, matches: Matches) -> tuple[Status, str]:
    if found.changed is None:
        return "error", found.unknown
    hits = [path for path in found.changed if matches(check.argument, path)]
    listed = ", ".join(hits[:SHOWN_PATHS])
    if len(hits) > SHOWN_PATHS:
        listed += f" and {len(hits) - SHOWN_PATHS:,} more"
    return _as_status(bool(hits) == (check.name == "changed")), listed or "no file that matches"


def _command(end: CommandEnd | None) -> tuple[Status, str]:
    if end is None:
        return "error", "it was not run"
    if end.exit_code is None:
        return "error", end.output
    return _as_status(end.exit_code == 0), f"exit code {end.exit_code}\n{end.output}".strip()


def _tool(check: Check, found: Found) -> tuple[Status, str]:
    kind = check.argument
    calls = [
        entry
        for entry in found.turn.entries
        if isinstance(entry, ToolCallEntry) and kind in (entry.kind, entry.name)
    ]
    if check.name == "tool used:":
        done = [call for call in calls if call.status == "completed"]
        return _as_status(bool(done)), f"{len(done)} of {len(calls)} were completed"
    served = _served(kind, found)
    detail = f"{len(calls)} calls"
    if served:
        detail += f"; through the client: {', '.join(served[:SHOWN_PATHS])}"
    return _as_status(not calls and not served), detail


def _served(kind: str, found: Found) -> list[str]:
    """What the client did for the agent, whatever the agent called it."""
    turn = found.turn
    if kind == "execute":
        return [
            " ".join(terminal.argv)
            for terminal in found.terminals.values()
            if terminal.own and terminal.turn == turn.number
        ]
    operation = {"edit": "write", "read": "read"}.get(kind)
    entries = [entry for entry in turn.entries if isinstance(entry, FilesEntry)]
    return [
        path
        for entry in entries
        for done, path, outcome, _ in entry.events
        if done == operation and outcome == "served"
    ]


def answer(turn: Turn) -> str:
    """The agent's messages, a blank line between two."""
    texts = [
        entry.text.strip("\n")
        for entry in turn.entries
        if isinstance(entry, MessageEntry) and entry.role == "agent"
    ]
    return "\n\n".join(texts)


def _text(check: Check, text: str) -> tuple[Status, str]:
    if check.name == "text contains:":
        passed = check.argument in text
        return _as_status(passed), "" if passed else f"{len(text):,} characters without it"
    match = _pattern(check.argument).search(text)
    if match is None:
        return "failed", f"nothing in {len(text):,} characters"
    return "passed", match[0]


def _json(check: Check, text: str) -> tuple[Status, str]:
    document = _document(text)
    if document is None:
        return "failed", "the answer holds no JSON"
    value, problem = _follow(document[0], check.argument)
    if problem:
        return "failed", problem
    shown = json.dumps(value, ensure_ascii=False)
    if not check.compare:
        return "passed", shown
    try:
        return _as_status(_compared(check, value)), f"it is {shown}"
    except TypeError:
        return "failed", f"it is {shown}, which cannot be compared so"


def _compared(check: Check, value: Any) -> bool:
    """JSON knows no number that is a truth value, Python does."""
    if isinstance(value, bool) != isinstance(check.value, bool):
        if check.compare in ("==", "!="):
            return check.compare == "!="
        raise TypeError
    return _COMPARE[check.compare](value, check.value)


def _document(text: str) -> tuple[Any] | None:
    """The answer as JSON, or its last code block that is JSON."""
    for source in (text, *(block.code for block in reversed(list(code_blocks(text))))):
        try:
            return (json.loads(source),)
        except (ValueError, RecursionError):
            continue
    return None


def _follow(value: Any, path: str) -> tuple[Any, str]:
    """What a path leads to, or why to nothing."""
    for step in _STEP.finditer(path):
        key: Any = (
            int(step[1]) if step[1] else json.loads(step[2]) if step[2] is not None else step[3]
        )
        try:
            if not isinstance(value, list if step[1] else dict):
                raise KeyError(key)
            value = value[key]
        except (KeyError, IndexError):
            return None, f"there is no {step[0]}"
    return value, ""


def _limit(check: Check, turn: Turn) -> tuple[Status, str]:
    if check.name == "seconds":
        if turn.ended is None:
            return "error", "the turn has not ended"
        value, shown = turn.ended - turn.started, f"{turn.ended - turn.started:.1f} s"
    elif check.name == "cost":
        cost = turn_cost(turn.usage, turn.cost_before)
        if cost is None:
            return "error", "the agent reported no cost"
        value, shown = cost[0], f"{cost[0]:.4g} {cost[1]}".strip()
    else:
        tokens = turn_tokens(turn.usage)
        if tokens is None:
            return "error", "the agent reported no tokens"
        value, shown = float(tokens), f"{tokens:,} tokens"
    return _as_status(_COMPARE[check.compare](value, check.value)), shown


def _permissions(turn: Turn) -> tuple[Status, str]:
    asked = [entry for entry in turn.entries if isinstance(entry, PermissionEntry)]
    denied = [entry for entry in asked if entry.state == "denied"]
    titles = "; ".join(entry.title for entry in denied[:SHOWN_PATHS])
    return _as_status(not denied), titles or f"{len(asked)} requests"
