"""`run_notebook`: a notebook executed from its first cell to its last with nobody there.

The rules:

* The notebook that is read is not changed; the executed one is written from the beginning, after
  each cell and while a cell runs, each time as a whole.
* The kernel works in ``cwd``, by default the notebook's folder, as Jupyter has it.
* Nobody can answer: what the policy does not allow is denied.
* A cell that fails ends the run, unless it is tagged ``raises-exception``. Checks and denied
  permissions only count at the end, and only where they are asked to.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..connection.environment import without_tokens
from ..errors import ACPError, CheckFailed, UsageError
from ..host.recordings import RECORD_VARIABLE, sidecar_of
from ..host.report import BUDGET, VARIABLE
from ..session.limits import NO_LIMITS, Limits
from . import header as headers
from .parameters import inject
from .progress import Progress, Silent
from .result import RunResult, Stop
from .saving import NotebookFile

Permissions = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Demands:
    """What makes a run fail besides a cell that fails."""

    on_check: bool = False
    on_denied: bool = False


def run_notebook(
    notebook: str | os.PathLike[str],
    output: str | os.PathLike[str],
    parameters: Mapping[str, Any] | None = None,
    *,
    permissions: Permissions | None = None,
    budget: Limits | float | None = None,
    timeout: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    kernel: str = "",
    fail_on_check: bool = False,
    fail_on_denied: bool = False,
    record: bool = False,
    env: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Execute a notebook, from a program or another notebook.

    Args:
        notebook: the file to run.
        output: where the executed one goes; it may be the same file.
        parameters: JSON values by name, by papermill's conventions (see `parameters`).
        permissions: "deny" or "allow", or the path of a policy file; by default as configured.
        budget: what all prompt turns together may take; a number is a cost.
        timeout: seconds for each cell.
        cwd: where the kernel works; by default the notebook's folder.
        kernel: name of a kernelspec, in place of the notebook's own.
        fail_on_check: a check that does not pass makes the run fail.
        fail_on_denied: so does a permission that was denied.
        record: keep what the agents say in a recording beside the executed notebook, as
            ``acp.record`` in the notebook's metadata asks for it too.
        env: further variables of the kernel's environment.
        progress: gets told what happens.

    SIGINT and SIGTERM stop the run in order, if it has the main thread for itself.

    Returns:
        What became of it, also where it failed.

    Raises:
        UsageError: it cannot be run as asked; nothing was started.
        ACPError: the kernel did not start.
    """
    limits = budget if isinstance(budget, Limits) else Limits(cost=budget)
    limits.check()
    if timeout is not None and not timeout > 0:
        raise UsageError(f"a cell's time limit must be more than 0, not {timeout}")
    source = Path(notebook)
    run = _Run(
        source=source,
        file=NotebookFile(Path(output)),
        parameters=dict(parameters or {}),
        cwd=_directory(source.parent if cwd is None else Path(cwd)),
        kernel=kernel,
        environment=_environment(permissions, limits, env or {}),
        budget=limits,
        timeout=timeout,
        demands=Demands(fail_on_check, fail_on_denied),
        record=record,
        progress=progress or Silent(),
    )
    return _in_new_loop(run.execute)


def _in_new_loop(function: Callable[[], Any]) -> RunResult:
    """Run a coroutine; in a thread of its own where a loop runs in this one, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        result: RunResult = asyncio.run(function())
        return result
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, function()).result()


def _directory(path: Path) -> str:
    directory = os.path.realpath(path)
    if not os.path.isdir(directory):
        raise UsageError(f"{path} is no directory", remedy="Make it, or name another one.")
    return directory


def _environment(
    permissions: Permissions | None, budget: Limits, further: Mapping[str, str]
) -> dict[str, str]:
    """The kernel's environment: the user's, and what the run asks of it."""
    from ..services.policy_file import read_policy

    environment = {**without_tokens(os.environ), **further, VARIABLE: "1"}
    environment.pop(BUDGET, None)
    if permissions is not None:
        policy = read_policy(permissions)  # fails here, not in a kernel
        environment["ACP_JUPYTER_PERMISSIONS"] = policy.source or policy.default
    if budget != NO_LIMITS:
        caps = {"cost": budget.cost, "seconds": budget.seconds, "tokens": budget.tokens}
        environment[BUDGET] = json.dumps(caps)
    return environment


@dataclass(slots=True)
class _Run:
    source: Path
    file: NotebookFile
    parameters: dict[str, Any]
    cwd: str
    kernel: str
    environment: dict[str, str]
    budget: Limits
    timeout: float | None
    demands: Demands
    record: bool
    progress: Progress

    async def execute(self) -> RunResult:
        from ..export.file import read_notebook

        begun = time.monotonic()
        notebook = nodes(read_notebook(self.source))
        kernel, language = _kernel(notebook, self.kernel)
        _clear(notebook)
        if not inject(notebook, self.parameters, language):
            self.progress.note("No cell is tagged `parameters`: they are set in the first cell.")
        result = RunResult(output=str(self.file.path))
        result.header = headers.make(
            notebook,
            name=self.source.name,
            kernel=kernel,
            parameters=self.parameters,
            cwd=self.cwd,
            output=self.file.path,
        )
        held = notebook.metadata.get("acp")
        if self.record or (isinstance(held, dict) and held.get("record") is True):
            self.environment[RECORD_VARIABLE] = str(sidecar_of(self.file.path.absolute()))
        stopped, dead = await self._run_cells(notebook, kernel, result)
        for cell in result.cells:
            cell.error = headers.redacted(cell.error)
        result.seconds = round(time.monotonic() - begun, 3)
        self._judge(result, stopped, dead)
        self.progress.end(result)
        return result

    async def _run_cells(self, notebook: Any, kernel: str, result: RunResult) -> tuple[Stop, bool]:
        """Run the cells; returns why it was stopped, and whether the kernel died.

        Raises:
            UsageError: the notebook cannot be written; nothing was started.
            ACPError: the kernel did not start.
        """
        from .execution import Execution

        held = notebook.metadata.get("acp")
        known = dict(held) if isinstance(held, dict) else {}

        def with_header() -> Any:
            notebook.metadata["acp"] = {**known, headers.KEY: result.header}
            return notebook

        self.file.write_first(with_header())
        execution = Execution(
            notebook,
            kernel,
            limit=self.timeout,
            on_report=lambda index, report: self._take(result, index, report),
            on_activity=self.progress.activity,
            on_cell=lambda found: self.progress.cell(found, result.cells, notebook),
            save=lambda: self.file.write(with_header()),
        )
        result.cells = execution.results
        try:
            await execution.run(env=self.environment, cwd=self.cwd)
        except RuntimeError as error:  # of jupyter_client
            if not execution.stopped:
                raise ACPError(f"the kernel {kernel!r} did not start: {error}") from error
        except OSError as error:
            raise ACPError(f"the run cannot go on: {error}") from error
        return execution.stopped, execution.dead

    def _take(self, result: RunResult, index: int, report: dict[str, Any]) -> None:
        """A report of the kernel's."""
        kind = report.pop("kind", "")
        if kind == "agent":
            headers.add_agent(result.header, report)
        elif kind == "begin":
            self.progress.prompt(str(report.get("prompt", "")))
        elif kind == "turn":
            result.turns.append({"cell": index, **headers.redacted(report)})
            self.progress.turn(report)
        elif kind == "checks":
            found = headers.redacted(report["results"])
            result.checks += [{"cell": index, **check} for check in found]
            self.progress.checks(report["results"])

    def _judge(self, result: RunResult, stopped: Stop, dead: bool) -> None:
        failed = next((cell for cell in result.cells if cell.status == "error"), None)
        if stopped:
            result.status = stopped
        elif dead:
            result.status = "dead"
        elif failed is not None and failed.error.startswith(f"{CheckFailed.__name__}:"):
            result.status = "check"
        elif failed is not None:
            result.status = "budget" if _is_spent(self.budget, result.turns) else "error"
        if result.status != "ok":
            result.error = failed.error if failed is not None else f"the run was {stopped}"
            return
        wrong = len(result.checks) - result.checks_passed
        denied = sum(turn.get("permissions_denied", 0) for turn in result.turns)
        if self.demands.on_check and wrong:
            result.status = "check"
            result.error = f"{wrong} of {len(result.checks)} checks did not pass"
        elif self.demands.on_denied and denied:
            result.status = "denied"
            result.error = f"{denied} requests for permission were denied"


def _is_spent(budget: Limits, turns: list[dict[str, Any]]) -> bool:
    cost = sum(turn.get("cost") or 0.0 for turn in turns)
    seconds = sum(turn.get("duration_s") or 0.0 for turn in turns)
    tokens = max((turn.get("tokens") or 0 for turn in turns), default=0)
    return (
        (budget.cost is not None and cost >= budget.cost)
        or (budget.seconds is not None and seconds >= budget.seconds)
        or (budget.tokens is not None and tokens > budget.tokens)
    )


def nodes(held: Any) -> Any:
    """A notebook as nbformat has it, of a form in which it can be executed and saved.

    Raises:
        UsageError: it is damaged.
    """
    import nbformat

    try:
        notebook = nbformat.reads(json.dumps(held), as_version=4)
        nbformat.validate(notebook)
    except (nbformat.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise UsageError(f"the notebook is damaged: {reason}") from error
    return notebook


def _kernel(notebook: Any, given: str) -> tuple[str, str]:
    """Name and language of the kernel that is to run a notebook.

    Raises:
        UsageError: there is no such kernel.
    """
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    name = given or notebook.metadata.get("kernelspec", {}).get("name") or "python3"
    try:
        spec = KernelSpecManager().get_kernel_spec(name)
    except NoSuchKernel as error:
        ours = "Run `acp-jupyter install`, or `" if name == "acp" else "`"
        raise UsageError(
            f"there is no kernel {name!r}",
            remedy=f"{ours}jupyter kernelspec list` shows those that there are; "
            "--kernel names another one.",
        ) from error
    return name, str(spec.language).lower()


def _clear(notebook: Any) -> None:
    """Take away what an earlier run has left."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    notebook.metadata.pop("widgets", None)
