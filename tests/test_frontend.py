"""Which frontend runs a cell: how to publish and how to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.host.frontend import Frontend, Launch, choose, is_console, read_launch


def launch(*, server: bool = False, console: bool = False, publish: str | None = None) -> Launch:
    return Launch(by_server=server, by_console=console, publish=publish)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("started", "allow_stdin", "frontend"),
    [
        (launch(server=True), True, Frontend("updates", ("widgets", "stdin"))),
        (launch(server=True), False, Frontend("updates", ("widgets",))),
        (launch(console=True), True, Frontend("append", ("stdin",))),
        (launch(console=True), False, Frontend("updates", ())),
        (launch(), True, Frontend("updates", ("stdin",))),
        (launch(), False, Frontend("updates", ())),
        (launch(publish="final"), False, Frontend("final", ())),
        (launch(publish="append"), True, Frontend("append", ("stdin",))),
        (launch(server=True, publish="final"), True, Frontend("final", ("widgets", "stdin"))),
        (launch(console=True, publish="updates"), True, Frontend("updates", ("stdin",))),
    ],
)
def test_the_frontend_decides_how_to_publish_and_whom_to_ask(
    started: Launch, allow_stdin: bool, frontend: Frontend
) -> None:
    assert choose(started, allow_stdin=allow_stdin) == frontend


@pytest.mark.parametrize("value", ["updates", "append", "final"])
def test_the_client_may_say_how_to_publish(value: str) -> None:
    assert read_launch({"ACP_JUPYTER_OUTPUT": value}).publish == value


def test_without_a_word_the_frontend_decides() -> None:
    assert read_launch({}).publish is None
    assert read_launch({"ACP_JUPYTER_OUTPUT": ""}).publish is None


def test_an_unknown_way_of_publishing_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="updates, append, final"):
        read_launch({"ACP_JUPYTER_OUTPUT": "stream"})


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_a_server_is_one_that_names_our_parent(runtime: Path) -> None:
    environ = {"JPY_SESSION_NAME": "/home/me/notebook.ipynb"}
    assert not read_launch(environ).by_server
    (runtime / f"jpserver-{os.getppid()}.json").write_text("{}")
    assert read_launch(environ).by_server
    assert not read_launch({}).by_server, "a kernel that it starts for no notebook"


def test_a_child_that_inherited_the_variable_is_not_the_servers(runtime: Path) -> None:
    (runtime / f"jpserver-{os.getppid()}.json").write_text("{}")  # our parent's, not the child's
    program = (
        "import os; from acp_jupyter.host.frontend import read_launch;"
        "print(read_launch(os.environ).by_server)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JPY_SESSION_NAME": "/home/me/notebook.ipynb"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/usr/bin/python3 /usr/bin/jupyter-console --kernel acp", True),
        ("jupyter console --kernel acp", True),
        ("python -m jupyter_console", True),
        ("C:\\Python\\Scripts\\jupyter-console.exe", True),
        ("python -m jupyter console", True),
        ("/usr/bin/python3 /home/me/console/run.py", False),
        ("pytest tests/test_console.py", False),
        ("jupyter lab console.ipynb", False),
        ("", False),
    ],
)
def test_a_console_is_told_by_its_command(command: str, expected: bool) -> None:
    assert is_console(command.split()) is expected
