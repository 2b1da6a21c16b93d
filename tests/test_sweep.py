"""`acp-jupyter sweep`: grids, copies of workspaces, runs that are kept, and the table."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_jupyter.cli import main
from acp_jupyter.errors import ACPError, UsageError
from acp_jupyter.experiments import directory, grid, sweep, table
from acp_jupyter.experiments.directory import Results, read_run
from acp_jupyter.experiments.sweeps import read_rows, read_runs
from acp_jupyter.services.workspace import copies
from tests.bench.kernels import write_kernel_specs
from tests.live_kernel import kernel_environment

ENDS = 60.0
"""Seconds for processes to notice that nobody waits for them, on a machine that is busy."""

AGENT = """\
import acp_jupyter
with acp_jupyter.connect("demo", permissions="allow") as agent:
    turn = agent.new_session().prompt(text)
turn.check(tool_used="edit")
"""
EFFECT = """\
from pathlib import Path
Path("made.txt").write_text(f"{value}\\nmore\\n")
Path("kept.txt").write_text("new\\n")
"""


def notebook(*sources: str, defaults: str = "value = 0", kernel: str = "python3") -> Any:
    cells = [nbformat.v4.new_code_cell(source) for source in (defaults, *sources)]
    cells[0].metadata["tags"] = ["parameters"]
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, with kernels to run its notebooks, and temporary files of its own."""
    write_kernel_specs(tmp_path)
    for name, value in kernel_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    place = tmp_path / "workspace"
    place.mkdir()
    (place / "kept.txt").write_text("old\n")
    return place


def written(place: Path, *sources: str, **named: str) -> Path:
    path = place / "study.ipynb"
    nbformat.write(notebook(*sources, **named), path)
    return path


# -- the grid ---------------------------------------------------------------------------------


VALUES = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none())
GRIDS = st.dictionaries(
    st.from_regex(r"[a-z]{1,4}_", fullmatch=True),
    st.lists(VALUES, min_size=1, max_size=3, unique_by=json.dumps),
    max_size=3,
)


@given(GRIDS, st.integers(1, 4))
def test_a_grid_has_each_combination_once_for_each_repetition(
    over: dict[str, list[grid.Value]], repeat: int
) -> None:
    points = grid.points(over, repeat)
    expected = repeat
    for values in over.values():
        expected *= len(values)
    keys = [grid.key("n", point) for point in points]
    assert len(points) == len(set(keys)) == expected
    assert all(directory.is_key(key) for key in keys)
    assert all(
        point.parameters[name] in values for point in points for name, values in over.items()
    )


@given(GRIDS)
def test_a_key_depends_on_parameters_but_not_on_their_order(
    over: dict[str, list[grid.Value]],
) -> None:
    for point in grid.points(over):
        turned = grid.Point(dict(reversed(list(point.parameters.items()))), point.repeat)
        assert grid.key("n", turned) == grid.key("n", point)
        assert grid.key("other", point) != grid.key("n", point)
        assert grid.key("n", grid.Point(point.parameters, 2)) != grid.key("n", point)


def test_axes_are_read_as_parameters_are_and_lists_may_hold_commas() -> None:
    read = grid.parse(["a=x,2,true,1.5", 'b=["one, two", 3]'], {"c": "z"})
    assert read == {"a": ["x", 2, True, 1.5], "b": ["one, two", 3], "c": ["z"]}


@pytest.mark.parametrize(
    "axes",
    [["a"], ["a="], ["=1"], ["a=1", "a=2"], ["a=1,1"], ["a=[1"], ["a=[]"], ["a=[[1]]"], ["if=1"]],
)
def test_a_grid_that_cannot_be_is_refused(axes: list[str]) -> None:
    with pytest.raises(UsageError):
        grid.parse(axes)


def test_a_grid_beyond_all_measure_is_refused_before_it_is_made() -> None:
    with pytest.raises(UsageError, match="more than"):
        grid.points({"a": list(range(1_000)), "b": list(range(1_000))}, 1_000)


def test_a_digest_is_that_of_what_runs_and_not_of_what_came_out() -> None:
    made = notebook("print(1)")
    first = grid.digest(made)
    made.cells[1].outputs = [nbformat.v4.new_output("stream", text="1")]
    made.cells[1].execution_count = 7
    made.metadata["language_info"] = {"name": "python"}
    assert grid.digest(made) == first
    made.cells[1].source = "print(2)"
    assert grid.digest(made) != first


# -- copies of the workspace ------------------------------------------------------------------


def test_a_copy_has_no_caches_no_repository_and_no_way_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in (".git", "node_modules", "pkg/__pycache__", "pkg"):
        (source / name).mkdir(parents=True, exist_ok=True)
        (source / name / "file").write_text("x")
    (source / "inside").symlink_to("pkg/file")
    (source / "outside").symlink_to("../other")
    (source / "absolute").symlink_to(source / "pkg")
    (source / "results").mkdir()
    os.mkfifo(source / "pipe")
    copied = copies.copy(source, tmp_path / "copy", leave_out=[source / "results"])
    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert found == {"pkg", "pkg/file", "inside"}
    assert copied == copies.Copied(files=1, bytes=1, links_left_out=2)


def test_a_workspace_that_is_too_large_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(b"x" * 100)
    monkeypatch.setattr(copies, "MAX_BYTES", 99)
    with pytest.raises(UsageError, match="too large"):
        copies.copy(tmp_path / "source", tmp_path / "copy")


def test_changes_are_told_by_what_is_on_the_disk(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for place, texts in (
        (before, {"same": "1\n", "edited": "a\nb\n", "removed": "x\n", "picture": "\0 1"}),
        (after, {"same": "1\n", "edited": "a\nc\nd\n", "added": "y\nz\n", "picture": "\0 2"}),
    ):
        place.mkdir()
        for name, text in texts.items():
            (place / name).write_text(text)
    (after / "link").symlink_to("/etc/passwd")
    found = {change.path: change for change in copies.changes(before, after)}
    told = {path: (change.kind, change.added, change.removed) for path, change in found.items()}
    assert told == {
        "added": ("created", 2, 0),
        "edited": ("modified", 2, 1),
        "link": ("created", 1, 0),
        "picture": ("modified", 0, 0),
        "removed": ("deleted", 0, 1),
    }
    assert "-b\n+c\n+d" in found["edited"].diff
    assert "root:" not in found["link"].diff


# -- the table --------------------------------------------------------------------------------


def run_data(**changed: Any) -> dict[str, Any]:
    held: dict[str, Any] = {
        "version": directory.VERSION,
        "key": "0" * 20,
        "parameters": {"value": 1},
        "repeat": 1,
        "seconds": 1.5,
        "status": "ok",
        "error": "",
        "turns": [],
        "changes": [],
        "checks": 0,
        "checks_passed": 0,
    }
    return held | changed


def test_a_run_without_a_turn_has_a_row_with_its_error() -> None:
    (row,) = table.rows(run_data(status="error", error="NameError: x"))
    assert (row["error"], row["parameter_value"], row.get("turn")) == ("NameError: x", 1, None)


def test_what_an_agent_says_of_itself_is_no_formula_in_a_spreadsheet() -> None:
    turn = {"turn": 1, "agent": "=cmd|' /C calc'!A0", "prompt": "-x", "tool_calls": {"odd": 2}}
    (row,) = csv.DictReader(
        io.StringIO(table.to_csv(table.rows(run_data(turns=[turn])), ["value"]))
    )
    assert row["agent"].startswith("'=")
    assert row["prompt"] == "-x"
    assert row["tool_calls_other"] == row["tool_calls"] == "2"


@given(
    st.dictionaries(
        st.sampled_from([column.name for column in table.COLUMNS]),
        st.one_of(
            st.none(), st.text(), st.integers(), st.floats(), st.lists(st.integers()), st.booleans()
        ),
    )
)
def test_whatever_a_turn_claims_the_rows_have_the_types_of_their_columns(
    turn: dict[str, Any],
) -> None:
    types: dict[str, Any] = {"text": str, "whole": int, "number": (int, float)}
    rows = table.rows(run_data(turns=[turn]))
    assert list(rows[0].keys() - set(table.names(["value"]))) == []
    for column in table.COLUMNS:
        value = rows[0].get(column.name)
        assert value is None or isinstance(value, types[column.type]), column.name
    table.to_csv(rows, ["value"])


def test_parquet_keeps_types_and_exact_texts(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    turns = [{"turn": 1, "agent": "=x", "cost": 0.5, "tokens": 7}, {"turn": 2, "cost": None}]
    rows = table.rows(run_data(turns=turns)) + table.rows(run_data(parameters={"value": "a"}))
    table.write_parquet(rows, ["value"], tmp_path / "table.parquet")
    held = parquet.read_table(tmp_path / "table.parquet").to_pydict()
    assert list(held) == table.names(["value"])
    assert held["agent"] == ["=x", None, None]
    assert held["cost"] == [0.5, None, None]
    assert held["parameter_value"] == ["1", "1", "a"]


@pytest.mark.parametrize("held", ["", "{", "[]", "{}", '{"version": 1, "key": 3}'])
def test_a_damaged_run_is_an_error_that_names_its_file(tmp_path: Path, held: str) -> None:
    (tmp_path / "run.json").write_text(held)
    with pytest.raises(ACPError, match=r"run\.json is damaged"):
        read_run(tmp_path / "run.json")


# -- sweeps -----------------------------------------------------------------------------------


def test_a_sweep_runs_each_point_in_a_copy_and_tells_of_its_turns(
    folder: Path, tmp_path: Path
) -> None:
    path = written(folder, AGENT, 'assert text != "bad"', defaults='text = "hello"')
    texts = ["write new.txt: one; usage", "bad"]
    made = sweep(path, {"text": texts}, output=tmp_path / "results", jobs=2, record=True)
    assert (made.total, made.done, made.lost) == (2, 2, {})
    assert len(made.failed) == 1
    by_text = {row["parameter_text"]: row for row in made.rows}
    row = by_text[texts[0]]
    assert (row["agent"], row["stop_reason"], row["model"]) == ("Demo Agent", "end_turn", "small")
    assert (row["tool_calls_edit"], row["permissions"], row["permissions_denied"]) == (1, 1, 0)
    assert (row["files_changed"], row["lines_added"], row["lines_removed"]) == (1, 1, 0)
    assert row["cost"] > 0
    assert row["first_chunk_s"] <= row["duration_s"] <= row["run_s"]
    assert (row["checks"], row["checks_passed"]) == (1, 1)
    assert row["error"] is None
    assert by_text["bad"]["error"].startswith("AssertionError")
    assert (by_text["bad"]["checks"], by_text["bad"]["checks_passed"]) == (1, 0)
    assert not (folder / "new.txt").exists()
    assert os.listdir(tmp_path / "tmp") == []
    read, parameters = read_rows(tmp_path / "results")
    assert {row["run"] for row in read} == {row["run"] for row in made.rows}
    assert parameters == ("text",)
    (key,) = (row["run"] for row in made.rows if row["parameter_text"] == "bad")
    executed = nbformat.read(tmp_path / "results" / "runs" / key / "notebook.ipynb", as_version=4)
    recording = tmp_path / "results" / "runs" / key / "notebook.acp.jsonl"
    assert "session/prompt" in recording.read_text()
    assert recording.stat().st_mode & 0o077 == 0
    assert executed.cells[-1].outputs[0].ename == "AssertionError"


def test_a_second_sweep_runs_only_what_is_missing_and_the_workspace_is_as_it_was(
    folder: Path, tmp_path: Path
) -> None:
    path = written(folder, EFFECT)
    results = tmp_path / "results"
    first = sweep(path, {"value": [1]}, output=results)
    assert (first.done, first.before) == (1, 0)
    (folder / "kept.txt").write_text("changed in the meantime\n")
    again = sweep(path, {"value": [1, 2]}, output=results)
    assert (again.done, again.before) == (1, 1)
    assert {row["lines_removed"] for row in again.rows} == {1}
    runs, _ = read_runs(results)
    assert [file["path"] for file in runs[1]["changes"]] == ["kept.txt", "made.txt"]
    assert "-old\n+new" in runs[1]["changes"][0]["text"]
    written(folder, EFFECT + "# changed")
    with pytest.raises(UsageError, match="the notebook has changed"):
        sweep(path, {"value": [1]}, output=results)


def test_other_settings_or_parameters_do_not_mix_with_what_is_there(
    folder: Path, tmp_path: Path
) -> None:
    path = written(folder, "pass")
    results = tmp_path / "results"
    sweep(path, {"value": [1]}, output=results)
    with pytest.raises(UsageError, match="limits, permissions"):
        sweep(path, {"value": [1]}, output=results, timeout=5)
    with pytest.raises(UsageError, match="other parameters"):
        sweep(path, {"value": [1], "more": [2]}, output=results)
    (tmp_path / "other" / "workspace").mkdir(parents=True)
    with pytest.raises(UsageError, match="in the way"):
        sweep(path, {"value": [1]}, output=tmp_path / "other")


def test_a_directory_that_was_not_set_up_to_the_end_is_set_up_anew(tmp_path: Path) -> None:
    manifest = directory.Manifest("n", "0", "/w", ".", "copy", "", {"timeout": None}, ("value",))
    results = Results(tmp_path)

    def killed(place: Path) -> None:
        place.mkdir()
        (place / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.begin(manifest, "{}", killed)
    assert results.manifest() is None
    results.begin(manifest, "{}", Path.mkdir)
    assert results.manifest() == manifest
    assert list((tmp_path / "workspace").iterdir()) == []


def test_one_sweep_at_a_time_has_a_directory(folder: Path, tmp_path: Path) -> None:
    path = written(folder, "pass")
    with (
        Results(tmp_path / "results").lock(),
        pytest.raises(UsageError, match="another sweep"),
    ):
        sweep(path, {"value": [1]}, output=tmp_path / "results")


def test_runs_that_cannot_be_made_end_the_sweep_at_once(folder: Path, tmp_path: Path) -> None:
    path = written(folder, "pass", kernel="no-such-kernel")
    with pytest.raises(ACPError, match="there is no kernel 'no-such-kernel'"):
        sweep(path, {"value": list(range(50))}, output=tmp_path / "results")
    assert list((tmp_path / "results" / "runs").iterdir()) == []


def test_failed_runs_are_only_run_again_when_that_is_asked_for(
    folder: Path, tmp_path: Path
) -> None:
    path = written(folder, 'import os; assert os.environ.get("FIXED")')
    results = tmp_path / "results"
    assert len(sweep(path, {"value": [1]}, output=results).failed) == 1
    assert sweep(path, {"value": [1]}, output=results).done == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIXED", "1")
        again = sweep(path, {"value": [1]}, output=results, retry_failed=True)
    assert (again.done, again.failed) == (1, {})


def git(place: Path, *arguments: str) -> str:
    names = ["-c", "user.name=A", "-c", "user.email=a@b"]
    command = ["git", "-C", str(place), *names, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_worktree_has_what_is_committed_and_leaves_nothing_behind(
    folder: Path, tmp_path: Path
) -> None:
    path = written(folder, EFFECT, 'assert not Path("untracked").exists()')
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "untracked").write_text("x")
    made = sweep(path, {"value": [1]}, output=tmp_path / "results", isolate="worktree")
    assert made.failed == {}
    assert made.rows[0]["files_changed"] == 2
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert git(folder, "status", "--porcelain") == "?? untracked\n"
    below = folder / "below"
    below.mkdir()
    with pytest.raises(UsageError, match="not its top folder"):
        sweep(path, {"value": [1]}, output=tmp_path / "r", folder=below, isolate="worktree")


def test_f55_secrets_of_the_environment_are_in_no_result(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "canary-4711-secret")
    path = written(
        folder,
        'import os\nfrom pathlib import Path\nPath("x").write_text(os.environ["SERVICE_API_KEY"])',
    )
    made = sweep(path, {"value": [1]}, output=tmp_path / "results")
    assert made.rows[0]["files_changed"] == 1
    for file in (tmp_path / "results").rglob("*"):
        if file.is_file():
            assert b"canary-4711" not in file.read_bytes(), file


# -- the command, interrupted and killed ------------------------------------------------------


SLOW = "import time\ntime.sleep(0.5)"


@contextmanager
def started(path: Path, results: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "acp_jupyter.cli", "sweep", str(path), "-o", str(results)]
    with subprocess.Popen([*command, *options], stdout=-3, stderr=-3) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + ENDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def of_sweep(results: Path) -> list[psutil.Process]:
    """Processes of runs of this directory that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(results) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_a_kill_at_any_moment_costs_the_runs_in_flight_only(folder: Path, tmp_path: Path) -> None:
    path = written(folder, SLOW)
    results = Results(tmp_path / "results")
    chance = random.Random(7)
    before: set[str] = set()
    stamps: dict[str, int] = {}
    for _ in range(3):
        with started(path, results.path, "--grid", "value=1,2,3,4", "--jobs", "2") as process:
            wait_until(lambda: process.poll() is not None or results.runs.is_dir())
            try:
                process.wait(chance.uniform(0.0, 6.0))
            except subprocess.TimeoutExpired:
                process.kill()
        wait_until(lambda: not of_sweep(results.path))  # the runs notice, and clean up
        finished = results.finished()
        assert before <= finished
        for key in finished:
            assert read_run(results.runs / key / "run.json")["status"] == "ok"
            stamp = (results.runs / key / "run.json").stat().st_mtime_ns
            assert stamps.setdefault(key, stamp) == stamp, "a finished run was made again"
        before = finished
    code = main(["sweep", str(path), "-o", str(results.path), "--grid", "value=1,2,3,4", "--quiet"])
    assert code == 0
    assert len(results.finished()) == len(list(results.runs.iterdir())) == 4
    assert len((results.path / "table.csv").read_text().splitlines()) == 5
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.skipif(os.name != "posix", reason="interrupts are signals")
def test_an_interrupt_stops_in_order_and_the_next_start_goes_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder, "import time\ntime.sleep(60 if value == 2 else 0)")
    results = Results(tmp_path / "results")
    options = ["--grid", "value=1,2", "--jobs", "1"]
    with started(path, results.path, *options) as process:
        wait_until(lambda: len(results.finished()) == 1 and len(list(results.runs.iterdir())) == 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(ENDS) == 130
    assert len(list(results.runs.iterdir())) == 1
    assert len((results.path / "table.csv").read_text().splitlines()) == 2
    assert os.listdir(tmp_path / "tmp") == []
    assert not of_sweep(results.path)
    command = ["sweep", str(path), "-o", str(results.path), *options, "--dry-run", "--json"]
    assert main(command) == 0
    states = json.loads(capsys.readouterr().out)
    assert [state["finished"] for state in states] == [True, False]


def test_the_command_tells_what_was_made_and_how_it_ended(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder, "assert value == 1")
    command = ["sweep", str(path), "-o", str(tmp_path / "results"), "--json", "--quiet"]
    assert main([*command, "--grid", "value=1,2", "--jobs", "2"]) == 3
    told: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["total"], told["done"], len(told["failed"]), told["lost"]) == (2, 2, 1, {})


# -- Dask -------------------------------------------------------------------------------------


def test_without_distributed_the_error_names_the_extra(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    path = written(folder, "pass")
    with pytest.raises(UsageError, match=r"acp-jupyter\[dask\]"):
        sweep(path, {"value": [1]}, output=tmp_path / "results", dask="tcp://127.0.0.1:1")


CLUSTER = """\
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def scheduler(folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a cluster with one worker."""
    pytest.importorskip("distributed")
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        cluster.communicate(timeout=ENDS)


@pytest.mark.slow
def test_the_workers_of_a_dask_cluster_make_the_same_runs_and_stop_when_told(
    folder: Path, tmp_path: Path, scheduler: str
) -> None:
    path = written(folder, EFFECT, "import time\ntime.sleep(0 if value < 3 else 600)")
    results = Results(tmp_path / "results")
    command = [sys.executable, "-m", "acp_jupyter.cli", "sweep", str(path), "--json"]
    command += ["-o", str(results.path), "--dask", scheduler]
    done = subprocess.run(
        [*command, "--grid", "value=1,2"], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"] == 2
    rows, _ = read_rows(results.path)
    assert [row["files_changed"] for row in rows] == [2, 2]
    with started(path, results.path, "--grid", "value=1,2,3", "--dask", scheduler) as process:
        wait_until(lambda: of_run(results))
        process.send_signal(signal.SIGINT)
        assert process.wait(ENDS) == 130
    wait_until(lambda: not of_run(results))
    assert len(results.finished()) == 2
    assert not list((tmp_path / "tmp").glob(f"{directory.COPY_PREFIX}*"))  # Dask has its own there


def of_run(results: Results) -> list[psutil.Process]:
    """Processes of runs, without the sweep's own."""
    return [
        process
        for process in of_sweep(results.path)
        if "acp_jupyter.experiments.one_run" in process.cmdline()
    ]
