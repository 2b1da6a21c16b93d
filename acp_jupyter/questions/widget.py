"""Questions as widgets: buttons that work while the cell runs.

The widget is part of the question's own output: while it is open, that output's bundle has the
widget's view beside the static text, so that a frontend without widgets shows the text. Each click
resolves the question once; the buttons are closed with it, and a click on an old one finds nobody.

If a frontend does not show the widgets in `SHOWN_WITHIN` seconds, the question goes on to the next
way of asking.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import trio

from ..rendering import html, words
from ..services.elicitation import Answer
from ..services.permissions import CannotAsk
from ..session.transcript import ElicitationEntry, Entry, PermissionEntry
from .comms import CommTap
from .stdin import labels
from .view import View

SHOWN_WITHIN: Final = 10.0

T = TypeVar("T")

STYLES: Final = {
    "allow_once": "success",
    "allow_always": "success",
    "reject_once": "danger",
    "reject_always": "danger",
}
"""Colours by kind, chosen by us; an unknown kind is neutral."""

AS_OUTPUT: Final = "font-size:var(--jp-content-font-size1,14px);line-height:1.5"
"""Text in widgets is smaller and its lines are farther apart than in outputs; not this one's."""


class WidgetAsker:
    """Asks by buttons; made for one cell.

    Args:
        tap: where the clicks arrive.
        run_soon: runs a function on the trio thread, from any thread.
        context: the cell's context, so that comm messages carry its parent header.
        cwd: paths below it are shown relative to it.
        refresh: called when an entry has to be published again.
    """

    def __init__(
        self,
        tap: CommTap,
        run_soon: Callable[..., object],
        context: contextvars.Context,
        *,
        cwd: str,
        refresh: Callable[[Entry], None],
    ) -> None:
        self._tap = tap
        self._run_soon = run_soon
        self._context = context
        self._cwd = cwd
        self._refresh = refresh
        self._open: dict[Entry, View[Any]] = {}

    def extras(self, entry: Entry) -> dict[str, Any]:
        """The widget's view of an open question, for its output's bundle."""
        question = self._open.get(entry)
        return question.bundle if question is not None else {}

    async def ask(self, entry: PermissionEntry) -> int | None:
        """See `services.permissions.Asker`."""
        return await self._put(entry, _Buttons(entry, self._tap, self._run_soon))

    async def elicit(self, entry: ElicitationEntry) -> Answer:
        """See `services.permissions.Asker`."""
        from .form import Consent, Form

        if entry.mode == "url":
            return await self._put(entry, Consent(entry, self._tap, self._run_soon))
        return await self._put(entry, Form(entry, self._tap, self._run_soon, self._context))

    async def _put(self, entry: Entry, question: View[T]) -> T:
        # A context can only be entered by one thread at a time; its copy is ours alone.
        self._context.copy().run(question.build, self._cwd)
        self._open[entry] = question
        self._refresh(entry)
        try:
            with trio.move_on_after(SHOWN_WITHIN):
                await question.shown.wait()
            if not question.shown.is_set():
                raise CannotAsk("the frontend shows no widgets")
            await question.answered.wait()
            return question.answer
        finally:
            del self._open[entry]
            self._context.copy().run(question.close)


class _Buttons(View[int | None]):
    """A permission request: one button for each option."""

    def __init__(
        self, entry: PermissionEntry, tap: CommTap, run_soon: Callable[..., object]
    ) -> None:
        super().__init__(tap, run_soon)
        self._entry = entry

    def build(self, cwd: str) -> None:
        import ipywidgets as widgets  # 36 ms, so not before the first question

        buttons = []
        kinds = [option.kind for option in self._entry.options]
        for index, label in enumerate(labels(self._entry)):
            own_deny = index >= len(kinds)
            button = widgets.Button(
                description=label,
                tooltip="" if own_deny else words.option_words(self._entry.options[index]),
                button_style="danger" if own_deny else STYLES.get(kinds[index], ""),
                layout={"width": "auto", "max_width": "40em"},
            )
            choice = None if own_deny else index
            buttons.append(self.button(button, partial(self.finish, choice)))
        layout = {"flex_flow": "row wrap", "margin": "2px 0 4px 1em"}
        row = self._keep(widgets.HBox(buttons, layout=layout))
        shown = html.render(self._entry, terminals={}, cwd=cwd)
        question = widgets.HTML(f'<div style="{AS_OUTPUT}">{shown}</div>')
        self._show(self._keep(question), row)
