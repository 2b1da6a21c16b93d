"""Questions to the user of the cell that runs, also where no session is open yet.

`askers` are the ways to reach the user of a cell, in order; a session's questions take them from
its `Link`. `Asking` puts the client's own questions before there is a session: whether a program
may be downloaded, how to log in. The question stands in the cell's output while it is open, with
its buttons where widgets are shown, and what was decided stays there. `Asked` are those that wait
for an answer now: frontends lead to them.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from ..questions.widget import WidgetAsker
from ..rendering import mimebundle
from ..services.permissions import CannotAsk
from ..services.policy import answer_state

if TYPE_CHECKING:
    from ..services.elicitation import Answer
    from ..services.permissions import Asker
    from ..session.transcript import ElicitationEntry, Entry, PermissionEntry
    from .cell import CellContext
    from .host import Host

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question of the client's own that waits for the user.

    Attributes:
        ident: of the output that shows it.
        entry: the question.
        cell: that asks.
    """

    ident: str
    entry: PermissionEntry | ElicitationEntry
    cell: CellContext


def askers(
    host: Host,
    cell: CellContext,
    *,
    cwd: str,
    label: str,
    refresh: Callable[[Entry], None],
) -> tuple[WidgetAsker | None, list[Asker]]:
    """The ways to reach the user of a cell, in order, and the one by widgets if it is among them.

    Args:
        host: of the notebook.
        cell: that runs.
        cwd: paths below it are shown relative to it.
        label: stands before questions on standard input; may be empty.
        refresh: called when an entry has to be published again.
    """
    widgets: WidgetAsker | None = None
    found: list[Asker] = []
    for way in cell.frontend.ask:
        if way == "widgets" and host.tap is not None:
            run_soon = host.portal.run_soon
            widgets = WidgetAsker(host.tap, run_soon, cell.context, cwd=cwd, refresh=refresh)
            found.append(widgets)
        elif way == "terminal":
            from ..questions.terminal import TerminalAsker

            found.append(TerminalAsker(cwd=cwd, label=label))
        elif way == "stdin":
            from ..questions.stdin import StdinAsker

            found.append(StdinAsker(host.kernel, cell.parent, cell.ident, cwd=cwd, label=label))
    return widgets, found


class Asking:
    """Asks the user of one cell. On the trio thread.

    Args:
        host: of the notebook.
        cell: that runs.
        label: stands before questions on standard input; may be empty.
    """

    def __init__(self, host: Host, cell: CellContext, *, label: str = "") -> None:
        self._host = host
        self._cell = cell
        self._cwd = host.cwd
        self._ident = f"acp-question-{secrets.token_hex(6)}"
        self._shown = False
        self._widgets, self._askers = askers(
            host, cell, cwd=self._cwd, label=label, refresh=self._publish
        )

    async def choose(self, entry: PermissionEntry) -> int | None:
        """Have the user choose one of an entry's options.

        Args:
            entry: the question, pending; ``PermissionChoice`` with the kinds of the protocol get
                our labels, others are shown with their ``name``. It gets the answer, too.

        Returns:
            The index of the option; ``None`` for the Deny that is always there.

        Raises:
            CannotAsk: nobody can be asked.
        """
        chosen = await self._put(entry, lambda asker: asker.ask(entry))
        entry.chosen = chosen
        entry.state = "denied" if chosen is None else answer_state(entry.options[chosen].kind)
        entry.decided_by = "user"
        self._publish(entry)
        return chosen

    async def fill(self, entry: ElicitationEntry) -> Answer:
        """Have the user fill a form, or agree to open a web address.

        Args:
            entry: the question, pending; it gets the state, but not the values: they may be
                secrets.

        Raises:
            CannotAsk: nobody can be asked.
        """
        answer = await self._put(entry, lambda asker: asker.elicit(entry))
        entry.state, entry.decided_by, entry.reason = answer.state, answer.by, answer.reason
        self._publish(entry)
        return answer

    async def _put(
        self,
        entry: PermissionEntry | ElicitationEntry,
        ask: Callable[[Asker], Awaitable[T]],
    ) -> T:
        asked = Asked(self._ident, entry, self._cell)
        self._host.asked.append(asked)
        self._host.touch()
        try:
            return await self._ask(entry, ask)
        finally:
            self._host.asked.remove(asked)
            self._host.touch()

    async def _ask(
        self,
        entry: PermissionEntry | ElicitationEntry,
        ask: Callable[[Asker], Awaitable[T]],
    ) -> T:
        reasons = []
        begun = trio.current_time()
        try:
            for asker in self._askers:
                try:
                    answer = await ask(asker)
                except CannotAsk as error:
                    reasons.append(str(error))
                    continue
                entry.decided_at = entry.asked_at + trio.current_time() - begun
                return answer
        except trio.Cancelled:
            entry.state, entry.decided_by = "cancelled", "cancel"
            self._publish(entry)
            raise
        reason = "; ".join(reasons) or "nobody can answer here"
        if self._shown:  # to nobody, as it turned out
            entry.state, entry.decided_by, entry.reason = "cancelled", "nobody", reason
            self._publish(entry)
        raise CannotAsk(reason)

    def _publish(self, entry: Entry) -> None:
        data: dict[str, Any] = mimebundle.bundle(entry, terminals={}, cwd=self._cwd)
        if self._cell.frontend.publish == "append":
            if getattr(entry, "state", "") != "pending":  # before, standard input shows it
                self._cell.sink.stream(f"{data['text/plain']}\n")
            return
        if self._widgets is not None:
            data |= self._widgets.extras(entry)
        self._cell.sink.display(data, display_id=self._ident, update=self._shown)
        self._shown = True
