"""A command that an agent ran, as an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..connection.portal import Portal
    from ..services.terminal_view import TerminalView


class Terminal:
    """A command that the agent runs, or ran, through its client; made by `Session.terminals`."""

    def __init__(self, view: TerminalView, portal: Portal) -> None:
        self._view = view
        self._portal = portal

    @property
    def number(self) -> int:
        """What ``%acp terminals`` calls it; unique in this process."""
        return self._view.number

    @property
    def argv(self) -> list[str]:
        """The command and its arguments."""
        return list(self._view.argv)

    @property
    def cwd(self) -> str:
        """Absolute working directory."""
        return self._view.cwd

    @property
    def running(self) -> bool:
        return self._view.running

    @property
    def output(self) -> str:
        """The last 64 KiB of what it has written, with its escape sequences."""

        async def read() -> str:
            return self._view.output

        # Where trio's thread has ended nobody writes any more.
        return self._portal.call(read) if self._portal.running else self._view.output

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs, and when a signal ended it."""
        return self._view.exit_code

    @property
    def signal(self) -> str | None:
        """Name of the signal that ended it, such as ``SIGTERM``."""
        return self._view.signal

    @property
    def elapsed(self) -> float:
        """Seconds that it runs, or ran."""
        return self._view.elapsed

    def stop(self) -> None:
        """End it and all that it started; the agent sees that a signal ended it. Returns at once,
        and does nothing where it has ended. From any thread."""
        self._portal.run_soon(self._view.stop)

    def __repr__(self) -> str:
        state = "running" if self.running else self.signal or f"exit status {self.exit_code}"
        return f"<Terminal {self.number}: {self.argv[0]}, {state}>"
