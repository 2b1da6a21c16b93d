"""Agents of older dialects: each is understood, and answered in its own form.

The shapes that such agents send are a corpus (`golden/seeds_*.json`), one file for each dialect:

- 000 and 004: the protocol's first form, without modes, options and ``_meta``.
- 001: the oldest, in which much has other names.
- 002: an early draft of version 2.
- 003: version 1 before some of its parts were renamed or dropped.

What comes of each shape stands beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from acp_jupyter.connection.connection import request_error
from acp_jupyter.errors import Refusal, RemoteProtocolError, TurnCancelled, UsageError
from acp_jupyter.protocol import auth, dialects, elicitation, older, providers
from acp_jupyter.services.agents import from_name
from acp_jupyter.services.policy import Policy
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import Transcript
from tests.conftest import trio_wait_until
from tests.recordings import record, replay
from tests.test_client import PROMPT, open_client, shown
from tests.test_client_obligations import Silent
from tests.transcripts import compact_transcript

GOLDEN = Path(__file__).parent / "golden"
CORPUS = {
    f"{path.stem}-{number}-{shape['method'].replace('/', '_')}": shape
    for path in sorted(GOLDEN.glob("seeds_*.json"))
    for number, shape in enumerate(json.loads(path.read_text("utf-8")))
}


# -- the corpus -----------------------------------------------------------------------------------


def read(shape: dict[str, Any]) -> Any:
    """What the client makes of one shape, as plain JSON."""
    given = shape.get("params", shape.get("result", shape.get("error")))
    match shape["method"]:
        case "initialize":
            found = dialects.initialized(given, 1)
            methods = [(m.id, m.kind) for m in auth.auth_methods(found)]
            return {
                "name": found.name,
                "auth": [*map(list, methods)],
                "proves": older.proves(given),
            }
        case "session/new" | "session/load":
            state = dialects.session_state(given)
            modes = [mode["id"] for mode in state.modes]
            models = [model["modelId"] for model in state.models]
            current = {"mode": state.current_mode, "model": state.current_model}
            return {"modes": modes, "models": models, **current, "proves": older.proves(given)}
        case "session/prompt" if "error" in shape:
            assert isinstance(given, dict)
            error = request_error("it failed", given)
            visits = elicitation.required(error.data)
            return {"code": error.code, "visits": [visit.url for visit in visits]}
        case "session/prompt":
            return dialects.stop_reason(given)
        case "session/update":
            found_updates = dialects.session_updates(given)
            assert found_updates is not None
            transcript = Transcript()
            reducer = Reducer(transcript, shape.get("version", 1))
            reducer.start_turn([], 0.0)
            for update in found_updates[1]:
                reducer.apply(update, 1.0)
            return json.loads(json.dumps(compact_transcript(transcript)))
        case "session/request_permission":
            asked = dialects.permission_request(given)
            answers = [
                dialects.permission_response(asked.form, option, cancelled=False)
                for option in asked.options
            ]
            cancelled = dialects.permission_response(asked.form, None, cancelled=True)
            call = (asked.tool_call or {}).get("toolCallId")
            return {"title": asked.title, "call": call, "answers": answers, "cancelled": cancelled}
        case "providers/list":
            return [provider.id for provider in providers.providers(given)]
    raise AssertionError(shape)


@pytest.mark.parametrize("name", CORPUS)
def test_a_shape_of_an_older_dialect_is_read_as_the_corpus_says(name: str) -> None:
    assert read(CORPUS[name]) == CORPUS[name]["read"]


def test_the_corpus_has_every_dialect() -> None:
    files = {name.split("-")[0] for name in CORPUS}
    assert files == {f"seeds_{number}" for number in ("000", "001", "002", "003", "004")}


@pytest.mark.parametrize("name", CORPUS)
def test_no_shape_of_an_older_dialect_fails_where_any_one_field_is_missing_or_null(
    name: str,
) -> None:
    """Agents leave out what they do not have; what can then not be meant is refused in words."""
    shape = CORPUS[name]
    key = next(key for key in ("params", "result", "error") if key in shape)
    if type(shape[key]) is not dict:
        return
    for field in shape[key]:
        for changed in (
            {k: v for k, v in shape[key].items() if k != field},
            {**shape[key], field: None},
        ):
            try:
                read({**shape, key: changed})
            except (Refusal, RemoteProtocolError):
                pass  # in words
            except AssertionError:  # of a session that is not named, there is nothing to show
                if field != "sessionId":
                    raise


# -- an agent of the oldest dialect, over the wire ------------------------------------------------

OLDEST = {
    "protocolVersion": 1,
    "agentInfo": {"name": "oldest"},
    "agentCapabilities": {"modes": True, "plan": True},
    "authMethods": ["none"],
}


def initialize(agent: Any) -> None:
    agent.reply(agent.given["initialize"])


def new_session(agent: Any) -> None:
    modes = [{"id": "code", "name": "Code"}, {"id": "plan", "name": "Plan"}]
    agent.reply({"sessionId": "session-1", "modes": modes, "currentModeId": "code"})


def plain_session(agent: Any) -> None:
    agent.reply({"sessionId": "session-1"})


def set_mode(agent: Any) -> None:
    agent.reply({})


def tell(agent: Any) -> None:
    """Everything that the dialect has an update for, then an end that is only its own."""

    def told(**update: Any) -> None:
        params = {"sessionId": agent.session_id, **update}
        agent.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    for index, delta in ((0, "one "), (2, "three"), (1, "two ")):
        told(contentChunk={"id": "part", "index": index, "delta": delta})
    told(plan={"steps": [{"title": "First step", "status": "completed"}]})
    call = {"toolCallId": "c", "title": "Change it", "kind": "edit", "status": "pending"}
    diff = {"path": "/w/a.py", "oldContent": "before\n", "newContent": "after\n"}
    told(toolCall={**call, "content": [{"type": "text", "text": "because"}]})
    told(toolCall={"toolCallId": "c", "status": "completed", "diff": diff})
    told(currentModeId="plan")
    agent.end("tool_error")


def ask(agent: Any) -> None:
    about = {"permissionId": "p", "title": "Remove it", "kind": "delete"}
    agent.ask("session/request_permission", **about)


def use(agent: Any) -> None:
    path = agent.given["path"]
    agent.ask("fs/write_text_file", path=path, content="written")
    agent.ask("fs/read_text_file", path=path, line=1, limit=1)
    command = {"command": agent.given["python"], "args": ["-c", agent.given["code"]]}
    for more in ({"env": {"SOME": "value"}, "outputBytesLimit": 5}, {}):
        made = agent.ask("terminal/create", **command, **more)["result"]
        agent.ask("terminal/wait_for_exit", **made)
        agent.ask("terminal/output", **made)
        agent.ask("terminal/release", **made)


def dialect(script: Any, given: dict[str, Any] | None = None, **functions: Any) -> Any:
    """An agent that shows by its login methods that it speaks the oldest dialect."""
    given = {"initialize": OLDEST, **(given or {})}
    made = script(given=given, initialize=initialize, **functions)
    # Held here by what they are: the schema has no such requests and answers.
    made.older_methods |= {"session/prompt", "session/request_permission", "terminal/output"}
    return made


def spec_of(made: Any, **settings: Any) -> Any:
    return from_name("mine", {"mine": {"command": list(made.argv), **settings}})


async def test_what_the_oldest_dialect_tells_is_shown_and_its_prompts_are_content(
    script: Any, tmp_path: Path
) -> None:
    made = dialect(script, new_session=new_session, set_mode=set_mode, prompt=tell)
    async with open_client() as client:
        session = await client.connect(spec_of(made), str(tmp_path))
        assert [option.id for option in session.options] == ["mode"]
        await session.set_option("mode", "plan")
        await session.set_option("mode", "code")
        turn = await session.prompt(PROMPT)
        assert turn.stop_reason == "tool_error"
        text = shown(session)
        assert session.transcript.info.current_mode == "plan"
    for said in ("one two three", "First step", "Change it", "because", "/w/a.py", "after"):
        assert said in text
    assert made.received("session/prompt")[0]["params"] == {
        "sessionId": "session-1",
        "content": PROMPT,
    }
    assert [m["params"]["modeId"] for m in made.received("session/set_mode")] == ["plan", "code"]


@pytest.mark.parametrize(
    ("policy", "decision"), [("allow", {"decision": "once"}), ("deny", {"decision": "reject"})]
)
async def test_a_permission_of_the_oldest_dialect_is_decided_in_its_form(
    script: Any, tmp_path: Path, policy: Literal["allow", "deny"], decision: dict[str, Any]
) -> None:
    made = dialect(script, new_session=new_session, prompt=ask)
    async with open_client() as client:
        client.policy = Policy(policy)
        session = await client.connect(spec_of(made), str(tmp_path))
        await session.prompt(PROMPT)
        assert "Remove it" in shown(session)
    assert made.notes("session/request_permission") == [{"result": decision}]


async def test_a_cancel_withdraws_a_question_of_the_oldest_dialect_in_its_form(
    script: Any, tmp_path: Path
) -> None:
    made = dialect(script, new_session=new_session, prompt=ask)
    async with open_client() as client:
        session = await client.connect(spec_of(made), str(tmp_path))
        session.permissions.askers = [Silent()]
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await trio_wait_until(lambda: session.permissions.pending, 30)
                session.cancel()

            nursery.start_soon(cancel)
            with pytest.raises(TurnCancelled):
                await session.prompt(PROMPT)
        await trio_wait_until(lambda: made.notes("session/request_permission"), 30)
    answer = {"result": {"decision": "reject", "cancelled": True}}
    assert made.notes("session/request_permission") == [answer]


async def test_files_and_terminals_serve_the_oldest_dialect_in_its_form(
    script: Any, tmp_path: Path
) -> None:
    code = "import os; print(os.environ.get('SOME', 'none'), end='')"
    given = {"path": str(tmp_path / "new/a.txt"), "python": sys.executable, "code": code}
    made = dialect(script, given, new_session=new_session, prompt=use)
    async with open_client() as client:
        client.policy = Policy("allow")
        session = await client.connect(spec_of(made), str(tmp_path))
        await session.prompt(PROMPT)
    assert made.notes("fs/write_text_file") == [{"result": {}}]
    assert made.notes("fs/read_text_file") == [{"result": {"content": "written"}}]
    first, second = (note["result"] for note in made.notes("terminal/output"))
    assert (first["output"], second["output"]) == ("value", "none")
    for output in (first, second):  # in its form and in the protocol's
        assert output["exitCode"] == output["exitStatus"]["exitCode"] == 0
        assert output["signal"] is None
    assert made.notes("terminal/wait_for_exit")[0]["result"]["exitCode"] == 0


async def test_an_agent_shows_its_dialect_by_its_login_or_its_modes_and_else_is_told_by_the_user(
    script: Any, tmp_path: Path
) -> None:
    """Never both forms at once (C63)."""
    official = {**OLDEST, "authMethods": []}
    for expected, given, opens, settings in (
        ("content", OLDEST, plain_session, {}),
        ("content", official, new_session, {}),
        ("prompt", official, plain_session, {}),
        ("content", official, plain_session, {"dialect": "seed001"}),
        ("prompt", OLDEST, new_session, {"dialect": "official"}),
    ):
        made = dialect(script, {"initialize": given}, new_session=opens)
        async with open_client() as client:
            session = await client.connect(spec_of(made, **settings), str(tmp_path))
            await session.prompt(PROMPT)
        (sent,) = made.received("session/prompt")
        assert set(sent["params"]) == {"sessionId", expected}


async def test_a_run_of_an_agent_that_was_said_to_speak_the_oldest_dialect_is_replayed(
    script: Any, tmp_path: Path
) -> None:
    official = {**OLDEST, "authMethods": []}
    made = dialect(script, {"initialize": official}, new_session=plain_session, prompt=tell)
    path = tmp_path / "x.acp.jsonl"
    then = await record(path, spec_of(made, dialect="seed001"), tmp_path / "then", "go")
    assert "one two three" in json.dumps(then)
    assert await replay(path, tmp_path / "now", "go") == then


def test_a_dialect_that_nobody_knows_is_refused() -> None:
    for agent in ({"command": "x"}, {"url": "wss://far.example/acp"}):
        with pytest.raises(UsageError, match="cannot be read") as refused:
            from_name("mine", {"mine": {**agent, "dialect": "klingon"}})
        assert "seed001" in refused.value.remedy
        spec = from_name("mine", {"mine": {**agent, "dialect": older.DIALECT}})
        assert spec.dialect == "seed001"


# -- what goes out --------------------------------------------------------------------------------


def test_mcp_servers_go_to_the_oldest_dialect_as_local_and_remote_with_maps() -> None:
    pair = {"name": "A", "value": "b"}
    servers = [
        {"name": "n", "command": "/bin/x", "args": ["y"], "env": [pair]},
        {"name": "m", "type": "http", "url": "https://m.example", "headers": [pair]},
        {"name": "s", "type": "sse", "url": "https://s.example", "headers": []},
        {"name": "o", "type": "acp", "id": "1"},
    ]
    given = {"cwd": "/w", "mcpServers": servers}
    assert older.request("session/new", given) == {
        "cwd": "/w",
        "mcpServers": [
            {"type": "local", "command": "/bin/x", "args": ["y"], "environment": {"A": "b"}},
            {"type": "remote", "url": "https://m.example", "headers": {"A": "b"}},
            {"type": "remote", "url": "https://s.example", "headers": {}},
            servers[3],
        ],
    }
    assert given["mcpServers"] is servers
    assert older.request("session/load", given) == older.request("session/new", given)


def test_resources_in_a_prompt_go_to_the_oldest_dialect_flat() -> None:
    resource = {"uri": "file:///a", "text": "t", "mimeType": "text/plain"}
    blocks = [{"type": "text", "text": "x"}, {"type": "resource", "resource": resource}]
    sent = older.request("session/prompt", {"sessionId": "s", "prompt": blocks})
    flat = {"type": "embedded_resource", "uri": "file:///a", "text": "t"}
    assert sent == {"sessionId": "s", "content": [blocks[0], flat]}
    assert dialects.content_block(flat) == {
        "type": "resource",
        "resource": {"uri": "file:///a", "text": "t"},
    }


@pytest.mark.parametrize(
    "params", [None, [], {"sessionId": "s"}, {"sessionId": "s", "modeId": "plan"}]
)
def test_all_else_goes_to_the_oldest_dialect_as_to_any_agent(params: Any) -> None:
    for method in ("session/set_mode", "session/cancel", "session/prompt", "_x/y"):
        assert older.request(method, params) == params
