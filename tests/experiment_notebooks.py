"""Notebooks for runs, and ``acp-jupyter`` on them as a process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat

from acp_jupyter import cli
from tests.bench.kernels import OURS, PLAIN, clean_environment, write_kernel_specs

ROOT = Path(__file__).parents[1]
LIMIT = 120.0
"""Seconds for a whole run; generous, because a test machine may be busy."""

Source = str | tuple[str, list[str]]
"""Of a cell, or that and its tags."""


def agent_notebook(*cells: Source) -> Any:
    """A notebook of the kernel "ACP Agent"."""
    return _notebook(OURS, cells)


def python_notebook(*cells: Source) -> Any:
    return _notebook(PLAIN, cells)


def _notebook(kernel: str, cells: tuple[Source, ...]) -> Any:
    spec = {"name": kernel, "display_name": kernel, "language": "text"}
    made = nbformat.v4.new_notebook(metadata={"kernelspec": spec})
    for cell in cells:
        source, tags = (cell, []) if isinstance(cell, str) else cell
        made.cells.append(nbformat.v4.new_code_cell(source))
        if tags:
            made.cells[-1].metadata["tags"] = tags
    return made


class Place:
    """A home directory with our kernels, and ``home/work`` with notebooks."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work = home / "work"
        self.work.mkdir()
        write_kernel_specs(home)
        self.environment = clean_environment(home) | {
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
        }

    def write(self, name: str, notebook: Any) -> Path:
        path = self.work / name
        nbformat.write(notebook, path)
        return path

    def read(self, name: str) -> Any:
        """A notebook that is whole and valid."""
        found = nbformat.read(self.work / name, as_version=4)
        nbformat.validate(found)
        return found

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "acp_jupyter.cli", *arguments]

    def call(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment | environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )

    def call_here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`call` within this process, for what starts no kernel: it is quicker."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.chdir(self.work),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, notebook: Any, *arguments: str, expect: int = 0, **environment: str) -> Any:
        """The summary of a run of a notebook, written to ``out.ipynb``."""
        self.write("in.ipynb", notebook)
        done = self.call("run", "in.ipynb", "-o", "out.ipynb", "--json", *arguments, **environment)
        assert done.returncode == expect, (done.returncode, done.stderr)
        summary = json.loads(done.stdout)
        assert summary["exit_code"] == expect
        return summary


def shown(cell: Any) -> str:
    """The outputs of a cell as text."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "error":
            texts.append(f"{output.ename}: {output.evalue}")
        else:
            texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)
