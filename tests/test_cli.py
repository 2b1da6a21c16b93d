"""The command ``acp-jupyter``, as a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from acp_jupyter import __version__
from tests.bench.kernels import clean_environment, write_kernel_specs

ROOT = Path(__file__).parents[1]
PROGRAM = "import sys; from acp_jupyter.cli import main; sys.exit(main())"


def run(
    *arguments: str, home: Path, stdin: str = "", limit: float = 30, **environment: str
) -> subprocess.CompletedProcess[str]:
    base = clean_environment(home) | {"PYTHONPATH": str(ROOT), "HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments],
        input=stdin,
        env=base | environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=limit,
    )


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    done = run("--version", home=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, f"acp-jupyter {__version__}")


@pytest.mark.parametrize("arguments", [[], ["instal"], ["install", "--prefx", "x"]])
def test_a_wrong_command_line_names_the_right_ones(tmp_path: Path, arguments: list[str]) -> None:
    done = run(*arguments, home=tmp_path)
    assert done.returncode == 2
    assert "usage: acp-jupyter" in done.stderr
    assert not done.stdout


def _check_spec(folder: Path, python: str = sys.executable) -> None:
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["argv"][0] == python
    assert spec["argv"][1:4] == ["-P", "-m", "acp_jupyter.kernel"]
    assert spec["interrupt_mode"] == "message"
    assert spec["display_name"] == "ACP Agent"
    assert {path.name for path in folder.iterdir()} >= {"logo-32x32.png", "logo-64x64.png"}


def test_the_kernelspec_is_installed_below_a_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    done = run("install", "--prefix", str(prefix), home=tmp_path)
    folder = prefix / "share" / "jupyter" / "kernels" / "acp"
    assert done.returncode == 0, done.stderr
    assert str(folder) in done.stdout
    _check_spec(folder)
    again = run("install", "--prefix", str(prefix), home=tmp_path)
    assert again.returncode == 0, "it takes the place of the one that is there"


@pytest.mark.parametrize("arguments", [["install"], ["install", "--user"]])
def test_the_kernelspec_is_installed_for_the_user(tmp_path: Path, arguments: list[str]) -> None:
    data = tmp_path / "data"
    done = run(*arguments, home=tmp_path)
    assert done.returncode == 0, done.stderr
    _check_spec(data / "kernels" / "acp")


def without_extension(folder: Path) -> Path:
    """Make a checkout in which the extension was not built."""
    package = folder / "package"
    ignored = shutil.ignore_patterns("labextension", "__pycache__")
    shutil.copytree(ROOT / "acp_jupyter", package / "acp_jupyter", ignore=ignored)
    shutil.copytree(ROOT / "kernelspec", package / "kernelspec")
    return package


def test_the_extension_is_linked_so_that_an_upgrade_reaches_it(
    bare_python: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "prefix"
    share = Path("share/jupyter/labextensions/acp-jupyter")
    source = tmp_path / "user" / share
    source.mkdir(parents=True)
    (source / "package.json").write_text('{"version": "1"}')
    stale = prefix / share
    stale.mkdir(parents=True)
    (stale / "package.json").write_text('{"version": "0"}')
    arguments = ("install", "--prefix", str(prefix))
    package, user = without_extension(tmp_path), str(tmp_path / "user")
    done = run_bare(bare_python, *arguments, home=tmp_path, package=package, PYTHONUSERBASE=user)
    assert done.returncode == 0, done.stderr
    (source / "package.json").write_text('{"version": "2"}')
    assert json.loads((prefix / share / "package.json").read_text())["version"] == "2"


def test_a_package_without_the_extension_says_so(bare_python: Path, tmp_path: Path) -> None:
    package, user = without_extension(tmp_path), str(tmp_path / "user")
    done = run_bare(bare_python, "install", home=tmp_path, package=package, PYTHONUSERBASE=user)
    assert done.returncode == 0, done.stderr
    assert "came without it" in done.stdout
    _check_spec(tmp_path / "data" / "kernels" / "acp", str(bare_python))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has our packages, but no kernelspec yet."""
    environment = tmp_path_factory.mktemp("bare") / "venv"
    command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(command, check=True, timeout=60)
    return environment / "bin" / "python"


def run_bare(
    python: Path, *arguments: str, home: Path, package: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    packages = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    python_path = os.pathsep.join((str(package), str(packages)))
    return subprocess.run(
        [python, "-c", PROGRAM, *arguments],
        env=clean_environment(home) | {"PYTHONPATH": python_path} | environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_a_demonstration_without_the_kernel_says_how_to_install_it(
    bare_python: Path, tmp_path: Path
) -> None:
    done = run_bare(bare_python, "demo", home=tmp_path)
    assert done.returncode == 1
    assert "acp-jupyter install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_kernelspec_is_installed_into_this_pythons_environment(
    bare_python: Path, tmp_path: Path
) -> None:
    done = run_bare(bare_python, "install", "--sys-prefix", home=tmp_path)
    assert done.returncode == 0, done.stderr
    spec = bare_python.parents[1] / "share" / "jupyter" / "kernels" / "acp" / "kernel.json"
    assert json.loads(spec.read_text())["argv"][0] == str(bare_python)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("install", "--prefix", str(tmp_path / "file"), home=tmp_path)
    assert done.returncode == 1
    assert "--user or --prefix" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_bundled_agent_speaks_on_standard_input_and_output(tmp_path: Path) -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    done = run(
        "agent",
        home=tmp_path,
        stdin=json.dumps(request) + "\n",
        ACP_DEMO_STORE=str(tmp_path / "sessions"),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[0])
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == 1


def test_the_bundled_agents_arguments_are_its_own(tmp_path: Path) -> None:
    done = run("agent", "--no-such-option", home=tmp_path)
    assert done.returncode == 2
    assert "acp-jupyter agent" in done.stderr


def test_the_demonstration_prints_the_conversation_and_keeps_the_notebook(tmp_path: Path) -> None:
    write_kernel_specs(tmp_path)  # JUPYTER_PATH finds them
    written = tmp_path / "out.ipynb"
    done = run("demo", "--output", str(written), home=tmp_path, limit=120)
    assert done.returncode == 0, done.stderr
    for words in (
        ">>> Hello! What can you do?",
        "✓ Look around",
        "[edit] Write greeting.txt",
        "Good morning, notebook!",
        "42",
        "demo has ended.",
        "make lab",
    ):
        assert words in done.stdout
    notebook = nbformat.read(written, as_version=4)
    nbformat.validate(notebook)
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert all(outputs)
