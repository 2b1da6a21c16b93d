"""Version 2 of the protocol: what the agent says and hears in version 1, in the other form.

The agent thinks in version 1. Where a client asked for version 2, `incoming` turns its requests
into those of version 1, and `update`, `request` and `result` turn what goes out into version 2.
Files and terminals of the client do not exist there, nor modes beside the config options.
"""

from __future__ import annotations

import os
from typing import Any

from acp_jupyter.demo_agent.settings import Offers
from acp_jupyter.demo_agent.wire import INVALID_PARAMS, METHOD_NOT_FOUND, Json, RpcError

VERSION = 2
PLAN = "plan"

_NAMES = {"auth/login": "authenticate", "auth/logout": "logout"}
_GONE = frozenset({"authenticate", "logout", "session/load", "session/set_mode"})


def offers(capabilities: Any) -> Offers:
    """Read ``capabilities`` of ``initialize``; options, notices and compaction come with v2."""
    elicitation = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    form = elicitation.get("form") if isinstance(elicitation, dict) else None
    return Offers(
        form=isinstance(form, dict),
        boolean_options=True,
        notices=True,
        compaction=True,
        display=True,
    )


def initialized(info: Json, *, auth: Json | None) -> Json:
    """The answer to ``initialize``; ``auth`` is the method of version 1, if there is one."""
    answer: Json = {
        "protocolVersion": VERSION,
        "info": info,
        "capabilities": {
            "session": {
                "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
                "mcp": {"stdio": {}},
                "delete": {},
                "additionalDirectories": {},
                "fork": {},
            },
            "_meta": {"acp-jupyter.demo": {"methods": ["_demo/echo"]}},
        },
    }
    if auth is not None:
        method = {key: value for key, value in auth.items() if key != "id"}
        answer["authMethods"] = [{"type": "agent", "methodId": auth["id"], **method}]
    return answer


def incoming(method: str, params: Json) -> tuple[str, Json]:
    """A request of the client's in version 1.

    Raises:
        RpcError: version 2 has no such method, or not with such parameters.
    """
    if method in _GONE:
        raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")
    if method in ("session/new", "session/resume"):
        params = {"mcpServers": [], **params}
    if method == "session/resume" and params.get("replayFrom") is not None:
        start = params["replayFrom"]
        if not isinstance(start, dict) or start.get("type") != "start":
            raise RpcError(INVALID_PARAMS, "replayFrom must be of the type start.")
        return "session/load", params
    if method == "session/set_config_option":
        kind = {"id": str, "boolean": bool}.get(str(params.get("type")))
        if kind is None or type(params.get("value")) is not kind:
            raise RpcError(INVALID_PARAMS, "value must be of the type that type names.")
    return _NAMES.get(method, method), params


def result(answer: Json) -> Json:
    """The answer to a request."""
    answer = {key: value for key, value in answer.items() if key != "modes"}
    if "configOptions" in answer:
        answer["configOptions"] = [_option(option) for option in answer["configOptions"]]
    return answer


def update(given: Json) -> Json | None:
    """A session update; None where version 2 has nothing to say."""
    match given["sessionUpdate"]:
        case "current_mode_update":
            return None  # the config option says it
        case "config_option_update":
            return result(given)
        case "tool_call" | "tool_call_update":
            changed = {**given, "sessionUpdate": "tool_call_update"}
            if "content" in changed:
                changed["content"] = [_content(item) for item in changed["content"]]
            return changed
        case "plan":
            plan = {"type": "items", "planId": PLAN, "entries": given["entries"]}
            return {"sessionUpdate": "plan_update", "plan": plan}
        case "available_commands_update":
            commands = [_command(command) for command in given["availableCommands"]]
            return {**given, "availableCommands": commands}
        case _:
            return given


def request(method: str, params: Json) -> Json:
    """The parameters of a request to the client."""
    if method != "session/request_permission":
        return params
    call = dict(params["toolCall"])
    if "content" in call:
        call["content"] = [_content(item) for item in call["content"]]
    asked = {key: value for key, value in params.items() if key != "toolCall"}
    subject = {"type": "tool_call", "toolCall": call}
    return {**asked, "title": call.get("title") or "Permission", "subject": subject}


def _option(option: Json) -> Json:
    return {("configId" if key == "id" else key): value for key, value in option.items()}


def _command(command: Json) -> Json:
    made = {"type": "command", **command}
    if "input" in made:
        made["input"] = {"type": "text", **made["input"]}
    return made


def _content(item: Json) -> Json:
    if item["type"] != "diff" or "changes" in item:
        return item
    old, new, path = item.get("oldText"), item["newText"], item["path"]
    operation = "add" if old is None else "modify"
    return {
        "type": "diff",
        "changes": [{"operation": operation, "path": path, "fileType": "text"}],
        "patch": {"format": "git_patch", "text": _patch(path, old, new)},
    }


def _patch(path: str, old: str | None, new: str) -> str:
    import difflib

    name = path.replace(os.sep, "/").lstrip("/")
    before = "/dev/null" if old is None else f"a/{name}"
    lines = difflib.unified_diff(
        (old or "").splitlines(), new.splitlines(), before, f"b/{name}", lineterm=""
    )
    return "".join(f"{line}\n" for line in (f"diff --git a/{name} b/{name}", *lines))
