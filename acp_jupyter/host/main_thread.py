"""Functions of ours on the thread that runs the notebook's code, at the moments when it is free.

Rules:

- Values of the notebook are only touched there: no library has to bear a second thread.
- It is free while it waits for an agent (`serve` is called in that wait), while a cell awaits
  something, and between cells. What waits for it longer than a caller wants is never begun.
- What runs can be interrupted: a caller that gives up, or whose time is over, has KeyboardInterrupt
  raised in it, as the stop button has in a cell.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from ..connection.portal import Portal

T = TypeVar("T")


class MainThread:
    """See the module.

    Args:
        kernel: the running IPython kernel.
        portal: to trio's thread.
    """

    def __init__(self, kernel: Any, portal: Portal) -> None:
        self._kernel = kernel
        self._portal = portal
        self._waiting: deque[_Job[Any]] = deque()
        self._serving = False

    async def run(self, function: Callable[[], T], *, limit: float) -> T:
        """Call a function there; on the trio thread.

        Args:
            function: what to call; it is called once, or never.
            limit: seconds for all of it.

        Raises:
            TimeoutError: the thread was not free in that time, or the function did not end.
            KeyboardInterrupt: somebody interrupted it.
        """
        done = trio.Event()
        job = _Job(function, lambda: self._portal.run_soon(done.set))
        self._waiting.append(job)
        self._kernel.io_loop.add_callback(self.serve)
        try:
            with trio.move_on_after(limit):
                await done.wait()
        finally:
            job.give_up()
        if not done.is_set():
            raise TimeoutError("the kernel was busy" if not job.begun else "it took too long")
        return job.result()

    def serve(self) -> None:
        """Do what waits; on the main thread."""
        if self._serving:
            return
        self._serving = True
        try:
            while self._waiting:
                self._waiting.popleft().do()
        finally:
            self._serving = False


class _Job(Generic[T]):
    """One call.

    Attributes:
        begun: it was called.
    """

    def __init__(self, function: Callable[[], T], tell: Callable[[], object]) -> None:
        self._function = function
        self._tell = tell
        self._lock = threading.Lock()
        self._unwanted = False
        self._running = False
        self._results: list[T] = []
        self._failure: BaseException | None = None
        self.begun = False

    def do(self) -> None:
        """Call it, with an interrupt that reaches it."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self._lock:
                if self._unwanted:
                    return
                self.begun = self._running = True
            try:
                self._results.append(self._function())
            finally:
                with self._lock:
                    self._running = False
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again in `result`
            self._failure = error
        finally:
            self._running = False  # also where an interrupt came just as it ended
            _put_back(before)
            self._tell()

    def give_up(self) -> None:
        """Have it not called any more, or interrupted."""
        with self._lock:
            self._unwanted = True
            if self._running:
                _thread.interrupt_main()

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._results[0]


def _put_back(handler: Any) -> None:
    """Who gets SIGINT from now on; an interrupt that came too late is for nobody."""
    while True:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler if handler is None else handler)
            return
        except KeyboardInterrupt:
            continue
