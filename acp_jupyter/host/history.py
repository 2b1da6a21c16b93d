"""The cells run so far, with their outputs, as the running IPython shell remembers them.

What they remember depends on the version: the text of results always; pictures that are results,
what was printed and errors since IPython 9. What code displays by itself, as plots do, is recorded
in `displays`, since we were loaded. Cells are counted as in their prompts.
"""

from __future__ import annotations

import base64
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from ..errors import UsageError
from ..rendering import ansi
from .displays import IMAGES, Displays
from .foreign import attempt

__all__ = ["CellOutput", "CellSource", "NoCells", "ShellCells", "traceback_text"]


@dataclass(frozen=True, slots=True)
class CellOutput:
    """What a cell put out: its text, and its pictures as (media type, base64)."""

    text: str = ""
    images: tuple[tuple[str, str], ...] = ()


class CellSource(Protocol):
    """Cells by their numbers."""

    @property
    def count(self) -> int:
        """The number of the last cell; 0 if there is none."""

    def number(self, index: int) -> int:
        """The number of a cell; negative ones count from the last.

        Raises:
            UsageError: there is none.
        """

    def source(self, number: int) -> str:
        """A cell's code as it was written."""

    def output(self, number: int) -> CellOutput:
        """What is known of its output."""

    def error(self) -> BaseException | None:
        """The last exception that ended a cell."""

    def cell_of(self, code: str) -> int | None:
        """The last cell with that code, as Python compiled it."""


class NoCells:
    """The cells where there is no shell: a script."""

    count = 0

    def number(self, index: int) -> int:
        raise UsageError(
            f"there is no cell {index}: this is no notebook",
            remedy="Attach the value itself, or a file.",
        )

    def source(self, number: int) -> str:
        self.number(number)
        return ""

    def output(self, number: int) -> CellOutput:
        self.number(number)
        return CellOutput()

    def error(self) -> BaseException | None:
        return getattr(sys, "last_value", None)

    def cell_of(self, _code: str) -> int | None:
        return None


class ShellCells:
    """The cells of an IPython shell.

    Args:
        shell: what ``get_ipython()`` returns.
        running: a cell is running, which then is the last one in the history and does not count.
        displays: what cells displayed, where it is recorded.
    """

    def __init__(
        self, shell: Any, *, running: bool = True, displays: Displays | None = None
    ) -> None:
        self._history = shell.history_manager
        self._running = running
        self._displays = displays

    @property
    def count(self) -> int:
        # Not from ``execution_count``: from IPython 9.16 on it goes on before the cell runs.
        return max(len(self._history.input_hist_raw) - 1 - self._running, 0)

    def number(self, index: int) -> int:
        count = self.count
        number = count + 1 + index if index < 0 else index
        if 1 <= number <= count:
            return number
        there = f"there are cells 1 to {count}" if count else "no cell has run before this one"
        raise UsageError(
            f"there is no cell {index}; {there}",
            remedy="Numbers are those in the brackets beside cells; -1 is the last one that ran.",
        )

    def source(self, number: int) -> str:
        return str(self._history.input_hist_raw[self.number(number)])

    def output(self, number: int) -> CellOutput:
        number = self.number(number)
        texts: list[str] = []
        images: list[tuple[str, str]] = []
        for output in getattr(self._history, "outputs", {}).get(number, ()):
            _read(output.bundle, texts, images)
        if not texts and not images:
            result = self._history.output_hist_reprs.get(number)
            texts += [result] if isinstance(result, str) else []
        for bundle in self._displays.of(number) if self._displays is not None else ():
            _read(bundle, texts, images)
        failure = getattr(self._history, "exceptions", {}).get(number)
        if isinstance(failure, Mapping):
            texts.append(f"{failure.get('ename', 'error')}: {failure.get('evalue', '')}")
        return CellOutput("\n".join(text.rstrip("\n") for text in texts if text), tuple(images))

    def error(self) -> BaseException | None:
        return getattr(sys, "last_value", None)

    def cell_of(self, code: str) -> int | None:
        parsed = self._history.input_hist_parsed
        for number in range(min(len(parsed), len(self._history.input_hist_raw)) - 1, 0, -1):
            if parsed[number].strip() == code.strip():
                return number
        return None


def _read(bundle: Mapping[str, Any], texts: list[str], images: list[tuple[str, str]]) -> None:
    """Take a recorded output: a stream, or representations of which one is enough."""
    if "stream" in bundle:
        stream = bundle["stream"]
        texts.append(ansi.strip(stream if isinstance(stream, str) else "".join(stream)))
        return
    for mime in IMAGES:
        data = bundle.get(mime)
        if data:
            encoded = base64.b64encode(data).decode() if isinstance(data, bytes) else str(data)
            images.append((mime, encoded.replace("\n", "")))
            return
    text = bundle.get("text/plain") or bundle.get("text/markdown")
    if isinstance(text, str):
        texts.append(ansi.strip(text))


# -- exceptions -------------------------------------------------------------------------------


def traceback_text(error: BaseException, cells: CellSource) -> str:
    """The code of the cells in an exception's traceback, and the traceback from there on."""
    frames = list(_frames(error.__traceback__))
    first = next((index for index, (_, name) in enumerate(frames) if name == "__main__"), 0)
    start = error.__traceback__
    for _ in range(first):
        start = start.tb_next if start is not None else None
    files = [tb.tb_frame.f_code.co_filename for tb, name in frames if name == "__main__"]
    if isinstance(error, SyntaxError) and error.filename:
        files.append(error.filename)
        start = None if not any(name == "__main__" for _, name in frames) else start
    formatted = attempt(lambda: "".join(traceback.format_exception(type(error), error, start)))
    parts = []
    for file in dict.fromkeys(files):
        code = "".join(linecache.getlines(file))
        number = cells.cell_of(code) if code else None
        if number is not None:
            label = f"cell {number}"
            formatted = formatted.replace(f'File "{file}"', f"In {label}")
            parts.append(f"Code of {label}:\n\n{cells.source(number).rstrip()}")
    return "\n\n".join([*parts, formatted.rstrip()])


def _frames(start: TracebackType | None) -> Iterator[tuple[TracebackType, str]]:
    while start is not None:
        yield start, str(start.tb_frame.f_globals.get("__name__"))
        start = start.tb_next
