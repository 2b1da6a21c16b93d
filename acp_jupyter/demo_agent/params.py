"""Checks of request parameters; every breach is a JSON-RPC error -32602 that names the field."""

from __future__ import annotations

import os
from typing import Any

from acp_jupyter.demo_agent.wire import INVALID_PARAMS, Json, RpcError

# kind of content block -> the string fields it must have
_BLOCK_FIELDS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("name", "uri"),
    "resource": (),
}


def invalid(text: str) -> RpcError:
    return RpcError(INVALID_PARAMS, text)


def string(params: Json, key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str):
        raise invalid(f"{key} must be a string.")
    return value


def optional_string(params: Json, key: str) -> str | None:
    return None if params.get(key) is None else string(params, key)


def absolute_path(params: Json, key: str) -> str:
    path = string(params, key)
    if not os.path.isabs(path):
        raise invalid(f"{key} must be an absolute path.")
    return path


def directories(params: Json) -> list[str]:
    """``additionalDirectories``; absent and null are an empty list."""
    value = params.get("additionalDirectories")
    if value is None:
        return []
    if not isinstance(value, list) or not all(
        isinstance(item, str) and os.path.isabs(item) for item in value
    ):
        raise invalid("additionalDirectories must be a list of absolute paths.")
    return list(value)


def mcp_servers(params: Json, *, required: bool) -> None:
    """``mcpServers`` in the shape of the stdio transport, the only one we advertise."""
    value = params.get("mcpServers")
    if value is None and not required:
        return
    if not isinstance(value, list):
        raise invalid("mcpServers must be a list.")
    for server in value:
        if not isinstance(server, dict) or not isinstance(server.get("name"), str):
            raise invalid("Each of mcpServers must be an object with a name.")
        if server.get("type") in ("http", "sse", "acp"):
            raise invalid(f"MCP over {server['type']} was not advertised.")
        if not isinstance(server.get("command"), str):
            raise invalid("Each of mcpServers must have a command.")


def prompt(params: Json) -> list[Json]:
    """``prompt``: a list of content blocks that we can describe."""
    blocks = params.get("prompt")
    if not isinstance(blocks, list):
        raise invalid("prompt must be a list of content blocks.")
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str) or kind not in _BLOCK_FIELDS:
            raise invalid(f"{kind!r} is no kind of content block.")
        if not all(isinstance(block.get(field), str) for field in _BLOCK_FIELDS[kind]):
            raise invalid(f"A content block of kind {kind} needs {_BLOCK_FIELDS[kind]}.")
        if kind == "resource" and not _is_resource(block.get("resource")):
            raise invalid("resource must have uri, and text or blob.")
    return list(blocks)


def _is_resource(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("uri"), str)
        and (isinstance(value.get("text"), str) or isinstance(value.get("blob"), str))
    )
