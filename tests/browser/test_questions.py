"""Questions of the agent, answered by buttons while the cell runs, in JupyterLab and Notebook 7."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.pages import PANEL, NotebookPage, end_running_turn, press, question
from tests.conftest import wait_until
from tests.scripted import Script

pytestmark = pytest.mark.browser

COMMS = f"() => [...{PANEL}.sessionContext.session.kernel._comms.keys()]"
"""The comms open in this page: those of the widgets that it shows."""

CLICK = f"""ids => {{
  const kernel = {PANEL}.sessionContext.session.kernel;
  for (const id of ids) {{
    kernel.sendShellMessage({{
      header: {{
        msg_id: crypto.randomUUID(), msg_type: 'comm_msg', session: kernel.clientId,
        username: '', version: '5.4', date: new Date().toISOString(),
      }},
      parent_header: {{}}, metadata: {{}}, buffers: [], channel: 'shell',
      content: {{comm_id: id, data: {{method: 'custom', content: {{event: 'click'}}}}}},
    }});
  }}
}}"""
"""What a button that is clicked sends, for each of these comms."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
DENIED = "That was not permitted"


@pytest.fixture(autouse=True)
def _no_turn_goes_on_after_a_test(talk: NotebookPage) -> Iterator[None]:
    """So that a test that fails does not take the others with it."""
    yield
    end_running_turn(talk)


def text_of(outputs: list[Any]) -> str:
    return "\n".join(output.get("data", {}).get("text/plain", "") for output in outputs)


def assert_static(outputs: list[Any]) -> None:
    """Nothing in these saved outputs needs a kernel."""
    assert WIDGET_VIEW not in str(outputs)
    assert "button" not in str(outputs)


def file(page: NotebookPage, name: str) -> Path:
    path = page.server.root / name
    path.unlink(missing_ok=True)
    return path


def test_allow_once_lets_it_happen_and_the_decision_stays_readable(talk: NotebookPage) -> None:
    one = file(talk, "one.txt")
    cell = talk.ask("write one.txt: hello", wait=False)
    asked = question(talk, cell, "Write one.txt")
    assert "hello" in asked.inner_text()  # the diff is part of the question
    assert asked.get_by_role("button").all_inner_texts() == [
        "Allow once",
        "Always allow",
        "Deny",
        "Always deny",
    ]
    assert talk.is_running(cell)
    assert not one.exists()
    press(talk, cell, "Write one.txt", "Allow once")
    talk.wait_until_done(cell)
    assert one.read_text() == "hello"
    saved = talk.saved_outputs(cell)
    assert "Allowed once by you" in text_of(saved)
    assert_static(saved)
    assert talk.button(cell, "Allow once").count() == 0


def test_deny_is_an_answer_too(talk: NotebookPage) -> None:
    two = file(talk, "two.txt")
    cell = talk.ask("write two.txt: hello", wait=False)
    press(talk, cell, "Write two.txt", "Deny")
    talk.wait_until_done(cell)
    assert not two.exists()
    assert DENIED in talk.output_text(cell)
    saved = talk.saved_outputs(cell)
    assert "Denied by you" in text_of(saved)
    assert_static(saved)


def test_always_allow_is_asked_once(talk: NotebookPage) -> None:
    for name in ("a.txt", "b.txt"):
        (talk.server.root / name).touch()
    cell = talk.ask("delete a.txt; delete b.txt", wait=False)
    press(talk, cell, "Delete a.txt", "Always allow")
    talk.wait_until_done(cell)
    assert text_of(talk.saved_outputs(cell)).count("Always allowed by you") == 1
    assert not (talk.server.root / "b.txt").exists()


def test_questions_at_once_each_have_their_buttons_and_are_answered_in_any_order(
    talk: NotebookPage,
) -> None:
    cell = talk.ask("permissions 3", wait=False)
    titles = [f"Question {number} of 3" for number in (1, 2, 3)]
    for title in titles:
        assert question(talk, cell, title).get_by_role("button").count() == 2
    asked = talk.output(cell).get_by_text("The agent asks: Question").all_inner_texts()
    assert [text.partition("asks: ")[2] for text in asked] == titles
    press(talk, cell, titles[2], "Allow once")
    talk.wait_for_output(cell, "Allowed once by you")
    press(talk, cell, titles[0], "Deny")
    talk.wait_for_output(cell, "Denied by you")
    assert talk.is_running(cell)
    press(talk, cell, titles[1], "Allow once")
    talk.wait_until_done(cell)
    saved = talk.saved_outputs(cell)
    decisions = [line for line in text_of(saved).split("\n") if "by you" in line]
    assert [line.split(" by you")[0] for line in decisions] == [
        "✗ Denied",
        "✓ Allowed once",
        "✓ Allowed once",
    ]
    assert "2 of 3 were allowed." in text_of(saved)
    assert_static(saved)


def test_a_question_after_many_outputs_is_not_behind_the_button_for_more(
    talk: NotebookPage,
) -> None:
    before = "; ".join(f"read {number}.txt" for number in range(30))  # three outputs each
    cell = talk.ask(f"{before}; write nine.txt: x", wait=False)
    press(talk, cell, "Write nine.txt", "Deny")
    talk.wait_until_done(cell)
    assert DENIED in talk.output_text(cell)
    saved = text_of(talk.saved_outputs(cell))
    places = [saved.index(f"I could not read `{number}.txt`") for number in range(30)]
    assert places == sorted(places)
    assert saved.count("I could not read") == 30
    assert saved.index("Denied by you") > places[-1]


def test_choices_of_one_kind_are_told_apart_by_the_agents_words(
    frontend: NotebookPage, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        names = {"1": "red", "2": "blue"}
        options = [
            {"optionId": ident, "name": name, "kind": "allow_once"} for ident, name in names.items()
        ]
        call = {"toolCallId": "c", "title": "Which colour?"}
        agent.ask("session/request_permission", toolCall=call, options=options)

    made = script(prompt=prompt)
    frontend.new([f"%acp connect -- {shlex.join(made.argv)}"])
    frontend.run(0)
    cell = frontend.ask("go", wait=False)
    asked = question(frontend, cell, "Which colour?")
    labels = asked.get_by_role("button").all_inner_texts()
    assert labels == ["Allow once “red”", "Allow once “blue”", "Deny"]
    press(frontend, cell, "Which colour?", "Allow once “blue”")
    frontend.wait_until_done(cell)
    chosen = {"outcome": {"outcome": "selected", "optionId": "2"}}
    assert made.notes("session/request_permission") == [{"result": chosen}]


def test_f20_the_stop_button_answers_an_open_question_with_cancelled(talk: NotebookPage) -> None:
    three = file(talk, "three.txt")
    cell = talk.ask("write three.txt: hello", wait=False)
    question(talk, cell, "Write three.txt")
    talk.interrupt()
    talk.wait_until_done(cell)
    saved = talk.saved_outputs(cell)
    assert (saved[-1].output_type, saved[-1].ename) == ("error", "TurnCancelled")
    assert "⊘ Cancelled after" in text_of(saved)
    assert_static(saved)
    assert not three.exists()
    after = talk.ask("hello")
    assert "You said (5 characters)" in talk.output_text(after)


def test_f47_clicks_on_old_buttons_do_nothing(talk: NotebookPage) -> None:
    four, five = file(talk, "four.txt"), file(talk, "five.txt")
    before = set(talk.page.evaluate(COMMS))
    cell = talk.ask("write four.txt: x", wait=False)
    question(talk, cell, "Write four.txt")
    old = sorted(set(talk.page.evaluate(COMMS)) - before)
    assert len(old) > 4  # the buttons and what they consist of
    press(talk, cell, "Write four.txt", "Deny")
    talk.wait_until_done(cell)
    second = talk.ask("write five.txt: x", wait=False)
    question(talk, second, "Write five.txt")
    talk.page.evaluate(CLICK, old)
    talk.page.evaluate(CLICK, ["no such comm", "../../x"])
    # Clicks are taken in order: once this one is answered the old ones have been.
    press(talk, second, "Write five.txt", "Deny")
    talk.wait_until_done(second)
    assert text_of(talk.saved_outputs(second)).count("Denied by you") == 1
    assert not four.exists()
    assert not five.exists()


def test_f47_a_notebook_saved_with_an_open_question_has_no_buttons_any_more(
    talk: NotebookPage,
) -> None:
    before = set(talk.page.evaluate(COMMS))
    cell = talk.ask("write six.txt: x", wait=False)
    question(talk, cell, "Write six.txt")
    talk.save()
    stale = talk.saved()
    views = [o for o in stale.cells[cell].outputs if WIDGET_VIEW in o.get("data", {})]
    assert len(views) == 1
    assert "The agent asks" in views[0].data["text/html"]
    assert set(talk.page.evaluate(COMMS)) > before
    press(talk, cell, "Write six.txt", "Deny")
    talk.wait_until_done(cell)
    talk.save()
    name = talk.name
    nbformat.write(stale, talk.server.root / "stale.ipynb")
    try:
        talk.open("stale.ipynb")
        talk.wait_for_output(cell, "model not found")  # JupyterLab's words for a widget of old
        assert talk.button(cell, "Allow once").count() == 0
        assert not (talk.server.root / "six.txt").exists()
    finally:
        talk.end_kernel()
        talk.open(name)


def test_buttons_are_there_again_after_the_page_was_loaded_anew(talk: NotebookPage) -> None:
    seven = file(talk, "seven.txt")
    cell = talk.ask("write seven.txt: hello", wait=False)
    question(talk, cell, "Write seven.txt")
    talk.save()
    talk.reload(wait_for_kernel=False)
    press(talk, cell, "Write seven.txt", "Allow once")
    wait_until(seven.exists)
    talk.wait_for_kernel()
    after = talk.ask("hello")
    assert "You said (5 characters)" in talk.output_text(after)


def test_a_restart_while_a_question_is_open_ends_it(talk: NotebookPage) -> None:
    eight = file(talk, "eight.txt")
    before = set(talk.page.evaluate(COMMS))
    cell = talk.ask("write eight.txt: hello", wait=False)
    question(talk, cell, "Write eight.txt")
    old = sorted(set(talk.page.evaluate(COMMS)) - before)
    talk.page.evaluate(f"async () => {{ await {PANEL}.sessionContext.restartKernel(); }}")
    talk.wait_for_kernel()
    talk.wait_until_done(cell)
    talk.page.evaluate(CLICK, old)
    after = talk.ask("hello")
    assert "no agent is connected" in talk.output_text(after)
    assert "Permission needed — Write eight.txt" in text_of(talk.saved_outputs(cell))
    talk.ask("%acp connect demo")
    again = talk.ask("hello")
    assert "You said (5 characters)" in talk.output_text(again)
    assert not eight.exists()
