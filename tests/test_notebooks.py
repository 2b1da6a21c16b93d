"""The notebooks that come with the package run, and give the outputs that are stored in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.bench.kernels import write_kernel_specs
from tests.live_kernel import kernel_environment
from tests.tools.run_notebooks import environment, run

ROOT = Path(__file__).parents[1]
SANITIZER = ROOT / "acp_jupyter" / "nbval_sanitize.cfg"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    write_kernel_specs(tmp_path)
    return kernel_environment(tmp_path) | environment(tmp_path)


def nbval(path: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a copy of a notebook under nbval, in a workspace of its own."""
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
    command += ["--nbval-sanitize-with", str(SANITIZER)]
    command += ["--rootdir", str(path.parent), "-c", os.devnull, str(path)]
    return subprocess.run(
        command, env=environ, cwd=path.parent, capture_output=True, text=True, timeout=150
    )


def copied(path: Path, tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    copy = workspace / path.name
    copy.write_bytes(path.read_bytes())
    return copy


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_its_stored_outputs(
    path: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    done = nbval(copied(path, tmp_path), environ)
    assert done.returncode == 0, done.stdout
    cells = nbformat.read(path, as_version=4).cells
    count = sum(cell.cell_type == "code" for cell in cells)
    assert f"{count} passed" in done.stdout


def test_the_comparison_notices_another_answer(environ: dict[str, str], tmp_path: Path) -> None:
    path = copied(ROOT / "notebooks" / "01-quickstart.ipynb", tmp_path)
    changed = path.read_text().replace("without a model", "with a model")
    assert changed != path.read_text()
    path.write_text(changed)
    done = nbval(path, environ)
    assert done.returncode == 1
    assert "1 failed" in done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_tells_nothing_of_the_machine_it_ran_on(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    text = path.read_text()
    assert "/tmp/" not in text
    assert str(Path.home()) not in text
    assert all(cell.outputs for cell in notebook.cells if cell.cell_type == "code")


def test_running_a_notebook_twice_stores_the_same(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    path = copied(ROOT / "notebooks" / "01-quickstart.ipynb", tmp_path)
    run(path)
    first = path.read_text()
    run(path)
    assert untimed(path.read_text()) == untimed(first)


def untimed(text: str) -> str:
    """A notebook without the durations of its turns and the times of its decisions."""
    text = re.sub(r'"(at|waited)": .*', "", text)
    return re.sub(r"\d+\.\d s\b", "0.0 s", text)
