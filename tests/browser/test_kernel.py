"""A conversation with the bundled agent in JupyterLab and Notebook 7, as a person sees it."""

from __future__ import annotations

import sys

import pytest

from acp_jupyter.demo_agent.samples import text_of_length
from tests.browser.pages import NotebookPage

pytestmark = pytest.mark.browser

WIDGETS = """\
%%python
import ipywidgets
from IPython.display import display
greet = ipywidgets.Button(description="Greet")
out = ipywidgets.Output()
@out.capture()
def on_click(_):
    print("hello " * 2)
greet.on_click(on_click)
display(greet, out)
"""


def shown(page: NotebookPage, index: int, text: str) -> int:
    """How many outputs of a cell have the text."""
    return page.output(index).locator(".jp-OutputArea-child").filter(has_text=text).count()


def test_text_appears_while_the_cell_runs_and_the_stop_button_keeps_it(talk: NotebookPage) -> None:
    cell = talk.ask("slow 300", wait=False)
    talk.wait_for_output(cell, "Step 3 of 300.")
    assert talk.is_running(cell)
    talk.interrupt()
    talk.wait_until_done(cell)
    read = talk.output_text(cell)
    assert "Step 3 of 300." in read
    assert "Step 300 of 300." not in read
    assert "Cancelled. What had arrived is kept." in read
    error = talk.saved_outputs(cell)[-1]
    assert (error.output_type, error.ename) == ("error", "TurnCancelled")
    after = talk.ask("hello")
    assert "You said (5 characters)" in talk.output_text(after)


def test_a_plan_is_one_output_that_changes_in_place(talk: NotebookPage) -> None:
    cell = talk.ask("plan Look around, Finish; slow 40; slow 300", wait=False)
    talk.wait_for_output(cell, "0 of 2 done")
    talk.wait_for_output(cell, "1 of 2 done")
    assert shown(talk, cell, "Look around") == 1
    talk.interrupt()
    talk.wait_until_done(cell)
    plans = [o for o in talk.saved_outputs(cell) if "Look around" in str(o.get("data"))]
    assert len([o for o in plans if "of 2 done" in o.data["text/html"]]) == 1


def test_tools_diffs_pictures_thoughts_and_tables_are_shown_and_saved(talk: NotebookPage) -> None:
    (talk.server.root / "notes.txt").write_text("alpha\nbeta\n")
    cell = talk.ask(
        "think First I look at it; read notes.txt; edit notes.txt: beta -> gamma; "
        "show image; table; read missing.txt",
        wait=False,
    )
    talk.click_button(cell, "Allow once")
    talk.wait_until_done(cell)
    output = talk.output(cell)
    thought = output.locator("details").filter(has_text="First I look at it").first
    assert thought.get_attribute("open") is None
    row = output.locator("details").filter(has_text="Read notes.txt").first
    assert row.get_attribute("open") is None
    row.locator("summary").first.click()
    assert row.get_by_text("alpha").is_visible()
    diff = output.locator("pre:visible").filter(has_text="gamma").first
    assert [line.split() for line in diff.inner_text().split("\n") if line.strip()] == [
        ["1", "1", "alpha"],
        ["2", "-", "beta"],
        ["2", "+", "gamma"],
    ]
    size = "image => [image.naturalWidth, image.naturalHeight]"
    assert output.locator("img").first.evaluate(size) == [96, 64]
    assert output.locator("table").first.locator("tr").count() == 4
    looked = output.get_by_text("no such file: missing.txt").last
    assert "✗" not in looked.inner_text()  # looking is nothing to be told of
    saved = talk.saved_outputs(cell)
    assert all("text/plain" in each.data for each in saved)
    assert "gamma" in str([each.data.get("text/html") for each in saved])
    assert (talk.server.root / "notes.txt").read_text() == "alpha\ngamma\n"
    assert talk.foreign_requests == []


def test_a_python_cell_with_widgets_works_in_this_kernel(talk: NotebookPage) -> None:
    cell = talk.ask(WIDGETS)
    talk.click_button(cell, "Greet")
    talk.wait_for_output(cell, "hello hello")


def test_f15_a_crash_is_one_error_and_the_next_cell_has_a_fresh_agent(talk: NotebookPage) -> None:
    crashed = talk.ask("text 300; crash")
    assert "writes this text to fill" in talk.output_text(crashed)
    errors = [o for o in talk.saved_outputs(crashed) if o.output_type == "error"]
    assert [error.ename for error in errors] == ["AgentExited"]
    assert "exited with code 17" in errors[0].evalue
    after = talk.ask("hello")
    assert "The agent was started again" in talk.output_text(after)
    assert "You said (5 characters)" in talk.output_text(after)


def test_f22_what_comes_after_the_answer_is_shown_and_saved_in_the_cell_it_belongs_to(
    talk: NotebookPage,
) -> None:
    go = talk.server.root / "go"
    talk.ask(f"%acp connect -- {sys.executable} -m tests.browser.late_agent")
    try:
        cell = talk.ask("begin")
        assert "A late word." not in talk.output_text(cell)
        assert "unfinished" in talk.output_text(cell)
        go.touch()
        talk.wait_for_output(cell, "A late word.")
        talk.wait_for_output(cell, "completed")
        saved = str([output.data["text/html"] for output in talk.saved_outputs(cell)])
        assert "After the end of the turn" in saved
        assert "a late output" in saved
        assert "unfinished" not in saved
    finally:
        go.unlink(missing_ok=True)
        talk.ask("%acp connect demo")


def test_f11_an_answer_in_20000_chunks_is_complete_in_the_notebook(talk: NotebookPage) -> None:
    cell = talk.ask("text 400000", timeout=90)
    saved = talk.saved_outputs(cell)
    assert "[end_turn" in saved[-1].data["text/plain"]
    plain = [output.data["text/plain"] for output in saved]
    answer = [text for text in plain if not text.startswith(("[", "agent: title"))]
    assert "".join("".join(answer).split()) == "".join(text_of_length(400_000).split())
    assert talk.console_errors == []
