"""Code blocks of an answer that become cells, and what is known of them afterwards."""

from __future__ import annotations

import time

import pytest

from acp_jupyter.rendering import html, text
from acp_jupyter.session.cells import (
    MAX_CELLS,
    MAX_SOURCE,
    MAX_TOTAL,
    CodeBlock,
    bounded,
    code_blocks,
    from_answer,
)
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import CellsEntry, ProposedCell, Transcript


def fenced(language: str, code: str, fence: str = "```") -> str:
    return f"{fence}{language}\n{code}\n{fence}\n"


# -- code blocks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("```python\nx = 1\n```", [CodeBlock("python", "x = 1\n")]),
        ("text\n~~~ Bash title=x\nls\n~~~~\nmore", [CodeBlock("bash", "ls\n")]),
        ("```\nplain\n```", [CodeBlock("", "plain\n")]),
        ("```py\r\nx = 1\r\n```\r\n", [CodeBlock("py", "x = 1\n")]),
        ("````md\n```py\nx\n```\n````", [CodeBlock("md", "```py\nx\n```\n")]),
        ("```py\n~~~\n``\n```", [CodeBlock("py", "~~~\n``\n")]),
        ("```py\n\nx\n\n```", [CodeBlock("py", "\nx\n\n")]),
        ("```py\n```", [CodeBlock("py", "")]),
        ("  ```py\n  if x:\n      y\n z\n  ```", [CodeBlock("py", "if x:\n    y\nz\n")]),
        ("    ```py\n    x\n    ```", []),
        ("```a`b\nx\n```", [CodeBlock("", "", closed=False)]),
        ("`code` and ```code``` in a line", []),
        ("```py\nx", [CodeBlock("py", "x\n", closed=False)]),
        ("```py\nx\n", [CodeBlock("py", "x\n", closed=False)]),
    ],
)
def test_fenced_code_blocks_are_found_as_commonmark_has_them(
    source: str, expected: list[CodeBlock]
) -> None:
    assert code_blocks(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1. First:\n\n   ```py\n   if x:\n       y\n   ```\n", "if x:\n    y\n"),
        ("10. Tenth:\n    ```py\n    x\n    ```\n", "x\n"),
        ("- a\n  - b\n\n    ```py\n    x\n\n    y\n    ```\n", "x\n\ny\n"),
        ("- ```py\n  x\n  ```\n", "x\n"),
        ("- ```py\n  x\nafter the item\n", "x\n"),
    ],
)
def test_a_block_in_a_list_item_loses_the_indentation_of_the_item(
    source: str, expected: str
) -> None:
    assert code_blocks(source) == [CodeBlock("py", expected)]


@pytest.mark.parametrize(
    "text", ["- " * 100_000, "`" * 200_000, "```py\n" * 50_000, "* a\n" * 50_000]
)
def test_finding_them_takes_linear_time(text: str) -> None:
    start = time.process_time()
    code_blocks(text)
    assert time.process_time() - start < 2


# -- cells ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "cell"),
    [
        ("python", "python"),
        ("py", "python"),
        ("Python", "python"),
        ("{python}", "python"),
        ("python title=a.py", "python"),
        ("ipython", "python"),
        ("bash", "bash"),
        ("sh", "bash"),
        ("shell", "bash"),
        ("zsh", "bash"),
        ("markdown", "markdown"),
        ("md", "markdown"),
    ],
)
def test_a_block_in_a_language_of_notebooks_becomes_a_cell(language: str, cell: str) -> None:
    assert from_answer([fenced(language, "x")]) == [ProposedCell(cell, "x")]


@pytest.mark.parametrize(
    "block",
    [
        fenced("", "x = 1"),
        fenced("r", "x <- 1"),
        fenced("sql", "select 1"),
        fenced("json", "{}"),
        fenced("text", "done"),
        fenced("diff", "-x"),
        fenced("console", "$ ls"),
        fenced("python:src/app.py", "x = 1"),
        fenced("python", ">>> 1 + 1\n2"),
        fenced("python", "In [1]: 1 + 1\nOut[1]: 2"),
        fenced("python", "Traceback (most recent call last):\n  File"),
        fenced("python", "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@"),
        fenced("python", "@@ -1,3 +1,4 @@\n import os"),
        fenced("bash", "$ ls\na.py"),
        fenced("sh", "me@host:~/project$ ls"),
        fenced("python", "  \n"),
        "```python\nx = 1",
        "> ```python\n> x = 1\n> ```",
    ],
)
def test_what_a_notebook_cannot_run_is_no_cell(block: str) -> None:
    assert from_answer([block]) == []


def test_code_that_only_looks_like_a_transcript_further_down_is_a_cell() -> None:
    for language, code in (
        ("python", 'x = """\n>>> 1\n"""'),
        ("bash", "# list\nls"),
        ("bash", "echo $HOME"),
        ("python", "%timeit x"),
    ):
        assert [cell.source for cell in from_answer([fenced(language, code)])] == [code]


def test_each_cell_is_proposed_once_in_the_order_of_the_answer() -> None:
    first, second = fenced("python", "x = 1"), fenced("bash", "ls")
    cells = from_answer([f"Do this:\n\n{first}", f"{second}\nand again\n\n{first}"])
    assert [cell.source for cell in cells] == ["x = 1", "ls"]


def test_cells_are_left_out_as_a_whole_and_counted() -> None:
    many = [ProposedCell("python", str(number)) for number in range(MAX_CELLS + 3)]
    assert bounded(many) == (many[:MAX_CELLS], 3)
    long = ProposedCell("python", "x" * (MAX_SOURCE + 1))
    short = ProposedCell("python", "x")
    assert bounded([long, short]) == ([short], 1)
    full = [ProposedCell("python", "x" * MAX_SOURCE) for _ in range(10)]
    kept, left_out = bounded(full)
    assert sum(len(cell.source) for cell in kept) <= MAX_TOTAL
    assert len(kept) + left_out == 10


# -- the entry --------------------------------------------------------------------------------


def proposed(
    cells: list[ProposedCell], *, from_answer: bool = True
) -> tuple[Reducer, CellsEntry, Transcript]:
    transcript = Transcript()
    reducer = Reducer(transcript, agent="Demo", session="s")
    reducer.start_turn([], 0.0)
    entry = reducer.propose(cells, from_answer=from_answer)
    assert entry is not None
    transcript.take_changed()
    return reducer, entry, transcript


def answered(answer: str, *, stop_reason: str | None, proposes: bool = True) -> Transcript:
    """A turn with that answer, and a tool call after it."""
    transcript = Transcript()
    reducer = Reducer(transcript, agent="Demo", session="s")
    reducer.proposes_cells = proposes
    reducer.start_turn([], 0.0)
    content = {"type": "text", "text": answer}
    for role in ("agent", "user"):
        reducer.apply({"sessionUpdate": f"{role}_message_chunk", "content": content}, 1.0)
    reducer.apply({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look"}, 1.0)
    reducer.end_turn(2.0, stop_reason=stop_reason)
    return transcript


def test_the_cells_of_an_answer_come_once_right_before_the_footer() -> None:
    transcript = answered(fenced("python", "x = 1"), stop_reason="end_turn")
    cells, footer = transcript.turn.entries[-2:]
    assert isinstance(cells, CellsEntry)
    assert cells.cells == [ProposedCell("python", "x = 1")]
    assert (cells.agent, cells.session, cells.turn) == ("Demo", "s", 1)
    assert (cells.from_answer, cells.late) == (True, False)
    assert footer is transcript.turn.footer


@pytest.mark.parametrize(
    ("answer", "stop_reason", "proposes"),
    [
        ("Nothing to run.", "end_turn", True),
        (fenced("json", "{}"), "end_turn", True),
        (fenced("python", "x"), "cancelled", True),
        (fenced("python", "x"), "refusal", True),
        (fenced("python", "x"), None, True),
        (fenced("python", "x"), "end_turn", False),
    ],
)
def test_a_turn_without_code_or_that_went_wrong_proposes_nothing(
    answer: str, stop_reason: str | None, proposes: bool
) -> None:
    transcript = answered(answer, stop_reason=stop_reason, proposes=proposes)
    assert not [entry for entry in transcript.entries() if isinstance(entry, CellsEntry)]


def test_marking_a_cell_publishes_the_entry_again_if_that_changes_it() -> None:
    reducer, entry, transcript = proposed([ProposedCell("python", "x"), ProposedCell("bash", "y")])
    reducer.mark_cell(entry, 1, "inserted")
    assert transcript.take_changed() == [entry]
    reducer.mark_cell(entry, 1, "inserted")
    assert not transcript.dirty
    assert [cell.state for cell in entry.cells] == ["proposed", "inserted"]
    for index in (-1, 2):
        with pytest.raises(IndexError):
            reducer.mark_cell(entry, index, "run")


def test_where_nothing_can_be_proposed_there_is_no_entry() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)
    for cells in ([], [ProposedCell("python", "x" * (MAX_SOURCE + 1))]):
        assert reducer.propose(cells) is None
    assert not transcript.dirty


def test_cells_are_shown_with_language_length_state_and_the_code_to_copy() -> None:
    cells = [
        ProposedCell("python", "import math\nprint(math.pi)"),
        ProposedCell("bash", "ls <x>", "inserted"),
        ProposedCell("sql", "select 1", "dismissed"),
    ]
    _, entry, _ = proposed(cells)
    entry.left_out = 2
    source = html.render(entry, terminals={})
    assert source.count("<details><summary>") == 3
    assert "Python, 2 lines" in source
    assert '<span class="nb">print</span>' in source
    assert "ls &lt;x&gt;" in source
    assert "✓ inserted" in source
    assert "2 more not proposed" in source
    assert text.render(entry, terminals={}).split("\n") == [
        "3 proposed cells, 1 inserted, 1 dismissed:",
        "  ○ Python, 2 lines: import math",
        "  ✓ Shell, 1 line: ls <x>",
        "  ⊘ sql, 1 line: select 1",
        "  [2 more not proposed: too many or too long]",
    ]


def test_cells_that_no_answer_shows_are_open_and_in_the_text() -> None:
    _, entry, _ = proposed([ProposedCell("python", "x = 1\ny = 2")], from_answer=False)
    assert "<details open>" in html.render(entry, terminals={})
    assert "    x = 1\n    y = 2" in text.render(entry, terminals={})
