"""The questions for permission in one session: the agent's, and the client's own.

Each one is shown, decided by `Permissions`, and kept as data (`decisions`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import trio

from ..connection.connection import SERVED
from ..protocol import dialects, recording
from ..services import subject
from ..services.decisions import Record, from_json, record_of
from ..services.files import FileAccess, Operation
from ..services.permissions import Permissions
from ..services.policy import ALLOW, CANCELLED, Decision, Subject, denied
from ..services.recording import Connection as Recording
from ..services.replay import NOT_RECORDED, Replay
from ..services.roots import Roots
from ..services.terminals import CommandRequest
from ..session.reducer import Reducer
from ..session.transcript import PermissionChoice, PermissionEntry, ToolCallEntry
from .consent import command_line_of, command_shown
from .replayed import about_command, about_file

JSON = Any

DECISIONS: Final = 1_000
"""Decisions that a session keeps; older ones live on in the notebook."""

YES_OR_NO: Final = (
    PermissionChoice("allow", "", "allow_once"),
    PermissionChoice("reject", "", "reject_once"),
)
"""The options of the client's own questions."""

ALWAYS_TOO: Final = (
    YES_OR_NO[0],
    PermissionChoice("always", "", "allow_always"),
    YES_OR_NO[1],
)
"""Those about a command: the very same one may be allowed for the rest of the session."""

CODE_RUNS: Final = (
    "In the kernel, in a namespace of its own that has the notebook's variables. "
    "It can change the objects that they hold, and do what any code can."
)
"""What it means to allow code."""


class Questions:
    """See the module. All methods run on the trio thread.

    Args:
        permissions: who decides.
        reducer: of the session's transcript.
        roots: the session's.
        agent: what the user calls the agent.
        cwd: the session's working directory.
        on_change: called when the transcript has changed.
        recording: who records, if anybody.
        replay: what was decided, where the session is a replay.

    Attributes:
        decisions: the last ones, oldest first.
    """

    def __init__(
        self,
        permissions: Permissions,
        reducer: Reducer,
        roots: Roots,
        *,
        agent: str,
        cwd: str,
        on_change: Callable[[], None],
        recording: Recording | None = None,
        replay: Replay | None = None,
    ) -> None:
        self._recording = recording
        self._replay = replay
        self._permissions = permissions
        self._reducer = reducer
        self._roots = roots
        self._agent = agent
        self._cwd = cwd
        self._on_change = on_change
        self._consented: list[str] = []
        self.decisions: deque[Record] = deque(maxlen=DECISIONS)

    def forget_consents(self) -> None:
        """A consent holds in its turn only."""
        self._consented.clear()

    # -- who asks ------------------------------------------------------------------------------

    async def request_permission(self, params: JSON) -> JSON:
        """``session/request_permission``.

        Raises:
            Refusal: it is no such request.
        """
        request = dialects.permission_request(params)
        entry = self._question(
            title=request.title,
            description=request.description,
            options=[
                PermissionChoice(option.option_id, option.name, option.kind)
                for option in request.options
            ],
            command=[request.command] if request.command else None,
            cwd=request.cwd,
        )
        if request.tool_call is not None:
            call = entry.tool_call = self._reducer.tool_call(request.tool_call)
            entry.evidence = replace(call, content=list(call.content))
            entry.title = entry.title or call.title
            entry.kind = call.kind

        def look() -> Subject:
            return subject.of_permission(entry, agent=self._agent, cwd=self._cwd, roots=self._roots)

        decision = await self._decide(entry, look)
        chosen = None if decision.chosen is None else request.options[decision.chosen]
        if decision.by == "user" and chosen is not None and chosen.kind in ALLOW:
            self._remember_consent(entry)
        return dialects.permission_response(
            request.form, chosen, cancelled=decision.state == "cancelled"
        )

    async def ask_command(self, request: CommandRequest) -> bool:
        """Before a command is started for the agent."""
        about = subject.of_command(request, agent=self._agent, cwd=self._cwd, roots=self._roots)
        if self._has_consent(request) and not self._denied_by_rule(about):
            return True
        entry = self._question(
            title=request.title,
            kind="execute",
            command=list(request.argv),
            cwd=request.cwd,
            env=request.env,
            options=list(YES_OR_NO if about.protected else ALWAYS_TOO),
            origin="client",
        )
        decision = await self._decide(entry, lambda: about, about_command(request))
        return decision.state == "allowed"

    async def ask_file(self, access: FileAccess) -> bool:
        """Before a file is read or written that is asked for."""
        entry = self._question(
            title=f"{access.operation} {access.path}: {access.reason}",
            kind="read" if access.operation == "read" else "edit",
            path=access.path,
            evidence=self._new_text(access),
            options=list(YES_OR_NO),
            origin="client",
        )
        about = subject.of_file(access, agent=self._agent, cwd=self._cwd, roots=self._roots)
        decision = await self._decide(entry, lambda: about, about_file(access))
        return decision.state == "allowed"

    async def ask_shared(self, kind: str, title: str, identity: str, code: str = "") -> Decision:
        """Before the agent sees something of the kernel, or has code run in it.

        Args:
            kind: "read" or "execute", for the policy.
            title: what is asked about.
            identity: what "always" holds for.
            code: what would run.
        """
        about = Subject(
            agent=self._agent,
            kinds=frozenset({kind}),
            claimed=kind,
            shell=kind == "execute",
            identity=f"shared kernel: {identity}",
        )
        entry = self._question(
            title=title,
            kind=kind,
            description=CODE_RUNS if code else "",
            command=["python", "-c", code] if code else None,
            options=list(ALWAYS_TOO),
            origin="client",
        )
        return await self._decide(entry, lambda: about)

    def restrict(self, operation: Operation, path: str) -> str | None:
        """Why the policy has a file asked for, or denied, that is served otherwise."""
        if not self._permissions.policy.rules:
            return None
        about = subject.of_access(
            operation, path, agent=self._agent, cwd=self._cwd, roots=self._roots
        )
        rule = self._permissions.policy.restriction(about)
        return None if rule is None else str(rule)

    # -- consent -------------------------------------------------------------------------------

    def _remember_consent(self, entry: PermissionEntry) -> None:
        """The user saw this very command and allowed it: it is not asked a second time when the
        agent then runs it through the client. Holds once, in this turn, for the same words."""
        command = command_shown(entry, self._cwd)
        if command:
            self._consented.append(command)

    def _has_consent(self, request: CommandRequest) -> bool:
        """Whether this command was just allowed; uses that up."""
        if self._replay is not None:  # what is asked here was asked then
            return False
        line = request.argv[-1] if request.shell else command_line_of(request.argv)
        turn = self._reducer.transcript.turn
        open_turn = turn.running and not turn.cancel_requested
        plain = not request.env and request.cwd == self._cwd
        if not open_turn or not plain or line not in self._consented:
            return False
        self._consented.remove(line)
        return True

    def _new_text(self, access: FileAccess) -> ToolCallEntry | None:
        """The change that a question about a file shows."""
        if access.operation == "read":
            return None
        texts = {"oldText": access.old_text, "newText": access.new_text}
        diff = {"type": "diff", "path": access.path, **texts}
        turn = self._reducer.transcript.turn
        return ToolCallEntry("", turn.number, kind="edit", content=[diff])

    def _denied_by_rule(self, about: Subject) -> bool:
        rule = self._permissions.policy.find(about)
        return rule is not None and rule.action == "deny"

    # -- showing and deciding ------------------------------------------------------------------

    def _question(self, **fields: Any) -> PermissionEntry:
        transcript = self._reducer.transcript
        ident = transcript.next_id()
        return PermissionEntry(
            ident,
            transcript.turn.number,
            question_id=ident,
            asked_at=trio.current_time() - transcript.turn.started,
            **fields,
        )

    async def _decide(
        self,
        entry: PermissionEntry,
        look: Callable[[], Subject],
        own: dict[str, Any] | None = None,
    ) -> Decision:
        """Show a question and wait for its decision; outside a turn the answer is no.

        ``look`` tells what it is about. An agent may change its tool call while the user thinks:
        then what was asked is not what was seen, and nothing is made of the answer beyond it.
        ``own`` is the client's own question as data.
        """
        turn = self._reducer.transcript.turn
        about = look()

        def unchanged() -> bool:
            return look().identity == about.identity

        def done(decision: Decision) -> None:
            self._write_down(entry, about, decision, exact=unchanged(), own=own)

        self._reducer.ask(entry)
        self._on_change()
        if self._replay is not None:
            return await self._decide_as_recorded(entry, about, self._replay)
        if turn.cancel_requested and turn.running:
            done(CANCELLED)
            return CANCELLED
        if not turn.running:
            decision = denied(entry.options, "nobody", "no prompt is running that it belongs to")
            done(decision)
            return decision
        return await self._permissions.decide(entry, done, subject=about, unchanged=unchanged)

    async def _decide_as_recorded(
        self, entry: PermissionEntry, about: Subject, replay: Replay
    ) -> Decision:
        then = await replay.take(SERVED.get(), recording.Decision)
        if then is None and self._reducer.transcript.turn.cancel_requested:
            decision = CANCELLED
        elif then is None or (then.chosen or 0) >= max(1, len(entry.options)):
            decision = denied(entry.options, "nobody", NOT_RECORDED)
        else:
            decision = Decision(then.state, then.chosen, then.by, then.reason, then.rule)
        asked = self._reducer.transcript.turn_of(entry).started + entry.asked_at
        at = datetime.now(UTC).isoformat(timespec="seconds")
        record = from_json(then.record) if then is not None else None
        record = record or record_of(entry, about, decision, at=at, waited=0.0)
        self._show(entry, decision, record, asked + (then.waited if then is not None else 0.0))
        return decision

    def _write_down(
        self,
        entry: PermissionEntry,
        about: Subject,
        decision: Decision,
        *,
        exact: bool,
        own: dict[str, Any] | None,
    ) -> None:
        now = trio.current_time()
        asked = self._reducer.transcript.turn_of(entry).started + entry.asked_at
        at = datetime.now(UTC).isoformat(timespec="seconds")
        record = record_of(entry, about, decision, at=at, waited=max(0.0, now - asked))
        record = replace(record, exact=record.exact and exact)
        if self._recording is not None and entry.state == "pending":
            self._recording.decision(
                request=SERVED.get(),
                state=decision.state,
                chosen=decision.chosen,
                by=decision.by,
                reason=decision.reason,
                rule=decision.rule,
                waited=record.waited,
                record=record.as_json(),
                about=own,
            )
        self._show(entry, decision, record, now)

    def _show(self, entry: PermissionEntry, decision: Decision, record: Record, now: float) -> None:
        if entry.state == "pending":
            self.decisions.append(record)
        self._reducer.decide(
            entry,
            decision.state,
            by=decision.by,
            now=now,
            chosen=decision.chosen,
            reason=decision.reason,
            rule=decision.rule,
            record=record.as_json(),
        )
        self._on_change()
