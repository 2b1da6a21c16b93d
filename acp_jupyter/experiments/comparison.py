"""`compare`: the results of a sweep side by side, in a notebook, as a notebook and as a page.

What agents said and wrote is shown as text, or as Markdown that was sanitised; the page is the
notebook's export (`export`), which runs nothing and loads nothing. Plots need matplotlib, and are
left out without it: the table has all their numbers.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import UsageError
from ..rendering import markdown
from ..rendering.characters import one_line, visible
from ..rendering.elements import PRE, Safe, box, el, fold, long_pre, muted
from .groups import MEASURES, Answer, Change, Compared, Group, Measure, compared
from .statistics import Summary
from .sweeps import read_runs

ANSWERS: Final = 3
"""Answers shown of each group to one prompt; the rest is in the executed notebooks."""

PROMPTS: Final = 50
CHANGES: Final = 50
"""Prompts and runs with changes that are shown."""

ANSWER: Final = 20_000
"""Characters shown of an answer."""

_CELL: Final = Safe("text-align:left;padding:2px 12px 2px 0;vertical-align:top")
_SIDE: Final = Safe("display:flex;flex-wrap:wrap;gap:12px")
_COLUMN: Final = Safe(
    "flex:1 1 20em;min-width:0;padding:.2em .8em;overflow:auto;"
    "border-left:3px solid var(--jp-border-color1,rgba(127,127,127,.5))"
)


def compare(output: str | os.PathLike[str], by: str = "", *, seed: int = 0) -> Comparison:
    """Compare the runs in a directory that a sweep has made.

    Args:
        output: the directory.
        by: what makes the groups: a column of the table, or a parameter. By default the agent, or
            where all runs have the same one, the first parameter that they differ in.
        seed: of the bootstrap.

    Raises:
        UsageError: there are no results, or no such column.
    """
    runs, manifest = read_runs(output)
    return Comparison(
        compared(runs, by, seed=seed), name=Path(manifest.notebook).stem, path=os.fspath(output)
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a comparison, as IPython displays it."""

    html: Safe
    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Called by IPython to display it."""
        return {"text/html": str(self.html), "text/plain": self.text}

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot."""

    png: bytes
    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Called by IPython to display it."""
        return {
            "image/png": base64.b64encode(self.png).decode("ascii"),
            "text/plain": self.text,
        }


class Comparison:
    """The results of a sweep, compared; it displays itself. Made by `compare`.

    Attributes:
        data: groups with their summaries and values, answers and changes.
        name: of the notebook that was swept.
    """

    def __init__(self, data: Compared, *, name: str, path: str) -> None:
        self.data = data
        self.name = name
        self._path = path

    # -- parts ---------------------------------------------------------------------------------

    def summary(self, *columns: str) -> Shown:
        """The table: medians with quartiles and bootstrap intervals.

        Args:
            columns: of `MEASURES`, those to show; by default all that are there.

        Raises:
            UsageError: nobody reported one of them.
        """
        measures = self._chosen(columns)
        header = [self.data.by, "runs", "errors", *(measure.title for measure in measures)]
        lines = [[_name(group), str(group.runs), str(group.errors)] for group in self.data.groups]
        for line, group in zip(lines, self.data.groups, strict=True):
            line += [_spread(group.summaries.get(measure.column)) for measure in measures]
        note = "Median [first to third quartile] (95 % interval of the median, bootstrap)."
        head = el("tr", [el("th", title, style=_CELL) for title in header])
        rows = [el("tr", [el("td", cell, style=_CELL) for cell in line]) for line in lines]
        table = el("table", el("tbody", head, rows))
        return Shown(box(table, muted(note)), f"{_aligned([header, *lines])}\n{note}")

    def answers(self, number: int) -> Shown:
        """The answers to a prompt, side by side.

        Args:
            number: of the prompt, from 1.

        Raises:
            UsageError: there is no such prompt.
        """
        prompts = self.data.prompts()
        if not 1 <= number <= len(prompts):
            raise UsageError(f"there is no prompt {number}: there are {len(prompts)}")
        prompt = prompts[number - 1]
        answers = [answer for answer in self.data.answers if answer.prompt == prompt]
        columns = list(self._columns(answers))
        texts = [f"{answer.label} ({answer.ended}):\n{answer.text}" for answer in answers]
        html = box(el("div", long_pre(prompt)), el("div", columns, style=_SIDE))
        return Shown(html, visible(f"{prompt}\n\n" + "\n\n".join(texts)))

    def changes(self) -> Shown:
        """What runs changed in their copies of the workspace."""
        found = self.data.changes
        parts = [_change(change) for change in found[:CHANGES]]
        if len(found) > CHANGES:
            parts.append(muted(f"{len(found) - CHANGES} more runs changed something"))
        lines = [f"{change.label}: {_paths(change)}" for change in found]
        if not found:
            return Shown(box(muted("No run changed a file.")), "No run changed a file.")
        return Shown(box(*parts), visible("\n".join(lines)))

    def plot(self, *columns: str) -> Picture:
        """Each measure as one small plot: all values, and the median with its interval.

        Args:
            columns: of `MEASURES`, those to show; by default all that vary.

        Raises:
            UsageError: matplotlib is not installed, or nobody reported one of them.
        """
        from .plots import draw

        measures = self._chosen(columns)
        if not columns:
            measures = [measure for measure in measures if self._varies(measure)]
        names = ", ".join(measure.title for measure in measures)
        text = f"Plots by {self.data.by}: {names or 'nothing varies'}"
        return Picture(draw(self.data, measures), one_line(text))

    def _measures(self) -> list[Measure]:
        """Those that somebody reported, and of which something is there."""
        return [
            measure
            for measure in MEASURES
            if any(any(group.values.get(measure.column, ())) for group in self.data.groups)
        ]

    def _chosen(self, columns: Sequence[str]) -> list[Measure]:
        there = {measure.column: measure for measure in self._measures()}
        for column in columns:
            if column not in there:
                raise UsageError(
                    f"nothing was measured as {column!r}",
                    remedy=f"There are: {', '.join(there)}.",
                )
        return [there[column] for column in columns] or list(there.values())

    def _varies(self, measure: Measure) -> bool:
        values = {v for group in self.data.groups for v in group.values.get(measure.column, ())}
        return len(values) > 1

    def _columns(self, answers: Sequence[Answer]) -> Iterator[Safe]:
        for group in self.data.groups:
            own = [answer for answer in answers if answer.group == group.name]
            if own:
                more = len(own) - ANSWERS
                note = muted(f"{more} more answers") if more > 0 else None
                shown = [_answer(answer) for answer in own[:ANSWERS]]
                yield el("div", el("b", _name(group)), shown, note, style=_COLUMN)

    # -- reports -------------------------------------------------------------------------------

    def to_notebook(self, beside: str | os.PathLike[str] = ".") -> Any:
        """A notebook (nbformat 4) that has the comparison, and makes it again when it runs.

        Args:
            beside: the folder that the notebook will be in.
        """
        from nbformat import v4

        where = os.path.relpath(self._path, beside).replace(os.sep, "/")
        notebook = v4.new_notebook()
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        notebook.metadata["title"] = f"Comparison of {one_line(self.name, 100)}"
        notebook.cells = [
            v4.new_markdown_cell(f"# Comparison of {_plain_markdown(self.name)}"),
            _cell(
                "from acp_jupyter.experiments import compare\n\n"
                f"comparison = compare({where!r}, by={self.data.by!r})\ncomparison.summary()",
                self.summary()._repr_mimebundle_(),
                1,
            ),
            *self._plot_cells(),
        ]
        for number in range(1, min(len(self.data.prompts()), PROMPTS) + 1):
            notebook.cells += [
                v4.new_markdown_cell(f"## Prompt {number}"),
                _cell(f"comparison.answers({number})", self.answers(number)._repr_mimebundle_(), 3),
            ]
        notebook.cells += [
            v4.new_markdown_cell("## Changed files"),
            _cell("comparison.changes()", self.changes()._repr_mimebundle_(), 4),
        ]
        for count, cell in enumerate(notebook.cells):  # the same comparison gives the same file
            cell["id"] = f"cell-{count}"
        return notebook

    def _plot_cells(self) -> list[Any]:
        from .plots import is_there

        if not is_there():
            return []
        return [_cell("comparison.plot()", self.plot()._repr_mimebundle_(), 2)]

    def to_html(self) -> str:
        """The comparison as one page that needs nothing else and runs nothing."""
        from ..export.file import export

        return export(self.to_notebook(), "html", name=f"Comparison of {self.name}").text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Called by IPython to display it: the table."""
        return self.summary()._repr_mimebundle_()

    def __repr__(self) -> str:
        runs = sum(group.runs for group in self.data.groups)
        return f"<Comparison of {runs} runs by {self.data.by}: {len(self.data.groups)} groups>"


def _name(group: Group) -> str:
    return one_line(group.name, 100)


def _spread(found: Summary | None) -> str:
    """``3.2 [2.9 to 3.6] (2.8 to 3.9)``; one number where all values are the same."""
    if found is None:
        return "-"
    if found.first_quartile == found.third_quartile == found.low == found.high == found.median:
        return _number(found.median)
    quartiles = f"[{_number(found.first_quartile)} to {_number(found.third_quartile)}]"
    if found.low is None or found.high is None:
        return f"{_number(found.median)}"
    return f"{_number(found.median)} {quartiles} ({_number(found.low)} to {_number(found.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e9 else f"{value:.3g}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join(rows)


def _answer(answer: Answer) -> Safe:
    text = answer.text[:ANSWER]
    cut = muted(f"{len(answer.text) - ANSWER:,} more characters") if text != answer.text else None
    ended = "" if answer.ended == "end_turn" else f" · {one_line(answer.ended, 300)}"
    head = muted(one_line(answer.label, 200) + ended)
    return el("div", el("div", head), markdown.to_html(text), cut)


def _change(change: Change) -> Safe:
    files = []
    for file in change.files:
        text = file.get("text")
        title = f"{file.get('path')} ({file.get('change')})"
        if isinstance(text, str) and text:
            files.append(fold(one_line(title, 300), el("pre", text, style=PRE)))
        else:
            files.append(el("div", one_line(title, 300)))
    head = f"{one_line(change.group, 100)} · {one_line(change.label, 200)}"
    return fold(el("b", head), files)


def _paths(change: Change) -> str:
    return ", ".join(one_line(file.get("path"), 200) for file in change.files)


def _plain_markdown(text: str) -> str:
    """A name in which no character means anything to Markdown."""
    return "".join(c if c.isalnum() or c in " -_." else "?" for c in one_line(text, 100))


def _cell(source: str, data: Mapping[str, Any], count: int) -> Any:
    from nbformat import v4

    output = v4.new_output("execute_result", data=dict(data), execution_count=count)
    return v4.new_code_cell(source, outputs=[output], execution_count=count)


def write_report(comparison: Comparison, path: Path) -> None:
    """Write a comparison as a notebook or a page, as the file's suffix says.

    Raises:
        UsageError: the suffix says neither.
        ACPError: it cannot be written.
    """
    import nbformat

    from .directory import write_whole

    match path.suffix.lower():
        case ".ipynb":
            text = nbformat.writes(comparison.to_notebook(path.absolute().parent))
        case ".html" | ".htm":
            text = comparison.to_html()
        case _:
            raise UsageError(
                f"a comparison cannot be written as {path.name}",
                remedy="Name a file with the suffix .ipynb or .html.",
            )
    write_whole(path, text + ("" if text.endswith("\n") else "\n"))
