"""Questions in the terminal that a script runs in."""

from __future__ import annotations

import getpass

import trio

from ..services.permissions import CannotAsk
from .stdin import StdinAsker


class TerminalAsker(StdinAsker):
    """Asks with ``input``, in a thread that is given up when the question is withdrawn.

    Args:
        cwd: paths below it are shown relative to it.
        label: stands before each question; empty where only one agent can be asking.
    """

    def __init__(self, *, cwd: str, label: str = "") -> None:
        super().__init__(None, {}, [], cwd=cwd, label=label)

    async def _input(self, prompt: str, *, masked: bool = False) -> str:
        return await trio.to_thread.run_sync(_read_line, prompt, masked, abandon_on_cancel=True)


def _read_line(prompt: str, masked: bool) -> str:
    try:
        return getpass.getpass(prompt) if masked else input(prompt)
    except EOFError as error:
        raise CannotAsk("standard input has ended") from error
