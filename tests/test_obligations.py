"""Each obligation of the protocol has its test, and each mark names an obligation.

The marks are read from the sources of all tests: what is collected depends on how pytest was
called, what is there does not.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.obligations import OBLIGATIONS

TESTS = Path(__file__).parent

MARK = "pytest.mark.obligation"
LEAVES_OUT = ("pytest.mark.skip", "pytest.mark.xfail")
"""A test with these is none; one that is left out by a condition runs elsewhere."""


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    source = path.read_text("utf-8")
    for node in ast.parse(source if MARK in source else "").body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield inner


def marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, list[str]]]:
    """Names and texts of the decorators."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            yield ast.unparse(decorator.func), [ast.literal_eval(arg) for arg in _texts(decorator)]
        else:
            yield ast.unparse(decorator), []


def _texts(call: ast.Call) -> list[ast.expr]:
    return [arg for arg in call.args if isinstance(arg, ast.Constant)]


@functools.cache
def marked() -> dict[str, list[str]]:
    """By obligation, the tests that hold it; those without a mark are not among them."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for function in functions(path):
            names = dict(marks(function))
            collected = path.name.startswith("test_") and function.name.startswith("test_")
            where = f"{path.relative_to(TESTS)}::{function.name}"
            if MARK not in names:
                continue
            assert names[MARK], f"{where} names no obligation"
            assert collected, f"{where} is marked, and no test"
            assert not set(LEAVES_OUT) & set(names), f"{where} is marked, and does not run"
            for number in names[MARK]:
                found.setdefault(number, []).append(where)
    return found


def test_each_obligation_has_a_test() -> None:
    without = [f"{n}: {o.level} {o.text}" for n, o in OBLIGATIONS.items() if n not in marked()]
    assert not without, without


def test_each_mark_names_an_obligation() -> None:
    assert not set(marked()) - set(OBLIGATIONS)


def test_the_table_is_whole_and_each_line_says_what_binds_whom() -> None:
    assert list(OBLIGATIONS) == [f"C{number}" for number in range(1, 90)]
    for obligation in OBLIGATIONS.values():
        assert obligation.level in ("must", "must not", "should", "should not")
        assert obligation.versions in ("1", "2", "12", "remote")
        assert obligation.text
