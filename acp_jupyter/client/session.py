"""One ACP session: prompts, cancellation, and the services the agent may use in it.

A prompt turn is serialised: one at a time in each session. Cancelling climbs a ladder: the agent
gets ``session/cancel`` and pending questions are answered ``cancelled`` at once; after
`HINT_AFTER` seconds the prompt request itself is withdrawn and the user is told how to end it;
the second cancel, or `KILL_AFTER` seconds, ends the agent.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, get_args

import trio

from ..connection.connection import SERVED
from ..errors import (
    ACPError,
    AgentError,
    AgentUnresponsive,
    ErrorCode,
    RequestError,
    TurnCancelled,
    TurnRunning,
    UsageError,
)
from ..protocol import dialects
from ..protocol import recording as recording_form
from ..rendering import diff
from ..services.decisions import Record
from ..services.elicitation import Elicitations
from ..services.files import FileEvent, FileService
from ..services.local_files import LocalFiles
from ..services.permissions import Permissions
from ..services.recording import Connection as Recording
from ..services.replay import Replay
from ..services.roots import Roots
from ..services.terminals import TerminalService, TerminalView
from ..services.workplace import Workplace
from ..session.cells import MAX_SOURCE
from ..session.changes import to_data
from ..session.limits import NO_LIMITS, Limits, cost_of, exceeded
from ..session.options import Option, options
from ..session.prompt import check_prompt
from ..session.reducer import Reducer
from ..session.reports import Level
from ..session.transcript import (
    Block,
    CellsEntry,
    CellState,
    Entry,
    ProposedCell,
    SentItem,
    TerminalState,
    Transcript,
    Turn,
)
from .changed import TurnChanges
from .options import set_option
from .questions import Questions
from .replayed import Replayed
from .work import Work

JSON = Any

SILENCE: Final = 10.0
"""Seconds without a word from the agent after which the cell says so."""

SILENCE_STEP: Final = 5.0
"""Seconds between two such reports."""

HINT_AFTER: Final = 10.0
KILL_AFTER: Final = 30.0
"""Seconds after a cancel: the agents seen take up to 18 s when a command has to end first."""

SHOW_TERMINAL_AFTER: Final = 1.0
"""Seconds an agent has to show a terminal in a tool call before it gets an entry of its own."""

ELAPSED_STEP: Final = 1.0
ELAPSED_OFTEN: Final = 30.0
"""Seconds between two updates of how long a command runs, and until they become fewer: each sends
all of the output that is shown."""


RECORDED_PATCHES: Final = 1_000_000
"""Characters of the patches of one turn that are recorded."""


class Peer(Protocol):
    """What a session needs of its agent."""

    @property
    def name(self) -> str:
        """As the user knows it."""

    @property
    def prompt_capabilities(self) -> Mapping[str, Any]: ...

    @property
    def last_received(self) -> float:
        """When the agent last sent anything, on trio's clock."""

    async def request(self, method: str, params: JSON) -> JSON: ...

    async def wait_gone(self) -> ACPError:
        """Wait until the connection has ended; returns why."""

    def notify(self, method: str, params: JSON) -> None: ...

    def withdraw(self, method: str) -> None: ...

    def kill(self, error: ACPError) -> None:
        """End the agent now; whoever waits for it gets the error."""


class Session:
    """A session of an agent. Made by `Agent`; all methods run on the trio thread.

    Attributes:
        session_id: the agent's opaque id.
        cwd: absolute working directory, also the session's first root.
        transcript: what has happened; read only.
        permissions: who decides about requests in this session.
        questions: what is put to them, and what became of it.
        elicitations: who answers questions to the user in it.
        on_change: called when the transcript has changed; set by the surface.
        on_update: called with each update of the agent's, after it was applied.
        on_news: called when a turn begins or ends, a question opens or closes, a file is served;
            set by `Agent`.
        display_prefix: unique among all sessions, for display ids.
        recording: who records it, if anybody.
        work: what its prompts wait for (version 2).
        changed: which files change while a turn runs.
        loaded: it goes on from an earlier process of the agent's, by session/load.
    """

    def __init__(
        self,
        agent: Peer,
        session_id: str,
        cwd: str,
        *,
        permissions: Permissions,
        environment: Mapping[str, str],
        nursery: trio.Nursery,
        version: int,
        recording: Recording | None = None,
        replay: Replay | None = None,
        apply_files: bool = False,
        workplace: Workplace | None = None,
    ) -> None:
        self.recording = recording
        self.agent = agent
        self.session_id = session_id
        self.cwd = cwd
        self.permissions = permissions
        self.transcript = Transcript()
        self.reducer = Reducer(self.transcript, version, agent=agent.name, session=session_id)
        self._version = version
        self.work = Work(self.reducer)
        self.on_change: Callable[[], None] = _nothing
        self.on_news: Callable[[], None] = _nothing
        self.elicitations = Elicitations(
            permissions,
            self.reducer,
            agent=agent.name,
            on_change=self._on_question,
            recording=recording,
            replay=replay,
        )
        self.on_update: Callable[[dict[str, Any]], None] | None = None
        # Chosen by us: what an agent calls its session never gets into a page or a file name.
        self.display_prefix = f"acp-{secrets.token_hex(6)}"
        workplace = workplace or Workplace()
        self.roots = Roots([cwd, *workplace.roots])
        self.questions = Questions(
            permissions,
            self.reducer,
            self.roots,
            agent=agent.name,
            cwd=cwd,
            on_change=self._on_question,
            recording=recording,
            replay=replay,
        )
        self.files = FileService(
            workplace.files(self.roots, tell=self._tell_files, propose=self.propose_cells),
            ask=self.questions.ask_file,
            observe=self._on_file,
            restrict=self.questions.restrict,
            conflict=self._on_conflict,
        )
        self.terminals = TerminalService(
            self.roots,
            environment,
            ask=self.questions.ask_command,
            nursery=nursery,
            on_change=self._on_terminal,
        )
        self._replayed: Replayed | None = None
        if replay is not None:
            self._replayed = self._made_replayed(replay, apply_files)
        self._nursery = nursery
        self._watchers: trio.Nursery | None = None
        self.changed = TurnChanges()
        self._ended_at = 0.0
        self.loaded = False
        self._begun: list[str] = []
        self._heard = trio.current_time()
        self._limits = NO_LIMITS
        self._over_limit = ""
        self._cost_before = 0.0

    def _made_replayed(self, replay: Replay, apply_files: bool) -> Replayed:
        writer = FileService(
            LocalFiles(self.roots), observe=_unseen, restrict=self.questions.restrict
        )
        return Replayed(
            replay,
            self.reducer,
            self.questions,
            self,
            on_file=self._show_file,
            writer=writer if apply_files else None,
        )

    @property
    def decisions(self) -> list[Record]:
        """What was decided about requests for permission in this session, oldest first."""
        return list(self.questions.decisions)

    @property
    def running(self) -> bool:
        """Whether a prompt turn is running."""
        return self._watchers is not None

    @property
    def busy(self) -> bool:
        """Whether a further prompt has to wait: one is running, beginning or ending."""
        return self.running or self.changed.looking

    @property
    def activity(self) -> Literal["waiting", "working", "idle"]:
        """What happens in it; agents of version 2 also work, or wait for the user, unasked."""
        state = self.transcript.info.state
        asked = self.permissions.pending or self.elicitations.pending
        if asked or state == "requires_action":
            return "waiting"
        return "working" if self.running or state not in (None, "idle", "unknown") else "idle"

    # -- the prompt turn -----------------------------------------------------------------------

    async def prompt(
        self,
        blocks: Sequence[Block],
        *,
        on_start: Callable[[Turn], None] | None = None,
        silence_limit: float | None = None,
        limits: Limits = NO_LIMITS,
        meta: Mapping[str, Any] | None = None,
    ) -> Turn:
        """Run one prompt turn to its end.

        Args:
            blocks: content blocks; checked against the agent's prompt capabilities.
            on_start: called with the turn before anything is sent.
            silence_limit: seconds without a word from the agent after which the turn fails, for
                runs that nobody watches.
            limits: what the turn may take; it is cancelled beyond that.
            meta: sent along as ``_meta``.

        Returns:
            The turn, ended by the agent.

        Raises:
            TurnRunning: another prompt is running in this session.
            TurnCancelled: it was cancelled; the turn is in the transcript.
            ACPError: it failed; what had arrived is in the transcript.
        """
        if self.busy:
            raise TurnRunning(
                "a turn is still running in this session",
                remedy="Wait for its end, or stop it with the stop button.",
            )
        check_prompt(blocks, self.agent.prompt_capabilities)
        if self._replayed is not None:
            await self._replayed.begin_turn()
        else:
            await self.changed.begin(self.roots.paths)
        self._set_limits(limits)
        turn = self.reducer.start_turn(list(blocks), trio.current_time())
        self.questions.forget_consents()
        if self.recording is not None:
            self.recording.begin_turn()
        self._begun.clear()
        self._heard = turn.started
        if on_start is not None:
            on_start(turn)
        self.on_news()
        result: JSON = None
        error: ACPError | None = None
        answered = False
        try:
            async with trio.open_nursery() as watchers:
                self._watchers = watchers
                watchers.start_soon(self._watch_silence, silence_limit)
                if limits.seconds is not None and self._replayed is None:
                    watchers.start_soon(self._watch_time, limits.seconds)
                params: dict[str, Any] = {"sessionId": self.session_id, "prompt": list(blocks)}
                if meta is not None:
                    params["_meta"] = dict(meta)
                try:
                    result = await self._answered(params)
                except ACPError as failure:
                    error = failure
                    await self._ask_to_visit(failure)
                if turn.cancel_requested:  # some agents leave running what they had started
                    await self.terminals.end(self._begun)
                answered = True
                watchers.cancel_scope.cancel()
        finally:
            self._watchers = None
            self._ended_at = trio.current_time()
            self.on_news()
            self._cancel_questions()
            self.questions.forget_consents()  # what follows takes a moment
            if not answered:  # whoever waited for the turn gave up on it
                if self.recording is not None:
                    self.recording.stop(session=self.session_id, how="cancel")
                self._tell_cancel(turn)
            await self._note_changes(turn, abandoned=not answered)
            if not answered:
                self._end("cancelled", "")
        return self._conclude(turn, result, error)

    async def _note_changes(self, turn: Turn, *, abandoned: bool) -> None:
        """Find out which files changed while the turn ran."""
        if self._replayed is not None:
            if not abandoned:
                turn.changes = await self._replayed.changes(cancelled=turn.cancel_requested)
            return
        turn.changes = await self.changed.end(abandoned=abandoned)
        if self.recording is not None and turn.changes:
            data = to_data(turn.changes, room=RECORDED_PATCHES)
            self.recording.changes(session=self.session_id, **data)

    async def _answered(self, params: JSON) -> JSON:
        if self._version == 1:
            return await self.agent.request("session/prompt", params)
        return await self.work.prompt(self.agent, params)

    def _conclude(self, turn: Turn, result: JSON, error: ACPError | None) -> Turn:
        """End the turn by the agent's answer, or by what came instead of one."""
        stop_reason = None
        if error is None:
            try:
                stop_reason = dialects.stop_reason(result)
            except ACPError as failure:
                error = failure
        if turn.cancel_requested and not isinstance(error, AgentError):
            # Agents answer a cancel with an error, or with end_turn: it is cancelled all the same.
            if stop_reason not in (None, "cancelled"):
                self.reducer.notice("cancel-answer", f"The agent answered {stop_reason!r}.")
            elif isinstance(error, RequestError):
                self.reducer.notice("cancel-answer", "The agent answered with an error.")
            self._end("cancelled", "", result)
            why = f" ({self._over_limit})" if self._over_limit else ""
            raise TurnCancelled(f"the turn was cancelled{why}; what had arrived is kept")
        if error is not None:
            self._end(None, error.message)
            raise error
        if stop_reason == "cancelled":  # nobody here asked for it: the agent ended it so
            self.reducer.notice("cancelled", "The agent ended this turn as cancelled.")
        self._end(stop_reason, "", result)
        return turn

    async def _ask_to_visit(self, error: ACPError) -> None:
        """Put to the user what an error says has to be visited before the prompt is sent again."""
        if not isinstance(error, RequestError):
            return
        if error.code == ErrorCode.URL_ELICITATION_REQUIRED:
            consented = await self.elicitations.require(error.data)
            if consented is not None:
                after = "when you have done what the page asks for" if consented else "to be asked"
                error.remedy = f"Run the cell again {after}."

    def _end(self, stop_reason: str | None, error: str, result: JSON = None) -> None:
        usage = result.get("usage") if type(result) is dict else None
        self._show_terminals()
        self.reducer.end_turn(
            self._ended_at,
            stop_reason=stop_reason,
            error=error,
            usage=usage if type(usage) is dict else None,
        )
        if self.recording is not None:
            self.recording.end_turn(session=self.session_id, stop_reason=stop_reason, error=error)
        self.on_change()

    # -- options -------------------------------------------------------------------------------

    @property
    def options(self) -> list[Option]:
        """What the agent lets the user set, as it stands."""
        return options(self.transcript.info)

    async def set_option(self, ident: str, value: str | bool) -> None:
        """Set a config option; of an older agent its mode or model. Also while a turn runs.

        Args:
            ident: of one of `options`.
            value: one that it accepts.

        Raises:
            UsageError: the agent offers no such option, or no such value of it.
            AgentUnresponsive: it does not answer.
            ACPError: the agent refused.
        """
        await set_option(self.agent, self.session_id, self.reducer, ident, value)
        self.on_change()
        self.on_news()

    # -- cancelling ----------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel the running turn; a second call ends the agent. Returns whether one was running.

        Sends at once, without waiting.
        """
        if self.running:
            if self.recording is not None:
                self.recording.stop(session=self.session_id, how="cancel")
            if self._replayed is not None:
                self._replayed.replay.release()
        return self._cancel()

    def _cancel(self) -> bool:
        watchers = self._watchers
        turn = self.transcript.turn
        if watchers is None or not turn.running:
            works = self.activity != "idle"  # of its own accord
            if works:
                self.notify_cancel()
            return works
        if turn.cancel_requested:
            self._kill("the agent did not stop after the second interrupt and was ended")
        else:
            self._tell_cancel(turn)
            if self._replayed is None:  # a recorded agent was ended when it was
                watchers.start_soon(self._escalate)
        return True

    def stop_as_recorded(self, how: str, reason: str) -> None:
        """Do to the turn of a replay what was done to it then."""
        turn = self.transcript.turn
        if not self.running:
            return
        if how == "kill":
            self._kill(reason)
        elif how == "limit" and not turn.cancel_requested:
            self._stop_over_limit(reason)
        elif not turn.cancel_requested:
            self._cancel()

    def _tell_cancel(self, turn: Turn) -> None:
        turn.cancel_requested = True
        self.notify_cancel()
        self._cancel_questions()
        self.on_change()

    def _on_question(self) -> None:
        self.on_change()  # which the surface may have set anew since
        self.on_news()

    def _cancel_questions(self) -> None:
        self.permissions.cancel()
        self.elicitations.cancel()

    def notify_cancel(self) -> None:
        """Tell the agent to stop, whatever becomes of the turn here."""
        try:
            self.agent.notify("session/cancel", {"sessionId": self.session_id})
        except ACPError as error:
            self.reducer.notice("cancel", f"The cancel could not be sent: {error.message}")

    async def _escalate(self) -> None:
        await trio.sleep(HINT_AFTER)
        self.tell(
            "cancelling",
            f"The agent has not stopped for {HINT_AFTER:.0f} s. Interrupt again to end it; "
            f"it is ended after {KILL_AFTER:.0f} s.",
            level="warning",
        )
        self.agent.withdraw("session/prompt")
        await trio.sleep(KILL_AFTER - HINT_AFTER)
        self._kill(f"the agent did not stop within {KILL_AFTER:.0f} s of the cancel and was ended")

    def tell(self, key: str, text: str, *, level: Level = "info", detail: str = "") -> None:
        """Show a line of the client's own: a replay has it from the recording, in its place."""
        if self._replayed is not None:
            return
        self.reducer.notice(key, text, level=level, detail=detail, count=False)
        if self.recording is not None:
            self.recording.notice(
                session=self.session_id, key=key, text=text, level=level, detail=detail
            )
        self.on_change()

    def _kill(self, why: str) -> None:
        if self.recording is not None:
            self.recording.stop(session=self.session_id, how="kill", reason=why)
        self.agent.kill(
            AgentUnresponsive(why, remedy="The next prompt starts the agent and a session anew.")
        )

    # -- limits --------------------------------------------------------------------------------

    def _set_limits(self, limits: Limits) -> None:
        """Take the limits of the turn that begins.

        Raises:
            UsageError: one makes no sense, or the agent reports no cost to hold it against.
        """
        limits.check()
        cost = cost_of(self.transcript.info.usage)
        if limits.cost is not None and cost is None and self.transcript.info.usage:
            raise UsageError(
                "this agent reports no cost, so a cost limit could not be kept",
                remedy="Limit the time or the tokens instead.",
            )
        self._limits = limits
        self._over_limit = ""
        self._cost_before = cost[0] if cost is not None else 0.0

    def _check_limits(self) -> None:
        usage = self.transcript.turn.usage
        over = exceeded(self._limits, usage, self._cost_before)
        if self._limits.cost is not None and usage and cost_of(usage) is None:
            over = "the agent reports no cost, so the cost limit cannot be kept"
        if over:
            self._stop_over_limit(over)

    async def _watch_time(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self._stop_over_limit(f"it took longer than its limit of {seconds:g} s")

    def _stop_over_limit(self, over: str) -> None:
        self._over_limit = over
        if self.recording is not None:
            self.recording.stop(session=self.session_id, how="limit", reason=over)
        self.reducer.notice("limit", f"Stopped: {over}.", level="warning")
        self._cancel()

    async def _watch_silence(self, limit: float | None) -> None:
        while True:
            self._heard = max(self._heard, self.agent.last_received)
            waiting = self.permissions.pending or self.elicitations.pending
            if waiting or self.terminals.running:
                self._heard = trio.current_time()  # it is not the agent that is waited for
            silent = trio.current_time() - self._heard
            if limit is not None and silent >= limit:
                self._kill(f"the agent said nothing for {silent:.0f} s and was ended")
                return
            if silent >= SILENCE:
                self.tell(f"silence-{self._heard:.3f}", f"No reply for {silent:.0f} s.")
                await trio.sleep(SILENCE_STEP)
            else:
                await trio.sleep(SILENCE - silent)

    # -- what the agent sends ------------------------------------------------------------------

    def take(self, updates: Sequence[dict[str, Any]]) -> None:
        """Apply updates, in order."""
        now = self.agent.last_received
        for update in updates:
            self.reducer.apply(update, now)
            if self.on_update is not None:
                self.on_update(update)

    def on_batch(self) -> None:
        """All that had arrived was applied."""
        self.work.look()
        limited = self._limits is not NO_LIMITS and self._replayed is None
        if limited and self.running and not self._over_limit:
            self._check_limits()
        if self.transcript.dirty:
            self.on_change()

    def apply_recorded(self, event: recording_form.InSession) -> None:
        """Show or do what the client of a recording did."""
        if self._replayed is not None:
            self._replayed.apply(event)
            self.on_change()

    async def serve(self, method: str, params: dict[str, Any]) -> JSON:
        """Answer a request of the agent's in this session.

        Raises:
            Refusal: with the reason.
        """
        if self._replayed is not None and method.startswith(("fs/", "terminal/")):
            return await self._replayed.serve(method, params)
        match method:
            case "session/request_permission":
                return await self.questions.request_permission(params)
            case "elicitation/create" | "session/elicitation":
                return await self.elicitations.create(params)
            case "fs/read_text_file":
                return await self.files.read_text_file(params)
            case "fs/write_text_file":
                return await self.files.write_text_file(params)
            case "terminal/create":
                return await self.terminals.create(params)
            case "terminal/output":
                return await self.terminals.output(params)
            case "terminal/wait_for_exit":
                return await self.terminals.wait_for_exit(params)
            case "terminal/kill":
                return await self.terminals.kill(params)
            case "terminal/release":
                return await self.terminals.release(params)
        raise AssertionError(f"{method} is in the table of methods, but nobody serves it")

    # -- what the services report --------------------------------------------------------------

    def _on_file(self, event: FileEvent) -> None:
        if self.recording is not None:
            self.recording.file(
                request=SERVED.get(),
                op=event.operation,
                path=event.path,
                outcome=event.outcome,
                reason=event.reason,
                bytes=event.bytes,
            )
        self._show_file(event)

    def _tell_files(self, text: str) -> None:
        self.tell("files", text, level="warning")

    def _on_conflict(self, path: str, there: str | None, wanted: str) -> None:
        """The agent's write came too late: show what is there (-) and what it wanted (+)."""
        self.tell(
            f"conflict-{path}",
            f"{path} was not written: it has changed since the agent read it. "
            "- is what is there, + what the agent meant to write.",
            level="warning",
            detail=diff.to_text(diff.compare(there, wanted), path),
        )

    def _show_file(self, event: FileEvent) -> None:
        self.reducer.file_event(event.operation, event.path, event.outcome, event.reason)
        self.on_change()
        self.on_news()

    def _on_terminal(self, view: TerminalView) -> None:
        known = view.terminal_id in self.transcript.terminals
        state = self.reducer.terminal(view.terminal_id)
        state.argv, state.cwd = list(view.argv), view.cwd
        state.output, state.truncated = view.output, view.truncated
        state.exit_code, state.signal, state.running = view.exit_code, view.signal, view.running
        state.elapsed = round(view.elapsed, 3)
        self.reducer.touch_terminal(state)
        if not known:
            self._begun.append(view.terminal_id)
            self._nursery.start_soon(self._show_terminal_soon, state)
            self._nursery.start_soon(self._show_elapsed, view, state)
        if not known or not view.running:
            self._record_terminal(state)
            self.on_news()
        self.on_change()

    def _record_terminal(self, state: TerminalState, *, shown: bool = False) -> None:
        if self.recording is not None:
            self.recording.terminal(
                session=self.session_id,
                ident=state.terminal_id,
                argv=state.argv,
                cwd=state.cwd,
                output=state.output,
                truncated=state.truncated,
                exit_code=state.exit_code,
                signal=state.signal,
                running=state.running,
                shown=shown,
                elapsed=state.elapsed,
            )

    async def _show_terminal_soon(self, state: TerminalState) -> None:
        await trio.sleep(SHOW_TERMINAL_AFTER)
        self._record_terminal(state, shown=True)
        self.reducer.show_terminal(state)
        self.on_change()

    async def _show_elapsed(self, view: TerminalView, state: TerminalState) -> None:
        """Let the user see that a command that says nothing still runs."""
        while view.running:
            await trio.sleep(ELAPSED_STEP if view.elapsed < ELAPSED_OFTEN else 5 * ELAPSED_STEP)
            if view.running:
                state.elapsed = round(view.elapsed, 3)
                self.reducer.touch_terminal(state)
                self.on_change()

    def _show_terminals(self) -> None:
        for state in self.transcript.terminals.values():
            if state.turn == self.transcript.turn.number and state.argv:
                if state.running:
                    self._record_terminal(state)
                self.reducer.show_terminal(state)

    # -- proposed cells ------------------------------------------------------------------------

    def propose_cells(self, cells: Sequence[ProposedCell]) -> CellsEntry:
        """Propose cells in the running turn, besides those of the answer.

        After the turn's end they are shown in its footer, where they can only be copied.

        Raises:
            UsageError: there are none, or each is too long.
        """
        entry = self.reducer.propose(cells)
        if entry is None:
            raise UsageError(
                "there is no cell that could be proposed",
                remedy=f"A cell has up to {MAX_SOURCE:,} characters.",
            )
        self.on_change()
        return entry

    def mark_cell(self, ident: str, index: int, state: CellState) -> bool:
        """Write down what became of a proposed cell, and show it.

        Args:
            ident: of the entry, as in its data.
            index: of the cell in it.
            state: new one.

        Returns:
            Whether the entry is one that this session still knows.

        Raises:
            UsageError: there is no such cell or state.
        """
        entries = (entry for entry in self.transcript.entries() if isinstance(entry, CellsEntry))
        for entry in entries:
            if f"{self.display_prefix}-{entry.id}" != ident:
                continue
            if state not in get_args(CellState) or not 0 <= index < len(entry.cells):
                raise UsageError(f"no cell {index!r} was proposed, or {state!r} is no state of one")
            self.reducer.mark_cell(entry, index, state)
            self.on_change()
            return True
        return False

    def sent(self, items: Sequence[SentItem]) -> None:
        """Show what goes with the prompt of the turn that begins."""
        if items:
            self.reducer.sent(items)
            self.on_change()

    def refresh(self, entry: Entry) -> None:
        """Have an entry published again."""
        self.transcript.touch(entry)
        self.on_change()

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run a task of the surface's for as long as the agent lives."""
        self._nursery.start_soon(function)

    async def aclose(self) -> None:
        """End what runs in this session."""
        self._cancel_questions()
        await self.terminals.aclose()


def _nothing() -> None:
    return None


def _unseen(_event: FileEvent) -> None:
    return None
