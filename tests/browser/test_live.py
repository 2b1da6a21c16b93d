"""The live side of the extension, with the bundled agent: status, panel, notices, following along.

Rules:
- What a user does is done by clicks and keys on the page; its commands only where they are what the
  palette runs.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.pages import PANEL, LabPage, NotebookPage

pytestmark = pytest.mark.browser

EDITOR_LINE = """path => {
  const widgets = [...window.jupyterapp.shell.widgets('main')];
  const editor = widgets.find(widget => widget.context?.path === path)?.content?.editor;
  return editor ? editor.getCursorPosition().line + 1 : null;
}"""
"""The line (from 1) where the cursor is in the editor of a file; null if it is not open."""

NOTEBOOK_HAS_FOCUS = f"() => {PANEL}?.node.contains(document.activeElement)"


def connect(page: NotebookPage) -> None:
    page.new(["%acp connect demo"])
    page.run(0)
    page.wait_for_output(0, "Connected to Demo Agent")


def status(page: NotebookPage, state: str = "") -> Locator:
    """The status item, in this state."""
    selector = f".acp-Status[data-status='{state}']" if state else ".acp-Status"
    return page.page.locator(selector)


def question(page: NotebookPage, title: str) -> Locator:
    """A question in the panel, which is opened."""
    page.command("acp:show-agents")
    found = page.page.locator(".acp-Question").filter(has_text=title)
    found.wait_for()
    return found


def answer(page: NotebookPage, title: str, label: str) -> None:
    question(page, title).get_by_role("button", name=label, exact=True).click()


def wait_for_line(page: NotebookPage, path: str, line: int) -> None:
    page.page.wait_for_function(
        f"([path, line]) => ({EDITOR_LINE})(path) === line", arg=[path, line]
    )


def toast(page: NotebookPage, text: str) -> Locator:
    """A notification in JupyterLab."""
    return page.page.locator(".Toastify__toast").filter(has_text=text)


def test_the_status_tells_working_from_waiting_and_idle(frontend: NotebookPage) -> None:
    connect(frontend)
    expect(status(frontend, "idle")).to_contain_text("Idle")
    expect(status(frontend)).to_contain_text("Demo Agent · Ask · Small")
    index = frontend.ask("slow 20; run echo hello", wait=False)
    expect(status(frontend, "working")).to_contain_text("Working")
    expect(status(frontend, "waiting")).to_contain_text("Waiting for you")
    answer(frontend, "Run echo hello", "Deny")
    frontend.wait_until_done(index)
    expect(status(frontend, "idle")).to_be_visible()
    assert frontend.console_errors == []


def test_an_answer_in_the_panel_lets_the_cell_go_on(frontend: NotebookPage) -> None:
    connect(frontend)
    index = frontend.ask("run echo hello", wait=False)
    asked = question(frontend, "Run echo hello")
    expect(asked.locator("pre")).to_contain_text("$ echo hello")
    answer(frontend, "Run echo hello", "Allow once")
    frontend.wait_until_done(index)
    frontend.wait_for_output(index, "Allowed once by you")
    expect(frontend.page.locator(".acp-Question")).to_have_count(0)
    expect(frontend.page.locator(".acp-Panel")).to_contain_text("No agent waits")


def test_questions_of_all_notebooks_are_in_the_panel_and_lead_to_their_cells(lab: LabPage) -> None:
    connect(lab)
    first = lab.name
    index = lab.ask("run echo hello", wait=False)
    status(lab, "waiting").wait_for()
    other = lab.server.root / "notes.md"
    other.write_text("# Notes\n", "utf-8")
    lab.command("docmanager:open", {"path": "notes.md"})
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_hidden()
    asked = question(lab, "Run echo hello")
    expect(asked).to_contain_text(f"Demo Agent in {first}")
    asked.get_by_role("button", name="Show the cell of: Run echo hello").click()
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()
    lab.page.wait_for_function(f"index => {PANEL}.content.activeCellIndex === index", arg=index)
    answer(lab, "Run echo hello", "Deny")
    lab.wait_until_done(index)


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_a_mode_chosen_in_the_status_reaches_the_agent(lab: LabPage, by: str) -> None:
    connect(lab)
    button = status(lab, "idle")
    if by == "mouse":
        button.click()
    else:
        button.focus()
        lab.page.keyboard.press("Enter")
    popup = lab.page.get_by_role("dialog", name="Agents of this notebook")
    mode = popup.get_by_role("combobox", name="Mode", exact=True)
    expect(mode).to_be_focused()
    if by == "mouse":
        mode.select_option("trust")
    else:
        lab.page.keyboard.type("Trust")
    expect(button).to_contain_text("Trust")
    lab.page.keyboard.press("Escape")
    expect(popup).to_have_count(0)
    expect(button).to_be_focused()
    index = lab.ask("permissions 2")
    assert "The mode is trust, so I did not ask 2 times." in lab.output_text(index)


def test_a_question_below_the_page_is_scrolled_to(frontend: NotebookPage) -> None:
    connect(frontend)
    index = frontend.ask("count 900; slow 3; write tall.txt: hello", wait=False)
    allow = frontend.page.get_by_role("button", name="Allow once", exact=True)
    expect(allow.first).to_be_in_viewport()
    frontend.click_button(index, "Deny")
    frontend.wait_until_done(index)


def test_a_user_who_has_scrolled_stays_there_and_the_status_leads_to_the_question(
    frontend: NotebookPage,
) -> None:
    connect(frontend)
    index = frontend.add("count 900; slow 20; write tall.txt: hello")
    frontend.add("\n" * 60)
    frontend.run(index, wait=False)
    frontend.wait_for_output(index, "Step 1 of 20.")
    frontend.page.mouse.move(640, 400)
    frontend.page.mouse.wheel(0, -5000)
    status(frontend, "waiting").first.wait_for()
    allow = frontend.page.get_by_role("button", name="Allow once", exact=True)
    allow.first.wait_for(state="attached")
    expect(allow.first).not_to_be_in_viewport()
    frontend.page.get_by_role("button", name="Options of the agent").click()
    expect(frontend.page.get_by_role("dialog")).to_be_visible()
    status(frontend, "waiting").first.click()
    expect(frontend.page.get_by_role("dialog")).to_have_count(0)
    expect(allow.first).to_be_in_viewport()
    frontend.page.keyboard.press("Enter")  # is for no button yet
    frontend.click_button(index, "Deny")
    frontend.wait_until_done(index)


def test_a_turn_is_cancelled_from_the_status(lab: LabPage) -> None:
    connect(lab)
    index = lab.ask("wait", wait=False)
    status(lab, "working").click()
    lab.page.get_by_role("button", name="Cancel turn", exact=True).click()
    lab.wait_until_done(index)
    lab.wait_for_output(index, "cancelled")


def test_following_along_shows_the_file_beside_the_notebook(lab: LabPage) -> None:
    text = "".join(f"x{n} = {n}\n" for n in range(1, 60))
    for name in ("one.py", "two.py"):
        (lab.server.root / name).write_text(text, "utf-8")
    connect(lab)
    index = lab.ask("read one.py")
    assert lab.page.evaluate(EDITOR_LINE, "one.py") is None  # not before it is switched on
    lab.command("acp:show-agents")
    lab.page.get_by_label("Follow along").check()
    lab.page.wait_for_function("() => window.jupyterapp.commands.isToggled('acp:toggle-follow')")
    lab.page.evaluate(f"() => {PANEL}.activate()")

    for name in ("one.py", "two.py"):
        index = lab.ask(f"read {name}", wait=False)
        lab.page.wait_for_function(f"path => ({EDITOR_LINE})(path) !== null", arg=name)
        expect(lab.page.locator(".jp-FileEditor:visible")).to_have_count(1)
        lab.wait_until_done(index)
        expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()
        assert lab.page.evaluate(NOTEBOOK_HAS_FOCUS)
    # What the file has now is shown, not what it had when it was opened.
    (lab.server.root / "two.py").write_text("changed = True\n", "utf-8")
    lab.ask("read two.py")
    expect(lab.page.locator(".jp-FileEditor .cm-content:visible")).to_have_text("changed = True")
    # One tab follows, not one for each file.
    lab.page.wait_for_function(f"() => ({EDITOR_LINE})('one.py') === null")
    lab.command("acp:toggle-follow")
    assert lab.console_errors == []


def test_a_location_is_opened_at_its_line(lab: LabPage) -> None:
    folder = lab.server.root / "work"
    folder.mkdir(exist_ok=True)
    (folder / "lines.py").write_text("".join(f"x{n} = {n}\n" for n in range(1, 200)), "utf-8")
    lab.new([""], kernel="python3", name="work/at.ipynb")
    lab.command("acp:open-location", {"path": "lines.py", "line": 150})
    wait_for_line(lab, "work/lines.py", 150)
    expect(lab.page.locator(".jp-FileEditor").get_by_text("x150 = 150")).to_be_visible()
    where = {"path": "./lines.py", "line": 100_000, "notebook": "work/at.ipynb"}
    lab.command("acp:open-location", where)
    wait_for_line(lab, "work/lines.py", 200)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.py", "the server shows no such file"),
        ("../../../etc/passwd", "is outside the folder that this server shows"),
        ("/etc/passwd", "is outside the folder that this server shows"),
        (".", "is a folder"),
    ],
)
def test_a_location_that_cannot_be_opened_is_told(lab: LabPage, path: str, reason: str) -> None:
    lab.new([""], kernel="python3")
    lab.command("acp:open-location", {"path": path, "line": 1})
    expect(toast(lab, reason)).to_be_visible()


def test_a_notebook_out_of_sight_tells_that_its_agent_waits(lab: LabPage) -> None:
    (lab.server.root / "notes.md").write_text("# Notes\n", "utf-8")
    connect(lab)
    index = lab.ask("slow 10; run echo hello", wait=False)
    lab.command("docmanager:open", {"path": "notes.md"})
    text = f"Demo Agent waits for you in {lab.name}: Run echo hello"
    expect(toast(lab, text)).to_be_visible()
    expect(lab.page.locator("[aria-live=assertive]").filter(has_text=text)).to_have_count(1)
    toast(lab, text).get_by_role("button", name="Show cell").click()
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()
    lab.click_button(index, "Deny")
    lab.wait_until_done(index)
    expect(toast(lab, text)).to_have_count(0)


def test_a_notice_goes_when_the_question_is_answered_elsewhere(lab: LabPage) -> None:
    (lab.server.root / "notes.md").write_text("# Notes\n", "utf-8")
    connect(lab)
    lab.ask("slow 10; run echo hello", wait=False)
    lab.command("docmanager:open", {"path": "notes.md"})
    text = "waits for you"
    expect(toast(lab, text)).to_be_visible()
    answer(lab, "Run echo hello", "Deny")
    expect(toast(lab, text)).to_have_count(0)


def test_a_page_loaded_anew_can_answer(frontend: NotebookPage) -> None:
    connect(frontend)
    index = frontend.ask("run echo hello", wait=False)
    status(frontend, "waiting").wait_for()
    frontend.save()
    frontend.reload(wait_for_kernel=False)
    status(frontend, "waiting").wait_for()
    answer(frontend, "Run echo hello", "Allow once")
    status(frontend, "idle").wait_for()
    frontend.wait_for_kernel()
    index = frontend.ask("usage")
    assert "tokens" in frontend.output_text(index)


def test_the_wire_is_shown_line_by_line(lab: LabPage) -> None:
    connect(lab)
    lab.command("acp:show-agents")
    wire = lab.page.get_by_role("region", name="Wire")
    wire.get_by_role("checkbox").check()
    lines = wire.locator(".acp-Wire-line")
    lab.ask("count 3")
    line = lines.filter(has_text="session/prompt")
    line.locator("summary").click()
    expect(line.locator("pre")).to_contain_text('"text": "count 3"')
    wire.get_by_role("searchbox").fill("agent_message_chunk")
    expect(line).to_be_hidden()
    wire.get_by_role("button", name="Clear").click()
    expect(lines).to_have_count(0)


def test_a_restarted_kernel_is_spoken_to_again(lab: LabPage) -> None:
    connect(lab)
    expect(status(lab, "idle")).to_be_visible()
    kernel = f"{PANEL}.sessionContext.session.kernel"
    lab.page.evaluate(f"async () => {{ await {kernel}.restart(); }}")
    expect(status(lab, "none")).to_contain_text("No agent")
    index = lab.ask("%acp connect demo")
    assert "Connected to Demo Agent" in lab.output_text(index)
    expect(status(lab, "idle")).to_be_visible()


def test_a_python_kernel_is_spoken_to_once_it_has_loaded_the_extension(lab: LabPage) -> None:
    lab.new(["x = 1"], kernel="python3")
    lab.run(0)
    expect(status(lab)).to_be_hidden()
    lab.ask("%load_ext acp_jupyter")
    expect(status(lab, "none")).to_be_visible()
    lab.ask("%acp connect demo")
    expect(status(lab, "idle")).to_be_visible()
    lab.save()
    lab.reload()
    expect(status(lab, "idle")).to_be_visible()
