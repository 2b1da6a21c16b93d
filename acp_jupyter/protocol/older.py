"""What goes out to agents of the oldest dialect. Pure.

What such agents say is told by its keys, message by message (`dialects`). What they are sent has to
be in one form or the other, as the protocol allows no fields besides its own. It is theirs where an
agent has shown that it speaks the dialect, or where the user says so: prompts are ``content``,
resources in them flat, MCP servers ``local`` or ``remote``, with maps in place of lists of names
and values. All else is the same.
"""

from __future__ import annotations

from typing import Any, Final

JSON = Any
Dict = dict[str, Any]

DIALECT: Final = "seed001"
"""What the configuration of an agent calls the dialect."""

OFFICIAL: Final = "official"
"""… and the protocol's own form, for an agent that only looks as if it spoke the dialect."""

_RESOURCE: Final = ("uri", "text", "blob")
"""What the dialect says of a resource."""


def proves(answer: JSON) -> bool:
    """Whether an answer to ``initialize`` or to what opens a session is of the dialect.

    Login methods are strings there, and modes a bare list.
    """
    if type(answer) is not dict:
        return False
    methods = answer.get("authMethods")
    named = type(methods) is list and any(type(method) is str for method in methods)
    return named or type(answer.get("modes")) is list


def request(method: str, params: JSON) -> JSON:
    """The parameters of a request in the dialect's form.

    Args:
        method: whose parameters they are.
        params: in the form of version 1.
    """
    if type(params) is not dict:
        return params
    if method == "session/prompt" and "prompt" in params:
        blocks = [_block(block) for block in params["prompt"]]
        return {"content": blocks, **{k: v for k, v in params.items() if k != "prompt"}}
    if "mcpServers" in params:
        return {**params, "mcpServers": [_mcp_server(server) for server in params["mcpServers"]]}
    return params


def _block(block: Dict) -> Dict:
    if block.get("type") != "resource":
        return block
    resource = {key: block["resource"][key] for key in _RESOURCE if key in block["resource"]}
    return {"type": "embedded_resource", **resource}


def _mcp_server(server: Dict) -> Dict:
    if "url" in server:
        return {
            "type": "remote",
            "url": server["url"],
            "headers": _map(server.get("headers")),
        }
    if "command" not in server:
        return server  # of a kind that the dialect has no form for
    return {
        "type": "local",
        "command": server["command"],
        "args": list(server.get("args", ())),
        "environment": _map(server.get("env")),
    }


def _map(pairs: JSON) -> Dict:
    return {pair["name"]: pair["value"] for pair in pairs or ()}
