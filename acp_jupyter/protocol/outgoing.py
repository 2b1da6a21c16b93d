"""What we send, in the version that was agreed on. Pure.

The client writes every request in the form of version 1; `request` turns it into the one that goes
out. Version 2 has other names (``auth/login``), other shapes (``info`` and ``capabilities`` in
``initialize``, a ``type`` with the value of an option), and history is a way to resume a session
instead of a method of its own. What it has no counterpart for is refused here, before anything is
sent: a method that a version does not have must not be invented (C3, C69).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import UsageError
from .dialects import Initialized
from .methods import AGENT_METHODS, supports

JSON = Any
Dict = dict[str, Any]

NEWEST: Final = 2
"""The newest version that can be asked for; it is a draft."""

_RENAMED: Final = {
    "authenticate": "auth/login",
    "logout": "auth/logout",
    "session/load": "session/resume",
}

_SECOND: Final = frozenset(
    {
        "initialize",
        "auth/login",
        "auth/logout",
        "auth/status",
        "providers/list",
        "providers/set",
        "providers/disable",
        "session/new",
        "session/list",
        "session/delete",
        "session/fork",
        "session/archive",
        "session/unarchive",
        "session/status",
        "session/set_title",
        "session/resume",
        "session/close",
        "session/set_config_option",
        "session/prompt",
        "session/cancel",
        "tool_call/cancel",
        "terminal/cancel",
        "mcp/message",
    }
)
"""What an agent of version 2 serves, besides extensions."""

_CAPABILITIES: Final = ("auth", "elicitation", "_meta")
"""What a client of version 2 can declare; files and terminals of the client are gone there."""


def initialize(version: int, capabilities: Mapping[str, Any], info: Mapping[str, Any]) -> Dict:
    """The parameters of ``initialize``.

    Args:
        version: asked for.
        capabilities: of this client, in the form of version 1.
        info: ``name``, ``title`` and ``version`` of this client.
    """
    if version == 1:
        return {
            "protocolVersion": 1,
            "clientCapabilities": dict(capabilities),
            "clientInfo": dict(info),
        }
    return {
        "protocolVersion": version,
        "capabilities": declared(version, capabilities),
        "info": dict(info),
    }


def declared(version: int, capabilities: Mapping[str, Any]) -> Dict:
    """Of this client's capabilities those that exist in that version, in its form."""
    if version == 1:
        return dict(capabilities)
    return {
        key: _marked(capabilities[key]) if key != "_meta" else capabilities[key]
        for key in _CAPABILITIES
        if key in capabilities
    }


def _marked(capability: JSON) -> JSON:
    """Version 2 says ``{}`` where version 1 says true, and nothing where it says false."""
    if type(capability) is not dict:
        return {} if capability else None
    return {
        key: value if key == "_meta" else _marked(value)
        for key, value in capability.items()
        if value is not False
    }


def exists(version: int, method: str) -> bool:
    """Whether agents of that version know a method, by its name in version 1."""
    if version == 1 or method.startswith("_"):
        return True
    return _RENAMED.get(method, method) in _SECOND


def offers(agent: Initialized, method: str) -> bool:
    """Whether an agent advertised what a method needs (C5, C9, C10, C15-C19).

    Args:
        agent: what it said of itself.
        method: by its name in version 1.
    """
    if not exists(agent.version, method):
        return False
    if agent.version > 1 and method in ("authenticate", "logout"):
        return bool(agent.auth_methods)
    return supports(agent.capabilities, AGENT_METHODS[method].needs)


def request(version: int, method: str, params: JSON) -> tuple[str, JSON]:
    """The name and the parameters of a request or notification as they go out.

    Args:
        version: agreed on.
        method: in the form of version 1.
        params: in that form, too.

    Raises:
        UsageError: the version has nothing that corresponds.
    """
    if version == 1:
        return method, params
    if not exists(version, method):
        raise UsageError(
            f"version {version} of the protocol has no {method}",
            remedy="Connect with `--protocol 1` to use it.",
        )
    if type(params) is dict:
        params = _params(method, params)
    return _RENAMED.get(method, method), params


def _params(method: str, params: Dict) -> Dict:
    if "mcpServers" in params:
        params = {**params, "mcpServers": [_mcp_server(server) for server in params["mcpServers"]]}
    if method == "session/load":
        return {**params, "replayFrom": {"type": "start"}}
    if method == "session/set_config_option" and "type" not in params:
        return {**params, "type": "id"}
    return params


def _mcp_server(server: Dict) -> Dict:
    """Version 1 leaves out the type of a server that is a program."""
    return server if "type" in server else {"type": "stdio", **server}


def mcp_transports(agent: Initialized) -> frozenset[str]:
    """By which transports an agent reaches MCP servers (C24): of stdio, http, sse and acp."""
    value = agent.capabilities.get("mcpCapabilities")
    granted = {key for key in ("stdio", "http", "sse", "acp") if supports(value or {}, (key,))}
    if agent.version == 1:
        return frozenset(granted | {"stdio"})
    return frozenset(granted - {"sse"})
