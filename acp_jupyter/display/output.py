"""The output of one cell: entries as Jupyter messages, in one of the ways of `Publish`."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ..rendering import mimebundle
from ..rendering.segments import SegmentCutter
from ..session.transcript import (
    Block,
    CellsEntry,
    ElicitationEntry,
    Entry,
    FooterEntry,
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    TerminalState,
    TextBuffer,
)
from . import Bundle, Publish
from .append import Append
from .row import BLANK, Row

MESSAGE_BYTES: Final = 500
"""What a message has besides its content."""

_log: Final = logging.getLogger(__name__)


class Sink(Protocol):
    """Where a cell's output goes; thread-safe, never blocks. Made by a surface for one cell."""

    def display(
        self, data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        """Publish a MIME bundle as a new output, or in place of the one with that id.

        ``metadata`` is kept with the output in the notebook.
        """

    def show(self, data: Bundle) -> None:
        """Publish a MIME bundle once and for all."""

    def stream(self, text: str) -> None:
        """Append text to the cell's standard output."""


def no_extras(_entry: Entry) -> Bundle:
    """The default for `Output`: no MIME types besides the rendering's."""
    return {}


def nothing_beside(_entry: Entry) -> Bundle | None:
    """The default for `Output`: an entry has one output."""
    return None


class Output:
    """Publishes the entries of one turn.

    Args:
        sink: the cell.
        publish: how; see the module.
        prefix: makes display ids unique among sessions.
        cwd: paths below it are shown relative to it.
        base: the notebook's folder, where that is not ``cwd``.
        terminals: the session's terminals.
        extras: further MIME types for an entry (a widget's view while a question is open).
        beside: an output below an entry's, once it has one (controls while a command runs).
    """

    def __init__(
        self,
        sink: Sink,
        publish: Publish,
        *,
        prefix: str,
        cwd: str,
        terminals: Mapping[str, TerminalState],
        base: str = "",
        extras: Callable[[Entry], Bundle] = no_extras,
        beside: Callable[[Entry], Bundle | None] = nothing_beside,
        only_questions: bool = False,
    ) -> None:
        self._sink = sink
        self._publish = publish
        self._prefix = prefix
        self._cwd = cwd
        self._base = base
        self._terminals = terminals
        self._extras = extras
        self._beside = beside
        self._only_questions = only_questions
        self._row = Row(self._publish_output)
        self._messages: dict[Entry, list[_Part]] = {}
        self._append = Append(self._write, cwd=cwd, terminals=terminals)
        self._waiting: dict[Entry, None] = {}
        self._done: set[Entry] = set()
        self._failed: set[Entry] = set()
        self.sent = 0

    def show(self, entry: Entry) -> None:
        """Publish an entry that is new or has changed.

        One that cannot be rendered becomes a notice in its place: an error of ours in what an
        agent makes us show must not end the agent, nor the publishing of all that follows.
        """
        self._attempt(self._show, entry)

    def _attempt(self, publish: Callable[[Entry], None], entry: Entry) -> None:
        try:
            publish(entry)
        except Exception as error:  # noqa: BLE001  # shown and logged
            self._show_failure(entry, error)

    def _show(self, entry: Entry) -> None:
        if self._only_questions and not isinstance(entry, PermissionEntry | ElicitationEntry):
            if isinstance(entry, FooterEntry) and self._publish == "final":
                self._collect(entry, shown=False)  # a footer on its own would say nothing
            return
        if isinstance(entry, MessageEntry) and entry.echo:
            return
        if self._publish == "final":
            self._collect(entry)
        elif self._publish == "append":
            self._append.show(entry)
        elif isinstance(entry, MessageEntry) and entry.role == "agent":
            self._show_message(entry)
        else:
            self._put(entry)

    def _put(self, entry: Entry) -> None:
        question = entry if isinstance(entry, PermissionEntry | ElicitationEntry) else None
        is_open = question is not None and question.state == "pending"
        record = entry.record if isinstance(entry, PermissionEntry) else None
        self._row.put(
            entry.id,
            self._bundle(entry),
            urgent=is_open,
            apart=isinstance(entry, CellsEntry),
            data=record,
        )
        controls = self._beside(entry)
        if controls is not None:
            self._row.put(f"{entry.id}.controls", controls, apart=True)

    def _show_failure(self, entry: Entry, error: Exception) -> None:
        if entry in self._failed:
            return
        self._failed.add(entry)
        _log.error("an entry could not be shown", exc_info=error)
        notice = NoticeEntry(
            entry.id,
            entry.turn,
            level="error",
            text=f"{type(entry).__name__} could not be shown: internal error, please report it.",
            detail="".join(traceback.format_exception(error)),
        )
        bundle = mimebundle.bundle(notice, terminals={})
        if self._publish == "append":
            self._write(f"{bundle['text/plain']}\n")
        else:
            self._row.put(entry.id, bundle)

    def _bundle(self, entry: Entry) -> Bundle:
        # Not where outputs are compared: ids and durations differ from run to run.
        ident = f"{self._prefix}-{entry.id}" if self._publish == "updates" else None
        bundle = mimebundle.bundle(
            entry, terminals=self._terminals, cwd=self._cwd, ident=ident, base=self._base
        )
        return {**bundle, **self._extras(entry)}

    def _publish_output(
        self, name: str, bundle: Bundle, update: bool, decisions: list[object]
    ) -> None:
        """``decisions`` stay, as data, with the output that shows them."""
        metadata = {"acp": {"decisions": decisions}} if decisions else None
        self.sent += MESSAGE_BYTES + sum(map(_size, bundle.values()))
        self._sink.display(
            bundle, display_id=f"{self._prefix}-{name}", update=update, metadata=metadata
        )

    # -- messages in segments ------------------------------------------------------------------

    def _show_message(self, entry: MessageEntry) -> None:
        shown = self._messages.setdefault(entry, [])
        for index, part in enumerate(entry.parts):
            if index == len(shown):
                shown.append(_Part())
            elif isinstance(part, TextBuffer) != (shown[index].cutter is not None):
                self._blank(shown[index])
                shown[index] = _Part()
            self._show_part(f"{entry.id}.{index}", part, shown[index])
        for gone in shown[len(entry.parts) :]:
            self._blank(gone)

    def _show_part(self, ident: str, part: TextBuffer | Block, shown: _Part) -> None:
        if not isinstance(part, TextBuffer):
            if shown.block is not part:
                shown.block = part
                shown.idents = [ident]
                self._row.put(ident, mimebundle.part_bundle(part))
            return
        if shown.cutter is None:
            shown.cutter = SegmentCutter()
        for segment in shown.cutter.cut(str(part)):
            name = f"{ident}.{segment.index}"
            if segment.index == len(shown.idents):
                shown.idents.append(name)
            self._row.put(name, mimebundle.message_bundle(segment.text))

    def _blank(self, part: _Part) -> None:
        for ident in part.idents:
            self._row.put(ident, BLANK)

    # -- text that is only appended ------------------------------------------------------------

    def _write(self, new: str) -> None:
        self.sent += len(new)
        self._sink.stream(new)

    # -- one output for each entry -------------------------------------------------------------

    def _collect(self, entry: Entry, *, shown: bool = True) -> None:
        """Keep an entry until the turn ends; what came before the first turn has no end."""
        if shown:
            self._waiting[entry] = None
        if isinstance(entry, FooterEntry) or entry.turn == 0:
            waiting, self._waiting = self._waiting, {}
            for done in waiting:
                if done not in self._done:  # the client ignores updates
                    self._done.add(done)
                    self._attempt(self._put, done)


def _size(value: object) -> int:
    """About how many bytes one MIME type of a bundle takes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_size(key) + _size(item) for key, item in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 8


class _Part:
    """What of one part of a message has been published."""

    def __init__(self) -> None:
        self.cutter: SegmentCutter | None = None
        self.block: Block | None = None
        self.idents: list[str] = []
