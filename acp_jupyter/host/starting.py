"""Waiting for an agent to get ready, with a visible clock if that takes long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ..errors import ACPError

if TYPE_CHECKING:
    from .cell import CellContext

T = TypeVar("T")

SLOW_START: Final = 10.0
SLOW_START_STEP: Final = 5.0
"""Seconds without an answer after which a start is reported, and between two reports."""


async def started(
    cell: CellContext, starting: Awaitable[T], working: Callable[[], bool] = lambda: True
) -> T:
    """Wait for an agent to get ready, with a visible clock if that takes long.

    Args:
        cell: that runs.
        starting: what is waited for.
        working: whether it is the agent that takes the time, and not the user.
    """
    import trio

    result: list[T] = []
    error: ACPError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_waiting, cell, working)
        try:
            result.append(await starting)
        except ACPError as failure:  # raised below: a nursery would put it into a group
            error = failure
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error
    return result[0]


async def _show_waiting(cell: CellContext, working: Callable[[], bool]) -> None:
    """Say how long the agent has been starting, from `SLOW_START` seconds on."""
    import secrets

    import trio

    display_id = f"acp-start-{secrets.token_hex(6)}"
    begun = trio.current_time()
    shown = False
    await trio.sleep(SLOW_START)
    try:
        while True:
            if not working():
                await trio.sleep(SLOW_START_STEP)
                begun = trio.current_time()
                continue
            waited = trio.current_time() - begun
            text = f"No reply for {waited:.0f} s. The agent is starting; the stop button gives up."
            if cell.frontend.publish == "updates":
                data = {"text/plain": text}
                cell.sink.display(data, display_id=display_id, update=shown)
            elif not shown:
                cell.sink.stream(text + "\n")
            shown = True
            await trio.sleep(SLOW_START_STEP)
    finally:
        if shown and cell.frontend.publish == "updates":
            waited = trio.current_time() - begun
            text = f"Waited {waited:.0f} s for the agent to start."
            cell.sink.display({"text/plain": text}, display_id=display_id, update=True)
