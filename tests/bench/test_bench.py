"""The benchmark's own parts: what they count has to be right before what they measure is."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.bench.goals import GOALS, Row, median_ratio, percentile, table
from tests.bench.kernels import MINIMAL, RESENDING, chunk_numbers, final_text, running_kernel
from tests.bench.measures import MEASURES, connect_cell
from tests.bench.scripted_agent import chunk_text
from tests.bench.wire import agent_command, measure_wire


def test_chunks_have_their_size_and_number_and_paragraphs_end() -> None:
    for size in (20, 2000):
        texts = [chunk_text(number, size, broken=True) for number in range(30)]
        assert {len(text) for text in texts} == {size}
        assert chunk_numbers("".join(texts)) == list(range(30))
        assert max(map(len, "".join(texts).split("\n\n"))) < 510
    assert "\n" not in chunk_text(24, 20, broken=False)


@pytest.mark.parametrize("client", ["json", "ours", "sdk"])
def test_each_wire_client_sees_every_update(client: str) -> None:
    cost = measure_wire(client, "tools 40")
    assert cost.updates == 200
    assert cost.cpu > 0
    assert cost.wall > 0


def test_the_minimal_kernel_sends_one_message_an_update_and_loses_none() -> None:
    with running_kernel(MINIMAL) as kernel:
        kernel.run(connect_cell("chunks 300 20")).expect_ok()
        run = kernel.run("chunks 300 20").expect_ok()
        agent = kernel.process.children()[0]
    assert len(run.published) == 300
    assert chunk_numbers(final_text(run.published)) == list(range(300))
    assert run.published[-1].at >= run.published[0].at > run.sent
    assert not agent.is_running()


def test_the_resending_kernel_sends_the_whole_answer_with_each_update() -> None:
    with running_kernel(RESENDING) as kernel:
        kernel.run(connect_cell("chunks 30 20")).expect_ok()
        run = kernel.run("chunks 30 20").expect_ok()
    shown = [message.content["data"]["text/plain"] for message in run.published]
    assert [chunk_numbers(text) for text in shown] == [list(range(n + 1)) for n in range(30)]
    assert [message.kind for message in run.published[:2]] == [
        "display_data",
        "update_display_data",
    ]


def test_the_scripted_agent_notes_when_a_cancel_came(tmp_path: Path) -> None:
    log = tmp_path / "log"
    agent = subprocess.Popen(
        agent_command(log=log), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    with agent:
        prompt = {"prompt": [{"type": "text", "text": "until-cancelled 5"}]}
        print(json.dumps({"id": 7, "method": "session/prompt", "params": prompt}), file=agent.stdin)
        agent.stdin.flush()
        assert json.loads(agent.stdout.readline())["method"] == "session/update"
        before = time.monotonic_ns()
        print(json.dumps({"method": "session/cancel", "params": {}}), file=agent.stdin)
        agent.stdin.close()
        lines = [json.loads(line) for line in agent.stdout]
    assert lines[-1]["id"] == 7
    assert lines[-1]["result"] == {"stopReason": "cancelled"}
    cancel, answered = map(json.loads, log.read_text().splitlines())
    assert (cancel["event"], answered["event"]) == ("cancel", "answered")
    assert before < cancel["at"] < answered["at"] < time.monotonic_ns()


def test_a_missed_or_unmeasured_must_counts_as_missed_and_a_comparison_never_does() -> None:
    verdicts = {
        (row.verdict, row.missed)
        for row in (Row("start", 1.0), Row("start", 1.2), Row("start", 1.3), Row("start", None))
    }
    assert verdicts == {
        ("on target", False),
        ("kept", False),
        ("MISSED", True),
        ("not measured", True),
    }
    assert not Row("ingest-sdk", 9.0).missed
    assert not Row("ingest-sdk", None).missed


def test_every_row_of_the_table_is_measured_by_one_measure() -> None:
    rows = [row for _, names in MEASURES.values() for row in names]
    assert sorted(rows) == sorted(GOALS)
    assert len(table([Row(name, 1.0) for name in rows]).splitlines()) == len(rows) + 2


def test_ratios_are_of_neighbours_and_percentiles_are_values_that_occurred() -> None:
    assert median_ratio([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == 3.0
    assert percentile([float(n) for n in range(100, 0, -1)], 0.95) == 95.0
    assert percentile([7.0], 0.95) == 7.0
