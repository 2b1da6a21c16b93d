"""The command ``acp-jupyter``.

Exit codes: 0 done, 1 it failed, 2 the command line is wrong; ``policy``: 3 the notebook holds no
decision that a rule can be made of, and nothing was written.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import __version__
from .errors import ACPError, UsageError

NO_RULES = 3
"""Exit code of ``policy`` where there is nothing to make a policy of."""

PACKAGE = Path(__file__).parent
QUICKSTART = "01-quickstart.ipynb"
KERNEL = "acp"

DEMO_LIMIT = 120
"""Seconds for one cell of the demonstration; each takes well under one."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    if argv is None:
        argv = sys.argv[1:]
    if argv[:1] == ["agent"]:  # its arguments are its own
        from .demo_agent import main as agent

        return agent(argv[1:])
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except ACPError as error:
        print(f"acp-jupyter: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="acp-jupyter", description="Coding agents in Jupyter, by the Agent Client Protocol."
    )
    parser.add_argument("--version", action="version", version=f"acp-jupyter {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo", help="run the quickstart notebook headless on the bundled agent"
    )
    demo.add_argument("-o", "--output", type=Path, help="write the executed notebook there")
    demo.set_defaults(run=_demo)

    install = commands.add_parser("install", help='install the kernelspec "ACP Agent"')
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default)")
    where.add_argument("--sys-prefix", action="store_true", help="into this Python's environment")
    where.add_argument("--prefix", help="into PREFIX/share/jupyter/kernels")
    install.set_defaults(run=_install)

    policy = commands.add_parser(
        "policy",
        help="make a permission policy of the decisions in a notebook",
        description="Make a permission policy, for runs that nobody watches, of what you decided "
        "in an interactive run: exact rules, which are printed. Exit code 3: there are none.",
    )
    policy.add_argument(
        "--from", dest="notebook", type=Path, required=True, metavar="NOTEBOOK", help="a saved run"
    )
    policy.add_argument(
        "-o", "--output", type=Path, help="write the policy there (.toml or .json), a new file"
    )
    policy.set_defaults(run=_policy)

    export = commands.add_parser(
        "export",
        help="make one HTML, Markdown or JSON file of a notebook",
        description="Make one file of a notebook, for others to read: HTML that unfolds without "
        "scripts and loads nothing, Markdown, or JSON.",
    )
    export.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    export.add_argument("--to", choices=["html", "md", "json"], default="html")
    export.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write there, - for standard output (default: beside the notebook)",
    )
    export.add_argument(
        "--redact",
        action="store_true",
        help="replace secrets of known forms and home directories; pictures stay as they are",
    )
    export.add_argument("--force", action="store_true", help="write over a file that is there")
    export.set_defaults(run=_export)

    commands.add_parser("agent", help="run the bundled agent on standard input and output")
    return parser


# -- install ------------------------------------------------------------------------------------


def _install(arguments: argparse.Namespace) -> int:
    from jupyter_client.kernelspec import KernelSpecManager

    prefix = sys.prefix if arguments.sys_prefix else arguments.prefix
    source = _shipped("kernelspec") / KERNEL
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, KERNEL)
        shutil.copytree(source, made)
        spec_file = made / "kernel.json"
        spec = json.loads(spec_file.read_text())
        # Whoever starts this kernel later may have another Python first on the PATH.
        spec["argv"][0] = sys.executable
        spec_file.write_text(json.dumps(spec, indent=1))
        try:
            target = KernelSpecManager().install_kernel_spec(
                str(made), KERNEL, user=prefix is None, prefix=prefix
            )
        except OSError as error:
            raise UsageError(
                f"the kernelspec cannot be written: {error}",
                remedy="Choose a place of yours, with --user or --prefix.",
            ) from error
    print(f"Installed the kernelspec {KERNEL!r} in {target}")
    return 0


def _shipped(name: str) -> Path:
    """A folder that comes with the package: inside it in a wheel, beside it in a checkout."""
    for place in (PACKAGE / name, PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise ACPError(f"the installation lacks its folder {name!r}", remedy="Install it again.")


# -- policy -------------------------------------------------------------------------------------


def _policy(arguments: argparse.Namespace) -> int:
    from .services.decisions import from_json
    from .services.policy_made import as_json, as_toml, make_policy, records_in

    notebook = _read_notebook(arguments.notebook)
    found = [
        from_json(item)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for item in records_in(cell.outputs)
    ]
    made = make_policy(record for record in found if record is not None)
    for line in made.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if None in found:
        print(f"left out: {found.count(None)} that cannot be read", file=sys.stderr)
    if not made.rules:
        print("The notebook holds no decision that a rule can be made of.", file=sys.stderr)
        return NO_RULES
    target = arguments.output
    if target is not None and target.suffix == ".json":
        text = as_json(made) + "\n"
    else:
        text = as_toml(made, source=arguments.notebook.name)
    if target is not None:
        _write_new(target, text)
    print(text, end="")
    return 0


def _read_notebook(path: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise UsageError(
            f"the notebook {path} cannot be read: {error}",
            remedy="Name a notebook that was saved after the run.",
        ) from error


def _write_new(path: Path, text: str, remedy: str = "Remove it, or name another one.") -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"the file {path} is there already", remedy=remedy) from error
    except OSError as error:
        raise UsageError(f"the file {path} cannot be written: {error}") from error


# -- export -------------------------------------------------------------------------------------


def _export(arguments: argparse.Namespace) -> int:
    from .export.file import export, process_redactor, read_notebook

    source: Path = arguments.notebook
    target = (
        None if arguments.output == "-" else Path(arguments.output or _beside(source, arguments))
    )
    redactor = process_redactor() if arguments.redact else None
    made = export(read_notebook(source), arguments.to, name=source.stem, redactor=redactor)
    if target is None:
        sys.stdout.buffer.write(made.text.encode("utf-8"))
        sys.stdout.flush()
    else:
        _write_export(target, made.text, source, force=arguments.force)
        print(f"Wrote {target}")
    if redactor is not None:
        found = ", ".join(f"{kind}: {count}" for kind, count in sorted(made.redacted.items()))
        print(f"Redacted (different values): {found or 'nothing'}", file=sys.stderr)
    if made.pictures:
        print(
            f"Pictures and sounds that nothing was removed from: {made.pictures}. Look at them "
            "before you share the file.",
            file=sys.stderr,
        )
    return 0


def _beside(source: Path, arguments: argparse.Namespace) -> Path:
    return source.with_suffix(f".{arguments.to}")


def _write_export(target: Path, text: str, source: Path, *, force: bool) -> None:
    if not force:
        _write_new(target, text, remedy="Name another one, or write over it with --force.")
        return
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(
            f"{target} is the notebook itself", remedy="Name another file to export it to."
        )
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the file {target} cannot be written: {error}") from error


# -- demo ---------------------------------------------------------------------------------------


def _demo(arguments: argparse.Namespace) -> int:
    import nbformat
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    notebook = nbformat.read(_shipped("notebooks") / QUICKSTART, as_version=4)
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
            timeout=DEMO_LIMIT,
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
