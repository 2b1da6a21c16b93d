"""Hostile content in real pages: live, and saved, opened again and trusted (F51, F52, F54).

JupyterLab itself neither sanitises nor blocks what a trusted output holds, so nothing but our own
rendering stands between an agent and the user's session.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from playwright.sync_api import Dialog

from tests.browser.hostile_agent import STRONGEST
from tests.browser.pages import PANEL, LabPage, NotebookPage

pytestmark = pytest.mark.browser

TRAP = "Object.defineProperty(window, '__hostile', {set() { window.top.__sprung = true; }});"
"""In every frame, before anything else runs there."""

OUTPUTS = ".jp-OutputArea-output"

FORBIDDEN = ", ".join(
    f"{OUTPUTS} {selector}"
    for selector in (
        "script, iframe, frame, object, embed, applet, portal, form, style, link, meta, base",
        "dialog, svg:not([class]), isindex, template, input, select, textarea, video, marquee",
        "[data-commandlinker-command], [data-commandlinker-args], [srcdoc], [formaction]",
        "[contenteditable=true], [id=jp-main-dock-panel], .jp-Dialog",
    )
    for selector in selector.split(", ")
)
"""Elements that no output of ours may hold."""

INSPECT = f"""forbidden => {{
  const found = [...document.querySelectorAll(forbidden)].map(node => node.outerHTML);
  for (const node of document.querySelectorAll('{OUTPUTS} *')) {{
    for (const attribute of node.attributes) {{
      if (attribute.name.startsWith('on')) found.push(node.outerHTML);
      const url = ['href', 'src', 'xlink:href', 'action', 'data'].includes(attribute.name);
      if (url && !/^(https?:|data:(image\\/(png|jpeg|gif|webp)|audio\\/))/.test(attribute.value))
        found.push(node.outerHTML);
    }}
    if (getComputedStyle(node).position === 'fixed') found.push(node.outerHTML);
  }}
  return found;
}}"""

PROVOKE = f"""() => {{
  for (const node of document.querySelectorAll('{OUTPUTS} details')) node.open = true;
  for (const node of document.querySelectorAll('{OUTPUTS} *')) {{
    for (const type of ['mouseover', 'mouseenter', 'pointerenter', 'focus', 'load', 'error'])
      node.dispatchEvent(new Event(type));
    const leaves = node.closest('a[href^=http]') || node.closest('summary');
    if (!leaves && !node.closest('button'))
      node.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}));
  }}
}}"""
"""Does to each element of the outputs what a person could do to it, but for leaving the page."""

TRUSTED = f"index => {PANEL}.content.widgets[index].model.trusted"


class Watch:
    """What a page did that it must not."""

    def __init__(self, page: NotebookPage) -> None:
        self.page = page
        self.dialogs: list[str] = []
        self.pages: list[str] = []
        self.address = ""
        page.page.add_init_script(TRAP)
        page.page.on("dialog", self._on_dialog)
        page.page.on("popup", lambda popup: self.pages.append(popup.url))

    def _on_dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def assert_harmless(self) -> None:
        page = self.page.page
        assert page.evaluate("Boolean(window.__sprung)") is False
        assert page.evaluate(INSPECT, FORBIDDEN) == []
        page.evaluate(PROVOKE)
        page.evaluate("() => new Promise(done => setTimeout(done, 300))")  # timers and loads
        assert page.evaluate("Boolean(window.__sprung)") is False
        assert self.page.foreign_requests == []
        assert self.dialogs == []
        assert self.pages == []
        assert page.url == self.address


def show_all(page: NotebookPage, index: int) -> None:
    """JupyterLab shows the first fifty outputs of a cell until told otherwise."""
    more = page.output(index).get_by_text("Show more outputs")
    if more.count():
        more.click()


def test_f51_hostile_content_is_inert_live_and_in_a_trusted_notebook(
    frontend: NotebookPage,
) -> None:
    watch = Watch(frontend)
    command = f"%acp connect -- {sys.executable} -m tests.browser.hostile_agent"
    frontend.new([command, "say it all", "ask"])
    watch.address = frontend.page.url
    frontend.run(0)
    frontend.run(1)
    show_all(frontend, 1)
    frontend.wait_for_output(1, "end_turn")
    read = frontend.output_text(1)
    assert STRONGEST[0] in read  # it is there, as text
    watch.assert_harmless()

    frontend.run(2, wait=False)
    deny = frontend.output(2).get_by_role("button", name=re.compile("^Deny")).first
    deny.wait_for()
    watch.assert_harmless()
    deny.click()
    frontend.wait_until_done(2)
    frontend.wait_for_output(2, "It was answered.")
    watch.assert_harmless()

    frontend.save()
    frontend.reload()
    assert [frontend.page.evaluate(TRUSTED, index) for index in (1, 2)] == [True, True]
    show_all(frontend, 1)
    frontend.wait_for_output(1, "end_turn")
    frontend.wait_for_output(2, "It was answered.")
    watch.assert_harmless()
    assert_only_data(frontend.saved())


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
    assert lab.page.evaluate(INSPECT, FORBIDDEN) != []
