"""What a notebook's agents do, told to the program that runs the notebook.

A runner (`experiments.run`) asks for it with ``ACP_JUPYTER_RUN=1`` in the kernel's environment.
The kernel then sends messages of type ``acp_run`` on its IOPub channel, as part of the cell that
they belong to: ``{"kind": "agent" | "begin" | "turn" | "checks", …}``. They are signed as all
messages of a kernel are, so no agent can send any. No other client listens to them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ..rendering import toolcalls
from ..rendering.entrydata import relative_path
from ..session.limits import turn_cost, turn_tokens
from ..session.transcript import FilesEntry, MessageEntry, PermissionEntry, ToolCallEntry, Turn

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session
    from ..services.policy import Policy
    from ..session.limits import Limits
    from .cell import CellContext
    from .link import Link

VARIABLE: Final = "ACP_JUPYTER_RUN"
BUDGET: Final = "ACP_JUPYTER_BUDGET"
MESSAGE: Final = "acp_run"

TEXT: Final = 1_000_000
"""Characters kept of one answer."""


class Reporter:
    """See the module; all methods are called on the trio thread, or while it waits."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def agent(self, cell: CellContext, link: Link, agent: Agent, session: Session) -> None:
        """An agent has opened a session."""
        self._send(cell, "agent", agent_facts(link.name, agent, session))

    def begin(self, cell: CellContext, link: Link, turn: Turn) -> None:
        self._send(cell, "begin", {"connection": link.name, "prompt": prompt_text(turn)})

    def end(self, cell: CellContext, link: Link, session: Session) -> None:
        """A turn has ended."""
        agent = link.agent
        if agent is None:
            return
        facts = agent_facts(link.name, agent, session)
        self._send(cell, "agent", facts)
        report = {
            "connection": link.name,
            **{name: facts[name] for name in ("agent", "version", "model", "options")},
            **turn_facts(session.transcript.turn, session.cwd),
        }
        self._send(cell, "turn", report)

    def checks(self, cell: CellContext, results: list[dict[str, Any]]) -> None:
        self._send(cell, "checks", {"results": results})

    def _send(self, cell: CellContext, kind: str, content: dict[str, Any]) -> None:
        kernel = self._kernel
        kernel.session.send(
            kernel.iopub_socket,
            MESSAGE,
            {"kind": kind, **content},
            parent=cell.parent,
            ident=kernel._topic(MESSAGE),
        )


def agent_facts(connection: str, agent: Agent, session: Session) -> dict[str, Any]:
    """Who the agent is and how it is set; no secret of the environment's is in it."""
    from ..connection.environment import redact, secret_values

    secrets = agent.secrets | secret_values(agent.spec.env)
    found = agent.initialized
    options = {option.id: option.value for option in session.options}
    return {
        "connection": connection,
        "name": agent.spec.name,
        "agent": (found.title or found.name if found is not None else "") or agent.spec.name,
        "version": found.agent_version if found is not None else "",
        "protocol": found.version if found is not None else None,
        "command": [redact(word, secrets) for word in agent.spec.argv],
        "variables": sorted(agent.spec.env),
        "model": _model(session),
        "options": options,
        "mcp_servers": agent.lifecycle.mcp.facts(session),
        "policy": policy_facts(session.permissions.policy),
    }


def _model(session: Session) -> str | None:
    for option in session.options:
        if "model" in (option.category, option.id) and isinstance(option.value, str):
            return option.value
    return session.transcript.info.current_model


def policy_facts(policy: Policy) -> dict[str, Any]:
    """A policy by what it says; the digest is the same for TOML, JSON and a dict."""
    rules = [asdict(rule) for rule in policy.rules]
    held = json.dumps([1, policy.default, rules], sort_keys=True, ensure_ascii=False)
    return {
        "default": policy.default,
        "rules": len(rules),
        "digest": hashlib.sha256(held.encode("utf-8", "surrogatepass")).hexdigest(),
    }


def turn_facts(turn: Turn, cwd: str) -> dict[str, Any]:
    """A turn in numbers; see `experiments.result`."""
    calls = [entry for entry in turn.entries if isinstance(entry, ToolCallEntry)]
    asked = [entry for entry in turn.entries if isinstance(entry, PermissionEntry)]
    done = [call for call in calls if call.status == "completed"]
    counts = [toolcalls.counts(call) for call in done]
    cost = turn_cost(turn.usage, turn.cost_before)
    messages = [entry for entry in turn.entries if isinstance(entry, MessageEntry)]
    answers = [entry.text.strip("\n") for entry in messages if entry.role == "agent"]
    return {
        "turn": turn.number,
        "prompt": prompt_text(turn),
        "text": "\n\n".join(answers)[:TEXT],
        "stop_reason": turn.stop_reason,
        "error": turn.error,
        "first_chunk_s": _since(turn.started, turn.first_chunk),
        "duration_s": _since(turn.started, turn.ended),
        "tokens": turn_tokens(turn.usage),
        "cost": None if cost is None else cost[0],
        "currency": None if cost is None else cost[1],
        "usage": dict(turn.usage),
        "tool_calls": dict(Counter(call.kind for call in calls)),
        "permissions": len(asked),
        "permissions_denied": sum(entry.state == "denied" for entry in asked),
        "files": _files(turn, done, cwd),
        "lines_added": sum(added for added, _ in counts),
        "lines_removed": sum(removed for _, removed in counts),
    }


def prompt_text(turn: Turn) -> str:
    texts = [block.get("text") for block in turn.prompt]
    return "".join(text for text in texts if isinstance(text, str))


def _since(start: float, moment: float | None) -> float | None:
    return None if moment is None else round(moment - start, 3)


def _files(turn: Turn, calls: list[ToolCallEntry], cwd: str) -> list[str]:
    """Files that tool calls say they changed, and those written through the client."""
    paths: dict[str, None] = {}
    for call in calls:
        for item in call.content:
            if item.get("type") == "diff":
                for changed in toolcalls.changes(item) or [item]:
                    path = relative_path(changed.get("path"), cwd, cwd)
                    if path is not None:
                        paths[path] = None
    for entry in turn.entries:
        for operation, path, outcome, _ in entry.events if isinstance(entry, FilesEntry) else ():
            shown = relative_path(path, cwd, cwd)
            if operation == "write" and outcome == "served" and shown is not None:
                paths[shown] = None
    return list(paths)


def budget(text: str) -> Limits:
    """What a runner allows all agents of a notebook together: JSON with cost, seconds, tokens.

    Raises:
        UsageError: it is none.
    """
    from ..errors import UsageError
    from ..session.limits import Limits

    try:
        held = json.loads(text)
        limits = Limits(held.get("seconds"), held.get("cost"), held.get("tokens"))
        limits.check()
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{BUDGET} is no budget: {error}") from error
    return limits
