"""Fixtures of the browser tests: Chromium, the two servers, and a notebook page on each.

Chromium is that of the system (`tests/tools/chromium.py` finds it). Where there is none the tests
fail and say how to get it: a skipped browser test is one that nobody misses.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, sync_playwright

from tests.browser.pages import LabPage, NotebookPage
from tests.browser.server import JupyterServer, jupyter_server
from tests.tools import chromium

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Whatever a page asks for, nothing but loopback is reached.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
VIEWPORT = {"width": 1280, "height": 900}


def chromium_path() -> str:
    try:
        path = chromium.find()
    except chromium.NoBrowser as error:
        pytest.fail(f"{error}\n\n{chromium.REMEDY}", pytrace=False)
    if path is None:
        pytest.fail(f"There is no Chromium to test in.\n\n{chromium.REMEDY}", pytrace=False)
    return path


# Both of package scope: Playwright keeps an event loop running in this thread for as long as it
# lives, and tests elsewhere start loops of their own.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = playwright.chromium.launch(
        executable_path=chromium_path(), args=FLAGS, headless=True, timeout=60_000
    )
    yield running
    running.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile: no cookies, no storage."""
    opened = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    with jupyter_server("lab", tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="session")
def notebook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    with jupyter_server("notebook", tmp_path_factory.mktemp("notebook")) as server:
        yield server


@pytest.fixture
def lab(context: BrowserContext, lab_server: JupyterServer) -> Iterator[LabPage]:
    """JupyterLab without a notebook yet: call ``lab.new([...])``."""
    page = LabPage(context, lab_server)
    yield page
    page.close()


@pytest.fixture
def notebook(context: BrowserContext, notebook_server: JupyterServer) -> Iterator[NotebookPage]:
    """Notebook 7 without a notebook yet: call ``notebook.new([...])``."""
    page = NotebookPage(context, notebook_server)
    yield page
    page.close()


@pytest.fixture(params=["lab", "notebook"])
def frontend(request: pytest.FixtureRequest) -> NotebookPage:
    """Each frontend in turn."""
    page: NotebookPage = request.getfixturevalue(request.param)
    return page


@pytest.fixture(scope="module", params=["lab", "notebook"])
def talk(request: pytest.FixtureRequest, browser: Browser) -> Iterator[NotebookPage]:
    """Each frontend in turn, with one notebook for a whole module in which the bundled agent is
    connected: call ``talk.ask("prompt")``."""
    app: str = request.param
    server: JupyterServer = request.getfixturevalue(f"{app}_server")
    context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    page = (LabPage if app == "lab" else NotebookPage)(context, server)
    page.new(["%acp connect demo"])
    page.run(0)
    page.wait_for_output(0, "Connected to Demo Agent")
    yield page
    page.close()
    context.close()
