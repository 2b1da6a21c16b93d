"""What the user answered with "always", as narrowly as it was asked.

Rules:

- An answer holds for the same agent (its command), session, tool and exact arguments, and for
  nothing else. It lives in this memory: it is neither saved anywhere nor read from anywhere.
- Protected files are asked for each time, whatever was answered.
- A remembered no also holds where the policy would allow; a remembered yes only where it would ask.
- The answer given again is the option that was chosen, where it is offered in the same kind; else
  another one of the same direction.
- What an agent itself makes of an "always" is its own; it may not ask again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import UsageError
from ..session.transcript import PermissionChoice
from .policy import ALLOW, REJECT, Decision, Subject, answer_state, first_of

__all__ = ["Answer", "Remembered", "agent_digest"]

ANSWERS: Final = 1_000
"""Answers kept; the oldest is forgotten first."""

ALWAYS: Final = ("allow_always", "reject_always")


def agent_digest(argv: Sequence[str]) -> str:
    """What makes an agent the same one: its command."""
    return hashlib.sha256("\0".join(argv).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """One remembered answer.

    Attributes:
        number: 1, 2, … in the session, never used again.
        kind: allow_always or reject_always.
        option_id: the agent's id of the option chosen.
        subject: what it was about.
    """

    number: int
    kind: str
    option_id: str
    subject: Subject

    @property
    def verb(self) -> str:
        return "always allow" if self.kind == "allow_always" else "always deny"


class Remembered:
    """The answers remembered in one session.

    Args:
        agent: from `agent_digest`.
        session_id: the agent's id of the session.
    """

    def __init__(self, agent: str, session_id: str) -> None:
        self._owner = f"{agent}\0{session_id}\0"
        self._answers: dict[str, Answer] = {}
        self._count = 0

    @property
    def answers(self) -> list[Answer]:
        """All, oldest first."""
        return list(self._answers.values())

    def remember(self, subject: Subject, option: PermissionChoice) -> Answer | None:
        """Take note of what the user chose; ``None`` where that is not to be remembered."""
        if option.kind not in ALWAYS or subject.protected or not subject.identity:
            return None
        self._count += 1
        answer = Answer(self._count, option.kind, option.option_id, subject)
        key = self._key(subject)
        self._answers.pop(key, None)
        self._answers[key] = answer
        if len(self._answers) > ANSWERS:
            del self._answers[next(iter(self._answers))]
        return answer

    def decide(self, subject: Subject, options: Sequence[PermissionChoice]) -> Decision | None:
        """The answer to a question like one before; ``None`` if it has to be asked."""
        answer = self._answers.get(self._key(subject)) if subject.identity else None
        if answer is None or subject.protected:
            return None
        state = answer_state(answer.kind)
        same = (
            index
            for index, option in enumerate(options)
            if (option.option_id, option.kind) == (answer.option_id, answer.kind)
        )
        chosen = next(same, None)
        if chosen is None:
            chosen = first_of(options, ALLOW if state == "allowed" else REJECT)
        if chosen is None and state == "allowed":
            return None
        return Decision(state, chosen, "remembered", rule=f"answer {answer.number}")

    def revoke(self, number: int) -> Answer:
        """Forget one.

        Raises:
            UsageError: there is none with that number.
        """
        for key, answer in self._answers.items():
            if answer.number == number:
                return self._answers.pop(key)
        known = ", ".join(str(answer.number) for answer in self._answers.values())
        raise UsageError(
            f"there is no remembered answer {number}",
            remedy=f"There are: {known}." if known else "Nothing is remembered.",
        )

    def revoke_all(self) -> int:
        """Forget all; returns how many there were."""
        count = len(self._answers)
        self._answers.clear()
        return count

    def _key(self, subject: Subject) -> str:
        text = self._owner + subject.identity
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
