"""What all tests share: coroutine tests run in trio, and nothing waits without a bound."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from tests.kernel_client import KernelUnderTest, open_kernel
from tests.scripted import Script
from tests.wire_check import Wire

TEST_LIMIT = 60.0
"""Seconds for one coroutine test."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in trio."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def bounded() -> None:
        with trio.fail_after(TEST_LIMIT):
            await pyfuncitem.obj(**arguments)

    trio.run(bounded)
    return True


def wait_until(condition: Callable[[], Any], limit: float = 10.0) -> Any:
    """Poll until ``condition()`` is true and return what it returned; fail after ``limit``."""
    deadline = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {limit} s: {inspect.getsource(condition)}"
        time.sleep(0.01)
    return found


async def trio_wait_until(condition: Callable[[], Any], limit: float = 10.0) -> Any:
    """`wait_until` that lets other tasks run."""
    deadline = trio.current_time() + limit
    while not (found := condition()):
        assert trio.current_time() < deadline, inspect.getsource(condition)
        await trio.sleep(0.01)
    return found


def alive(pid: int) -> bool:
    """True if a process runs; one that has ended but is not reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelUnderTest]:
    with open_kernel(tmp_path_factory.mktemp("kernel")) as running:
        yield running


@pytest.fixture
def kernel(module_kernel: KernelUnderTest) -> KernelUnderTest:
    """A running agent kernel, one for all tests of a module; nobody can answer its questions
    unless a cell allows stdin."""
    return module_kernel.ready()


@pytest.fixture(autouse=True)
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Nothing that the schema does not allow is sent in any test."""
    seen = Wire(monkeypatch)
    yield seen
    seen.check()


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[..., Script]]:
    """Makes scenarios; what the client sent in them is checked against the schema at the end."""
    scripts: list[Script] = []

    def make(
        *,
        capabilities: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
        version: int = 1,
        **functions: Callable[..., None],
    ) -> Script:
        directory = tmp_path / f"script-{len(scripts)}"
        made = Script(directory, functions, capabilities=capabilities, given=given, version=version)
        scripts.append(made)
        return scripts[-1]

    yield make
    for made in scripts:
        made.check_schema()
