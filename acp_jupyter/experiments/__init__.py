"""Notebooks as experiments: run without a frontend, checked, told apart from what they were."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .result import CellResult, RunResult
    from .run import run_notebook

__all__ = ["CellResult", "RunResult", "run_notebook"]

_HOMES = {"CellResult": "result", "RunResult": "result", "run_notebook": "run"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
