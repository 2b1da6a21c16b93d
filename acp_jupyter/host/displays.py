"""What the notebook's code displayed by itself, for ``@cell:N``: ipykernel keeps no record of it.

A recorder sees what passes through the shell's display publisher: plots, ``display()``, progress
that is shown in place. What is kept is what a mention could send: a picture or a text of each
display, of the last `CELLS` cells, within `ROOM`. Output of agents does not come this way.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

CELLS: Final = 50
DISPLAYS: Final = 20
"""Cells of which displays are kept, and displays of one of them."""

PICTURE: Final = 5_000_000
TEXT: Final = 20_000
ROOM: Final = 20_000_000
"""Characters kept of one picture (in base64: more, no model service takes), one text, and all."""

IMAGES: Final = ("image/png", "image/jpeg")
TEXTS: Final = ("text/plain", "text/markdown")


@dataclass
class _Cell:
    number: int
    shown: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    clear_next: bool = False

    @property
    def size(self) -> int:
        return sum(len(text) for _, bundle in self.shown for text in bundle.values())


class Displays:
    """Records the displays of a shell's cells from `install` to `remove`.

    Args:
        shell: what ``get_ipython()`` returns.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cells: deque[_Cell] = deque(maxlen=CELLS)
        self._here = threading.local()
        self._recording = True
        self._lock = threading.Lock()

    def install(self) -> None:
        """Begin to record."""
        self._shell.events.register("pre_run_cell", self._on_cell)

    def remove(self) -> None:
        """End it."""
        self._shell.events.unregister("pre_run_cell", self._on_cell)
        self._recording = False
        self._cells.clear()
        if getattr(self._here, "hooked", False):
            self._shell.display_pub.unregister_hook(self._on_message)

    def of(self, number: int) -> Sequence[Mapping[str, str]]:
        """What is kept of a cell's displays: one representation of each, by media type."""
        with self._lock:
            cell = next((cell for cell in self._cells if cell.number == number), None)
            return [bundle for _, bundle in cell.shown] if cell is not None else []

    def _on_cell(self, info: Any) -> None:
        """A cell begins on this thread. Hooks of the publisher belong to a thread."""
        publisher = self._shell.display_pub
        if getattr(publisher, "store_display_history", False):
            return  # then the history has it all
        self._here.cell = None
        if info.store_history:
            self._here.cell = _Cell(len(self._shell.history_manager.input_hist_raw))
        if not getattr(self._here, "hooked", False) and hasattr(publisher, "register_hook"):
            publisher.register_hook(self._on_message)
            self._here.hooked = True

    def _on_message(self, message: dict[str, Any]) -> dict[str, Any]:
        """Called by the publisher with each message before it sends it."""
        cell: _Cell | None = getattr(self._here, "cell", None)
        if cell is not None and self._recording:
            with self._lock:
                self._record(cell, message["msg_type"], message["content"])
        return message

    def _record(self, cell: _Cell, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "clear_output":
            cell.clear_next = bool(content.get("wait"))
            if not cell.clear_next:
                cell.shown.clear()
            return
        bundle = _kept(content["data"])
        ident = str(content["transient"].get("display_id", ""))
        if kind == "update_display_data":
            for known in self._cells:
                known.shown = [(i, bundle if i == ident else old) for i, old in known.shown]
        elif kind == "display_data":
            if cell.clear_next:
                cell.shown.clear()
                cell.clear_next = False
            if len(cell.shown) < DISPLAYS:
                cell.shown.append((ident, bundle))
            if all(known is not cell for known in self._cells):
                self._cells.append(cell)
        while len(self._cells) > 1 and sum(known.size for known in self._cells) > ROOM:
            self._cells.popleft()


def _kept(data: Mapping[str, Any]) -> dict[str, str]:
    """The representation of a display that a mention sends: a picture, else a text."""
    for mime in IMAGES:
        picture = data.get(mime)
        if isinstance(picture, str) and len(picture) <= PICTURE:
            return {mime: picture}
    for mime in TEXTS:
        text = data.get(mime)
        if isinstance(text, str):
            return {mime: text[:TEXT]}
    return {}
