"""The agent kernel with agents on the official Python SDK, which checks each of our answers
against its own models of the protocol."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.kernels import chunk_numbers
from tests.conftest import alive, wait_until

AGENTS = Path(__file__).with_name("sdk_agents")


def running(kernel, wanted):
    """The process below the kernel whose command is wanted, or ``None``."""
    for process in kernel.process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if wanted(process.cmdline()):
                return process
    return None


def agent_process(kernel, program):
    """The agent's own process, below the guard."""
    process = running(kernel, lambda command: command[1:2] == [str(AGENTS / program)])
    assert process is not None
    return process


@pytest.fixture
def worker(kernel, tmp_path):
    """The kernel, connected to the worker."""
    command = [sys.executable, str(AGENTS / "worker.py"), str(tmp_path)]
    kernel.run(f"%acp connect -- {shlex.join(command)}", limit=30).ok()
    return kernel


def yes(_question):
    return "y"


def no(_question):
    return "n"


def test_the_least_agent_echoes_and_is_called_by_its_command(kernel):
    program = AGENTS / "echo.py"
    banner = kernel.run(f"%acp connect -- {sys.executable} {program}", limit=30).ok().text
    assert "Connected to echo.py" in banner
    assert "ACP version 1" in banner
    assert "none beyond text prompts" in banner
    cell = kernel.run("Hello **you**\n\nand you").ok()
    assert "Hello **you**\n\nand you" in cell.text
    assert "<strong>you</strong>" in cell.html
    assert "end_turn" in cell.text
    process = agent_process(kernel, "echo.py")
    kernel.run("%acp disconnect").ok()
    wait_until(lambda: not alive(process.pid))


def test_an_agent_that_echoes_version_2_is_started_again_with_1(kernel):
    program = AGENTS / "echo.py"
    line = f"%acp connect --protocol 2 -- {sys.executable} {program}"
    banner = kernel.run(line, limit=60).ok().text
    assert "ACP version 1" in banner
    assert "echo.py does not speak version 2 of the protocol" in banner
    assert "hello" in kernel.run("hello").ok().text


def test_the_banner_says_what_the_agent_says_of_itself(kernel, tmp_path):
    command = [sys.executable, str(AGENTS / "worker.py"), str(tmp_path)]
    banner = kernel.run(f"%acp connect -- {shlex.join(command)}", limit=30).ok().text
    assert "SDK worker 3.2.1" in banner
    assert "load sessions" in banner
    assert f"worker-{agent_process(kernel, 'worker.py').pid}" in banner


def test_a_thought_and_a_plan_that_is_updated_in_place(worker):
    assert "> of this" in worker.run("think of this").ok().text
    cell = worker.run("plan look, do").ok()
    plans = [d for d in cell.displays.values() if "look" in d.get("text/plain", "")]
    assert len(plans) == 1
    assert plans[0]["text/plain"].count("✓") == 2


def test_two_thousand_chunks_are_all_there_in_order(worker):
    cell = worker.run("count 2000", limit=40).ok()
    assert chunk_numbers(cell.text) == list(range(2000))


def test_files_are_read_and_written_through_the_client(worker):
    worker.cwd.joinpath("a.txt").write_text("one\ntwo\n")
    assert r"It holds 'one\ntwo\n'." in worker.run("read a.txt").ok().text
    cell = worker.run("write b.txt content", answer=yes).ok()
    assert "The answer is yes." in cell.text
    assert "+content" in cell.text
    assert worker.cwd.joinpath("b.txt").read_text() == "content"


def test_what_cannot_be_read_or_written_is_an_error_that_the_agent_understands(worker):
    assert "It cannot be read: -32002" in worker.run("read missing.txt").ok().text
    outside = worker.cwd.parent / "outside.txt"
    outside.write_text("secret")
    cell = worker.run("read ../outside.txt").ok()
    assert "It cannot be read: -32602" in cell.text
    assert "secret" not in cell.text
    cell = worker.run(f"write {outside} changed", answer=yes).ok()
    assert "It cannot be written: -32602" in cell.text
    assert outside.read_text() == "secret"


def test_a_permission_denied_by_the_user_or_by_nobody_is_the_agents_reject_option(worker):
    cell = worker.run("write c.txt x", answer=no).ok()
    assert "The answer is no." in cell.text
    assert "Denied by you" in cell.text
    cell = worker.run("write c.txt x").ok()
    assert "The answer is no." in cell.text
    assert "nobody can answer" in cell.text
    assert not worker.cwd.joinpath("c.txt").exists()


def test_two_questions_at_once_get_an_answer_each(worker):
    answers = {"first": "y", "second": "n"}

    def answer(question):
        return next(reply for name, reply in answers.items() if name in question)

    cell = worker.run("ask-twice first second", answer=answer).ok()
    assert "first: True; second: False" in cell.text
    assert len(cell.asked) == 2


def test_a_command_runs_in_the_clients_terminal_after_a_yes(worker):
    cell = worker.run("run echo out; echo err >&2; exit 3", answer=yes).ok()
    assert r"exit 3, signal None, output 'out\nerr\n'" in cell.text
    assert "exit status 3" in cell.text
    cell = worker.run("run touch made", answer=no).ok()
    assert "It cannot be run: -3" in cell.text
    assert not worker.cwd.joinpath("made").exists()


def test_a_cancel_keeps_the_answer_so_far_and_the_session(worker):
    cell = worker.start("wait")
    cell.wait_text("Waiting.")
    worker.interrupt()
    cell.finish().failed("TurnCancelled")
    assert "Waiting. Stopped." in cell.text
    assert "You said 'and now'." in worker.run("and now").ok().text


@pytest.mark.obligation("C31")
def test_a_cancel_answers_the_open_question_with_cancelled(worker):
    asked: list[str] = []
    cell = worker.start("wait-for-answer", answer=asked.append)
    cell.wait(lambda _: asked)
    worker.interrupt()
    cell.finish().failed("TurnCancelled")
    assert "The answer is cancelled." in cell.text


def test_a_second_interrupt_ends_the_agent_and_the_command_that_it_waits_for(worker):
    cell = worker.start("run exec sleep 1234", answer=yes)
    sleeper = cell.wait(lambda _: running(worker, ["sleep", "1234"].__eq__))
    worker.interrupt()
    worker.interrupt()  # this agent waits for the command, not for the cancel
    cell.finish().failed("AgentUnresponsive")
    wait_until(lambda: not alive(sleeper.pid))


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "max_turn_requests"])
def test_an_unusual_stop_reason_is_a_visible_warning(worker, reason):
    assert reason in worker.run(f"stop {reason}").ok().text


def test_an_exception_in_the_agent_is_an_error_and_the_session_stays_usable(worker):
    cell = worker.run("raise no idea").failed("RequestError")
    assert "-32603" in cell.traceback
    assert "You said 'go on'." in worker.run("go on").ok().text


def test_an_unknown_method_of_the_agents_is_answered(worker):
    assert "no such method: -32601" in worker.run("extend").ok().text


def test_after_a_crash_the_session_is_loaded_with_its_history(worker):
    worker.run("remember me").ok()
    cell = worker.run("leave 7").failed("AgentExited")
    assert "exited with code 7" in cell.traceback
    cell = worker.run("and on", limit=30).ok()
    assert "You had asked for 'remember me'." in cell.text
    assert "the session was loaded" in cell.text
    assert "You said 'and on'." in cell.text


def test_no_process_is_left_when_the_agent_is_disconnected(worker):
    family = worker.process.children(recursive=True)
    assert family
    worker.run("%acp disconnect").ok()
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_a_cancel_ends_the_command_that_the_agent_leaves_running(worker):
    cell = worker.start("leave-alone exec sleep 4321", answer=yes)
    sleeper = cell.wait(lambda _: running(worker, ["sleep", "4321"].__eq__))
    worker.interrupt()
    cell.finish().failed("TurnCancelled")
    wait_until(lambda: not alive(sleeper.pid))
    assert "running" not in cell.text
    assert "You said 'go on'." in worker.run("go on").ok().text


def test_a_command_that_was_allowed_is_not_asked_for_again_when_it_runs_in_a_shell(worker):
    cell = worker.run("ask-and-run echo once", answer=yes).ok()
    assert len(cell.asked) == 1
    assert r"output 'once\n'" in cell.text


def test_another_command_than_the_allowed_one_is_asked_for(worker):
    cell = worker.run("ask-and-run-other echo once", answer=yes).ok()
    assert len(cell.asked) == 2
    assert "echo once; true" in cell.asked[1]
