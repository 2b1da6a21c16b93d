"""Hostile content in real pages: live, and saved, opened again and trusted (F51, F52, F53, F54)."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from acp_jupyter.rendering import words
from acp_jupyter.session import transcript
from tests import hostile
from tests.browser.hostile_agent import PARTS
from tests.browser.hostile_watch import Watch
from tests.browser.pages import PANEL, LabPage, NotebookPage

pytestmark = pytest.mark.browser

TRUSTED = f"index => {PANEL}.content.widgets[index].model.trusted"

KINDS = """\
%%python
from acp_jupyter.extension import host_of
def kinds(entries):
    for entry in entries:
        yield type(entry).__name__
        yield from kinds(getattr(entry, "entries", []))
for link in host_of(get_ipython()).all_links():
    found = [kinds(turn.entries) for turn in link.session.transcript.turns]
    print("KINDS", *sorted({kind for each in found for kind in each}))
"""
"""A cell that tells which kinds of entry the session has."""


def kinds_in(page: NotebookPage) -> set[str]:
    """The kinds of entry that the session has by now."""
    index = page.ask(KINDS)
    page.wait_for_output(index, "KINDS")
    [line] = re.findall("KINDS (.*)", page.output_text(index))
    return set(line.split())


def ask(page: NotebookPage, watch: Watch, prompt: str) -> int:
    """Ask, wait for the end, and look at what came."""
    index = page.ask(prompt, timeout=60)
    watch.look_at_cell(index)
    return index


def connect(page: NotebookPage, watch: Watch) -> None:
    command = f"%acp connect -- {sys.executable} -m tests.browser.hostile_agent"
    page.new([f"{command}\n%acp", "%%python\nfrom tests import hostile\nbad = hostile.TEXTS"])
    watch.address = page.page.url
    page.run(0)
    page.wait_for_output(0, "Connected to")
    page.run(1)


def all_kinds() -> set[str]:
    """Every kind of entry that there is; a new one has to be said by the agent of this test."""
    return {kind.__name__ for kind in transcript.Entry.__subclasses__()}


@pytest.mark.timeout(300)
def test_f51_hostile_content_is_inert_live_and_in_a_trusted_notebook(
    frontend: NotebookPage,
) -> None:
    watch = Watch(frontend)
    connect(frontend, watch)
    cells = [0]
    for number in range(PARTS):
        cells.append(ask(frontend, watch, f"texts {number}"))
    for prompt in ("blocks @bad", "reports", "code"):
        cells.append(ask(frontend, watch, prompt))
    frontend.ask("%acp permissions allow")
    for prompt in ("decided", "client"):
        cells.append(ask(frontend, watch, prompt))
    seen = kinds_in(frontend)
    frontend.ask("end")
    cells.append(ask(frontend, watch, "texts 0"))
    assert seen | kinds_in(frontend) == all_kinds()
    assert hostile.SCRIPTS[0] in frontend.output_text(cells[1])  # it is there, as text
    watch.assert_harmless()

    frontend.save()
    frontend.reload()
    assert {frontend.page.evaluate(TRUSTED, index) for index in cells} == {True}
    for index in cells:
        watch.look_at_cell(index)
    watch.assert_harmless()
    assert_only_data(frontend.saved())


def test_f43_f53_open_questions_spoof_no_control_of_ours(frontend: NotebookPage) -> None:
    """In their cells, and on the live side: status, popup, panel, wire, completion, notices."""
    watch = Watch(frontend)
    connect(frontend, watch)
    page = frontend.page
    frontend.ask("names")
    frontend.command("acp:show-agents")
    page.get_by_role("region", name="Wire").get_by_role("checkbox").check()
    asked = frontend.ask("permission", wait=False)
    deny = frontend.output(asked).get_by_role("button", name=re.compile("^Deny")).first
    deny.wait_for()
    question = page.locator(".acp-Question")
    question.wait_for()
    # Visible ones: the hidden counter that tells of widgets has buttons with pictures only.
    assert_labels_are_ours(frontend.output(asked).locator("button.jupyter-button:visible"))
    answers = question.locator(".acp-Question-answers button")
    assert_labels_are_ours(answers.filter(has_not_text="Show cell"))
    page.locator(".acp-Wire-line").filter(has_text="request_permission").last.click()
    watch.look_at_cell(asked)
    watch.look_at(".acp-Panel")
    page.get_by_role("button", name="Options of the agent").click()
    page.locator(".acp-Popup select").first.wait_for()
    watch.look_at(".acp-Popup, .acp-StatusItem")
    page.keyboard.press("Escape")
    look_at_completion(frontend, watch)
    deny.click()
    frontend.wait_until_done(asked)

    for prompt, button in (("form", "Decline"), ("visit", "Decline")):
        index = frontend.ask(prompt, wait=False)
        decline = frontend.output(index).get_by_role("button", name=button, exact=True)
        decline.wait_for()
        page.locator(".acp-Question").wait_for()
        watch.look_at_cell(index)
        watch.look_at(".acp-Panel")
        decline.click()
        frontend.wait_until_done(index)
        frontend.wait_for_output(index, "was answered.")
    watch.assert_harmless()


OURS = {*words.OPTION_LABELS.values(), "Choose", "Deny"}


def assert_labels_are_ours(buttons: Locator) -> None:
    """What a button says first is ours; what the agent calls it is quoted, and short (F43)."""
    expect(buttons.filter(has_text="Deny").first).to_be_visible()
    expect(buttons.filter(has_text=re.compile(r"\S"))).to_have_count(buttons.count())
    labels = buttons.all_text_contents()
    assert len(labels) > 4
    for label in labels:
        ours = max((known for known in OURS if label.startswith(known)), key=len, default="")
        assert ours
        said = label.removeprefix(ours).strip()
        assert not said or (said[0] == "“" and said[-1] == "”" and len(said) <= 100), label


def look_at_completion(page: NotebookPage, watch: Watch) -> None:
    index = page.add("")
    editor = page.cell(index).locator(".cm-content")
    editor.click()
    page.page.keyboard.type("/c")
    page.page.locator(".jp-Completer:visible .jp-Completer-item").first.wait_for()
    watch.look_at(".jp-Completer")
    page.page.keyboard.press("Escape")


def test_f53_a_notice_of_a_question_is_text(lab: LabPage) -> None:
    watch = Watch(lab)
    (lab.server.root / "notes.md").write_text("# Notes\n", "utf-8")
    connect(lab, watch)
    lab.command("docmanager:open", {"path": "notes.md"})
    panel = "[...window.jupyterapp.shell.widgets('main')].find(each => each.content?.widgets)"
    ask_it = f"""() => {{
      const notebook = {panel};
      const at = notebook.content.widgets.length;
      const cell = {{cell_type: 'code', source: 'permission'}};
      notebook.content.model.sharedModel.insertCell(at, cell);
      notebook.content.activeCellIndex = at;
      const args = {{toolbar: false, activate: false}};
      return void notebook.sessionContext.session.kernel.requestExecute({{code: 'permission'}});
    }}"""
    lab.page.evaluate(ask_it)
    lab.page.locator(".Toastify__toast").filter(has_text="waits for you").wait_for()
    watch.look_at(".Toastify__toast, .acp-StatusItem")
    watch.address = lab.page.url
    watch.assert_harmless()


def assert_only_data(notebook: Any) -> None:
    """No type of output that a frontend would run; entries are JSON that our renderer reads."""
    kinds = {
        mime
        for cell in notebook.cells
        for output in cell.outputs
        for mime in output.get("data", {})
    }
    images = {"image/png", "image/jpeg", "image/gif"}
    assert kinds <= {"text/html", "text/plain", "application/vnd.acp.entry+json", *images}


def test_the_trap_springs_where_nothing_is_sanitised(lab: LabPage) -> None:
    """What JupyterLab does with HTML that is not ours; else the test above could not fail."""
    watch = Watch(lab)
    html = "<script>window.__hostile=1</script><img src=x onerror='window.__hostile=1'>"
    lab.new([f"from IPython.display import HTML\nHTML({html!r})"], kernel="python3")
    watch.address = lab.page.url
    lab.run(0)
    lab.page.wait_for_function("window.__sprung === true")
    with pytest.raises(AssertionError):
        watch.assert_harmless()
    with pytest.raises(AssertionError):
        watch.look_at_cell(0)
