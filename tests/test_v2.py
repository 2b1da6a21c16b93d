"""Version 2 over a real process: agreeing on it, prompts that end with an idle, and the rest."""

from __future__ import annotations

import base64
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio

from acp_jupyter.client.client import Client
from acp_jupyter.errors import (
    AgentExited,
    AuthenticationRequired,
    RequestError,
    TurnCancelled,
    UsageError,
)
from acp_jupyter.protocol.v2 import NO_REASON, Foreground
from acp_jupyter.rendering import text
from acp_jupyter.services.agents import demo_agent, from_command
from acp_jupyter.services.policy import Policy
from tests.conftest import trio_wait_until
from tests.recordings import demo, open_client, record, recorder_to, replay, replay_spec
from tests.scripted import Script

PROMPT = [{"type": "text", "text": "go"}]


@asynccontextmanager
async def connected(agent, cwd, protocol=2, policy="ask"):
    """A client and its session with an agent that is asked for a version."""
    client = Client(environ=os.environ, version="1.0")
    client.policy = Policy(policy)
    spec = from_command(agent.argv) if isinstance(agent, Script) else agent
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await client.wait_open()
        try:
            session = await client.connect(replace(spec, protocol=protocol), str(cwd))
            yield client, session
        finally:
            with trio.CancelScope(shield=True):
                await client.shutdown()
            nursery.cancel_scope.cancel()


def shown(session):
    """All that the transcript has, as plain text."""
    terminals = session.transcript.terminals
    entries = [entry for turn in session.transcript.turns for entry in turn.entries]
    return "\n".join(text.render(entry, terminals=terminals) for entry in entries)


# -- agreeing on it -------------------------------------------------------------------------------


@pytest.mark.obligation("C2", "C7")
async def test_version_2_is_asked_for_by_choice_and_offers_no_files_and_terminals(script, tmp_path):
    made = script(version=2)
    async with connected(made, tmp_path, policy="allow") as (client, session):
        params = made.received("initialize")[0]["params"]
        assert params["protocolVersion"] == 2
        assert set(params["capabilities"]) <= {"auth", "elicitation", "_meta"}
        assert client.agent.version == 2
        await session.prompt(PROMPT)
        assert "done" in shown(session)
    assert made.runs == 1


@pytest.mark.obligation("C2")
async def test_version_1_stays_the_default(script, tmp_path):
    made = script(version=2)
    async with connected(made, tmp_path, protocol=1) as (client, _):
        assert made.received("initialize")[0]["params"]["protocolVersion"] == 1
        assert client.agent.version == 1


def echoes(agent):
    params = agent.received[-1]["params"]
    agent.reply({"protocolVersion": params["protocolVersion"], "agentCapabilities": {}})


def refuses_2(agent):
    if agent.received[-1]["params"]["protocolVersion"] == 2:
        agent.reply(error={"code": -32602, "message": "Invalid params"})


def dies_of_2(agent):
    if agent.received[-1]["params"]["protocolVersion"] == 2:
        agent.note("dies")
        os._exit(3)


@pytest.mark.obligation("C3")
@pytest.mark.parametrize("initialize", [None, echoes, refuses_2, dies_of_2])
async def test_c3_an_agent_without_version_2_is_started_again_with_1_and_says_so(
    script, tmp_path, initialize
):
    made = script(**({} if initialize is None else {"initialize": initialize}))
    async with connected(made, tmp_path) as (client, session):
        assert client.agent.version == 1
        asked = [m["params"]["protocolVersion"] for m in made.received("initialize")]
        assert asked == [2, 1]
        assert "does not speak version 2" in shown(session)
        await session.prompt(PROMPT)
        await client.restart()
        assert made.received("initialize")[-1]["params"]["protocolVersion"] == 1
        assert made.runs == 3


async def test_an_agent_that_has_version_2_alone_says_how_to_connect(script, tmp_path):
    def initialize(agent):
        data = {"requested": 1, "supported": [2]}
        agent.reply(error={"code": -32022, "message": "Unsupported version", "data": data})

    async with connected(script(version=2), tmp_path) as (client, _):
        spec = from_command(script(initialize=initialize).argv)
        with pytest.raises(RequestError) as error:
            await client.connect(spec, str(tmp_path))
        assert "--protocol 2" in error.value.remedy


@pytest.mark.obligation("C3", "C10", "C69")
async def test_c69_what_version_2_does_not_have_is_not_sent(script, tmp_path):
    made = script(version=2)
    async with connected(made, tmp_path) as (client, _):
        with pytest.raises(UsageError, match="no session/set_mode"):
            await client.agent.request("session/set_mode", {"modeId": "x"})
        assert not client.agent.offers("authenticate")  # C10: it names no method
        assert not client.agent.offers("logout")
    assert not made.received("session/set_mode")


# -- a prompt and its end -------------------------------------------------------------------------


async def test_the_answer_to_a_prompt_does_not_end_it_and_an_idle_does(script, tmp_path):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        agent.sleep(0.3)
        content = {"type": "text", "text": "late"}
        agent.update(sessionUpdate="agent_message", messageId="m", content=[content])
        agent.state("idle", stopReason="max_tokens", usage={"totalTokens": 5})

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        turn = await session.prompt(PROMPT)
        assert turn.stop_reason == "max_tokens"
        assert turn.usage["totalTokens"] == 5
        assert "late" in shown(session)


async def test_an_agent_that_gives_no_reason_and_no_message_id_ends_its_turn(script, tmp_path):
    def prompt(agent):
        agent.accept(None)
        agent.state("running")
        agent.state("idle")

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        turn = await session.prompt(PROMPT)
        assert turn.stop_reason == "end_turn"
        assert "did not say why it stopped" in shown(session)


async def test_work_that_ends_with_an_error_is_the_error_of_the_prompt(script, tmp_path):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        code = -32000 if agent.turn == 2 else -32603
        agent.state("idle", stopReason="error", error={"code": code, "message": "no luck"})

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        with pytest.raises(RequestError, match="no luck"):
            await session.prompt(PROMPT)
        with pytest.raises(AuthenticationRequired, match="no luck"):
            await session.prompt(PROMPT)


async def test_a_prompt_that_is_not_accepted_fails(script, tmp_path):
    def prompt(agent):
        agent.reply(error={"code": -32602, "message": "not now"})

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        with pytest.raises(RequestError, match="not now"):
            await session.prompt(PROMPT)


async def test_an_agent_that_dies_while_it_works_ends_the_turn(script, tmp_path):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        os._exit(7)

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        with pytest.raises(AgentExited, match="code 7 during this turn"):
            await session.prompt(PROMPT)


@pytest.mark.obligation("C32")
async def test_a_cancel_ends_with_the_idle_that_confirms_it(script, tmp_path):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        agent.update(sessionUpdate="tool_call_update", toolCallId="t", title="Long work")
        agent.wait("session/cancel")
        agent.update(sessionUpdate="tool_call_update", toolCallId="t", status="cancelled")
        agent.state("idle", stopReason="cancelled")

    made = script(version=2, prompt=prompt)
    async with connected(made, tmp_path) as (_, session):
        async with trio.open_nursery() as nursery:

            async def cancel():
                await trio_wait_until(lambda: "Long work" in shown(session))
                assert session.cancel()

            nursery.start_soon(cancel)
            with pytest.raises(TurnCancelled):
                await session.prompt(PROMPT)
        assert session.transcript.turn.stop_reason == "cancelled"
        assert session.transcript.tool_calls["t"].status == "cancelled"
    assert len(made.received("session/cancel")) == 1


async def test_an_agent_works_and_waits_without_a_prompt(script, tmp_path):
    def prompt(agent):
        agent.work()
        agent.sleep(0.1)
        agent.state("running")
        content = {"type": "text", "text": "by myself"}
        agent.update(sessionUpdate="agent_message_chunk", messageId="m-2", content=content)
        agent.state("requires_action")
        agent.wait("session/cancel")
        agent.state("idle", stopReason="cancelled")

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        turn = await session.prompt(PROMPT)
        assert turn.stop_reason == "end_turn"
        await trio_wait_until(lambda: session.activity == "waiting")
        assert "by myself" in text.render(turn.footer, terminals={})  # late: in the last footer
        assert session.cancel()
        await trio_wait_until(lambda: session.activity == "idle")


# -- updates --------------------------------------------------------------------------------------


@pytest.mark.obligation("C34")
async def test_c34_messages_are_put_together_by_their_ids_in_the_order_of_arrival(script, tmp_path):
    def prompt(agent):
        def part(text):
            return {"type": "text", "text": text}

        agent.accept()
        agent.state("running")
        agent.update(sessionUpdate="agent_message", messageId="a", content=[part("A")])
        agent.update(sessionUpdate="agent_message_chunk", messageId="a", content=part("B"))
        agent.update(sessionUpdate="agent_message", messageId="a")  # unchanged
        agent.update(sessionUpdate="agent_message", messageId="b", content=[part("other")])
        agent.update(sessionUpdate="agent_message", messageId="b", content=None)
        agent.update(sessionUpdate="agent_message_chunk", messageId="a", content=part("C"))
        agent.update(sessionUpdate="agent_message", messageId="c", content=[part("old")])
        agent.update(sessionUpdate="agent_message", messageId="c", content=[part("new")])
        agent.update(sessionUpdate="agent_message_chunk", messageId="c", content=part("er"))
        agent.state("idle", stopReason="end_turn")

    async with connected(script(version=2, prompt=prompt), tmp_path) as (_, session):
        await session.prompt(PROMPT)
        messages = session.transcript.messages
        assert [messages["agent", i].text for i in "abc"] == ["ABC", "", "newer"]


@pytest.mark.obligation("C35", "C36")
async def test_c35_c36_terminals_of_the_agents_are_replaced_and_decoded_chunk_by_chunk(
    script, tmp_path
):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        agent.update(sessionUpdate="terminal_update", terminalId="t", command="make")
        for data in agent.given["chunks"]:
            agent.update(sessionUpdate="terminal_output_chunk", terminalId="t", data=data)
        agent.update(
            sessionUpdate="terminal_update",
            terminalId="t",
            output={"data": agent.given["snapshot"]},
        )
        agent.update(
            sessionUpdate="terminal_output_chunk", terminalId="t", data=agent.given["chunks"][0]
        )
        exited = {"exitCode": 2}
        agent.update(sessionUpdate="terminal_update", terminalId="t", exitStatus=exited)
        agent.state("idle", stopReason="end_turn")

    whole = "a\N{EN DASH}b".encode()
    given = {
        "chunks": [base64.b64encode(part).decode() for part in (whole[:2], whole[2:])],
        "snapshot": base64.b64encode(b"new ").decode(),
    }
    async with connected(script(version=2, prompt=prompt, given=given), tmp_path) as (_, session):
        await session.prompt(PROMPT)
        terminal = session.transcript.terminals["t"]
        assert terminal.output == "new a\ufffd"  # nothing of what was there before
        assert (terminal.argv, terminal.exit_code, terminal.running) == (["make"], 2, False)


@pytest.mark.obligation("C37")
@pytest.mark.parametrize("patch", [True, False])
async def test_c37_a_diff_is_shown_with_and_without_its_patch(script, tmp_path, patch):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        changes = [{"operation": "move", "oldPath": "/w/a.py", "path": "/w/b.py"}]
        diff: dict[str, Any] = {"type": "diff", "changes": changes}
        if agent.given["patch"]:
            hunk = "--- a/w/a.py\n+++ b/w/b.py\n@@ -1 +1 @@\n-old line\n+new line\n"
            diff["patch"] = {"format": "git_patch", "text": hunk}
        agent.update(sessionUpdate="tool_call_content_chunk", toolCallId="t", content=diff)
        agent.state("idle", stopReason="end_turn")

    made = script(version=2, prompt=prompt, given={"patch": patch})
    async with connected(made, tmp_path) as (_, session):
        await session.prompt(PROMPT)
        assert "move /w/a.py → /w/b.py" in shown(session)
        assert ("new line" in shown(session)) is patch


@pytest.mark.parametrize("old", [True, False])
async def test_permission_is_asked_for_a_subject_or_for_a_bare_tool_call(script, tmp_path, old):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        call = {"toolCallId": "t", "title": "Write it"}
        if agent.given["old"]:  # of an early draft: no title, no subject, the diff of version 1
            diff = {"type": "diff", "path": "/w/a.py", "oldText": None, "newText": "x"}
            about: dict[str, Any] = {"toolCall": {**call, "content": [diff]}}
        else:
            about = {"title": "May I?", "subject": {"type": "tool_call", "toolCall": call}}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        agent.ask("session/request_permission", options=options, **about)
        agent.state("idle", stopReason="end_turn")

    made = script(version=2, prompt=prompt, given={"old": old})
    async with connected(made, tmp_path, policy="allow") as (_, session):
        await session.prompt(PROMPT)
        assert made.notes("session/request_permission") == [
            {"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}
        ]
        assert ("Write it" if old else "May I?") in shown(session)
        assert ("/w/a.py" in shown(session)) is old


@pytest.mark.obligation("C81")
async def test_c81_requests_in_a_batch_are_answered_in_one(script, tmp_path):
    def prompt(agent):
        agent.accept()
        agent.state("running")
        params = {"sessionId": agent.session_id, "title": "T", "options": []}
        asked = {"jsonrpc": "2.0", "method": "session/request_permission", "params": params}
        agent.note("asked")
        agent._keep(asked=["p", "session/request_permission"])
        agent.send([{**asked, "id": "p"}, {"jsonrpc": "2.0", "id": "q", "method": "_x/y"}])
        agent.note("codes", agent.answer("q")["error"]["code"])
        agent.answer("p")
        agent.state("idle", stopReason="end_turn")

    made = script(version=2, prompt=prompt)
    async with connected(made, tmp_path, policy="deny") as (_, session):
        await session.prompt(PROMPT)
        assert made.notes("codes") == [-32601]
        assert "batch" not in shown(session)  # it is no noise here
        lines = [entry["received"] for entry in made.entries() if "received" in entry]
        assert sum(line.startswith("[") for line in lines) == 1


async def test_options_of_version_2_are_set_with_their_type(tmp_path):
    async with connected(demo_agent(), tmp_path) as (_, session):
        assert {option.id for option in session.options} == {"mode", "model", "verbose"}
        await session.set_option("model", "large")
        await session.set_option("verbose", True)
        assert {o.id: o.value for o in session.options}["model"] == "large"


async def test_the_demo_agent_does_its_work_in_version_2(tmp_path):
    async with connected(demo_agent(), tmp_path, policy="allow") as (client, session):
        turn = await session.prompt(
            [{"type": "text", "text": "plan a; write a.txt: hello; run printf hi; show link"}]
        )
        assert turn.stop_reason == "end_turn"
        assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "hello"
        said = shown(session)
        assert f"add {tmp_path / 'a.txt'}" in said
        assert "$ printf hi\n  hi\n" in said
        with pytest.raises(RequestError, match="asked to fail"):
            await session.prompt([{"type": "text", "text": "fail"}])
        ident, cwd = session.session_id, session.cwd
        await client.agent.lifecycle.close(session)
        again = await client.agent.lifecycle.load(ident, cwd, policy=client.policy)
        assert "hello" in shown(again)


# -- recordings -----------------------------------------------------------------------------------


async def test_a_recorded_run_of_version_2_is_replayed_as_it_was(tmp_path):
    path, agent = tmp_path / "x.acp.jsonl", replace(demo(tmp_path), protocol=2)
    prompts = ["plan a; write a.txt: one; run printf hi", "fail", "refuse"]
    then = await record(path, agent, tmp_path / "then", *prompts)
    assert await replay(path, tmp_path / "now", *prompts) == then
    assert os.listdir(tmp_path / "now") == []


async def test_a_replay_of_version_2_can_be_cancelled(tmp_path):
    path, agent = tmp_path / "x.acp.jsonl", replace(demo(tmp_path), protocol=2)
    await record(path, agent, tmp_path / "then", "slow 40", "count 3")  # four seconds of it
    (tmp_path / "now").mkdir()
    async with open_client() as client:
        spec = replay_spec(path, original=True)
        session = await client.connect(spec, str(tmp_path / "now"))

        def cancel(update):
            if update["sessionUpdate"] == "agent_message_chunk":
                session.on_update = None
                session.cancel()

        session.on_update = cancel
        with pytest.raises(TurnCancelled):
            await session.prompt([{"type": "text", "text": "slow 40"}])
        assert "Step 40" not in shown(session)
        turn = await session.prompt([{"type": "text", "text": "count 3"}])
        assert (turn.stop_reason, "1 2 3" in shown(session)) == ("end_turn", True)


async def test_of_an_agent_that_was_started_again_the_second_connection_is_recorded(
    script, tmp_path
):
    path, made = tmp_path / "x.acp.jsonl", script()
    agent = replace(from_command(made.argv), protocol=2)
    (tmp_path / "then").mkdir()
    async with open_client(recorder_to(path)) as client:
        session = await client.connect(agent, str(tmp_path / "then"))
        await session.prompt(PROMPT)
    (tmp_path / "now").mkdir()
    async with open_client() as client:
        session = await client.connect(replay_spec(path), str(tmp_path / "now"))
        assert (await session.prompt(PROMPT)).stop_reason == "end_turn"
        assert client.agent is not None
        assert client.agent.version == 1


# -- which idle ends a turn -----------------------------------------------------------------------


def state(name, **more):
    return {"sessionUpdate": "state_update", "state": name, **more}


END = state("idle", stopReason="end_turn")
ECHO = {"sessionUpdate": "user_message", "messageId": "u", "content": []}
ANSWER = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {}}
ACCEPT = {"messageId": "u"}


@pytest.mark.parametrize(
    ("before", "events", "over"),
    [
        (None, [ACCEPT, ECHO, state("running"), END], True),
        (None, [state("running"), ECHO, END, ACCEPT], True),  # fast: the receipt comes last
        (None, [state("running"), END, state("running"), ACCEPT], False),  # only a hook ended
        (None, [ACCEPT, END], False),  # what was known before, told once more
        (None, [END, ACCEPT], False),
        ("idle", [ACCEPT, END, state("running")], False),
        (None, [ACCEPT, ANSWER, END], True),  # never said that it works
        (None, [{}, ANSWER, END], True),
        (None, [ACCEPT, state("requires_action"), END], True),
        (None, [ACCEPT, state("_mine"), END], True),
        ("running", [ACCEPT, END], False),  # of the work before: the prompt has no place yet
        ("running", [ACCEPT, ECHO, END], True),
        ("running", [ECHO, ACCEPT, END], True),
        ("running", [END, ACCEPT], False),
        ("running", [END, {}], False),
        ("running", [{}, END], True),  # of an agent that cannot be told apart better
        ("running", [END, ACCEPT, state("running"), END], True),
        (None, [state("running"), END], False),  # not accepted
    ],
)
def test_the_end_of_a_turn_is_the_idle_of_its_own_work(before, events, over):
    foreground = Foreground(before)
    for event in events:
        if "sessionUpdate" in event:
            foreground.take(event)
        else:
            foreground.accept(event)
    assert (foreground.ended is not None) is over


@pytest.mark.parametrize("reason", [None, 5, ["x"]])
def test_a_malformed_stop_reason_counts_as_none(reason):
    foreground = Foreground(None)
    foreground.accept({})
    foreground.take(state("running"))
    foreground.take(state("idle", stopReason=reason, error=7, usage="x"))
    assert foreground.ended is not None
    assert foreground.ended.stop_reason == NO_REASON
    assert (foreground.ended.error, foreground.ended.usage) == (None, {})
