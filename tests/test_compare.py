"""`acp-jupyter compare`: statistics, groups, and reports that are safe to open."""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import acp_jupyter
from acp_jupyter.cli import main
from acp_jupyter.errors import UsageError
from acp_jupyter.experiments import compare
from acp_jupyter.experiments.directory import Manifest, Results
from acp_jupyter.experiments.statistics import interval, quantile, summary

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>\u202ereversed'

NUMBERS = st.floats(-1e6, 1e6)
SAMPLES = st.lists(NUMBERS, min_size=1, max_size=20)


@given(SAMPLES, st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(np.quantile(values, share), abs=1e-6)


@settings(max_examples=25)
@given(SAMPLES, st.integers())
def test_a_summary_is_in_order_within_its_sample_and_repeats_itself(
    values: list[float], seed: int
) -> None:
    found = summary(values, random.Random(seed))
    assert found == summary(reversed(values), random.Random(seed))
    assert found is not None
    assert found.median == pytest.approx(statistics.median(values))
    quartiles = [min(values), found.first_quartile, found.median, found.third_quartile, max(values)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(quartiles))
    if len(values) == 1:
        assert (found.low, found.high) == (None, None)
    else:
        assert found.low is not None
        assert found.high is not None
        assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9


def test_nothing_has_no_summary() -> None:
    assert summary([], random.Random(0)) is None


def test_an_interval_covers_the_median_about_as_often_as_it_says() -> None:
    chance = random.Random(1)
    hits = 0
    for _ in range(100):
        low, high = interval([chance.gauss(5, 1) for _ in range(20)], chance, resamples=200)
        hits += low <= 5 <= high
    assert 85 <= hits <= 100


# -- results that were made by hand -----------------------------------------------------------


def turn(**changed: Any) -> dict[str, Any]:
    held = {
        "turn": 1,
        "agent": "Agent A",
        "version": "1",
        "model": "m",
        "prompt": "What is *two* and two?",
        "text": "It is **four**.",
        "stop_reason": "end_turn",
        "first_chunk_s": 0.5,
        "duration_s": 1.0,
        "tokens": 10,
        "cost": 0.25,
        "currency": "USD",
        "tool_calls": {"edit": 1},
        "permissions": 1,
        "permissions_denied": 0,
        "error": "",
    }
    return held | changed


def results(path: Path, *runs: dict[str, Any]) -> Path:
    """A directory of results with one run for each dict of changes."""
    made = Results(path)
    names = tuple(runs[0].get("parameters", {"agent": "a"}))
    manifest = Manifest("/w/study.ipynb", "0", "/w", ".", "copy", "", {}, names)
    path.mkdir()
    made.begin(manifest, "{}", Path.mkdir)
    for number, changed in enumerate(runs):
        key = f"{number:020x}"
        held: dict[str, Any] = {
            "version": 1,
            "key": key,
            "parameters": {"agent": "a"},
            "repeat": number + 1,
            "seconds": 2.0,
            "status": "ok",
            "error": "",
            "turns": [turn()],
            "changes": [],
            "checks": 0,
            "checks_passed": 0,
        }
        attempt = made.attempt(key)
        (attempt / "run.json").write_text(json.dumps(held | changed))
        made.keep(attempt, key)
    return path


def two_agents(path: Path) -> Path:
    change = {"path": "a.py", "change": "changed", "lines_added": 2, "lines_removed": 1}
    return results(
        path,
        {"turns": [turn(duration_s=1.0)], "changes": [{**change, "text": "-old\n+new"}]},
        {"turns": [turn(duration_s=3.0)]},
        {"turns": [turn(agent="Agent B", text="Five.", duration_s=9.0)], "checks": 2},
        {"turns": [turn(agent="Agent B", stop_reason=None, error="it crashed")], "error": "x"},
    )


def test_groups_are_agents_and_a_run_counts_once_for_what_is_of_the_whole_run(
    tmp_path: Path,
) -> None:
    path = results(
        tmp_path / "r",
        {
            "turns": [turn(), turn(turn=2, duration_s=5.0)],
            "changes": [{"path": "a", "change": "added", "lines_added": 4, "lines_removed": 0}],
        },
        {"turns": [turn(agent="Agent B")]},
    )
    first, second = compare(path).data.groups
    assert (first.name, second.name) == ("Agent A", "Agent B")
    assert first.values["duration_s"] == [1.0, 5.0]
    assert first.values["lines_added"] == [4]
    assert first.summaries["duration_s"].median == 3.0
    assert second.summaries["duration_s"].low is None


def test_the_summary_has_medians_with_their_spread(tmp_path: Path) -> None:
    path = two_agents(tmp_path / "r")
    shown = str(compare(path).summary())
    header, first, second, note = shown.splitlines()
    assert header.split()[:3] == ["agent", "runs", "errors"]
    assert "2 [1.5 to 2.5] (1 to 3)" in first
    assert second.split()[:4] == ["Agent", "B", "2", "1"]
    assert "bootstrap" in note
    assert str(acp_jupyter.compare(path).summary()) == shown
    assert "Traceback" not in shown


def test_where_all_agents_are_one_the_first_parameter_that_varies_makes_the_groups(
    tmp_path: Path,
) -> None:
    path = results(
        tmp_path / "r",
        {"parameters": {"same": 1, "model": "x"}},
        {"parameters": {"same": 1, "model": "y"}},
    )
    assert [group.name for group in compare(path).data.groups] == ["x", "y"]
    assert [group.name for group in compare(path, by="stop_reason").data.groups] == ["end_turn"]
    with pytest.raises(UsageError, match="no column 'colour'"):
        compare(path, by="colour")


def test_answers_to_one_prompt_stand_side_by_side_and_differences_are_shown(
    tmp_path: Path,
) -> None:
    comparison = compare(two_agents(tmp_path / "r"))
    html = comparison.answers(1).html
    assert html.index("<strong>four</strong>") < html.index("Five.")
    assert "it crashed" in html
    assert "What is *two* and two?" in html
    assert "-old\n+new" in comparison.changes().html
    with pytest.raises(UsageError, match="there is no prompt 2"):
        comparison.answers(2)


def test_the_page_of_hostile_results_runs_and_loads_nothing(tmp_path: Path) -> None:
    change = {"path": HOSTILE, "change": HOSTILE, "lines_added": 1, "lines_removed": 0}
    path = results(
        tmp_path / "r",
        {
            "turns": [turn(agent=HOSTILE, text=HOSTILE, prompt=HOSTILE, error=HOSTILE)],
            "changes": [{**change, "text": HOSTILE}],
        },
        {"turns": [turn(agent="$x$ " + HOSTILE, duration_s=2.0)]},
    )
    for name in ("page.html", "report.ipynb"):
        assert main(["compare", str(path), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).is_file()
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    notebook = nbformat.read(tmp_path / "report.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert "<script" not in output.data.get("text/html", "")
            assert "<img src=x" not in output.data.get("text/html", "")


def test_a_report_is_a_valid_notebook_and_the_same_each_time(tmp_path: Path) -> None:
    path = two_agents(tmp_path / "r")
    for name in ("one.ipynb", "two.ipynb"):
        assert main(["compare", str(path), "-o", str(tmp_path / name)]) == 0
    one, two = ((tmp_path / name).read_text() for name in ("one.ipynb", "two.ipynb"))
    assert one == two
    notebook = nbformat.reads(one, as_version=4)
    nbformat.validate(notebook)
    assert "compare('r', by='agent')" in notebook.cells[1].source
    assert any("image/png" in o.data for cell in notebook.cells for o in cell.get("outputs", []))
    namespace: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                exec(cell.source, namespace)


def test_without_matplotlib_a_report_has_its_table_and_a_plot_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare(two_agents(tmp_path / "r"))
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"acp-jupyter\[experiments\]"):
        comparison.plot()
    monkeypatch.setattr("acp_jupyter.experiments.plots.is_there", lambda: False)
    assert "Median [first" in comparison.to_html()


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, -(10**400), True, "9", []])
def test_numbers_that_are_none_are_left_out(tmp_path: Path, value: Any) -> None:
    path = results(tmp_path / "r", {"turns": [turn(cost=value, tokens=value, duration_s=value)]})
    comparison = compare(path)
    assert comparison.data.groups[0].values["first_chunk_s"] == [0.5]
    assert {"cost", "duration_s", "tokens"}.isdisjoint(comparison.data.groups[0].values)
    str(comparison.summary())


def test_what_is_no_directory_of_results_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no results"):
        compare(tmp_path)


def test_the_command_prints_the_table_and_refuses_an_unknown_suffix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = two_agents(tmp_path / "r")
    assert main(["compare", str(path), "--by", "repeat"]) == 0
    assert capsys.readouterr().out.startswith("repeat  runs  errors")
    assert main(["compare", str(path), "-o", str(tmp_path / "x.txt")]) == 1
    assert ".ipynb or .html" in capsys.readouterr().err
