"""Notebooks that run with nobody there: nbclient and nbconvert."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from acp_jupyter.rendering import entrydata
from tests.bench.kernels import OURS, write_kernel_specs
from tests.live_kernel import kernel_environment

CELLS = ["%acp connect demo", "plan Look, Write\nwrite out.txt: text", "Hello"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    write_kernel_specs(tmp_path)
    (tmp_path / "workspace").mkdir()
    return kernel_environment(tmp_path)


def notebook(*sources: str) -> Any:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    metadata = {"kernelspec": {"name": OURS, "display_name": "ACP Agent", "language": "acp"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def execute(made: Any, environment: dict[str, str], tmp_path: Path, **options: Any) -> Any:
    with mock.patch.dict(os.environ, environment, clear=True):
        resources = {"metadata": {"path": str(tmp_path / "workspace")}}
        NotebookClient(made, timeout=40, kernel_name=OURS, resources=resources, **options).execute()
    nbformat.validate(made)
    return made


def text(cell: Any) -> str:
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )


def test_a_permission_is_denied_within_a_second_with_the_reason_in_the_output(
    environment: dict[str, str], tmp_path: Path
) -> None:
    took: dict[int, float] = {}

    def started(cell_index: int, **_: Any) -> None:
        took[cell_index] = -time.monotonic()

    def done(cell_index: int, **_: Any) -> None:
        took[cell_index] += time.monotonic()

    made = execute(
        notebook(*CELLS), environment, tmp_path, on_cell_start=started, on_cell_executed=done
    )
    assert took[1] < 1.0
    assert "permission needed" in text(made.cells[1])
    assert "nobody can answer, denied" in text(made.cells[1])
    assert "name a policy file in ACP_JUPYTER_PERMISSIONS" in text(made.cells[1])
    assert not (tmp_path / "workspace" / "out.txt").exists()


def test_the_policy_may_allow(environment: dict[str, str], tmp_path: Path) -> None:
    allowed = environment | {"ACP_JUPYTER_PERMISSIONS": "allow"}
    made = execute(notebook(*CELLS), allowed, tmp_path)
    assert (tmp_path / "workspace" / "out.txt").read_text() == "text"
    assert "by policy" in text(made.cells[1])


@pytest.mark.parametrize("store_widget_state", [True, False])
def test_the_saved_notebook_is_static_and_complete(
    environment: dict[str, str], tmp_path: Path, store_widget_state: bool
) -> None:
    made = execute(notebook(*CELLS), environment, tmp_path, store_widget_state=store_widget_state)
    assert "widgets" not in made.metadata, "no widget is needed to read it"
    for cell in made.cells:
        assert cell.outputs
        for output in cell.outputs:
            assert output.output_type in ("display_data", "stream")
            if output.output_type == "display_data":
                assert set(output.data) - {entrydata.MIME} == {"text/html", "text/plain"}
                assert output.get("transient") is None
    plan = text(made.cells[1])
    assert "✓ Look" in plan
    assert "end_turn" in plan
    assert "You said" in text(made.cells[2])
    structured = [output.data.get(entrydata.MIME, {}) for output in made.cells[1].outputs]
    assert {"plan", "tool_call", "footer"} <= {data.get("type") for data in structured}


def test_a_failing_turn_ends_the_run_with_its_error(
    environment: dict[str, str], tmp_path: Path
) -> None:
    made = notebook("%acp connect demo", "crash", "Hello never")
    with pytest.raises(CellExecutionError, match="exited with code 17"):
        execute(made, environment, tmp_path)
    assert made.cells[1].outputs[-1].ename == "AgentExited"
    assert made.cells[2].outputs == []


def test_nbconvert_executes_a_notebook_and_shows_its_answer(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "workspace" / "small.ipynb"
    nbformat.write(notebook(*CELLS), path)
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", str(path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    page = path.with_suffix(".html").read_text()
    assert "nobody can answer, denied" in page
    assert "I am a demo agent" in page
