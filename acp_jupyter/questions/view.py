"""What every question shown as widgets has: a view, a beacon, and messages from the tap.

That a frontend shows widgets at all is told by the beacon, an invisible counter that the
frontend's copy sets in motion as soon as it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import trio

from .comms import CommTap

T = TypeVar("T")

VIEW: Final = "application/vnd.jupyter.widget-view+json"


class View(Generic[T]):
    """The widgets of one open question. Subclasses build them and call `finish` once.

    Args:
        tap: where messages of the widgets arrive, on its own thread.
        run_soon: runs a function on the trio thread, from any thread.
    """

    def __init__(self, tap: CommTap, run_soon: Callable[..., object]) -> None:
        self._tap = tap
        self._run_soon = run_soon
        self._widgets: list[Any] = []
        self.bundle: dict[str, Any] = {}
        self.shown = trio.Event()
        self.answered = trio.Event()
        self._answer: list[T] = []

    @property
    def answer(self) -> T:
        """What `finish` was called with; after ``answered``."""
        return self._answer[0]

    def finish(self, answer: T) -> None:
        """The user has answered; only the first answer counts. On the trio thread."""
        if not self.answered.is_set():
            self._answer.append(answer)
            self.shown.set()
            self.answered.set()

    def build(self, cwd: str) -> None:
        """Make the widgets. In the cell's context, as `close`."""
        raise NotImplementedError

    def close(self) -> None:
        """Take the widgets away; a click on one of them finds nobody."""
        for widget in self._widgets:
            if widget.comm is not None:
                self._tap.forget(widget.comm.comm_id)
            for part in (getattr(widget, "style", None), widget.layout, widget):
                if part is not None:
                    part.close()

    def _show(self, *children: Any) -> None:
        """Make children, built by `_keep`, the question's view."""
        import ipywidgets as widgets  # 36 ms, so not before the first question

        beacon = self._keep(
            widgets.Play(
                min=0, max=1, value=0, playing=True, interval=50, layout={"display": "none"}
            )
        )
        self._listen(beacon, self._on_beacon)
        box = self._keep(widgets.VBox([*children, beacon]))
        self.bundle = {VIEW: {"version_major": 2, "version_minor": 0, "model_id": box.model_id}}

    def _on_beacon(self, _data: dict[str, Any]) -> None:
        self._run_soon(self.shown.set)

    def _keep(self, widget: Any) -> Any:
        """A widget that is closed with the question."""
        self._widgets.append(widget)
        return widget

    def _listen(self, widget: Any, handler: Callable[[dict[str, Any]], None]) -> None:
        """Have messages of a widget handled on the tap's thread."""

        def on_message(data: dict[str, Any]) -> None:
            if data.get("method") == "request_state":  # a page was loaded anew
                widget.send_state()
            else:
                handler(data)

        self._tap.register(widget.comm.comm_id, on_message)

    def button(self, widget: Any, clicked: Callable[[], object]) -> Any:
        """A button that calls a function on the trio thread."""

        def handler(data: dict[str, Any]) -> None:
            content = data.get("content")
            if (
                data.get("method") == "custom"
                and isinstance(content, dict)
                and content.get("event") == "click"
            ):
                self._run_soon(clicked)

        self._listen(self._keep(widget), handler)
        return widget
