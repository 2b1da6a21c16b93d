"""``acp-jupyter export``: one HTML, Markdown or JSON file of a notebook."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .files import write_new


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
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


def _export(arguments: argparse.Namespace) -> int:
    from ..export.file import export, process_redactor, read_notebook

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
        write_new(target, text, remedy="Name another one, or write over it with --force.")
        return
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(
            f"{target} is the notebook itself", remedy="Name another file to export it to."
        )
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the file {target} cannot be written: {error}") from error
