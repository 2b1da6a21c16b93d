"""The one crossing between the kernel's threads and trio.

A `Portal` runs trio in one daemon thread. Callers on any other thread submit coroutine functions
and get futures; nothing else of trio is touched from outside.

Rules:

- trio is imported when a portal is started, not with this module.
- What a job raises goes into its future. One job's failure touches no other job.
- A job sees the contextvars of the thread that submitted it, as they were then: an output made by
  the job goes to the cell that started it.
- A future ends when its job has ended, not when its cancellation was asked for.
- An interrupt of a waiting thread leaves the job running; the caller decides what it means.
- When trio's thread ends, for whatever reason, every future that is left fails.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextvars
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ACPError

if TYPE_CHECKING:
    import trio

__all__ = ["Portal", "PortalFuture"]

T = TypeVar("T")

START_LIMIT = 30.0
"""Seconds for the thread to run; importing trio takes 0.1, or seconds from a cold network disk."""

EXIT_LIMIT = 2.0
"""Seconds given to jobs at interpreter exit; Jupyter kills a kernel 5 s after it asked."""

_log = logging.getLogger(__name__)


class PortalFuture(concurrent.futures.Future[T]):
    """A job's future. `cancel` asks the job to stop; the future ends when the job has."""

    _portal: Portal
    _scope: trio.CancelScope | None = None
    _cancel_asked = False

    def cancel(self) -> bool:
        """Ask the job to stop; ``False`` if it has already ended."""
        return self._portal.cancel(self)

    def _finish_cancelled(self) -> None:
        super().cancel()
        self.set_running_or_notify_cancel()  # wakes `concurrent.futures.wait`


class Portal:
    """trio in a thread of its own.

    Args:
        name: of the thread, for tracebacks and debuggers.
    """

    def __init__(self, name: str = "acp-jupyter") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop_asked: trio.Event | None = None
        self._stopping = False
        self._ended = False
        self._failure: BaseException | None = None
        self._jobs: set[PortalFuture[Any]] = set()

    def __repr__(self) -> str:
        return f"<Portal {self._name!r} {'running' if self.running else 'stopped'}>"

    @property
    def running(self) -> bool:
        """True between `start` and `stop`, while trio lives."""
        return self._token is not None and not self._stopping and self._pid == os.getpid()

    def start(self) -> None:
        """Start the thread, unless it runs. May be called again after `stop`.

        Raises:
            ACPError: this process is a fork of the one that made the portal, or trio does not run.
        """
        self._refuse_fork()
        if self._ended and self._thread is not None:
            # Trio has ended by itself, and the last lines of its thread still run: a thread that
            # is alive says nothing about trio. Outside the lock, which those lines take.
            self._thread.join(EXIT_LIMIT)
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                if self._stopping or self._ended:
                    raise ACPError(
                        "the connection thread is still stopping.", remedy="Try again shortly."
                    )
                return
            ready = threading.Event()
            self._stopping = self._ended = False
            self._failure = None
            self._thread = threading.Thread(
                target=self._thread_main, args=(ready,), name=self._name, daemon=True
            )
            self._thread.start()
        if not ready.wait(START_LIMIT) or self._token is None:
            raise self._stopped_error()
        atexit.unregister(self._stop_at_exit)
        atexit.register(self._stop_at_exit)

    def submit(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> PortalFuture[T]:
        """Run ``await async_fn(*args)`` as a task of its own.

        Raises:
            ACPError: the portal does not run.
        """
        self._refuse_fork()
        future: PortalFuture[T] = PortalFuture()
        future._portal = self
        context = contextvars.copy_context()
        # Under the lock, so that no job is posted behind the end of the nursery that `stop` posts.
        with self._lock:
            if not self.running or not self._post(self._start_job, context, future, async_fn, args):
                raise self._stopped_error()
            self._jobs.add(future)
        return future

    def cancel(self, future: PortalFuture[Any]) -> bool:
        """Ask a job to stop; ``False`` if it has already ended. From any thread."""
        if future.done():
            return False
        future._cancel_asked = True
        self._post(self._cancel_job, future)
        return True

    def call(
        self,
        async_fn: Callable[..., Awaitable[T]],
        *args: object,
        serve: Callable[[], object] | None = None,
        poll: float = 0.1,
    ) -> T:
        """`submit`, then `wait`."""
        return self.wait(self.submit(async_fn, *args), serve=serve, poll=poll)

    def wait(
        self,
        future: PortalFuture[T],
        *,
        serve: Callable[[], object] | None = None,
        poll: float = 0.1,
    ) -> T:
        """Block until a job has ended; its result, or what it raised.

        KeyboardInterrupt, and whatever ``serve`` raises, leave the job running: wait again, or
        cancel the future.

        Args:
            future: from `submit`.
            serve: work for the waiting thread, called every ``poll`` seconds and once at the end.
            poll: seconds.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("Portal.wait would block trio's own thread; await instead")
        while not future.done():
            concurrent.futures.wait((future,), timeout=poll)
            if serve is not None:
                serve()
        return future.result()

    def run_soon(self, fn: Callable[..., object], *args: object) -> bool:
        """Call ``fn(*args)`` in trio's thread, in the order of the calls; from any thread.

        Returns:
            False, and does nothing, if the portal does not run. What ``fn`` raises is logged.
        """
        return self.running and self._post(self._call_logged, fn, args)

    def stop(self, timeout: float = EXIT_LIMIT) -> bool:
        """Cancel every job, wait for them and end the thread.

        Args:
            timeout: seconds; after it the futures that are left fail, and the daemon thread goes
                on by itself.

        Returns:
            True if the thread has ended.
        """
        if self._pid != os.getpid():
            return True  # a fork has no thread to stop
        thread = self._thread
        if thread is None:
            return True
        with self._lock:
            self._stopping = True
        atexit.unregister(self._stop_at_exit)
        self._post(self._cancel_all)
        if thread is not threading.current_thread():
            thread.join(timeout)
        if thread.is_alive():
            self._fail_jobs()
            return False
        return True

    def _stop_at_exit(self) -> None:
        self.stop(EXIT_LIMIT)

    def _refuse_fork(self) -> None:
        if self._pid != os.getpid():
            raise ACPError(
                "agents cannot be used from a forked process.",
                remedy="Use them in the notebook's own process.",
            )

    def _stopped_error(self) -> ACPError:
        error = ACPError(
            "the connection thread has stopped.", remedy="Restart the kernel, or connect again."
        )
        error.__cause__ = self._failure
        return error

    def _post(self, fn: Callable[..., object], *args: object) -> bool:
        """Have trio's thread call ``fn``; False if it does not run."""
        token = self._token
        if token is None:
            return False
        from trio import RunFinishedError

        try:
            token.run_sync_soon(fn, *args)
        except RunFinishedError:
            return False
        return True

    def _fail_jobs(self) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, set()
        for future in jobs:
            if not future.done():
                future.set_exception(self._stopped_error())

    # What follows runs in trio's thread.

    def _thread_main(self, ready: threading.Event) -> None:
        try:
            import trio

            trio.run(self._serve, ready)
        except BaseException as error:
            self._failure = error  # the cause of every error from now on
            raise  # shown by threading.excepthook
        finally:
            self._ended = True
            self._token = self._nursery = self._stop_asked = None
            self._fail_jobs()
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        import trio

        self._stop_asked = trio.Event()
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            ready.set()
            await self._stop_asked.wait()

    def _start_job(
        self,
        context: contextvars.Context,
        future: PortalFuture[T],
        async_fn: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
    ) -> None:
        assert self._nursery is not None
        # A task takes a copy of the context that it is spawned in.
        context.run(self._nursery.start_soon, self._run_job, future, async_fn, args)

    async def _run_job(
        self,
        future: PortalFuture[T],
        async_fn: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
    ) -> None:
        import trio

        # What holds when the job's scope swallows its cancellation, or trio's own passes by.
        settle: Callable[[], None] = partial(self._settle_unfinished, future)
        try:
            with trio.CancelScope() as future._scope:
                if future._cancel_asked or self._stopping:
                    future._scope.cancel()
                    await trio.lowlevel.checkpoint()
                settle = partial(future.set_result, await async_fn(*args))
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001  # raised again where the future is awaited
            settle = partial(future.set_exception, error)
        finally:
            with self._lock:
                left = future in self._jobs
                self._jobs.discard(future)
            if left:  # not failed by `stop` already
                settle()

    def _settle_unfinished(self, future: PortalFuture[Any]) -> None:
        if future._cancel_asked:
            future._finish_cancelled()
        else:
            future.set_exception(self._stopped_error())

    def _cancel_job(self, future: PortalFuture[Any]) -> None:
        if future._scope is not None:
            future._scope.cancel()

    def _cancel_all(self) -> None:
        with self._lock:
            jobs = list(self._jobs)
        for future in jobs:
            self._cancel_job(future)
        if self._stop_asked is not None:
            self._stop_asked.set()

    def _call_logged(self, fn: Callable[..., object], args: tuple[object, ...]) -> None:
        try:
            fn(*args)
        except Exception:  # noqa: BLE001
            # Nobody waits for it, and raising it here would end trio and with it every agent.
            _log.exception("a callback in trio's thread failed")
