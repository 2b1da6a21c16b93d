"""What can happen to an agent's process and to the kernel's, as the user of the kernel meets it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time

import psutil
import pytest

from tests.conftest import alive, wait_until
from tests.kernel_client import open_kernel

GONE = "does not remember the earlier turns"
NO_SUCH_AGENT = "/no/such/agent"

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="descendants are found on Linux")


def connected(kernel, script, **settings):
    """Connect to a scenario."""
    made = script(**settings)
    kernel.connect(made)
    return made


def connect_to(kernel, made):
    """Try to connect to a scenario that may not work."""
    return kernel.run(f"%acp connect -- {shlex.join(made.argv)}")


def children(kernel):
    return kernel.process.children(recursive=True)


# -- starting ------------------------------------------------------------------------------------


def test_f14_a_missing_command_is_an_error_that_names_it(kernel):
    before = {process.pid for process in children(kernel)}
    cell = kernel.run(f"%acp connect -- {NO_SUCH_AGENT} --acp").failed("AgentNotFound")
    assert NO_SUCH_AGENT in cell.traceback
    assert len(cell.traceback.splitlines()) >= 2  # with a remedy
    assert cell.seconds < 3
    wait_until(lambda: {process.pid for process in children(kernel)} <= before)


@pytest.mark.obligation("C4")
def test_f14_another_protocol_version_is_an_error_that_names_both(kernel, script):
    def initialize(agent):
        agent.reply({"protocolVersion": 7, "agentCapabilities": {}})

    made = script(initialize=initialize)
    cell = connect_to(kernel, made).failed("VersionMismatch")
    assert "ACP version 7" in cell.traceback
    assert "version 1" in cell.traceback
    assert "Update the agent" in cell.traceback
    assert cell.seconds < 3
    assert not any(map(alive, made.pids))


@pytest.mark.parametrize(
    "answer", [None, [], "1", {}, {"protocolVersion": "one"}, {"protocolVersion": None}]
)
def test_f14_no_version_at_all_is_an_error_that_says_so(kernel, script, answer):
    def initialize(agent):
        agent.reply(agent.given["answer"])

    made = script(initialize=initialize, given={"answer": answer})
    cell = connect_to(kernel, made).failed("RemoteProtocolError")
    assert "the agent's answer to initialize" in cell.traceback
    assert not any(map(alive, made.pids))


def test_f14_an_agent_that_ends_at_once_shows_its_stderr(kernel, script):
    def initialize(agent):
        sys.stderr.write("API key is missing\n")
        sys.stderr.flush()
        os._exit(3)

    cell = connect_to(kernel, script(initialize=initialize)).failed("AgentExited")
    assert "exited with code 3" in cell.traceback
    assert "API key is missing" in cell.traceback
    assert cell.seconds < 3


# -- ending in a turn ----------------------------------------------------------------------------


def test_f15_a_crash_keeps_the_text_and_the_next_cell_starts_anew(kernel, script):
    def prompt(agent):
        if agent.run == 1:
            agent.text("half an ans")
            agent.update(sessionUpdate="tool_call", toolCallId="t", title="Working", kind="edit")
            sys.stderr.write("boom\nTraceback: out of cheese\n")
            sys.stderr.flush()
            agent.note("crash")
            os._exit(17)
        agent.text("fresh")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").failed("AgentExited")
    assert cell.idle - made.times("crash")[0] < 3
    assert (
        f"agent '{made.name}' exited with code 17 during this turn; the output above is kept"
        in cell.traceback
    )
    assert "Run the cell again to start the agent again." in cell.traceback
    assert "out of cheese" in cell.traceback
    assert "half an ans" in cell.text
    assert "unfinished when the turn ended" in cell.text
    again = kernel.run("again").ok()
    assert GONE in again.text
    assert "exited with code 17" in again.text
    assert "fresh" in again.text
    assert made.runs == 2
    assert GONE not in kernel.run("third").ok().text


def test_f15_a_session_that_can_be_loaded_is(kernel, script):
    def load_session(agent):
        agent.text("what was said before")
        agent.reply({})

    def prompt(agent):
        if agent.run == 1:
            os.kill(os.getpid(), 9)
        agent.text("and on")

    made = connected(
        kernel,
        script,
        prompt=prompt,
        load_session=load_session,
        capabilities={"loadSession": True},
    )
    cell = kernel.run("go").failed("AgentExited")
    assert "was ended by signal 9 during this turn" in cell.traceback
    again = kernel.run("again").ok()
    assert "the session was loaded" in again.text
    assert "Earlier conversation: 1 update" in again.text
    assert "and on" in again.text
    assert GONE not in again.text
    assert made.received("session/load")[0]["params"]["sessionId"] == "session-1"


def test_f15_a_crash_between_cells_is_told_by_the_next_one(kernel, script):
    made = connected(kernel, script)
    kernel.run("go").ok()
    os.kill(made.pids[0], signal.SIGKILL)
    wait_until(lambda: "ended" in kernel.run("%acp").ok().text, 30)  # the kernel knows of it
    again = kernel.run("again").ok()
    assert GONE in again.text
    assert "was ended by signal 9" in again.text


def test_f16_the_fifth_crash_in_a_row_stops_restarts_until_the_user_asks(kernel, script):
    def prompt(agent):
        if agent.run <= 5:
            os._exit(1)

    made = connected(kernel, script, prompt=prompt)
    for _ in range(5):
        kernel.run("go").failed("AgentExited")
    for _ in range(2):
        cell = kernel.run("go").failed("AgentCrashLoop")
        assert "5 times within 3 minutes" in cell.traceback
        assert "%acp restart" in cell.traceback
    assert made.runs == 5
    kernel.run("%acp restart").ok()
    kernel.run("go").ok()
    assert made.runs == 6


def test_f17_a_closed_stdout_is_the_end_of_the_agent(kernel, script):
    def prompt(agent):
        if agent.run == 1:
            agent.text("kept")
            agent.note("closed")
            os.close(1)
            agent.hang()

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").failed("AgentExited")
    assert cell.idle - made.times("closed")[0] < 4
    assert "closed its standard output during this turn" in cell.traceback
    assert "kept" in cell.text
    wait_until(lambda: not alive(made.pids[0]))
    assert GONE in kernel.run("again").ok().text


def test_f17_a_closed_stdin_fails_what_cannot_be_sent(kernel, script):
    def prompt(agent):
        if agent.run == 1:
            # Closed, but its number kept from being given to the next file that is opened.
            os.dup2(os.pipe()[0], 0)
            agent.note("closed")
            agent.end()

    made = connected(kernel, script, prompt=prompt)
    # The reader waits in the pipe; the next prompt wakes it, and the one after finds no reader.
    kernel.run("go")
    cell = kernel.run("two", limit=10)
    cell = cell if cell.error else kernel.run("three", limit=10)
    assert cell.reply["ename"] in ("AgentExited", "AgentError")
    wait_until(lambda: not alive(made.pids[0]))


@linux_only
def test_f17_a_dead_leader_whose_pipes_are_held_is_the_end_of_the_agent(kernel, script):
    def prompt(agent):
        if agent.run == 1:
            agent.text("kept")
            child = os.fork()
            if child == 0:
                time.sleep(600)
            agent.note("child", child)
            os._exit(4)

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").failed("AgentExited")
    assert cell.idle - made.times("child")[0] < 4
    assert "exited with code 4 during this turn" in cell.traceback
    assert "kept" in cell.text
    wait_until(lambda: not alive(made.notes("child")[0]))


def test_f18_a_flood_on_stderr_does_not_touch_the_turn(kernel, script):
    def prompt(agent):
        line = b"debug " * 1000 + b"\n"
        for _ in range(3000):
            os.write(2, line)
        agent.text("after the flood")

    connected(kernel, script, prompt=prompt)
    before = kernel.process.memory_info().rss
    cell = kernel.run("go").ok()
    assert "after the flood" in cell.text
    assert "debug" not in cell.text
    assert kernel.process.memory_info().rss - before < 32 * 2**20
    log = kernel.run("%acp log").ok().text
    assert "debug debug" in log
    assert len(log) < 200_000


# -- silence and cancelling ----------------------------------------------------------------------


def test_f19_a_silent_agent_is_told_after_ten_seconds_and_can_be_stopped(kernel, script):
    def prompt(agent):
        agent.wait("session/cancel")
        agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("No reply for 10 s.", 15)
    assert alive(made.pids[0])
    kernel.interrupt()
    cell.finish().failed("TurnCancelled")


def test_f19_an_agent_that_never_answers_initialize_is_told_and_can_be_stopped(kernel, script):
    def initialize(agent):
        agent.hang()

    made = script(initialize=initialize)
    cell = kernel.start(f"%acp connect -- {shlex.join(made.argv)}")
    cell.wait_text("10 s", 15)
    kernel.interrupt()
    cell.finish().failed("TurnCancelled")
    wait_until(lambda: not any(map(alive, made.pids)))


def test_f20_an_interrupt_cancels_within_a_tenth_of_a_second_and_keeps_what_came(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("partial")
            agent.update(sessionUpdate="tool_call", toolCallId="t", title="Busy", kind="execute")
            agent.wait("session/cancel")
            agent.note("cancel")
            agent.text(" and the last words")
            agent.end("cancelled")
        else:
            agent.text("still here")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("Busy")
    asked = time.monotonic()
    kernel.interrupt()
    cell.finish().failed("TurnCancelled")
    assert made.times("cancel")[0] - asked < 0.3
    assert cell.idle - asked < 3
    assert cell.text.index("partial") < cell.text.index("and the last words")
    assert "Busy — ⊘ cancelled" in cell.text
    assert "Cancelled. What had arrived is kept." in cell.text
    again = kernel.run("again").ok()
    assert "still here" in again.text
    assert GONE not in again.text
    assert made.runs == 1


def test_f20_pending_permissions_are_answered_cancelled(kernel, script):
    def prompt(agent):
        agent.permission("allow_once", "reject_once")
        agent.wait("session/cancel")
        agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go", answer=lambda prompt: kernel.interrupt())
    cell.finish().failed("TurnCancelled")
    assert made.notes("session/request_permission") == [
        {"result": {"outcome": {"outcome": "cancelled"}}}
    ]
    methods = [m.get("method", "answer") for m in made.received()]
    assert methods[-2:] == ["session/cancel", "answer"]


def test_f20_a_second_interrupt_that_comes_too_late_does_not_harm_the_kernel(kernel, script):
    def prompt(agent):
        agent.text("partial")
        agent.wait("session/cancel", since=agent.given.setdefault("seen", 0))
        agent.given["seen"] = len(agent.received)
        agent.end("cancelled")

    connected(kernel, script, prompt=prompt)
    for _ in range(8):
        cell = kernel.start("go")
        cell.wait_text("partial")
        for _ in range(4):  # one after the other is over, so that none is left for the next cell
            assert kernel.control("interrupt_request") == {"status": "ok"}
        cell.finish(10)
        assert cell.reply["ename"] in ("TurnCancelled", "AgentUnresponsive")
    assert "2" in kernel.run("%%python\nprint(1 + 1)").ok().text


def test_f21_the_second_interrupt_ends_an_agent_that_ignores_the_first(kernel, script):
    def prompt(agent):
        if agent.run == 1:
            agent.text("partial")
            agent.wait("session/cancel")
            agent.note("cancel")
            agent.hang()

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("partial")
    kernel.interrupt()
    wait_until(lambda: made.notes("cancel"))
    asked = time.monotonic()
    kernel.interrupt()
    cell.finish().failed("AgentUnresponsive")
    assert cell.idle - asked < 3
    assert "did not stop after the second interrupt and was ended" in cell.traceback
    assert "starts the agent and a session anew" in cell.traceback
    assert "partial" in cell.text
    wait_until(lambda: not alive(made.pids[0]))
    assert GONE in kernel.run("again").ok().text


# -- the kernel's own end ------------------------------------------------------------------------


def family(agent):
    """Source of an agent with a stubborn child in a session of its own."""
    pids = []
    for detached in (False, True):
        child = os.fork()
        if child == 0:
            if detached:
                os.setsid()
            import signal as signals

            signals.signal(signals.SIGTERM, signals.SIG_IGN)
            time.sleep(600)
        pids.append(child)
    agent.note("children", pids)
    agent.reply({"sessionId": "s"})


def family_of(made):
    return [*made.pids, *(made.notes("children") or [[]])[0]]


@linux_only
@pytest.mark.parametrize("way", ["shutdown", "restart", "kill -9"])
def test_f25_f26_nothing_outlives_the_kernel(tmp_path, script, way):
    with open_kernel(tmp_path / "kernel") as kernel:
        made = connected(kernel, script, new_session=family)
        pids = family_of(made)
        assert len(pids) == 3
        assert all(map(alive, pids))
        begun = time.monotonic()
        if way == "shutdown":
            kernel.manager.shutdown_kernel()
        elif way == "restart":
            kernel.restart()
        else:
            kernel.process.kill()
        limit = 3 if way == "kill -9" else 9
        wait_until(lambda: not any(map(alive, pids)), limit)
        assert time.monotonic() - begun < 9
        if way == "restart":
            assert "No agent is connected" in kernel.run("%acp").ok().text


@linux_only
def test_f26_an_agent_that_ignores_everything_is_gone_when_it_is_replaced(kernel, script):
    def at_end(agent):
        time.sleep(600)

    made = connected(kernel, script, new_session=family, at_end=at_end)
    pids = family_of(made)
    assert all(map(alive, pids))
    connected(kernel, script)
    wait_until(lambda: not any(map(alive, pids)))


def test_f24_sigint_to_the_kernels_group_cancels_the_turn_and_spares_the_agent(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("partial")
            agent.wait("session/cancel")
            agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("partial")
    os.killpg(os.getpgid(kernel.process.pid), signal.SIGINT)
    cell.finish().failed("TurnCancelled")
    kernel.run("again").ok()
    assert made.runs == 1
    assert alive(made.pids[0])


@linux_only
def test_f28_a_server_that_the_agent_left_is_ended_and_named(kernel, script):
    def prompt(agent):
        child = os.fork()
        if child == 0:
            os.setsid()
            os.execvp("sleep", ["sleep", "611"])
        agent.note("child", child)

    made = connected(kernel, script, prompt=prompt)
    kernel.run("go").ok()
    child = made.notes("child")[0]
    assert alive(child)
    cell = kernel.run("%acp disconnect").ok()
    assert not psutil.pid_exists(child)
    assert "sleep 611" in cell.text


def test_f29_a_long_history_is_folded_to_its_end(kernel, script):
    def load_session(agent):
        def line(number):
            update = {
                "sessionUpdate": "tool_call",
                "toolCallId": f"old-{number}",
                "title": f"Old call {number}",
                "status": "completed",
            }
            params = {"sessionId": agent.session_id, "update": update}
            message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
            return json.dumps(message).encode() + b"\n"

        for start in range(0, 20_000, 100):
            agent.raw(b"".join(line(number) for number in range(start, start + 100)))
        agent.reply({})

    def prompt(agent):
        if agent.run == 1:
            os._exit(1)

    connected(
        kernel, script, load_session=load_session, prompt=prompt, capabilities={"loadSession": True}
    )
    kernel.run("go").failed("AgentExited")
    cell = kernel.run("again").ok()
    assert "Earlier conversation: 20,000 updates" in cell.text
    assert "Old call 19999" in cell.text
    assert "Old call 10 " not in cell.text
    saved = sum(len(value) for data in cell.displays.values() for value in data.values())
    assert saved < 2**20


def test_f30_a_long_session_keeps_no_more_than_its_end(kernel, script):
    def prompt(agent):
        for _ in range(5):
            agent.text("x" * 10_000)

    connected(kernel, script, prompt=prompt)
    for _ in range(20):
        kernel.run("go").ok()
    before = kernel.process.memory_info().rss
    for _ in range(60):
        kernel.run("go").ok()
    # What was said in those turns alone would be 3 MB, and as much again for each copy.
    assert kernel.process.memory_info().rss - before < 12 * 2**20
    log = kernel.run("%acp log 100000").ok().text
    assert len(log.splitlines()) <= 2000
