"""From updates to the transcript: the only writer of session state.

`Reducer.apply` takes one official update (see `protocol.dialects`) at a time, in the order of the
wire. It never raises on what an agent sends: an update that does not have the shape of its kind,
or a kind that nobody knows, becomes a visible `UnknownEntry`. What each kind does is in
`messages`, `tools` and `reports`; here are turns, the replay of a history, and what the client
itself did.

Which turn an update changes: one that names a known tool call, message or terminal, the turn that
owns it; any other, the turn that is running or has ended last.

In the patches of protocol version 1 a null means "unchanged", in version 2 "cleared".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from ..protocol.dialects import SessionState
from ..protocol.v2 import Foreground
from .cells import bounded, from_answer
from .limits import cost_of
from .messages import Messages
from .reports import Level, Reports
from .tools import Tools
from .transcript import (
    AttachmentsEntry,
    Block,
    CellsEntry,
    CellState,
    ElicitationEntry,
    ElicitationState,
    Entry,
    FilesEntry,
    FooterEntry,
    HistoryEntry,
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PermissionState,
    ProposedCell,
    SentItem,
    TerminalState,
    ToolCallEntry,
    Transcript,
    Turn,
)

Dict = dict[str, Any]

HISTORY_KEPT: Final = 200
"""Entries of a replayed session that are kept for display; the rest is a number."""

FILE_EVENTS: Final = 200
"""File events that one entry lists."""

_ANSWER: Final = frozenset(
    {
        "agent_message_chunk",
        "agent_thought_chunk",
        "agent_message",
        "agent_thought",
        "tool_call",
        "tool_call_update",
        "tool_call_content_chunk",
        "plan",
        "plan_update",
    }
)
"""The kinds that a user waits for: the first of them ends the wait (`Turn.first_chunk`)."""


_NOT_PROPOSED: Final = frozenset({None, "cancelled", "refusal"})
"""Ends of a turn whose answer is not what was asked for."""


class Reducer:
    """Applies updates to a transcript.

    Args:
        transcript: the state to write.
        version: protocol version of the connection.
        agent, session: its name and its id of the session, which proposed cells keep.

    Attributes:
        proposes_cells: whether the code blocks of an answer are proposed as cells.
        foreground: what waits for the end of the work that a prompt began (version 2).
    """

    def __init__(
        self, transcript: Transcript, version: int = 1, *, agent: str = "", session: str = ""
    ) -> None:
        self.transcript = transcript
        self.proposes_cells = False
        self.foreground: Foreground | None = None
        self._agent = agent
        self._session = session
        self._version = version
        self._replay: _Replay | None = None
        self._messages = Messages(transcript, by_id=version >= 2)
        self._tools = Tools(transcript, nulls_clear=version >= 2)
        self._reports = Reports(transcript)
        self._handlers: dict[Any, Callable[[Dict], bool]] = {
            **self._messages.handlers,
            **self._tools.handlers,
            **self._reports.handlers,
        }

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of update that are understood."""
        return frozenset(self._handlers)

    def apply(self, update: Dict, now: float) -> None:
        """Apply one update; ``now`` in seconds on the caller's clock."""
        kind = update.get("sessionUpdate")
        messages = self._messages
        tail = messages.tail
        if tail is not None and kind == tail.kind and messages.append(tail, update):
            return
        if self._replay is not None:
            self._replay.apply(update, now)
            return
        messages.tail = None
        if self.foreground is not None:
            self.foreground.take(update)
        elif kind == "state_update":
            self._reports.own_work(update)
        if type(kind) is str:
            turn = self.transcript.turn
            if turn.first_chunk is None and turn.running and kind in _ANSWER:
                turn.first_chunk = now
            handler = self._handlers.get(kind)
            if handler is not None and handler(update):
                return
        self._reports.unknown(update)

    # -- turns ------------------------------------------------------------------------------

    def start_turn(self, prompt: list[Block], now: float) -> Turn:
        """Begin a turn; from here on, what names nothing known belongs to it."""
        self._messages.close()
        turn = Turn(self.transcript.turn.number + 1, prompt=prompt, started=now)
        cost = cost_of(self.transcript.info.usage)
        turn.cost_before = 0.0 if cost is None else cost[0]
        self.transcript.turns.append(turn)
        self.transcript.forget_old_turns()
        return turn

    def end_turn(
        self, now: float, *, stop_reason: str | None, error: str = "", usage: Dict | None = None
    ) -> FooterEntry:
        """End the running turn: unfinished tool calls are marked, the footer is written.

        A turn ends once: a second end changes nothing.
        """
        turn = self.transcript.turn
        if turn.footer is not None:
            return turn.footer
        self._messages.close()
        self._show_rest()
        turn.ended = now
        turn.stop_reason = stop_reason
        turn.error = error
        turn.usage.update(usage or {})
        denied = {
            entry.tool_call
            for entry in turn.entries
            if isinstance(entry, PermissionEntry) and entry.state == "denied"
        }
        for entry in turn.entries:
            if isinstance(entry, ToolCallEntry) and not entry.finished:
                entry.ended_by_turn = "denied" if entry in denied else stop_reason or "error"
                if stop_reason == "cancelled":
                    self._tools.end_terminals(entry)
                self.transcript.touch(entry)
        if self.proposes_cells and stop_reason not in _NOT_PROPOSED:
            self._propose_answer(turn)
        footer = FooterEntry(
            self.transcript.next_id(),
            turn.number,
            stop_reason=stop_reason,
            error=error,
            duration=now - turn.started,
            usage=dict(turn.usage),
            changes=turn.changes,
        )
        self.transcript.add(footer)
        turn.footer = footer
        return footer

    def _show_rest(self) -> None:
        self._tools.show_rest(self.transcript.turn)

    def begin_history(self) -> None:
        """From here on updates replay an earlier session (session/load)."""
        self._messages.tail = None
        self._replay = _Replay(self.transcript, self._version)

    def end_history(self) -> HistoryEntry | None:
        """The replay is over; ``None`` if there was none.

        One that told nothing but how things are now, such as the slash commands, is not shown.
        """
        replay, self._replay = self._replay, None
        if replay is None or not (replay.count or replay.told):
            return None
        transcript = self.transcript
        entry = HistoryEntry(
            transcript.next_id(),
            transcript.turn.number,
            count=replay.count,
            entries=replay.last_entries(),
        )
        if replay.count == 0:
            return entry
        transcript.add(entry)
        for ident, terminal in replay.transcript.terminals.items():
            terminal.turn, terminal.shown_by = transcript.turn.number, entry
            transcript.terminals.setdefault(ident, terminal)
        return entry

    def session_state(self, state: SessionState) -> None:
        """Take over what the answer to session/new, load, resume or fork says of the session."""
        info = self.transcript.info
        info.modes = state.modes or info.modes
        info.current_mode = state.current_mode or info.current_mode
        info.config_options = state.config_options or info.config_options
        info.models = state.models or info.models
        info.current_model = state.current_model or info.current_model
        if state.commands is not None:
            self._reports.commands(state.commands)

    # -- what the client did ----------------------------------------------------------------

    def expect(self, option: str, value: str | bool) -> None:
        """The user is setting an option: its change is not the agent's idea."""
        self._reports.expected = option, value

    def expect_nothing(self) -> None:
        """The option is set, or was refused."""
        self._reports.expected = None

    def set_model(self, model: str) -> None:
        """The agent took a model (of the older kind, which it does not report itself)."""
        info = self.transcript.info
        if info.current_model != model:
            info.current_model = model
            self.notice("model", f"model: {model[:200]}", source="agent", count=False)

    def notice(
        self,
        key: str,
        text: str,
        *,
        level: Level = "info",
        detail: str = "",
        source: Literal["client", "agent"] = "client",
        count: bool = True,
    ) -> NoticeEntry:
        """Show a line, or replace (and ``count``) the current turn's line with the same key."""
        return self._reports.notice(
            key, text, level=level, detail=detail, source=source, count=count
        )

    def tool_call(self, reference: Dict) -> ToolCallEntry:
        """The tool call that a permission request names, made from it if never announced."""
        return self._tools.referred(reference)

    def ask(self, entry: PermissionEntry | ElicitationEntry) -> None:
        """Show a question; made by the client, with an id from `Transcript.next_id`."""
        self.transcript.add(entry)

    def decide(
        self,
        entry: PermissionEntry,
        state: PermissionState,
        *,
        by: str,
        now: float,
        chosen: int | None = None,
        reason: str = "",
        rule: str = "",
        record: Dict | None = None,
    ) -> None:
        """Write down what became of a permission request; only the first decision counts."""
        if entry.state != "pending":
            return
        entry.state = state
        entry.decided_by = by
        entry.chosen = chosen
        entry.reason = reason
        entry.rule = rule
        entry.record = record
        entry.decided_at = now - self.transcript.turn_of(entry).started
        self.transcript.touch(entry)

    def answer(
        self,
        entry: ElicitationEntry,
        state: ElicitationState,
        *,
        by: str,
        now: float,
        answers: Dict | None = None,
        reason: str = "",
    ) -> None:
        """Write down what became of an elicitation; only the first answer counts."""
        if entry.state != "pending":
            return
        entry.state = state
        entry.decided_by = by
        entry.answers = dict(answers or {})
        entry.reason = reason
        entry.decided_at = now - self.transcript.turn_of(entry).started
        self.transcript.touch(entry)

    def complete(self, entry: ElicitationEntry) -> None:
        """The agent says that what was accepted has had its effect."""
        if entry.state == "accepted":
            entry.state = "completed"
            self.transcript.touch(entry)

    def file_event(self, operation: str, path: str, outcome: str, reason: str = "") -> None:
        """Show that the agent read or wrote a file through the client."""
        transcript = self.transcript
        turn = transcript.turn
        entry = turn.files
        if entry is None or turn.entries[-1] is not entry or len(entry.events) >= FILE_EVENTS:
            entry = FilesEntry(transcript.next_id(), turn.number)
            turn.files = entry
            transcript.add(entry)
        entry.events.append((operation, path, outcome, reason))
        if outcome == "served":
            transcript.focus = {"path": path}
        transcript.touch(entry)

    def sent(self, items: Sequence[SentItem]) -> AttachmentsEntry | None:
        """Show what went with the current turn's prompt; ``None`` if nothing did."""
        if not items:
            return None
        transcript = self.transcript
        entry = AttachmentsEntry(transcript.next_id(), transcript.turn.number, items=list(items))
        transcript.add(entry)
        return entry

    def propose(
        self, cells: Sequence[ProposedCell], *, from_answer: bool = False
    ) -> CellsEntry | None:
        """Show cells that the user may take over, see `CellsEntry`; ``None`` if none can be."""
        kept, left_out = bounded(cells)
        if not kept:
            return None
        entry = CellsEntry(
            self.transcript.next_id(),
            self.transcript.turn.number,
            cells=kept,
            agent=self._agent,
            session=self._session,
            from_answer=from_answer,
            left_out=left_out,
        )
        self.transcript.add(entry)
        return entry

    def _propose_answer(self, turn: Turn) -> None:
        messages = [
            entry.text
            for entry in turn.entries
            if isinstance(entry, MessageEntry) and entry.role == "agent"
        ]
        self.propose(from_answer(messages), from_answer=True)

    def mark_cell(self, entry: CellsEntry, index: int, state: CellState) -> None:
        """Write down what became of a proposed cell.

        Raises:
            IndexError: the entry has no cell with that index.
        """
        if not 0 <= index < len(entry.cells):
            raise IndexError(index)
        cell = entry.cells[index]
        if cell.state != state:
            cell.state = state
            self.transcript.touch(entry)

    def terminal(self, ident: str) -> TerminalState:
        """The state of a terminal that the client runs, made if it is not known yet.

        From here on the client alone says what it does, not the agent.
        """
        terminal = self._tools.terminal(ident)
        terminal.own = True
        return terminal

    def touch_terminal(self, terminal: TerminalState) -> None:
        """Note that a terminal changed: the entry that shows it has to be rendered again."""
        self._tools.touch_terminal(terminal)

    def show_terminal(self, terminal: TerminalState) -> None:
        """Give a terminal an entry of its own, where no tool call shows it."""
        self._tools.show_terminal(terminal)


_OF_NOW: Final = (
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "state_update",
    "usage_update",
)
"""Kinds of update that tell how things are, and not what was said."""


class _Replay:
    """A history in progress: reduced into a transcript of its own, of which the end is kept.

    Args:
        real: the session's transcript; ids and `SessionInfo` are shared with it.
        version: protocol version of the connection.

    Attributes:
        count: of updates that tell how things were.
        told: any other came, too.
    """

    def __init__(self, real: Transcript, version: int) -> None:
        self.transcript = Transcript(real.ids)
        self.transcript.info = real.info
        self.count = 0
        self.told = False
        self._reducer = Reducer(self.transcript, version)
        self._reducer._reports.replaying = True

    def apply(self, update: Dict, now: float) -> None:
        if update.get("sessionUpdate") in _OF_NOW:
            self.told = True
        else:
            self.count += 1
        self._reducer.apply(update, now)
        if len(self.transcript.turn.entries) > 2 * HISTORY_KEPT:
            self.transcript.forget_early_entries(HISTORY_KEPT)

    def last_entries(self) -> list[Entry]:
        self._reducer._show_rest()
        self.transcript.forget_early_entries(HISTORY_KEPT)
        entries = self.transcript.turn.entries
        for entry in entries:
            if isinstance(entry, ToolCallEntry) and not entry.finished:
                entry.ended_by_turn = "earlier session"
        return entries
