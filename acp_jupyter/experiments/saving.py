"""Writing an executed notebook so that there is a whole one at any moment."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from ..errors import UsageError


class NotebookFile:
    """Where a notebook is written: beside the place first, and then moved there.

    Whoever reads the file, also after a crash, finds the notebook as it was at one save.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, notebook: Any) -> None:
        """Write it.

        Raises:
            OSError: there is no place for it.
        """
        import nbformat

        text = nbformat.writes(notebook)
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") else f"{text}\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)

    def write_first(self, notebook: Any) -> None:
        """Write it before anything is run.

        Raises:
            UsageError: it cannot be written.
        """
        try:
            self.write(notebook)
        except OSError as error:
            raise UsageError(
                f"the notebook {self.path} cannot be written: {error}",
                remedy="Name another place with -o.",
            ) from error
