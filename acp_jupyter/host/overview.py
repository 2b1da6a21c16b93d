"""What ``%acp permissions`` shows: the policy, remembered answers, and the session's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..rendering.characters import one_line

if TYPE_CHECKING:
    from ..client.session import Session
    from ..services.decisions import Record
    from ..services.policy import Policy
    from ..services.remembered import Answer

SHOWN: Final = 50
"""Decisions that are listed; the notebook has the others."""

WIDTH: Final = 160
"""Characters shown of a command or a title."""


def permissions(policy: Policy, session: Session | None) -> str:
    """All that decides, and what was decided, as text."""
    return "\n".join(_lines(policy, session))


def _lines(policy: Policy, session: Session | None) -> Iterator[str]:
    yield f"Permission requests: {policy}."
    if policy.digest:
        yield f"The file as it was read: SHA-256 {policy.digest[:12]}…"
    for rule in policy.rules:
        yield f"  {rule.number}. {one_line(rule.text, WIDTH)}"
    if session is None:
        return
    known = session.permissions.remembered
    answers = known.answers if known is not None else []
    if answers:
        yield "Remembered in this session (`%acp permissions revoke NUMBER`, or `all`):"
    for answer in answers:
        yield f"  {answer.number}. {_answer(answer)}"
    decisions = session.decisions
    if decisions:
        yield "Decided in this session:"
    if len(decisions) > SHOWN:
        yield f"  … {len(decisions) - SHOWN:,} before"
    for record in decisions[-SHOWN:]:
        yield f"  {_decision(record)}"


def _answer(answer: Answer) -> str:
    subject = answer.subject
    about = subject.command or " ".join(subject.paths) or subject.identity
    return f"{answer.verb} {subject.kind} {one_line(about, WIDTH)}"


def _decision(record: Record) -> str:
    about = record.command or " ".join(record.paths) or record.title
    who = record.by
    if record.rule:
        who = f"remembered {record.rule}" if record.by == "remembered" else record.rule
    waited = f" after {record.waited:.1f} s" if record.by in ("user", "cancel", "agent") else ""
    kinds = "+".join(record.kinds)
    return (
        f"{record.at} turn {record.turn}: {record.outcome} by {one_line(who, WIDTH)}{waited}: "
        f"{kinds} {one_line(about, WIDTH)}"
    )
