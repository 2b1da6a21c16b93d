"""What ``make interop`` runs agents of others with: the scripted model, and how it tells what came.

The agents themselves are installed and run by ``make interop`` alone. Here the test asks the model
in each API, as they do.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.__main__ import matrix
from tests.interop.agents import AGENTS, Place
from tests.interop.model_server import Model
from tests.interop.scenarios import SCENARIOS
from tests.interop.wanted import CONTENT, HELLO, Call, Request, Say, Tool, decide

WRITE = "interop:write /tmp/a.txt"
SCHEMA = {"type": "object", "properties": {"path": {}, "content": {}}, "required": ["path"]}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as serving:
        yield serving


def post(model: Model, path: str, body: dict[str, Any]) -> str:
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(model.url + path, data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def chat(text: str, stream: bool) -> tuple[str, dict[str, Any]]:
    function = {"name": "write_file", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    messages = [{"role": "user", "content": text}]
    return "/v1/chat/completions", {"messages": messages, "tools": tools, "stream": stream}


def responses(text: str, stream: bool) -> tuple[str, dict[str, Any]]:
    tools = [{"type": "function", "name": "write_file", "parameters": SCHEMA}]
    content = [{"type": "input_text", "text": text}]
    given = [{"type": "message", "role": "user", "content": content}]
    return "/v1/responses", {"input": given, "tools": tools, "stream": stream}


def messages(text: str, stream: bool) -> tuple[str, dict[str, Any]]:
    tools = [{"name": "write_file", "input_schema": SCHEMA}]
    said = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return "/v1/messages", {"messages": said, "tools": tools, "stream": stream}


def gemini(text: str, stream: bool) -> tuple[str, dict[str, Any]]:
    tools = [{"functionDeclarations": [{"name": "write_file", "parameters": SCHEMA}]}]
    contents = [{"role": "user", "parts": [{"text": text}]}]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/scripted:{method}", {"contents": contents, "tools": tools}


APIS = [chat, responses, messages, gemini]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_the_model_answers_in_each_api(model: Model, api: Any, stream: bool) -> None:
    text = post(model, *api("interop:hello", stream))
    if not stream:
        assert HELLO in text
        return
    said = "".join(_texts(events(text)))
    assert said.startswith(HELLO)


def _texts(found: list[Any]) -> Iterator[str]:
    """The pieces of text that streamed events carry."""
    for event in found:
        for choice in event.get("choices", []):
            yield choice["delta"].get("content") or ""
        if str(event.get("type")).endswith("delta"):
            delta = event.get("delta")
            yield delta if isinstance(delta, str) else delta.get("text", "")
        for candidate in event.get("candidates", []):
            yield "".join(part.get("text", "") for part in candidate["content"]["parts"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_the_model_calls_the_tool_that_fits(model: Model, api: Any, stream: bool) -> None:
    text = post(model, *api(WRITE, stream))
    whole = text.replace('\\"', '"')
    assert "write_file" in text
    assert '"path": "/tmp/a.txt"' in whole
    assert "written by the model" in whole


def test_what_is_no_api_of_the_models_is_not_found_and_kept(model: Model) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        post(model, "/telemetry", {})
    error.value.close()
    assert error.value.code == 404
    assert "POST /telemetry" in model.unknown


def asked(*parts: tuple[str, str], tools: tuple[str, ...] = ()) -> Say | Call:
    return decide(Request(list(parts), [Tool(name, SCHEMA) for name in tools], stream=True))


def test_the_model_answers_when_the_tool_has_and_uses_commands_where_it_has_no_other_tool() -> None:
    user = ("user", WRITE)
    assert isinstance(asked(user, tools=("Read", "Write")), Call)
    assert asked(user, ("result", "ok"), tools=("Write",)) == Say("Done.")
    again = asked(user, ("result", "ok"), ("user", "interop:hello"), tools=("Write",))
    assert again == Say(HELLO)
    assert asked(("user", "a title for: " + WRITE)) == Say("A title")
    shell = Tool("exec_command", {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]})
    call = decide(Request([user], [Tool("write_stdin"), shell], stream=True))
    assert isinstance(call, Call)
    assert call.name == "exec_command"
    assert call.arguments["cmd"].endswith("> /tmp/a.txt")
    assert CONTENT.strip() in call.arguments["cmd"]


def test_each_agent_is_configured_in_its_own_home_for_the_scripted_model(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1"
    for agent in AGENTS:
        home = tmp_path / agent.name
        home.mkdir()
        installed = tmp_path / "installed" / agent.folder
        sdk = installed / "node_modules" / "@agentclientprotocol" / "sdk"
        sdk.mkdir(parents=True, exist_ok=True)
        (sdk / "package.json").write_text('{"version": "1"}')
        argv, env = agent.start(Place(installed, home, url))
        written = "".join(path.read_text() for path in home.rglob("*") if path.is_file())
        told = " ".join([*argv, *env.values(), written])
        assert (url in told) == (not agent.name.startswith("ts-sdk"))
        assert argv[0] == "node" or argv[0].startswith(str(installed))


def test_the_matrix_says_what_failed_and_what_could_not_be_run() -> None:
    cells = dict.fromkeys(SCENARIOS, "yes")
    cells |= {"load": "-", "read": "no: it\nfails", "allow": "yes (asked)"}
    rows: list[dict[str, Any]] = [
        {"agent": "one", "says": "One 1.0", "cells": cells},
        {"agent": "two", "failed": "npm: not found"},
    ]
    head, rule, one, two, _, *notes = matrix(rows).splitlines()
    assert head.count("|") == rule.count("|") == one.count("|") == two.count("|")
    assert one.startswith("| One 1.0 | yes | yes (asked) |")
    assert "| no |" in one
    assert "not offered" in one
    assert "not run" in two
    assert notes == ["- One 1.0, read: it fails", "- two was not run: npm: not found"]
