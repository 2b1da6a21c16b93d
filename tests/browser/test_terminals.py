"""Commands that an agent runs, in JupyterLab: live in the cell, stopped, opened in a terminal."""

from __future__ import annotations

from uuid import uuid4

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.pages import LabPage, NotebookPage

pytestmark = pytest.mark.browser

COLOURED = """
printf '\\033[32mgreen\\033[0m light\\n'
while ! [ -e NAME.go ]; do sleep 0.05; done
echo second line
sleep 600
"""
"""Writes a line at once, another one when a file is there, and goes on until it is ended."""

TERMINAL_TEXT = """() => {
  const shown = [...window.jupyterapp.shell.widgets('main')]
    .map(widget => widget.content?._term).find(Boolean);
  if (!shown) return '';
  const lines = shown.buffer.active;
  return Array.from({length: lines.length}, (_, n) => lines.getLine(n).translateToString(true))
    .join('\\n');
}"""
"""What the first terminal of the page shows; it is drawn, so the page has no text of it."""


def start(page: NotebookPage) -> tuple[int, str]:
    """A cell that runs such a command, and the command's name."""
    name = f"steps-{uuid4().hex[:8]}"
    (page.server.root / f"{name}.sh").write_text(COLOURED.replace("NAME", name))
    page.new(["%acp connect demo"])
    page.run(0)
    page.wait_for_output(0, "Connected to Demo Agent")
    page.ask("%acp permissions allow")
    index = page.ask(f"run sh {name}.sh", wait=False)
    page.wait_for_output(index, "green light")
    return index, name


def control(page: NotebookPage, index: int, label: str) -> Locator:
    return page.output(index).get_by_role("button", name=label)


def let_go_on(page: NotebookPage, name: str) -> None:
    (page.server.root / f"{name}.go").touch()


def test_a_command_is_seen_live_and_stopped_by_its_button(frontend: NotebookPage) -> None:
    index, name = start(frontend)
    line = frontend.output(index).locator("pre").filter(has_text="green light")
    expect(line).to_be_visible()
    green = line.locator("span", has_text="green").first
    assert green.evaluate("node => getComputedStyle(node).color") != line.evaluate(
        "node => getComputedStyle(node).color"
    )
    assert "second line" not in frontend.output_text(index)
    let_go_on(frontend, name)
    frontend.wait_for_output(index, "second line")
    frontend.wait_for_output(index, "running · ")
    assert frontend.is_running(index)
    control(frontend, index, f"Stop sh {name}.sh").click()
    frontend.wait_until_done(index)
    frontend.wait_for_output(index, "ended by signal SIGTERM")
    frontend.wait_for_output(index, "second line")
    expect(control(frontend, index, f"Stop sh {name}.sh")).to_have_count(0)
    assert frontend.console_errors == []


def test_a_command_is_stopped_in_the_panel(lab: LabPage) -> None:
    index, name = start(lab)
    lab.command("acp:show-agents")
    listed = lab.page.get_by_role("list", name="Running commands").get_by_role("listitem")
    expect(listed).to_contain_text(f"sh {name}.sh")
    listed.get_by_role("button", name=f"Stop sh {name}.sh").click()
    lab.wait_until_done(index)
    expect(listed).to_have_count(0)


def test_a_running_command_is_opened_in_a_terminal_and_stopped_there(lab: LabPage) -> None:
    index, name = start(lab)
    control(lab, index, f"Open in a terminal: sh {name}.sh").click()
    terminal = lab.page.locator(".jp-Terminal")
    terminal.wait_for()
    lab.page.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('green light')")
    let_go_on(lab, name)
    lab.page.wait_for_function(f"() => ({TERMINAL_TEXT})().includes('second line')")
    terminal.click()
    lab.page.keyboard.press("Control+c")
    lab.page.wait_for_function(f"() => /ended by SIGTERM after/.test(({TERMINAL_TEXT})())")
    for session in lab.server.request("GET", "api/terminals"):
        lab.server.request("DELETE", f"api/terminals/{session['name']}")
    lab.command("docmanager:open", {"path": lab.name})
    lab.wait_until_done(index)
    lab.wait_for_output(index, "ended by signal SIGTERM")
