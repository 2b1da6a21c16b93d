"""``%%acp`` in a Python notebook in JupyterLab, as a person uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import VIEWPORT
from tests.browser.pages import LabPage, NotebookPage, end_running_turn, press, question
from tests.browser.server import JupyterServer
from tests.conftest import wait_until

pytestmark = pytest.mark.browser

LOAD = "%load_ext acp_jupyter\n%acp connect demo"


@pytest.fixture(scope="module")
def lab(browser: Browser, lab_server: JupyterServer) -> Iterator[NotebookPage]:
    """A Python notebook in JupyterLab, with the extension loaded and the bundled agent."""
    context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    page = LabPage(context, lab_server)
    page.new([LOAD], kernel="python3")
    page.run(0)
    page.wait_for_output(0, "Connected to Demo Agent")
    yield page
    page.close()
    context.close()


@pytest.fixture(autouse=True)
def _no_turn_goes_on_after_a_test(lab: NotebookPage) -> Iterator[None]:
    """So that a test that fails does not take the others with it."""
    yield
    end_running_turn(lab)


def test_a_prompt_streams_and_its_turn_is_an_object(lab: NotebookPage) -> None:
    cell = lab.ask("%%acp --out turn\nslow 10; table", wait=False)
    lab.wait_for_output(cell, "Step 2 of 10.")
    assert lab.is_running(cell)
    lab.wait_until_done(cell)
    assert lab.output(cell).locator("table").count() == 1
    read = lab.ask("print(turn.stop_reason, turn.text.count('Step'))")
    assert "end_turn 10" in lab.output_text(read)
    shown = lab.ask("turn")
    assert lab.output(shown).locator("table").count() == 1
    assert lab.foreign_requests == []


@pytest.mark.parametrize(("label", "written"), [("Allow once", True), ("Deny", False)])
def test_permission_buttons_work_while_the_cell_runs(
    lab: NotebookPage, label: str, written: bool
) -> None:
    path = lab.server.root / "button.txt"
    path.unlink(missing_ok=True)
    cell = lab.ask("%%acp\nwrite button.txt: hello", wait=False)
    question(lab, cell, "Write button.txt")
    assert lab.is_running(cell)
    press(lab, cell, "Write button.txt", label)
    lab.wait_until_done(cell)
    assert path.exists() is written
    assert lab.button(cell, "Allow once").count() == 0
    saved = lab.saved_outputs(cell)
    assert "by you" in str(saved)
    assert "widget-view" not in str(saved)


def test_two_requests_at_once_are_answered_in_any_order(lab: NotebookPage) -> None:
    cell = lab.ask("%%acp\npermissions 2", wait=False)
    question(lab, cell, "Question 1 of 2")
    press(lab, cell, "Question 2 of 2", "Allow once")
    lab.wait_for_output(cell, "Allowed once by you")
    assert lab.is_running(cell)
    press(lab, cell, "Question 1 of 2", "Deny")
    lab.wait_until_done(cell)
    assert "1 of 2 were allowed." in lab.output_text(cell)


def test_a_form_is_filled_in_while_the_cell_runs(lab: NotebookPage) -> None:
    cell = lab.ask("%%acp\nask Which colour? red | blue", wait=False)
    outputs = lab.output(cell).locator(".jp-OutputArea-child")
    asked = outputs.filter(has_text="Which colour?")
    asked = asked.filter(has=lab.page.get_by_role("button", name="Decline"))
    asked.locator("select").select_option(label="blue")
    assert lab.is_running(cell)
    asked.get_by_role("button", name="Submit").click()
    lab.wait_until_done(cell)
    assert "You chose: blue" in lab.output_text(cell)
    assert "widget-view" not in str(lab.saved_outputs(cell))


def test_the_stop_button_ends_the_turn_and_python_goes_on(lab: NotebookPage) -> None:
    kept = lab.ask("kept = 42\nprint('kept')")
    assert "kept" in lab.output_text(kept)
    cell = lab.ask("%%acp\nslow 600", wait=False)
    lab.wait_for_output(cell, "Step 3 of 600.")
    lab.interrupt()
    lab.wait_until_done(cell)
    assert "Cancelled" in lab.output_text(cell)
    error = lab.saved_outputs(cell)[-1]
    assert (error.output_type, error.ename) == ("error", "TurnCancelled")
    after = lab.ask("print(kept)")
    assert "42" in lab.output_text(after)


def test_the_stop_button_withdraws_an_open_question(lab: NotebookPage) -> None:
    cell = lab.ask("%%acp\nwrite stopped.txt: x", wait=False)
    question(lab, cell, "Write stopped.txt")
    lab.interrupt()
    lab.wait_until_done(cell)
    assert lab.button(cell, "Allow once").count() == 0
    assert not (lab.server.root / "stopped.txt").exists()


def test_the_python_api_asks_in_its_cell(lab: NotebookPage) -> None:
    path = lab.server.root / "api.txt"
    path.unlink(missing_ok=True)
    lab.ask("import acp_jupyter as acp\nagent = acp.connect('demo')")
    cell = lab.ask("turn = agent.new_session().prompt('write api.txt: x')", wait=False)
    press(lab, cell, "Write api.txt", "Allow once")
    lab.wait_until_done(cell)
    wait_until(path.exists)
    read = lab.ask("agent.close()\nprint(turn.permissions[0].state)")
    assert "allowed" in lab.output_text(read)


def test_widgets_of_the_users_own_work_beside_it(lab: NotebookPage) -> None:
    cell = lab.ask(
        "import ipywidgets\nfrom IPython.display import display\n"
        "button = ipywidgets.Button(description='Greet')\nout = ipywidgets.Output()\n"
        "@out.capture()\ndef greet(_):\n    print('hello ' * 2)\n"
        "button.on_click(greet)\ndisplay(button, out)"
    )
    lab.click_button(cell, "Greet")
    lab.wait_for_output(cell, "hello hello")
