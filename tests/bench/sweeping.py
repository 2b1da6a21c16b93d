"""What a run of a sweep costs over bare nbclient, with the same notebook in the same kernel.

Each way makes its runs in processes of their own, as sweeps do: bare nbclient by a script of three
lines, one run after the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import nbformat

from tests.bench.goals import Row, median_ratio
from tests.bench.kernels import PLAIN, clean_environment, write_kernel_specs
from tests.bench.wire import ROOT

POINTS = 4
LIMIT = 300.0
"""Seconds for all runs of one round."""

BARE = """\
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, kernel_name=sys.argv[2]).execute()
nbformat.write(notebook, sys.argv[1] + ".out")
"""

CELL = """\
import acp_jupyter
with acp_jupyter.connect("demo", permissions="allow") as agent:
    text = agent.new_session().prompt("write out.txt: hello; usage").text
"""


def sweeping(runs: int) -> Iterator[Row]:
    """Rounds of four runs: bare, by a sweep, and by a sweep that makes two at a time."""
    bare: list[float] = []
    single: list[float] = []
    double: list[float] = []
    with _study() as (path, environ):
        for number in range(runs):
            bare.append(_timed([[sys.executable, "-c", BARE, str(path), PLAIN]] * POINTS, environ))
            for jobs, walls in ((1, single), (2, double)):
                walls.append(_timed([_sweep(path, f"{number}-{jobs}", jobs)], environ))
    extra = median((ours - floor) / POINTS for ours, floor in zip(single, bare, strict=True))
    note = f"{median(single) / POINTS:.2f} against {median(bare) / POINTS:.2f} s a run"
    yield Row("sweep-run", median_ratio(single, bare), note)
    yield Row("sweep-extra", extra * 1000, "with the sweep's own start")
    rate = POINTS / median(double) * 60
    yield Row("sweep-jobs", median_ratio(double, bare), f"{rate:.0f} runs a minute")


@contextmanager
def _study() -> Iterator[tuple[Path, dict[str, str]]]:
    with TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        write_kernel_specs(home)
        python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environ = clean_environment(home) | {"PYTHONPATH": python_path}
        (home / "workspace").mkdir()
        path = home / "workspace" / "study.ipynb"
        cells = [nbformat.v4.new_code_cell(source) for source in ("value = 0", CELL)]
        cells[0].metadata["tags"] = ["parameters"]
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata["kernelspec"] = {"name": PLAIN, "display_name": PLAIN}
        nbformat.write(notebook, path)
        yield path, environ


def _sweep(path: Path, name: str, jobs: int) -> list[str]:
    values = ",".join(map(str, range(POINTS)))
    command = [sys.executable, "-m", "acp_jupyter.cli", "sweep", str(path), "--quiet"]
    results = path.parent.parent / f"results-{name}"
    return [*command, "--grid", f"value={values}", "--jobs", str(jobs), "-o", str(results)]


def _timed(commands: list[list[str]], environ: dict[str, str]) -> float:
    """Seconds that commands take, one after the other.

    Raises:
        RuntimeError: one of them failed.
    """
    begun = time.monotonic()
    for command in commands:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            raise RuntimeError(f"a run failed: {done.stderr.strip()[-500:]}")
    return time.monotonic() - begun
