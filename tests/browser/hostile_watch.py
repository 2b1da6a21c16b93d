"""What a page did, or holds, that it must not: for tests of hostile content.

JupyterLab itself neither sanitises nor blocks what a trusted output holds, so nothing but our own
rendering stands between an agent and the user's session.
"""

from __future__ import annotations

from playwright.sync_api import Dialog

from tests.browser.pages import NotebookPage

TRAP = "Object.defineProperty(window, '__hostile', {set() { window.top.__sprung = true; }});"
"""In every frame, before anything else runs there."""

FORBIDDEN = (
    "script, iframe, frame, object, embed, applet, portal, form, style, link, meta, base, dialog,"
    " svg, math, isindex, template, video, marquee, textarea, [data-commandlinker-command],"
    " [data-commandlinker-args], [srcdoc], [formaction], [contenteditable=true],"
    " [id=jp-main-dock-panel], .jp-Dialog"
)
"""Elements that nothing of an agent's may hold, wherever it is shown."""

LOOK = """([selector, forbidden]) => {
  const found = [];
  const say = (why, node) => found.push(`${why}: ${(node.outerHTML ?? node.data).slice(0, 300)}`);
  // Ours: buttons and inputs of questions are widgets, those of entries are the extension's.
  const ours = '.jp-OutputArea-output .widget-box, .acp-Panel, .acp-Popup, .acp-StatusItem,' +
    ' .Toastify__toast, .jp-Completer';
  const symbols = 'svg[data-icon], .acp-StatusIcon, .Toastify__toast svg, .jp-Completer svg';
  const math = 'mjx-container, mjx-container *';
  const hidden = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/;
  const marks = '[\\u200b-\\u200f\\ufeff\\u{e0000}-\\u{e0fff}]';
  const invisible = new RegExp(`${hidden.source}|${marks}`, 'u');
  const ADDRESSES = ['href', 'src', 'xlink:href', 'action', 'data', 'srcset', 'poster'];
  const ADDRESS = /^(https?:|data:(image\\/(png|jpeg|gif|webp)|audio\\/))/;
  const NAMES = ['title', 'aria-label', 'alt', 'placeholder', 'label', 'value'];
  for (const root of document.querySelectorAll(selector)) {
    for (const node of root.querySelectorAll(forbidden))
      if (!node.closest(symbols) && !node.matches('mjx-assistive-mml *')) say('forbidden', node);
    for (const node of root.querySelectorAll('button, input, select, [role=button], [tabindex]')) {
      const known = node.matches('.acp-Entry-button[data-acp-action]') ||
        node.closest(ours) || node.matches('.jp-TrimmedOutputs *, .jp-OutputArea-promptOverlay');
      if (!known) say('control', node);
      if (node.closest('pre, .acp-Entry-source, .highlight > pre')
          && !node.matches('pre')) say('control in text', node);
    }
    // Judged by a person: nothing in it is invisible.
    const judged = 'button, summary, pre, select, .acp-Panel *, .acp-Popup *, .acp-StatusItem *,' +
      ' .Toastify__toast *, .jp-Completer *';
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode;
      const parent = text.parentElement;
      if (parent.closest('style, script, .jp-Stdin, .jp-OutputArea-prompt')) continue;
      const rule = parent.closest(judged) ? invisible : hidden;
      if (rule.test(text.data)) say('invisible', parent);
    }
    for (const node of root.querySelectorAll('*')) {
      if (!node.attributes.length) continue;
      const known = node.closest(symbols);
      const set = node.matches(math);
      for (const { name, value } of node.attributes) {
        if (name.startsWith('on')) say('handler', node);
        if (ADDRESSES.includes(name) && !ADDRESS.test(value) && !known) say('address', node);
        if (NAMES.includes(name) && invisible.test(value)) say('invisible', node);
        const styles = set ? /url|expression|fixed/i : /position|url|expression|@/i;
        const placed = '.Toastify__toast, .acp-Popup, .jp-Completer';
        if (name === 'style' && styles.test(value) && !known && !node.closest(placed))
          say('style', node);
        if (name === 'class' && !known && !set) {
          if (/(^| )(jp|lm|p|widget|jupyter)-/.test(value)
              && node.parentElement.closest('.jp-RenderedHTML, .widget-html-content'))
            say('class', node);
          if (/(^| )acp-/.test(value) && !node.closest(
              '.acp-Entry, .acp-Panel, .acp-Popup, .acp-StatusItem')) say('class', node);
        }
      }
    }
  }
  return found.slice(0, 20);
}"""
"""What is in these parts of the page that must not be there."""

PROVOKE = """selector => {
  const events = ['mouseover', 'mouseenter', 'pointerenter', 'focus', 'load', 'error'];
  for (const root of document.querySelectorAll(selector)) {
    for (const node of root.querySelectorAll('details')) node.open = true;
    for (const node of root.querySelectorAll('*')) {
      if (!node.attributes.length) continue;
      for (const type of events) node.dispatchEvent(new Event(type));
      const leaves = node.closest('a[href^=http], summary, label, button, input, select');
      if (!leaves) node.dispatchEvent(new MouseEvent('click', {cancelable: true}));
    }
    root.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
  }
}"""
"""Does to each element what a person could do to it, but for leaving the page."""

SHOWN = "[data-cell-looked-at] .jp-OutputArea-output"

LIVE_PARTS = ".acp-Panel, .acp-Popup, .acp-StatusItem, .Toastify__toast, .jp-Completer"


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

    def look(self, selector: str) -> list[str]:
        """What is wrong in these parts of the page."""
        wrong: list[str] = self.page.page.evaluate(LOOK, [selector, FORBIDDEN])
        return wrong

    def look_at_cell(self, index: int) -> None:
        """Look at all outputs of a cell, and provoke them."""
        cell = self.page.cell(index)
        show_all(self.page, index)
        cell.evaluate(
            "node => { for (const each of document.querySelectorAll('[data-cell-looked-at]'))"
            " each.removeAttribute('data-cell-looked-at');"
            " node.setAttribute('data-cell-looked-at', ''); }"
        )
        assert self.page.page.locator(SHOWN).count() > 0
        self.look_at(SHOWN)

    def look_at(self, selector: str) -> None:
        self.page.page.evaluate(PROVOKE, selector)
        wrong = self.look(selector)
        assert not wrong, "\n".join(wrong)

    def assert_harmless(self) -> None:
        """Nothing that was shown so far has done anything."""
        page = self.page.page
        page.evaluate("() => new Promise(done => setTimeout(done, 300))")  # timers and loads
        done = {
            "scripts": page.evaluate("Boolean(window.__sprung)"),
            "requests": self.page.foreign_requests,
            "dialogs": self.dialogs,
            "pages": self.pages,
            "address": page.url if page.url != self.address else "",
        }
        assert not any(done.values()), done


def show_all(page: NotebookPage, index: int) -> None:
    """JupyterLab shows the first fifty outputs of a cell until told otherwise."""
    more = page.output(index).get_by_text("Show more outputs")
    if more.count():
        more.click()
