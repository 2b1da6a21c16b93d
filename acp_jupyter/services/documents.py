"""Notebooks among the agent's files: checked before they are written, and never the one that runs.

The notebook that runs is not written underneath its user, whose page has a newer state than the
file. What the agent would change in it becomes proposed cells, and the agent is told so.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence

import trio

from ..errors import Refusal, UsageError
from ..session.transcript import ProposedCell
from .files import Content, FileBackend, Version
from .notebooks import checked, is_notebook, proposal
from .roots import Located

__all__ = ["NotebookFiles"]


class NotebookFiles:
    """Notebooks as `notebooks` says, all other files as ``inner`` serves them.

    Args:
        inner: where the files are.
        running: tells the path of the notebook that runs, absolute; empty if it is not known.
        propose: shows cells to the user.
    """

    def __init__(
        self,
        inner: FileBackend,
        running: Callable[[], Awaitable[str]],
        propose: Callable[[Sequence[ProposedCell]], object],
    ) -> None:
        self._inner = inner
        self._running = running
        self._propose = propose

    def locate(self, path: object) -> Located:
        return self._inner.locate(path)

    async def read(
        self, located: Located, *, line: int | None = None, limit: int | None = None
    ) -> Content:
        return await self._inner.read(located, line=line, limit=limit)

    async def write(self, located: Located, text: str, *, expected: Version | None) -> Version:
        if not is_notebook(located.resolved):
            return await self._inner.write(located, text, expected=expected)
        before = None
        try:
            before = (await self._inner.read(located)).text
        except Refusal:
            pass  # there is none, or none that could be compared
        if await self._is_running(located):
            raise self._proposed(before or "", text)
        text = await trio.to_thread.run_sync(checked, text, before)
        return await self._inner.write(located, text, expected=expected)

    async def _is_running(self, located: Located) -> bool:
        running = await self._running()
        if not running:
            return False
        return await trio.to_thread.run_sync(_is_same, running, located.resolved)

    def _proposed(self, before: str, text: str) -> Refusal:
        """Propose what the agent would change; returns its answer."""
        what = "this notebook is open and running, and is not written underneath its user"
        found = proposal(before, text)
        if not found.cells:
            return Refusal(f"{what}; no new or changed cells were found to propose instead")
        try:
            self._propose(found.cells)
        except UsageError as error:
            return Refusal(f"{what}; its cells are too long to be proposed instead: {error}")
        left = f"; {found.removed} cells would be removed, which the user has to do"
        return Refusal(
            f"{what}. Its {len(found.cells)} new or changed cells were proposed to the user, who "
            f"may insert or run them{left if found.removed else ''}. Do not try it again"
        )


def _is_same(one: str, other: str) -> bool:
    """Whether two paths lead to the same file, on the disk or only by their names."""
    if os.path.realpath(one) == other:
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
