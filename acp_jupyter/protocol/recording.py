"""The form of a recording: what an agent and this client said to each other, and what was decided.

A recording is a file of JSON lines, by custom ``NOTEBOOK.acp.jsonl`` beside ``NOTEBOOK.ipynb``.
Each line is an object with a ``type``, and (but for the header) the number of its ``connection``,
the seconds ``t`` since that connection began and the number of the prompt ``turn``, 0 before the
first. Secrets are replaced by ``[redacted]``. Version 1 has these types:

============  =====================================================================================
``header``    a connection begins: ``version`` (1), ``connection`` (from 1), ``created`` (ISO 8601),
              ``agent`` (``name``, ``argv``, ``title``, ``version``), ``client`` (our version),
              ``cwd``, ``permissions`` (the policy in words)
``frame``     a line of the wire: ``dir`` "out" (ours) or "in", and ``message``, the JSON-RPC
              message, or ``raw``, the text of a line that is none, or a batch; ``cell`` is the
              id of the notebook's cell, if known
``decision``  what became of a question for permission: ``request`` (the id of the agent's request
              that led to it), ``state``, ``chosen`` (index of the option), ``by``, ``reason``,
              ``rule``, ``waited`` (seconds), ``record`` (as in the metadata of the output) and, if
              the client asked of itself, ``about`` (the command or file)
``answer``    what became of a form or a web address: ``request``, ``action``, ``content``, ``by``,
              ``reason``, ``waited``
``file``      what became of a file request: ``request``, ``op`` "read" or "write", ``path``,
              ``outcome``, ``reason``, ``bytes``
``terminal``  a terminal as the output shows it: ``session``, ``ident``, ``argv``, ``cwd``,
              ``output``, ``truncated``, ``exit_code``, ``signal``, ``running``, ``shown`` (in an
              output of its own), ``elapsed`` (seconds)
``notice``    a line that the client showed for reasons of time: ``session``, ``key``, ``text``,
              ``detail``, ``level``
``changes``   files that changed while the turn ran: ``session``, ``files`` (``path``, ``kind``,
              ``added``, ``removed``, ``note``, ``diff``), ``more`` (how many others), ``notes``
``stop``      the turn was stopped: ``session``, ``how`` "cancel", "limit" or "kill", ``reason``
``exit``      the agent ended by itself: ``returncode``, ``stderr`` (its last lines)
``end``       the turn ended: ``session``, ``stop_reason``, ``error``
============  =====================================================================================

The lines stand in the order of what happened, those of several connections mixed. A file may end in
the middle of a line: the recording process was killed.

A recording comes from anywhere. It is only ever parsed: each line is bounded and has exactly the
types above, and what cannot be read is an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from ..errors import UsageError
from .jsonrpc import MAX_DEPTH, MAX_LINE, too_deep
from .secrets import REDACTED

VERSION: Final = 1

MAX_RECORDED: Final = MAX_LINE + 2**20
"""Bytes of a line: a message, and what stands around it."""

REPLAY_EVENT: Final = "_acp_jupyter/recorded"
"""The notification by which a replay hands on what is no frame. Only a process that was started to
replay is heard."""

Count = Annotated[int, Meta(ge=0, le=10**9)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Ident = int | Annotated[str, Meta(max_length=10_000)] | None
Short = Annotated[str, Meta(max_length=10_000)]
Long = Annotated[str, Meta(max_length=2**22)]
Map = dict[str, Any]


class AgentFacts(Struct, frozen=True):
    """The agent of a connection; ``argv`` without secrets."""

    name: Short
    argv: Annotated[list[Long], Meta(max_length=10_000)] = []
    title: Short = ""
    version: Short = ""


class Header(Struct, frozen=True, tag="header", tag_field="type"):
    """See the module, as for those that follow."""

    version: Literal[1]
    connection: Count
    created: Short
    agent: AgentFacts
    client: Short
    cwd: Long
    permissions: Short = ""


class _Line(Struct, frozen=True, tag_field="type", kw_only=True, omit_defaults=True):
    connection: Count
    t: Seconds
    turn: Count = 0


class Frame(_Line, frozen=True, tag="frame", kw_only=True):
    """A line of the wire."""

    direction: Literal["in", "out"] = field(name="dir")
    cell: Short = ""
    message: Any = None
    raw: str | None = None


class Decision(_Line, frozen=True, tag="decision", kw_only=True):
    """Of a question for permission."""

    request: Ident
    state: Literal["allowed", "denied", "cancelled", "failed"]
    chosen: Count | None = None
    by: Short
    reason: Short = ""
    rule: Short = ""
    waited: Seconds = 0.0
    record: Map | None = None
    about: Map | None = None


class Answer(_Line, frozen=True, tag="answer", kw_only=True):
    """Of an elicitation."""

    request: Ident
    action: Literal["accept", "decline", "cancel"]
    content: Map = {}
    by: Short
    reason: Short = ""
    waited: Seconds = 0.0


class File(_Line, frozen=True, tag="file", kw_only=True):
    """What became of a file request."""

    request: Ident
    op: Literal["read", "write"]
    path: Long
    outcome: Literal["served", "refused", "missing"]
    reason: Short = ""
    bytes: Count = 0


class Terminal(_Line, frozen=True, tag="terminal", kw_only=True):
    """A terminal as it stood."""

    session: Short = ""
    ident: Short
    argv: Annotated[list[Long], Meta(max_length=10_000)]
    cwd: Long
    output: Long = ""
    truncated: bool = False
    exit_code: int | None = None
    signal: Short | None = None
    running: bool = False
    shown: bool = False
    elapsed: Annotated[float, Meta(ge=0)] = 0.0


class Notice(_Line, frozen=True, tag="notice", kw_only=True):
    """A line of the client's."""

    session: Short = ""
    key: Short
    text: Short
    detail: Short = ""
    level: Literal["info", "warning", "error"] = "info"


class Stop(_Line, frozen=True, tag="stop", kw_only=True):
    """The turn was stopped from here."""

    session: Short = ""
    how: Literal["cancel", "limit", "kill"]
    reason: Short = ""


class Changes(_Line, frozen=True, tag="changes", kw_only=True):
    """Files that changed while the turn ran."""

    session: Short = ""
    files: Annotated[list[Map], Meta(max_length=10_000)] = []
    more: Count = 0
    notes: Annotated[list[Short], Meta(max_length=100)] = []


class Exit(_Line, frozen=True, tag="exit", kw_only=True):
    """The agent ended by itself."""

    returncode: int | None = None
    stderr: Long = ""


class End(_Line, frozen=True, tag="end", kw_only=True):
    """The turn ended."""

    session: Short = ""
    stop_reason: Short | None = None
    error: Long = ""


class Served(Struct, frozen=True, tag="served", tag_field="type", kw_only=True):
    """What the client answered a request of the agent's: of a replay only, made of a frame."""

    request: Ident
    result: Any = None
    error: Map | None = None


class Over(Struct, frozen=True, tag="over", tag_field="type"):
    """There is nothing more in the recording: of a replay only."""


class Ready(Struct, frozen=True, tag="ready", tag_field="type"):
    """All that comes before the client's next request was said, after ``requests`` of them: of a
    replay only."""

    requests: Count


Line = Header | Frame | Decision | Answer | File | Terminal | Notice | Changes | Stop | Exit | End
Event = Decision | Answer | File | Terminal | Notice | Changes | Stop | End | Served | Over | Ready

InSession = Terminal | Notice | Changes | Stop | End
"""What a replay shows, or does, in one session."""

_decode_line: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode
_events: Final = (Decision, Answer, File, Terminal, Notice, Changes, Stop, End, Served, Over)


def encode(line: Line | Event) -> bytes:
    """One line of a recording, with its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode(data: bytes) -> Line:
    """One line of a recording.

    Raises:
        ValueError: it is none; says why.
    """
    try:
        if data.count(b"[") + data.count(b"{") > MAX_DEPTH and too_deep(msgspec.json.decode(data)):
            raise ValueError("it is nested too deeply")
        return _decode_line(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def event(value: object) -> Event | None:
    """An event from the parameters of `REPLAY_EVENT`; ``None`` if it is none."""
    try:
        found: Event = msgspec.convert(value, Event)
    except (msgspec.ValidationError, RecursionError):
        return None
    return found


def is_event(line: object) -> bool:
    """Whether a replay hands the line on to the client."""
    return isinstance(line, _events)


def read(
    readline: Callable[[int], bytes], on_torn: Callable[[int], object] = lambda _number: None
) -> Iterator[Line]:
    """The lines of a recording, in order.

    Args:
        readline: reads one line, or as many bytes of it as it is given, from a binary file.
        on_torn: called with the number of a last line that is not whole, which is left out.

    Raises:
        UsageError: this is no recording, or a damaged one.
    """
    begun: set[int] = set()
    number = 0
    while data := readline(MAX_RECORDED + 1):
        number += 1
        if len(data) > MAX_RECORDED:
            raise _unreadable(number, f"it has more than {MAX_RECORDED:,} bytes")
        try:
            line = decode(data)
        except ValueError as error:
            if begun and not data.endswith(b"\n"):
                on_torn(number)
                return
            raise _unreadable(number, str(error)) from error
        if isinstance(line, Header):
            begun.add(line.connection)
        elif line.connection not in begun:
            raise _unreadable(number, "it belongs to a connection that has not begun")
        yield line
    if not begun:
        raise UsageError(
            "the recording is empty", remedy="Record a run first: `%acp record`, then connect."
        )


def _unreadable(number: int, why: str) -> UsageError:
    return UsageError(
        f"line {number} is no line of a recording: {why[:300]}",
        remedy="Name a file that `%acp record` has written, or record the run again.",
    )


# -- comparing and moving -------------------------------------------------------------------------


def relocate(value: Any, old: str, new: str) -> Any:
    """``value`` with the directory ``old`` at the start of paths replaced by ``new``, in all texts.

    A recording is replayed where the notebook is now.
    """
    if old == new or len(old) < 2:
        return value
    return _moved(value, re.compile(rf"(?<![\w.~-]){re.escape(old)}(?![\w-]|\.\w)"), new)


def _moved(value: Any, old: re.Pattern[str], new: str) -> Any:
    if isinstance(value, str):
        return old.sub(lambda _: new, value)
    if isinstance(value, list):
        return [_moved(item, old, new) for item in value]
    if isinstance(value, dict):
        return {name: _moved(item, old, new) for name, item in value.items()}
    return value


def agrees(recorded: Any, live: Any) -> bool:
    """Whether ``live`` is what was recorded, where a redacted part stands for any text."""
    if isinstance(recorded, str) and isinstance(live, str):
        return recorded == live or (REDACTED in recorded and _fits(recorded, live))
    if isinstance(recorded, dict) and isinstance(live, dict):
        return recorded.keys() == live.keys() and all(
            agrees(item, live[name]) for name, item in recorded.items()
        )
    if isinstance(recorded, list) and isinstance(live, list):
        return len(recorded) == len(live) and all(map(agrees, recorded, live))
    return type(recorded) is type(live) and recorded == live


def _fits(recorded: str, live: str) -> bool:
    first, *rest = recorded.split(REDACTED)
    last = rest.pop()
    if not live.startswith(first) or not live[len(first) :].endswith(last):
        return False
    place, end = len(first), len(live) - len(last)
    for piece in rest:
        place = live.find(piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True
