"""Obligations of the protocol that no other test is about: see `tests.obligations`."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

import acp_jupyter as acp
from acp_jupyter.client.agent import Agent
from acp_jupyter.errors import AuthenticationRequired, TurnCancelled, UsageError
from acp_jupyter.protocol import dialects, outgoing
from acp_jupyter.protocol.methods import AGENT_METHODS
from acp_jupyter.rendering import text
from acp_jupyter.services.agents import demo_agent, from_command
from acp_jupyter.services.remote_agents import from_address
from acp_jupyter.session.options import options
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import PlanEntry, SessionInfo, Transcript
from tests.acp_schema import SchemaMismatch
from tests.conftest import trio_wait_until
from tests.test_client import PROMPT, open_client, shown
from tests.wire_check import Wire

# -- the beginning --------------------------------------------------------------------------------


@pytest.mark.obligation("C1", "C28", "C77", "C82", "C83")
async def test_each_step_waits_for_the_one_before_in_messages_of_their_own(
    script: Any, tmp_path: Path
) -> None:
    def initialize(agent: Any) -> None:
        agent.sleep(0.2)
        agent.note("initialize", [m["method"] for m in agent.received])
        agent.reply({"protocolVersion": 1})

    def new_session(agent: Any) -> None:
        agent.sleep(0.2)
        agent.note("session/new", [m["method"] for m in agent.received])
        agent.reply({"sessionId": "session-1"})

    made = script(initialize=initialize, new_session=new_session)
    async with open_client() as client:

        async def prompt_as_soon_as_possible() -> None:
            while True:
                try:
                    session = await client.session()
                except UsageError:
                    await trio.sleep(0.01)
                else:
                    await session.prompt(PROMPT)
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt_as_soon_as_possible)
            await client.connect(from_command(made.argv), str(tmp_path))
    assert made.notes("initialize") == [["initialize"]]
    assert made.notes("session/new") == [["initialize", "session/new"]]
    lines = [json.loads(e["received"]) for e in made.entries() if "received" in e]
    assert all(type(line) is dict and line["jsonrpc"] == "2.0" for line in lines)
    idents = [line["id"] for line in lines]
    assert all(type(ident) is int for ident in idents)
    assert len(idents) == len(set(idents)) == 3


@pytest.mark.obligation("C13")
def test_a_login_in_a_terminal_is_offered_only_where_the_user_can_run_the_command(
    tmp_path: Path,
) -> None:
    for spec, offered in ((demo_agent(), True), (from_address("wss://far.example/acp"), False)):
        agent = Agent(spec, cwd=str(tmp_path), environ={}, client_version="1.0")
        assert agent._own_command is offered  # `initialize` declares it, see test_client


GRANTS: dict[str, tuple[str, ...]] = {
    name: method.needs for name, method in AGENT_METHODS.items() if method.needs
}


def granting(needs: list[tuple[str, ...]]) -> dict[str, Any]:
    capabilities: dict[str, Any] = {}
    for *path, last in needs:
        inner = capabilities
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = True if last == "loadSession" else {}
    return capabilities


@pytest.mark.obligation("C6", "C9", "C15", "C16", "C17", "C18", "C19")
def test_of_any_combination_of_capabilities_exactly_those_methods_are_offered() -> None:
    needed = sorted(set(GRANTS.values()))
    assert len(needed) > 6
    for chosen in itertools.product([False, True], repeat=len(needed)):
        granted = [needs for needs, is_granted in zip(needed, chosen, strict=True) if is_granted]
        answer = {"protocolVersion": 1, "agentCapabilities": granting(granted)}
        agent = dialects.initialized(answer, 1)
        for name, needs in GRANTS.items():
            assert outgoing.offers(agent, name) == (needs in granted), (name, granted)
        assert all(outgoing.offers(agent, name) for name in set(AGENT_METHODS) - set(GRANTS))


@pytest.mark.obligation("C8", "C21")
def test_folders_that_are_given_relative_are_sent_absolute(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "more"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    made = script(capabilities={"sessionCapabilities": {"additionalDirectories": {}, "list": {}}})
    with acp.connect(list(made.argv), cwd="own", roots=["../more"], permissions="deny") as agent:
        agent.new_session()
        with pytest.raises(acp.ACPError):  # it has no such method after all
            agent.list_sessions(".")
    (new,) = made.received("session/new")
    assert new["params"]["cwd"] == str(tmp_path / "own")
    assert new["params"]["additionalDirectories"] == [str(tmp_path / "more")]
    assert made.received("session/list")[0]["params"]["cwd"] == str(tmp_path / "own")


@pytest.mark.obligation("C14")
async def test_who_has_logged_out_is_asked_to_log_in_and_the_session_goes_on(
    script: Any, tmp_path: Path
) -> None:
    def prompt(agent: Any) -> None:
        done = [m["method"] for m in agent.received if m["method"] in ("logout", "authenticate")]
        if done[-1:] == ["logout"]:
            agent.reply(error={"code": -32000, "message": "Authentication required"})
        else:
            agent.text("welcome")
            agent.end()

    def initialize(agent: Any) -> None:
        methods = [{"id": "a", "name": "Account"}]
        capabilities: Any = {"auth": {"logout": {}}}
        agent.reply(
            {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": methods}
        )

    def yes(agent: Any) -> None:
        agent.reply({})

    made = script(initialize=initialize, prompt=prompt, logout=yes, authenticate=yes)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        assert client.agent is not None
        await session.prompt(PROMPT)
        await client.agent.request("logout", {})
        with pytest.raises(AuthenticationRequired):
            await session.prompt(PROMPT)
        assert client.agent.alive
        await client.agent.request("authenticate", {"methodId": "a"})
        await session.prompt(PROMPT)
        assert shown(session).count("welcome") == 2


@pytest.mark.obligation("C20", "C26", "C27")
async def test_what_a_list_says_of_a_session_is_shown_and_not_sent_back(
    script: Any, tmp_path: Path
) -> None:
    def list_them(agent: Any) -> None:
        about = {"cwd": "/elsewhere", "additionalDirectories": ["/secret", "/etc"]}
        agent.reply({"sessions": [{"sessionId": "old", **about}], "nextCursor": None})

    def load_session(agent: Any) -> None:
        agent.text("from before", "old")
        agent.reply({})

    capabilities = {
        "loadSession": True,
        "sessionCapabilities": {"list": {}, "additionalDirectories": {}},
    }
    made = script(capabilities=capabilities, list=list_them, load_session=load_session)
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
        assert client.agent is not None
        lifecycle = client.agent.lifecycle
        (found,), whole = await lifecycle.listed()
        assert (found.session_id, found.cwd, whole) == ("old", "/elsewhere", True)
        session = await lifecycle.load("old", str(tmp_path), policy=client.policy)
        assert session.roots.paths == (str(tmp_path),)
        await lifecycle.listed()
    (load,) = made.received("session/load")
    assert "additionalDirectories" not in load["params"]
    assert load["params"]["cwd"] == str(tmp_path)
    assert [m["params"] for m in made.received("session/list")] == [{}, {}]  # no cursor is kept


# -- a cancel -------------------------------------------------------------------------------------


class Silent:
    """A user who does not answer."""

    async def ask(self, _entry: Any) -> int | None:
        await trio.sleep_forever()
        raise AssertionError

    async def elicit(self, _entry: Any) -> Any:
        await trio.sleep_forever()
        raise AssertionError


@pytest.mark.obligation("C30", "C31", "C32")
async def test_a_cancel_answers_all_questions_and_what_follows_is_still_taken(
    script: Any, tmp_path: Path
) -> None:
    def prompt(agent: Any) -> None:
        for ident in ("finished", "unfinished"):
            agent.update(sessionUpdate="tool_call", toolCallId=ident, title=ident, status="pending")
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        asked = [
            agent.request(
                "session/request_permission",
                {"sessionId": "session-1", "toolCall": {"toolCallId": call}, "options": options},
            )
            for call in ("finished", "unfinished")
        ]
        agent.wait("session/cancel")
        agent.note("answers", [agent.answer(each)["result"] for each in asked])
        agent.update(sessionUpdate="tool_call_update", toolCallId="finished", status="completed")
        agent.text("the last words")
        agent.end("cancelled")

    made = script(prompt=prompt)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        session.permissions.askers = [Silent()]
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await trio_wait_until(lambda: len(session.permissions.pending) == 2, 30)
                session.cancel()

            nursery.start_soon(cancel)
            with pytest.raises(TurnCancelled):
                await session.prompt(PROMPT)
        calls = session.transcript.tool_calls
        assert (calls["finished"].status, calls["finished"].ended_by_turn) == ("completed", None)
        assert calls["unfinished"].ended_by_turn == "cancelled"
        assert "cancelled" in text.render(calls["unfinished"], terminals={})
        assert "the last words" in shown(session)
    assert made.notes("answers") == [[{"outcome": {"outcome": "cancelled"}}] * 2]


@pytest.mark.obligation("C72", "C73")
@pytest.mark.parametrize("version", [1, 2])
async def test_a_question_that_the_agent_withdraws_is_answered_all_the_same(
    script: Any, tmp_path: Path, version: int
) -> None:
    def prompt(agent: Any) -> None:
        if agent.version == 2:
            agent.accept()
            agent.state("running")
        about = {"toolCall": {"toolCallId": "c"}, "sessionId": "session-1", "options": []}
        if agent.version == 2:
            about["title"] = "May I?"
        ident = agent.request("session/request_permission", about)
        while not os.path.exists(agent.given["asked"]):
            agent.sleep(0.02)
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": ident}}
        agent.send(cancel)
        agent.note("answer", agent.answer(ident)["error"]["code"])
        if agent.version == 2:
            agent.state("idle", stopReason="end_turn")
        else:
            agent.end()

    asked = tmp_path / "asked"
    made = script(prompt=prompt, version=version, given={"asked": str(asked)})
    spec = from_command(made.argv)
    async with open_client() as client:
        session = await client.connect(replace(spec, protocol=version), str(tmp_path))
        session.permissions.askers = [Silent()]
        async with trio.open_nursery() as nursery:

            async def tell() -> None:
                await trio_wait_until(lambda: session.permissions.pending, 30)
                asked.touch()

            nursery.start_soon(tell)
            await session.prompt(PROMPT)
        assert not session.permissions.pending
    assert made.notes("answer") == [-32800]


# -- plans ----------------------------------------------------------------------------------------


def plans(version: int, *updates: dict[str, Any]) -> list[tuple[str | None, list[str]]]:
    """Id and steps of each plan that is there after the updates."""
    transcript = Transcript()
    reducer = Reducer(transcript, version)
    reducer.start_turn([], 0.0)
    for update in updates:
        reducer.apply(update, 1.0)
    found = [entry for entry in transcript.entries() if isinstance(entry, PlanEntry)]
    return [(plan.plan_id, [item["content"] for item in plan.items]) for plan in found]


def steps(*contents: str) -> list[dict[str, str]]:
    return [{"content": each, "priority": "low", "status": "pending"} for each in contents]


@pytest.mark.obligation("C38")
def test_a_plan_takes_the_place_of_the_one_before_and_in_version_2_of_that_of_its_id() -> None:
    first = [{"sessionUpdate": "plan", "entries": steps(*each)} for each in ("abc", "b", "")]
    assert plans(1, *first[:1]) == [(None, ["a", "b", "c"])]
    assert plans(1, *first[:2]) == [(None, ["b"])]
    assert plans(1, *first) == [(None, [])]
    second = [
        {
            "sessionUpdate": "plan_update",
            "plan": {"type": "items", "planId": ident, "entries": steps(*each)},
        }
        for ident, each in (("p", "ab"), ("q", "c"), ("p", "d"))
    ]
    assert plans(2, *second) == [("p", ["d"]), ("q", ["c"])]


# -- options --------------------------------------------------------------------------------------


def option(ident: str, **fields: Any) -> dict[str, Any]:
    values = [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}]
    select = {"type": "select", "currentValue": "a", "options": values}
    return {"id": ident, "name": ident.upper(), **select, **fields}


def order(*given: dict[str, Any]) -> list[str]:
    return [each.id for each in options(SessionInfo(config_options=list(given)))]


ODD: list[Any] = [None, "", 7, [], "_own", "later"]
CATEGORIES: list[dict[str, Any]] = [{}, *({"category": value} for value in ODD)]


@pytest.mark.obligation("C45", "C46")
@pytest.mark.parametrize("category", CATEGORIES)
def test_an_option_works_without_a_category_or_with_one_that_nobody_knows(
    category: dict[str, Any],
) -> None:
    (found,) = options(SessionInfo(config_options=[option("o", **category)]))
    assert found.accepts("b")
    assert found.request("b") == {"configId": "o", "value": "b"}
    assert found.category in ("", "_own", "later")


@pytest.mark.obligation("C44", "C47")
def test_options_keep_their_order_but_for_those_that_configure_the_model() -> None:
    names = ["z", "a", "m"]
    assert order(*(option(name) for name in names)) == names
    assert order(*(option(name, category="mode") for name in names)) == names
    config = option("c", category="model_config"), option("d", category="model_config")
    model, other = option("m", category="model"), option("o", category="thought_level")
    assert order(config[0], other, model, option("p"), config[1]) == ["o", "m", "c", "d", "p"]
    assert order(config[0], other) == ["c", "o"]
    second = option("n", category="model")
    assert order(model, other, second, config[0]) == ["m", "c", "o", "n"]


@pytest.mark.obligation("C43")
async def test_a_mode_is_set_as_an_option_where_there_are_options(
    script: Any, tmp_path: Path
) -> None:
    def new_session(agent: Any) -> None:
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
        agent.reply(
            {"sessionId": "session-1", "modes": modes, "configOptions": agent.given["options"]}
        )

    def set_config_option(agent: Any) -> None:
        options = [{**agent.given["options"][0], "currentValue": "b"}]
        agent.reply({"configOptions": options})

    given = {"options": [option("how", category="mode")]}
    made = script(new_session=new_session, set_config_option=set_config_option, given=given)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        assert [each.id for each in session.options] == ["how"]
        await session.set_option("how", "b")
        assert [each.value for each in session.options] == ["b"]
    assert not made.received("session/set_mode")
    (sent,) = made.received("session/set_config_option")
    assert sent["params"] == {"sessionId": "session-1", "configId": "how", "value": "b"}


# -- what is sent ---------------------------------------------------------------------------------


@pytest.mark.obligation("C63")
async def test_what_the_schema_does_not_allow_is_seen_whatever_agent_it_is_sent_to(
    wire: Wire, tmp_path: Path
) -> None:
    async with open_client() as client:
        session = await client.connect(demo_agent(), str(tmp_path))
        await session.prompt(PROMPT)
        wire.check()
        assert client.agent is not None
        client.agent.notify("session/cancel", {"sessionId": session.session_id, "more": 1})
        with pytest.raises(SchemaMismatch, match=r"unknown field at \$\.more"):
            wire.check()
        wire.forget()
