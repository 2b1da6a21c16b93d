"""What `acp-jupyter doctor` finds in an installation that works, and in ones that do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from acp_jupyter import __version__
from acp_jupyter.doctor import installation
from acp_jupyter.doctor.installation import check_installation
from acp_jupyter.doctor.report import Check, as_text, worst
from tests.bench.kernels import clean_environment
from tests.registry_server import make_program
from tests.test_cli import run as command

EXTENSION = {
    "version": __version__,
    "jupyterlab": {"_build": {"load": "static/remoteEntry.js"}},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A place where all is installed."""
    spec = {"argv": ["python", "-m", "acp_jupyter.kernel"], "display_name": "ACP Agent"}
    write(tmp_path / "kernels/acp/kernel.json", spec | {"language": "acp"})
    write(tmp_path / "labextensions/acp-jupyter/package.json", EXTENSION)
    write(tmp_path / "labextensions/acp-jupyter/static/remoteEntry.js", "")
    for name in ("node", "npx", "uvx"):
        make_program(tmp_path / "programs", name, b"#!/bin/sh\necho 1.2.3\n")
    return tmp_path


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def environment(home: Path) -> dict[str, str]:
    return clean_environment(home) | {
        "PATH": f"{home / 'programs'}:/usr/bin:/bin",
        "JUPYTER_PREFER_ENV_PATH": "0",
        "JUPYTER_PATH": str(home),
    }


def looked(home: Path, *, start: bool = False, **more: str) -> dict[str, Check]:
    """The checks by name; a second one of a name with a ``2``."""
    environ = environment(home) | more
    found: dict[str, Check] = {}
    with mock.patch.dict(os.environ, environ, clear=True):
        if start:
            checks = check_installation(environ)
        else:
            with mock.patch.object(installation, "_start", return_value=[]):
                checks = check_installation(environ)
    for check in checks:
        name = f"{check.name} 2" if check.name in found else check.name
        found[name] = check
    return found


def test_an_installation_that_works_is_fine_and_an_agent_was_started(home: Path) -> None:
    checks = looked(home, start=True)
    bad = {name: check for name, check in checks.items() if check.state == "fail"}
    assert not bad
    assert "starts, opens a session and ends" in checks["starting agents"].text
    assert checks["acp-jupyter"].text.startswith(__version__)
    for name in ("Python", "ipykernel", "kernel", "JupyterLab extension", "node", "settings"):
        assert checks[name].state == "ok", checks[name]


def test_what_is_missing_is_told_with_what_to_do(home: Path) -> None:
    for path in ("kernels/acp/kernel.json", "labextensions/acp-jupyter/package.json"):
        (home / path).unlink()
    for name in ("npx", "uvx"):
        (home / "programs" / name).unlink()
    with (
        mock.patch("jupyter_core.paths.SYSTEM_JUPYTER_PATH", []),
        mock.patch("jupyter_core.paths.ENV_JUPYTER_PATH", []),
    ):
        checks = looked(home, PATH=str(home / "programs"))
    assert checks["kernel"].state == "fail"
    assert "acp-jupyter install" in checks["kernel"].remedy
    assert checks["JupyterLab extension"].state == "warn"
    assert checks["npx"].state == "warn"
    assert "Node.js" in checks["npx"].remedy


def spec_of(home: Path, python: str) -> None:
    write(
        home / "kernels/acp/kernel.json", {"argv": [python], "display_name": "x", "language": "x"}
    )


def test_a_kernel_of_another_python_is_told(home: Path) -> None:
    spec_of(home, sys.executable)
    assert looked(home)["kernel"].state == "ok"
    other = make_program(home / "other", "python", b"")
    spec_of(home, str(other))
    check = looked(home)["kernel"]
    assert check.state == "warn"
    assert str(other) in check.text
    spec_of(home, str(home / "gone" / "python"))
    check = looked(home)["kernel"]
    assert check.state == "fail"
    assert "not there" in check.text


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (EXTENSION | {"version": "0.0.1"}, "of version 0.0.1"),
        ({"version": __version__}, "cannot be read"),
        ("{", "cannot be read"),
        ({"version": __version__, "jupyterlab": {"_build": {"load": "x.js"}}}, "lacks x.js"),
    ],
)
def test_an_extension_that_does_not_fit_is_told(home: Path, package: Any, words: str) -> None:
    write(home / "labextensions/acp-jupyter/package.json", package)
    check = looked(home)["JupyterLab extension"]
    assert check.state == "fail"
    assert words in check.text


@pytest.mark.parametrize(
    ("version", "state"),
    [("6.29.5", "fail"), ("7.0.0", "ok"), ("7.99.1", "ok"), ("8.0.0a1", "warn"), (None, "fail")],
)
def test_versions_are_held_against_those_that_were_tested(
    home: Path, version: str | None, state: str
) -> None:
    real = metadata.version

    def told(name: str) -> str:
        if name != "ipykernel":
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    with mock.patch.object(metadata, "version", told):
        check = looked(home)["ipykernel"]
    assert check.state == state
    assert bool(check.remedy) == (state != "ok")


def test_a_program_that_does_not_run_is_told(home: Path) -> None:
    make_program(home / "programs", "node", b"#!/bin/sh\nexit 1\n")
    check = looked(home)["node"]
    assert check.state == "warn"
    assert "does not tell its version" in check.text


def test_settings_that_cannot_be_read_are_told(home: Path) -> None:
    write(home / "config/jupyter_acp_config.py", "c.ACPJupyter.permissions = 7")
    checks = looked(home)
    assert checks["settings"].state == "fail"
    assert "permissions" in checks["settings"].text
    write(home / "config/jupyter_acp_config.py", "")
    checks = looked(home)
    assert "jupyter_acp_config.py" in checks["settings"].text
    assert checks["settings"].state == "ok"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_files_that_decide_and_that_others_may_write_are_told(home: Path) -> None:
    write(home / "policies/mine.toml", 'default = "deny"')
    write(home / "data/acp-jupyter/registry.json", "{}")
    write(home / "config/acp-jupyter/allowed-agents.json", "{}")
    write(home / "config/jupyter_acp_config.py", "")
    policy = str(home / "policies/mine.toml")
    for path in home.rglob("*"):
        path.chmod(0o755)
    checks = looked(home, ACP_JUPYTER_PERMISSIONS=policy)
    assert "permissions 2" not in checks
    for name in ("policies/mine.toml", "data/acp-jupyter/registry.json"):
        (home / name).chmod(0o666)
    (home / "config/acp-jupyter/allowed-agents.json").chmod(0o664)
    (home / "config/jupyter_acp_config.py").chmod(0o622)
    checks = looked(home, ACP_JUPYTER_PERMISSIONS=policy)
    for name in ("permissions 2", "settings 2", "agents", "consents"):
        assert "others may write it" in checks[name].text
        assert checks[name].state in ("warn", "fail")
        assert checks[name].remedy


def test_an_agent_that_does_not_start_is_told(home: Path) -> None:
    from acp_jupyter.services.agents import AgentSpec

    wrong = AgentSpec("demo", ("/no/such/program",))
    with mock.patch("acp_jupyter.services.agents.demo_agent", return_value=wrong):
        check = looked(home, start=True)["starting agents"]
    assert check.state == "fail"
    assert "/no/such/program" in check.text


@pytest.mark.skipif(os.name != "posix", reason="process ids of POSIX")
def test_a_process_that_goes_on_is_noticed_and_one_that_has_ended_is_not() -> None:
    with mock.patch.object(installation, "END_LIMIT", 0.2):
        assert installation._runs(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        with_time = mock.patch.object(installation, "END_LIMIT", 30.0)
        with_time.start()
        try:
            assert not installation._runs(process.pid)  # nobody has reaped it yet
        finally:
            with_time.stop()


def test_the_table_shows_what_to_do_and_lets_no_terminal_escape_through() -> None:
    checks = [Check("one", "ok", "fine"), Check("longer", "fail", "bad\x1b[2J\nx", "do this")]
    assert as_text(checks) == "✓ one     fine\n✗ longer  bad⟨U+001B⟩[2J x\n          → do this"
    assert worst(checks) == "fail"
    assert worst(checks[:1]) == "ok"


def test_the_command_tells_it_as_a_table_and_as_json_with_an_exit_code(home: Path) -> None:
    done = command("doctor", "--json", home=home, JUPYTER_PATH=str(home))
    report = json.loads(done.stdout)
    assert (done.returncode, report["state"] in ("ok", "warn")) == (0, True), report
    assert {"name", "state", "text", "remedy"} == report["checks"][0].keys()
    write(home / "config/jupyter_acp_config.py", "c.ACPJupyter.permissions = 7")
    done = command("doctor", home=home, JUPYTER_PATH=str(home))
    assert done.returncode == 3
    assert "✗ settings" in done.stdout
