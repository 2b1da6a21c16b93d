"""Take the pictures of the README: the quickstart in JupyterLab while the agent waits for a yes.

The pictures are ``.github/quickstart-light.png`` and ``.github/quickstart-dark.png``. What is shown
is a real run of the bundled agent, in a server of its own.

    python tests/tools/screenshots.py
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import server  # noqa: E402
from tests.browser.conftest import FLAGS, chromium_path  # noqa: E402
from tests.browser.pages import LabPage  # noqa: E402

HOME = Path(tempfile.gettempdir(), "demo")
"""The server's folder, whose name is in the pictures. It is made and removed."""

NOTEBOOK = "quickstart.ipynb"
CONNECT, HELLO, WORK = 1, 3, 5
"""Cells of the quickstart."""

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
THEME_SETTING = "@jupyterlab/apputils-extension/themes"


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make `HOME`, which must not be there, and remove it."""
    HOME.mkdir(mode=0o700)
    try:
        yield HOME
    finally:
        shutil.rmtree(HOME)


def take(browser: Browser, theme: str, target: Path) -> None:
    """Run the quickstart up to its first question, in a theme, and take the picture."""
    server.SETTINGS[THEME_SETTING] = {"theme": THEMES[theme]}
    with own_folder() as home, server.jupyter_server("lab", home) as running:
        shutil.copy(ROOT / "notebooks" / "01-quickstart.ipynb", running.root / NOTEBOOK)
        context = browser.new_context(
            viewport={"width": 1280, "height": 800},
            device_scale_factor=1.5,
        )
        page = LabPage(context, running)
        page.open(NOTEBOOK)
        page.command("application:toggle-left-area")
        page.command("acp:show-agents")
        for cell in (CONNECT, HELLO):
            page.run(cell)
        page.run(WORK, wait=False)
        page.button(WORK, "Allow once").first.wait_for()
        expect(page.page.get_by_role("button", name="Allow once").first).to_be_in_viewport()
        page.page.mouse.move(0, 0)
        page.screenshot(target)
        page.click_button(WORK, "Deny")
        page.wait_until_done(WORK)
        page.close()
        context.close()


def main() -> None:
    """Take all pictures."""
    os.environ.pop("ACP_JUPYTER_PERMISSIONS", None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=FLAGS, headless=True
        )
        for theme in THEMES:
            take(browser, theme, ROOT / ".github" / f"quickstart-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
