"""The bundled agent in version 2: a client of its own, all held against the official schema."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demo_peer import HOLD, AgentError, Peer

INFO = {"name": "peer", "version": "1"}


class Second(Peer):
    """A client of version 2."""

    def start(self, **capabilities: Any) -> Any:
        return self.call("initialize", protocolVersion=2, info=INFO, capabilities=capabilities)

    def states(self, since: int = 0) -> list[dict[str, Any]]:
        return self.updates("state_update", since)

    def stopped(self, reason: str) -> bool:
        return any(state.get("stopReason") == reason for state in self.states())

    def run(self, session_id: str, *blocks: Any) -> dict[str, Any]:
        """Run a prompt to its end; returns the idle update."""
        since = len(self.messages)
        receipt = self.response(self.start_prompt(session_id, *blocks))
        assert set(receipt) == {"messageId"}
        idle: dict[str, Any] = self.wait_for(
            lambda: [s for s in self.states(since) if s["state"] == "idle"], "idle"
        )[0]
        return idle


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Second]:
    with Second(tmp_path / "store", version=2) as connected:
        connected.start(elicitation={"form": {}})
        yield connected


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_a_prompt_is_accepted_at_once_and_ends_with_an_idle(peer: Second, work: Path) -> None:
    session = peer.new_session(work)
    idle = peer.run(session, "count 3")
    assert idle["stopReason"] == "end_turn"
    assert [s["state"] for s in peer.states()] == ["running", "idle"]
    (echo,) = peer.updates("user_message")
    assert echo["content"] == [{"type": "text", "text": "count 3"}]
    assert peer.text() == "1 2 3"


def test_every_request_of_the_language_is_what_version_2_has(peer: Second, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    peer.allow()
    peer.answers["elicitation/create"] = lambda params: {
        "action": "accept",
        "content": {"answer": "yes"},
    }
    session = peer.new_session(work)
    idle = peer.run(
        session,
        "plan a, b!; think aloud; read a.txt; write b.txt: x; edit a.txt: one -> 1; search two; "
        "run printf hello; ask Well? yes | no; permissions 2; show image; show audio; show link; "
        "show resource; table; markdown; usage; mode trust; title T; commands; notice N; compact; "
        "delete b.txt",
    )
    assert idle["stopReason"] == "end_turn"
    assert (work / "a.txt").read_text(encoding="utf-8") == "1\ntwo\n"
    kinds = {update["sessionUpdate"] for update in peer.updates()}
    assert {"plan_update", "tool_call_update", "terminal_update", "terminal_output_chunk"} <= kinds
    assert not kinds & {"tool_call", "plan", "current_mode_update"}
    assert not [m for m in peer.messages if m.get("method", "").startswith(("fs/", "terminal/"))]
    assert {"requires_action", "running", "idle"} == {s["state"] for s in peer.states()}


def test_a_command_is_shown_in_a_terminal_of_the_agents(peer: Second, work: Path) -> None:
    peer.allow()
    session = peer.new_session(work)
    peer.run(session, "run printf hello")
    first, last = peer.updates("terminal_update")
    assert (first["command"], first["cwd"]) == ("printf hello", str(work))
    chunks = [base64.b64decode(u["data"]) for u in peer.updates("terminal_output_chunk")]
    assert b"".join(chunks) == b"hello"
    assert last["exitStatus"]["exitCode"] == 0
    (call,) = {u["toolCallId"] for u in peer.updates("tool_call_update")}
    assert peer.tool_call(call)["content"] == [
        {"type": "terminal", "terminalId": first["terminalId"]}
    ]


def test_a_diff_names_the_files_and_has_a_patch_that_git_applies(peer: Second, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    peer.answers["session/request_permission"] = lambda params: HOLD
    session = peer.new_session(work)
    peer.start_prompt(session, "edit a.txt: one -> 1")
    (request,) = peer.wait_request("session/request_permission")
    subject = request["params"]["subject"]
    (diff,) = subject["toolCall"]["content"]
    assert diff["changes"] == [
        {"operation": "modify", "path": str(work / "a.txt"), "fileType": "text"}
    ]
    assert request["params"]["title"] == "Edit a.txt"
    patch = work / "p.diff"
    patch.write_text(diff["patch"]["text"], encoding="utf-8")
    root = str(work).lstrip("/").count("/") + 2
    command = ["git", "apply", "--unsafe-paths", f"-p{root}", "p.diff"]
    subprocess.run(command, cwd=work, check=True, capture_output=True)
    assert (work / "a.txt").read_text(encoding="utf-8") == "1\ntwo\n"
    peer.cancel(session)
    peer.wait_for(lambda: peer.stopped("cancelled"), "cancelled")


def test_a_failure_and_a_refusal_are_reasons_to_stop(peer: Second, work: Path) -> None:
    session = peer.new_session(work)
    failed = peer.run(session, "fail")
    assert (failed["stopReason"], failed["error"]["code"]) == ("error", -32603)
    assert peer.run(session, "refuse")["stopReason"] == "refusal"


def test_a_cancelled_prompt_ends_as_cancelled(peer: Second, work: Path) -> None:
    session = peer.new_session(work)
    peer.response(peer.start_prompt(session, "wait"))
    peer.cancel(session)
    peer.wait_for(lambda: peer.stopped("cancelled"), "cancelled")


def test_history_comes_with_a_resume_that_asks_for_it(peer: Second, work: Path) -> None:
    session = peer.new_session(work)
    peer.run(session, "count 2")
    peer.call("session/close", sessionId=session)
    since = len(peer.messages)
    again = {"sessionId": session, "cwd": str(work)}
    answer = peer.call("session/resume", **again)
    assert peer.text(since=since) == ""
    assert {option["configId"] for option in answer["configOptions"]} >= {"mode", "verbose"}
    peer.call("session/close", sessionId=session)
    since = len(peer.messages)
    peer.call("session/resume", **again, replayFrom={"type": "start"})
    assert peer.text(since=since) == "1 2"
    assert peer.states(since)[-1]["state"] == "idle"
    with pytest.raises(AgentError, match="replayFrom"):
        peer.call("session/resume", **again, replayFrom={"type": "_elsewhere"})


def test_options_are_set_with_their_type(peer: Second, work: Path) -> None:
    session = peer.new_session(work)
    change = {"sessionId": session, "configId": "verbose"}
    options = peer.call("session/set_config_option", **change, type="boolean", value=True)
    values = {o["configId"]: o["currentValue"] for o in options["configOptions"]}
    assert values["verbose"] is True
    for wrong in ({"type": "id", "value": True}, {"value": True}, {"type": "_x", "value": 1}):
        with pytest.raises(AgentError, match="value") as error:
            peer.call("session/set_config_option", **change, **wrong)
        assert error.value.code == -32602


@pytest.mark.parametrize("method", ["authenticate", "session/load", "session/set_mode", "logout"])
def test_methods_of_version_1_alone_are_not_there(peer: Second, method: str) -> None:
    with pytest.raises(AgentError, match="no method") as error:
        peer.call(method)
    assert error.value.code == -32601


def test_c10_logging_in_and_out_come_with_a_way_to_do_so(tmp_path: Path, work: Path) -> None:
    with Second(tmp_path / "store", version=2, ACP_DEMO_AUTH="1") as peer:
        (method,) = peer.start()["authMethods"]
        assert (method["type"], method["methodId"]) == ("agent", "demo")
        with pytest.raises(AgentError, match="Authenticate"):
            peer.new_session(work)
        peer.call("auth/login", methodId="demo")
        peer.new_session(work)
        peer.call("auth/logout")
        with pytest.raises(AgentError, match="Authenticate"):
            peer.new_session(work)


def test_c80_c81_a_batch_is_answered_by_one_array(peer: Second) -> None:
    echo = {"jsonrpc": "2.0", "method": "_demo/echo"}
    peer.sent += [{**echo, "id": 901}, {**echo, "id": 902}]
    peer.send(
        b'[{"jsonrpc":"2.0","id":901,"method":"_demo/echo","params":{"a":1}},'
        b'{"jsonrpc":"2.0","method":"_demo/none"},7,'
        b'{"jsonrpc":"2.0","id":902,"method":"_demo/echo","params":{"b":2}}]'
    )
    assert peer.response(902) == {"b": 2}
    assert peer.response(901) == {"a": 1}
    assert peer.batches == 1
    refused = [m for m in peer.messages if m.get("id", 0) is None]
    assert [m["error"]["code"] for m in refused] == [-32600]
    peer.send(b"[]")
    peer.send(b'[{"jsonrpc":"2.0","method":"_demo/none"}]')
    assert peer.call("_demo/echo", c=3) == {"c": 3}
    assert peer.batches == 1
