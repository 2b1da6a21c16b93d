"""Entries in JupyterLab and Notebook 7, as the extension renders them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.entry_agent import BASH, CALLS, MARKDOWN, PYTHON
from tests.browser.pages import PANEL, LabPage, NotebookPage
from tests.conftest import wait_until

pytestmark = pytest.mark.browser

CONNECT = f"%acp connect -- {sys.executable} -m tests.browser.entry_agent"
ENTRY_MIME = "application/vnd.acp.entry+json"
ENTRY = f".acp-Entry[data-mime-type='{ENTRY_MIME}']"

WATCH = f"""index => {{
  const notebook = {PANEL}.content;
  const scroller = notebook.outerNode ?? notebook.node;
  const below = notebook.widgets[index].node;
  const seen = window.__seen = {{frames: 0, scrolled: [], moved: [], running: true}};
  let top = below.getBoundingClientRect().top;
  const start = scroller.scrollTop;
  const look = () => {{
    if (!seen.running) return;
    seen.frames += 1;
    const now = below.getBoundingClientRect().top;
    if (scroller.scrollTop !== start) seen.scrolled.push(scroller.scrollTop - start);
    if (now < top - 1) seen.moved.push(now - top);
    top = now;
    requestAnimationFrame(look);
  }};
  look();
}}"""
"""Notes each frame in which the notebook has scrolled, or a cell below has moved up."""

# The shared document takes changes within half a second for one: these come in one task.
CHANGE_AND_CLICK = f"""(button, source) => {{
  const shared = {PANEL}.content.model.sharedModel;
  shared.insertCell(shared.cells.length, {{ cell_type: "raw", source }});
  button.click();
}}"""
UNDO = f"() => {PANEL}.content.model.sharedModel.undo()"


def start(page: NotebookPage, kernel: str) -> None:
    """A notebook in which the agent is connected."""
    load = "" if kernel == "acp" else "%load_ext acp_jupyter\n"
    page.new([load + CONNECT], kernel=kernel)
    page.run(0)
    page.wait_for_output(0, "Connected to")


def ask(page: NotebookPage, prompt: str, kernel: str = "acp", *, wait: bool = True) -> int:
    return page.ask(prompt if kernel == "acp" else f"%%acp\n{prompt}", wait=wait)


def entries(page: NotebookPage, cell: int) -> Locator:
    return page.output(cell).locator(ENTRY)


def entry_data(page: NotebookPage, cell: int) -> list[dict[str, Any]]:
    """The data of the entries in a cell's outputs, as the notebook has it now."""
    outputs = page.cells()[cell]["outputs"]
    found = [output.get("data", {}).get(ENTRY_MIME) for output in outputs]
    return [data for data in found if data is not None]


def wait_for_state(page: NotebookPage, cell: int, states: list[str]) -> None:
    """Until the kernel has it that this is what became of the proposed cells."""

    def known() -> bool:
        last = [data for data in entry_data(page, cell) if data["type"] == "cells"][-1]
        return [each["state"] for each in last["cells"]] == states

    wait_until(known)


def test_a_part_opened_by_hand_stays_so_while_the_call_goes_on(lab: LabPage) -> None:
    go = lab.server.root / "go"
    seen = lab.server.root / "seen.py"
    seen.write_text("b = 2\nc = 3\n")
    try:
        start(lab, "acp")
        cell = ask(lab, "slow", wait=False)
        call = entries(lab, cell).filter(has_text="Look around")
        expect(call).to_have_attribute("aria-busy", "true")
        part = call.locator("details").first
        assert part.get_attribute("open") is None
        part.locator("summary").first.click()
        part.evaluate("node => { window.__kept = node; }")
        go.touch()
        expect(call).not_to_have_attribute("aria-busy", "true")
        assert part.evaluate("node => node === window.__kept && node.open")
        expect(call).to_have_attribute("aria-label", "Look around: completed")
        spoken = lab.page.locator(".acp-Entry-announcements")
        expect(spoken).to_have_text("Look around: completed")
        lab.wait_until_done(cell)
        columns(call)
        call.get_by_role("button", name="Open seen.py at line 2").click()
        lab.page.locator(".jp-FileEditor", has_text="c = 3").wait_for()
        lab.page.wait_for_function(f"() => {PANEL}.content.editor?.getCursorPosition().line === 1")
    finally:
        go.unlink(missing_ok=True)
        seen.unlink(missing_ok=True)
    assert lab.console_errors == []


def columns(call: Locator) -> None:
    """The diff goes to two columns and back, by keyboard."""
    toggle = call.get_by_role("button", name="Side by side")
    toggle.focus()
    toggle.press("Tab")
    call.page.keyboard.press("Shift+Tab")
    call.page.keyboard.press("Enter")
    rows = call.locator("table.acp-Entry-columns tr")
    expect(rows).to_have_text(["1a = 11b = 2", "2c = 32c = 3"])
    expect(toggle).to_be_focused()
    call.page.keyboard.press(" ")
    expect(rows).to_have_count(0)


def test_a_part_is_opened_and_closed_by_keyboard(lab: LabPage) -> None:
    start(lab, "acp")
    cell = ask(lab, "long")
    part = entries(lab, cell).locator("details").first
    summary = part.locator("summary").first
    summary.focus()
    lab.page.keyboard.press("Shift+Tab")
    lab.page.keyboard.press("Tab")
    expect(summary).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(part).to_have_attribute("open", "")
    lab.page.keyboard.press("Enter")
    expect(part).not_to_have_attribute("open", "")


def test_a_long_turn_scrolls_nothing_and_moves_what_is_below_only_down(
    frontend: NotebookPage,
) -> None:
    start(frontend, "acp")
    asked, below = frontend.add("long"), frontend.add("below")
    frontend.cell(asked)
    frontend.page.evaluate(WATCH, below)
    frontend.run(asked)
    seen = frontend.page.evaluate("() => { window.__seen.running = false; return window.__seen; }")
    expect(entries(frontend, asked)).to_have_count(CALLS + 1)
    assert seen["frames"] > 10
    assert (seen["scrolled"], seen["moved"]) == ([], [])
    assert frontend.console_errors == []


@pytest.mark.parametrize("kernel", ["acp", "python3"])
def test_proposed_cells_are_inserted_run_and_dismissed(frontend: NotebookPage, kernel: str) -> None:
    start(frontend, kernel)
    cell = ask(frontend, "cells", kernel)
    proposed = entries(frontend, cell).filter(has_text="3 proposed cells")
    proposed.get_by_role("button", name="Run proposed cell 1 of 3").click()
    frontend.wait_for_output(cell + 1, "the answer is 42")
    wait_for_state(frontend, cell, ["run", "proposed", "proposed"])
    proposed.get_by_role("button", name="Insert proposed cell 3 of 3 below").click()
    proposed.get_by_role("button", name="Dismiss proposed cell 2 of 3").click()
    wait_for_state(frontend, cell, ["run", "dismissed", "inserted"])
    expect(proposed).not_to_contain_text(BASH)
    # Rendered, it might fetch pictures that nobody has seen the address of.
    assert frontend.page.evaluate(f"() => {PANEL}.content.widgets[{cell + 2}].rendered") is False
    frontend.save()
    _, _, run, inserted = frontend.saved().cells
    source = PYTHON if kernel == "python3" else f"%%python\n{PYTHON}"
    assert (run.cell_type, run.source) == ("code", source)
    assert (inserted.cell_type, inserted.source) == ("markdown", MARKDOWN)
    origin = run.metadata["acp"]["origin"]
    [data] = [each for each in entry_data(frontend, cell) if each["type"] == "cells"]
    source_id = frontend.saved().cells[cell].id
    assert origin == data["origin"] | {"cell": source_id, "language": "python"}
    assert data["origin"]["turn"] == 1
    assert frontend.console_errors == []


def test_all_are_inserted_in_one_step_that_can_be_undone(lab: LabPage) -> None:
    start(lab, "python3")
    cell = ask(lab, "cells", "python3")
    lab.button(cell, "Insert all").evaluate(CHANGE_AND_CLICK, "the user's own")
    wait_for_state(lab, cell, ["inserted"] * 3)
    sources = [each["source"] for each in lab.cells()[cell + 1 :]]
    assert sources == [PYTHON, f"%%bash\n{BASH}", MARKDOWN, "the user's own"]
    lab.page.evaluate(UNDO)
    assert [each["source"] for each in lab.cells()[cell + 1 :]] == ["the user's own"]


def test_a_notebook_opened_again_shows_the_same_and_its_cells_can_be_inserted(
    frontend: NotebookPage,
) -> None:
    start(frontend, "acp")
    cell = ask(frontend, "cells")
    frontend.button(cell, "Dismiss proposed cell 1 of 3").click()
    wait_for_state(frontend, cell, ["dismissed", "proposed", "proposed"])
    frontend.save()
    shown = frontend.output_text(cell)
    frontend.end_kernel()
    frontend.reload()
    expect(entries(frontend, cell).filter(has_text="proposed cells")).to_be_visible()
    assert frontend.output_text(cell) == shown
    assert frontend.page.locator(".acp-Entry-announcements").count() == 0
    frontend.click_button(cell, "Insert proposed cell 3 of 3 below")
    expect(entries(frontend, cell).filter(has_text="✓ inserted")).to_be_visible()
    assert frontend.cells()[cell + 1]["source"] == MARKDOWN
