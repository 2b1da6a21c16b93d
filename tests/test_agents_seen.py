"""What agents that people use were seen to send, played again by the scripted agent.

Each test replays the wire of one of them where it once looked wrong in a notebook.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys

import pytest

from acp_jupyter.services.agents import from_command
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import HistoryEntry, ToolCallEntry, Transcript


def test_output_that_comes_beside_a_tool_call_is_shown_in_it_and_not_as_running(kernel, script):
    def prompt(agent):
        call = {"toolCallId": "call-1", "kind": "read"}
        agent.update(sessionUpdate="tool_call", title="Read a.txt", status="in_progress", **call)
        delta = {"data": "line one\n", "terminal_id": "call-1"}
        agent.update(
            sessionUpdate="tool_call_update",
            toolCallId="call-1",
            status="completed",
            rawOutput={"exit_code": 0},
            _meta={"terminal_output_delta": delta},
        )
        agent.text("The answer.")

    kernel.connect(script(prompt=prompt))
    cell = kernel.run("go").ok()
    call = next(d["text/plain"] for d in cell.displays.values() if "Read a.txt" in d["text/plain"])
    assert "line one" in call
    assert cell.text.count("line one") == 1
    assert "running" not in cell.text


def test_a_terminal_of_the_agents_ends_with_its_call_where_no_more_is_said_of_it(kernel, script):
    def prompt(agent):
        agent.update(
            sessionUpdate="tool_call",
            toolCallId="call-1",
            title="sleep 33",
            kind="execute",
            status="in_progress",
            content=[{"type": "terminal", "terminalId": "call-1"}],
            _meta={"terminal_output_delta": {"data": "so far\n", "terminal_id": "call-1"}},
        )
        agent.update(sessionUpdate="tool_call_update", toolCallId="call-1", status="failed")

    kernel.connect(script(prompt=prompt))
    text = kernel.run("go").ok().text
    assert "so far" in text
    assert "running" not in text


def test_the_terminal_of_a_cancelled_call_is_not_shown_as_running(kernel, script):
    def prompt(agent):
        agent.update(
            sessionUpdate="tool_call",
            toolCallId="call-1",
            title="sleep 33",
            kind="execute",
            status="in_progress",
            content=[{"type": "terminal", "terminalId": "call-1"}],
        )
        agent.wait("session/cancel")
        agent.end("cancelled")

    kernel.connect(script(prompt=prompt))
    cell = kernel.start("go")
    cell.wait_text("sleep 33")
    kernel.interrupt()
    text = cell.finish().failed("TurnCancelled").text
    assert "sleep 33 — ⊘ cancelled" in text
    assert "running" not in text


def test_a_call_that_was_denied_is_shown_so_though_the_agent_says_no_more_of_it(kernel, script):
    def prompt(agent):
        call = {"toolCallId": "call-1", "title": "touch x", "kind": "execute"}
        agent.update(sessionUpdate="tool_call", status="pending", **call)
        options = [{"optionId": "no", "name": "Reject", "kind": "reject_once"}]
        agent.ask("session/request_permission", toolCall=call, options=options)
        agent.text("I did not do it.")

    kernel.connect(script(prompt=prompt))
    text = kernel.run("go", answer=lambda _: "n").ok().text
    assert "[execute] touch x — ✗ denied" in text
    assert "unfinished" not in text


def test_a_permission_under_another_id_leaves_no_call_that_looks_unfinished(kernel, script):
    def prompt(agent):
        agent.update(
            sessionUpdate="tool_call",
            toolCallId="call-1",
            title="ls",
            kind="execute",
            status="pending",
        )
        agent.permission("allow_once", "reject_once", title="Execute: `ls`")
        agent.update(sessionUpdate="tool_call_update", toolCallId="call-1", status="completed")

    kernel.connect(script(prompt=prompt))
    text = kernel.run("go", answer=lambda _: "y").ok().text
    assert "[execute] ls — ✓ completed" in text
    assert "unfinished" not in text
    assert "no result was reported" in text


def test_a_read_to_find_out_whether_a_file_is_there_is_not_shown_as_refused(kernel, script):
    def prompt(agent):
        path = os.path.join(agent.given["cwd"], "new.txt")
        agent.ask("fs/read_text_file", path=path)

    made = script(prompt=prompt, given={"cwd": str(kernel.cwd)})
    kernel.connect(made)
    cell = kernel.run("go").ok()
    (answer,) = made.notes("fs/read_text_file")
    assert answer["error"]["code"] == -32002
    assert "no such file: new.txt" in cell.text
    assert "refused" not in cell.text + cell.html


def test_what_a_program_prints_in_place_of_acp_is_in_the_error(kernel):
    program = "print('this agent is no longer maintained, use the new one')"
    command = shlex.join([sys.executable, "-c", program])
    cell = kernel.run(f"%acp connect -- {command}").failed("AgentExited")
    assert "exited with code 0" in cell.traceback
    assert "no longer maintained, use the new one" in cell.traceback


def test_an_agent_that_ends_a_denied_turn_as_cancelled_says_so_before_its_end(kernel, script):
    def prompt(agent):
        agent.permission("allow_once", "reject_once")
        agent.end("cancelled")

    kernel.connect(script(prompt=prompt))
    text = kernel.run("go", answer=lambda _: "n").ok().text
    assert "The agent ended this turn as cancelled." in text
    assert "After the end of the turn" not in text


def test_blank_lines_before_a_thought_are_not_shown(kernel, script):
    def prompt(agent):
        for text in ("\n\n", "Let me think."):
            content = {"type": "text", "text": text}
            agent.update(sessionUpdate="agent_thought_chunk", messageId="m", content=content)

    kernel.connect(script(prompt=prompt))
    text = kernel.run("go").ok().text
    assert "> Let me think." in text
    assert ">\n" not in text


def test_a_call_that_an_earlier_session_left_open_does_not_look_as_if_it_ran_now():
    transcript = Transcript()
    reducer = Reducer(transcript)
    reducer.begin_history()
    update = {"toolCallId": "1", "title": "Edit", "status": "in_progress"}
    reducer.apply({"sessionUpdate": "tool_call", **update}, 1.0)
    history = reducer.end_history()
    assert isinstance(history, HistoryEntry)
    (call,) = history.entries
    assert isinstance(call, ToolCallEntry)
    assert call.finished


@pytest.mark.parametrize("nothing", [None, {}])
def test_a_load_answered_with_nothing_at_all_opens_a_new_session(kernel, script, nothing):
    def load_session(agent):
        agent.reply(agent.given["nothing"])

    def prompt(agent):
        if agent.run == 1:
            os._exit(3)
        agent.text("Here again.")

    made = script(
        load_session=load_session,
        prompt=prompt,
        capabilities={"loadSession": True},
        given={"nothing": nothing},
    )
    kernel.connect(made)
    kernel.run("go").failed("AgentExited")
    text = kernel.run("go").ok().text
    assert "Here again." in text
    assert "does not remember the earlier turns" in text
    assert "the session was loaded" not in text
    assert len(made.received("session/new")) == 2


def test_a_load_answered_with_null_after_a_replay_is_a_loaded_session(kernel, script):
    def load_session(agent):
        agent.text("Earlier answer.")
        agent.reply(None)

    def prompt(agent):
        if agent.run == 1:
            os._exit(3)
        agent.text("Here again.")

    made = script(load_session=load_session, prompt=prompt, capabilities={"loadSession": True})
    kernel.connect(made)
    kernel.run("go").failed("AgentExited")
    text = kernel.run("go").ok().text
    assert "Earlier answer." in text
    assert "the session was loaded" in text
    assert len(made.received("session/new")) == 1


def test_an_agent_run_by_another_program_is_called_after_what_that_runs():
    assert from_command(["node", "--no-warnings", "dist/agent.js"]).name == "agent.js"
    assert from_command(["npx", "-y", "@example/the-cli", "--acp"]).name == "the-cli"
    assert from_command(["/usr/bin/python3.12", "agent.py"]).name == "agent.py"
    assert from_command(["vendor/agent", "serve"]).name == "agent"


def test_an_agent_that_ended_between_two_turns_is_no_wrong_command(kernel, script):
    made = script()
    kernel.connect(made)
    os.kill(made.pids[0], signal.SIGKILL)
    cell = kernel.run("go")
    if cell.reply["status"] == "error":  # the prompt may have been sent before the end was seen
        assert "Check that its command" not in cell.failed("AgentExited").traceback
        cell = kernel.run("go").ok()
    assert "does not remember the earlier turns" in cell.text


def test_an_agent_that_needs_a_missing_file_to_be_empty_can_create_it(kernel, script):
    def initialize(agent):
        info = {"name": "gemini-cli", "version": "0.61.0"}
        agent.reply({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info})

    def prompt(agent):
        path = os.path.join(agent.given["cwd"], "made.txt")
        agent.ask("fs/read_text_file", path=path)
        agent.ask("fs/write_text_file", path=path, content="made\n")
        agent.ask("fs/read_text_file", path="/etc/hostname")

    made = script(initialize=initialize, prompt=prompt, given={"cwd": str(kernel.cwd)})
    kernel.connect(made)
    text = kernel.run("go").ok().text
    missing, outside = made.notes("fs/read_text_file")
    assert missing == {"result": {"content": ""}}
    assert "error" in outside
    assert kernel.cwd.joinpath("made.txt").read_text() == "made\n"
    assert "no such file: made.txt" in text
