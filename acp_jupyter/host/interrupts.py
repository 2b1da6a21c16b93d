"""Who gets SIGINT while a call waits for the trio thread.

On the main thread the call takes it, in place of KeyboardInterrupt. A cell in a subshell runs on a
thread that gets no signals: there the main thread takes it on the call's behalf, as soon and as
long as it runs nothing itself. ipykernel has SIGINT ignored while the main thread is idle, and
sets and puts back the handler around each of the main thread's messages (7.0 to 7.4); so what the
main thread runs is always interrupted first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

Handler = Callable[..., None]

TRY_AGAIN: Final = 0.1
"""Seconds until it is looked again whether the main thread still awaits something for a cell."""


class Interrupts:
    """See the module.

    Args:
        kernel: the running IPython kernel; ``None`` in a script.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._beside: list[Handler] = []

    @contextmanager
    def call(self, handler: Handler) -> Iterator[None]:
        """Have SIGINT call a function, in place of raising KeyboardInterrupt, which may come
        between any two steps and leave a turn behind that nobody waits for."""
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, handler)
            try:
                yield
            finally:
                signal.signal(
                    signal.SIGINT, signal.default_int_handler if before is None else before
                )
            return
        self._beside.append(handler)
        self._on_main_thread(self._take)
        try:
            yield
        finally:
            self._beside.remove(handler)
            self._on_main_thread(self._give_back)

    def _on_main_thread(self, function: Callable[[], None]) -> None:
        if self._kernel is not None:
            self._kernel.io_loop.add_callback(function)

    def _take(self) -> None:
        """Take a signal that would be ignored. On the main thread, between its messages, or while
        a cell on it awaits something: then SIGINT is that cell's."""
        if not self._beside:
            return
        now = signal.getsignal(signal.SIGINT)
        if now == signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_sigint)
        elif now != self._on_sigint:
            self._kernel.io_loop.call_later(TRY_AGAIN, self._take)

    def _give_back(self) -> None:
        if self._beside:
            return
        if signal.getsignal(signal.SIGINT) == self._on_sigint:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        elif getattr(self._kernel, "saved_sigint_handler", None) == self._on_sigint:
            self._kernel.saved_sigint_handler = signal.SIG_IGN

    def _on_sigint(self, *_: object) -> None:
        for handler in list(self._beside):
            handler()
