"""The agent's questions to the user as widgets: a form, and the consent to a web address.

What is typed comes by the tap, like clicks: ipywidgets' own handling is called there with each
message, so that the widgets keep their values while the cell runs, and a page that is loaded anew
gets them. Nothing goes to the agent before "Submit", and then only what `validate` passed.

Numbers are typed as text: a number's own widget cannot be left empty, and rounds large integers.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from ..protocol.forms import Field, content, hint, validate
from ..rendering import elicitation, html
from ..rendering.elements import BAD, NO_MATH, el
from ..services.elicitation import Answer
from ..session.transcript import ElicitationEntry
from .comms import CommTap
from .view import View

LIST_ROWS = 8
"""Rows of a list to choose several from; the rest scrolls."""

NOTHING = "(choose)"


class Consent(View[Answer]):
    """Whether the user wants the link to a web address; nothing opens it but their own click."""

    def __init__(
        self, entry: ElicitationEntry, tap: CommTap, run_soon: Callable[..., object]
    ) -> None:
        super().__init__(tap, run_soon)
        self._entry = entry

    def build(self, cwd: str) -> None:
        import ipywidgets as widgets

        question = self._keep(widgets.HTML(html.render(self._entry, terminals={}, cwd=cwd)))
        show = widgets.Button(description="Show the link", button_style="success")
        self._show(
            question,
            self._keep(
                widgets.HBox(
                    [
                        self.button(show, partial(self.finish, Answer("accept"))),
                        *_refusals(self),
                    ]
                )
            ),
        )


class Form(View[Answer]):
    """A form: for each field what it asks for, an input, and what is wrong with its value.

    Args:
        context: the cell's context; the problems are published in a copy of it.
    """

    def __init__(
        self,
        entry: ElicitationEntry,
        tap: CommTap,
        run_soon: Callable[..., object],
        context: contextvars.Context,
    ) -> None:
        super().__init__(tap, run_soon)
        self._entry = entry
        self._context = context
        self._fields = [field for field in entry.fields if field.kind != "unknown"]
        self._inputs: dict[str, Any] = {}
        self._problems: dict[str, Any] = {}

    def build(self, cwd: str) -> None:
        import ipywidgets as widgets

        intro = ElicitationEntry(
            self._entry.id,
            self._entry.turn,
            agent=self._entry.agent,
            message=self._entry.message,
            title=self._entry.title,
            description=self._entry.description,
            fields=[field for field in self._entry.fields if field.kind == "unknown"],
        )
        parts = [self._keep(widgets.HTML(html.render(intro, terminals={}, cwd=cwd)))]
        for field in self._fields:
            about = widgets.HTML(elicitation.field_html(field, choices=False))
            entered = self._input(field)
            problem = widgets.HTML("")
            self._inputs[field.name], self._problems[field.name] = entered, problem
            parts += [self._keep(about), entered, self._keep(problem)]
        submit = widgets.Button(description="Submit", button_style="success")
        parts.append(
            self._keep(widgets.HBox([self.button(submit, self._submit), *_refusals(self)]))
        )
        self._show(*parts)

    def _input(self, field: Field) -> Any:
        widget = self._keep(_input(field))

        def on_update(data: dict[str, Any]) -> None:
            message = {"content": {"comm_id": widget.comm.comm_id, "data": data}, "buffers": []}
            widget.comm.handle_msg(message)

        self._listen(widget, on_update)
        return widget

    @property
    def values(self) -> dict[str, Any]:
        """What is entered now, as `validate` takes it."""
        return {
            name: list(widget.value) if isinstance(widget.value, tuple) else widget.value
            for name, widget in self._inputs.items()
        }

    def _submit(self) -> None:
        values = self.values
        problems = validate(self._fields, values)
        if not problems:
            self.finish(Answer("accept", content=content(self._fields, values)))
        elif not self.answered.is_set():
            self._context.copy().run(self._show_problems, problems)

    def _show_problems(self, problems: dict[str, str]) -> None:
        for name, widget in self._problems.items():
            text = problems.get(name, "")
            widget.value = el("span", f"✗ {text}", style=BAD, class_=NO_MATH) if text else ""


def _refusals(view: View[Answer]) -> list[Any]:
    import ipywidgets as widgets

    decline = widgets.Button(description="Decline", button_style="danger")
    cancel = widgets.Button(description="Cancel")
    return [
        view.button(decline, partial(view.finish, Answer("decline"))),
        view.button(cancel, partial(view.finish, Answer("cancel"))),
    ]


def _input(field: Field) -> Any:
    """The widget for a field, with its default in it (C54)."""
    import ipywidgets as widgets

    layout = {"width": "auto", "max_width": "40em"}
    match field.kind:
        case "boolean":
            # The title stands above it: a description would be typeset as mathematics.
            return widgets.Checkbox(value=bool(field.default), description="Yes", indent=False)
        case "choice":
            options = [(NOTHING, None), *_options(field)]
            values = [value for _, value in options]
            return widgets.Dropdown(
                options=options, index=values.index(field.default), layout=layout
            )
        case "choices":
            return widgets.SelectMultiple(
                options=_options(field),
                value=tuple(field.default or ()),
                rows=min(LIST_ROWS, max(2, len(field.choices))),
                layout=layout,
            )
        case _ if field.secret:
            return widgets.Password(placeholder=hint(field), continuous_update=False, layout=layout)
        case _:
            return widgets.Text(
                value="" if field.default is None else str(field.default),
                placeholder=hint(field),
                continuous_update=False,
                layout=layout,
            )


def _options(field: Field) -> list[tuple[str, str]]:
    return [
        (elicitation.choice_line(item.value, item.title, item.description), item.value)
        for item in field.choices
    ]
