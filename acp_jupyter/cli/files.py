"""The files that commands read and write: notebooks that were saved, and what ships with us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import ACPError, UsageError

PACKAGE = Path(__file__).parents[1]
KERNEL = "acp"
"""The name of our kernelspec."""


def shipped(name: str) -> Path:
    """A folder that comes with the package: inside it in a wheel, beside it in a checkout."""
    for place in (PACKAGE / name, PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise ACPError(f"the installation lacks its folder {name!r}", remedy="Install it again.")


def read_notebook(path: Path) -> Any:
    """Read a notebook that was saved.

    Raises:
        UsageError: it cannot be read.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise UsageError(
            f"the notebook {path} cannot be read: {error}",
            remedy="Name a notebook that was saved after the run.",
        ) from error


def write_new(path: Path, text: str, remedy: str = "Remove it, or name another one.") -> None:
    """Write a file that is not there yet.

    Raises:
        UsageError: it is there, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"the file {path} is there already", remedy=remedy) from error
    except OSError as error:
        raise UsageError(f"the file {path} cannot be written: {error}") from error
