"""The methods of ACP as a table: who sends them, and which capability must allow them.

A client must not call what the agent did not advertise (C5, C9, C15-C19), and answers what it
did not advertise itself with "method not found". Both are looked up here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PROTOCOL_VERSION: Final = 1
"""The newest version that is enabled without being asked for; version 2 is a draft."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        name: as on the wire.
        needs: path into the capabilities of the side that serves it; empty for baseline methods.
        notification: no answer is expected.
    """

    name: str
    needs: tuple[str, ...] = ()
    notification: bool = False


def _table(*methods: Method) -> dict[str, Method]:
    return {method.name: method for method in methods}


AGENT_METHODS: Final = _table(
    Method("initialize"),
    Method("authenticate"),
    Method("logout", needs=("auth", "logout")),
    Method("session/new"),
    Method("session/load", needs=("loadSession",)),
    Method("session/resume", needs=("sessionCapabilities", "resume")),
    Method("session/list", needs=("sessionCapabilities", "list")),
    Method("session/close", needs=("sessionCapabilities", "close")),
    Method("session/delete", needs=("sessionCapabilities", "delete")),
    Method("session/prompt"),
    Method("session/cancel", notification=True),
    Method("session/set_mode"),
    Method("session/set_config_option"),
    # Not stable yet:
    Method("session/fork", needs=("sessionCapabilities", "fork")),
    Method("providers/list", needs=("providers",)),
    Method("providers/set", needs=("providers",)),
    Method("providers/disable", needs=("providers",)),
)
"""What a client may call, by name."""

CLIENT_METHODS: Final = _table(
    Method("session/update", notification=True),
    Method("session/request_permission"),
    Method("fs/read_text_file", needs=("fs", "readTextFile")),
    Method("fs/write_text_file", needs=("fs", "writeTextFile")),
    Method("terminal/create", needs=("terminal",)),
    Method("terminal/output", needs=("terminal",)),
    Method("terminal/wait_for_exit", needs=("terminal",)),
    Method("terminal/kill", needs=("terminal",)),
    Method("terminal/release", needs=("terminal",)),
    Method("elicitation/create", needs=("elicitation",)),
    Method("elicitation/complete", notification=True),
    Method("session/elicitation", needs=("elicitation",)),  # until 2026-04
    Method("session/elicitation/complete", notification=True),
    # Not stable yet; no capability of the client's is for it: it offers servers, or does not.
    Method("mcp/message", needs=("mcp",)),
)
"""What an agent may call, by name."""

CANCEL_REQUEST: Final = "$/cancel_request"
"""Withdraws a request, in both directions; the request is still answered (C72)."""


def supports(capabilities: Mapping[str, Any], needs: tuple[str, ...]) -> bool:
    """Whether capabilities grant what ``needs`` names; omitted, null and false mean no (C5).

    An empty object grants (``"list": {}``); a value of any other type means no, as the schema's
    default does.
    """
    value: Any = capabilities
    for key in needs:
        if not isinstance(value, Mapping):
            return False
        value = value.get(key)
    return value is True or isinstance(value, Mapping)
