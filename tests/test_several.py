"""``%%acp --agents a,b``: several agents in one cell, each in a copy of the folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kernels import PLAIN
from tests.live_kernel import Cell, LiveKernel, live_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("several")
    (home / "tmp").mkdir()
    with live_kernel(home, name=PLAIN, TMPDIR=str(home / "tmp")) as running:
        running.run("%load_ext acp_jupyter").expect_ok()
        running.run("%acp connect demo --as mine").expect_ok()
        yield running


def copies(kernel: LiveKernel) -> list[Path]:
    home = Path(kernel.process.environ()["TMPDIR"])
    return sorted(path for path in home.iterdir() if path.name.startswith("acp-agents-"))


def value(kernel: LiveKernel, expression: str) -> Any:
    cell = kernel.run(f"import json as _json\nprint(_json.dumps({expression}))").expect_ok()
    return json.loads("".join(content["text"] for content in cell.contents("stream")))


def shown(cell: Cell) -> str:
    """What the cell has displayed, as text, in order."""
    return "\n".join(
        content["data"]["text/plain"]
        for content in cell.contents("display_data")
        if "text/plain" in content["data"]
    )


def test_each_agent_answers_under_its_name_and_out_has_their_turns(kernel: LiveKernel) -> None:
    cell = kernel.run("%%acp --agents demo,mine --out turns\nhello").expect_ok()
    text = shown(cell)
    assert text.index("demo\n") < text.index("You said") < text.index("mine\n")
    assert text.count("You said (5 characters)") == 2
    assert text.count("No file was changed.") == 2
    assert value(kernel, "[t.stop_reason for t in turns]") == ["end_turn", "end_turn"]
    assert copies(kernel) == []
    assert "You said" in kernel.run("%%acp --session mine\nstill there").expect_ok().text


def test_each_agent_works_in_a_copy_and_its_changes_are_shown(kernel: LiveKernel) -> None:
    folder = Path(value(kernel, "__import__('os').getcwd()"))
    (folder / "told.txt").write_text("old\n")
    code = "%%acp --agents demo,demo --out turns\nedit told.txt: old -> new"
    asked: list[str] = []
    cell = kernel.start(code, allow_stdin=True)

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "1" if prompt.startswith("demo (1): ") else "3"

    kernel.finish(cell, answer=answer).expect_ok()
    assert sorted(prompt.split(":", 1)[0] for prompt in asked) == ["demo (1)", "demo (2)"]
    text = shown(cell)
    assert "Changed while it ran: 1 file, +1" in text
    assert "-old\n+new" in text
    assert text.count("No file was changed.") == 1
    assert (folder / "told.txt").read_text() == "old\n"
    (kept,) = copies(kernel)
    assert [path.name for path in sorted(kept.iterdir())] == ["1"]
    assert (kept / "1" / folder.name / "told.txt").read_text() == "new\n"
    places = value(kernel, "[t.cwd for t in turns]")
    assert [os.path.basename(place) for place in places] == [folder.name] * 2
    assert len(set(places)) == 2


def test_an_interrupt_stops_all_of_them(kernel: LiveKernel) -> None:
    before = copies(kernel)
    cell = kernel.start("%%acp --agents demo,mine --out turns\nask Now? yes | no; slow 600")
    names = ("demo:", "mine:")  # where nobody can answer, what became of a question is shown
    kernel.read(lambda: all(name in shown(cell) for name in names) or cell.done, limit=60)
    kernel.interrupt()
    kernel.finish(cell).expect_error("TurnCancelled")
    assert value(kernel, "[t.stop_reason for t in turns]") == ["cancelled", "cancelled"]
    assert copies(kernel) == before


def test_one_that_fails_keeps_none_from_its_end_and_the_cell_says_which(
    kernel: LiveKernel,
) -> None:
    cell = kernel.run("%%acp --agents demo,mine --out turns\ncrash")
    cell.expect_error("ACPError")
    assert "2 of 2 agents failed (demo, mine)" in cell.text
    assert len(value(kernel, "[t.error for t in turns]")) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--agents demo", "from 2 to 8 names"),
        ("--agents demo,xyzzy", "xyzzy"),
        ("--agents demo,mine --session mine", "do not go together"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_copied(
    kernel: LiveKernel, options: str, said: str
) -> None:
    before = copies(kernel)
    cell = kernel.run(f"%%acp {options}\nhello")
    cell.expect_error("UsageError")
    assert said in cell.text
    assert copies(kernel) == before
