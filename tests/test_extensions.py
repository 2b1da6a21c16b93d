"""Methods of users and agents that the protocol does not have, `_meta`, and earlier sessions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import acp_jupyter as acp
from acp_jupyter.errors import RequestError, UsageError
from acp_jupyter.protocol.listing import Listed, page
from tests.conftest import wait_until

FULL = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}, "delete": {}},
}
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def connect(made: Any, folder: Path) -> acp.Agent:
    return acp.connect(list(made.argv), cwd=folder, permissions="deny")


@pytest.mark.obligation("C66", "C67")
def test_users_handle_requests_and_notifications_that_the_protocol_does_not_have(
    script: Any, tmp_path: Path
) -> None:
    """C66, C67."""

    def prompt(agent: Any) -> None:
        agent.send({"jsonrpc": "2.0", "method": "_x/tell", "params": {"n": 1}})
        agent.send({"jsonrpc": "2.0", "method": "craft/tell", "params": {"n": 2}})
        agent.send({"jsonrpc": "2.0", "method": "_x/ignored", "params": {}})
        for method in ("_x/ask", "craft/drainMidTurnQueue", "_x/broken", "_x/unknown"):
            agent.note(method, agent.answer(agent.request(method, {"of": method})))

    made = script(prompt=prompt)
    made.older_methods.add("craft/drainMidTurnQueue")
    told: list[Any] = []
    with connect(made, tmp_path) as agent:
        agent.on_extension("_x/tell", told.append)
        agent.on_extension("craft/tell", told.append)
        agent.on_extension("_x/ask", lambda params: {"asked": params["of"]})
        agent.on_extension("craft/drainMidTurnQueue", lambda _: threading.current_thread().name)
        agent.on_extension("_x/broken", lambda params: params["missing"])
        agent.new_session().prompt("go")
        wait_until(lambda: len(told) == 2)
        assert agent.ignored_notifications == {"_x/ignored": 1}
    assert told == [{"n": 1}, {"n": 2}]
    assert made.notes("_x/ask")[0]["result"] == {"asked": "_x/ask"}
    assert made.notes("craft/drainMidTurnQueue")[0]["result"] != "MainThread"
    assert made.notes("_x/broken")[0]["error"]["code"] == -32603
    assert "KeyError" in made.notes("_x/broken")[0]["error"]["message"]
    assert made.notes("_x/unknown")[0]["error"]["code"] == -32601


def test_a_request_of_the_users_own_is_sent_and_one_of_the_protocol_is_not(
    script: Any, tmp_path: Path
) -> None:
    def release(agent: Any) -> None:
        agent.reply({"version": 7})

    made = script(release=release)
    with connect(made, tmp_path) as agent:
        assert agent.ext_request("_x/release", {"a": 1}) == {"version": 7}
        agent.ext_notify("_x/note", {"b": 2})
        with pytest.raises(RequestError, match="-32601"):
            agent.ext_request("_x/other")
        for method in ("session/prompt", "fs/read_text_file", "$/cancel_request", ""):
            with pytest.raises(UsageError):
                agent.ext_request(method)
            with pytest.raises(UsageError):
                agent.on_extension(method, print)
        with pytest.raises(UsageError, match="no JSON"):
            agent.ext_request("_x/release", {"a": object()})
        wait_until(lambda: made.received("_x/note"))
    assert [m["params"] for m in made.received("_x/release")] == [{"a": 1}]


@pytest.mark.obligation("C63", "C65")
def test_meta_goes_along_where_it_is_given_and_comes_with_what_the_agent_sends(
    script: Any, tmp_path: Path
) -> None:
    """C63-C65."""

    def prompt(agent: Any) -> None:
        meta = {"x/y": [1]}
        agent.update(sessionUpdate="tool_call", toolCallId="c", title="t", _meta=meta)

    made = script(prompt=prompt)
    with connect(made, tmp_path) as agent:
        session = agent.new_session(meta=TRACE)
        turn = session.prompt("go", meta={**TRACE, "x/z": True})
        session.prompt("again")
        (call,) = turn.tool_calls
        assert call.meta == {"x/y": [1]}
        with pytest.raises(UsageError, match="no JSON"):
            session.prompt("go", meta={"x": object()})
    assert made.received("session/new")[-1]["params"]["_meta"] == TRACE
    first, second = (m["params"] for m in made.received("session/prompt"))
    assert first["_meta"] == {**TRACE, "x/z": True}
    assert "_meta" not in second


@pytest.mark.obligation("C18", "C26")
def test_earlier_sessions_are_listed_page_by_page_with_cursors_sent_back_as_they_came(
    script: Any, tmp_path: Path
) -> None:
    """C18, C25-C27."""

    def list_them(agent: Any) -> None:
        params = agent.wait(lambda m: m.get("id") == agent.current_id)["params"]
        pages = {None: ("ü=/?", ["a", "b"]), "ü=/?": ("0", ["b", "c"]), "0": (None, ["d"])}
        following, idents = pages[params.get("cursor")]
        sessions = [{"sessionId": each, "cwd": "/w", "title": each.upper()} for each in idents]
        agent.reply({"sessions": [*sessions, {"cwd": "/no-id"}, 7], "nextCursor": following})

    made = script(capabilities=FULL, list=list_them)
    with connect(made, tmp_path) as agent:
        assert [item.session_id for item in agent.list_sessions()] == ["a", "b", "c", "d"]
        assert agent.list_sessions(tmp_path)[0] == Listed("a", "/w", "A")
    sent = [message["params"] for message in made.received("session/list")]
    assert sent[:3] == [{}, {"cursor": "ü=/?"}, {"cursor": "0"}]
    assert sent[4] == {"cwd": str(tmp_path), "cursor": "ü=/?"}


def test_a_list_that_goes_round_in_circles_ends(script: Any, tmp_path: Path) -> None:
    def list_them(agent: Any) -> None:
        agent.reply({"sessions": [{"sessionId": "a", "cwd": "/w"}], "nextCursor": "again"})

    made = script(capabilities=FULL, list=list_them)
    with connect(made, tmp_path) as agent:
        assert len(agent.list_sessions()) == 1
    assert len(made.received("session/list")) < 5


@pytest.mark.obligation("C25")
@pytest.mark.parametrize("cursor", [None, "", 7, [], {}])
def test_c25_what_is_no_cursor_is_the_end(cursor: Any) -> None:
    assert page({"sessions": [], "nextCursor": cursor}) == ([], None)


@pytest.mark.obligation("C15", "C16", "C17", "C19", "C21")
def test_a_session_is_loaded_resumed_forked_closed_and_deleted(script: Any, tmp_path: Path) -> None:
    """C15-C17, C19, C21, C22; an agent may replay when it resumes, too."""

    def load_session(agent: Any) -> None:
        agent.text("from before", "old")
        agent.reply({})

    def resume(agent: Any) -> None:
        agent.text("from before, too", "other")
        agent.reply({})

    def fork(agent: Any) -> None:
        agent.text("replayed for the fork", "forked")
        agent.reply({"sessionId": "forked"})

    def close(agent: Any) -> None:
        agent.reply({})

    made = script(
        capabilities=FULL,
        load_session=load_session,
        resume=resume,
        fork=fork,
        close=close,
        delete=close,
    )
    with connect(made, tmp_path) as agent:
        loaded = agent.load_session("old")
        with pytest.raises(UsageError, match="open already"):
            agent.load_session("old")
        resumed = agent.resume_session("other", meta=TRACE)
        forked = loaded.fork()
        assert [each.id for each in agent.sessions] == ["old", "other", "forked"]
        for session in (loaded, resumed, forked):
            (entry,) = session._live.transcript.turns[0].entries
            assert type(entry).__name__ == "HistoryEntry"
        forked.close()
        with pytest.raises(UsageError, match="not open"):
            forked.fork()
        loaded.delete()
        resumed.prompt("still there")
    where = {"cwd": str(tmp_path), "mcpServers": []}
    assert made.received("session/load")[0]["params"] == {"sessionId": "old", **where}
    resume_params = made.received("session/resume")[0]["params"]
    assert resume_params == {"sessionId": "other", **where, "_meta": TRACE}
    assert made.received("session/fork")[0]["params"] == {"sessionId": "old", **where}
    assert made.received("session/close")[0]["params"] == {"sessionId": "forked"}
    assert made.received("session/delete")[0]["params"] == {"sessionId": "old"}


@pytest.mark.obligation("C5", "C15", "C16", "C17", "C18", "C19")
def test_what_is_not_advertised_is_not_called(script: Any, tmp_path: Path) -> None:
    made = script()
    with connect(made, tmp_path) as agent:
        session = agent.new_session()
        for call in (
            agent.list_sessions,
            lambda: agent.load_session("x"),
            lambda: agent.resume_session("x"),
            session.fork,
            session.close,
            session.delete,
        ):
            with pytest.raises(UsageError, match="cannot"):
                call()
    assert {message["method"] for message in made.received()} == {"initialize", "session/new"}
