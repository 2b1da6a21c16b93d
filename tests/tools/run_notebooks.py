"""Run the notebooks that are part of this project, and store their outputs in them.

Each one runs headless on the agent kernel in a workspace of its own, with the environment that its
test runs it in: everything allowed, each entry published once. What differs from run to run is made
equal first (`PATTERNS`), so that a second run changes nothing.

    python tests/tools/run_notebooks.py [NOTEBOOK …]
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
CELL_LIMIT = 120

PATTERNS = [
    (re.compile(r"\b\d+\.\d s\b"), "0.0 s"),
    (re.compile(r"/[\w./-]*/workspace\b"), "/home/me/workspace"),
    (re.compile(r"(Process(?:</th><td[^>]*>|\s+))\d+"), r"\g<1>1234"),
    (re.compile(r"/[\w./-]*/bin/python[\d.]*"), "python"),
]
"""Durations, folders, process ids and interpreters."""


def environment(folder: Path) -> dict[str, str]:
    """What a notebook needs to give the same outputs each time; ``folder`` keeps its sessions."""
    return {
        "ACP_JUPYTER_PERMISSIONS": "allow",
        "ACP_JUPYTER_OUTPUT": "final",
        "ACP_DEMO_STORE": str(folder / "sessions"),
    }


def run(path: Path) -> None:
    """Execute a notebook and write it back."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        os.environ.update(environment(Path(folder)))
        client = NotebookClient(
            notebook,
            timeout=CELL_LIMIT,
            kernel_name=notebook.metadata.kernelspec.name,
            resources={"metadata": {"path": str(workspace)}},
            extra_arguments=["--log-level=ERROR"],
            store_widget_state=False,
            record_timing=False,
        )
        client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            _level(output)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def _level(output: Any) -> None:
    if "text" in output:
        output.text = _replaced(output.text)
    for kind, data in output.get("data", {}).items():
        if kind.startswith("text/"):
            output.data[kind] = _replaced(data)


def _replaced(text: str) -> str:
    for pattern, value in PATTERNS:
        text = pattern.sub(value, text)
    return text


def main(arguments: list[str]) -> int:
    for path in map(Path, arguments) if arguments else sorted((ROOT / "notebooks").glob("*.ipynb")):
        run(path)
        print(f"Ran {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
