"""A notebook open in a browser, driven as a person would, and read as one sees it.

`LabPage` and `NotebookPage` differ in their address only. Cells are numbered from 0. Outputs are
read from the page, not from the kernel's messages, unless a method says otherwise. Every wait is
bounded; times are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import nbformat
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, WebSocket

from tests.browser.server import JupyterServer

OPEN_TIMEOUT = 60.0
TIMEOUT = 30.0

KNOWN_ERRORS = {
    # Notebook 7.6 looks at settings before they are loaded, on every page and in any setting.
    ("notebook", "Cannot read properties of undefined (reading 'schema')"),
}
"""Errors that a frontend reports by itself, whatever the notebook holds: app and text."""

PANEL = "window.jupyterapp?.shell?.currentWidget"

KERNEL_IS_READY = f"""() => {{
  const context = {PANEL}?.sessionContext;
  const kernel = context?.session?.kernel;
  return Boolean(kernel) && context.isReady && kernel.connectionStatus === 'connected'
    && kernel.status === 'idle';
}}"""

LIST_CELLS = f"""() => {PANEL}.content.widgets.map(cell => cell.model.toJSON())"""

MARK_CELL = f"""async index => {{
  const notebook = {PANEL}.content;
  await notebook.scrollToItem(index);
  document.querySelectorAll('[data-cell]').forEach(node => node.removeAttribute('data-cell'));
  notebook.widgets.forEach((cell, n) => cell.node.setAttribute('data-cell', String(n)));
}}"""

ADD_CELL = f"""source => {{
  const notebook = {PANEL}.content;
  const index = notebook.widgets.length;
  notebook.model.sharedModel.insertCell(index, {{cell_type: 'code', source}});
  return index;
}}"""

CELL_STATE = f"""index => {{
  const cell = {PANEL}.content.widgets[index];
  const prompt = cell.promptNode ?? cell.node.querySelector('.jp-InputPrompt');
  return prompt?.textContent ?? '[*]';  // off the page, it has none: not known to be done
}}"""


class NotebookPage:
    """A notebook in Notebook 7; see the module's rules.

    Attributes:
        page: the Playwright page, for what is not here.
        console_errors: what the page reported as errors, `KNOWN_ERRORS` left out.
        foreign_requests: addresses outside the server's origin that the page asked for. There is
            to be none: outputs must not reach for the network.
    """

    PATH: ClassVar[str] = "notebooks/{name}"

    def __init__(self, context: BrowserContext, server: JupyterServer) -> None:
        self.server = server
        self.name = ""
        self.console_errors: list[str] = []
        self.foreign_requests: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(TIMEOUT * 1000)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._on_error(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("websocket", self._on_websocket)

    @property
    def file(self) -> Path:
        """The notebook's file on disk."""
        return self.server.root / self.name

    def saved_outputs(self, index: int) -> list[Any]:
        """Save, and read a cell's outputs from the file."""
        self.save()
        return list(self.saved().cells[index].outputs)

    def saved(self) -> Any:
        """The notebook as the file on disk has it."""
        return nbformat.read(self.file, as_version=4)

    # -- opening ----------------------------------------------------------------------------

    def new(self, cells: Sequence[str], kernel: str = "acp", name: str | None = None) -> None:
        """Write a notebook with these code cells and open it."""
        self.name = name or f"test-{uuid4().hex[:8]}.ipynb"
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
        notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": ""}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, self.file)
        self.open(self.name)

    def open(self, name: str, *, wait_for_kernel: bool = True) -> None:
        """Open a notebook of the server's root by its path there."""
        self.name = name
        address = self.PATH.format(name=quote(name), workspace=uuid4().hex)
        self.page.goto(f"{self.server.url}{address}?token={self.server.token}")
        self._wait_open(wait_for_kernel)

    def reload(self, *, wait_for_kernel: bool = True) -> None:
        """Load the page anew, as F5 does; what was not saved is lost, the kernel lives on."""
        self.page.on("dialog", _accept)  # "changes may not be saved"
        self.page.reload()
        self.page.remove_listener("dialog", _accept)
        self._wait_open(wait_for_kernel)

    def _wait_open(self, wait_for_kernel: bool) -> None:
        self._wait(f"() => Boolean({PANEL}?.content?.widgets?.length)", timeout=OPEN_TIMEOUT)
        self.page.evaluate(f"() => {PANEL}.context.ready")
        if wait_for_kernel:
            self.wait_for_kernel()

    def wait_for_kernel(self, timeout: float = OPEN_TIMEOUT) -> None:
        """Until the kernel is connected and idle."""
        self._wait(KERNEL_IS_READY, timeout=timeout)

    def _wait(self, function: str, argument: Any = None, timeout: float = TIMEOUT) -> None:
        self.page.wait_for_function(function, arg=argument, timeout=timeout * 1000)

    # -- cells ------------------------------------------------------------------------------

    def cell(self, index: int) -> Locator:
        """The cell's element, scrolled into view."""
        self.page.evaluate(MARK_CELL, index)
        return self.page.locator(f"[data-cell='{index}']")

    def output(self, index: int) -> Locator:
        """The element of all of the cell's outputs."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def cells(self) -> list[dict[str, Any]]:
        """The cells as they would be saved now."""
        cells: list[dict[str, Any]] = self.page.evaluate(LIST_CELLS)
        return cells

    def add(self, source: str) -> int:
        """Add a code cell at the end; its number."""
        index: int = self.page.evaluate(ADD_CELL, source)
        return index

    def ask(self, source: str, *, wait: bool = True, timeout: float = TIMEOUT) -> int:
        """`add` and `run`; the cell's number."""
        index = self.add(source)
        self.run(index, wait=wait, timeout=timeout)
        return index

    def run(self, index: int, *, wait: bool = True, timeout: float = TIMEOUT) -> None:
        """Run a cell by its keyboard shortcut; unless told otherwise, wait until it has ended."""
        editor = self.cell(index).locator(".cm-content")
        editor.click()
        editor.press("Control+Enter")
        self._wait(
            f"index => {PANEL}.content.widgets[index].model.executionState === 'running'"
            f" || {PANEL}.content.widgets[index].model.executionCount !== null",
            index,
        )
        if wait:
            self.wait_until_done(index, timeout)

    def is_running(self, index: int) -> bool:
        """Whether the cell runs or waits for its turn (``[*]``)."""
        return "*" in str(self.page.evaluate(CELL_STATE, index))

    def wait_until_done(self, index: int, timeout: float = TIMEOUT) -> None:
        """Until the cell has ended, well or not."""
        self._wait(f"index => !(({CELL_STATE})(index).includes('*'))", index, timeout)

    def output_text(self, index: int) -> str:
        """What the cell's outputs read on the page."""
        output = self.output(index)
        return output.inner_text() if output.count() else ""

    def output_html(self, index: int) -> str:
        """The HTML of the cell's outputs, as the page has it."""
        output = self.output(index)
        return output.inner_html() if output.count() else ""

    def wait_for_output(self, index: int, text: str, timeout: float = TIMEOUT) -> None:
        """Until the outputs of the cell contain ``text`` on the page."""
        output = self.output(index).filter(has_text=text)
        output.wait_for(state="attached", timeout=timeout * 1000)

    def button(self, index: int, label: str) -> Locator:
        """The button with this label (or accessible name) in the cell's outputs."""
        return self.output(index).get_by_role("button", name=label, exact=True)

    def click_button(self, index: int, label: str, timeout: float = TIMEOUT) -> None:
        """Click a button in the cell's outputs, once it is there and enabled."""
        self.button(index, label).first.click(timeout=timeout * 1000)

    # -- the notebook -----------------------------------------------------------------------

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Run a command of the application, and wait for it."""
        call = "window.jupyterapp.commands.execute(name, args)"
        # What a command returns is often a widget, which cannot leave the page.
        function = f"async ([name, args]) => {{ await {call}; }}"
        self.page.evaluate(function, [name, arguments or {}])

    def interrupt(self) -> None:
        """What the stop button does."""
        self.command("notebook:interrupt-kernel")

    def save(self) -> None:
        """Save, and wait until the file is written."""
        self.page.evaluate(f"async () => {{ await {PANEL}.context.save(); }}")

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def close(self) -> None:
        """End the notebook's kernel and close the page."""
        self.page.close(run_before_unload=False)
        self.end_kernel()

    def end_kernel(self) -> None:
        """End the kernel of the notebook that is open."""
        for session in self.server.request("GET", "api/sessions"):
            if session["path"] == self.name:
                self.server.request("DELETE", f"api/sessions/{session['id']}")

    # -- what the page does besides ---------------------------------------------------------

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._on_error(f"{message.text} ({json.dumps(message.location)})")

    def _on_error(self, text: str) -> None:
        if (self.server.app, text) not in KNOWN_ERRORS:
            self.console_errors.append(text)

    def _on_request(self, request: Request) -> None:
        self._check(request.url)

    def _on_websocket(self, socket: WebSocket) -> None:
        self._check(socket.url)

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("data", "blob")
            and parts.netloc != urlsplit(self.server.url).netloc
        ):
            self.foreign_requests.append(url)


class LabPage(NotebookPage):
    """A notebook in JupyterLab, in a workspace of its own."""

    PATH = "lab/workspaces/{workspace}/tree/{name}"


def _accept(dialog: Any) -> None:
    dialog.accept()


def question(page: NotebookPage, index: int, title: str) -> Locator:
    """The output of an open question, once its buttons are there."""
    outputs = page.output(index).locator(".jp-OutputArea-child")
    found = outputs.filter(has_text=f"The agent asks: {title}")
    found.get_by_role("button").first.wait_for()
    return found


def press(page: NotebookPage, index: int, title: str, label: str) -> None:
    question(page, index, title).get_by_role("button", name=label, exact=True).click()


def end_running_turn(page: NotebookPage) -> None:
    """Interrupt the last cell if it still runs."""
    last = len(page.cells()) - 1
    if page.is_running(last):
        page.interrupt()
        page.wait_until_done(last)
