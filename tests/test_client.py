"""The client with real agents: starting, ending, opening again, and what comes out of turn.

Where a test waits for a limit of many seconds, trio's clock runs faster than the agent's.
"""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel
import trio.testing

from acp_jupyter.client.client import CRASHES, Client
from acp_jupyter.errors import (
    ACPError,
    AgentCrashLoop,
    AgentError,
    AgentExited,
    AgentUnresponsive,
    TurnCancelled,
    TurnRunning,
    UsageError,
)
from acp_jupyter.rendering import text
from acp_jupyter.services.agents import from_command
from acp_jupyter.services.policy import Policy
from tests.conftest import alive, trio_wait_until, wait_until

SPEED = 10
"""How much faster trio's clock runs in `run_fast`."""

PROMPT = [{"type": "text", "text": "go"}]


@asynccontextmanager
async def open_client():
    client = Client(environ=os.environ, version="1.0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await client.wait_open()
        try:
            yield client
        finally:
            with trio.CancelScope(shield=True):
                await client.shutdown()
            nursery.cancel_scope.cancel()


def run_fast(function):
    """Run a coroutine function while trio's clock runs `SPEED` times as fast."""

    async def bounded():
        with trio.fail_after(60 * SPEED):
            await function()

    trio.run(bounded, clock=trio.testing.MockClock(rate=SPEED, autojump_threshold=float("inf")))


def shown(session):
    """All that the transcript has, as plain text."""
    entries = [entry for turn in session.transcript.turns for entry in turn.entries]
    terminals = session.transcript.terminals
    return "\n".join(text.render(entry, terminals=terminals) for entry in entries)


# -- starting and ending -------------------------------------------------------------------------


@pytest.mark.obligation("C1", "C2", "C77")
async def test_connecting_sends_initialize_and_session_new_and_nothing_else(script, tmp_path):
    made = script()
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        assert client.current is session
        assert [m["method"] for m in made.received()] == ["initialize", "session/new"]
        params = made.received("initialize")[0]["params"]
        assert params["protocolVersion"] == 1
        assert params["clientInfo"]["version"] == "1.0"
        assert made.received("session/new")[0]["params"] == {
            "cwd": str(tmp_path),
            "mcpServers": [],
        }
    assert not any(map(alive, made.pids))


async def test_connecting_again_ends_the_agent_before(script, tmp_path):
    first, second = script(), script()
    async with open_client() as client:
        await client.connect(from_command(first.argv), str(tmp_path))
        await client.connect(from_command(second.argv), str(tmp_path))
        assert not alive(first.pids[0])
        assert alive(second.pids[0])


async def test_prompting_without_an_agent_is_the_users_error():
    async with open_client() as client:
        with pytest.raises(UsageError, match="no agent is connected"):
            await client.session()
        with pytest.raises(UsageError):
            await client.restart()
        assert await client.disconnect() is None


async def test_a_failed_start_leaves_no_process_and_the_client_usable(script, tmp_path):
    def new_session(agent):
        agent.reply(error={"code": -32603, "message": "no room"})

    made, good = script(new_session=new_session), script()
    async with open_client() as client:
        with pytest.raises(ACPError, match="no room"):
            await client.connect(from_command(made.argv), str(tmp_path))
        assert not alive(made.pids[0])
        session = await client.connect(from_command(good.argv), str(tmp_path))
        await session.prompt(PROMPT)


async def test_a_cancelled_start_leaves_no_process(script, tmp_path):
    def initialize(agent):
        agent.hang()

    made = script(initialize=initialize)
    async with open_client() as client:
        with trio.move_on_after(30) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.connect, from_command(made.argv), str(tmp_path))
                await trio_wait_until(lambda: made.runs and made.received("initialize"))
                scope.cancel()
        assert scope.cancelled_caught
        assert not alive(made.pids[0])
        assert client.current is None


@pytest.mark.parametrize("silent", ["initialize", "new_session"])
async def test_f19_a_start_with_a_limit_ends_at_it(script, tmp_path, silent):
    def hang(agent):
        agent.hang()

    made = script(**{silent: hang})
    async with open_client() as client:
        with pytest.raises(AgentError) as caught:
            await client.connect(from_command(made.argv), str(tmp_path), limit=1.0)
        assert "within 1 s" in caught.value.message
        assert not alive(made.pids[0])


async def test_disconnecting_leaves_an_agent_the_time_to_finish(script, tmp_path):
    def at_end(agent):
        agent.sleep(1.5)
        agent.note("saved")

    made = script(at_end=at_end)
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
        agent = await client.disconnect()
        assert agent.spec.name == made.name
        assert made.notes("saved") == [None]
        assert not alive(made.pids[0])


async def test_f25_a_shutdown_leaves_it_no_more_than_two_seconds(script, tmp_path):
    def at_end(agent):
        import signal as signals

        signals.signal(signals.SIGTERM, signals.SIG_IGN)
        agent.hang()

    scripts = [script(at_end=at_end)]
    async with open_client() as client:
        await client.connect(from_command(scripts[0].argv), str(tmp_path))
        begun = trio.current_time()
        await client.shutdown()
        assert trio.current_time() - begun < 4
        assert not alive(scripts[0].pids[0])


# -- opening again -------------------------------------------------------------------------------


async def crash(made):
    """Kill the newest process of a scenario."""
    pid = made.pids[-1]
    os.kill(pid, signal.SIGKILL)
    await trio_wait_until(lambda: not alive(pid))


async def test_f16_the_fifth_crash_stops_restarts_for_good_until_the_user_asks(script, tmp_path):
    made = script()
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
        for number in range(CRASHES):
            await crash(made)
            await trio_wait_until(client.agent.ended.is_set)
            if number < CRASHES - 1:
                await client.session()
        for _ in range(2):
            with pytest.raises(AgentCrashLoop, match="5 times within 3 minutes"):
                await client.session()
        assert made.runs == CRASHES
        await client.restart()
        await crash(made)
        await trio_wait_until(client.agent.ended.is_set)
        await client.session()  # the count began anew
        assert made.runs == CRASHES + 2


async def test_f16_an_agent_that_does_not_come_up_again_counts_too(script, tmp_path):
    def initialize(agent):
        if agent.run > 1:
            os._exit(9)

    made = script(initialize=initialize)
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
        await crash(made)
        await trio_wait_until(client.agent.ended.is_set)
        for _ in range(CRASHES - 1):
            with pytest.raises(AgentExited, match="exited with code 9"):
                await client.session()
        with pytest.raises(AgentCrashLoop):
            await client.session()
        assert made.runs == CRASHES


def test_f16_crashes_far_apart_are_no_loop(script, tmp_path):
    made = script()

    async def main():
        async with open_client() as client:
            await client.connect(from_command(made.argv), str(tmp_path))
            for _ in range(CRASHES + 1):
                await crash(made)
                await trio_wait_until(client.agent.ended.is_set)
                await client.session()
                clock.jump(60)

    clock = trio.testing.MockClock(rate=1)
    trio.run(main, clock=clock)
    assert made.runs == CRASHES + 2


@pytest.mark.parametrize("works", [True, False])
async def test_f15_reopening_loads_the_session_where_the_agent_can(script, tmp_path, works):
    def load_session(agent):
        if agent.given["works"]:
            agent.text("earlier words")
            agent.reply({})
        else:
            agent.reply(error={"code": -32603, "message": "lost it"})

    made = script(
        load_session=load_session, capabilities={"loadSession": True}, given={"works": works}
    )
    async with open_client() as client:
        old = await client.connect(from_command(made.argv), str(tmp_path))
        await old.prompt(PROMPT)
        await crash(made)
        await trio_wait_until(client.agent.ended.is_set)
        session = await client.session()
        assert session is not old
        assert client.current is session
        await session.prompt(PROMPT)
        seen = shown(session)
        if works:
            assert "the session was loaded" in seen
            assert "earlier words" in seen
        else:
            assert "lost it" in seen
        methods = [m["method"] for m in made.received()]
        assert methods.count("session/load") == 1
        assert methods.count("session/new") == (1 if works else 2)


async def test_reopening_keeps_the_policy_of_the_session(script, tmp_path):
    made = script()
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        session.permissions.policy = Policy("deny")
        await crash(made)
        await trio_wait_until(client.agent.ended.is_set)
        assert (await client.session()).permissions.mode == "deny"


# -- turns ---------------------------------------------------------------------------------------


async def test_f13_updates_before_the_session_exists_are_held_for_it(script, tmp_path):
    def new_session(agent):
        for number in range(100):
            agent.text(f"{number} ", session_id="early")
        agent.text("not mine", session_id="other")
        agent.session_id = "early"
        agent.reply({"sessionId": "early"})

    made = script(new_session=new_session)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        seen = shown(session)
        assert " ".join(map(str, range(100))) in seen
        assert "not mine" not in seen


async def test_f13_a_request_before_the_session_exists_waits_for_it(script, tmp_path):
    def new_session(agent):
        params = {"sessionId": "early", "path": agent.given["path"]}
        ident = agent.request("fs/read_text_file", params)
        agent.session_id = "early"
        agent.reply({"sessionId": "early"})
        agent.note("read", agent.answer(ident).get("result"))

    (tmp_path / "a.txt").write_text("content")
    made = script(new_session=new_session, given={"path": str(tmp_path / "a.txt")})
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
        await trio_wait_until(lambda: made.notes("read"))
    assert made.notes("read") == [{"content": "content"}]


async def test_f27_a_session_runs_one_turn_at_a_time(script, tmp_path):
    def prompt(agent):
        agent.wait("session/cancel")
        agent.end("cancelled")

    made = script(prompt=prompt)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))

        async def cancelled_turn():
            with pytest.raises(TurnCancelled):
                await session.prompt(PROMPT)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_turn)
            await trio_wait_until(lambda: made.received("session/prompt"))
            with pytest.raises(TurnRunning):
                await session.prompt(PROMPT)
            session.cancel()
        assert not session.cancel()  # nothing runs any more
        assert len(made.received("session/prompt")) == 1


def test_f21_an_agent_that_ignores_a_cancel_is_hinted_at_then_withdrawn_then_ended(
    script, tmp_path
):
    def prompt(agent):
        agent.wait("session/cancel")
        agent.note("cancel")
        agent.wait("$/cancel_request")
        agent.note("withdrawn")
        agent.hang()

    made = script(prompt=prompt)
    took = []

    async def main():
        async with open_client() as client:
            session = await client.connect(from_command(made.argv), str(tmp_path))
            async with trio.open_nursery() as nursery:

                async def turn():
                    with pytest.raises(AgentUnresponsive, match="within 30 s of the cancel"):
                        await session.prompt(PROMPT)
                    took.append(trio.current_time() - begun)

                nursery.start_soon(turn)
                await trio_wait_until(lambda: made.received("session/prompt"))
                begun = trio.current_time()
                session.cancel()
            assert "The agent has not stopped for 10 s. Interrupt again to end it" in shown(session)
        assert 29 < took[0] < 40

    run_fast(main)
    assert made.notes("cancel")
    assert made.notes("withdrawn")
    wait_until(lambda: not alive(made.pids[0]))


def test_f21_an_agent_that_stops_late_is_not_ended(script, tmp_path):
    def prompt(agent):
        agent.wait("$/cancel_request")  # sent after ten seconds
        agent.end("cancelled")

    made = script(prompt=prompt)

    async def main():
        async with open_client() as client:
            session = await client.connect(from_command(made.argv), str(tmp_path))
            async with trio.open_nursery() as nursery:

                async def turn():
                    with pytest.raises(TurnCancelled):
                        await session.prompt(PROMPT)

                nursery.start_soon(turn)
                await trio_wait_until(lambda: made.received("session/prompt"))
                session.cancel()
            await trio.sleep(30)
            assert alive(made.pids[0])
            assert client.agent.alive

    run_fast(main)


def test_f19_where_nobody_watches_a_silent_agent_is_ended_at_the_limit(script, tmp_path):
    def prompt(agent):
        agent.text("one word")
        agent.hang()

    made = script(prompt=prompt)

    async def main():
        async with open_client() as client:
            session = await client.connect(from_command(made.argv), str(tmp_path))
            with pytest.raises(AgentUnresponsive, match="said nothing for"):
                await session.prompt(PROMPT, silence_limit=20)
            assert "one word" in shown(session)
            assert "No reply for" in shown(session)

    run_fast(main)
    wait_until(lambda: not alive(made.pids[0]))


def test_f23_a_cancel_that_cannot_be_sent_still_climbs_the_ladder(script, tmp_path):
    def prompt(agent):
        agent.reading.clear()
        agent.note("deaf")
        agent.hang()

    made = script(prompt=prompt)

    async def main():
        async with open_client() as client:
            session = await client.connect(from_command(made.argv), str(tmp_path))
            async with trio.open_nursery() as nursery:

                async def turn():
                    with pytest.raises(AgentUnresponsive, match="within 30 s of the cancel"):
                        await session.prompt(PROMPT)

                nursery.start_soon(turn)
                await trio_wait_until(lambda: made.notes("deaf"))
                with pytest.raises(AgentUnresponsive, match="does not read"):
                    await fill(client)
                session.cancel()
            assert "The cancel could not be sent" in shown(session)

    async def fill(client):
        for _ in range(20):
            client.agent.notify("_test/fill", {"x": "x" * 2**20})
            await trio.lowlevel.checkpoint()

    run_fast(main)
    wait_until(lambda: not alive(made.pids[0]))


async def test_a_turn_that_nobody_waits_for_any_more_is_cancelled(script, tmp_path):
    def prompt(agent):
        agent.note("running")
        agent.wait("session/cancel")
        agent.note("cancelled")
        agent.end("cancelled")

    made = script(prompt=prompt)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        with trio.move_on_after(30) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.prompt, PROMPT)
                await trio_wait_until(lambda: made.notes("running"))
                scope.cancel()
        await trio_wait_until(lambda: made.notes("cancelled"))
        assert not session.running
        assert session.transcript.turn.stop_reason == "cancelled"


@pytest.mark.obligation("C5", "C7", "C13")
async def test_what_is_declared_is_what_is_served(script, tmp_path):
    """C5, C7, C13: of version 1."""
    made = script()
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
        declared = made.received("initialize")[0]["params"]["clientCapabilities"]
    assert declared.pop("_meta")["terminal-auth"] is True
    assert declared == {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "elicitation": {"form": {}, "url": {}},
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "plan": {},
        "auth": {"terminal": True},
    }


async def test_an_agent_that_resumes_is_not_asked_for_its_history_after_a_crash(script, tmp_path):
    def prompt(agent):
        if agent.run == 1:
            os._exit(3)

    def resume(agent):
        agent.reply({})

    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    made = script(capabilities=capabilities, prompt=prompt, resume=resume)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        with pytest.raises(AgentExited):
            await session.prompt(PROMPT)
        session = await client.session()
        assert session.loaded
        await session.prompt(PROMPT)
    assert len(made.received("session/resume")) == 1
    assert not made.received("session/load")


async def test_an_agent_that_advertises_resuming_and_does_not_know_it_is_loaded(script, tmp_path):
    def prompt(agent):
        if agent.run == 1:
            os._exit(3)

    def load_session(agent):
        agent.text("from before")
        agent.reply({})

    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    made = script(capabilities=capabilities, prompt=prompt, load_session=load_session)
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(tmp_path))
        with pytest.raises(AgentExited):
            await session.prompt(PROMPT)
        session = await client.session()
        assert session.loaded
        assert "from before" in shown(session)
    assert len(made.received("session/resume")) == len(made.received("session/load")) == 1
