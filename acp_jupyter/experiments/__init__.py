"""Notebooks as experiments: run without a frontend, checked, told apart from what they were."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .comparison import Comparison, compare
    from .result import CellResult, RunResult
    from .run import run_notebook
    from .sweeps import Sweep, sweep

__all__ = [
    "CellResult",
    "Comparison",
    "RunResult",
    "Sweep",
    "compare",
    "run_notebook",
    "sweep",
]

_HOMES = {
    "CellResult": "result",
    "Comparison": "comparison",
    "RunResult": "result",
    "Sweep": "sweeps",
    "compare": "comparison",
    "run_notebook": "run",
    "sweep": "sweeps",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
