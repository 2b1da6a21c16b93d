"""The bundled agent against the official schema, and the oracle itself against wrong messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acp_schema import SchemaMismatch, definition, definition_names, validate_message
from tests.demo_peer import ALL_OFFERS, Peer

EVERY_REQUEST = """\
help
think aloud
read a.txt
write a.txt: x
edit a.txt: x -> y
search y
run true
ask Well? yes | no
permissions 2
show image; show audio; show link; show resource
table; markdown; count 3; text 100; slow 1
usage; mode trust; title T; commands; notice N; compact
plain text; /bogus
plan a, b
think again
"""


def _use_everything(peer: Peer, work: Path) -> None:
    """Serve and call everything that the stable protocol has."""
    peer.allow()
    peer.answers["fs/read_text_file"] = lambda params: {"content": "x"}
    peer.answers["fs/write_text_file"] = lambda params: {}
    peer.answers["elicitation/create"] = lambda params: {
        "action": "accept",
        "content": {"answer": "yes"},
    }
    peer.answers["terminal/create"] = lambda params: {"terminalId": "t1"}
    peer.answers["terminal/wait_for_exit"] = lambda params: {"exitCode": 0}
    peer.answers["terminal/output"] = lambda params: {"output": "ok", "truncated": False}
    peer.initialize(ALL_OFFERS)
    peer.call("authenticate", methodId="demo")
    session_id = peer.new_session(work)
    assert peer.prompt(session_id, EVERY_REQUEST) == "end_turn"
    peer.call("session/set_mode", sessionId=session_id, modeId="ask")
    peer.call("session/set_config_option", sessionId=session_id, configId="mode", value="plan")
    peer.call("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
    peer.call("session/close", sessionId=session_id)
    peer.call("session/resume", sessionId=session_id, cwd=str(work))
    peer.call("session/list")
    peer.call("session/delete", sessionId=session_id)
    peer.call("logout")


def test_the_agent_uses_the_whole_stable_protocol_and_nothing_outside_it(
    tmp_path: Path,
) -> None:
    with Peer(tmp_path / "store", ACP_DEMO_AUTH="1") as peer:
        _use_everything(peer, tmp_path)
        peer.close()
        ours = {m["id"]: m["method"] for m in peer.sent if "method" in m}
        for message in peer.messages:
            # The stable schema alone: nothing that is still unstable is sent, but for one offer.
            offered = message.get("result", {}).get("agentCapabilities", {})
            offered.get("sessionCapabilities", {}).pop("fork", None)
            validate_message(
                "to_client",
                message,
                unstable=False,
                method_of_response=ours.get(message.get("id")),
            )
    kinds = {
        kind["properties"]["sessionUpdate"]["const"]
        for kind in definition(1, False, "SessionUpdate")["oneOf"]
    }
    assert {update["sessionUpdate"] for update in peer.updates()} == kinds
    served = {method for _, method, kind in definition_names(1, False) if kind == "Request"}
    used = {m["method"] for m in [*peer.messages, *peer.sent] if "method" in m and "id" in m}
    # `terminal/kill` is used when a turn is cancelled, and has its test there.
    assert used == served - {"terminal/kill"}


def _update(**update: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": update},
    }


TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    "message",
    [
        _update(sessionUpdate="agent_message_chunk", content=TEXT),
        _update(sessionUpdate="tool_call", toolCallId="1", title="t", rawInput={"any": ["x"]}),
        _update(sessionUpdate="agent_message_chunk", content=TEXT, _meta={"free": {"form": 1}}),
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "_mine/own", "params": [1]},
    ],
)
def test_the_oracle_accepts_what_the_protocol_allows(message: Any) -> None:
    validate_message("to_client", message)


@pytest.mark.parametrize(
    "message",
    [
        _update(sessionUpdate="_unknown"),
        _update(sessionUpdate="agent_message_chunk"),
        _update(sessionUpdate="agent_message_chunk", content=TEXT, extra=1),
        _update(sessionUpdate="agent_message_chunk", content={**TEXT, "colour": "red"}),
        _update(sessionUpdate="plan", entries=[{"content": "x", "priority": "urgent"}]),
        {"jsonrpc": "2.0", "method": "session/prompt", "params": {}},
        {"jsonrpc": "2.0", "method": "no/such"},
        {"jsonrpc": "1.0", "method": "_mine/own"},
        {"jsonrpc": "2.0", "method": "_mine/own", "extra": 1},
        {"jsonrpc": "2.0", "id": 1.5, "method": "_mine/own"},
        [],
    ],
)
def test_the_oracle_rejects_what_the_protocol_does_not_allow(message: Any) -> None:
    with pytest.raises(SchemaMismatch):
        validate_message("to_client", message)


def test_the_oracle_finds_responses_by_the_method_they_answer() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}
    validate_message("to_client", answer, method_of_response="session/prompt")
    with pytest.raises(SchemaMismatch):
        validate_message("to_client", answer, method_of_response="session/list")
    with pytest.raises(SchemaMismatch):
        validate_message("to_agent", answer, method_of_response="session/prompt")
    with pytest.raises(ValueError, match="method_of_response"):
        validate_message("to_client", answer)
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": "x"}}
    with pytest.raises(SchemaMismatch):
        validate_message("to_client", error, method_of_response="session/prompt")


def test_the_oracle_knows_both_versions_and_what_is_unstable() -> None:
    usage = {"totalTokens": 2, "inputTokens": 1, "outputTokens": 1}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn", "usage": usage}}
    validate_message("to_client", answer, method_of_response="session/prompt")
    with pytest.raises(SchemaMismatch):
        validate_message("to_client", answer, unstable=False, method_of_response="session/prompt")
    state = _update(sessionUpdate="state_update", state="idle", stopReason="end_turn")
    validate_message("to_client", state, version=2)
    with pytest.raises(SchemaMismatch):
        validate_message("to_client", state, version=1, unstable=False)
