"""What a run does, in lines: a plain one each, or on a terminal one that is written over."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from ..rendering.characters import one_line
from .result import CellResult, RunResult


class Progress(Protocol):
    """Gets told what a run does."""

    def note(self, text: str) -> None: ...

    def cell(self, cell: CellResult, cells: Sequence[CellResult], notebook: Any) -> None:
        """A cell begins (its status is "not run") or has ended."""

    def prompt(self, text: str) -> None:
        """A turn begins."""

    def activity(self, text: str) -> None:
        """What the agent does, in a line."""

    def turn(self, report: dict[str, Any]) -> None:
        """A turn has ended."""

    def checks(self, results: Sequence[dict[str, Any]]) -> None: ...

    def end(self, result: RunResult) -> None: ...


class Silent:
    """Tells nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def cell(self, cell: CellResult, cells: Sequence[CellResult], notebook: Any) -> None:
        """Nothing."""

    def prompt(self, text: str) -> None:
        """Nothing."""

    def activity(self, text: str) -> None:
        """Nothing."""

    def turn(self, report: dict[str, Any]) -> None:
        """Nothing."""

    def checks(self, results: Sequence[dict[str, Any]]) -> None:
        """Nothing."""

    def end(self, result: RunResult) -> None:
        """Nothing."""


class Lines:
    """Writes lines to a stream; on a terminal what an agent does takes only the last one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._passing = False

    def note(self, text: str) -> None:
        self._line(text)

    def cell(self, cell: CellResult, cells: Sequence[CellResult], notebook: Any) -> None:
        place = f"cell {cells.index(cell) + 1} of {len(cells)}"
        if cell.status == "not run":
            source = str(notebook.cells[cell.index].source)
            self._line(f"{place}: {one_line(source, 80)}")
        elif cell.status == "error":
            self._line(f"{place} failed after {cell.seconds:.1f} s: {one_line(cell.error)}")

    def prompt(self, text: str) -> None:
        self.activity(f"prompt: {one_line(text, 80)}")

    def activity(self, text: str) -> None:
        line = f"  {one_line(text, 160)}"
        if not self._terminal:
            self._line(line)
            return
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{line[:width]}")
        self._stream.flush()
        self._passing = True

    def turn(self, report: dict[str, Any]) -> None:
        words = [str(report.get("stop_reason") or report.get("error") or "failed")]
        if report.get("duration_s") is not None:
            words.append(f"{report['duration_s']:.1f} s")
        if report.get("tokens") is not None:
            words.append(f"{report['tokens']:,} tokens")
        if report.get("cost") is not None:
            words.append(f"{report['cost']:.4g} {report.get('currency') or ''}".rstrip())
        self._line(f"  turn {report.get('turn')}: {one_line(', '.join(words))}")

    def checks(self, results: Sequence[dict[str, Any]]) -> None:
        for found in results:
            self._line(f"  check {found.get('status')}: {one_line(found.get('check', ''))}")

    def end(self, result: RunResult) -> None:
        spent = result.totals()
        run = sum(cell.status != "not run" for cell in result.cells)
        words = [f"{run} of {len(result.cells)} cells", f"{spent['turns']} turns"]
        if spent["checks"]:
            words.append(f"{spent['checks_passed']} of {spent['checks']} checks passed")
        self._line(f"{', '.join(words)} in {result.seconds:.1f} s; wrote {result.output}")
        if result.error:
            self._line(f"{result.status}: {one_line(result.error, 400)}")

    def _line(self, text: str) -> None:
        start = "\r\x1b[K" if self._passing else ""
        self._passing = False
        self._stream.write(f"{start}{text}\n")
        self._stream.flush()
