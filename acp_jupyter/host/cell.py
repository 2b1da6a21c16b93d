"""What a running cell, or a script, is to us: where output goes, and whom to ask."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .frontend import Frontend

if TYPE_CHECKING:
    from ..display.output import Sink
    from ..rendering.facts import Facts


@dataclass(frozen=True, slots=True)
class CellContext:
    """A running cell.

    Attributes:
        sink: where its output goes.
        frontend: how to publish, and how to ask.
        parent: its ``execute_request``.
        ident: the routing prefix of that request.
        context: contextvars of the cell's thread, with its parent header.
    """

    sink: Sink
    frontend: Frontend
    parent: dict[str, Any]
    ident: Any
    context: contextvars.Context

    @property
    def attended(self) -> bool:
        """Whether somebody is there who can answer and interrupt."""
        return bool(self.frontend.ask)

    @property
    def ident_in_notebook(self) -> str:
        """The id that the notebook has for it, which JupyterLab sends along; may be empty."""
        metadata = self.parent.get("metadata")
        ident = metadata.get("cellId") if isinstance(metadata, dict) else None
        return ident if isinstance(ident, str) and ident.isprintable() else ""

    def show(self, facts: Facts) -> None:
        """Show a table, in the way of the frontend."""
        self.present(facts.as_bundle())

    def present(self, data: Mapping[str, Any]) -> None:
        """Show a MIME bundle that has a text, in the way of the frontend."""
        if self.frontend.publish == "append":
            self.sink.stream(f"{data['text/plain']}\n")
        else:
            self.sink.show(dict(data))


def kernel_cell(kernel: Any, frontend: Frontend, *, silent: bool = False) -> CellContext:
    """The cell that an IPython kernel is running now, on the thread that runs it."""
    from .sink import KernelSink, SilentSink

    parent = kernel.get_parent("shell")
    return CellContext(
        sink=SilentSink() if silent else KernelSink(kernel, parent),
        frontend=frontend,
        parent=parent,
        ident=kernel._parent_ident["shell"],
        context=contextvars.copy_context(),
    )


def no_cell(frontend: Frontend) -> CellContext:
    """A script: nothing is displayed, results are objects."""
    from .sink import SilentSink

    return CellContext(SilentSink(), frontend, {}, [], contextvars.copy_context())
