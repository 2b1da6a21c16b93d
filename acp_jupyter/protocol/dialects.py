"""One form for what agents say in many: official v1, the v2 draft, and the older dialects.

Each function takes a dict from the wire and returns the official v1 form (or a small struct with
its meaning). The dialect is told from the keys that are present, message by message, never from a
setting: agents mix them. Fields that are not understood stay where they are.

The older shapes: a session update without ``update`` (``contentChunk``, ``toolCall``, ``plan``,
``currentModeId`` beside ``sessionId``), flat ``embedded_resource`` blocks, modes as a bare list,
authentication methods as strings, permission requests with ``permissionId`` and no options, v2
requests with a bare ``toolCall`` instead of a ``subject``, environment as a map.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from ..errors import ErrorCode, Refusal, RemoteProtocolError

JSON = Any
Dict = dict[str, Any]

MAX_ID: Final = 1024
"""Characters of an id that an agent may choose (session, tool call, option): it is opaque, but
has to be kept, hashed and compared."""

MAX_OPTIONS: Final = 32
"""Options of one permission request; more cannot be meant for a person."""

MAX_SUBJECT: Final = 4000
"""Characters shown of what a permission request is about, if its kind is unknown."""


# -- session/update -------------------------------------------------------------------------


def session_updates(params: JSON) -> tuple[str, list[Dict]] | None:
    """The session id and the updates of one ``session/update``; ``None`` if it names no session.

    Updates are official: ``{"sessionUpdate": kind, …}``. What has no known shape is handed on as
    it is, so that it can be shown as unknown.
    """
    if type(params) is not dict:
        return None
    session_id = params.get("sessionId")
    if type(session_id) is not str or len(session_id) > MAX_ID:
        return None
    update = params.get("update")
    if type(update) is dict:
        return session_id, [update]
    updates = _old_updates(params)
    if not updates:
        updates = [{key: value for key, value in params.items() if key != "sessionId"}]
    return session_id, updates


def _old_updates(params: Dict) -> list[Dict]:
    updates: list[Dict] = []
    chunk = params.get("contentChunk")
    if type(chunk) is dict:
        update: Dict = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": chunk.get("delta")},
        }
        if type(chunk.get("id")) is str:
            update["messageId"] = chunk["id"]
        if type(chunk.get("index")) is int:
            update["index"] = chunk["index"]
        updates.append(update)
    call = params.get("toolCall")
    if type(call) is dict:
        updates.append(_old_tool_call(call))
    plan = params.get("plan")
    if type(plan) is dict:
        updates.append({"sessionUpdate": "plan", "entries": _old_plan_entries(plan)})
    if type(params.get("currentModeId")) is str:
        updates.append(
            {"sessionUpdate": "current_mode_update", "currentModeId": params["currentModeId"]}
        )
    return updates


def _old_tool_call(call: Dict) -> Dict:
    """First sight creates, later ones patch: an upsert, whose content is bare blocks.

    Content and diff are patched apart from each other: ``diffs`` (a list, ``None`` where none was
    sent) stands beside ``content`` in the update.
    """
    update: Dict = {**call, "sessionUpdate": "tool_call_update", "diffs": None}
    diff = update.pop("diff", None)
    content = update.get("content")
    if type(content) is list:
        update["content"] = [
            {"type": "content", "content": block} if _is_bare_block(block) else block
            for block in content
        ]
    if type(diff) is dict:
        update["diffs"] = [
            {
                "type": "diff",
                "path": diff.get("path"),
                "oldText": diff.get("oldContent"),
                "newText": diff.get("newContent", ""),
            }
        ]
    return update


def _is_bare_block(block: JSON) -> bool:
    return type(block) is dict and block.get("type") not in ("content", "diff", "terminal")


def _old_plan_entries(plan: Dict) -> list[Dict]:
    entries = plan.get("steps", plan.get("entries"))
    return [
        {
            "content": step.get("title", step.get("content", "")),
            "priority": step.get("priority", "medium"),
            "status": step.get("status", "pending"),
        }
        for step in (entries if type(entries) is list else [])
        if type(step) is dict
    ]


def content_block(block: JSON) -> Dict | None:
    """A content block in the official form; ``None`` if it is no block at all."""
    if type(block) is not dict or type(block.get("type")) is not str:
        return None
    if block["type"] == "embedded_resource":
        if type(block.get("resource")) is dict:
            return {**block, "type": "resource"}
        flat = {key: block[key] for key in ("uri", "text", "blob", "mimeType") if key in block}
        return {"type": "resource", "resource": flat}
    return block


# -- initialize and sessions ----------------------------------------------------------------


class Initialized(msgspec.Struct, frozen=True):
    """What ``initialize`` settled.

    Attributes:
        version: protocol version to go on with.
        name, title, agent_version: of the agent, each empty if it did not say.
        capabilities: in the official v1 form.
        auth_methods: ``{"id", "name", "description"?, "type"?, …}``.
        old_auth: the agent named its methods as strings (an older dialect).
    """

    version: int
    name: str
    title: str
    agent_version: str
    capabilities: Dict
    auth_methods: list[Dict]
    old_auth: bool = False


def initialized(result: JSON, asked: int) -> Initialized:
    """Read the answer to ``initialize``.

    An answer of "2" is version 2 only if it has that version's shape (``info``,
    ``capabilities``): some agents echo whatever they are asked.

    Raises:
        RemoteProtocolError: there is no usable answer in it.
    """
    if type(result) is not dict:
        raise RemoteProtocolError("the agent's answer to initialize is not an object")
    version = _integer(result.get("protocolVersion"))
    if version is None:
        raise RemoteProtocolError("the agent's answer to initialize has no protocolVersion")
    second = type(result.get("info")) is dict and "agentCapabilities" not in result
    if version == 2 and not second and asked == 2:
        version = 1
    info = result.get("info" if second else "agentInfo")
    info = info if type(info) is dict else {}
    capabilities = result.get("capabilities" if second else "agentCapabilities")
    capabilities = capabilities if type(capabilities) is dict else {}
    methods, old = _auth_methods(result.get("authMethods"))
    return Initialized(
        version=version,
        name=_text(info.get("name")),
        title=_text(info.get("title")),
        agent_version=_text(info.get("version")),
        capabilities=_official_capabilities(capabilities, methods) if second else capabilities,
        auth_methods=methods,
        old_auth=old,
    )


def _official_capabilities(second: Dict, methods: list[Dict]) -> Dict:
    """Version 2's capabilities in version 1's form.

    An object there means what ``true`` means here; list, resume and close come with ``session``,
    which is loaded by being resumed with its history; logging out comes with a way to log in.
    """
    official = {key: value for key, value in second.items() if key != "session"}
    if methods:
        auth = official.get("auth")
        official["auth"] = {**(auth if type(auth) is dict else {}), "logout": {}}
    session = second.get("session")
    if type(session) is not dict:
        return official
    beside = {key: value for key, value in session.items() if key not in ("prompt", "mcp")}
    return {
        **official,
        "loadSession": True,
        "promptCapabilities": _granted(session.get("prompt")),
        "mcpCapabilities": _granted(session.get("mcp")),
        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, **beside},
    }


def _granted(capabilities: JSON) -> Dict:
    if type(capabilities) is not dict:
        return {}
    return {key: type(value) is dict for key, value in capabilities.items() if key != "_meta"}


def _integer(value: JSON) -> int | None:
    if type(value) is int:
        return value
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return None


def _text(value: JSON) -> str:
    return value if type(value) is str else ""


def _auth_methods(value: JSON) -> tuple[list[Dict], bool]:
    methods: list[Dict] = []
    old = False
    for method in value if type(value) is list else []:
        if type(method) is str:
            old = True
            if method != "none":
                methods.append({"id": method, "name": method})
        elif type(method) is dict:
            ident = method.get("id", method.get("methodId"))
            if type(ident) is str:
                methods.append({**method, "id": ident, "name": _text(method.get("name")) or ident})
    return methods, old


class SessionState(msgspec.Struct, frozen=True):
    """What ``session/new``, ``load``, ``resume`` or ``fork`` said of a session; lists may be empty.

    ``commands`` is ``None`` where nothing was said of them (they come with the answer in version 2
    only).
    """

    session_id: str | None
    modes: list[Dict]
    current_mode: str | None
    config_options: list[Dict]
    models: list[Dict]
    current_model: str | None
    commands: list[Dict] | None = None


def session_state(result: JSON) -> SessionState:
    """Read the answer to ``session/new``, ``session/load`` (may be null) or ``session/resume``."""
    result = result if type(result) is dict else {}
    modes = result.get("modes")
    current = result.get("currentModeId")
    if type(modes) is dict:
        current = modes.get("currentModeId")
        modes = modes.get("availableModes")
    models = result.get("models")
    models = models if type(models) is dict else {}
    session_id = result.get("sessionId")
    commands = result.get("availableCommands")
    return SessionState(
        session_id=session_id if type(session_id) is str else None,
        modes=dicts(modes),
        current_mode=current if type(current) is str else None,
        config_options=config_options(result.get("configOptions")),
        models=dicts(models.get("availableModels")),
        current_model=_text(models.get("currentModelId")) or None,
        commands=dicts(commands) if type(commands) is list else None,
    )


def config_options(value: JSON) -> list[Dict]:
    """Configuration options in the official form; version 2 calls the ids ``configId`` and
    ``groupId``."""
    options = [_renamed(option, "configId", "id") for option in dicts(value)]
    for option in options:
        if "options" in option:
            option["options"] = [
                _renamed(item, "groupId", "group") for item in dicts(option["options"])
            ]
    return options


def _renamed(item: Dict, old: str, new: str) -> Dict:
    return {new if key == old and new not in item else key: value for key, value in item.items()}


def identifier(value: JSON) -> str | None:
    """An opaque id as the agent chose it; ``None`` if it is none, or none that we keep (F63)."""
    return value if type(value) is str and 0 < len(value) <= MAX_ID else None


def dicts(value: JSON) -> list[Dict]:
    """The objects of a list; what is none is skipped, as the schema allows."""
    return [item for item in value if type(item) is dict] if type(value) is list else []


def stop_reason(result: JSON) -> str:
    """The stop reason of a v1 prompt response; an open set, ``tool_error`` is an older value.

    Raises:
        RemoteProtocolError: there is none.
    """
    reason = result.get("stopReason") if type(result) is dict else None
    if type(reason) is not str or not reason:
        raise RemoteProtocolError(
            "the agent's answer to session/prompt has no stop reason",
            remedy="The turn is over; send the prompt again to go on.",
        )
    return reason[:100]


# -- session/request_permission -------------------------------------------------------------


class PermissionOption(msgspec.Struct, frozen=True):
    """One option; name and kind are empty where the agent gave none."""

    option_id: str
    name: str
    kind: str


class PermissionRequest(msgspec.Struct, frozen=True):
    """A permission request, validated.

    Attributes:
        tool_call: a tool call update, or ``None`` where the agent gave none.
        options: in the agent's order; may be empty.
        form: in which the answer has to be written.
        description: why it is needed, in the agent's words; an unknown kind of subject is
            written out here, so that nobody allows what is not shown.
    """

    session_id: str
    tool_call: Dict | None
    title: str
    command: str | None
    cwd: str | None
    options: list[PermissionOption]
    form: Literal["official", "decision"] = "official"
    description: str = ""


_DECISION_OPTIONS: Final = [
    PermissionOption("once", "Allow once", "allow_once"),
    PermissionOption("always", "Always allow", "allow_always"),
    PermissionOption("reject", "Reject", "reject_once"),
]
"""The three answers of the older dialect that offers no options of its own."""


def session_id_of(params: JSON) -> str:
    """The session id of a request of the agent's.

    Raises:
        Refusal: there is none, or it is longer than `MAX_ID`.
    """
    value = params.get("sessionId") if type(params) is dict else None
    if type(value) is not str or not value:
        raise Refusal("params.sessionId must be a string", code=ErrorCode.INVALID_PARAMS)
    if len(value) > MAX_ID:
        raise Refusal(f"params.sessionId is longer than {MAX_ID} characters")
    return value


def permission_request(params: JSON) -> PermissionRequest:
    """Read ``session/request_permission``.

    Raises:
        Refusal: it is not one (wrong types, an option id twice).
    """
    session_id = session_id_of(params)
    old = "permissionId" in params and "options" not in params
    call = params.get("toolCall")
    subject = params.get("subject")
    command = cwd = None
    title = _text(params.get("title"))
    description = _text(params.get("description"))
    if call is None and type(subject) is dict:
        call, command, cwd = _subject(subject)
        if call is None and command is None:
            raw = msgspec.json.encode(subject).decode()[:MAX_SUBJECT]
            description = f"{description}\n{raw}" if description else raw
    if call is None and old:
        call = _old_subject(params)
    if call is not None:
        call = _tool_call_reference(call)
        title = title or _text(call.get("title"))
    return PermissionRequest(
        session_id=session_id,
        tool_call=call,
        title=title,
        command=command,
        cwd=cwd,
        options=list(_DECISION_OPTIONS) if old else _options(params.get("options")),
        form="decision" if old else "official",
        description=description,
    )


def _old_subject(params: Dict) -> Dict:
    keys = ("toolCallId", "title", "kind", "content")
    call: Dict = {key: params[key] for key in keys if key in params}
    if call.get("toolCallId") is None:
        call["toolCallId"] = params.get("permissionId")
    return _old_tool_call(call)


def _subject(subject: Dict) -> tuple[Dict | None, str | None, str | None]:
    if subject.get("type") == "command":
        command = subject.get("command")
        if type(command) is not str or not command:
            raise Refusal("params.subject.command must be a string")
        call_id = subject.get("toolCallId")
        call = {"toolCallId": call_id} if type(call_id) is str else None
        return call, command, _text(subject.get("cwd")) or None
    call = subject.get("toolCall")
    if call is None and type(subject.get("toolCallId")) is str:
        call = {key: value for key, value in subject.items() if key != "type"}
    return call, None, None


def _tool_call_reference(call: JSON) -> Dict:
    if type(call) is not dict:
        raise Refusal("params.toolCall must be an object")
    ident = call.get("toolCallId")
    if type(ident) is not str or not ident or len(ident) > MAX_ID:
        raise Refusal("params.toolCall.toolCallId must be a string")
    return call


def _options(value: JSON) -> list[PermissionOption]:
    if value is None:
        return []
    if type(value) is not list or len(value) > MAX_OPTIONS:
        raise Refusal(f"params.options must be an array of at most {MAX_OPTIONS}")
    options: list[PermissionOption] = []
    seen: set[str] = set()
    for item in value:
        ident = item.get("optionId") if type(item) is dict else None
        if type(ident) is not str or len(ident) > MAX_ID:
            raise Refusal("each of params.options must have a string optionId")
        if ident in seen:
            raise Refusal("params.options has the same optionId twice")
        seen.add(ident)
        options.append(PermissionOption(ident, _text(item.get("name")), _text(item.get("kind"))))
    return options


def permission_response(
    form: Literal["official", "decision"], option: PermissionOption | None, *, cancelled: bool
) -> Dict:
    """The answer in the asker's form; no ``option`` and not ``cancelled`` is a plain no."""
    if form == "decision":
        if option is None:
            return {"decision": "reject", **({"cancelled": True} if cancelled else {})}
        return {"decision": option.option_id}
    if option is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
