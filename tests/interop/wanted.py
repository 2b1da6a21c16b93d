"""What a prompt of these runs wants of the model, and how far the conversation has come with it.

A prompt has a marker, ``interop:ACTION`` with a path where there is one; an agent sends it to the
model with all that it adds. The scripted model looks for the last marker: with no result of a tool
behind it, it calls the tool that fits best among those that the agent offers; else it answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MARKER = re.compile(r"interop:(hello|read|write|run|slow|image)(?: ((?:/[\w.+-]+)+))?")

CONTENT = "written by the model\n"
COMMAND = "touch made-by-command"
HELLO = "Hello from the scripted model."
IN_SHELL = {"read": "cat {path}", "write": "echo 'written by the model' > {path}"}
SLOW_CHUNKS = 600
SLOW_PAUSE = 0.1

# By action: names of tools that do it, the best first.
NAMES = {
    "read": (r"^read_?file$", r"^read$", r"read.*file", r"file.*read", r"^view$", r"read"),
    "write": (
        r"^write_?file$",
        r"^write$",
        r"^create_?file$",
        r"write.*file",
        r"file.*write",
        r"^str_replace",
        r"^write(?!_stdin)",
        r"apply_patch",
    ),
    "run": (
        r"^bash$",
        r"^shell$",
        r"^exec_command$",
        r"shell_?command",
        r"^execute$",
        r"^terminal$",
        r"terminal|shell|bash|command|execute",
    ),
}


@dataclass
class Tool:
    name: str
    schema: dict[str, Any] = field(default_factory=dict)
    free_form: bool = False


@dataclass
class Request:
    """What an agent asks of a model, whatever the API.

    Attributes:
        parts: the conversation in order: ``("user" | "assistant" | "result", text)``.
        images: how many pictures are in it.
    """

    parts: list[tuple[str, str]]
    tools: list[Tool]
    stream: bool
    images: int = 0

    @property
    def action(self) -> tuple[str, str, bool]:
        """The last action that is wanted, its path, and whether a tool has answered since."""
        found = ("hello", "", False)
        for role, text in self.parts:
            marks = MARKER.findall(text) if role == "user" else []
            if marks:
                found = (marks[-1][0], marks[-1][1], False)
            elif role == "result":
                found = (found[0], found[1], True)
        return found


@dataclass(frozen=True)
class Say:
    text: str
    slowly: bool = False


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]
    free_form: str | None = None


def decide(request: Request) -> Say | Call:
    """What the model answers."""
    action, path, answered = request.action
    if action == "slow":
        return Say("tick ", slowly=True)
    if action == "image":
        return Say("I see a picture." if request.images else "I see no picture.")
    if action in NAMES and not answered:
        tool = _find(action, request.tools)
        if tool is not None:
            return _call(action, path, tool, COMMAND)
        shell = _find("run", request.tools)
        if shell is not None:  # some agents have the model do all by commands
            return _call("run", path, shell, IN_SHELL[action].format(path=path))
        return Say(f"There is no tool to {action}.") if request.tools else Say("A title")
    return Say("Done." if answered else HELLO)


def _find(action: str, tools: list[Tool]) -> Tool | None:
    for pattern in NAMES[action]:
        for tool in tools:
            if re.search(pattern, _bare(tool.name), re.IGNORECASE):
                return tool
    return None


def _bare(name: str) -> str:
    """Without what names the server of the tool."""
    return name.rpartition("__")[2]


def _call(action: str, path: str, tool: Tool, command: str) -> Call:
    if tool.free_form or "apply_patch" in tool.name:
        lines = "".join(f"+{line}\n" for line in CONTENT.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
        return Call(tool.name, {"input": patch}, patch if tool.free_form else None)
    properties = tool.schema.get("properties", {})
    arguments = {}
    for name in tool.schema.get("required") or list(properties):
        arguments[name] = _argument(name, properties.get(name, {}), action, path, command)
    for name in properties:  # what does the work is not always required
        if name not in arguments and re.search("^(command|cmd|content|contents)$", name):
            arguments[name] = _argument(name, properties[name], action, path, command)
    if action == "run" and "sandbox_permissions" in properties and not command.startswith("cat "):
        # In a sandbox of the agent's own, a command that changes something fails unless it asks.
        arguments["sandbox_permissions"] = "require_escalated"
        arguments["justification"] = "It writes a file."
    return Call(tool.name, arguments)


def _argument(name: str, schema: dict[str, Any], action: str, path: str, command: str) -> Any:
    kind = schema.get("type", "string")
    kind = next((k for k in kind if k != "null"), "string") if isinstance(kind, list) else kind
    if "enum" in schema:
        wanted = {"write": "create", "read": "view"}.get(action)
        return wanted if wanted in schema["enum"] else schema["enum"][0]
    if re.search("^(command|cmd|commands|script)$", name) and action == "run":
        return ["bash", "-lc", command] if kind == "array" else command
    if re.search("path|file|target", name, re.IGNORECASE):
        return [path] if kind == "array" else path
    if re.search("content|text|new_str", name):
        return CONTENT
    values = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}
    return values.get(kind, f"{action} it")


def texts(content: Any) -> Iterator[str]:
    """The text of a message's content, in any of the APIs."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for item in content:
            yield from texts(item)
    elif isinstance(content, dict):
        for key in ("text", "content", "output", "parts", "functionResponse", "response"):
            if key in content:
                yield from texts(content[key])


def pictures(content: Any) -> int:
    """How many pictures are in a request."""
    text = json.dumps(content)
    return len(re.findall(r'"type": "(?:image|image_url|input_image)"|"inline_?[dD]ata": ', text))
