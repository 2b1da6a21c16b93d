"""Files that are open in JupyterLab while an agent reads and writes them.

Rules:
- What a user does is done by keys on the page. What is on the disk is read from the disk.
- The document that the page holds is asked for its text: an editor draws only the lines in sight.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import VIEWPORT
from tests.browser.pages import OPEN_TIMEOUT, LabPage, press
from tests.browser.server import ROOT, JupyterServer, jupyter_server
from tests.conftest import wait_until
from tests.tools import collaboration

pytestmark = pytest.mark.browser

STATE = """path => {
  const widget = [...window.jupyterapp.shell.widgets('main')]
    .find(each => each.context?.path === path);
  if (!widget?.context.isReady || !widget.content.editor) { return null; }
  const { model } = widget.context;
  const cursor = widget.content.editor.getCursorPosition();
  return {
    text: model.sharedModel.getSource(), dirty: model.dirty, line: cursor.line,
    column: cursor.column, readOnly: model.readOnly
  };
}"""


class Editor:
    """A file in an editor beside the notebook.

    Args:
        lab: the page, with its notebook open.
        name: of the file, in the server's root.
    """

    def __init__(self, lab: LabPage, name: str) -> None:
        self.lab = lab
        self.name = name
        self._notebook = lab.page.evaluate("window.jupyterapp.shell.currentWidget.id")
        options = {"mode": "split-right", "activate": False}
        lab.command("docmanager:open", {"path": name, "options": options})
        wait_until(lambda: self.state is not None, 30)

    @property
    def file(self) -> Path:
        return self.lab.server.root / self.name

    @property
    def state(self) -> Any:
        return self.lab.page.evaluate(STATE, self.name)

    @property
    def text(self) -> str:
        return str(self.state["text"])

    @property
    def page(self) -> Page:
        return self.lab.page

    def type(self, *keys: str) -> None:
        """Press keys in the editor; then the notebook is the current document again."""
        self.page.locator(".jp-FileEditor .cm-content").click()
        for key in keys:
            self.page.keyboard.press(key)
        self.page.evaluate("id => window.jupyterapp.shell.activateById(id)", self._notebook)

    def close(self) -> None:
        self.page.evaluate(
            """path => [...window.jupyterapp.shell.widgets('main')]
              .find(each => each.context?.path === path).close()""",
            self.name,
        )
        wait_until(lambda: self.state is None)

    def wait_text(self, text: str) -> None:
        wait_until(lambda: self.text == text, 15)


def open_editor(lab: LabPage, text: str) -> Editor:
    """A notebook with the bundled agent, and beside it a file of this text."""
    lab.new(["%acp connect demo"])
    lab.run(0)
    lab.wait_for_output(0, "Connected to Demo Agent")
    name = f"{Path(lab.name).stem}.txt"
    (lab.server.root / name).write_bytes(text.encode())
    return Editor(lab, name)


def expect_no_dialog(lab: LabPage) -> None:
    expect(lab.page.locator(".jp-Dialog")).to_have_count(0)
    assert lab.console_errors == []


def test_what_is_typed_and_not_saved_is_what_the_agent_reads(lab: LabPage) -> None:
    editor = open_editor(lab, "one\r\ntwo\r\n")
    index = lab.ask(f"read {editor.name}")
    lab.wait_for_output(index, "has 2 lines and 10 characters")
    editor.type("Control+Home", "n", "e", "w", "Enter")
    index = lab.ask(f"read {editor.name}")
    lab.wait_for_output(index, "has 3 lines and 15 characters")  # with the line ends of the file
    assert editor.file.read_bytes() == b"one\r\ntwo\r\n"
    assert editor.state["dirty"] is True


def test_a_write_is_seen_at_once_saved_and_undone_by_a_key(lab: LabPage) -> None:
    editor = open_editor(lab, "one\ntwo\nthree\n")
    editor.type("Control+End", "x", "Control+Home", "ArrowRight")
    lab.ask(f"mode trust; edit {editor.name}: two -> zwei")
    editor.wait_text("one\nzwei\nthree\nx")
    wait_until(lambda: not editor.state["dirty"], 15)
    assert editor.file.read_text() == "one\nzwei\nthree\nx"
    assert (editor.state["line"], editor.state["column"]) == (0, 1)
    editor.type("Control+z")
    editor.wait_text("one\ntwo\nthree\nx")
    assert editor.file.read_text() == "one\nzwei\nthree\nx"
    editor.type("Control+s")
    wait_until(lambda: editor.file.read_text() == "one\ntwo\nthree\nx", 15)
    expect_no_dialog(lab)


def test_what_is_typed_before_a_write_is_kept_and_the_write_refused(lab: LabPage) -> None:
    editor = open_editor(lab, "one\n")
    index = lab.ask(f"write {editor.name}: theirs", wait=False)
    lab.output(index).get_by_role("button", name="Allow once", exact=True).wait_for()
    editor.type("Control+End", "m", "i", "n", "e")
    press(lab, index, f"Write {editor.name}", "Allow once")
    lab.wait_until_done(index)
    lab.wait_for_output(index, "newer than what was seen")
    lab.wait_for_output(index, "theirs")
    assert editor.text == "one\nmine"
    assert editor.file.read_text() == "one\n"
    editor.type("Control+s")
    wait_until(lambda: editor.file.read_text() == "one\nmine", 15)
    expect_no_dialog(lab)


# -- with jupyter-collaboration -----------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """JupyterLab with jupyter-collaboration."""
    home = tmp_path_factory.mktemp("shared")
    variables = collaboration.environment(collaboration.install())
    variables["PYTHONPATH"] = os.pathsep.join((str(ROOT), variables["PYTHONPATH"]))
    variables["JUPYTER_PATH"] = os.pathsep.join((str(home / "share"), variables["JUPYTER_PATH"]))
    with jupyter_server("lab", home, env=variables) as server:
        yield server


@pytest.fixture
def shared_lab(context: BrowserContext, shared_server: JupyterServer) -> Iterator[LabPage]:
    page = LabPage(context, shared_server)
    yield page
    page.close()


@pytest.fixture
def colleague(browser: Browser) -> Iterator[Page]:
    """Another browser."""
    context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    yield context.new_page()
    context.close()


def open_elsewhere(colleague: Page, server: JupyterServer, name: str) -> None:
    """Open a file in the other browser, and put the cursor at its beginning."""
    address = f"{server.url}lab/workspaces/{uuid4().hex}/tree/{name}?token={server.token}"
    colleague.goto(address)
    colleague.wait_for_function(
        f"path => ({STATE})(path)?.text.startsWith('one')",
        arg=name,
        timeout=OPEN_TIMEOUT * 1000,
    )
    colleague.locator(".jp-FileEditor .cm-content").click()
    colleague.keyboard.press("Control+Home")


def test_a_shared_document_shows_the_write_to_all_who_have_it_open(
    shared_lab: LabPage, colleague: Page
) -> None:
    editor = open_editor(shared_lab, "one\ntwo\nthree\n")
    open_elsewhere(colleague, shared_lab.server, editor.name)
    colleague.keyboard.type("new ")
    editor.wait_text("new one\ntwo\nthree\n")
    index = shared_lab.ask(f"mode trust; edit {editor.name}: two -> zwei")
    shared_lab.wait_for_output(index, f"I edited {editor.name}")
    written = "new one\nzwei\nthree\n"
    assert editor.text == written
    wait_until(lambda: colleague.evaluate(STATE, editor.name)["text"] == written, 15)
    wait_until(lambda: editor.file.read_text() == written, 30)
    editor.type("Control+z")
    editor.wait_text("new one\ntwo\nthree\n")
    # The same without the editor beside the notebook.
    wait_until(lambda: editor.file.read_text() == "new one\ntwo\nthree\n", 30)
    wait_until(lambda: not editor.state["dirty"], 30)
    editor.close()
    index = shared_lab.ask(f"edit {editor.name}: three -> drei")
    shared_lab.wait_for_output(index, f"I edited {editor.name}")
    written = "new one\ntwo\ndrei\n"
    wait_until(lambda: colleague.evaluate(STATE, editor.name)["text"] == written, 15)
    wait_until(lambda: editor.file.read_text() == written, 30)
    # What is typed there and not saved yet: whether the agent has read it or not, it stays.
    colleague.keyboard.type("more ")
    shared_lab.ask(f"edit {editor.name}: drei -> three")
    wait_until(lambda: editor.file.read_text().startswith("new more one"), 30)
    expect(colleague.locator(".jp-Dialog")).to_have_count(0)
    expect_no_dialog(shared_lab)
