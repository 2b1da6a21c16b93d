"""A button beside a running command that stops it, as a widget: it works while the cell runs.

It is an output of its own below the command's, from a second on, and is emptied when the command
has ended. Where a page with our extension listens there is none: that page has buttons of its own.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ..rendering import toolcalls, words
from ..rendering.characters import one_line
from ..session.transcript import Entry, TerminalEntry, TerminalState, ToolCallEntry
from .comms import CommTap
from .view import View

STOPPABLE_AFTER: Final = 1.0
"""Seconds: nobody could press a button that is there for less."""

EMPTY: Final[dict[str, Any]] = {"text/html": "", "text/plain": ""}


class StopButtons:
    """Makes and takes away the buttons of one cell. On the trio thread.

    Args:
        tap: where the clicks arrive.
        run_soon: runs a function on the trio thread, from any thread.
        context: the cell's context, so that comm messages carry its parent header.
        terminals: the session's.
        stop: ends the command of a terminal by its id.
        unwanted: whether a page has its own buttons.
    """

    def __init__(
        self,
        tap: CommTap,
        run_soon: Callable[..., object],
        context: contextvars.Context,
        *,
        terminals: Mapping[str, TerminalState],
        stop: Callable[[str], object],
        unwanted: Callable[[], bool],
    ) -> None:
        self._tap = tap
        self._run_soon = run_soon
        self._context = context
        self._terminals = terminals
        self._stop = stop
        self._unwanted = unwanted
        self._shown: dict[Entry, _Buttons | None] = {}

    def beside(self, entry: Entry) -> dict[str, Any] | None:
        """The bundle of the output below an entry; ``None`` if there was never one."""
        running = self._running(entry)
        shown = self._shown.get(entry)
        if shown is not None and not running:
            self._context.copy().run(shown.close)
            self._shown[entry] = shown = None
        elif running and entry not in self._shown and not self._unwanted():
            shown = _Buttons(running, self._tap, self._run_soon, self._stop)
            # A context can only be entered by one thread at a time; its copy is ours alone.
            self._context.copy().run(shown.build, "")
            self._shown[entry] = shown
        if entry not in self._shown:
            return None
        return EMPTY if shown is None else shown.bundle

    def _running(self, entry: Entry) -> list[TerminalState]:
        found: list[TerminalState] = []
        if isinstance(entry, ToolCallEntry):
            found = list(toolcalls.running(entry, self._terminals))
        elif isinstance(entry, TerminalEntry) and entry.terminal_id in self._terminals:
            found = [self._terminals[entry.terminal_id]]
        return [
            state
            for state in found
            if state.own and state.running and state.elapsed >= STOPPABLE_AFTER
        ]


class _Buttons(View[None]):
    """One for each command."""

    def __init__(
        self,
        running: list[TerminalState],
        tap: CommTap,
        run_soon: Callable[..., object],
        stop: Callable[[str], object],
    ) -> None:
        super().__init__(tap, run_soon)
        self._commands = {
            state.terminal_id: one_line(words.terminal_command(state), 60) for state in running
        }
        self._stop = stop

    def build(self, cwd: str) -> None:  # noqa: ARG002  # no path is shown
        import ipywidgets as widgets  # 36 ms, so not before it is needed

        buttons = [
            self.button(
                widgets.Button(
                    description=f"Stop {command}",
                    tooltip="End it and all that it started",
                    button_style="danger",
                    layout={"width": "auto", "max_width": "40em"},
                ),
                partial(self._stop, ident),
            )
            for ident, command in self._commands.items()
        ]
        self._show(*buttons)
        self.bundle["text/plain"] = ""  # for who shows no widgets
