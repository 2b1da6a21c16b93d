"""``acp-jupyter demo``: the quickstart notebook, run headless on the bundled agent."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .files import KERNEL, shipped

QUICKSTART = "01-quickstart.ipynb"

LIMIT = 120
"""Seconds for one cell of the demonstration; each takes well under one."""


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    demo = commands.add_parser(
        "demo", help="run the quickstart notebook headless on the bundled agent"
    )
    demo.add_argument("-o", "--output", type=Path, help="write the executed notebook there")
    demo.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    import nbformat
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    notebook = nbformat.read(shipped("notebooks") / QUICKSTART, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    # Nobody is there to click: this demonstration allows what its own notebook asks for.
    os.environ.setdefault("ACP_JUPYTER_PERMISSIONS", "allow")
    with tempfile.TemporaryDirectory(prefix="acp-jupyter-demo-") as folder:
        os.environ["ACP_DEMO_STORE"] = str(Path(folder, "sessions"))
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        client = NotebookClient(
            notebook,
            timeout=LIMIT,
            kernel_name=KERNEL,
            extra_arguments=["--log-level=ERROR"],  # its warnings are no part of the conversation
            resources={"metadata": {"path": str(workspace)}},
            on_cell_executed=lambda cell, **_: _print_cell(cell),
        )
        try:
            client.execute()
        except (CellExecutionError, DeadKernelError) as error:
            print(error, file=sys.stderr)
            return 1
        except NoSuchKernel as error:
            raise UsageError(
                'the kernelspec "ACP Agent" is not installed',
                remedy="Run `acp-jupyter install`, or `acp-jupyter install --sys-prefix`.",
            ) from error
        finally:
            if arguments.output is not None:
                nbformat.write(notebook, arguments.output)
    print(_HOW_TO_OPEN)
    return 0


_HOW_TO_OPEN = f"""
That was the notebook {QUICKSTART}, run headless on the kernel "ACP Agent".
To use it in JupyterLab, run `make lab` in a checkout; elsewhere run
`pip install jupyterlab` and `jupyter lab`, and choose the kernel "ACP Agent"."""


def _print_cell(cell: Any) -> None:
    print("\n" + "\n".join(f">>> {line}" for line in cell.source.splitlines()))
    for output in cell.outputs:
        if output.output_type == "stream":
            print(output.text, end="")
        elif output.output_type == "error":
            print("\n".join(output.traceback))
        else:
            print(output.data.get("text/plain", "").rstrip())
