"""Who decides about a permission request: the policy, the user, or, if nobody can, a no.

There is one path for all questions, those of the agent (``session/request_permission``) and
those of the client itself (before it starts a command, or opens a protected file). Its rules:

* The default is to ask. Nothing that the agent says (kind, title, option names, ``_meta``)
  decides anything; rules are held against what the client sees (`policy.Subject`).
* The strictest of policy and memory holds: a remembered no also where the policy would allow, a
  remembered yes only where it would ask.
* "Allow" by policy picks an option whose kind is allow_once, else allow_always; if there is none,
  the answer is no. "Deny" picks reject_once, else reject_always, else answers ``cancelled``.
* Where nobody can answer, the answer is no, at once, with the reason in the output.
* What is asked each time (protected files) is never allowed by policy or memory.
* More than `OPEN_QUESTIONS` at once are no questions to a person: the others are denied.
* A cancelled turn answers every pending question with ``cancelled``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import trio

from ..session.transcript import ElicitationEntry, PermissionEntry
from .policy import (
    ALLOW,
    CANCELLED,
    Decision,
    Mode,
    Policy,
    Subject,
    answer_state,
    denied,
    first_of,
)
from .remembered import Remembered

if TYPE_CHECKING:
    from .elicitation import Answer


_HOW_TO_ALLOW: Final = (
    "; to allow it here, name a policy file in ACP_JUPYTER_PERMISSIONS, or run "
    "`%acp permissions allow` first"
)

OPEN_QUESTIONS: Final = 20
"""Questions of one session that may wait for the user at the same time."""


class CannotAsk(Exception):
    """An asker cannot reach anybody; its text says why."""


class Asker(Protocol):
    """A way to put a question to the user, made by a surface."""

    async def ask(self, entry: PermissionEntry) -> int | None:
        """The index of the option chosen; ``None`` for the client's own Deny.

        Called on the trio thread; cancelled when the question is withdrawn.

        Raises:
            CannotAsk: nobody can be asked this way.
        """

    async def elicit(self, entry: ElicitationEntry) -> Answer:
        """What the user gave for a form, or says to a web address (`services.elicitation`).

        Called on the trio thread; cancelled when the question is withdrawn.

        Raises:
            CannotAsk: nobody can be asked this way.
        """


class _Open:
    """A question that waits for the user.

    Attributes:
        scope: cancelled to withdraw it.
        asking: cancelled when it was answered past the asker.
        chosen: the answer; only the first counts.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.asking = trio.CancelScope()
        self.chosen: list[int | None] = []


class Permissions:
    """Decides about the questions of one session.

    Args:
        policy: what is decided without asking.
        remembered: the session's memory; ``None`` remembers nothing.

    Attributes:
        askers: ways to reach the user, tried in order; replaced by the surface for each cell.
    """

    def __init__(
        self,
        policy: Policy | Mode = "ask",
        *,
        remembered: Remembered | None = None,
    ) -> None:
        self.policy = policy if isinstance(policy, Policy) else Policy(policy)
        self.remembered = remembered
        self.askers: Sequence[Asker] = ()
        self._pending: dict[PermissionEntry, _Open] = {}

    @property
    def mode(self) -> Mode:
        """What happens where no rule of the policy matches."""
        return self.policy.default

    @property
    def pending(self) -> list[PermissionEntry]:
        """The questions that wait for an answer, oldest first."""
        return list(self._pending)

    async def decide(
        self,
        entry: PermissionEntry,
        done: Callable[[Decision], None],
        subject: Subject,
        unchanged: Callable[[], bool] = lambda: True,
    ) -> Decision:
        """Decide about a question.

        Args:
            entry: the question.
            done: called with the decision before it is returned.
            subject: what it is about. Where that is protected, only the user can allow it.
            unchanged: whether the question still is what it was; only then is an answer remembered.
        """
        decision = self._unasked(entry, subject)
        if decision is None:
            question = self._pending[entry] = _Open()
            try:
                with question.scope:
                    decision = await self._by_user(entry, subject, unchanged)
            except trio.Cancelled:
                done(Decision("cancelled", None, "agent", "the agent withdrew the request"))
                raise
            except BaseException as error:
                done(Decision("failed", None, "nobody", f"asking failed: {error}"))
                raise
            finally:
                del self._pending[entry]
        if decision is None:  # `cancel` was called
            decision = CANCELLED
        done(decision)
        return decision

    def cancel(self) -> None:
        """Answer every pending question with ``cancelled``."""
        for question in self._pending.values():
            question.scope.cancel()

    def answer(self, entry: PermissionEntry, chosen: int | None) -> bool:
        """Take the user's answer from elsewhere than the asker, which is told by a cancellation.

        Args:
            entry: the question.
            chosen: index of an option, or ``None`` for the client's own Deny.

        Returns:
            False, and changes nothing, if it does not wait for an answer any more.
        """
        question = self._pending.get(entry)
        if question is None or question.chosen or question.scope.cancel_called:
            return False
        question.chosen.append(chosen)
        question.asking.cancel()
        return True

    def _unasked(self, entry: PermissionEntry, subject: Subject) -> Decision | None:
        """The decision of policy and memory; ``None`` where the user has to be asked."""
        found = self.policy.find(subject)
        action = self.policy.default if found is None else found.action
        rule = "" if found is None else str(found)
        if action == "deny":
            reason = "" if rule else "the policy is to deny"
            return denied(entry.options, "policy", reason, rule=rule)
        known = self.remembered
        answer = known.decide(subject, entry.options) if known is not None else None
        if answer is not None and (action == "ask" or answer.state == "denied"):
            return answer
        if action == "allow" and not subject.protected:
            chosen = first_of(entry.options, ALLOW)
            if chosen is None:
                return denied(entry.options, "policy", "it offers no option to allow it", rule=rule)
            reason = "" if rule else "the policy is to allow"
            return Decision("allowed", chosen, "policy", reason, rule)
        if len(self._pending) >= OPEN_QUESTIONS:
            reason = f"{OPEN_QUESTIONS} questions are open already"
            return denied(entry.options, "nobody", reason)
        return None

    def _answered(
        self, entry: PermissionEntry, subject: Subject, chosen: int, *, keep: bool
    ) -> Decision:
        option = entry.options[chosen]
        answer = None
        if self.remembered is not None and keep:
            answer = self.remembered.remember(subject, option)
        reason = "" if answer is None else f"remembered as answer {answer.number}"
        return Decision(answer_state(option.kind), chosen, "user", reason)

    async def _by_user(
        self, entry: PermissionEntry, subject: Subject, unchanged: Callable[[], bool]
    ) -> Decision:
        reasons = []
        question = self._pending[entry]
        with question.asking:
            for asker in self.askers:
                try:
                    chosen = await asker.ask(entry)
                except CannotAsk as error:
                    reasons.append(str(error))
                    continue
                if not question.chosen:
                    question.chosen.append(chosen)
                break
        if question.chosen:
            chosen = question.chosen[0]
            if chosen is None:
                return denied(entry.options, "user", "")
            return self._answered(entry, subject, chosen, keep=unchanged())
        what = entry.title or "this"
        how = _HOW_TO_ALLOW
        if subject.protected:
            how = f"; it is protected ({subject.protected}) and asked for each time"
        why = "; ".join(reason for reason in reasons if reason) or "nobody can answer"
        return denied(
            entry.options,
            "nobody",
            f"permission needed for {what[:120]}, {why}, denied{how}",
        )
