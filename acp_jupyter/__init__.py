"""Agent Client Protocol for Jupyter: a kernel and magics that talk to coding agents.

Importing this package loads nothing else: kernels and notebooks import it at start-up.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers have it; `typing` itself is a dozen modules
if TYPE_CHECKING:
    from typing import Any

    from .api.agent import Agent, Session, aconnect, connect
    from .api.turn import CodeBlock, FileDiff, Timings, Turn
    from .doctor.agent import check_agent
    from .errors import ACPError
    from .experiments.comparison import compare
    from .experiments.run import run_notebook
    from .experiments.sweeps import sweep

__all__ = [
    "ACPError",
    "Agent",
    "CodeBlock",
    "FileDiff",
    "Session",
    "Timings",
    "Turn",
    "__version__",
    "aconnect",
    "check_agent",
    "compare",
    "connect",
    "run_notebook",
    "sweep",
]

__version__ = "0.1.0"


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython for ``%load_ext acp_jupyter``."""
    from .extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by IPython for ``%unload_ext acp_jupyter``."""
    from .extension import unload

    unload(shell)


_HOMES = {
    "ACPError": "errors",
    "Agent": "api.agent",
    "CodeBlock": "api.turn",
    "FileDiff": "api.turn",
    "Session": "api.agent",
    "Timings": "api.turn",
    "Turn": "api.turn",
    "aconnect": "api.agent",
    "check_agent": "doctor.agent",
    "compare": "experiments.comparison",
    "connect": "api.agent",
    "run_notebook": "experiments.run",
    "sweep": "experiments.sweeps",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
