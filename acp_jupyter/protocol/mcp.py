"""The server's side of the Model Context Protocol (MCP), as far as tools need it. Pure.

A `Server` answers one request at a time, whatever carried it: ``mcp/message`` of ACP, or a line of
a stream. It keeps nothing between requests, so it serves both eras of MCP: the versions that begin
with ``initialize``, and the one since in which each request names its version in ``_meta`` and
``server/discover`` says what there is. A client that leaves out ``initialize`` is answered all the
same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import ErrorCode

__all__ = ["Answer", "Server", "Tool", "ToolError", "image", "text"]

JSON = Any
Dict = dict[str, Any]

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of MCP that begin with ``initialize``; the newest first."""

STATELESS: Final = "2026-07-28"
"""The version in which requests stand by themselves."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
"""In ``_meta`` of its requests, and of its results."""

UNSUPPORTED_VERSION: Final = -32022
"""Its error for a request in a version that is not known."""

CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
"""That a list must not be kept: it is the user's, who may take it back."""


class ToolError(Exception):
    """A tool did not do what it was asked for; the text is for the model that asked."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: as it is called.
        title: for people.
        description: for the model.
        properties: JSON schemas of its arguments by name; all are required.
        reads: it changes nothing.
    """

    name: str
    title: str
    description: str
    properties: Mapping[str, JSON] = field(default_factory=dict)
    reads: bool = True

    @property
    def listed(self) -> Dict:
        """As in the answer to ``tools/list``."""
        schema: Dict = {"type": "object", "properties": dict(self.properties)}
        if self.properties:
            schema["required"] = list(self.properties)
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {**schema, "additionalProperties": False},
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.reads,
                "openWorldHint": False,
            },
        }


def text(words: str) -> Dict:
    """A block of text in a tool's result."""
    return {"type": "text", "text": words}


def image(data: str, mime: str) -> Dict:
    """A picture in a tool's result; ``data`` is base64."""
    return {"type": "image", "data": data, "mimeType": mime}


Answer = Dict
"""``{"result": …}`` or ``{"error": {"code", "message"}}``."""


class Server:
    """See the module.

    Args:
        info: ``name``, ``title`` and ``version``.
        instructions: for the model, about all tools.
        tools: what there is.
        call: calls one by its name with its arguments, which have the declared names and are
            strings; returns blocks, see `text` and `image`. It may raise `ToolError`.
    """

    def __init__(
        self,
        info: Mapping[str, str],
        instructions: str,
        tools: Sequence[Tool],
        call: Callable[[str, Mapping[str, str]], Awaitable[list[Dict]]],
    ) -> None:
        self._info = dict(info)
        self._instructions = instructions
        self._tools = {tool.name: tool for tool in tools}
        self._call = call

    async def answer(self, method: str, params: JSON) -> Answer:
        """Answer a request, from its method and its parameters."""
        params = params if type(params) is dict else {}
        meta = params.get("_meta")
        asked = meta.get(VERSION_KEY) if type(meta) is dict else None
        if asked is not None and asked != STATELESS:
            known = {"supported": [STATELESS], "requested": asked}
            return _error(UNSUPPORTED_VERSION, "that version of MCP is not known", known)
        answer = await self._answer(method, params)
        if asked is not None and "result" in answer:
            answer["result"] |= {"resultType": "complete", "_meta": {INFO_KEY: self._info}}
            if method in ("server/discover", "tools/list"):
                answer["result"] |= CACHED
        return answer

    async def _answer(self, method: str, params: Dict) -> Answer:
        match method:
            case "server/discover":
                return {
                    "result": {
                        "supportedVersions": [STATELESS],
                        "capabilities": {"tools": {}},
                        "instructions": self._instructions,
                    }
                }
            case "initialize":
                asked = params.get("protocolVersion")
                version = asked if asked in VERSIONS else VERSIONS[0]
                return {
                    "result": {
                        "protocolVersion": version,
                        "capabilities": {"tools": {}},
                        "serverInfo": self._info,
                        "instructions": self._instructions,
                    }
                }
            case "ping":
                return {"result": {}}
            case "tools/list":
                return {"result": {"tools": [tool.listed for tool in self._tools.values()]}}
            case "tools/call":
                return await self._called(params)
        return _error(ErrorCode.METHOD_NOT_FOUND, f"Method not found: {method[:200]}")

    async def _called(self, params: Dict) -> Answer:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            known = ", ".join(self._tools)
            return _error(ErrorCode.INVALID_PARAMS, f"no such tool; there are: {known}")
        arguments = params.get("arguments") or {}
        if type(arguments) is not dict or set(arguments) != set(tool.properties):
            names = ", ".join(tool.properties) or "none"
            return _error(ErrorCode.INVALID_PARAMS, f"{tool.name} takes the arguments: {names}")
        if not all(type(value) is str for value in arguments.values()):
            return _error(ErrorCode.INVALID_PARAMS, f"{tool.name} takes strings")
        try:
            return {"result": {"content": await self._call(tool.name, arguments), "isError": False}}
        except ToolError as error:
            return {"result": {"content": [text(str(error))], "isError": True}}


def _error(code: int, message: str, data: JSON = None) -> Answer:
    more = {} if data is None else {"data": data}
    return {"error": {"code": int(code), "message": message, **more}}
