from __future__ import annotations

import concurrent.futures
import contextvars
import logging
import os
import subprocess
import sys
import threading
import time

import pytest
import trio

from acp_jupyter.connection.portal import Portal
from acp_jupyter.errors import ACPError

from .conftest import wait_until

LIMIT = 10.0

cell = contextvars.ContextVar("cell", default="none")


@pytest.fixture
def portal():
    portal = Portal("test-portal")
    portal.start()
    yield portal
    assert portal.stop(LIMIT)


def python(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, **kwargs
    )


async def echo(value):
    await trio.lowlevel.checkpoint()
    return value


async def fail(error):
    raise error


def test_the_module_does_not_import_trio():
    code = "import sys, acp_jupyter.connection.portal; print('trio' in sys.modules)"
    assert python(code).stdout == "False\n"


def test_a_call_returns_the_jobs_result(portal):
    assert portal.call(echo, 42) == 42


def test_an_exception_reaches_the_caller_and_nobody_else(portal):
    sleeper = portal.submit(trio.sleep_forever)
    for error in (ValueError("no"), SystemExit(3), TimeoutError("own"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            portal.call(fail, error)
    assert portal.call(echo, 1) == 1
    assert not sleeper.done()
    sleeper.cancel()


def test_jobs_run_at_the_same_time(portal):
    async def meet(mine, other):
        mine.set()
        await other.wait()
        return True

    first, second = trio.Event(), trio.Event()
    futures = [portal.submit(meet, first, second), portal.submit(meet, second, first)]
    assert [future.result(LIMIT) for future in futures] == [True, True]


@pytest.mark.parametrize("way", ["future", "portal"])
def test_cancelling_cancels_the_task_and_the_future_ends_after_its_cleanup(portal, way):
    started, cleaned = threading.Event(), threading.Event()

    async def job():
        try:
            started.set()
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
            cleaned.set()

    future = portal.submit(job)
    assert started.wait(LIMIT)
    assert future.cancel() if way == "future" else portal.cancel(future)
    with pytest.raises(concurrent.futures.CancelledError):
        portal.wait(future)
    assert cleaned.is_set()
    assert future.cancelled()
    assert not future.cancel()


def test_a_job_that_finishes_although_cancelled_keeps_its_result(portal):
    started = threading.Event()

    async def job():
        started.set()
        with trio.CancelScope() as scope:
            try:
                await trio.sleep(LIMIT)
            except trio.Cancelled:
                return "partial"
        return scope

    future = portal.submit(job)
    assert started.wait(LIMIT)
    future.cancel()
    assert portal.wait(future) == "partial"


def test_a_cancel_before_the_job_starts_keeps_it_from_starting(portal):
    blocked = threading.Event()
    ran: list[str] = []

    async def job():
        ran.append("job")

    portal.run_soon(blocked.wait, LIMIT)  # trio's thread is busy
    future = portal.submit(job)
    future.cancel()
    blocked.set()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(LIMIT)
    assert ran == []


def test_a_job_sees_the_callers_context_as_it_was_at_submit(portal):
    async def read():
        await trio.lowlevel.checkpoint()
        return cell.get()

    async def write():
        cell.set("job")

    gate = threading.Event()
    portal.run_soon(gate.wait, LIMIT)
    token = cell.set("first")
    first = portal.submit(read)
    cell.set("second")
    second = portal.submit(read)
    gate.set()
    assert (first.result(LIMIT), second.result(LIMIT)) == ("first", "second")
    portal.call(write)
    assert cell.get() == "second"
    cell.reset(token)


def test_serve_runs_in_the_waiting_thread_while_the_job_runs(portal):
    served = []
    release = trio.Event()

    def serve():
        served.append(threading.current_thread())
        if len(served) == 3:
            portal.run_soon(release.set)

    portal.call(release.wait, serve=serve, poll=0.01)
    assert set(served) == {threading.current_thread()}
    assert len(served) >= 3


def test_an_interrupted_wait_leaves_the_job_running_and_can_be_resumed(portal):
    release = trio.Event()
    calls = []

    def interrupt_once():
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    future = portal.submit(release.wait)
    with pytest.raises(KeyboardInterrupt):
        portal.wait(future, serve=interrupt_once, poll=0.01)
    assert not future.done()
    portal.run_soon(release.set)
    assert portal.wait(future) is None


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_sigint_ends_a_blocking_wait_at_once():
    code = """if True:
    import os, signal, threading, time, trio
    from acp_jupyter.connection.portal import Portal
    portal = Portal()
    portal.start()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    future = portal.submit(trio.sleep_forever)
    began = time.monotonic()
    try:
        portal.wait(future, poll=5)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - began < 2, future.done())
    """
    assert python(code).stdout == "interrupted True False\n"


def test_run_soon_keeps_the_order_of_calls(portal):
    seen: list[int] = []
    for number in range(200):
        assert portal.run_soon(seen.append, number)
    portal.call(echo, None)
    assert seen == list(range(200))


def test_a_failing_callback_is_logged_and_harms_no_job(portal, caplog):
    with caplog.at_level(logging.ERROR):
        portal.run_soon(int, "x")
        assert portal.call(echo, 5) == 5
    assert "invalid literal" in caplog.text


def test_after_stop_nothing_runs_and_nothing_hangs():
    portal = Portal()
    portal.start()
    left = portal.submit(trio.sleep_forever)
    assert portal.stop(LIMIT)
    with pytest.raises(ACPError, match="stopped"):
        left.result(LIMIT)
    with pytest.raises(ACPError, match="stopped"):
        portal.submit(echo, 1)
    assert portal.run_soon(print) is False
    assert not portal.running
    assert portal.stop() is True


def test_a_portal_never_started_refuses_politely():
    with pytest.raises(ACPError, match="stopped"):
        Portal().submit(echo, 1)
    assert Portal().run_soon(print) is False
    assert Portal().stop() is True


def test_a_stopped_portal_starts_again():
    portal = Portal()
    for number in range(3):
        portal.start()
        portal.start()  # harmless
        assert portal.call(echo, number) == number
        assert portal.stop(LIMIT)


def test_a_job_that_will_not_end_does_not_hold_up_stop():
    portal = Portal()
    portal.start()
    release = trio.Event()

    async def stubborn():
        with trio.CancelScope(shield=True):
            await release.wait()

    future = portal.submit(stubborn)
    token = portal.call(current_token)
    assert portal.stop(0.1) is False
    with pytest.raises(ACPError):
        future.result(0)
    with pytest.raises(ACPError, match="still stopping"):
        portal.start()
    token.run_sync_soon(release.set)
    wait_until(lambda: portal.stop(0.1))


async def current_token():
    return trio.lowlevel.current_trio_token()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_crash_of_trio_fails_every_future_instead_of_hanging():
    portal = Portal()
    portal.start()
    waiting = portal.submit(trio.sleep_forever)

    async def crash():
        trio.lowlevel.spawn_system_task(fail, RuntimeError("boom"))
        await trio.sleep_forever()

    crashing = portal.submit(crash)
    for future in (waiting, crashing):
        with pytest.raises(ACPError, match="stopped"):
            future.result(LIMIT)
    wait_until(lambda: not portal.running)
    with pytest.raises(ACPError) as caught:
        portal.submit(echo, 1)
    assert isinstance(caught.value.__cause__, trio.TrioInternalError)
    portal.start()
    assert portal.call(echo, 1) == 1
    assert portal.stop(LIMIT)


def test_submitting_while_stopping_never_hangs_or_crashes():
    for _ in range(20):
        portal = Portal()
        portal.start()
        outcomes: list[concurrent.futures.Future] = []
        under_way = threading.Event()

        def submit_all(portal=portal, outcomes=outcomes, under_way=under_way):
            try:
                while True:
                    outcomes.append(portal.submit(echo, 1))
                    under_way.set()
            except ACPError:
                pass

        threads = [threading.Thread(target=submit_all) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert under_way.wait(LIMIT)
        assert portal.stop(LIMIT)
        for thread in threads:
            thread.join(LIMIT)
        done, not_done = concurrent.futures.wait(outcomes, timeout=LIMIT)
        assert not not_done
        for future in done:
            if not isinstance(future.exception(), ACPError):
                assert future.result() == 1


def test_waiting_in_trios_own_thread_is_refused(portal):
    async def wait():
        return portal.call(echo, 1)

    with pytest.raises(RuntimeError, match="await instead"):
        portal.call(wait)


def test_exit_ends_jobs_in_order_without_being_asked():
    code = """if True:
    import threading, trio
    from acp_jupyter.connection.portal import Portal
    started = threading.Event()
    async def job():
        try:
            started.set()
            await trio.sleep_forever()
        finally:
            print("cleaned up")
    portal = Portal()
    portal.start()
    portal.submit(job)
    started.wait(10)
    """
    done = python(code)
    assert (done.stdout, done.stderr, done.returncode) == ("cleaned up\n", "", 0)


def test_exit_is_not_held_up_by_a_job_that_will_not_end():
    code = """if True:
    import threading, trio
    from acp_jupyter.connection.portal import Portal
    started = threading.Event()
    async def job():
        with trio.CancelScope(shield=True):
            started.set()
            await trio.sleep_forever()
    portal = Portal()
    portal.start()
    portal.submit(job)
    started.wait(10)
    """
    began = time.monotonic()
    assert python(code).returncode == 0
    assert time.monotonic() - began < 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_fork_may_not_use_the_portal_and_exits_cleanly():
    code = """if True:
    import os, sys
    from acp_jupyter.connection.portal import Portal
    from acp_jupyter.errors import ACPError
    portal = Portal()
    portal.start()
    pid = os.fork()
    if pid == 0:
        for use in (portal.start, lambda: portal.submit(print)):
            try:
                use()
            except ACPError as error:
                print(error.message, flush=True)
        print(portal.run_soon(print), portal.running, portal.stop(), flush=True)
        sys.exit()
    print(os.waitpid(pid, 0)[1], portal.running)
    """
    refusal = "agents cannot be used from a forked process.\n"
    assert python(code).stdout == refusal * 2 + "False False True\n" + "0 True\n"
