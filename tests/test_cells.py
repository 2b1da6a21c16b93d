"""What a cell of the agent kernel is, as a table."""

from __future__ import annotations

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.kernel.cells import Cell, parse_cell, python_lines
from acp_jupyter.magics import commands

LINE = {"acp", "time", "timeit", "cd", "pip"}
CELL = {"acp", "time", "timeit", "bash"}


def parse(code: str, tags: tuple[str, ...] = ()) -> Cell:
    return parse_cell(code, line_magics=LINE, cell_magics=CELL, subcommands=commands(), tags=tags)


@pytest.mark.parametrize(
    ("code", "cell"),
    [
        # Nothing at all.
        ("", Cell()),
        ("  \n\t\n", Cell()),
        ("\n\n", Cell()),
        # Prompts, as written.
        ("Hello", Cell(prompt="Hello")),
        ("Hello\n\n  indented\n", Cell(prompt="Hello\n\n  indented")),
        ("  indented first", Cell(prompt="  indented first")),
        ("\n\nHello", Cell(prompt="Hello")),
        ("!ls", Cell(prompt="!ls")),
        ("?acp", Cell(prompt="?acp")),
        ("# heading", Cell(prompt="# heading")),
        ("/plan A, B", Cell(prompt="/plan A, B")),
        ("Hello\n%acp", Cell(prompt="Hello\n%acp")),
        ("Hello\r\nthere", Cell(prompt="Hello\r\nthere")),
        # A percent sign that is no magic's.
        ("%", Cell(prompt="%")),
        ("% acp", Cell(prompt="% acp")),
        ("%s is not replaced", Cell(prompt="%s is not replaced")),
        ("%d items, why?", Cell(prompt="%d items, why?")),
        ("%acp,", Cell(prompt="%acp,")),
        ("%20 of the time", Cell(prompt="%20 of the time")),
        ("100 % sure", Cell(prompt="100 % sure")),
        # Escaped.
        ("\\%acp", Cell(prompt="%acp")),
        ("\\%%python", Cell(prompt="%%python")),
        ("\\%conect", Cell(prompt="%conect")),
        ("%acp\n\\%acp", Cell(magics=("%acp",), prompt="%acp")),
        ("\\Hello", Cell(prompt="\\Hello")),
        # Leading magics.
        ("%acp", Cell(magics=("%acp",))),
        ("%acp connect demo\n", Cell(magics=("%acp connect demo",))),
        ("%acp?", Cell(magics=("%acp?",))),
        ("\n%acp", Cell(magics=("%acp",))),
        ("%acp\n%time 1", Cell(magics=("%acp", "%time 1"))),
        ("%acp\nHello", Cell(magics=("%acp",), prompt="Hello")),
        ("%acp\n\nHello\n%acp", Cell(magics=("%acp",), prompt="Hello\n%acp")),
        ("%acp\n\n%time 1\n\n", Cell(magics=("%acp", "%time 1"))),
        ("%acp\r\nHello", Cell(magics=("%acp",), prompt="Hello")),
        ("%acp\n%s is what?", Cell(magics=("%acp",), prompt="%s is what?")),
        # Cell magics.
        ("%%python\nprint(1)", Cell(python=True)),
        ("%%python", Cell(python=True)),
        ("\n%%python\n1", Cell(python=True)),
        ("%%bash\nls", Cell(python=True)),
        ("%%time\n1", Cell(python=True)),
        ("%acp\n%%python\n1", Cell(magics=("%acp",), prompt="%%python\n1")),
    ],
)
def test_a_cell_is_taken_apart(code: str, cell: Cell) -> None:
    assert parse(code) == cell


@pytest.mark.parametrize("tag", ["parameters", "injected-parameters"])
def test_a_cell_tagged_as_parameters_is_python(tag: str) -> None:
    assert parse("x = 1", tags=("other", tag)) == Cell(python=True)
    assert parse("%conect", tags=(tag,)) == Cell(python=True)


def test_other_tags_change_nothing() -> None:
    assert parse("Hello", tags=("parameter", "hide-input")) == Cell(prompt="Hello")


@pytest.mark.parametrize(
    ("code", "nearest"),
    [
        ("%apc connect demo", "%acp"),
        ("%acpp", "%acp"),
        ("%tme x", "%time"),
        ("%connect demo", "%acp connect"),
        ("%conect demo", "%acp connect"),
        ("%restart", "%acp restart"),
        ("%acp\n%conect demo", "%acp connect"),
        ("%%pyton\n1", "%%python"),
        ("%%bsh\nls", "%%bash"),
        ("%%connect demo", "%acp connect"),
    ],
)
def test_a_mistyped_magic_names_the_nearest(code: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(code)
    assert f"Did you mean {nearest}" in caught.value.remedy
    assert "\\%" in caught.value.remedy, "and how to send it all the same"


@pytest.mark.parametrize("name", commands())
def test_every_command_of_acp_is_known_where_its_acp_is_missing(name: str) -> None:
    with pytest.raises(UsageError, match=f"Did you mean %acp {name}\\?"):
        parse(f"%{name} x")


def test_a_cell_magic_that_resembles_nothing_is_refused_too() -> None:
    with pytest.raises(UsageError, match="%%xyzzy is no magic"):
        parse("%%xyzzy\n1")


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        ([], []),
        (["x\n"], ["x\n"]),
        (["%%python\n", "x\n"], ["\n", "x\n"]),
        (["%%python\n", "%%time\n", "x\n"], ["%%time\n", "x\n"]),
        (["%%python\n", "\n", "%%time\n", "x\n"], ["%%time\n", "x\n"]),
        (["%%python\n"], ["\n"]),
        (["%%python3\n", "x\n"], ["%%python3\n", "x\n"]),
        (["%%time\n", "x\n"], ["%%time\n", "x\n"]),
        (["x\n", "%%python\n"], ["x\n", "%%python\n"]),
    ],
)
def test_ipython_reads_python_cells_without_their_first_line(
    lines: list[str], read: list[str]
) -> None:
    assert python_lines(lines) == read
