"""The extension's commands and the completion in prompts, as a person uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import VIEWPORT
from tests.browser.pages import PANEL, LabPage, NotebookPage
from tests.browser.server import JupyterServer

pytestmark = pytest.mark.browser

ECHO = "You said ("
"""How the bundled agent answers what is no request of its language."""

ACTIVATE = f"index => {{ const it = {PANEL}.content; it.activeCellIndex = index; }}"
SOURCES = f"() => {PANEL}.content.widgets.map(cell => cell.model.sharedModel.getSource())"
IS_ENABLED = "id => window.jupyterapp.commands.isEnabled(id)"
FOCUSED = "() => document.activeElement.textContent.trim()"
BEGIN = "id => { void window.jupyterapp.commands.execute(id); }"
UNINSTALL = """\
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name == "acp_jupyter":
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Gone())
"""
RESTART = f"async () => {{ await {PANEL}.sessionContext.restartKernel(); }}"


@pytest.fixture(scope="module")
def python(browser: Browser, lab_server: JupyterServer) -> Iterator[NotebookPage]:
    """A Python notebook in JupyterLab, with the extension loaded and the bundled agent."""
    context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    page = LabPage(context, lab_server)
    page.new(["%load_ext acp_jupyter\n%acp connect demo"], kernel="python3")
    page.run(0)
    page.wait_for_output(0, "Connected to Demo Agent")
    wait_until_enabled(page, "acp:export-conversation")  # the kernel speaks with the page
    yield page
    page.close()
    context.close()


def sources(page: NotebookPage) -> list[str]:
    found: list[str] = page.page.evaluate(SOURCES)
    return found


def command_on(page: NotebookPage, index: int, name: str) -> int:
    """Run a command on a cell; the number of the last cell afterwards."""
    page.page.evaluate(ACTIVATE, index)
    page.command(name)
    return len(sources(page)) - 1


def enabled(page: NotebookPage, index: int, name: str) -> bool:
    page.page.evaluate(ACTIVATE, index)
    found: bool = page.page.evaluate(IS_ENABLED, name)
    return found


def wait_until_enabled(page: NotebookPage, name: str) -> None:
    page.page.wait_for_function(IS_ENABLED, arg=name)


def number(page: NotebookPage, index: int) -> int:
    """The number beside a cell that has run."""
    found: int = page.cells()[index]["execution_count"]
    return found


def completions(page: NotebookPage) -> Locator:
    return page.page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item")


def type_into(page: NotebookPage, index: int, text: str) -> None:
    """Type in place of what the cell holds."""
    page.cell(index).locator(".cm-content").click()
    page.page.keyboard.press("Control+a")
    page.page.keyboard.press("Delete")
    page.page.keyboard.type(text)


# -- asking -------------------------------------------------------------------------------------


def test_asking_about_a_cell_begins_a_question_below_it(frontend: NotebookPage) -> None:
    frontend.new(["x = 41 + 1\nx"], kernel="python3")
    frontend.run(0)
    frontend.cell(0).locator(".cm-content").press("Alt+Shift+A")
    frontend.page.wait_for_function(f"() => {PANEL}.content.widgets.length === 3")
    focused = frontend.cell(2).locator(".cm-content:focus")
    focused.wait_for()
    frontend.page.keyboard.type("why 42?")
    assert sources(frontend)[1:] == ["%load_ext acp_jupyter", "%%acp\nAbout @cell:1: why 42?"]
    frontend.wait_until_done(1)
    frontend.ask("%acp connect demo")
    frontend.run(2)
    assert ECHO in frontend.output_text(2)
    assert "Sent with the prompt: @cell:1" in frontend.output_text(2)
    # The extension is loaded now: the next one begins with the question.
    again = command_on(frontend, 2, "acp:explain-cell")
    frontend.wait_until_done(again - 1)
    assert sources(frontend)[3].startswith(f"%%acp\nExplain @cell:{number(frontend, 2)}: ")
    assert sources(frontend).count("%load_ext acp_jupyter") == 1
    assert frontend.foreign_requests == []
    assert frontend.console_errors == []


def test_a_cell_that_never_ran_is_quoted(talk: NotebookPage) -> None:
    index = talk.add("%%python\nx = '```'")
    asked = command_on(talk, index, "acp:explain-cell")
    talk.wait_until_done(asked)
    assert "````python\n%%python\nx = '```'\n````" in sources(talk)[asked]
    assert ECHO in talk.output_text(asked)


def test_what_is_selected_is_quoted(talk: NotebookPage) -> None:
    index = talk.ask("hello\nworld")
    talk.cell(index).locator(".cm-content").click()
    talk.page.keyboard.press("Control+Home")
    talk.page.keyboard.press("Shift+End")
    talk.command("acp:ask-about-cell")
    cell = f"@cell:{number(talk, index)}"
    assert sources(talk)[-1] == f"About this part of {cell}:\n\n```\nhello\n```\n\n"


def test_a_number_from_before_a_restart_is_not_mentioned(lab: LabPage) -> None:
    lab.new(["y = 5\ny"], kernel="python3")
    lab.run(0)
    lab.page.evaluate(RESTART)
    lab.wait_for_kernel()
    lab.ask("'the new cell 1'")
    assert number(lab, 0) == number(lab, 1) == 1
    lab.page.evaluate(ACTIVATE, 0)
    lab.command("acp:ask-about-cell")
    assert sources(lab)[2] == "%%acp\nAbout this cell:\n\n```python\ny = 5\ny\n```\n\n"


def test_a_kernel_that_cannot_load_the_extension_is_told_of(lab: LabPage) -> None:
    lab.new([UNINSTALL], kernel="python3")
    lab.run(0)
    lab.command("acp:explain-cell")
    lab.page.get_by_text("could not load acp_jupyter").first.wait_for()
    lab.wait_for_output(1, "ModuleNotFoundError")
    lab.wait_until_done(2)
    assert lab.output_text(2) == ""


# -- fixing errors ------------------------------------------------------------------------------


def test_fixing_an_error_from_the_menu_sends_it_with_its_cell(python: NotebookPage) -> None:
    failed = python.ask("1 / 0")
    python.cell(failed).locator(".jp-InputPrompt").click(button="right")
    python.page.locator(".lm-Menu-item").get_by_text("Fix This Error with Agent").click()
    python.page.wait_for_function(f"n => {PANEL}.content.widgets.length > n", arg=failed + 1)
    asked = failed + 1
    python.wait_for_output(asked, ECHO)
    cell = f"@cell:{number(python, failed)}"
    assert sources(python)[asked] == f"%%acp\nFix the error in {cell}: @error"
    sent = python.output_text(asked)
    assert cell in sent
    assert "@error" in sent
    assert len(sources(python)) == asked + 1


def test_fixing_an_error_of_a_python_cell_in_the_agent_kernel(talk: NotebookPage) -> None:
    failed = talk.ask("%%python\n[][0]")
    first = number(talk, failed)
    asked = command_on(talk, failed, "acp:fix-error")
    talk.wait_until_done(asked)
    assert sources(talk)[asked] == f"Fix the error in @cell:{first}: @error"
    assert ECHO in talk.output_text(asked)
    talk.ask("%%python\n{}['k']")
    # No longer the last one: it is quoted, for @error is another one now.
    command_on(talk, failed, "acp:fix-error")
    again = sources(talk)[failed + 1]
    assert again.startswith(f"Fix the error in @cell:{first}:\n\n```\n")
    assert "IndexError: list index out of range" in again
    talk.wait_until_done(failed + 1)


def test_fixing_is_offered_where_code_has_failed_and_nowhere_else(python: NotebookPage) -> None:
    fine = python.ask("'fine'")
    failed = python.ask("1 / 0")
    refused = python.ask("%%acp\n@cell:999")
    assert not enabled(python, fine, "acp:fix-error")
    assert enabled(python, failed, "acp:fix-error")
    assert not enabled(python, refused, "acp:fix-error")


# -- while an agent works -----------------------------------------------------------------------


def test_the_command_stops_the_agent(talk: NotebookPage) -> None:
    cell = talk.ask("slow 300", wait=False)
    talk.wait_for_output(cell, "Step 2 of 300.")
    wait_until_enabled(talk, "acp:cancel-turn")
    talk.command("acp:cancel-turn")
    talk.wait_until_done(cell)
    assert "Cancelled. What had arrived is kept." in talk.output_text(cell)
    talk.page.wait_for_function(f"id => !({IS_ENABLED})(id)", arg="acp:cancel-turn")


def test_a_question_is_gone_to_and_answered_by_keyboard(talk: NotebookPage) -> None:
    path = talk.server.root / "keyboard.txt"
    path.unlink(missing_ok=True)
    cell = talk.ask("write keyboard.txt: hello", wait=False)
    talk.button(cell, "Allow once").wait_for()
    talk.page.evaluate(ACTIVATE, 0)
    wait_until_enabled(talk, "acp:answer-next")
    talk.command("acp:answer-next")
    talk.page.keyboard.press("Enter")  # is for no button yet
    assert talk.is_running(cell)
    for _ in range(12):  # what folds and turns the diff is on the way
        talk.page.keyboard.press("Tab")
        if talk.page.evaluate(FOCUSED) == "Allow once":
            break
    assert talk.page.evaluate(FOCUSED) == "Allow once"
    talk.page.keyboard.press("Enter")
    talk.wait_until_done(cell)
    assert path.read_text() == "hello"
    talk.page.wait_for_function(f"id => !({IS_ENABLED})(id)", arg="acp:answer-next")


# -- completion ---------------------------------------------------------------------------------


def test_commands_and_mentions_are_offered_as_they_are_typed(talk: NotebookPage) -> None:
    (talk.server.root / "some notes.txt").touch()
    cell = talk.add("")
    type_into(talk, cell, "/pla")
    expect(completions(talk)).to_have_count(1)
    assert "/plan (Make a plan; " in completions(talk).inner_text()
    talk.page.keyboard.press("Enter")
    talk.page.keyboard.type(' A; read @"some')
    expect(completions(talk)).to_have_count(1)
    talk.page.keyboard.press("Enter")
    assert sources(talk)[cell] == '/plan A; read @"some notes.txt"'


def test_nothing_is_offered_in_an_address_or_between_words(talk: NotebookPage) -> None:
    cell = talk.add("")
    type_into(talk, cell, "write to me@example.org and/or @")
    # Only the last @ opens a list.
    completions(talk).first.wait_for()
    offered = completions(talk).locator(".jp-Completer-match").all_inner_texts()
    assert offered == list(dict.fromkeys(offered))
    assert "@notebook" in offered
    assert [word for word in offered if not word.startswith("@")] == []
    talk.page.keyboard.press("Escape")
    talk.page.keyboard.type("no")
    talk.page.keyboard.press("Control+Enter")
    talk.wait_until_done(cell)
    assert completions(talk).count() == 0  # dismissed is dismissed
    assert sources(talk)[cell].endswith("@no")


def test_a_prompt_that_becomes_python_is_completed_as_python(python: NotebookPage) -> None:
    cell = python.add("")
    type_into(python, cell, "%%acp\nsee @")
    completions(python).filter(has_text="@notebook").wait_for()
    python.page.keyboard.press("Escape")
    # Words of the cell: the kernel's come late on a busy machine, and are then left out.
    type_into(python, cell, "a_long_name = a_long_word = 1; a_long")
    python.page.keyboard.press("Tab")
    completions(python).filter(has_text="a_long_word").first.wait_for()
    python.page.keyboard.press("Escape")


def test_completion_answers_while_a_cell_runs(talk: NotebookPage) -> None:
    running = talk.ask("slow 300", wait=False)
    talk.wait_for_output(running, "Step 2 of 300.")
    cell = talk.add("")
    type_into(talk, cell, "/")
    completions(talk).first.wait_for()
    assert "/ask (Ask the user a question)" in completions(talk).first.inner_text()
    type_into(talk, cell, "see @")
    completions(talk).filter(has_text="@notebook").wait_for()
    assert talk.is_running(running)
    talk.interrupt()
    talk.wait_until_done(running)


def test_prompts_in_a_python_notebook_have_it_while_a_cell_runs(python: NotebookPage) -> None:
    running = python.ask("%%acp\nslow 300", wait=False)
    python.wait_for_output(running, "Step 2 of 300.")
    cell = python.add("")
    type_into(python, cell, "%%acp\n/pl")
    completions(python).filter(has_text="/plan").wait_for()
    python.page.keyboard.press("Escape")
    python.page.keyboard.type("an @")
    assert python.is_running(running)
    python.interrupt()
    python.wait_until_done(running)


# -- export -------------------------------------------------------------------------------------


def export(page: NotebookPage, to: str, *, redact: bool, folder: Path) -> str:
    """Export by the dialog; the text that was downloaded."""
    page.page.evaluate(BEGIN, "acp:export-conversation")
    dialog = page.page.get_by_role("dialog")
    dialog.get_by_label("Format").select_option(to)
    dialog.get_by_label("Remove secrets and home paths").set_checked(redact)
    with page.page.expect_download() as download:
        dialog.get_by_role("button", name="Export", exact=True).click()
    assert download.value.suggested_filename == f"{Path(page.name).stem}.{to}"
    path = folder / f"{redact}.{to}"
    download.value.save_as(path)
    return path.read_text("utf-8")


def test_a_conversation_is_exported_as_it_is_now(talk: NotebookPage, tmp_path: Path) -> None:
    home = str(Path.home() / "a-place-at-home")
    talk.ask(f"a word of {home}")
    written = export(talk, "md", redact=True, folder=tmp_path)
    assert "a word of" in written
    assert home not in written
    assert home in export(talk, "md", redact=False, folder=tmp_path)
    assert export(talk, "html", redact=True, folder=tmp_path).lower().startswith("<!doctype html")
    assert talk.console_errors == []
