"""What the user is told of an agent, its session, and the state of things: tables of facts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..rendering.facts import Facts

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session
    from ..services.policy import Policy

CAPABILITIES = {
    "loadSession": "load sessions",
    "promptCapabilities.image": "images",
    "promptCapabilities.audio": "audio",
    "promptCapabilities.embeddedContext": "embedded files",
    "mcpCapabilities.http": "MCP over HTTP",
    "mcpCapabilities.sse": "MCP over SSE",
    "mcpCapabilities.acp": "MCP over ACP",
    "sessionCapabilities.list": "list sessions",
    "sessionCapabilities.resume": "resume",
    "sessionCapabilities.close": "close",
    "sessionCapabilities.fork": "fork",
    "sessionCapabilities.delete": "delete",
    "sessionCapabilities.additionalDirectories": "more directories",
    "auth.logout": "log out",
}
"""Capabilities in words, by their path in the agent's answer to ``initialize``."""


CONDITIONS = {"waiting": "waiting for your answer", "working": "working", "idle": "ready"}


def agent_title(agent: Agent) -> str:
    """Name and version, as the agent says them; the user's own name for it otherwise."""
    found = agent.initialized
    if found is None or not (found.title or found.name):
        return agent.spec.name
    return f"{found.title or found.name} {found.agent_version}".strip()


def capabilities(agent: Agent) -> str:
    """What the agent can do, in words."""
    from ..protocol.methods import supports

    words = [
        word
        for path, word in CAPABILITIES.items()
        if supports(agent.agent_capabilities, tuple(path.split(".")))
    ]
    return ", ".join(words) or "none beyond text prompts"


def connected(agent: Agent, session: Session) -> Facts:
    """The banner of a new session."""
    assert agent.initialized is not None
    rows = [
        ("Agent", agent_title(agent)),
        ("Protocol", f"ACP version {agent.initialized.version}"),
        ("Capabilities", capabilities(agent)),
        ("Session", session.session_id),
        ("Working directory", session.cwd),
        ("Permissions", _policy(agent, session)),
    ]
    return Facts(f"Connected to {agent_title(agent)}", rows)


def state(agent: Agent | None, session: Session | None, policy: Policy) -> Facts:
    """What `%acp` shows."""
    if agent is not None and session is None:
        rows = [("Agent", agent_title(agent)), ("Process", _process(agent))]
        return Facts(
            f"{agent_title(agent)}: no session",
            [*rows, ("Session", "none is open; the next prompt opens one")],
        )
    if agent is None or session is None:
        return Facts(
            "No agent is connected",
            [
                ("Permissions", str(policy)),
                ("Connect", "%acp connect demo, or %acp connect -- COMMAND"),
            ],
        )
    info = session.transcript.info
    condition = CONDITIONS[session.activity] if agent.alive else "ended"
    rows = [
        ("State", condition),
        ("Agent", agent_title(agent)),
        (
            "Command" if agent.spec.remote is None else "Address",
            agent.spec.shown.command if agent.spec.shown else " ".join(agent.spec.argv),
        ),
        ("Process", _process(agent)),
        ("Session", session.session_id),
        ("Title", info.title or ""),
        ("Working directory", session.cwd),
        ("Turns", str(session.transcript.turn.number)),
        ("Mode", _mode(session)),
        ("Model", info.current_model or ""),
        ("Options", _options(session)),
        ("Commands", " ".join(f"/{command['name']}" for command in info.commands[:50])),
        ("Context", _usage(session)),
        ("Background", _background(session)),
        ("Permissions", _policy(agent, session)),
    ]
    return Facts(f"{agent_title(agent)}: {condition}", [row for row in rows if row[1]])


def _process(agent: Agent) -> str:
    if agent.spec.remote is not None:
        return "elsewhere, connected" if agent.alive else "elsewhere, not connected"
    process = str(agent.pid) if agent.alive else "ended"
    source = agent.spec.replay
    return process if source is None else f"{process}, a replay of {os.path.basename(source.path)}"


def _policy(agent: Agent, session: Session) -> str:
    policy = session.permissions.policy
    shown = agent.spec.shown  # what was decided in a recording was decided by its own policy
    own = str(policy) if policy.rules else policy.default
    text = own if shown is None else shown.permissions
    return {
        "ask": "ask (each request is put to you)",
        "deny": "deny (each request is refused, commands are not offered)",
        "allow": "allow (each request is allowed unasked)",
    }.get(text, f"{text} (`%acp permissions` lists them)")


def _mode(session: Session) -> str:
    info = session.transcript.info
    names = [str(mode.get("name") or mode.get("id")) for mode in info.modes]
    if info.current_mode is None:
        return ""
    current = next(
        (str(m.get("name") or m["id"]) for m in info.modes if m.get("id") == info.current_mode),
        info.current_mode,
    )
    return f"{current} (of {', '.join(names)})" if names else current


def _options(session: Session) -> str:
    return "; ".join(
        f"{option.get('name') or option.get('id')}: {option.get('currentValue')}"
        for option in session.transcript.info.config_options
    )


def _background(session: Session) -> str:
    """What an agent of version 2 runs besides the work that is waited for."""
    from ..rendering.characters import one_line
    from ..rendering.words import terminal_command

    transcript = session.transcript
    words = []
    for item in (transcript.info.background or [])[:20]:
        call = transcript.tool_calls.get(str(item.get("toolCallId")))
        terminal = transcript.terminals.get(str(item.get("terminalId")))
        if terminal is not None and terminal.argv:
            words.append(terminal_command(terminal))
        elif call is not None:
            words.append(call.title)
        else:
            words.append(str(item.get("type")))
    return "; ".join(one_line(word, 100) for word in words)


def _usage(session: Session) -> str:
    usage = session.transcript.info.usage
    if not usage:
        return ""
    words = f"{usage['used']:,} of {usage.get('size', 0):,} tokens"
    cost = usage.get("cost")
    if isinstance(cost, dict) and isinstance(cost.get("amount"), int | float):
        words += f", {cost['amount']:.4g} {cost.get('currency', '')}".rstrip()
    return words
