"""Objects of the user's: what they are, and calling their code, which may do and raise anything.

Libraries are known by the names of classes, so that none of them is ever imported by us.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["attempt", "is_a", "type_name"]

T = TypeVar("T")


def attempt(function: Callable[..., T], *args: object) -> T | str:
    """Call code of the user's, or of a library on the user's data.

    Returns:
        What it returns; or, where it raises, a text in ``⟨⟩`` that says what.
    """
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - the seam: a mention must not fail for a bad repr
        said = traceback.format_exception_only(error)[-1].strip()
        return f"⟨raised {said[:200]}⟩"


def is_a(value: object, library: str, *names: str) -> bool:
    """Whether a class of that name and library is among the value's types."""
    return any(
        base.__name__ in names and str(base.__module__).partition(".")[0] == library
        for base in type(value).__mro__
    )


def type_name(value: Any) -> str:
    """``pandas.DataFrame``, ``list``: where it is from, without the parts of a library."""
    kind = type(value)
    library = str(kind.__module__).partition(".")[0]
    known = library in ("builtins", "__main__")
    return kind.__qualname__ if known else f"{library}.{kind.__name__}"
