"""The browser harness itself, on the python3 kernel: what the other browser tests stand on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.browser.pages import NotebookPage
from tests.browser.server import ROOT, jupyter_server

pytestmark = pytest.mark.browser

CLICK = """\
import ipywidgets
from IPython.display import display
button = ipywidgets.Button(description="Greet")
out = ipywidgets.Output()
@out.capture()
def greet(_):
    print("hello " * 2)
button.on_click(greet)
display(button, out)
"""


def test_a_cell_runs_and_its_output_is_read_saved_and_there_after_a_reload(
    frontend: NotebookPage, tmp_path: Path
) -> None:
    frontend.new(["print('sum', 1 + 1)", "print('second')"], kernel="python3")
    frontend.run(0)
    assert frontend.output_text(0).strip() == "sum 2"
    assert "sum 2" in frontend.output_html(0)
    assert frontend.output_text(1) == ""
    frontend.save()
    assert frontend.saved().cells[0].outputs[0].text == "sum 2\n"
    assert frontend.cells()[0]["outputs"][0]["text"] == "sum 2\n"
    frontend.reload()
    frontend.wait_for_output(0, "sum 2")
    frontend.screenshot(tmp_path / "cell.png")
    assert (tmp_path / "cell.png").read_bytes().startswith(b"\x89PNG")
    assert frontend.console_errors == []
    assert frontend.foreign_requests == []


def test_a_widget_is_shown_and_its_button_clicked(frontend: NotebookPage) -> None:
    frontend.new([CLICK], kernel="python3")
    frontend.run(0)
    frontend.click_button(0, "Greet")
    frontend.wait_for_output(0, "hello hello")
    assert frontend.foreign_requests == []


def test_a_running_cell_is_seen_running_and_can_be_interrupted(frontend: NotebookPage) -> None:
    frontend.new(["import time\nprint('begun')\ntime.sleep(60)"], kernel="python3")
    frontend.run(0, wait=False)
    frontend.wait_for_output(0, "begun")
    assert frontend.is_running(0)
    frontend.interrupt()
    frontend.wait_until_done(0)
    assert "KeyboardInterrupt" in frontend.output_text(0)
    assert not frontend.is_running(0)


def test_a_request_that_leaves_the_server_and_a_console_error_are_noticed(
    frontend: NotebookPage,
) -> None:
    frontend.new(["'nothing'"], kernel="python3")
    frontend.page.evaluate(
        "() => { document.body.append(Object.assign(new Image(),"
        " {src: 'http://example.invalid/pixel.png'})); console.error('oh no'); }"
    )
    deadline = time.monotonic() + 10
    while not frontend.foreign_requests and time.monotonic() < deadline:
        frontend.page.wait_for_timeout(50)
    assert frontend.foreign_requests == ["http://example.invalid/pixel.png"]
    assert any("oh no" in error for error in frontend.console_errors)


def test_the_acp_kernelspec_of_the_checkout_is_offered(frontend: NotebookPage) -> None:
    specs = frontend.server.request("GET", "api/kernelspecs")["kernelspecs"]
    assert specs["acp"]["spec"]["argv"][0] == sys.executable
    assert specs["acp"]["spec"]["interrupt_mode"] == "message"


def test_a_server_that_cannot_start_fails_at_once_with_what_it_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "jupyter_server.py").write_text("raise SystemExit('no server today')")
    start = time.monotonic()
    with (
        pytest.raises(RuntimeError, match="no server today"),
        jupyter_server("server", tmp_path, env={"PYTHONPATH": str(broken)}),
    ):
        pytest.fail("it started")
    assert time.monotonic() - start < 20


def test_without_a_browser_the_tests_fail_and_say_how_to_get_one() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    test = f"{Path(__file__)}::{test_a_widget_is_shown_and_its_button_clicked.__name__}"
    environment = {"PATH": "/nowhere", "CHROMIUM": "", "HOME": "/nowhere"}
    run = subprocess.run(
        [*command, f"{test}[lab]"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1
    assert "apt-get install chromium" in run.stdout
    assert "skipped" not in run.stdout
