"""A turn as text that is only ever appended, for a console that ignores updates.

Messages grow as they come. Every other entry is printed once, when it is settled, on a line of its
own; what never settles is printed when the turn ends. After that, only a tool call that ends late
and what the footer gains are printed again. Cells that an answer proposes are left out: they are
its code once more, and a console has no cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..rendering import blocks, text
from ..session.transcript import (
    CellsEntry,
    ElicitationEntry,
    Entry,
    FooterEntry,
    MessageEntry,
    PermissionEntry,
    PlanEntry,
    TerminalState,
    ToolCallEntry,
)


class Append:
    """What of one turn has been printed.

    Args:
        write: appends text to the cell's output.
        cwd: paths below it are shown relative to it.
        terminals: the session's terminals.
    """

    def __init__(
        self, write: Callable[[str], None], *, cwd: str, terminals: Mapping[str, TerminalState]
    ) -> None:
        self._write_out = write
        self._cwd = cwd
        self._terminals = terminals
        self._printed: dict[Entry, str] = {}
        self._unsettled: dict[Entry, None] = {}
        self._line_open = False
        self._writer: Entry | None = None

    def show(self, entry: Entry) -> None:
        """Print what is new in an entry."""
        if isinstance(entry, CellsEntry) and entry.from_answer:
            return
        if isinstance(entry, MessageEntry):
            self._grow(entry)
        elif not _settled(entry):
            self._unsettled[entry] = None
        else:
            self._unsettled.pop(entry, None)
            if isinstance(entry, FooterEntry):  # nothing follows that could settle them
                unsettled, self._unsettled = self._unsettled, {}
                for other in unsettled:
                    self._print(other)
            self._print(entry)

    def _grow(self, entry: MessageEntry) -> None:
        """Print what has come to the end of a message since it was printed last."""
        if entry.role == "thought":
            whole = "> " + blocks.parts_to_text(entry.parts).replace("\n", "\n> ")
        else:
            whole = text.render(entry, terminals=self._terminals, cwd=self._cwd)
        new = whole[len(self._printed.get(entry, "")) :]
        self._printed[entry] = whole
        if new:
            begin = "\n" if self._line_open and self._writer is not entry else ""
            self._write(begin + new, entry)

    def _print(self, entry: Entry) -> None:
        whole = text.render(entry, terminals=self._terminals, cwd=self._cwd).rstrip("\n")
        before = self._printed.get(entry)
        again = isinstance(entry, FooterEntry | ToolCallEntry) and before != whole
        if before is not None and not again:
            return
        self._printed[entry] = whole
        if before is not None and isinstance(entry, FooterEntry) and whole.startswith(before):
            whole = whole[len(before) :].strip("\n")
        if whole.strip():
            self._write(("\n" if self._line_open else "") + whole + "\n", entry)

    def _write(self, new: str, entry: Entry) -> None:
        self._line_open = not new.endswith("\n")
        self._writer = entry
        self._write_out(new)


def _settled(entry: Entry) -> bool:
    """Whether an entry is worth printing once and for all."""
    if isinstance(entry, ToolCallEntry):
        return entry.finished
    if isinstance(entry, PermissionEntry | ElicitationEntry):
        return entry.state != "pending"
    if isinstance(entry, PlanEntry):
        return all(item.get("status") == "completed" for item in entry.items)
    return True
