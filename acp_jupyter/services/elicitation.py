"""Who answers the agent's questions to the user (elicitation): the user, or at once nobody.

The path is that of permissions: the same policy, the same ways to reach the user, in the same
order. Its rules:

* Only the user fills in a form or consents to a web address; a policy can only decline.
* "Decline" is what somebody decided: the user, the policy, or the client about what it never
  shows. "Cancel" is everything else: nobody can be asked, the turn is over, a flood.
* One question is open at a time; the others wait (F50).
* An ``elicitation/complete`` counts once; ids that are unknown or done with are ignored (C57).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from ..connection.connection import SERVED
from ..errors import Refusal
from ..protocol import elicitation, recording
from ..protocol.elicitation import Action
from ..session.reducer import Reducer
from ..session.transcript import ElicitationEntry, ElicitationState
from .permissions import CannotAsk, Permissions
from .recording import Connection as Recording
from .replay import NOT_RECORDED, Replay

MAX_PENDING: Final = 20
"""Questions that may wait at once: more are a flood, which nobody would answer one by one."""

KEPT_VISITS: Final = 100
"""Web addresses of which the completion is awaited."""


JSON = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question.

    Attributes:
        action: what the agent is told.
        content: the accepted form's answer.
        by: see `ElicitationEntry`.
        reason: one line, may be empty.
    """

    action: Action
    content: dict[str, Any] = field(default_factory=dict)
    by: str = "user"
    reason: str = ""

    @property
    def state(self) -> ElicitationState:
        """What the transcript says of it."""
        return _STATES[self.action]


_STATES: Final[dict[Action, ElicitationState]] = {
    "accept": "accepted",
    "decline": "declined",
    "cancel": "cancelled",
}

CANCELLED: Final = Answer("cancel", by="cancel", reason="the turn was cancelled")
COMPLETED: Final = Answer("cancel", by="agent", reason="the agent says that it is done with")


class Elicitations:
    """Answers the questions of one session.

    Args:
        permissions: the session's, with its policy and its ways to reach the user.
        reducer: writes down what becomes of each question.
        agent: the agent's name, as the user knows it (C49).
        on_change: called when the transcript has changed.
        recording: who records, if anybody.
        replay: what was answered, where the session is a replay.
    """

    def __init__(
        self,
        permissions: Permissions,
        reducer: Reducer,
        *,
        agent: str,
        on_change: Callable[[], None],
        recording: Recording | None = None,
        replay: Replay | None = None,
    ) -> None:
        self._recording = recording
        self._replay = replay
        self._permissions = permissions
        self._reducer = reducer
        self._agent = agent
        self._on_change = on_change
        self._pending: dict[ElicitationEntry, trio.CancelScope] = {}
        self._ended: dict[ElicitationEntry, Answer] = {}
        self._visits: dict[str, ElicitationEntry] = {}
        self._one_at_a_time = trio.Lock()

    @property
    def pending(self) -> list[ElicitationEntry]:
        """The questions that wait for an answer, oldest first."""
        return list(self._pending)

    async def create(self, params: JSON) -> JSON:
        """Serve ``elicitation/create``, or the older ``session/elicitation``.

        Raises:
            Refusal: it is none that this client knows.
        """
        request = elicitation.elicitation(params)
        if request.mode == "unknown":
            mode = request.mode_name[:100]
            self._reducer.notice(
                f"elicitation-{mode}",
                f"The agent asked in a way that this client does not know: {mode!r}.",
                level="warning",
            )
            self._on_change()
            raise Refusal(request.problem)
        answer = await self._put(request)
        accepted = answer.action == "accept" and request.mode == "form"
        return elicitation.response(answer.action, answer.content if accepted else None)

    async def require(self, data: JSON) -> bool | None:
        """Put to the user the visits that an error -32042 asks for (its ``data``).

        Returns:
            Whether the user consented to all of them; ``None`` if it names none.
        """
        answers = [await self._put(request) for request in elicitation.required(data)]
        return all(answer.action == "accept" for answer in answers) if answers else None

    async def _put(self, request: elicitation.Elicitation) -> Answer:
        entry = self._entry(request)
        self._reducer.ask(entry)
        self._on_change()
        return await self._answer(entry, request.problem)

    def completed(self, params: JSON) -> None:
        """Take ``elicitation/complete``. A question that still waits ends as cancelled."""
        ident = elicitation.completed_id(params)
        entry = self._visits.pop(ident, None) if ident is not None else None
        if entry is None:
            return
        if entry in self._pending:
            self._ended[entry] = COMPLETED
            self._pending[entry].cancel()
        self._reducer.complete(entry)

    def cancel(self) -> None:
        """Answer every pending question with ``cancel``."""
        for scope in self._pending.values():
            scope.cancel()

    def _entry(self, request: elicitation.Elicitation) -> ElicitationEntry:
        transcript = self._reducer.transcript
        ident = transcript.next_id()
        return ElicitationEntry(
            ident,
            transcript.turn.number,
            question_id=ident,
            agent=self._agent,
            mode="url" if request.mode == "url" else "form",
            message=request.message,
            title=request.title,
            description=request.description,
            fields=request.fields,
            url=request.url,
            elicitation_id=request.elicitation_id,
            asked_at=trio.current_time() - transcript.turn.started,
        )

    async def _answer(self, entry: ElicitationEntry, problem: str) -> Answer:
        if self._replay is not None:
            return await self._answer_as_recorded(entry, self._replay)
        answer = self._at_once(problem)
        if answer is None:
            scope = trio.CancelScope()
            self._pending[entry] = scope
            self._expect(entry)
            try:
                with scope:
                    async with self._one_at_a_time:
                        answer = await self._by_user(entry)
            except trio.Cancelled:
                self._done(entry, Answer("cancel", by="agent"))
                raise
            except BaseException as error:
                self._done(entry, Answer("cancel", by="client", reason=f"asking failed: {error}"))
                raise
            finally:
                del self._pending[entry]
        if answer is None:  # the turn was cancelled, or the agent said that it is completed
            answer = self._ended.pop(entry, CANCELLED)
        self._done(entry, answer)
        return answer

    async def _answer_as_recorded(self, entry: ElicitationEntry, replay: Replay) -> Answer:
        then = await replay.take(SERVED.get(), recording.Answer)
        waited = 0.0
        if then is not None:
            answer = Answer(then.action, then.content, then.by, then.reason)
            waited = then.waited
        elif self._reducer.transcript.turn.cancel_requested:
            answer = CANCELLED
        else:
            answer = Answer("cancel", by="nobody", reason=NOT_RECORDED)
        if answer.action == "accept":
            self._expect(entry)
        asked = self._reducer.transcript.turn_of(entry).started + entry.asked_at
        self._show(entry, answer, asked + waited)
        return answer

    def _done(self, entry: ElicitationEntry, answer: Answer) -> None:
        now = trio.current_time()
        if self._recording is not None and entry.state == "pending":
            asked = self._reducer.transcript.turn_of(entry).started + entry.asked_at
            self._recording.answer(
                request=SERVED.get(),
                action=answer.action,
                content=answer.content,
                by=answer.by,
                reason=answer.reason,
                waited=max(0.0, now - asked),
            )
        self._show(entry, answer, now)

    def _show(self, entry: ElicitationEntry, answer: Answer, now: float) -> None:
        if answer.action != "accept" and self._visits.get(entry.elicitation_id) is entry:
            del self._visits[entry.elicitation_id]
        self._reducer.answer(
            entry,
            answer.state,
            by=answer.by,
            now=now,
            answers=answer.content,
            reason=answer.reason,
        )
        self._on_change()

    def _expect(self, entry: ElicitationEntry) -> None:
        if entry.mode == "url":
            self._visits[entry.elicitation_id] = entry
            while len(self._visits) > KEPT_VISITS:
                del self._visits[next(iter(self._visits))]

    def _at_once(self, problem: str) -> Answer | None:
        """The answer where nobody has to be asked, or nobody may be."""
        turn = self._reducer.transcript.turn
        if problem:
            return Answer("decline", by="client", reason=problem)
        if not turn.running:
            return Answer("cancel", by="nobody", reason="no prompt is running that it belongs to")
        if turn.cancel_requested:
            return CANCELLED
        if self._permissions.mode == "deny":
            return Answer("decline", by="policy", reason="the policy is to deny")
        if len(self._pending) >= MAX_PENDING:
            return Answer(
                "cancel", by="client", reason=f"{MAX_PENDING} other questions are waiting already"
            )
        return None

    async def _by_user(self, entry: ElicitationEntry) -> Answer:
        reasons = []
        for asker in self._permissions.askers:
            try:
                return await asker.elicit(entry)
            except CannotAsk as error:
                reasons.append(str(error))
        why = "; ".join(reason for reason in reasons if reason) or "nobody can answer"
        return Answer("cancel", by="nobody", reason=f"{why}; run the cell where you can answer")
