"""The agent kernel over jupyter_client: what a cell is, its output, its reply, and its manners."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import alive, wait_until
from tests.live_kernel import LiveKernel, live_kernel

CANCELS_WITHIN = 5.0
"""Seconds from an interrupt to the cell's end; measured 0.1, the rest is for a busy machine."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    """One kernel for all tests that leave it as they found it: connected, asking."""
    with live_kernel(tmp_path_factory.mktemp("kernel")) as running:
        running.run("%acp connect demo").expect_ok()
        yield running


# -- what a cell is -----------------------------------------------------------------------------


def test_a_prompt_is_sent_as_written_and_answered_in_the_cell(kernel: LiveKernel) -> None:
    cell = kernel.run("Is 1 < 2 & *bold* `code`?\n\nSecond paragraph").expect_ok()
    assert "Is 1 < 2 & *bold* `code`?" in cell.text
    assert "Second paragraph" in cell.text
    assert "end_turn" in cell.outputs[-1]["text/plain"]


def test_every_output_carries_static_html_and_plain_text(kernel: LiveKernel) -> None:
    cell = kernel.run("plan A, B\nthink hm\nread nothing.txt\ntable").expect_ok()
    assert len(cell.outputs) >= 5
    for data in cell.outputs:
        assert data["text/plain"].strip()
        assert "<" in data["text/html"]
        assert "<script" not in data["text/html"]


def test_a_prompt_can_mention_the_cell_just_before_it(kernel: LiveKernel) -> None:
    kernel.run("hello")
    first = kernel.run("%%python\n'what a result'\n" + "#" * 500)
    cell = kernel.run("Look at @cell:-1").expect_ok()
    assert f"@cell:{first.reply['execution_count']}" in cell.text


@pytest.mark.parametrize("code", ["", "   ", "\n\n", " \t\n "])
def test_an_empty_cell_does_nothing(kernel: LiveKernel, code: str) -> None:
    cell = kernel.run(code).expect_ok()
    assert cell.outputs == []


def test_a_cell_of_magics_and_a_prompt_runs_both_in_order(kernel: LiveKernel) -> None:
    cell = kernel.run("%acp permissions\n%acp permissions\n\nHello magics").expect_ok()
    assert cell.text.count("Permission requests: ask.") == 2
    assert cell.text.rindex("Permission requests") < cell.text.index("Hello magics")


def test_the_first_failing_magic_ends_the_cell_before_the_prompt(kernel: LiveKernel) -> None:
    cell = kernel.run("%acp conect\nHello after the error").expect_error("UsageError")
    assert "Did you mean connect" in cell.text
    assert "Hello after the error" not in cell.text
    following = kernel.run("Hello again").expect_ok()
    assert following.reply["execution_count"] == cell.reply["execution_count"] + 1


def test_a_mistyped_magic_is_an_error_that_names_the_nearest(kernel: LiveKernel) -> None:
    cell = kernel.run("%acpp connect demo").expect_error("UsageError")
    assert "%acp" in cell.reply["traceback"][-1]
    cell = kernel.run("%conect demo").expect_error("UsageError")
    assert "%acp connect" in cell.text


def test_an_unknown_agent_and_an_unknown_option_name_the_known_ones(kernel: LiveKernel) -> None:
    cell = kernel.run("%acp connect demi").expect_error("UsageError")
    assert "Did you mean demo?" in cell.text
    cell = kernel.run("%acp connect --cwdd x demo").expect_error("UsageError")
    assert "Did you mean --cwd?" in cell.text
    assert "Hello still" in kernel.run("Hello still").expect_ok().text, "the session is unharmed"


@pytest.mark.parametrize("code", ["!ls", "?help", "# A heading", "%s is not replaced, why?"])
def test_what_is_no_magic_goes_to_the_agent(kernel: LiveKernel, code: str) -> None:
    cell = kernel.run(code).expect_ok()
    assert code in cell.text
    assert "You said" in cell.text


def test_a_backslash_sends_a_percent_sign_as_prompt(kernel: LiveKernel) -> None:
    cell = kernel.run("\\%acp connect demo").expect_ok()
    assert "> %acp connect demo" in cell.text


def test_python_cells_run_in_the_same_kernel_and_keep_their_names(kernel: LiveKernel) -> None:
    kernel.run("%%python\nanswer = 6 * 7").expect_ok()
    cell = kernel.run("%%python\nprint('said', answer)\nanswer").expect_ok()
    assert [content["text"] for content in cell.contents("stream")] == ["said 42\n"]
    assert cell.contents("execute_result")[0]["data"]["text/plain"] == "42"


def test_an_error_in_a_python_cell_is_pythons_own(kernel: LiveKernel) -> None:
    cell = kernel.run("%%python\n1 / 0").expect_error("ZeroDivisionError")
    assert "division by zero" in cell.reply["traceback"][-1]
    assert "line 2" in cell.text, "as the cell counts its lines"
    assert "acp_jupyter" not in cell.text


def test_a_python_cell_may_use_ipythons_own_magics(kernel: LiveKernel) -> None:
    cell = kernel.run("%%python\n%time total = sum(range(10))\nprint(total)").expect_ok()
    assert "45" in cell.text
    cell = kernel.run("%%python\n%%time\nprint(total + 1)").expect_ok()
    assert "46" in cell.text
    assert "Wall time" in cell.text


@pytest.mark.parametrize("tag", ["parameters", "injected-parameters"])
def test_a_cell_tagged_as_parameters_is_python(kernel: LiveKernel, tag: str) -> None:
    kernel.run("# Parameters\ntopic = 'bees'", metadata={"tags": [tag]}).expect_ok()
    cell = kernel.run("%%python\ntopic").expect_ok()
    assert cell.contents("execute_result")[0]["data"]["text/plain"] == "'bees'"


def test_hostile_cell_metadata_leaves_the_cell_a_prompt(kernel: LiveKernel) -> None:
    for tags in (None, 7, [7, ["parameters"], {}], "parameters", {"parameters": 1}):
        cell = kernel.run("Hello tags", metadata={"tags": tags})
        assert "You said" in cell.expect_ok().text, tags


# -- the reply and the counts -------------------------------------------------------------------


def test_each_cell_counts_once_and_says_so_in_reply_and_echo(kernel: LiveKernel) -> None:
    cells = [
        kernel.run(code)
        for code in ("Hello", "%acp permissions", "%%python\n1", "%nothing_like_it x", "%acp oops")
    ]
    counts = [cell.reply["execution_count"] for cell in cells]
    assert counts == list(range(counts[0], counts[0] + len(cells)))
    for cell, count in zip(cells, counts, strict=True):
        assert [c["execution_count"] for c in cell.contents("execute_input")] == [count]


def test_a_cell_without_history_does_not_count_and_is_not_remembered(kernel: LiveKernel) -> None:
    before = kernel.run("Hello counted").reply["execution_count"]
    kernel.run("Hello forgotten", store_history=False).expect_ok()
    after = kernel.run("Hello counted too").reply["execution_count"]
    assert after == before + 1
    assert "Hello forgotten" not in _history(kernel)


def test_cells_are_in_the_history_as_written(kernel: LiveKernel) -> None:
    codes = [
        "Hello history\nwith two lines",
        "%acp permissions",
        "%acp permissions\nHello both",
        "%%python\n1 + 1",
    ]
    for code in codes:
        kernel.run(code).expect_ok()
    assert _history(kernel)[-len(codes) :] == codes


def _history(kernel: LiveKernel) -> list[str]:
    reply = kernel.request(
        "history_request", {"hist_access_type": "tail", "n": 50, "output": False, "raw": True}
    )
    return [item[2] for item in reply["history"]]


def test_a_silent_cell_shows_nothing_and_does_not_count(kernel: LiveKernel) -> None:
    before = kernel.run("Hello loud").reply["execution_count"]
    cell = kernel.run("Hello silent", silent=True, store_history=False).expect_ok()
    assert {message["msg_type"] for message in cell.published} == {"status"}
    assert kernel.run("Hello loud").reply["execution_count"] == before + 1


def test_a_silent_cell_tells_its_error_in_the_reply_only(kernel: LiveKernel) -> None:
    for code in ("fail", "%conect"):
        cell = kernel.run(code, silent=True)
        assert cell.reply["status"] == "error"
        assert {message["msg_type"] for message in cell.published} == {"status"}


def test_help_that_a_magic_pages_comes_with_the_reply_to_the_prompt(kernel: LiveKernel) -> None:
    cell = kernel.run("%acp?\nHello after the help").expect_ok()
    assert "%acp help" in cell.reply["payload"][0]["data"]["text/plain"]
    assert "Hello after the help" in cell.text


def test_user_expressions_are_evaluated_after_a_prompt(kernel: LiveKernel) -> None:
    kernel.run("%%python\nx = 20").expect_ok()
    cell = kernel.run("Hello", user_expressions={"y": "x + 1", "bad": "1 / 0"}).expect_ok()
    expressions = cell.reply["user_expressions"]
    assert expressions["y"]["data"]["text/plain"] == "21"
    assert expressions["bad"]["status"] == "error"
    cell = kernel.run("", user_expressions={"y": "x + 2"}).expect_ok()
    assert cell.reply["user_expressions"]["y"]["data"]["text/plain"] == "22"


def test_an_error_stops_the_cells_queued_behind_it(kernel: LiveKernel) -> None:
    first = kernel.start("slow 600")
    kernel.read(lambda: "Step 2 of 600." in first.text)
    cells = [kernel.start(code) for code in ("Hello never", "Hello never either")]
    with kernel.subshell() as header:  # its answer comes after them: both are in the queue
        kernel.request("kernel_info_request", {}, header=header)
    kernel.interrupt()
    kernel.read(lambda: first.done and all(cell.done for cell in cells))
    assert first.reply["ename"] == "TurnCancelled"
    assert [cell.reply["status"] for cell in cells] == ["aborted", "aborted"]
    assert "Hello never" not in cells[0].text


def test_cells_queued_behind_an_error_go_on_where_asked(kernel: LiveKernel) -> None:
    first = kernel.start("fail", stop_on_error=False)
    second = kernel.start("Hello anyway")
    kernel.read(lambda: first.done and second.done)
    assert first.reply["status"] == "error"
    assert "Hello anyway" in second.expect_ok().text


def test_the_whole_answer_is_published_before_the_cell_goes_idle(kernel: LiveKernel) -> None:
    cell = kernel.run("count 3000").expect_ok()
    kinds = [message["msg_type"] for message in cell.published]
    assert kinds[-1] == "status"
    text = " ".join(data["text/plain"] for data in cell.outputs)
    numbers = [int(word) for word in text.split() if word.isdigit()]
    assert numbers[:3000] == list(range(1, 3001))


# -- help while typing --------------------------------------------------------------------------


def _complete(kernel: LiveKernel, code: str) -> list[str]:
    reply = kernel.request("complete_request", {"code": code, "cursor_pos": len(code)})
    assert reply["status"] == "ok"
    assert reply["cursor_end"] == len(code)
    return [code[: reply["cursor_start"]] + match for match in reply["matches"]]


def test_magics_agents_and_slash_commands_are_completed(kernel: LiveKernel) -> None:
    assert "%acp" in _complete(kernel, "%ac")
    assert _complete(kernel, "%acp conn") == ["%acp connect"]
    assert _complete(kernel, "%acp connect dem") == ["%acp connect demo"]
    assert "/plan" in _complete(kernel, "/pl")


def test_prose_is_not_completed_as_python(kernel: LiveKernel) -> None:
    assert _complete(kernel, "please he") == []
    assert _complete(kernel, "he") == []


def test_python_is_completed_in_python_cells(kernel: LiveKernel) -> None:
    assert "%%python\nlen" in _complete(kernel, "%%python\nle")


def test_a_question_mark_after_a_magic_gives_its_help(kernel: LiveKernel) -> None:
    reply = kernel.request("inspect_request", {"code": "%acp", "cursor_pos": 4, "detail_level": 0})
    assert reply["found"]
    assert "%acp help" in reply["data"]["text/plain"]
    cell = kernel.run("%acp?").expect_ok()
    assert "%acp help" in cell.reply["payload"][0]["data"]["text/plain"]


def test_prose_is_not_inspected_as_python(kernel: LiveKernel) -> None:
    reply = kernel.request("inspect_request", {"code": "print", "cursor_pos": 5, "detail_level": 0})
    assert not reply["found"]


def test_a_prompt_is_always_complete_and_python_when_it_is(kernel: LiveKernel) -> None:
    def status(code: str) -> str:
        return str(kernel.request("is_complete_request", {"code": code})["status"])

    assert status("for i in range(3):") == "complete"
    assert status("Explain (this") == "complete"
    assert status("%%python\nfor i in range(3):") == "incomplete"


def test_kernel_info_names_a_language_that_highlights_prose(kernel: LiveKernel) -> None:
    info = kernel.request("kernel_info_request", {})
    language = info["language_info"]
    assert language["name"] == "acp"
    assert language["mimetype"] == "text/x-ipythongfm"
    assert language["codemirror_mode"] == "ipythongfm"
    assert language["file_extension"] == ".md"
    assert info["implementation"] == "acp_jupyter"
    assert "debugger" not in info["supported_features"]
    assert "%acp help" in info["banner"]


# -- %acp ---------------------------------------------------------------------------------------


def test_the_state_tells_agent_session_folder_and_policy(kernel: LiveKernel) -> None:
    text = kernel.run("%acp").expect_ok().text
    assert "ready" in text
    assert str(kernel.cwd) in text
    assert "ask (each request is put to you)" in text
    assert "/plan" in text


def test_help_lists_every_command(kernel: LiveKernel) -> None:
    text = kernel.run("%acp help").expect_ok().text
    for command in ("connect", "disconnect", "restart", "permissions", "log", "help"):
        assert f"%acp {command}" in text
    text = kernel.run("%acp help log").expect_ok().text
    assert "%acp log" in text
    assert "%acp restart" not in text


def test_help_groups_the_commands_and_shows_a_line_of_each(kernel: LiveKernel) -> None:
    text = kernel.run("%acp help").expect_ok().text
    assert text.index("\nSessions\n  %acp sessions  ") < text.index("\nPrompts\n")
    assert "--isolate" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "--isolate worktree|copy" in kernel.run("%acp help connect").expect_ok().text


def test_the_log_shows_messages_in_both_directions_and_stderr(kernel: LiveKernel) -> None:
    kernel.run("stderr a word on standard error").expect_ok()
    text = kernel.run("%acp log 200").expect_ok().text
    assert '→ {"jsonrpc"' in text
    assert '← {"jsonrpc"' in text
    assert "session/prompt" in text
    assert "a word on standard error" in text
    assert len(kernel.run("%acp log 2").text.split("Standard error")[0].strip().splitlines()) == 2


def test_a_policy_holds_until_it_is_changed(kernel: LiveKernel) -> None:
    kernel.run("%acp permissions allow").expect_ok()
    try:
        assert "by policy" in kernel.run("write policy.txt: yes").expect_ok().text
        assert (kernel.cwd / "policy.txt").read_text() == "yes"
        kernel.run("%acp permissions deny").expect_ok()
        assert "the policy is to deny" in kernel.run("write policy.txt: no").expect_ok().text
        assert (kernel.cwd / "policy.txt").read_text() == "yes"
    finally:
        kernel.run("%acp permissions ask").expect_ok()
    kernel.run("%acp permissions maybe").expect_error("UsageError")


def test_restart_starts_a_fresh_agent_and_session(kernel: LiveKernel) -> None:
    before = _agent(kernel)
    text = kernel.run("%acp restart").expect_ok().text
    assert "Connected to" in text
    assert _agent(kernel) != before
    assert not alive(before)


def _agent(kernel: LiveKernel) -> int:
    text = kernel.run("%acp").expect_ok().text
    line = next(line for line in text.splitlines() if "Process" in line)
    return int("".join(filter(str.isdigit, line)))


def test_disconnect_ends_the_agent_and_the_next_prompt_says_how_to_connect(
    tmp_path: Path,
) -> None:
    with live_kernel(tmp_path) as kernel:
        cell = kernel.run("Hello nobody").expect_error("UsageError")
        assert "%acp connect demo" in cell.text
        assert "No agent is connected" in kernel.run("%acp").expect_ok().text
        assert "No agent is connected" in kernel.run("%acp log").expect_ok().text
        kernel.run("%acp restart").expect_error("UsageError")
        kernel.run("%acp connect demo").expect_ok()
        agent = _agent(kernel)
        assert "demo has ended." in kernel.run("%acp disconnect").expect_ok().text
        wait_until(lambda: not alive(agent))
        assert "No agent was connected." in kernel.run("%acp disconnect").expect_ok().text


def test_connect_takes_a_folder_and_a_command(kernel: LiveKernel) -> None:
    (kernel.cwd / "sub").mkdir()
    try:
        text = kernel.run("%acp connect demo --cwd sub").expect_ok().text
        assert str(kernel.cwd / "sub") in text
        command = f"%acp connect -- {sys.executable} -P -m acp_jupyter.demo_agent"
        text = kernel.run(command).expect_ok().text
        assert "Connected to" in text
        kernel.run("%acp connect --cwd nowhere demo").expect_error("UsageError")
        kernel.run("%acp connect -- /no/such/agent").expect_error("AgentNotFound")
    finally:
        kernel.run("%acp connect demo").expect_ok()


# -- questions on stdin -------------------------------------------------------------------------


def test_a_permission_is_asked_on_stdin_and_allowed(kernel: LiveKernel) -> None:
    cell = kernel.run("write asked.txt: yes please", answers=["y"]).expect_ok()
    assert "asked.txt" in cell.questions[0]
    assert "yes please" in cell.questions[0], "the input is shown before the choices"
    assert "[1] " in cell.questions[0]
    assert (kernel.cwd / "asked.txt").read_text() == "yes please"
    assert "Allowed once by you" in cell.text


def test_a_permission_asked_on_stdin_is_denied(kernel: LiveKernel) -> None:
    cell = kernel.run("write denied.txt: no", answers=["no"]).expect_ok()
    assert not (kernel.cwd / "denied.txt").exists()
    assert "by you" in cell.text


def test_a_number_chooses_the_option(kernel: LiveKernel) -> None:
    cell = kernel.run("write number.txt: one", answers=["1"]).expect_ok()
    first = next(line for line in cell.questions[0].splitlines() if "[1]" in line)
    assert "Allow" in first
    assert (kernel.cwd / "number.txt").read_text() == "one"


def test_garbage_is_asked_again_and_then_counts_as_a_no(kernel: LiveKernel) -> None:
    answers = ["perhaps", "99", "-1"]
    cell = kernel.run("write garbage.txt: x", answers=answers).expect_ok()
    assert len(cell.questions) == 3
    assert "Answer with a number" in cell.questions[1]
    assert not (kernel.cwd / "garbage.txt").exists()


def test_several_questions_are_asked_one_after_another(kernel: LiveKernel) -> None:
    cell = kernel.run("permissions 3", answers=["y", "n", "y"]).expect_ok()
    assert len(cell.questions) == 3
    assert cell.text.count("by you") == 3


def test_an_interrupt_withdraws_the_question_and_a_late_answer_answers_nothing(
    kernel: LiveKernel,
) -> None:
    cell = kernel.start("write late.txt: x", allow_stdin=True)
    kernel.read(lambda: cell.questions)
    kernel.interrupt()
    kernel.finish(cell, CANCELS_WITHIN).expect_error("TurnCancelled")
    assert "Cancelled" in cell.text
    kernel.client.input("y")
    cell = kernel.run("write late.txt: x", answers=["n"]).expect_ok()
    assert not (kernel.cwd / "late.txt").exists()


def test_where_nobody_can_answer_it_is_denied_within_a_second(kernel: LiveKernel) -> None:
    started = time.monotonic()
    cell = kernel.run("write nobody.txt: x").expect_ok()
    assert time.monotonic() - started < 1.0
    assert "permission needed" in cell.text
    assert "nobody can answer, denied" in cell.text
    assert not (kernel.cwd / "nobody.txt").exists()


# -- stop ---------------------------------------------------------------------------------------


def test_an_interrupt_cancels_the_turn_and_keeps_the_partial_answer(kernel: LiveKernel) -> None:
    agent = _agent(kernel)
    cell = kernel.start("slow 100")
    kernel.read(lambda: len(cell.contents("display_data")) > 0)
    sent = time.monotonic()
    kernel.interrupt()
    kernel.finish(cell, CANCELS_WITHIN).expect_error("TurnCancelled")
    assert time.monotonic() - sent < CANCELS_WITHIN
    assert "cancelled" in cell.text
    assert len(cell.outputs) >= 3, "the partial answer, the footer and the error"
    assert "Hello afterwards" in kernel.run("Hello afterwards").expect_ok().text
    assert _agent(kernel) == agent


def test_a_signal_cancels_the_turn_too(kernel: LiveKernel) -> None:
    cell = kernel.start("slow 100")
    kernel.read(lambda: cell.contents("display_data"))
    kernel.process.send_signal(signal.SIGINT)
    kernel.finish(cell, CANCELS_WITHIN).expect_error("TurnCancelled")
    kernel.run("Hello after the signal").expect_ok()


def test_an_interrupt_of_a_silent_connect_ends_the_agent(kernel: LiveKernel) -> None:
    try:
        silent = f"{sys.executable} -c 'import time; time.sleep(300)'"
        cell = kernel.start(f"%acp connect -- {silent}")
        found = wait_until(lambda: _processes(kernel, "time.sleep(300)"))
        kernel.interrupt()
        kernel.finish(cell, CANCELS_WITHIN).expect_error("TurnCancelled")
        wait_until(lambda: not any(alive(pid) for pid in found))
    finally:
        kernel.run("%acp connect demo").expect_ok()


def _processes(kernel: LiveKernel, words: str) -> list[int]:
    found = []
    for child in kernel.process.children(recursive=True):
        try:
            if words in " ".join(child.cmdline()):
                found.append(child.pid)
        except psutil.NoSuchProcess:
            pass
    return found


def test_an_interrupt_reaches_the_connect_of_a_first_prompt(tmp_path: Path) -> None:
    agent = f"{sys.executable} -c 'import time; time.sleep(300)'"
    with live_kernel(tmp_path, ACP_JUPYTER_AGENT=agent) as kernel:
        cell = kernel.start("Hello nobody")
        found = wait_until(lambda: _processes(kernel, "time.sleep(300)"))
        kernel.interrupt()
        kernel.finish(cell, CANCELS_WITHIN).expect_error("TurnCancelled")
        wait_until(lambda: not any(alive(pid) for pid in found))


def test_a_prompt_while_a_turn_runs_is_refused(kernel: LiveKernel) -> None:
    subshell = kernel.request("create_subshell_request", {}, channel="control")["subshell_id"]
    first = kernel.start("slow 100")
    kernel.read(lambda: first.contents("display_data"))
    second = kernel.start("Hello too early", header={"subshell_id": subshell})
    kernel.finish(second).expect_error("TurnRunning")
    assert "Wait for its end" in second.text
    assert not first.done
    kernel.interrupt()
    kernel.finish(first).expect_error("TurnCancelled")
    kernel.request("delete_subshell_request", {"subshell_id": subshell}, channel="control")


def test_an_interrupt_reaches_python_code(kernel: LiveKernel) -> None:
    cell = kernel.start("%%python\nprint('started')\nimport time\ntime.sleep(60)")
    kernel.read(lambda: cell.contents("stream"))
    kernel.interrupt()
    kernel.finish(cell, CANCELS_WITHIN).expect_error("KeyboardInterrupt")
    kernel.run("Hello after Python").expect_ok()


def test_an_interrupt_when_nothing_runs_harms_nothing(kernel: LiveKernel) -> None:
    reply = kernel.request("interrupt_request", {}, channel="control")
    assert reply["status"] == "ok"
    kernel.run("Hello after nothing").expect_ok()


def test_shutdown_ends_kernel_and_agent(tmp_path: Path) -> None:
    with live_kernel(tmp_path, ACP_JUPYTER_AGENT="demo") as kernel:
        kernel.run("Hello").expect_ok()
        agent = _agent(kernel)
        started = time.monotonic()
        kernel.manager.shutdown_kernel()
        assert time.monotonic() - started < 5
        wait_until(lambda: not alive(agent))


# -- settings -----------------------------------------------------------------------------------


def test_the_environment_names_the_agent_of_the_first_prompt(tmp_path: Path) -> None:
    with live_kernel(tmp_path, ACP_JUPYTER_AGENT="demo", ACP_JUPYTER_PERMISSIONS="allow") as kernel:
        cell = kernel.run("write auto.txt: made").expect_ok()
        assert "Connected to" in cell.outputs[0]["text/plain"]
        assert (kernel.cwd / "auto.txt").read_text() == "made"


def test_a_configuration_file_names_the_agent_and_the_policy(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    command = [sys.executable, "-P", "-m", "acp_jupyter.demo_agent"]
    (config / "jupyter_acp_config.py").write_text(
        f"c.ACPJupyter.agent = 'mine'\nc.ACPJupyter.agents = {{'mine': {command!r}}}\n"
    )
    (config / "jupyter_acp_config.json").write_text(
        json.dumps({"ACPJupyter": {"permissions": "deny"}})
    )
    with live_kernel(tmp_path) as kernel:
        cell = kernel.run("write config.txt: x").expect_ok()
        assert "the policy is to deny" in cell.text
        assert "%acp connect mine" in _complete(kernel, "%acp connect m")


def test_a_broken_setting_is_told_in_the_cell_and_python_cells_still_run(tmp_path: Path) -> None:
    with live_kernel(tmp_path, ACP_JUPYTER_PERMISSIONS="perhaps") as kernel:
        cell = kernel.run("Hello").expect_error("UsageError")
        assert "ACP_JUPYTER_PERMISSIONS" in cell.text
        assert "2" in kernel.run("%%python\n1 + 1").expect_ok().text
    home = tmp_path / "second"
    home.mkdir()
    with live_kernel(home, ACP_JUPYTER_OUTPUT="sideways") as kernel:
        cell = kernel.run("Hello").expect_error("UsageError")
        assert "updates, append, final" in cell.text
