"""The state of the notebook's agents as frontends get it: plain data, bounded, safe to show.

It is made on the thread that owns the agents, up to ten times a second: what rarely changes and
takes long (commands, options, the evidence of a question) is kept until it does. The form is the
``ILinkState`` of the extension's ``protocol.ts``.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..rendering.characters import clip, one_line, visible
from ..session.options import Option, options
from ..session.transcript import ElicitationEntry, PermissionEntry, SessionInfo

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session
    from ..rendering.html import Terminals
    from ..services.terminal_view import TerminalView
    from .asking import Asked
    from .link import Link

Data = dict[str, Any]
Question = PermissionEntry | ElicitationEntry
T = TypeVar("T")

COMMANDS: Final = 200
"""Slash commands that are listed; one agent has half a megabyte of them."""

SESSIONS: Final = 100

DETAIL: Final = 4_000
"""Characters of a question's evidence; the cell shows all of it."""

LARGEST_NUMBER: Final = 10**15
"""Beyond it a number of the agent's means nothing, and JavaScript cannot hold it."""

URGENCY: Final = ("waiting", "working", "idle", "ended")


class Snapshots:
    """Makes states, and keeps the parts that have not changed since the last one."""

    def __init__(self) -> None:
        self._kept: dict[object, tuple[tuple[object, ...], Any]] = {}
        self._used: dict[object, tuple[tuple[object, ...], Any]] = {}

    def of(self, links: Iterable[Link]) -> list[Data]:
        """The states of all links that have, or had, an agent."""
        states = [self._link(link) for link in links if link.client is not None]
        self._kept, self._used = self._used, {}
        return states

    def _link(self, link: Link) -> Data:
        agent, session = link.agent, link.session
        sessions = list(agent.sessions.values())[-SESSIONS:] if agent is not None else []
        info = session.transcript.info if session is not None else SessionInfo()
        return {
            "key": link.key,
            "name": one_line(link.name, 100),
            "status": link_status(link),
            "agent": _agent(agent),
            "session": None if session is None else _session(session),
            "sessions": [
                {
                    "id": one_line(each.session_id),
                    "title": one_line(each.transcript.info.title or ""),
                    "status": session_status(agent, each),
                }
                for each in sessions
            ],
            "options": self._keep(
                (link.key, "options"),
                (
                    info.config_options,
                    info.modes,
                    info.current_mode,
                    info.models,
                    info.current_model,
                ),
                lambda: [_option(option) for option in options(info)],
            ),
            "usage": _usage(info.usage),
            "commands": self._keep(
                (link.key, "commands"), (info.commands,), lambda: _commands(info)
            ),
            "terminals": [_terminal(view) for each in sessions for view in each.terminals.running],
            "questions": [
                *(self._own_question(asked) for asked in link.asked),
                *(
                    self._question(entry, each, link.cell_of(each))
                    for each in sessions
                    for entry in open_questions(each)
                ),
            ],
        }

    def _own_question(self, asked: Asked) -> Data:
        return self._keep(asked, (), lambda: _own_question(asked))

    def _question(self, entry: Question, session: Session, cell: str) -> Data:
        return self._keep(entry, (session,), lambda: _question(entry, session, cell))

    def _keep(self, key: object, parts: tuple[object, ...], make: Callable[[], T]) -> T:
        """What was made last for these very objects, or a new one."""
        known = self._kept.get(key)
        if known is None or any(a is not b for a, b in zip(known[0], parts, strict=True)):
            known = (parts, make())
        self._used[key] = known
        value: T = known[1]
        return value


# -- status -----------------------------------------------------------------------------------


def link_status(link: Link) -> str:
    """That of the most urgent of its sessions."""
    agent = link.agent
    if link.asked:
        return "waiting"
    if link.client is not None and link.client.starting:
        return "starting"
    if agent is None:
        return "none"
    if not agent.alive:
        return "ended"
    found = {session_status(agent, session) for session in agent.sessions.values()}
    return next((status for status in URGENCY if status in found), "idle")


def session_status(agent: Agent | None, session: Session) -> str:
    """What happens in a session."""
    if agent is None or not agent.alive:
        return "ended"
    return session.activity


# -- parts ------------------------------------------------------------------------------------


def _agent(agent: Agent | None) -> Data | None:
    if agent is None:
        return None
    found = agent.initialized
    return {
        "name": one_line((found and (found.title or found.name)) or agent.spec.name, 100),
        "version": one_line(found.agent_version, 50) if found else "",
        "protocol": str(found.version) if found else "",
    }


def _session(session: Session) -> Data:
    return {
        "id": one_line(session.session_id),
        "title": one_line(session.transcript.info.title or ""),
        "cwd": one_line(session.cwd, 1000),
    }


def _option(option: Option) -> Data:
    """Ids and values are sent back as they are; they have no characters that cannot be seen."""
    return {
        "id": option.id,
        "name": one_line(option.name, 100),
        "description": one_line(option.description, 300),
        "category": one_line(option.category, 50),
        "kind": option.kind,
        "value": visible(option.value)[:1000] if isinstance(option.value, str) else option.value,
        "values": [
            {
                "value": choice.value,
                "name": one_line(choice.name, 100),
                "description": one_line(choice.description, 300),
                "group": one_line(choice.group, 100),
            }
            for choice in option.values
        ],
    }


def _usage(usage: Data) -> Data:
    found: Data = {key: usage[key] for key in ("used", "size") if _is_number(usage.get(key), int)}
    cost = usage.get("cost")
    if isinstance(cost, dict) and _is_number(cost.get("amount"), int, float):
        currency = cost.get("currency")
        found["cost"] = {
            "amount": cost["amount"],
            "currency": one_line(currency, 20) if isinstance(currency, str) else "",
        }
    return found


def _is_number(value: object, *types: type) -> bool:
    return (
        type(value) in types
        and isinstance(value, int | float)
        and -LARGEST_NUMBER < value < LARGEST_NUMBER
    )


def _commands(info: SessionInfo) -> list[Data]:
    return [
        {
            "name": one_line(command["name"], 100),
            "description": one_line(command.get("description") or "", 200),
        }
        for command in info.commands[:COMMANDS]
    ]


def _terminal(view: TerminalView) -> Data:
    return {
        "id": view.terminal_id,
        "command": one_line(shlex.join(view.argv), 300),
        "cwd": one_line(view.cwd, 1000),
    }


# -- questions --------------------------------------------------------------------------------


def open_questions(session: Session) -> list[Question]:
    """Those that wait for the user, oldest first."""
    found: list[Question] = [*session.permissions.pending, *session.elicitations.pending]
    return sorted(found, key=lambda entry: entry.asked_at)


def question_id(session: Session, entry: Question) -> str:
    """Unique in the kernel; also the id of the output that shows it."""
    return f"{session.display_prefix}-{entry.question_id}"


def _own_question(asked: Asked) -> Data:
    """One of the client's own: it is answered where it is shown, as a form is."""
    cell = asked.cell.ident_in_notebook
    state = _question_state(asked.entry, asked.ident, cell, terminals={}, cwd="")
    return {**state, "kind": "form", "choices": []}


def _question(entry: Question, session: Session, cell: str) -> Data:
    ident, terminals = question_id(session, entry), session.transcript.terminals
    return _question_state(entry, ident, cell, terminals=terminals, cwd=session.cwd)


def _question_state(
    entry: Question, ident: str, cell: str, *, terminals: Terminals, cwd: str
) -> Data:
    from ..rendering import elicitation, text, words

    lines = text.render(entry, terminals=terminals, cwd=cwd).split("\n")
    # The question itself comes first, its options last: both are told apart from the evidence.
    end = len(lines) - len(entry.options) if isinstance(entry, PermissionEntry) else len(lines)
    evidence = textwrap.dedent("\n".join(lines[1:end])).strip("\n")
    state = {
        "id": ident,
        "detail": str(clip(visible(evidence), DETAIL - 100)),
        "cell": cell,
    }
    if isinstance(entry, ElicitationEntry):
        title = elicitation.asks(entry)
        return {**state, "kind": entry.mode, "title": title, "tool": "other", "choices": []}
    return {
        **state,
        "kind": "permission",
        "title": words.asks(entry),
        "tool": one_line(entry.kind, 40),
        "choices": _choices(entry),
    }


def _choices(entry: PermissionEntry) -> list[Data]:
    """As the buttons of the cell have them."""
    from ..questions.stdin import labels

    kinds = [option.kind for option in entry.options]
    return [
        {
            "index": index if index < len(kinds) else None,
            "label": one_line(label),
            "kind": one_line(kinds[index], 40) if index < len(kinds) else "reject_once",
        }
        for index, label in enumerate(labels(entry))
    ]
