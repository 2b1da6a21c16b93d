"""MCP servers as users write them and as agents are told of them, and our side of MCP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_jupyter.client.mcp import check
from acp_jupyter.errors import UsageError
from acp_jupyter.protocol import mcp, outgoing
from acp_jupyter.protocol.dialects import initialized
from acp_jupyter.services import consents
from acp_jupyter.services.consents import MCP_SERVERS, Consents
from acp_jupyter.services.mcp.files import familiar_files, read_file
from acp_jupyter.services.mcp.servers import read_server
from tests.acp_schema import validate_message

SECRET = "correct-horse-battery"
STDIO = {"command": sys.executable, "args": ["-m", "server"], "env": {"API_TOKEN": "${MY_TOKEN}"}}
HTTP = {"type": "http", "url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer x"}}
SSE = {"type": "sse", "url": "https://mcp.example/sse"}
ENVIRON = {"MY_TOKEN": SECRET, "PATH": "/usr/bin:/bin", "JUPYTER_TOKEN": "the-token-of-jupyter"}


# -- as they are written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        (STDIO, "stdio"),
        ({"command": ["node", "server.js"]}, "stdio"),
        (HTTP, "http"),
        ({"url": "https://mcp.example"}, "http"),
        ({"type": "streamableHttp", "url": "http://127.0.0.1:1"}, "http"),
        (SSE, "sse"),
    ],
)
def test_a_transport_is_what_the_entry_says_or_has(entry: dict[str, Any], transport: str) -> None:
    assert read_server("one", entry).transport == transport


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {"type": "carrier-pigeon", "url": "https://x"},
        {"type": 7, "command": "x"},
        {"command": ""},
        {"command": ["x"], "args": "y"},
        {"command": "x", "args": [1]},
        {"command": "x\0y"},
        {"command": "x", "env": [1]},
        {"type": "http"},
        {"url": "file:///etc/passwd"},
        {"url": "https://x", "headers": "Authorization"},
    ],
)
def test_an_entry_that_is_no_server_is_refused(entry: Any) -> None:
    with pytest.raises(UsageError, match="one"):
        read_server("one", entry)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_a_name_is_printable_and_short(name: str) -> None:
    with pytest.raises(UsageError, match="needs a name"):
        read_server(name, STDIO)


def test_values_of_variables_and_headers_are_in_no_text() -> None:
    for entry in (STDIO | {"env": {"API_TOKEN": SECRET}}, HTTP | {"headers": {"X-Key": SECRET}}):
        server = read_server("one", entry)
        ready = server.ready(ENVIRON, "/")
        assert SECRET not in server.line + repr(server) + repr(ready) + server.digest
        assert SECRET in ready.secrets
        assert SECRET in json.dumps(ready.message)
    assert "(with headers X-Key)" in read_server("one", HTTP | {"headers": {"X-Key": "v"}}).line


def test_the_digest_is_the_same_whatever_the_values_and_tells_commands_apart() -> None:
    one, other = (read_server("one", STDIO | {"env": {"K": value}}) for value in ("a", "b"))
    assert one.digest == other.digest
    assert one.identity != other.identity
    assert one.digest != read_server("one", STDIO | {"args": ["-m", "other"]}).digest


def test_variables_are_put_in_with_defaults_and_those_of_editors() -> None:
    entry = {
        "command": sys.executable,
        "args": ["${workspaceFolder}/x", "${UNSET:-none}", "${env:MY_TOKEN}"],
        "env": {"API_TOKEN": "${MY_TOKEN}"},
    }
    server = read_server("one", entry)
    assert server.taken_from_environment() == ["MY_TOKEN", "UNSET"]
    ready = server.ready(ENVIRON, "/work")
    assert ready.message["args"] == ["/work/x", "none", SECRET]
    assert ready.message["env"] == [{"name": "API_TOKEN", "value": SECRET}]
    assert ready.secrets == {SECRET}


@pytest.mark.parametrize("variable", ["UNSET", "input:password", "JUPYTER_TOKEN"])
def test_a_variable_that_is_not_there_or_is_jupyters_is_an_error(variable: str) -> None:
    server = read_server("one", {"url": f"https://mcp.example/${{{variable}}}"})
    with pytest.raises(UsageError) as caught:
        server.ready(ENVIRON, "/")
    assert "the-token-of-jupyter" not in str(caught.value)


def test_no_server_gets_jupyters_token_under_another_name() -> None:
    server = read_server("one", STDIO | {"env": {"MINE": "the-token-of-jupyter"}})
    with pytest.raises(UsageError, match="belongs to Jupyter"):
        server.ready(ENVIRON, "/")


def test_a_program_is_sent_with_its_absolute_path_where_the_agent_runs_here(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    server = read_server("one", {"command": "./server"}, source="x", cwd=str(tmp_path))
    assert server.ready(ENVIRON, "/").message["command"] == str(program)
    assert server.ready(ENVIRON, "/", here=False).message["command"] == "./server"
    with pytest.raises(UsageError, match="is not there"):
        read_server("one", {"command": "no-such-program"}).ready(ENVIRON, "/")


# -- in files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_a_file_has_its_servers_by_name_without_disabled_ones(tmp_path: Path, key: str) -> None:
    path = tmp_path / ".vscode" / "mcp.json"
    path.parent.mkdir()
    entries = {"a": STDIO, "b": HTTP, "c": SSE | {"disabled": True}}
    path.write_text(json.dumps({key: entries}))
    servers = read_file(path)
    assert list(servers) == ["a", "b"]
    assert servers["a"].source == str(path)
    assert servers["a"].cwd == str(tmp_path)
    assert familiar_files(str(tmp_path))[0] == ".vscode/mcp.json"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mcpServers": {}}', "[" * 100_000])
def test_a_file_without_servers_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"mcp\.json"):
        read_file(path)


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match=path.name):
            read_file(path)


def test_f58_consent_holds_for_exactly_that_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consents, "config_folder", lambda: tmp_path / "config")
    server = read_server("one", STDIO, source="/w/.mcp.json")
    once, always = Consents(MCP_SERVERS), Consents(MCP_SERVERS)
    assert not once.allowed(server.identity)
    once.allow(server.identity, "a server", for_good=False)
    assert once.allowed(server.identity)
    assert not Consents(MCP_SERVERS).allowed(server.identity)
    always.allow(server.identity, "a server", for_good=True)
    assert Consents(MCP_SERVERS).allowed(server.identity)
    assert (tmp_path / "config" / MCP_SERVERS).stat().st_mode & 0o777 == 0o600
    changes: list[dict[str, Any]] = [
        {"args": ["-m", "server", "--evil"]},
        {"command": "/bin/sh"},
        {"env": {"API_TOKEN": "${OTHER}"}},
    ]
    for change in changes:
        other = read_server("one", STDIO | change, source="/w/.mcp.json")
        assert not Consents(MCP_SERVERS).allowed(other.identity)
    elsewhere = read_server("one", STDIO, source="/elsewhere/.mcp.json")
    assert not Consents(MCP_SERVERS).allowed(elsewhere.identity)


# -- as they are sent -------------------------------------------------------------------------


class Told:
    """As much of an agent as `check` looks at."""

    def __init__(self, answer: dict[str, Any], version: int) -> None:
        self.initialized = initialized({"protocolVersion": version, **answer}, version)
        self.version = version
        self.spec = type("Spec", (), {"name": "agent"})


def test_c24_a_transport_that_is_not_advertised_is_an_error_with_the_capability() -> None:
    bare = Told({"agentCapabilities": {}}, 1)
    both = Told({"agentCapabilities": {"mcpCapabilities": {"http": True, "sse": True}}}, 1)
    second = Told({"info": {"name": "x"}, "capabilities": {"session": {"mcp": {"http": {}}}}}, 2)
    ready = {
        name: read_server(name, entry).ready(ENVIRON, "/")
        for name, entry in {"stdio": STDIO, "http": HTTP, "sse": SSE}.items()
    }
    unheard: list[tuple[Any, str, str]] = [
        (bare, "http", "mcpCapabilities.http"),
        (bare, "sse", "mcpCapabilities.sse"),
        (second, "sse", "session.mcp.sse"),
        (second, "stdio", "session.mcp.stdio"),
    ]
    for agent, transport, capability in unheard:
        with pytest.raises(UsageError, match=capability):
            check(agent, ready[transport])
    heard: list[tuple[Any, str]] = [
        (bare, "stdio"),
        (both, "http"),
        (both, "sse"),
        (second, "http"),
    ]
    for agent, transport in heard:
        check(agent, ready[transport])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
def test_servers_have_the_form_of_the_version(version: int, method: str) -> None:
    entries = [STDIO, HTTP] if version == 2 else [STDIO, HTTP, SSE]
    servers = [read_server("one", entry).ready(ENVIRON, "/").message for entry in entries]
    servers.append({"type": "acp", "name": "kernel", "serverId": "s"})
    known = {} if method == "session/new" else {"sessionId": "s"}
    name, params = outgoing.request(version, method, {**known, "cwd": "/", "mcpServers": servers})
    validate_message(
        "to_agent", {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}, version
    )
    assert ("type" in params["mcpServers"][0]) == (version == 2)


# -- the server's side of MCP -----------------------------------------------------------------


async def call(name: str, arguments: Any) -> list[dict[str, Any]]:
    if name == "fail":
        raise mcp.ToolError("it cannot")
    return [mcp.text(f"{name} of {arguments['x']}"), mcp.image("aGk=", "image/png")]


SERVER = mcp.Server(
    {"name": "s", "title": "S", "version": "1"},
    "instructions",
    [mcp.Tool("do", "Do", "does", {"x": {"type": "string"}}), mcp.Tool("fail", "Fail", "fails")],
    call,
)
STATELESS = {"_meta": {mcp.VERSION_KEY: mcp.STATELESS}}


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25"), (None, "2025-11-25")],
)
async def test_a_version_with_initialize_is_agreed_on(asked: Any, agreed: str) -> None:
    answer = await SERVER.answer("initialize", {"protocolVersion": asked})
    assert answer["result"]["protocolVersion"] == agreed
    assert answer["result"]["serverInfo"]["name"] == "s"
    assert await SERVER.answer("ping", None) == {"result": {}}


async def test_the_stateless_version_has_its_fields_in_each_result() -> None:
    found = await SERVER.answer("server/discover", STATELESS)
    assert found["result"]["supportedVersions"] == [mcp.STATELESS]
    listed = (await SERVER.answer("tools/list", STATELESS))["result"]
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    assert "resultType" not in (await SERVER.answer("tools/list", {}))["result"]
    other = {"_meta": {mcp.VERSION_KEY: "2099-01-01"}}
    error = (await SERVER.answer("tools/list", other))["error"]
    assert (error["code"], error["data"]["supported"]) == (-32022, [mcp.STATELESS])


async def test_tools_are_called_with_exactly_their_arguments() -> None:
    good = await SERVER.answer("tools/call", {"name": "do", "arguments": {"x": "y"}})
    assert [block["type"] for block in good["result"]["content"]] == ["text", "image"]
    failed = await SERVER.answer("tools/call", {"name": "fail"})
    assert failed["result"] == {"content": [mcp.text("it cannot")], "isError": True}
    wrong: list[Any] = [
        {},
        {"name": "nothing"},
        {"name": "do"},
        {"name": "do", "arguments": []},
        {"name": "do", "arguments": {"x": 1}},
        {"name": "do", "arguments": {"x": "y", "z": "y"}},
        {"name": ["do"]},
    ]
    for params in wrong:
        assert (await SERVER.answer("tools/call", params))["error"]["code"] == -32602, params
    assert (await SERVER.answer("resources/list", 7))["error"]["code"] == -32601
