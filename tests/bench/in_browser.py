"""What a cell costs the page that shows it: JupyterLab in Chromium, read by its own counters.

The page is real and the user's: a default server, the extension that is installed, one notebook.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, CDPSession, sync_playwright

from tests.bench.kernels import kernel_specs
from tests.browser.conftest import FLAGS, VIEWPORT
from tests.browser.pages import PANEL, LabPage
from tests.browser.server import JupyterServer, jupyter_server
from tests.tools import chromium

CELL_TIMEOUT = 180.0
"""Seconds: the naive way takes over half a minute to draw what came in two seconds."""

WATCH_TASKS = """() => {
  window.__longest = 0;
  new PerformanceObserver(list => {
    for (const task of list.getEntries())
      window.__longest = Math.max(window.__longest, task.duration);
  }).observe({type: 'longtask', buffered: false});
}"""

ENDED = f"""index => new Promise(done => {{
  const cell = {PANEL}.content.widgets[index];
  const look = () => {{
    if (cell.model.executionState !== 'idle') return;
    cell.model.stateChanged.disconnect(look);
    done();
  }};
  cell.model.stateChanged.connect(look);
  look();
}})"""
"""Until the cell has ended; told, not looked for in each frame, which would cost as much."""

SETTLED = """() => new Promise(done => requestIdleCallback(() => requestAnimationFrame(done)))"""
"""Until the page has nothing left to do."""


@dataclass(frozen=True)
class PageCost:
    """One cell, as the page that showed it bore it.

    Attributes:
        busy: seconds of the page's main thread, scripts, styles and layout together.
        script: seconds of it in scripts.
        longest: milliseconds of its longest task; 50 where none took longer than that.
        messages: messages on the kernel's WebSocket, both ways.
        memory: bytes of JavaScript heap that are kept after the cell, beyond those before.
    """

    busy: float
    script: float
    longest: float
    messages: int
    memory: float


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab and a browser."""

    server: JupyterServer
    browser: Browser


@contextmanager
def running_lab() -> Iterator[Lab]:
    """JupyterLab with the benchmark's kernels, and Chromium.

    Raises:
        RuntimeError: there is no browser.
    """
    path = chromium.find()
    if path is None:
        raise RuntimeError(chromium.REMEDY)
    with (
        TemporaryDirectory(prefix="bench-lab-") as directory,
        jupyter_server(
            "lab", Path(directory), kernel_specs(), {"ACP_JUPYTER_PERMISSIONS": "allow"}
        ) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, headless=True)
        yield Lab(server, browser)
        browser.close()


def page_cost(lab: Lab, kernel: str, connect: str, scenario: str) -> PageCost:
    """Run the cell ``connect``, then ``scenario``, in a new notebook on a new page."""
    context = lab.browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    try:
        page = LabPage(context, lab.server)
        messages = _count_messages(page)
        page.new([connect, scenario], kernel=kernel)
        page.run(0, timeout=CELL_TIMEOUT)
        counters = context.new_cdp_session(page.page)
        counters.send("Performance.enable")
        page.page.evaluate(WATCH_TASKS)
        before, sent = _counters(counters, page), messages[0]
        page.page.set_default_timeout(CELL_TIMEOUT * 1000)
        page.run(1, wait=False)
        page.page.evaluate(ENDED, 1)
        page.page.evaluate(SETTLED)
        after, received = _counters(counters, page), messages[0]
        longest = float(page.page.evaluate("window.__longest"))
        page.close()
    finally:
        context.close()
    return PageCost(
        busy=after["TaskDuration"] - before["TaskDuration"],
        script=after["ScriptDuration"] - before["ScriptDuration"],
        longest=max(50.0, longest),
        messages=received - sent,
        memory=after["JSHeapUsedSize"] - before["JSHeapUsedSize"],
    )


def _count_messages(page: LabPage) -> list[int]:
    counted = [0]

    def count(_: object) -> None:
        counted[0] += 1

    def watch(socket: object) -> None:
        socket.on("framereceived", count)  # type: ignore[attr-defined]
        socket.on("framesent", count)  # type: ignore[attr-defined]

    page.page.on("websocket", watch)
    return counted


def _counters(session: CDPSession, page: LabPage) -> dict[str, float]:
    """Chromium's counters of the page, once its garbage is collected."""
    page.page.evaluate(SETTLED)
    session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: float(metric["value"]) for metric in metrics}
