"""Files that are open in JupyterLab while an agent reads and writes them.

Rules:
- What a user does is done by keys on the page. What is on the disk is read from the disk.
- The document that the page holds is asked for its text: an editor draws only the lines in sight.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import VIEWPORT
from tests.browser.pages import OPEN_TIMEOUT, LabPage, press, question
from tests.browser.server import ROOT, JupyterServer, jupyter_server
from tests.conftest import wait_until
from tests.tools import collaboration

pytestmark = pytest.mark.browser

FIND = """path => [...window.jupyterapp.shell.widgets('main')]
  .find(each => each.context?.path === path)"""

STATE = f"""path => {{
  const widget = ({FIND})(path);
  if (!widget?.context.isReady || !widget.content.editor) {{ return null; }}
  const {{ model }} = widget.context;
  const {{ line, column }} = widget.content.editor.getCursorPosition();
  return {{ text: model.sharedModel.getSource(), dirty: model.dirty, line, column }};
}}"""


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
        """Close it, without the question what to do with unsaved edits."""
        if self.state is not None:
            self.page.evaluate(f"path => ({FIND})(path).dispose()", self.name)

    def wait_text(self, text: str) -> None:
        wait_until(lambda: self.text == text, 15)


@pytest.fixture(scope="module")
def connected(browser: Browser, lab_server: JupyterServer) -> Iterator[LabPage]:
    """JupyterLab with a notebook in which the bundled agent is connected."""
    context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    page = LabPage(context, lab_server)
    connect(page)
    yield page
    page.close()
    context.close()


def connect(lab: LabPage) -> None:
    lab.new(["%acp connect demo"])
    lab.run(0)
    lab.wait_for_output(0, "Connected to Demo Agent")


@contextmanager
def open_editor(lab: LabPage, text: str) -> Iterator[Editor]:
    """Beside the notebook, a file of this text."""
    name = f"{uuid4().hex[:8]}.txt"
    (lab.server.root / name).write_bytes(text.encode())
    editor = Editor(lab, name)
    yield editor
    editor.close()


def expect_no_dialog(lab: LabPage) -> None:
    expect(lab.page.locator(".jp-Dialog")).to_have_count(0)
    assert lab.console_errors == []


def test_what_is_typed_and_not_saved_is_what_the_agent_reads(connected: LabPage) -> None:
    with open_editor(connected, "one\r\ntwo\r\n") as editor:
        index = connected.ask(f"read {editor.name}")
        connected.wait_for_output(index, "has 2 lines and 10 characters")
        editor.type("Control+Home", "n", "e", "w", "Enter")
        index = connected.ask(f"read {editor.name}")
        # With the line ends of the file.
        connected.wait_for_output(index, "has 3 lines and 15 characters")
        assert editor.file.read_bytes() == b"one\r\ntwo\r\n"
        assert editor.state["dirty"] is True


def test_a_write_is_seen_at_once_saved_and_undone_by_a_key(connected: LabPage) -> None:
    with open_editor(connected, "one\ntwo\nthree\n") as editor:
        editor.type("Control+End", "x", "Control+Home", "ArrowRight")
        connected.ask(f"mode trust; edit {editor.name}: two -> zwei; mode ask")
        editor.wait_text("one\nzwei\nthree\nx")
        wait_until(lambda: not editor.state["dirty"], 15)
        assert editor.file.read_text() == "one\nzwei\nthree\nx"
        assert (editor.state["line"], editor.state["column"]) == (0, 1)
        editor.type("Control+z")
        editor.wait_text("one\ntwo\nthree\nx")
        assert editor.file.read_text() == "one\nzwei\nthree\nx"
        editor.type("Control+s")
        wait_until(lambda: editor.file.read_text() == "one\ntwo\nthree\nx", 15)
        expect_no_dialog(connected)


def test_what_is_typed_before_a_write_is_kept_and_the_write_refused(connected: LabPage) -> None:
    with open_editor(connected, "one\n") as editor:
        index = connected.ask(f"write {editor.name}: theirs", wait=False)
        question(connected, index, f"Write {editor.name}")
        editor.type("Control+End", "m", "i", "n", "e")
        press(connected, index, f"Write {editor.name}", "Allow once")
        connected.wait_until_done(index)
        connected.wait_for_output(index, "newer than what was seen")
        connected.wait_for_output(index, "theirs")
        assert editor.text == "one\nmine"
        assert editor.file.read_text() == "one\n"
        editor.type("Control+s")
        wait_until(lambda: editor.file.read_text() == "one\nmine", 15)
        expect_no_dialog(connected)


def test_undoing_a_turn_and_accepting_are_seen_in_the_editor(connected: LabPage) -> None:
    with open_editor(connected, "one\n") as editor:
        write = f"mode trust; write {editor.name}: theirs; mode ask"
        connected.ask(write)
        editor.wait_text("theirs")
        index = connected.ask("%acp undo")
        connected.wait_for_output(index, f"as it was before: {editor.name}")
        editor.wait_text("one\n")
        assert editor.file.read_text() == "one\n"
        connected.ask(write)
        editor.type("Control+End", "x")
        index = connected.ask("%acp undo")
        connected.wait_for_output(index, "it has unsaved edits in an editor")
        editor.type("Control+s")
        wait_until(lambda: editor.file.read_text() == "theirsx", 15)
        connected.ask("%acp connect demo --isolate copy")
        connected.ask(f"mode trust; write {editor.name}: from the copy; mode ask")
        assert editor.text == "theirsx"
        index = connected.ask("%acp accept")
        connected.wait_for_output(index, f"accepted: modified {editor.name}")
        editor.wait_text("from the copy")
        assert editor.file.read_text() == "from the copy"
        editor.type("Control+End", "y", "Control+s")
        wait_until(lambda: editor.file.read_text() == "from the copyy", 15)
        expect_no_dialog(connected)
        connected.ask("%acp connect demo")


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
    connect(shared_lab)
    with open_editor(shared_lab, "one\ntwo\nthree\n") as editor:
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
        wait_until(lambda: editor.file.read_text() == "new one\ntwo\nthree\n", 30)
        expect_no_dialog(shared_lab)
    # Now she alone has it open.
    index = shared_lab.ask(f"edit {editor.name}: three -> drei")
    shared_lab.wait_for_output(index, f"I edited {editor.name}")
    written = "new one\ntwo\ndrei\n"
    wait_until(lambda: colleague.evaluate(STATE, editor.name)["text"] == written, 15)
    wait_until(lambda: editor.file.read_text() == written, 30)
    # What is typed and not saved yet: whether the agent has read it or not, it stays.
    colleague.keyboard.type("more ")
    shared_lab.ask(f"edit {editor.name}: drei -> three")
    wait_until(lambda: editor.file.read_text().startswith("new more one"), 30)
    expect(colleague.locator(".jp-Dialog")).to_have_count(0)
    expect_no_dialog(shared_lab)
