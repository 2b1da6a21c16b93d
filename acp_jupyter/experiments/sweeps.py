"""A sweep: the runs of a grid that are not there yet, and the table of all.

`sweep` may be stopped at any moment, and started again with the same arguments: what has ended is
not run again (`directory`). A grid may also grow, by values or by repetitions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ACPError, UsageError
from ..services.workspace import copies
from . import grid, table
from .directory import Isolate, Manifest, Results
from .directory import read_run as read_run_file
from .executors import Ended, Job, executor

if TYPE_CHECKING:
    import pandas

    from .grid import Grid, Point

CSV: Final = "table.csv"
PARQUET: Final = "table.parquet"
MODES: Final = ("ask", "deny", "allow")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How each run is made.

    Attributes:
        timeout: seconds for each cell; ``None`` is no limit.
        permissions: a mode, or the path of a policy file; ``None`` is what the settings say.
        budget: cost that a run may have; ``None`` is no limit.
        record: keep what agents said, to replay it.
    """

    timeout: float | None = None
    permissions: str | None = None
    budget: float | None = None
    record: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be swept.

    Attributes:
        results: where to.
        manifest: what the directory will say, or says.
        text: of the notebook.
        points: of the grid, by the keys of their runs.
        finished: keys of those that have ended.
    """

    results: Results
    manifest: Manifest
    text: str
    points: Mapping[str, Point]
    finished: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """Keys of the runs to be made, in order."""
        return [key for key in self.points if key not in self.finished]


@dataclass(slots=True)
class Sweep:
    """What a sweep has done.

    Attributes:
        path: the directory of the results.
        parameters: of the grid.
        total: runs of the grid.
        before: those that had ended before.
        done: those that ended now.
        failed: keys of those of the grid whose notebook did not end well, with the error.
        lost: keys of those that could not be made, with the reason.
        rows: of the table, see `table.COLUMNS`.
    """

    path: Path
    parameters: tuple[str, ...]
    total: int = 0
    before: int = 0
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    rows: list[table.Row] = field(default_factory=list, repr=False)

    def to_frame(self) -> pandas.DataFrame:
        """The table as a data frame.

        Raises:
            UsageError: pandas is not installed.
        """
        frame: pandas.DataFrame = table.to_frame(self.rows, self.parameters)
        return frame

    def as_json(self) -> dict[str, Any]:
        """For programs: counts, and what went wrong by the keys of the runs."""
        return {
            "results": os.fspath(self.path),
            "total": self.total,
            "before": self.before,
            "done": self.done,
            "failed": self.failed,
            "lost": self.lost,
        }


def plan(
    notebook: str | os.PathLike[str],
    over: Grid,
    *,
    output: str | os.PathLike[str],
    repeat: int = 1,
    folder: str | os.PathLike[str] | None = None,
    isolate: Isolate = "copy",
    settings: Settings | None = None,
) -> Plan:
    """Find out what there is to do; nothing is written.

    Args:
        notebook: to be run, with a cell that is tagged ``parameters``.
        over: values by parameter.
        output: the directory of the results.
        repeat: runs of each point.
        folder: the workspace; by default the notebook's folder.
        isolate: each run has a copy of it, or a worktree of the git repository that it is.
        settings: of each run.

    Raises:
        UsageError: something of it cannot be, or the directory holds other runs.
    """
    import nbformat

    from ..export.file import read_notebook

    path = Path(notebook).absolute()
    # nbformat joins lines only of what it reads itself.
    held = nbformat.reads(json.dumps(read_notebook(path)), as_version=4)
    settings = settings or Settings()
    place = Path(os.path.realpath(folder if folder is not None else path.parent))
    if not place.is_dir():
        raise UsageError(f"{place} is no directory", remedy="Name the workspace's folder.")
    results = Results(Path(output))
    known = results.manifest()
    commit = known.commit if known is not None else ""
    if isolate == "worktree" and not commit:
        commit = copies.commit_of(place)
    points = grid.points(over, repeat)
    digest = grid.digest(held)
    manifest = Manifest(
        notebook=os.fspath(path),
        digest=digest,
        workspace=os.fspath(place),
        inside=_inside(path.parent, place),
        isolate=isolate,
        commit=commit,
        settings=_settings(settings),
        parameters=tuple(over),
    )
    results.check(manifest)
    text: str = nbformat.writes(held)
    keyed = {grid.key(digest, point): point for point in points}
    return Plan(results, manifest, text, keyed, frozenset(results.finished() & keyed.keys()))


def _inside(folder: Path, place: Path) -> str:
    """Where the notebook's folder is in the workspace; its top where it is outside."""
    real = Path(os.path.realpath(folder))
    return os.fspath(real.relative_to(place)) if real.is_relative_to(place) else "."


def _settings(settings: Settings) -> dict[str, Any]:
    """As the manifest has them, with a policy by what it says."""
    from ..host.report import policy_facts
    from ..services.policy_file import read_policy

    held: dict[str, Any] = {
        "timeout": settings.timeout,
        "budget": settings.budget,
        "record": settings.record,
        "permissions": settings.permissions,
        "policy": None,
    }
    if settings.permissions is not None:
        held["policy"] = policy_facts(read_policy(settings.permissions))["digest"]
        if settings.permissions not in MODES:
            held["permissions"] = os.path.realpath(settings.permissions)
    return held


def sweep(
    notebook: str | os.PathLike[str],
    over: Grid,
    *,
    output: str | os.PathLike[str],
    repeat: int = 1,
    jobs: int = 1,
    folder: str | os.PathLike[str] | None = None,
    isolate: Isolate = "copy",
    timeout: float | None = None,
    permissions: str | None = None,
    budget: float | None = None,
    record: bool = False,
    retry_failed: bool = False,
    dask: str | None = None,
    say: Say = lambda _: None,
) -> Sweep:
    """Run a notebook for each point of a grid, but for what has been run before.

    Args:
        notebook: to be run, with a cell that is tagged ``parameters``.
        over: values by parameter.
        output: the directory of the results.
        repeat: runs of each point.
        jobs: runs at once on this machine.
        folder: the workspace; by default the notebook's folder.
        isolate: each run has a copy of it, or a worktree of the git repository that it is.
        timeout: seconds for each cell of a run.
        permissions: a mode, or the path of a policy file; by default as configured.
        budget: cost that a run may have.
        record: keep what agents said, to replay it.
        retry_failed: run those again whose notebook did not end well.
        dask: address of a scheduler, whose workers make the runs instead.
        say: gets a line when a run has ended.

    Raises:
        UsageError: something of it cannot be, or the directory holds other runs.
        ACPError: the first run could not be made, or the results cannot be written.
    """
    settings = Settings(timeout, permissions, budget, record)
    planned = plan(
        notebook,
        over,
        output=output,
        repeat=repeat,
        folder=folder,
        isolate=isolate,
        settings=settings,
    )
    return execute(planned, jobs=jobs, dask=dask, retry_failed=retry_failed, say=say)


def execute(
    planned: Plan,
    *,
    jobs: int = 1,
    dask: str | None = None,
    retry_failed: bool = False,
    say: Say = lambda _: None,
) -> Sweep:
    """Make the missing runs of a plan, and write the table; see `sweep`."""
    results, manifest = planned.results, planned.manifest
    with results.lock():
        _set_up(planned)
        if retry_failed:
            planned = _without_failed(planned)
        missing = planned.missing
        made = Sweep(
            results.path,
            manifest.parameters,
            total=len(planned.points),
            before=len(planned.points) - len(missing),
        )
        orders = [_job(planned, key) for key in missing]
        try:
            if orders:
                with executor(min(jobs, len(orders)) if jobs > 0 else jobs, dask) as running:
                    for ended in running.run(orders):
                        _take(planned, made, ended, say)
        finally:
            _clear(planned)
            _write_table(planned, made)
    return made


def _set_up(planned: Plan) -> None:
    results, manifest = planned.results, planned.manifest
    if results.manifest() is None:
        source = Path(manifest.workspace)

        def copy(place: Path) -> None:
            if manifest.isolate == "copy":
                copies.copy(source, place, leave_out=[results.path])
                return
            copies.add_worktree(source, place, manifest.commit)
            (place / ".git").unlink()  # what a worktree holds, and none any more
            copies.prune_worktrees(source)

        results.begin(manifest, planned.text, copy)
    results.check(manifest)  # another sweep may have set it up since
    _clear(planned)


def _clear(planned: Plan) -> None:
    """Remove what runs left that did not end."""
    if planned.results.clear() and planned.manifest.isolate == "worktree":
        copies.prune_worktrees(Path(planned.manifest.workspace))


def _without_failed(planned: Plan) -> Plan:
    """The plan with the failed runs forgotten, in the directory too."""
    failed = [key for key in planned.finished if planned.results.read(key)["status"] != "ok"]
    for key in failed:
        planned.results.forget(key)
    finished = planned.finished - frozenset(failed)
    return Plan(planned.results, planned.manifest, planned.text, planned.points, finished)


def _job(planned: Plan, key: str) -> Job:
    point, manifest = planned.points[key], planned.manifest
    orders = {
        "key": key,
        "parameters": dict(point.parameters),
        "repeat": point.repeat,
        **{name: getattr(manifest, name) for name in ("workspace", "inside", "isolate", "commit")},
        **{name: value for name, value in manifest.settings.items() if name != "policy"},
    }
    return Job(os.fspath(planned.results.path), key, orders)


def _take(planned: Plan, made: Sweep, ended: Ended, say: Say) -> None:
    """Keep a run that has ended, or note why it is lost."""
    label = planned.points[ended.key].label
    if ended.code != 0:
        why = _why(ended)
        if not made.done:
            raise ACPError(f"the first run could not be made ({label}): {why}")
        made.lost[ended.key] = why
        say(f"lost: {label}: {why}")
        return
    run = read_run_file(Path(ended.attempt) / "run.json")
    planned.results.keep(Path(ended.attempt), ended.key)
    made.done += 1
    place = made.before + made.done + len(made.lost)
    say(f"[{place}/{made.total}] {label}: {run['status']}, {run['seconds']:.1f} s")


def _why(ended: Ended) -> str:
    """Why a run is lost; of a traceback only what it leads to."""
    words = ended.words or f"its process ended with {ended.code}"
    return words.splitlines()[-1] if "Traceback" in words else words


def _write_table(planned: Plan, made: Sweep) -> None:
    """All runs in the directory: those of the grid in its order, then those of earlier grids."""
    results = planned.results
    finished = results.finished()
    ordered = [key for key in planned.points if key in finished]
    ordered += sorted(finished - planned.points.keys())
    for key in ordered:
        run = results.read(key)
        made.rows += table.rows(run)
        if run["status"] != "ok" and key in planned.points:
            made.failed[key] = run["error"] or run["status"]
    parameters = planned.manifest.parameters
    results.write(CSV, table.to_csv(made.rows, parameters))
    if table.parquet_is_there():
        temporary = results.path / f".{PARQUET}"
        table.write_parquet(made.rows, parameters, temporary)
        os.replace(temporary, results.path / PARQUET)


def read_rows(output: str | os.PathLike[str]) -> tuple[list[table.Row], Sequence[str]]:
    """The table of a directory, and the names of its parameters; see `table.COLUMNS`."""
    runs, manifest = read_runs(output)
    return [row for run in runs for row in table.rows(run)], manifest.parameters


def read_runs(output: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], Manifest]:
    """All runs of a directory, by their parameters and repetitions.

    Raises:
        UsageError: it holds no sweep, or no run has ended yet.
    """
    results = Results(Path(output))
    manifest = results.manifest()
    if manifest is None:
        raise UsageError(
            f"{output} holds no results", remedy="Name the directory of `acp-jupyter sweep -o`."
        )
    runs = [results.read(key) for key in sorted(results.finished())]
    if not runs:
        raise UsageError(f"no run in {output} has ended yet", remedy="Start the sweep again.")
    runs.sort(key=lambda run: (repr(sorted(run["parameters"].items())), run["repeat"]))
    return runs, manifest
