"""What a run's turns were, as the process that ran them knows it: a line of JSON for each.

A notebook that was executed shows what a reader needs, which is less: not when the first chunk
came, and what a turn cost only in words. So the process writes it down when a turn has ended,
where the variable `TURNS_VARIABLE` names a file. The rules:

* Each turn is written once, in the order of their ends, and a line is whole or not there.
* Known secrets are taken out; an agent's text is bounded (`TEXT`).
* The file is read as what anybody may have written (`read`): an agent could have found it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ACPError
from ..session.limits import cost_of
from ..session.transcript import MessageEntry, PermissionEntry, ToolCallEntry
from .link import TURNS_VARIABLE

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session

KINDS: Final = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"),
    "other",
)
"""Kinds of tool calls that the protocol knows; any other one counts as "other"."""

TEXT: Final = 20_000
"""Characters kept of a prompt, an answer or an error."""

MAX_TURNS: Final = 10_000
MAX_LINE: Final = 1_000_000


def turn_data(agent: Agent, session: Session, cost: float | None) -> dict[str, Any]:
    """What is kept of the last turn of a session.

    Args:
        agent: that runs it.
        session: its turn has ended.
        cost: of this turn alone; ``None`` if the agent reports none.
    """
    turn, usage = session.transcript.turn, session.transcript.info.usage
    found = agent.initialized
    spent = cost_of(usage)
    calls = [entry for entry in turn.entries if isinstance(entry, ToolCallEntry)]
    asked = [entry for entry in turn.entries if isinstance(entry, PermissionEntry)]
    said = [entry for entry in turn.entries if isinstance(entry, MessageEntry)]
    answer = "\n\n".join(entry.text.strip("\n") for entry in said if entry.role == "agent")
    options = session.options
    model = next((o.value for o in options if "model" in (o.id, o.category)), None)
    used = usage.get("used")
    return {
        "agent": (found.title or found.name if found is not None else "") or agent.spec.name,
        "version": found.agent_version if found is not None else "",
        "model": model if isinstance(model, str) else None,
        "options": {option.id: option.value for option in options},
        "turn": turn.number,
        "prompt": "".join(_text(block) for block in turn.prompt)[:TEXT],
        "answer": answer[:TEXT],
        "stop_reason": turn.stop_reason,
        "first_chunk_s": _seconds(turn.started, turn.first_chunk),
        "duration_s": _seconds(turn.started, turn.ended),
        "tokens": used if type(used) is int else None,
        "cost": cost,
        "currency": spent[1] if spent is not None else None,
        "tool_calls": dict(Counter(call.kind if call.kind in KINDS else "other" for call in calls)),
        "permissions": len(asked),
        "permissions_denied": sum(entry.state == "denied" for entry in asked),
        "error": turn.error[:TEXT],
    }


def _text(block: dict[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else ""


def _seconds(begun: float, at: float | None) -> float | None:
    return None if at is None else round(at - begun, 4)


def write(path: str, agent: Agent, session: Session, cost: float | None) -> None:
    """Append the last turn of a session to a file.

    Raises:
        ACPError: it cannot be written.
    """
    from ..connection.environment import redact, secret_values

    secrets = secret_values(agent.environment)
    data = _redacted(turn_data(agent, session, cost), lambda text: redact(text, secrets))
    line = json.dumps(data, ensure_ascii=True) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        raise ACPError(
            f"the turn cannot be written to {path}: {error}",
            remedy=f"Unset {TURNS_VARIABLE}, or name a file that can be written.",
        ) from error


def _redacted(value: Any, clean: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): _redacted(held, clean) for name, held in value.items()}
    return value


def read(path: Path) -> list[dict[str, Any]]:
    """The turns in a file, oldest first; none if it is not there. What is no turn is left out."""
    try:
        with path.open("rb") as file:
            lines = [file.readline(MAX_LINE) for _ in range(MAX_TURNS)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ACPError(f"the turns in {path} cannot be read: {error}") from error
    turns = []
    for line in lines:
        try:
            held = json.loads(line) if line else None
        except (ValueError, RecursionError):
            continue
        if isinstance(held, dict) and type(held.get("turn")) is int:
            turns.append(held)
    return turns
