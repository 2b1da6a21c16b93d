"""Where the runs of a sweep are executed: in processes of this machine, or by Dask's workers.

Both take the same jobs and tell of the same ends. A run is always a process of its own (`one_run`),
started in a folder of its own in the results, so that one that crashes takes nothing with it. Its
standard input is its lifeline: a run ends when whoever started it is gone, however that was.
Workers of Dask on other machines need the results' directory under the same path.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ..connection.environment import without_tokens
from ..errors import ACPError, UsageError
from .directory import Results

JOB: Final = "job.json"
STDERR: Final = "stderr.txt"
STOP: Final = "stop"
"""In the folder of a run in flight: what it has to do, what it said, and that it is to end."""

GRACE: Final = 10.0
"""Seconds for a run to end in order, which cancels its turn, then for its kernel to be ended."""

POLL: Final = 0.25
"""Seconds in which it is noticed that a run is to be stopped."""

WORDS: Final = 4_000
"""Bytes of a run's standard error that are told."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run to be made; plain data, which goes to other machines.

    Attributes:
        results: the directory of the results.
        key: of the run.
        orders: for `one_run`, as JSON has it.
    """

    results: str
    key: str
    orders: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended.

    Attributes:
        key: of the run.
        attempt: its folder.
        code: exit code of its process; 0 if its results are all there.
        words: the end of its standard error.
    """

    key: str
    attempt: str
    code: int
    words: str


class Executor(Protocol):
    """Executes jobs; a `with closing(…)` around it ends what still runs."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Ended]:
        """Execute all, in any order; yields each as it ends."""

    def close(self) -> None:
        """Stop what runs, in order, and wait for it; do not begin what does not."""


def execute(job: Job, stopped: Callable[[Path], bool]) -> Ended:
    """Make one run in a process of its own, and wait for it.

    Args:
        job: what to run.
        stopped: asked all the time whether the run in that folder is to end.

    Raises:
        ACPError: it could not be started.
    """
    attempt = Results(Path(job.results)).attempt(job.key)
    try:
        (attempt / JOB).write_text(json.dumps(dict(job.orders)), encoding="utf-8")
        with (attempt / STDERR).open("wb") as words:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "acp_jupyter.experiments.one_run", os.fspath(attempt)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=words,
                # The terminal's Ctrl-C is for the sweep, which stops its runs in order.
                start_new_session=True,
                env=without_tokens(os.environ),
            )
    except OSError as error:
        raise ACPError(f"the run {job.key} cannot be started: {error}") from error
    with process:
        try:
            code = _wait(process, lambda: stopped(attempt))
        finally:
            if process.poll() is None:
                _end(process)
    return Ended(job.key, os.fspath(attempt), code, _tail(attempt / STDERR))


def _wait(process: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> int:
    while True:
        try:
            return process.wait(POLL)
        except subprocess.TimeoutExpired:
            if stopped():
                return _end(process)


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a run: in order, then at once, then by force."""
    for _ in range(2):
        process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        try:
            return process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass
    process.kill()
    return process.wait()


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - WORDS))
            return file.read(WORDS).decode("utf-8", "replace").strip()
    except OSError:
        return ""


class LocalProcesses:
    """Runs on this machine.

    Args:
        jobs: how many at once.
    """

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"--jobs {jobs}: at least one run has to be made at a time")
        self._pool = concurrent.futures.ThreadPoolExecutor(jobs, thread_name_prefix="acp-run")
        self._stopped = threading.Event()

    def run(self, jobs: Sequence[Job]) -> Iterator[Ended]:
        futures = [
            self._pool.submit(execute, job, lambda _: self._stopped.is_set()) for job in jobs
        ]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()

    def close(self) -> None:
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)


class DaskWorkers:
    """Runs by the workers of a Dask cluster.

    Args:
        address: of its scheduler, such as ``tcp://host:8786``.

    Raises:
        UsageError: distributed is not installed, or nobody answers at the address.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise UsageError(
                "--dask needs the package distributed, which is not installed",
                remedy="pip install 'acp-jupyter[dask]'",
            ) from error
        try:
            self._client = Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler can be reached at {address}: {error}",
                remedy="Start one with `dask scheduler`, and workers with `dask worker`.",
            ) from error
        self._jobs: Sequence[Job] = ()
        self._futures: list[Any] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[Ended]:
        from distributed import as_completed

        self._jobs = jobs
        # Not pure: what was run and lost before is run again.
        self._futures = self._client.map(execute_on_worker, jobs, pure=False)
        for future in as_completed(self._futures, loop=self._client.loop):
            yield future.result()

    def close(self) -> None:
        pending = [future for future in self._futures if not future.done()]
        if pending:
            self._client.cancel(pending)  # those that have not begun
            for job in self._jobs:
                for attempt in Results(Path(job.results)).runs.glob(f".{job.key}.*"):
                    (attempt / STOP).touch()
        self._client.close()


def execute_on_worker(job: Job) -> Ended:
    """`execute`, where only the results' directory can tell that a run is to end."""
    if not Path(job.results, "sweep.json").is_file():
        raise ACPError(
            f"a Dask worker finds no results in {job.results}",
            remedy="Its machine needs the same directory under the same path.",
        )
    return execute(job, lambda attempt: not attempt.is_dir() or (attempt / STOP).exists())


def executor(jobs: int, dask: str | None) -> closing[Executor]:
    """The one that was asked for, for a `with` statement.

    Raises:
        UsageError: there is none.
    """
    return closing(DaskWorkers(dask) if dask else LocalProcesses(jobs))
