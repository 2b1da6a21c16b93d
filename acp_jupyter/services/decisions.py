"""Decisions as data: who or which rule decided what, when, and how long it took. Pure.

A record goes into the metadata of the output that shows the decision, so that it is kept with the
notebook. It is there for people and for ``acp-jupyter policy``; nothing reads it while an agent
runs, so a notebook cannot bring consent with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from ..session.transcript import PermissionEntry
from .patterns import TEXT_LIMIT
from .policy import CLAIMED_KINDS, KINDS, Decision, Subject

__all__ = ["Record", "from_json", "record_of"]

TEXT: Final = 300
"""Characters kept of what is only for people."""

PATHS: Final = 200
"""Paths kept of one request."""


@dataclass(frozen=True, slots=True)
class Record:
    """One decision.

    Attributes:
        at: when, ISO 8601 in UTC.
        turn: number of the turn in its session.
        waited: seconds from the question to the decision.
        agent: what the user calls it.
        origin: who asked: "agent" or "client".
        title: what it was about, in the agent's words.
        kinds: as the client sees it, see `policy.KINDS`.
        claimed: the kind that the agent claimed.
        command: exactly what was to run; ``None`` where nothing was, or it is too long to keep.
        shell: whether a shell may read the command.
        paths: relative to the session's root.
        exact: a rule can be made of it: everything it is about stands here.
        outcome: "allowed", "denied", "cancelled" or "failed".
        option: kind of the option chosen; empty for the client's own Deny.
        by: see `policy.Decision`.
        rule: likewise.
        reason: likewise.
    """

    at: str
    turn: int
    waited: float
    agent: str
    origin: str
    title: str
    kinds: tuple[str, ...]
    claimed: str
    command: str | None
    shell: bool
    paths: tuple[str, ...]
    exact: bool
    outcome: str
    option: str
    by: str
    rule: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        """The record as JSON; read again by `from_json`."""
        data = asdict(self)
        return {**data, "kinds": list(self.kinds), "paths": list(self.paths)}


def record_of(
    entry: PermissionEntry, subject: Subject, decision: Decision, *, at: str, waited: float
) -> Record:
    """Write down a decision."""
    command = subject.command
    if command is not None and len(command) > TEXT_LIMIT:
        command = None
    told = command is not None if "execute" in subject.kinds else bool(subject.paths)
    exact = (
        subject.contained
        and not subject.protected
        and len(subject.kinds) == 1
        and subject.kinds != {"other"}
        and told
        and len(subject.paths) <= PATHS
    )
    return Record(
        at=at,
        turn=entry.turn,
        waited=round(waited, 3),
        agent=subject.agent[:TEXT],
        origin=entry.origin,
        title=entry.title[:TEXT],
        kinds=tuple(sorted(subject.kinds)),
        claimed=entry.kind[:TEXT],
        command=command,
        shell=subject.shell,
        paths=subject.paths[:PATHS],
        exact=exact,
        outcome=decision.state,
        option="" if decision.chosen is None else entry.options[decision.chosen].kind[:TEXT],
        by=decision.by,
        rule=decision.rule[:TEXT],
        reason=decision.reason[:TEXT],
    )


def from_json(data: object) -> Record | None:
    """A record from a notebook, which anybody may have written; ``None`` if it is none."""
    if not isinstance(data, Mapping):
        return None
    values: dict[str, Any] = {field.name: data.get(field.name) for field in fields(Record)}
    texts = ("at", "agent", "origin", "title", "claimed", "outcome", "option", "by", "rule")
    if not all(_is_text(values[name]) for name in (*texts, "reason")):
        return None
    if values["command"] is not None and not _is_text(values["command"]):
        return None
    for name in ("kinds", "paths"):
        items = values[name]
        if type(items) is not list or len(items) > PATHS or not all(map(_is_text, items)):
            return None
        values[name] = tuple(items)
    if not set(values["kinds"]) <= {*KINDS, *CLAIMED_KINDS}:
        return None
    if type(values["turn"]) is not int or type(values["waited"]) not in (int, float):
        return None
    if type(values["shell"]) is not bool or type(values["exact"]) is not bool:
        return None
    return Record(**values)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_LIMIT
