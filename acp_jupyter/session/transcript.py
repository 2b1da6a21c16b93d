"""The transcript of one session: turns, and the entries that each turn consists of.

An entry is one thing worth showing: a message, a thought, a tool call, a plan, a permission
request, a notice. The rules:

* `session.reducer` is the only writer. A change goes through `Transcript.touch`, which bumps the
  entry's ``revision`` and marks it as changed; a publisher pulls with `Transcript.take_changed`.
* Entries are mutable and have one owner thread. They are not frozen, because a steady stream of
  updates would then copy each message again and again.
* What is kept is small: text, the fields of each entry, and the raw payload of what is not
  understood. No object is kept per chunk (`TextBuffer`).
* Text from the agent is kept as it came. Escaping is the renderer's duty.
* Each entry belongs to the turn that was running, or had ended last, when it was made; a late
  update changes the entry where it is.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from ..protocol.forms import Field
from .changes import Changes

JSON = Any
Block = dict[str, Any]
"""A content block in the official v1 shape (``type`` text, image, audio, resource_link, resource);
unknown types are kept as they came."""

JOIN_CHUNKS = 512
"""Chunks of a text buffer joined at once: 8 MB a 100,000 chunks as single strings, 3 MB joined."""

KEPT_TURNS = 20
"""Ended turns whose entries the session keeps for late updates; older ones live on only in the
`Turn` objects that somebody holds."""

KEPT_RAW = 20
"""Raw payloads kept of one kind of unknown update; further ones are only counted."""

TERMINAL_TAIL = 64 * 1024
"""Characters of a terminal's output that a transcript keeps (what a notebook can bear)."""


class TextBuffer:
    """Text that grows at its end, a chunk at a time, in linear time and without one object each."""

    __slots__ = ("_joined", "_parts", "length")

    def __init__(self, text: str = "") -> None:
        self._joined: list[str] = [text] if text else []
        self._parts: list[str] = []
        self.length = len(text)

    def append(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)
        if len(self._parts) >= JOIN_CHUNKS:
            self._joined.append("".join(self._parts))
            self._parts.clear()

    def replace_end(self, length: int, text: str) -> None:
        """Put ``text`` in the place of the last ``length`` characters; copies the buffer."""
        whole = str(self)
        self._joined = [whole[: len(whole) - length] + text]
        self.length += len(text) - length

    def __str__(self) -> str:
        if self._parts or len(self._joined) > 1:
            self._joined = ["".join((*self._joined, *self._parts))]
            self._parts.clear()
        return self._joined[0] if self._joined else ""

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return self.length > 0


@dataclass(slots=True, eq=False)
class Entry:
    """Base of all entries.

    Attributes:
        id: unique in the session, e.g. ``"e12"``; never made from what the agent sent.
        turn: number of the turn it belongs to; 0 is before the first prompt.
        revision: grows with each change.
        late: made after its turn had ended; it is shown inside the turn's footer.
    """

    id: str
    turn: int
    revision: int = field(default=0, init=False)
    late: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class MessageEntry(Entry):
    """A message: of the agent, of the user (echoed or replayed), or a thought of the agent.

    ``parts`` is a sequence of `TextBuffer` and content blocks that are not text, in order.
    ``echo``: it only repeats the prompt (so far), which the cell shows already.
    """

    role: Literal["agent", "user", "thought"] = "agent"
    message_id: str | None = None
    parts: list[TextBuffer | Block] = field(default_factory=list)
    echo: bool = False
    numbered: list[tuple[int, str]] = field(default_factory=list)  # see `session.messages`

    @property
    def text(self) -> str:
        """The message's text; what is not text is left out."""
        return "".join(str(part) for part in self.parts if isinstance(part, TextBuffer))


@dataclass(slots=True, eq=False)
class ToolCallEntry(Entry):
    """A tool call, as the agent reports it. Nothing in it decides anything.

    Attributes:
        kind: read, edit, delete, move, search, execute, think, fetch, switch_mode, other, or any
            other string an agent sends.
        status: pending, in_progress, completed, failed, cancelled, or any other string.
        content: items ``{"type": "content", "content": Block}``, ``{"type": "diff", "path",
            "oldText", "newText"}``, v2 ``{"type": "diff", "changes", "patch"}``,
            ``{"type": "terminal", "terminalId"}``; unknown types as they came.
        locations: ``{"path", "line"?}``.
        raw_input, raw_output: any JSON.
        announced: False while only a permission request has named it.
        ended_by_turn: the turn ended while it was unfinished; ``status`` is the agent's last word.
        meta: the ``_meta`` of the last update that had one; it decides nothing.
    """

    tool_call_id: str = ""
    title: str = ""
    name: str | None = None
    kind: str = "other"
    status: str = "pending"
    content: list[dict[str, Any]] = field(default_factory=list)
    locations: list[dict[str, Any]] = field(default_factory=list)
    raw_input: JSON = None
    raw_output: JSON = None
    announced: bool = True
    ended_by_turn: str | None = None  # the turn's stop reason, or "denied" by the user or policy
    meta: dict[str, JSON] = field(default_factory=dict)

    FINAL = frozenset({"completed", "failed", "cancelled"})

    @property
    def finished(self) -> bool:
        return self.status in self.FINAL or self.ended_by_turn is not None


@dataclass(slots=True, eq=False)
class PlanEntry(Entry):
    """A plan. ``items`` are ``{"content", "priority", "status"}`` (v1, v2 items); a Markdown or
    file plan (v2 unstable) has ``text`` or ``uri`` instead."""

    plan_id: str | None = None
    items: list[dict[str, Any]] = field(default_factory=list)
    text: str | None = None
    uri: str | None = None
    removed: bool = False


PermissionState = Literal["pending", "allowed", "denied", "cancelled", "failed"]


@dataclass(slots=True, eq=False)
class PermissionEntry(Entry):
    """A permission request and what became of it.

    Attributes:
        question_id: the client's own id of the question.
        tool_call: the tool call it is about (an entry of the same session), or ``None``.
        evidence: what is shown of that call: as it was when it was asked about. The agent may
            change the call while the question is open, but not what the user sees and allows.
        title: what it is about, in the agent's words.
        description: why, in the agent's words (version 2); may be empty.
        kind: tool kind as the agent claims it; for display only.
        command, cwd: for a command permission (v2 subject, or the client's own terminal question).
        env: names and values that the agent sets for the command.
        path: for a file permission of the client's own (protected files).
        options: ``PermissionChoice`` in the agent's order.
        origin: who asks: "agent" for session/request_permission, "client" for the client's own
            question before it runs a command or opens a protected file.
        state: "pending", "allowed", "denied", "cancelled" or "failed" (invalid request).
        chosen: index into ``options``; ``None`` for the client's own Deny.
        decided_by: "user", "policy", "remembered", "nobody" (headless), "cancel", "agent"
            (withdrawn).
        rule: which rule or remembered answer decided; may be empty.
        reason: why, in one line; may be empty.
        record: the decision as data, see `services.decisions`.
        asked_at, decided_at: seconds since the turn's start.
    """

    question_id: str = ""
    tool_call: ToolCallEntry | None = None
    evidence: ToolCallEntry | None = None
    title: str = ""
    kind: str = "other"
    command: list[str] | None = None
    cwd: str | None = None
    env: Sequence[tuple[str, str]] = ()
    path: str | None = None
    options: list[PermissionChoice] = field(default_factory=list)
    origin: Literal["agent", "client"] = "agent"
    state: PermissionState = "pending"
    chosen: int | None = None
    decided_by: str = ""
    reason: str = ""
    asked_at: float = 0.0
    decided_at: float | None = None
    description: str = ""
    rule: str = ""
    record: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """One option of a permission request.

    Attributes:
        option_id: the agent's opaque id.
        name: the agent's words; quoted, never used as the label of a control alone.
        kind: allow_once, allow_always, reject_once, reject_always; anything else is neutral.
    """

    option_id: str
    name: str
    kind: str


ElicitationState = Literal["pending", "accepted", "declined", "cancelled", "completed"]


@dataclass(slots=True, eq=False)
class ElicitationEntry(Entry):
    """A question of the agent's to the user, by a form or a web address, and what became of it.

    Attributes:
        question_id: the client's own id of the question.
        agent: the agent's name, as the user knows it.
        mode: "form" or "url".
        message: what is asked, in the agent's words.
        title, description: of the form, in the agent's words.
        fields: of the form, in the agent's order.
        url, elicitation_id: of the web address.
        state: "pending", "accepted", "declined", "cancelled" or "completed" (the agent
            says that the visit had its effect).
        answers: what was sent for an accepted form, by field.
        decided_by: "user", "policy", "client" (what is never shown), "nobody" (headless),
            "cancel", "agent" (withdrawn, or completed before it was answered).
        reason: why, in one line; may be empty.
        asked_at, decided_at: seconds since the turn's start.
    """

    question_id: str = ""
    agent: str = ""
    mode: Literal["form", "url"] = "form"
    message: str = ""
    title: str = ""
    description: str = ""
    fields: Sequence[Field] = ()
    url: str = ""
    elicitation_id: str = ""
    state: ElicitationState = "pending"
    answers: dict[str, JSON] = field(default_factory=dict)
    decided_by: str = ""
    reason: str = ""
    asked_at: float = 0.0
    decided_at: float | None = None


@dataclass(slots=True, eq=False)
class FilesEntry(Entry):
    """Files that the agent read or wrote through the client, in order.

    ``events`` are ``(operation, path, outcome, reason)``: operation "read" or "write", outcome
    "served" or "refused".
    """

    events: list[tuple[str, str, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SentItem:
    """One attachment as it was sent: ``size`` in bytes if known, ``note`` says what is missing."""

    name: str
    block: Block
    size: int | None = None
    note: str = ""


@dataclass(slots=True, eq=False)
class AttachmentsEntry(Entry):
    """What the client sent with the prompt besides its text."""

    items: list[SentItem] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class TerminalEntry(Entry):
    """A terminal of the client's that no tool call shows."""

    terminal_id: str = ""


@dataclass(slots=True, eq=False)
class NoticeEntry(Entry):
    """A line from the client, or (``source`` "agent") a notice of the agent's.

    Attributes:
        key: notices with the same key in one turn are one entry with a ``count``.
        detail: raw text, shown folded; bounded.
    """

    key: str = ""
    level: Literal["info", "warning", "error"] = "info"
    text: str = ""
    detail: str = ""
    count: int = 1
    source: Literal["client", "agent"] = "client"


@dataclass(slots=True, eq=False)
class UnknownEntry(Entry):
    """Updates of a kind that this client does not know: shown, counted, raw text folded."""

    kind: str = ""
    raw: list[str] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True, eq=False)
class CompactionEntry(Entry):
    """The agent summarises its context (unstable): status in_progress, completed, failed, …"""

    compaction_id: str = ""
    status: str = "in_progress"
    summary: list[TextBuffer | Block] = field(default_factory=list)
    error: str | None = None


@dataclass(slots=True, eq=False)
class HistoryEntry(Entry):
    """The replay of an earlier session: ``count`` updates, the last ones kept as ``entries``."""

    count: int = 0
    entries: list[Entry] = field(default_factory=list)


CellState = Literal["proposed", "inserted", "run", "dismissed"]


@dataclass(slots=True)
class ProposedCell:
    """A cell that the user may take over.

    Attributes:
        language: its usual name in lower case: python, bash, markdown, …
        source: the whole cell.
        state: what became of it.
    """

    language: str
    source: str
    state: CellState = "proposed"


@dataclass(slots=True, eq=False)
class CellsEntry(Entry):
    """Cells that are proposed to the user.

    Attributes:
        cells: in their order; the list does not change, only their states do.
        agent: name of the agent they come from.
        session: the agent's id of the session.
        from_answer: they are code blocks of the turn's answer, which shows them already.
        left_out: how many more there were, too many or too long to propose.
    """

    cells: list[ProposedCell] = field(default_factory=list)
    agent: str = ""
    session: str = ""
    from_answer: bool = False
    left_out: int = 0


@dataclass(slots=True, eq=False)
class FooterEntry(Entry):
    """How a turn ended; one for each turn, and its last output: what comes later is shown in it.

    Attributes:
        stop_reason: end_turn, max_tokens, max_turn_requests, refusal, cancelled, any other
            string, or ``None`` when the turn failed (``error``).
        duration: seconds from prompt to end.
        usage: ``{"used", "size", "cost": {"amount", "currency"}}`` and the token counts of the
            prompt response, each only if the agent reported it.
        late_entries: entries that arrived after the turn had ended.
        changes: of files, while it ran; ``None`` if nobody looked.
    """

    stop_reason: str | None = None
    error: str = ""
    duration: float = 0.0
    usage: dict[str, Any] = field(default_factory=dict)
    late_entries: list[Entry] = field(default_factory=list)
    changes: Changes | None = None


@dataclass(slots=True)
class TerminalState:
    """What is known of a terminal, the client's own or one that the agent streams.

    Attributes:
        turn: number of the turn in which it was last heard of.
        shown_by: the entry that shows it, if any does yet.
        own: the client runs it; what the agent says of it is not believed.
        elapsed: seconds it has run, as far as the client knows; else 0.
        decoder: holds the bytes of a character that is not complete yet.
    """

    terminal_id: str
    argv: list[str] = field(default_factory=list)
    cwd: str = ""
    output: str = ""
    truncated: bool = False
    exit_code: int | None = None
    signal: str | None = None
    running: bool = True
    turn: int = 0
    shown_by: Entry | None = None
    own: bool = False
    elapsed: float = 0.0
    decoder: codecs.IncrementalDecoder | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Turn:
    """One prompt turn.

    Attributes:
        number: 1, 2, … in the session; 0 for what arrives before the first prompt.
        prompt: the content blocks sent.
        started, first_chunk, ended: seconds on the caller's clock; ``first_chunk`` is when the
            first of the answer came: text, a thought, a tool call or a plan.
        stop_reason: see `FooterEntry`.
        cost_before: what the session had cost when it began; agents report a total.
        changes: of files, while it ran; ``None`` if nobody looked.
    """

    number: int
    prompt: list[Block] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    started: float = 0.0
    first_chunk: float | None = None
    ended: float | None = None
    stop_reason: str | None = None
    error: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    cost_before: float = 0.0
    cancel_requested: bool = False
    open_message: MessageEntry | None = None
    files: FilesEntry | None = None
    footer: FooterEntry | None = None
    notices: dict[tuple[str, str], NoticeEntry] = field(default_factory=dict)  # source, key
    unknown: dict[str, UnknownEntry] = field(default_factory=dict)
    changes: Changes | None = None

    @property
    def running(self) -> bool:
        return self.number > 0 and self.ended is None


@dataclass(slots=True)
class SessionInfo:
    """What the agent told of the session besides its messages; full state, last value wins.

    Attributes:
        commands: slash commands ``{"name", "description", "input"?}``.
        modes: ``{"id", "name", "description"?}`` in the agent's order.
        config_options: official v1 shape, unknown types kept.
        models: the older ``{"modelId", "name"}`` list.
        usage: last usage_update.
        subagents: by session id, ``{"title", "description", "state"}`` (unstable).
    """

    title: str | None = None
    updated_at: str | None = None
    commands: list[dict[str, Any]] = field(default_factory=list)
    modes: list[dict[str, Any]] = field(default_factory=list)
    current_mode: str | None = None
    config_options: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    current_model: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    state: str | None = None  # v2: running, idle, requires_action
    background: list[dict[str, Any]] | None = None  # v2: runs besides; None if that is not told
    subagents: dict[str, dict[str, Any]] = field(default_factory=dict)


class Transcript:
    """All that is known of one session. See the module's rules.

    Args:
        ids: another transcript's, to have ids that are unique among both.

    Attributes:
        focus: ``{"path", "line"?}``, the file that was last worked on; another object each time.
    """

    def __init__(self, ids: Iterator[int] | None = None) -> None:
        self.ids = count(1) if ids is None else ids
        self.turns: list[Turn] = [Turn(0)]
        self.info = SessionInfo()
        self.tool_calls: dict[str, ToolCallEntry] = {}
        self.messages: dict[tuple[str, str], MessageEntry] = {}
        self.plans: dict[str | None, PlanEntry] = {}
        self.compactions: dict[str, CompactionEntry] = {}
        self.terminals: dict[str, TerminalState] = {}
        self.focus: dict[str, Any] | None = None
        self._changed: dict[Entry, None] = {}

    @property
    def turn(self) -> Turn:
        """The turn that is running, or the one that ended last."""
        return self.turns[-1]

    def entries(self) -> Iterator[Entry]:
        """All entries kept, in order of their turns."""
        for turn in self.turns:
            yield from turn.entries

    def next_id(self) -> str:
        return f"e{next(self.ids)}"

    def add(self, entry: Entry) -> None:
        """Append an entry to the turn it names (the current one or an earlier one)."""
        turn = self.turn if entry.turn == self.turn.number else self.turn_of(entry)
        footer = turn.footer
        if footer is not None and entry is not footer:
            # The footer is the turn's last output: an entry after the end is shown inside it.
            entry.late = True
            footer.late_entries.append(entry)
        turn.entries.append(entry)
        self.touch(entry)

    def touch(self, entry: Entry) -> None:
        """Note that an entry has changed."""
        entry.revision += 1
        if entry.late:
            footer = self.turn_of(entry).footer
            if footer is not None:
                footer.revision += 1
                self._changed[footer] = None
                return
        self._changed[entry] = None

    def turn_of(self, entry: Entry) -> Turn:
        """The turn that owns an entry; the oldest kept one if its own is gone."""
        for turn in reversed(self.turns):
            if turn.number <= entry.turn:
                return turn
        return self.turns[0]

    def take_changed(self, limit: int | None = None) -> list[Entry]:
        """The entries changed since they were taken last, in order of first change; those beyond
        ``limit`` are left for the next call."""
        if not self._changed:
            return []
        changed = list(self._changed)
        self._changed = {} if limit is None else dict.fromkeys(changed[limit:])
        return changed[:limit]

    @property
    def dirty(self) -> bool:
        return bool(self._changed)

    def forget_old_turns(self) -> None:
        """Drop turns beyond `KEPT_TURNS`, and the indexes that point into them."""
        if len(self.turns) <= KEPT_TURNS:
            return
        del self.turns[: len(self.turns) - KEPT_TURNS]
        oldest = self.turns[0].number
        self._forget(lambda entry: entry.turn >= oldest)
        _keep(self.terminals, lambda terminal: terminal.turn >= oldest)

    def forget_early_entries(self, keep: int) -> None:
        """Drop all but the last ``keep`` entries of the current turn (of a long replay)."""
        turn = self.turn
        del turn.entries[:-keep]
        kept = set(turn.entries)
        self._forget(kept.__contains__)
        _keep(turn.notices, kept.__contains__)
        _keep(turn.unknown, kept.__contains__)
        for ident in list(self.terminals)[:-keep]:
            del self.terminals[ident]

    def _forget(self, keeps: Callable[[Entry], bool]) -> None:
        _keep(self.tool_calls, keeps)
        _keep(self.messages, keeps)
        _keep(self.plans, keeps)
        _keep(self.compactions, keeps)
        self._changed = {entry: None for entry in self._changed if keeps(entry)}


def _keep(index: dict[Any, Any], keeps: Callable[[Any], bool]) -> None:
    """Drop values in place: publishers hold on to the dicts."""
    for key in [key for key, value in index.items() if not keeps(value)]:
        del index[key]
