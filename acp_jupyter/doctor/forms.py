"""The form of what an agent sends: what has to be there, in each version. Pure.

It is less than the official schemas say, and never more: `tests.test_doctor_agent` holds the tables
against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

JSON = Any

_CHUNK: Final = ("content",)
_CHUNK_2: Final = ("content", "messageId")
_SHARED: Final[Mapping[str, tuple[str, ...]]] = {
    "tool_call_update": ("toolCallId",),
    "plan_update": ("plan",),
    "plan_removed": ("planId",),
    "available_commands_update": ("availableCommands",),
    "config_option_update": ("configOptions",),
    "session_info_update": (),
    "usage_update": ("size", "used"),
    "notice": ("severity", "title"),
    "compaction_update": ("compactionId", "status"),
    "compaction_summary_chunk": ("compactionId", "content"),
    "subagent_update": ("sessionId",),
    "session_message": ("messageId",),
    "session_message_chunk": ("content", "messageId"),
}

UPDATES: Final[Mapping[int, Mapping[str, tuple[str, ...]]]] = {
    1: {
        **_SHARED,
        "user_message_chunk": _CHUNK,
        "agent_message_chunk": _CHUNK,
        "agent_thought_chunk": _CHUNK,
        "tool_call": ("title", "toolCallId"),
        "plan": ("entries",),
        "current_mode_update": ("currentModeId",),
    },
    2: {
        **_SHARED,
        "user_message_chunk": _CHUNK_2,
        "agent_message_chunk": _CHUNK_2,
        "agent_thought_chunk": _CHUNK_2,
        "user_message": ("messageId",),
        "agent_message": ("messageId",),
        "agent_thought": ("messageId",),
        "state_update": (),
        "tool_call_content_chunk": ("content", "toolCallId"),
        "terminal_update": ("terminalId",),
        "terminal_output_chunk": ("data", "terminalId"),
    },
}
"""By version: the kinds of update, stable or not, and the fields that each must have."""

BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("name", "uri"),
    "resource": ("resource",),
}
"""The content blocks, and the fields that each must have."""

STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)
"""Those of version 1; version 2 adds to them, and is open."""

_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


def update_problems(update: Mapping[str, Any], version: int) -> Iterator[str]:
    """What is wrong with a session update."""
    kind = update.get("sessionUpdate")
    if type(kind) is not str:
        yield "a session update without sessionUpdate"
        return
    fields = UPDATES[version].get(kind)
    if fields is None:
        if version == 1 and not kind.startswith("_"):
            yield f"a session update of a kind that version 1 does not have: {kind[:60]!r}"
        return
    missing = [name for name in fields if update.get(name) is None]
    if missing:
        yield f"{kind} without {' and '.join(missing)}"
    elif kind in _CHUNKS:
        yield from _block_problems(kind, update["content"])


def _block_problems(where: str, block: JSON) -> Iterator[str]:
    if type(block) is not dict or type(block.get("type")) is not str:
        yield f"{where} whose content is no content block"
        return
    missing = [name for name in BLOCKS.get(block["type"], ()) if block.get(name) is None]
    if missing:
        yield f"{where}: {block['type']} without {' and '.join(missing)}"


def error_problems(error: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an error object."""
    if type(error.get("code")) is not int:
        yield "an error whose code is no integer"
    if type(error.get("message")) is not str:
        yield "an error whose message is no string"


def initialize_problems(result: JSON, version: int) -> Iterator[str]:
    """What is wrong with the answer to ``initialize``, but for its version."""
    names = ("agentCapabilities", "agentInfo") if version == 1 else ("capabilities", "info")
    for name in names:
        if result.get(name) is not None and type(result[name]) is not dict:
            yield f"{name} is no object"
    if version == 2 and type(result.get("info")) is not dict:
        yield "info is missing"
    methods = result.get("authMethods")
    if methods is None:
        return
    if type(methods) is not list:
        yield "authMethods is no list"
        return
    ident = "id" if version == 1 else "methodId"
    for method in methods:
        if type(method) is not dict or not all(
            type(method.get(name)) is str for name in (ident, "name")
        ):
            yield f"an authentication method without {ident} or name"


def session_problems(result: JSON, version: int, *, new: bool) -> Iterator[str]:
    """What is wrong with the answer that opens a session."""
    if type(result) is not dict:
        if new or result is not None:
            yield "the answer is no object"
        return
    if new and (type(result.get("sessionId")) is not str or not result["sessionId"]):
        yield "sessionId is no string"
    modes = result.get("modes")
    if modes is not None and not (
        type(modes) is dict
        and type(modes.get("availableModes")) is list
        and type(modes.get("currentModeId")) is str
    ):
        yield "modes lacks availableModes or currentModeId"
    options = result.get("configOptions")
    if options is None:
        return
    ident = "id" if version == 1 else "configId"
    if type(options) is not list:
        yield "configOptions is no list"
        return
    for option in options:
        if type(option) is not dict or not all(
            type(option.get(name)) is str for name in (ident, "name", "type")
        ):
            yield f"an option without {ident}, name or type"
