"""The faults of prompts and of consent in a Python kernel with ``%load_ext acp_jupyter``.

The agents do to ``%%acp`` cells what `test_faults_wire` and `test_faults_permission` have them do
to those of the agent kernel. Where a test says so, the cell runs in a subshell, on a thread of
its own.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import nbformat
import pytest

from tests.bench.kernels import PLAIN
from tests.conftest import alive, wait_until
from tests.live_kernel import as_server, live_kernel
from tests.test_comm_tap import Page
from tests.test_faults_permission import CANCELLED, ONCE, REJECT, outcomes

CANCEL_WITHIN = 2.0
"""Seconds from an interrupt to the agent's reading of the cancel; the benchmark holds it to 0.1,
the rest is for a busy machine."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """Nobody can answer unless a cell allows stdin: a program started it."""
    with live_kernel(tmp_path_factory.mktemp("plain"), name=PLAIN) as running:
        running.run("%load_ext acp_jupyter").expect_ok()
        yield running


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """As a Jupyter server starts it: its frontends show widgets."""
    home = tmp_path_factory.mktemp("served")
    with live_kernel(home, name=PLAIN, **as_server(home)) as running:
        running.run("%load_ext acp_jupyter").expect_ok()
        yield running


@pytest.fixture(params=["main thread", "subshell"])
def place(request, kernel):
    """Header fields of the cells: where they run."""
    if request.param == "main thread":
        yield {}
        return
    with kernel.subshell() as header:
        yield header


def connected(kernel, script, **settings):
    """Connect to a scenario."""
    made = script(**settings)
    kernel.run(f"%acp connect -- {shlex.join(made.argv)}").expect_ok()
    return made


def settle(kernel):
    """Return when the main thread has handled all that was scheduled on it before."""
    kernel.run("pass").expect_ok()


def signal_taken(kernel):
    """Who gets SIGINT while the main thread runs nothing."""
    return kernel.run("print(repr(get_ipython().kernel.saved_sigint_handler))").expect_ok().text


def interrupt(kernel, cell):
    """Stop a cell as the stop button does, and read to its end."""
    kernel.interrupt()
    return kernel.finish(cell)


# -- the end of a turn ---------------------------------------------------------------------------


def test_f20_an_interrupt_cancels_the_turn_and_nothing_else(kernel, script, place):
    def prompt(agent):
        agent.text(f"partial {agent.turn}")
        if agent.turn > 1:
            return
        call = {"toolCallId": "tool", "title": "A long one", "status": "in_progress"}
        agent.update(sessionUpdate="tool_call", **call)
        options = [{"optionId": k, "name": k, "kind": k} for k in ("allow_once", "reject_once")]
        params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
        asked = agent.request("session/request_permission", params)
        agent.wait("session/cancel")
        agent.note("cancel")
        agent.note("session/request_permission", {"result": agent.answer(asked)["result"]})
        agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    kernel.run("kept = 41").expect_ok()
    cell = kernel.start("%%acp --out turn\ngo", allow_stdin=True, header=place)
    kernel.read(lambda: cell.questions and "partial 1" in cell.text)
    if place:
        settle(kernel)
    sent = time.monotonic()
    interrupt(kernel, cell).expect_error("TurnCancelled")
    assert made.times("cancel")[0] - sent < CANCEL_WITHIN
    assert outcomes(made) == [CANCELLED]
    assert "partial 1" in cell.text
    assert "A long one" in cell.text
    assert "in progress" not in cell.text
    assert "Cancelled. What had arrived is kept." in cell.text
    kept = kernel.run("print(kept + 1, turn.stop_reason)").expect_ok()
    assert kept.text.strip() == "42 cancelled"
    assert "partial 2" in kernel.run("%%acp\nagain").expect_ok().text
    assert made.runs == 1


def test_f20_the_stop_button_is_the_main_threads_first_and_a_subshells_then(kernel, script):
    def prompt(agent):
        agent.text("working")
        agent.wait("session/cancel")
        agent.end("cancelled")

    connected(kernel, script, prompt=prompt)
    with kernel.subshell() as header:
        turn = kernel.start("%%acp\ngo", header=header)
        kernel.read(lambda: "working" in turn.text)
        busy = kernel.start("print('on')\nwhile True: pass")
        kernel.read(lambda: "on" in busy.text)
        interrupt(kernel, busy).expect_error("KeyboardInterrupt")
        assert not turn.done
        settle(kernel)
        interrupt(kernel, turn).expect_error("TurnCancelled")
    again = kernel.start("print('on')\nwhile True: pass")
    kernel.read(lambda: "on" in again.text)
    interrupt(kernel, again).expect_error("KeyboardInterrupt")
    assert "SIG_IGN" in signal_taken(kernel)


def test_f20_the_signal_is_given_back_after_a_cell_that_awaited_beside_a_turn(kernel, script):
    def prompt(agent):
        agent.text("working")
        agent.wait("session/cancel", limit=60)
        agent.end("cancelled")

    connected(kernel, script, prompt=prompt)
    waiting = "import asyncio\ngate = asyncio.Event()\nprint('on')\nawait gate.wait()"
    with kernel.subshell() as header:
        awaiting = kernel.start(waiting)
        kernel.read(lambda: "on" in awaiting.text)
        turn = kernel.start("%%acp\ngo", header=header)
        kernel.read(lambda: "working" in turn.text)
        kernel.interrupt()  # the cell on the main thread is the one that awaits
        kernel.finish(awaiting)
        assert awaiting.reply["status"] == "error"
        assert not turn.done
        # Taken within a tenth of a second of its end; before that a stop is ignored.
        wait_until(lambda: _stopped(kernel, turn))
        assert turn.reply["ename"] == "TurnCancelled"
    assert "SIG_IGN" in signal_taken(kernel)


def _stopped(kernel, cell):
    if "_on_sigint" in signal_taken(kernel):
        interrupt(kernel, cell)
    return cell.done


def test_f21_a_second_interrupt_ends_an_agent_that_ignores_the_first(kernel, script, place):
    def prompt(agent):
        if agent.run == 1:
            agent.text("deaf to it")
            agent.wait("session/cancel")
            agent.note("cancel")
            agent.hang()
        agent.text("a new one")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("%%acp\ngo", header=place)
    kernel.read(lambda: "deaf to it" in cell.text)
    if place:
        settle(kernel)
    kernel.interrupt()
    wait_until(lambda: made.notes("cancel"))
    interrupt(kernel, cell).expect_error("AgentUnresponsive")
    assert "second interrupt" in cell.text
    assert "deaf to it" in cell.text
    wait_until(lambda: not alive(made.pids[0]))
    assert "a new one" in kernel.run("%%acp\nagain").expect_ok().text
    assert made.runs == 2


@pytest.mark.parametrize("answer", ["end_turn", "an error"])
def test_f22_any_answer_to_a_cancel_is_shown_as_cancelled(kernel, script, place, answer):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("partial")
            agent.wait("session/cancel")
            if agent.given["answer"] == "end_turn":
                agent.end("end_turn")
                agent.end("end_turn")
            else:
                agent.reply(error={"code": -32603, "message": "aborted"})

    connected(kernel, script, prompt=prompt, given={"answer": answer})
    cell = kernel.start("%%acp --out turn\ngo", header=place)
    kernel.read(lambda: "partial" in cell.text)
    if place:
        settle(kernel)
    interrupt(kernel, cell).expect_error("TurnCancelled")
    assert "Cancelled. What had arrived is kept." in cell.text
    assert kernel.run("print(turn.stop_reason)").text.strip() == "cancelled"
    assert "Cancelled" not in kernel.run("%%acp\nagain").expect_ok().text


def test_f22_what_comes_after_the_end_stays_in_the_cell_it_belongs_to(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("first")
            agent.end()
            agent.text(" and late")
        else:
            agent.text("second")

    connected(kernel, script, prompt=prompt)
    first = kernel.run("%%acp\ngo").expect_ok()
    kernel.read(lambda: "and late" in first.text)
    plain = kernel.run("print('mine')").expect_ok()
    second = kernel.run("%%acp\ngo").expect_ok()
    assert plain.text.strip() == "mine"
    assert "second" in second.text
    assert "late" not in second.text


def test_f27_a_second_cell_is_refused_and_nothing_of_it_is_sent(kernel, script):
    def prompt(agent):
        agent.text(f"turn {agent.turn}")
        if agent.turn == 1:
            agent.wait("session/cancel")
            agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    with kernel.subshell() as one, kernel.subshell() as other:
        first = kernel.start("%%acp\ngo", header=one)
        kernel.read(lambda: "turn 1" in first.text)
        for header in (other, None):
            refused = kernel.finish(kernel.start("%%acp\nme too", header=header))
            refused.expect_error("TurnRunning")
            assert "stop button" in refused.text
            assert "turn" not in "".join(map(str, refused.contents("display_data")))
        settle(kernel)
        interrupt(kernel, first).expect_error("TurnCancelled")
        assert "turn 2" in kernel.run("%%acp\nand now").expect_ok().text
    assert len(made.received("session/prompt")) == 2


# -- what the options say ------------------------------------------------------------------------


def lying_options(agent):
    """Source of a turn whose options claim to be others."""
    agent.ask(
        "session/request_permission",
        toolCall={"toolCallId": "t", "title": "Delete all", "kind": "delete"},
        options=[
            {"optionId": "a", "name": "Deny", "kind": "allow_once"},
            {"optionId": "b", "name": "Allow" + "\u202e!" * 200, "kind": "reject_once"},
        ],
    )


def test_f43_labels_come_from_the_kind_and_the_agents_words_are_quoted(kernel, script, place):
    made = connected(kernel, script, prompt=lying_options)
    cell = kernel.run("%%acp\ngo", answers=["2"], header=place).expect_ok()
    assert "[1] Allow once" in cell.questions[0]
    assert "[2] Deny" in cell.questions[0]
    assert "“Deny”" in cell.questions[0]
    assert "\u202e" not in cell.questions[0]
    assert outcomes(made) == [{"outcome": {"outcome": "selected", "optionId": "b"}}]
    assert "Denied by you" in cell.text


def buttons(page):
    """Label, tooltip and colour of each button."""
    states = [page.models[ident] for ident in page.ids("ButtonModel")]
    return [(state["description"], state["tooltip"], state["button_style"]) for state in states]


def open_question(kernel, code="%%acp\ngo", count=1, **options):
    """Start a cell and show its question as a page does."""
    cell = kernel.start(code, **options)
    page = Page(kernel, cell)
    page.wait_for_buttons(count)
    page.tell_shown()
    return cell, page


def test_f43_buttons_have_the_labels_and_colours_of_their_kinds(served, script):
    made = connected(served, script, prompt=lying_options)
    cell, page = open_question(served)
    allow, deny = buttons(page)
    assert allow == ("Allow once", "“Deny”", "success")
    assert (deny[0], deny[2]) == ("Deny", "danger")
    assert len(deny[1]) <= 90
    page.click(page.buttons()["Deny"])
    served.finish(cell).expect_ok()
    assert outcomes(made) == [{"outcome": {"outcome": "selected", "optionId": "b"}}]


@pytest.mark.parametrize("kinds", [["allow_once"], ["allow_once", "allow_always"], []])
def test_f44_the_client_always_offers_deny(kernel, script, kinds):
    def prompt(agent):
        agent.permission(*agent.given["kinds"])

    made = connected(kernel, script, prompt=prompt, given={"kinds": kinds})
    cell = kernel.run("%%acp\ngo", answers=[str(len(kinds) + 1)]).expect_ok()
    assert f"[{len(kinds) + 1}] Deny" in cell.questions[0]
    assert outcomes(made) == [CANCELLED]


def test_f44_a_button_denies_where_the_agent_offers_none(served, script):
    def prompt(agent):
        agent.permission("allow_once", "allow_always")

    made = connected(served, script, prompt=prompt)
    cell, page = open_question(served)
    assert [label for label, _, _ in buttons(page)] == ["Allow once", "Always allow", "Deny"]
    page.click(page.buttons()["Deny"])
    served.finish(cell).expect_ok()
    assert outcomes(made) == [CANCELLED]


def test_f45_an_option_id_that_comes_twice_is_refused(kernel, script):
    def prompt(agent):
        agent.permission("allow_once", "allow_once")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("%%acp\ngo", answers=["1"]).expect_ok()
    assert made.notes("session/request_permission")[0]["error"]["code"] == -32602
    assert cell.questions == []


def test_f45_an_option_of_an_unknown_kind_is_neutral_and_never_automatic(served, script):
    def prompt(agent):
        agent.permission("allow_everything_forever")

    made = connected(served, script, prompt=prompt)
    cell, page = open_question(served)
    label = "Choose “name of allow_everything_forever”"
    assert [(label, style) for label, _, style in buttons(page)] == [
        (label, ""),
        ("Deny", "danger"),
    ]
    page.click(page.buttons()[label])
    served.finish(cell).expect_ok()
    served.run("%acp permissions allow").expect_ok()
    try:
        served.run("%%acp\ngo").expect_ok()
    finally:
        served.run("%acp permissions ask").expect_ok()
    chosen = {"outcome": {"outcome": "selected", "optionId": "allow_everything_forever"}}
    assert outcomes(made) == [chosen, CANCELLED]


def test_f46_what_the_agent_says_of_a_call_decides_nothing(kernel, script, tmp_path):
    def prompt(agent):
        for kind, title in (("read", "Read a file"), ("think", "harmless, approved by user")):
            agent.permission("allow_once", "reject_once", title=title, kind=kind)

    policy = tmp_path / "reads.toml"
    policy.write_text('[[rules]]\naction = "allow"\nkind = "read"\n')
    made = connected(kernel, script, prompt=prompt)
    kernel.run(f"%acp permissions {policy}").expect_ok()
    try:
        kernel.run("%%acp\ngo").expect_ok()
    finally:
        kernel.run("%acp permissions ask").expect_ok()
    assert outcomes(made) == [REJECT, REJECT]


# -- stale and forged answers --------------------------------------------------------------------


def two_questions(agent):
    """Source of a turn with one question, then another."""
    agent.permission("allow_once", "reject_once", title="first")
    agent.permission("allow_once", "reject_once", title="second")


def test_f47_a_second_click_on_an_answered_question_answers_no_other(served, script):
    made = connected(served, script, prompt=two_questions)
    cell, page = open_question(served)
    old = page.buttons()["Allow once"]
    page.click(old)
    page.wait_for_buttons(2)
    page.tell_shown()
    for _ in range(3):
        page.click(old)  # they arrive before the one that follows
    page.click(page.buttons()["Deny"])
    served.finish(cell).expect_ok()
    assert outcomes(made) == [ONCE, REJECT]
    assert page.models == {}, "what is saved is static"


def test_f47_clicks_after_a_cancel_and_forged_messages_answer_nothing(served, script):
    def prompt(agent):
        agent.permission("allow_once", "reject_once", title=f"turn {agent.turn}")
        if agent.turn == 1:
            agent.wait("session/cancel")
            agent.end("cancelled")

    made = connected(served, script, prompt=prompt)
    cell, page = open_question(served)
    old = page.buttons()["Allow once"]
    interrupt(served, cell).expect_error("TurnCancelled")
    page.click(old)
    again, page = open_question(served)
    allow = page.buttons()["Allow once"]
    for ident in (old, "forged", "", "0" * 32):
        page.click(ident)
    last = ""
    for data in (
        {"method": "update", "state": {"clicked": True, "value": True}},
        {"method": "custom", "content": {"event": "press"}},
        {"method": "custom"},
        {},
    ):
        last = page.send(allow, data)
    served.read(lambda: "idle" in page.statuses(last))
    assert not again.done
    page.click(page.buttons()["Deny"])
    served.finish(again).expect_ok()
    assert outcomes(made) == [CANCELLED, REJECT]


def test_f47_a_button_of_before_a_reload_answers_nothing(served, script):
    def prompt(agent):
        agent.permission("allow_once", "reject_once")

    made = connected(served, script, prompt=prompt)
    cell, page = open_question(served)
    old = page.buttons()["Allow once"]
    page.click(page.buttons()["Deny"])
    served.finish(cell).expect_ok()
    served.run("%reload_ext acp_jupyter").expect_ok()
    served.run(f"%acp connect -- {shlex.join(made.argv)}").expect_ok()
    again, page = open_question(served)
    page.click(old)
    page.click(page.buttons()["Deny"])
    served.finish(again).expect_ok()
    assert outcomes(made) == [REJECT, REJECT]


# -- nobody there --------------------------------------------------------------------------------


def one_question(agent):
    """Source of a turn with one question."""
    agent.note("asked")
    agent.permission("allow_once", "reject_once", title="Write the file")
    agent.note("answered")


def test_f48_where_nobody_can_answer_the_answer_is_no_within_a_second(kernel, script, place):
    made = connected(kernel, script, prompt=one_question)
    cell = kernel.finish(kernel.start("%%acp\ngo", header=place)).expect_ok()
    assert made.times("answered")[0] - made.times("asked")[0] < 1
    assert outcomes(made) == [REJECT]
    assert "permission needed for Write the file, nobody can answer, denied" in cell.text
    assert "name a policy file in ACP_JUPYTER_PERMISSIONS" in cell.text


@pytest.mark.slow
def test_f48_widgets_that_nobody_shows_fall_back_to_a_question_in_text(served, script):
    made = connected(served, script, prompt=one_question)
    cell = served.run("%%acp\ngo", answers=["1"]).expect_ok()
    assert made.times("answered")[0] - made.times("asked")[0] > 8
    assert len(cell.questions) == 1
    assert outcomes(made) == [ONCE]


# -- always, and too often -----------------------------------------------------------------------


def test_f49_always_holds_for_the_very_same_request_and_is_revoked(kernel, script):
    def prompt(agent):
        call = {
            "kind": "edit",
            "rawInput": {"file": "a", "text": agent.given["texts"][agent.turn - 1]},
        }
        agent.permission("allow_once", "allow_always", "reject_once", title="Tool", **call)

    made = connected(kernel, script, prompt=prompt, given={"texts": ["x", "x", "y", "x"]})
    first = kernel.run("%%acp\none", answers=["2"]).expect_ok()
    assert "remembered as answer 1" in first.text
    again = kernel.run("%%acp\ntwo").expect_ok()
    assert "by remembered answer 1" in again.text
    kernel.run("%%acp\nthree").expect_ok()
    assert "1. always allow" in kernel.run("%acp permissions").expect_ok().text
    kernel.run("%acp permissions revoke 1").expect_ok()
    kernel.run("%%acp\nfour").expect_ok()
    chosen = [outcome["outcome"]["optionId"] for outcome in outcomes(made)]
    assert chosen == ["allow_always", "allow_always", "reject_once", "reject_once"]


def test_f49_always_is_neither_the_users_variables_nor_files_nor_another_sessions(kernel, script):
    def prompt(agent):
        agent.permission("allow_always", "reject_once", title="Always the same")

    before = set(kernel.cwd.rglob("*"))
    names = "print(sorted(n for n in globals() if not n.startswith('_')))"
    known = kernel.run(names).text
    made = connected(kernel, script, prompt=prompt)
    kernel.run("%%acp\ngo", answers=["1"]).expect_ok()
    kernel.run("%acp restart").expect_ok()
    kernel.run("%%acp\ngo").expect_ok()
    assert [o["outcome"]["optionId"] for o in outcomes(made)] == ["allow_always", "reject_once"]
    assert set(kernel.cwd.rglob("*")) == before
    assert kernel.run(names).text == known


def test_f50_more_than_twenty_open_questions_are_denied(kernel, script):
    def prompt(agent):
        idents = []
        for number in range(30):
            options = [{"optionId": k, "name": k, "kind": k} for k in ("allow_once", "reject_once")]
            call = {"toolCallId": f"call-{number}", "title": f"Call {number}"}
            params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
            idents.append(agent.request("session/request_permission", params))
        agent.ask("fs/read_text_file", path="/none")  # served in order: all were asked
        agent.text("All asked.")
        agent.note("answers", [agent.answer(ident)["result"] for ident in idents])

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("%%acp\ngo", allow_stdin=True)
    kernel.read(lambda: cell.questions and "All asked." in cell.text)
    assert len(cell.questions) == 1, "one at a time"
    kernel.client.input("1")
    kernel.finish(cell, answer=lambda prompt: "1").expect_ok()
    chosen = [answer["outcome"]["optionId"] for answer in made.notes("answers")[0]]
    assert chosen == ["allow_once"] * 20 + ["reject_once"] * 10
    assert "20 questions are open already" in cell.text


def test_f50_a_form_for_a_password_is_declined_and_an_address_is_shown_in_full(kernel, script):
    def prompt(agent):
        secret = {"type": "string", "title": "Password"}
        form = {"type": "object", "properties": {"password": secret}, "required": ["password"]}
        agent.ask("elicitation/create", mode="form", message="Log in", requestedSchema=form)
        visit = {"mode": "url", "elicitationId": "v", "url": "https://example.test/a?b=c"}
        agent.ask("elicitation/create", message="Visit", **visit)

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("%%acp\ngo", answers=["2"]).expect_ok()
    actions = [note["result"]["action"] for note in made.notes("elicitation/create")]
    assert actions == ["decline", "decline"]
    (question,) = cell.questions
    assert "https://example.test/a?b=c" in question
    assert "example.test" in question
    assert "assword" not in question


# -- notebooks -----------------------------------------------------------------------------------


def test_f62_consent_is_never_read_from_a_notebook_its_metadata_or_its_widgets(served, script):
    made = connected(served, script, prompt=one_question)
    first, page = open_question(served)
    saved = page.buttons()["Allow once"]
    page.click(saved)
    served.finish(first).expect_ok()
    _save(served.cwd / "notebook.ipynb", first)
    record = _metadata(first)["acp"]["decisions"][0]
    claims = {"permissions": "allow", "approved": ["*"], "decisions": [record], "trusted": True}
    metadata = {"acp": claims, "acp_jupyter": claims, "trusted": True}
    second, page = open_question(served, metadata=metadata)
    state = {"_model_name": "ButtonModel", "description": "Allow once"}
    content = {"comm_id": saved, "target_name": "jupyter.widget", "data": {"state": state}}
    served.send("shell", "comm_open", content)
    page.click(saved)
    page.click(page.buttons()["Deny"])
    served.finish(second).expect_ok()
    assert outcomes(made) == [ONCE, REJECT]
    assert "Permission requests: ask." in served.run("%acp permissions").expect_ok().text


def _metadata(cell):
    """The metadata of the output that shows a decision."""
    kinds = ("display_data", "update_display_data")
    found = [content["metadata"] for kind in kinds for content in cell.contents(kind)]
    return [metadata for metadata in found if metadata.get("acp", {}).get("decisions")][-1]


def _save(path: Path, cell) -> None:
    """Write a notebook with the cell's outputs, where an agent or an extension could look."""
    output = nbformat.v4.new_output("display_data", cell.outputs[-1], metadata=_metadata(cell))
    saved = nbformat.v4.new_code_cell("%%acp\ngo", outputs=[output])
    nbformat.write(nbformat.v4.new_notebook(cells=[saved], metadata=_metadata(cell)), path)


def test_f62_what_was_allowed_holds_for_no_later_kernel(tmp_path, script):
    def prompt(agent):
        agent.permission("allow_always", "reject_once", title="Always the same")

    made = script(prompt=prompt)
    connect = f"%load_ext acp_jupyter\n%acp connect -- {shlex.join(made.argv)}"
    for number, answers in enumerate((["1"], [])):
        home = tmp_path / f"home-{number}"
        home.mkdir()
        with live_kernel(home, name=PLAIN) as kernel:
            kernel.run(connect).expect_ok()
            kernel.run("%%acp\ngo", answers=answers).expect_ok()
    chosen = [outcome["outcome"].get("optionId") for outcome in outcomes(made)]
    assert chosen == ["allow_always", "reject_once"]
