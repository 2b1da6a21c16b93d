"""``acp-jupyter run`` on the bundled agent and real kernels, and the parameters of notebooks."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import psutil
import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.experiments import parameters, run_notebook
from acp_jupyter.experiments.progress import Lines
from acp_jupyter.experiments.result import EXIT_CODES, RunResult
from tests.conftest import alive, wait_until
from tests.experiment_notebooks import LIMIT, Place, agent_notebook, python_notebook, shown

CANARY = "canary-value-4711-0815"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


DEFAULTS = ("agent = 'nobody'\nwords = 'nothing'", ["parameters"])
CONNECT = "%acp connect {agent}"


# -- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("demo", "demo"),
        ("3", 3),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("True", True),
        ("false", False),
        ("null", None),
        ("None", None),
        ('["a", 1]', ["a", 1]),
        ('{"a": null}', {"a": None}),
        ('"3"', "3"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("", ""),
        ("a=b", "a=b"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_of_a_command_line_has_the_type_it_looks_like(text: str, value: Any) -> None:
    found = parameters.read_assignments([f"name={text}"])["name"]
    assert (found, type(found)) == (value, type(value))
    assert parameters.read_assignments([f"name={text}"], raw=True) == {"name": text}


@pytest.mark.parametrize("given", ["name", "", "="])
def test_a_parameter_without_name_or_value_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="parameter"):
        parameters.check(parameters.read_assignments([given]))


@pytest.mark.parametrize("name", ["class", "two words", "1st", "a;b", "a\nb"])
def test_a_parameter_is_a_variables_name(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a parameter"):
        parameters.check({name: 1})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"agent": "demo", "n": 3, "deep": {"list": [1.5, null]}}'),
        ("p.toml", 'agent = "demo"\nn = 3\ndeep = {list = [1.5]}'),
        ("p.yaml", "agent: demo\nn: 3\ndeep:\n  list: [1.5, null]\n"),
    ],
)
def test_parameters_are_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = parameters.read_file(tmp_path / name)
    assert (found["agent"], found["n"], found["deep"]["list"][0]) == ("demo", 3, 1.5)


@pytest.mark.parametrize(
    ("name", "text"), [("p.json", "[1]"), ("p.json", "{"), ("p.toml", "a"), ("p.yaml", "a: [")]
)
def test_a_file_without_parameters_is_told(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=r"p\.(json|toml|yaml)"):
        parameters.read_file(tmp_path / name)


@pytest.mark.parametrize(
    "value", ['it\'s "quoted"\n%%acp', [1, {"a": None, "b": [True]}], -0.5, None, "\x00\u2028"]
)
def test_a_value_reads_back_as_it_was_given(value: Any) -> None:
    namespace: dict[str, Any] = {}
    source = parameters.source({"x": value}, "python")
    exec(source, namespace)
    assert namespace["x"] == value
    assert len(source.splitlines()) == 2 or "\u2028" in str(value)


def test_parameters_take_the_place_of_those_injected_before() -> None:
    made = agent_notebook("%%python\n1", DEFAULTS, "a prompt")
    assert parameters.inject(made, {"agent": "demo"}, "acp")
    assert parameters.inject(made, {"agent": "other"}, "acp")
    sources = [cell.source for cell in made.cells]
    assert sources[2] == "%%python\n# Parameters\nagent = 'other'"
    assert len(sources) == 4
    nbformat.validate(made)


def test_parameters_of_a_notebook_without_a_tag_come_first() -> None:
    made = python_notebook("print(x)")
    assert not parameters.inject(made, {"x": 1}, "python")
    assert made.cells[0].source == "# Parameters\nx = 1"
    assert made.cells[0].metadata.tags == ["injected-parameters"]


def test_parameters_of_an_unknown_language_are_refused() -> None:
    with pytest.raises(UsageError, match="not in r"):
        parameters.inject(python_notebook("x"), {"x": 1}, "r")


# -- whole runs -------------------------------------------------------------------------------


def test_an_agent_named_by_parameter_is_connected_and_all_of_it_reported(place: Place) -> None:
    notebook = agent_notebook(DEFAULTS, CONNECT, "write a.txt: one", "Hello @words")
    summary = place.run(
        notebook, "-p", "agent=demo", "-r", "words=12", "--permissions", "allow", "--fail-on-denied"
    )
    assert (summary["status"], summary["error"]) == ("ok", "")
    assert [cell["status"] for cell in summary["cells"]] == ["ok"] * 5
    first, second = summary["turns"]
    assert first["cell"] == 3
    assert (first["agent"], first["turn"], first["prompt"]) == (
        "Demo Agent",
        1,
        "write a.txt: one",
    )
    assert (first["stop_reason"], first["tool_calls"], first["files"]) == (
        "end_turn",
        {"edit": 1},
        ["a.txt"],
    )
    assert (first["permissions"], first["permissions_denied"], first["lines_added"]) == (1, 0, 1)
    assert first["duration_s"] >= first["first_chunk_s"] > 0
    assert first["cost"] > 0
    assert first["currency"] == "USD"
    assert second["tokens"] > first["tokens"]
    assert "Hello" in second["text"]
    assert summary["totals"]["cost"] == pytest.approx(first["cost"] + second["cost"])
    assert (place.work / "a.txt").read_text() == "one", "it ran in the notebook's folder"

    made = place.read("out.ipynb")
    assert made.cells[1].source == "%%python\n# Parameters\nagent = 'demo'\nwords = '12'"
    assert "Connected to Demo Agent" in shown(made.cells[2])
    assert made.metadata.acp.run == summary["header"]
    assert place.read("in.ipynb").cells[0].outputs == [], "what was read is as it was"


def test_a_python_notebook_reports_magics_and_the_python_api(place: Place) -> None:
    summary = place.run(
        python_notebook(
            ("agent = 'nobody'", ["parameters"]),
            "%load_ext acp_jupyter\n%acp connect {agent}",
            "%%acp\nHello",
            "import acp_jupyter as acp\n"
            "with acp.connect(agent, permissions='deny') as quiet:\n"
            "    print(quiet.new_session().prompt('write b.txt: no').stop_reason)",
        ),
        *("-p", "agent=demo", "--fail-on-denied"),
        expect=5,
    )
    assert summary["status"] == "denied"
    assert [turn["prompt"] for turn in summary["turns"]] == ["Hello", "write b.txt: no"]
    assert [turn["permissions_denied"] for turn in summary["turns"]] == [0, 1]
    assert summary["turns"][1]["files"] == [], "what was denied has changed nothing"
    assert not (place.work / "b.txt").exists()


def test_an_executed_notebook_runs_again_with_other_parameters(place: Place) -> None:
    place.run(python_notebook(("x = 1", ["parameters"]), "print(x)"), "-p", "x=2")
    again = place.read("out.ipynb")
    again.metadata.acp["kept"] = "by others"
    place.run(again, "-p", "x=[3]")
    made = place.read("out.ipynb")
    assert [cell.source for cell in made.cells] == ["x = 1", "# Parameters\nx = [3]", "print(x)"]
    assert shown(made.cells[2]) == "[3]\n"
    assert made.metadata.acp.kept == "by others"
    assert made.metadata.acp.run.parameters == {"x": [3]}


def test_a_failing_cell_ends_the_run_with_its_own_code(place: Place) -> None:
    summary = place.run(
        agent_notebook("%acp connect demo", ("fail", ["raises-exception"]), "crash", "Hello never"),
        expect=3,
    )
    assert [cell["status"] for cell in summary["cells"]] == ["ok", "ok", "error", "not run"]
    assert "exited with code 17" in summary["error"]
    assert summary["turns"][-1]["error"]
    assert place.read("out.ipynb").cells[3].outputs == []


def test_a_cell_that_takes_too_long_is_stopped_and_keeps_what_had_come(place: Place) -> None:
    summary = place.run(
        agent_notebook("%acp connect demo", "slow 3000", "Hello never"), "--timeout", "3", expect=7
    )
    assert summary["status"] == "timeout"
    assert "longer than 3 s" in summary["error"]
    assert summary["turns"][0]["stop_reason"] == "cancelled", "the agent ended its turn in order"
    outputs = place.read("out.ipynb").cells[1].outputs
    assert outputs[-1].ename == "CellTimeout"
    assert "Cancelled" in shown(place.read("out.ipynb").cells[1])


@pytest.mark.parametrize(
    "option", [("--seconds", "1"), ("--budget", "0.00001"), ("--tokens", "20")]
)
def test_a_spent_budget_stops_the_run(place: Place, option: tuple[str, str]) -> None:
    prompt = "slow 3000" if option[0] == "--seconds" else "text 2000\nslow 50"
    notebook = agent_notebook("%acp connect demo", prompt, "Hello never")
    summary = place.run(notebook, *option, expect=6)
    assert summary["status"] == "budget"
    assert summary["cells"][-1]["status"] == "not run"


def test_a_budget_holds_for_all_agents_together(place: Place) -> None:
    summary = place.run(
        python_notebook(
            "import acp_jupyter as acp\n"
            "for name in 'abc':\n"
            "    with acp.connect('demo') as agent:\n"
            "        agent.new_session().prompt('slow 8')",
        ),
        *("--seconds", "1.2"),
        expect=6,
    )
    assert [turn["stop_reason"] for turn in summary["turns"]] == ["end_turn", "cancelled"]


@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_a_valid_notebook_with_what_ran(
    place: Place, told: signal.Signals, code: int
) -> None:
    place.write("in.ipynb", agent_notebook("%acp connect demo", "slow 3000", "Hello never"))
    with place.start("run", "in.ipynb", "-o", "out.ipynb") as running:
        _read_to(running, "prompt: slow 3000")
        kernels = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(told)
        errors = running.communicate(timeout=LIMIT)[1]
    assert running.returncode == code, errors
    assert not [process for process in kernels if alive(process.pid)], "nothing stays behind"
    made = place.read("out.ipynb")
    assert "Connected" in shown(made.cells[0])
    assert "TurnCancelled" in shown(made.cells[1])
    assert made.cells[1].outputs[-1].ename in ("RunInterrupted", "RunTerminated")
    assert made.cells[2].outputs == []


STUBBORN = """%%python
import time
print("begun", flush=True)
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        print("not yet", flush=True)
"""


def test_a_second_interrupt_ends_a_cell_that_does_not_stop(place: Place) -> None:
    place.write("in.ipynb", agent_notebook("%acp connect demo", STUBBORN, "Hello never"))
    output = place.work / "out.ipynb"
    with place.start("run", "in.ipynb", "-o", "out.ipynb") as running:
        _read_to(running, "cell 2 of 3")
        wait_until(lambda: "begun" in shown(_notebook(output).cells[1]), LIMIT)
        running.send_signal(signal.SIGINT)
        wait_until(lambda: "not yet" in shown(_notebook(output).cells[1]), LIMIT)
        running.send_signal(signal.SIGINT)
        errors = running.communicate(timeout=LIMIT)[1]
    assert running.returncode == 130, errors
    made = place.read("out.ipynb")
    assert made.cells[1].outputs[-1].ename == "RunInterrupted"
    assert made.cells[2].outputs == []


def _read_to(running: subprocess.Popen[str], words: str) -> None:
    assert running.stderr is not None
    for line in running.stderr:
        if words in line:
            return
    raise AssertionError(f"it ended without {words!r}")


def test_the_death_of_the_kernel_is_told_and_the_notebook_is_whole(place: Place) -> None:
    summary = place.run(
        agent_notebook("%acp connect demo", "%%python\nimport os\nos._exit(3)", "Hello never"),
        expect=1,
    )
    assert summary["status"] == "dead"
    made = place.read("out.ipynb")
    assert "Connected" in shown(made.cells[0])
    assert made.cells[1].outputs[-1].ename == "KernelDied"


def test_a_run_that_is_killed_leaves_what_was_saved(place: Place) -> None:
    place.write("in.ipynb", agent_notebook("%acp connect demo", "count 20\nslow 3000"))
    with place.start("run", "in.ipynb", "-o", "out.ipynb") as running:
        _read_to(running, "prompt: count 20")
        output = place.work / "out.ipynb"
        wait_until(lambda: "19" in shown(_notebook(output).cells[1]), LIMIT)  # while it runs
        family = psutil.Process(running.pid).children(recursive=True)
        running.kill()
        running.communicate(timeout=LIMIT)
    wait_until(lambda: not [process for process in family if alive(process.pid)], LIMIT)
    assert "Connected" in shown(place.read("out.ipynb").cells[0])


def _notebook(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def test_what_cannot_be_run_is_told_before_anything_starts(place: Place) -> None:
    place.write("in.ipynb", agent_notebook("Hello"))
    (place.work / "broken.ipynb").write_text("{")
    unknown = ("run", "in.ipynb", "-o", "out.ipynb")
    for arguments, words in (
        ((*unknown, "--kernel", "cobol"), "no kernel 'cobol'"),
        ((*unknown, "--permissions", "maybe"), "no permission policy"),
        ((*unknown, "--permissions", "none.toml"), "is not there"),
        ((*unknown, "--cwd", "nowhere"), "is no directory"),
        ((*unknown, "-p", "agent"), "no parameter with a value"),
        ((*unknown, "--budget", "-1"), "more than 0"),
        ((*unknown, "--timeout", "0"), "more than 0"),
        (("run", "none.ipynb", "-o", "out.ipynb"), "no file"),
        (("run", "broken.ipynb", "-o", "out.ipynb"), "no notebook"),
        (("run", "in.ipynb", "-o", "no/out.ipynb"), "cannot be written"),
    ):
        done = place.call_here(*arguments)
        assert done.returncode == 1, arguments
        assert words in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    assert not (place.work / "out.ipynb").exists()
    assert place.call("run", "in.ipynb").returncode == 2, "-o is missing"


def test_a_policy_file_decides_and_the_header_tells_it_apart(place: Place) -> None:
    policy = place.home / "policy.toml"
    policy.write_text('default = "deny"\n[[rules]]\naction = "allow"\nkind = "edit"\npath = "a*"\n')
    notebook = agent_notebook("%acp connect demo", "write a.txt: yes\nwrite b.txt: no")
    summary = place.run(notebook, "--permissions", "../policy.toml")
    assert (place.work / "a.txt").exists()
    assert not (place.work / "b.txt").exists()
    (agent,) = summary["header"]["agents"]
    assert agent["policy"]["default"] == "deny"
    assert agent["policy"]["rules"] == 1
    assert len(agent["policy"]["digest"]) == 64


def test_f55_no_secret_and_no_home_is_in_header_or_summary(place: Place) -> None:
    notebook = agent_notebook(DEFAULTS, "%acp connect demo", f"say {CANARY}")
    summary = place.run(
        notebook,
        *("-p", f"api_key={CANARY}-2", "-p", f"words={CANARY}", "-p", f"folder={place.home}"),
        MY_API_TOKEN=CANARY,
    )
    header = json.dumps(summary["header"])
    assert CANARY not in json.dumps(summary)
    assert str(place.home) not in header
    assert "[redacted]" in header
    assert summary["header"]["parameters"]["folder"] == "~"


def test_a_recording_lies_beside_the_executed_notebook(place: Place) -> None:
    place.run(agent_notebook("%acp connect demo", "Hello"), "--record")
    recording = place.work / "out.acp.jsonl"
    assert json.loads(recording.read_text().splitlines()[0])["type"] == "header"
    assert recording.stat().st_mode & 0o777 == 0o600


def test_a_notebook_runs_within_a_program_with_an_event_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.write("in.ipynb", python_notebook("print(1 + 1)"))

    async def program() -> RunResult:
        return run_notebook(path, place.work / "out.ipynb")

    with mock.patch.dict(os.environ, place.environment, clear=True):
        result = asyncio.run(program())
    assert (result.status, result.exit_code, result.turns) == ("ok", 0, [])
    assert shown(place.read("out.ipynb").cells[0]) == "2\n"


def test_progress_is_a_plain_line_each_and_quiet_says_nothing(place: Place) -> None:
    place.write("in.ipynb", agent_notebook("%acp connect demo", "write a.txt: one"))
    loud = place.call("run", "in.ipynb", "-o", "out.ipynb", "--permissions", "allow")
    for words in ("cell 2 of 2: write a.txt", "Write a.txt: completed", "turn 1: end_turn"):
        assert words in loud.stderr
    assert "\x1b" not in loud.stderr
    assert "\r" not in loud.stderr
    assert loud.stdout == ""
    quiet = place.call("run", "in.ipynb", "-o", "out.ipynb", "--permissions", "allow", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_what_the_agent_does_takes_one_line() -> None:
    stream = Terminal()
    lines = Lines(stream)
    lines.prompt("write a.txt: one")
    lines.activity("Write \x1b[31ma.txt: pending")
    lines.turn({"turn": 1, "stop_reason": "end_turn", "cost": 0.5, "currency": "USD"})
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert written.endswith("\r\x1b[K  turn 1: end_turn, 0.5 USD\n")
    assert "\x1b[31m" not in written


def test_each_way_to_end_has_a_code_of_its_own() -> None:
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert 2 not in EXIT_CODES.values(), "that is a wrong command line"
