"""A notebook's cells in a kernel, through nbclient: each to its end, or stopped in order.

nbclient runs the cells and gathers their outputs. What is added to it:

* A cell's tags and id are sent along, as JupyterLab does.
* A cell can be stopped, by a time limit or a signal: it is interrupted, which lets an agent end its
  turn, and after `GRACE` seconds, or at the second signal, the kernel is killed.
* What the kernel reports of agents (`host.report`) is passed on, and so is what they do meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbclient.util import ensure_async

from ..host.report import MESSAGE
from ..rendering.entrydata import MIME
from .parameters import tags
from .result import CellResult, Stop

GRACE: Final = 35.0
"""Seconds a stopped cell has to end: an agent has 30 to end its turn after a cancel."""

SAVE_EVERY: Final = 2.0
"""Seconds after which a cell's new outputs are saved while it runs."""

READY: Final = 60
"""Seconds a kernel has to get ready."""

_STOPPED: Final = {
    "timeout": ("CellTimeout", "the cell took longer than {limit:g} s and was stopped"),
    "interrupted": ("RunInterrupted", "the run was interrupted"),
    "terminated": ("RunTerminated", "the run was told to end"),
    "dead": ("KernelDied", "the kernel died"),
}


class Execution(NotebookClient):
    """See the module.

    Args:
        notebook: it is changed in place.
        kernel: name of the kernelspec.
        limit: seconds for each cell; ``None`` is no limit.
        on_report: gets the kernel's reports, with the index of the cell.
        on_activity: gets a line on what the agent does.
        on_cell: called before and after each code cell with its result.
        save: writes the notebook.

    Attributes:
        stopped: why it does not run on; empty if nothing stopped it.
        results: one for each code cell.
    """

    def __init__(
        self,
        notebook: Any,
        kernel: str,
        *,
        limit: float | None,
        on_report: Callable[[int, dict[str, Any]], None],
        on_activity: Callable[[str], None],
        on_cell: Callable[[CellResult], None],
        save: Callable[[], None],
    ) -> None:
        super().__init__(
            notebook,
            kernel_name=kernel,
            timeout=None,  # ours interrupts in order
            startup_timeout=READY,
            allow_errors=False,
            extra_arguments=["--log-level=ERROR"],
        )
        self._limit = limit
        self._on_report = on_report
        self._on_activity = on_activity
        self._on_cell = on_cell
        self._save = save
        self._dirty = False
        self._running: asyncio.Task[Any] | None = None
        self._main: asyncio.Task[Any] | None = None
        self._wake = asyncio.Event()
        self._kill = False
        self.stopped: Stop = ""
        self.dead = False
        self.results = [
            CellResult(index, cell.get("id", ""))
            for index, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and cell.source.strip()
        ]

    async def run(self, **start: Any) -> None:
        """Run all cells until one fails or something stops the run.

        Args:
            start: what the kernel is started with, ``env`` and ``cwd``.

        Raises:
            NoSuchKernel: there is no kernel of that name.
            RuntimeError: it did not start.
        """
        self._main = asyncio.current_task()
        self.reset_execution_trackers()
        saving = asyncio.create_task(self._save_often())
        try:
            async with self.async_setup_kernel(**start):
                await self._read_language()
                for result in self.results:
                    if self.stopped or not await self._run_cell(result):
                        break
                self.set_widgets_metadata()
        except asyncio.CancelledError:
            if not self.stopped:
                raise
        finally:
            saving.cancel()
            self._save()

    async def async_start_new_kernel(self, **start: Any) -> None:
        """Called by nbclient, which has just set handlers of its own that end the run unsaved."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, self.stop, "interrupted")
            loop.add_signal_handler(signal.SIGTERM, self.stop, "terminated")
        await super().async_start_new_kernel(**start)

    async def async_start_new_kernel_client(self) -> Any:
        client: Any = await super().async_start_new_kernel_client()
        client.execute = self._execute
        return client

    def _execute(self, code: str, *, store_history: bool, stop_on_error: bool) -> str:
        """In place of the client's, which sends no metadata."""
        assert self.kc is not None
        content = {
            "code": code,
            "silent": False,
            "store_history": store_history,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": stop_on_error,
        }
        message = self.kc.session.msg("execute_request", content, metadata=self._metadata)
        self.kc.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    async def _read_language(self) -> None:
        assert self.kc is not None
        reply = await self.async_wait_for_reply(await ensure_async(self.kc.kernel_info()))
        if reply is not None and "language_info" in reply["content"]:
            self.nb.metadata["language_info"] = reply["content"]["language_info"]

    # -- one cell ------------------------------------------------------------------------------

    async def _run_cell(self, result: CellResult) -> bool:
        """Run a cell to its end; whether to go on."""
        cell = self.nb.cells[result.index]
        self._metadata = {"tags": tags(cell), "cellId": result.id}
        self._on_cell(result)
        begun = time.monotonic()
        result.status = "error"
        ename, evalue = "", ""
        self._running = asyncio.create_task(self.async_execute_cell(cell, result.index))
        try:
            await self._end_of(self._running, begun)
            result.status = "ok"
        except CellExecutionError as error:
            ename, evalue = error.ename, error.evalue
        except DeadKernelError:
            self.dead = True
        finally:
            self._running = None
        result.seconds = round(time.monotonic() - begun, 3)
        if self.stopped or self.dead:
            ename, evalue = self._tell_stop(cell)
            result.status = "error"
        if ename:
            result.error = f"{ename}: {evalue}".strip().split("\n", 1)[0]
        self._save()
        self._on_cell(result)
        return result.status == "ok"

    async def _end_of(self, running: asyncio.Task[Any], begun: float) -> None:
        """Wait for a cell; what stops it interrupts it, or kills its kernel."""
        deadline = None if self._limit is None else begun + self._limit
        while not running.done():
            waking = asyncio.ensure_future(self._wake.wait())
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            await asyncio.wait({running, waking}, timeout=left, return_when="FIRST_COMPLETED")
            waking.cancel()
            if running.done():
                break
            self._wake.clear()
            assert self.km is not None
            passed = deadline is not None and time.monotonic() >= deadline
            if self._kill or (passed and self.stopped):
                deadline = None
                await ensure_async(self.km.shutdown_kernel(now=True))  # nbclient notices it
            elif passed or self.stopped:
                self.stopped = self.stopped or "timeout"
                deadline = time.monotonic() + GRACE
                await ensure_async(self.km.interrupt_kernel())
        await running

    def stop(self, why: Stop) -> None:
        """Stop the run; the second time at once."""
        if self.stopped:
            self._kill = True
        else:
            self.stopped = why
        self._wake.set()
        if self._running is None and self._main is not None:  # the kernel is starting
            self._main.cancel()

    def _tell_stop(self, cell: Any) -> tuple[str, str]:
        name, text = _STOPPED[self.stopped or "dead"]
        text = text.format(limit=self._limit)
        traceback = [f"{name}: {text}"]
        cell.outputs.append(
            nbformat.v4.new_output("error", ename=name, evalue=text, traceback=traceback)
        )
        return name, text

    # -- messages ------------------------------------------------------------------------------

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Called by nbclient with each message of the cell that runs."""
        self._dirty = True
        if msg["msg_type"] == MESSAGE:
            self._on_report(cell_index, msg["content"])
            return None
        for line in _activity(msg):
            self._on_activity(line)
        return super().process_message(msg, cell, cell_index)

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY)
            if self._dirty:
                self._dirty = False
                with contextlib.suppress(OSError):  # the last save tells
                    self._save()


def _activity(message: dict[str, Any]) -> Iterator[str]:
    """What an output says of a tool call or a question, in one line."""
    data = message["content"].get("data")
    entry = data.get(MIME) if isinstance(data, dict) else None
    if isinstance(entry, dict) and entry.get("type") in ("tool_call", "permission", "elicitation"):
        label = entry.get("label")
        if isinstance(label, str):
            yield label
