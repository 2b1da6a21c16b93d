"""From a notebook to the text of an exported file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ..errors import UsageError
from . import as_html, as_json, as_markdown, document
from .redaction import Redactor

Format: TypeAlias = Literal["html", "md", "json"]
NBFORMAT: Final = 4
FORMATS: Final = ("html", "md", "json")
_WRITERS: Final = {"html": as_html.write, "md": as_markdown.write, "json": as_json.write}


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export made.

    Attributes:
        text: the file's.
        redacted: how many different values were replaced, by kind.
        pictures: how many are in it that redaction did not look into.
    """

    text: str
    redacted: Mapping[str, int] = field(default_factory=dict)
    pictures: int = 0


def export(notebook: Any, to: str, *, name: str = "", redactor: Redactor | None = None) -> Exported:
    """Export a notebook.

    Args:
        notebook: nbformat 4.
        to: one of `FORMATS`.
        name: the title where the notebook has none.
        redactor: takes out secrets and home directories.

    Raises:
        UsageError: there is no such format.
    """
    if to not in _WRITERS:
        raise UsageError(
            f"a notebook cannot be exported to {to!r}", remedy="Choose html, md or json."
        )
    read = document.read(notebook, name)
    if redactor is None:
        return Exported(_WRITERS[to](read))
    redactor.document(read)
    found = {kind: len(values) for kind, values in redactor.found.items()}
    return Exported(_WRITERS[to](read), found, _pictures(read, to))


def _pictures(read: document.Document, to: str) -> int:
    """Pictures and sounds in the file, for whose content nobody answers."""
    outputs = [output for cell in read.cells for output in cell.outputs]
    count = sum(output.type == "image" for output in outputs)
    if to == "md":
        return count
    shown = (o.html for o in outputs if to == "html" or o.type == "html")
    return count + sum(html.count("<img ") + html.count("<audio ") for html in shown)


def process_redactor() -> Redactor:
    """Knows this process's secrets and its user's home directory."""
    home = os.path.expanduser("~")
    return Redactor(os.environ, {home, os.path.realpath(home)} - {"~"})


def export_notebook(notebook: Any, to: str, redact: bool = False) -> str:
    """The text of a notebook (nbformat 4) exported to ``html``, ``md`` or ``json``."""
    return export(notebook, to, redactor=process_redactor() if redact else None).text


def export_file(path: str | os.PathLike[str], to: str, *, redact: bool = False) -> str:
    """The text of a notebook file exported to ``html``, ``md`` or ``json``.

    Raises:
        UsageError: there is no such file or format, or it is no notebook.
    """
    source = Path(path)
    redactor = process_redactor() if redact else None
    return export(read_notebook(source), to, name=source.stem, redactor=redactor).text


def read_notebook(path: Path) -> Any:
    """A notebook file, of any format before the next one.

    Raises:
        UsageError: it cannot be read, or is no notebook.
    """
    import json

    import nbformat

    try:
        held = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except OSError as error:
        raise UsageError(f"the notebook {path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is no notebook: it holds no JSON ({error})",
            remedy="Name a file that Jupyter saved, with the suffix .ipynb.",
        ) from error
    major = held.get("nbformat") if isinstance(held, dict) else None
    if type(major) is not int or not ("cells" in held or "worksheets" in held):
        raise UsageError(
            f"{path} is no notebook: it lacks `nbformat` and `cells`",
            remedy="Name a file that Jupyter saved, with the suffix .ipynb.",
        )
    if major > NBFORMAT:
        raise UsageError(
            f"{path} has notebook format {major}, which is newer than "
            f"{NBFORMAT}, the newest that is known here",
            remedy="Update the package nbformat, or save the notebook in the older format.",
        )
    if major == NBFORMAT:
        return held
    try:
        # nbformat has no annotations.
        return nbformat.convert(nbformat.from_dict(held), 4)  # type: ignore[no-untyped-call]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"the notebook {path} is damaged: {error!r}") from error
