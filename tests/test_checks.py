"""Checks of a turn: the language, what each finds, snapshots, and the magic in both surfaces."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import acp_jupyter as acp
from acp_jupyter.errors import CheckFailed, UsageError
from acp_jupyter.experiments import checking
from acp_jupyter.rendering import checks as rendering
from acp_jupyter.services.patterns import within_path
from acp_jupyter.services.workspace import snapshot
from acp_jupyter.session.checks import (
    CommandEnd,
    Found,
    Result,
    evaluate,
    parse,
    parse_line,
)
from acp_jupyter.session.transcript import (
    FilesEntry,
    MessageEntry,
    PermissionEntry,
    TerminalState,
    TextBuffer,
    ToolCallEntry,
    Turn,
)
from tests.conftest import alive, wait_until
from tests.experiment_notebooks import Place, agent_notebook, python_notebook, shown


def matches(pattern: str, path: str) -> bool:
    return within_path(pattern, path, strict=True)


def turn_of(text: str = "", *entries: Any, **fields: Any) -> Turn:
    """A turn of two seconds that answered a text."""
    message = MessageEntry("e1", 1, parts=[TextBuffer(text)])
    usage = {"used": 100, "cost": {"amount": 0.07, "currency": "USD"}}
    held = {"ended": 2.0, "stop_reason": "end_turn", "usage": usage, "cost_before": 0.03}
    return Turn(1, entries=[message, *entries], **{**held, **fields})


def status(line: str, turn: Turn | None = None, **found: Any) -> str:
    (result,) = evaluate([parse_line(line)], Found(turn or turn_of(), **found), matches)
    assert result.check == line
    return result.status


# -- the language -----------------------------------------------------------------------------


def test_empty_lines_and_comments_are_no_checks() -> None:
    found = parse("\n# a comment\n  changed a.py  \n\ncost <= 1_000.5\n")
    assert [check.line for check in found] == ["changed a.py", "cost <= 1_000.5"]
    assert found[1].value == 1000.5


@pytest.mark.parametrize(
    "line",
    [
        "chnged a.py",
        "changed",
        "changedx",
        "changed:",
        "cost",
        "cost = 1",
        "cost >= 1",
        "cost <= x",
        "command:",
        "text matches: total",
        "text matches: /(/",
        "text matches: /a/g",
        "json: answer",
        "json: .a = 1",
        "json: .a == Ada",
        "json: .a ==",
        "no permission",
        "%acp",
    ],
)
def test_a_line_that_is_no_check_is_refused_with_what_to_write(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert caught.value.remedy or "regular expression" in caught.value.message


def test_a_mistyped_check_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'tool used'"):
        parse_line("tool use: edit")


@given(st.text(max_size=60))
def test_no_text_makes_reading_checks_fail_otherwise(text: str) -> None:
    try:
        checks = parse(text)
    except UsageError:
        return
    evaluate(checks, Found(turn_of(text)), matches)


@pytest.mark.parametrize(
    ("keywords", "lines"),
    [
        ({"changed": ["a", "b"]}, ["changed a", "changed b"]),
        ({"tool_not_used": "execute"}, ["tool not used: execute"]),
        ({"cost": 0.5, "seconds": 60}, ["cost <= 0.5", "seconds <= 60"]),
        ({"no_permission_denied": True}, ["no permission denied"]),
        ({"json": ".a == 1"}, ["json: .a == 1"]),
    ],
)
def test_a_program_gives_checks_as_keywords(keywords: dict[str, Any], lines: list[str]) -> None:
    found = checking.from_arguments(["# none", "unchanged z"], keywords)
    assert [check.line for check in found] == ["unchanged z", *lines]


@pytest.mark.parametrize("keywords", [{"colour": 1}, {"no_permission_denied": False}])
def test_an_unknown_keyword_is_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is no check"):
        checking.from_arguments([], keywords)


# -- what each finds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("changed src/*.py", "passed"),
        ("changed src/a.py", "passed"),
        ("changed *.py", "failed"),
        ("changed docs/**", "failed"),
        ("unchanged docs/**", "passed"),
        ("unchanged src/**", "failed"),
    ],
)
def test_files_are_told_by_what_changed(line: str, expected: str) -> None:
    assert status(line, changed=["src/a.py", "src/deep/b.txt"]) == expected
    assert status(line, changed=None, unknown="why") == "error"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (CommandEnd(0), "passed"),
        (CommandEnd(1, "trace"), "failed"),
        (CommandEnd(None, "late"), "error"),
    ],
)
def test_a_command_passes_with_exit_code_0(end: CommandEnd, expected: str) -> None:
    assert status("command: make", commands={"make": end}) == expected


def test_a_tool_was_used_if_a_call_of_its_kind_was_completed() -> None:
    done = ToolCallEntry("e2", 1, kind="edit", status="completed", name="write_file")
    failed = ToolCallEntry("e3", 1, kind="search", status="failed")
    turn = turn_of("", done, failed)
    assert status("tool used: edit", turn) == "passed"
    assert status("tool used: write_file", turn) == "passed"
    assert status("tool used: search", turn) == "failed"
    assert status("tool not used: search", turn) == "failed", "it was tried"
    assert status("tool not used: execute", turn) == "passed"


def test_what_the_client_did_counts_whatever_the_agent_calls_it() -> None:
    written = FilesEntry("e2", 1, events=[("write", "/w/a.py", "served", "")])
    refused = FilesEntry("e3", 1, events=[("read", "/etc/passwd", "refused", "outside")])
    turn = turn_of("", written, refused)
    assert status("tool not used: edit", turn) == "failed"
    assert status("tool not used: read", turn) == "passed"
    own = {"t1": TerminalState("t1", argv=["make"], turn=1, own=True)}
    assert status("tool not used: execute", turn, terminals=own) == "failed"
    earlier = {"t1": TerminalState("t1", argv=["make"], turn=0, own=True)}
    assert status("tool not used: execute", turn, terminals=earlier) == "passed"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("text contains: Total: 42", "passed"),
        ("text contains: total: 42", "failed"),
        (r"text matches: /total: \d+/", "failed"),
        (r"text matches: /total: \d+/i", "passed"),
        (r"text matches: /^The/", "passed"),
    ],
)
def test_text_is_the_answers(line: str, expected: str) -> None:
    assert status(line, turn_of("The\nTotal: 42")) == expected


ANSWER = """Here:

```json
{"answer": 41}
```

No, rather:

```
{"answer": 42, "list": [{"full name": "Ada"}], "yes": true, "none": null}
```

```python
print(1)
```
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("json: .answer == 42", "passed"),
        ("json: .answer != 42", "failed"),
        ("json: .answer>=42.0", "passed"),
        ("json: .answer < 42", "failed"),
        ('json: .list[0]["full name"] == "Ada"', "passed"),
        ('json: .list[-1]["full name"]', "passed"),
        ("json: .list[1]", "failed"),
        ("json: .missing", "failed"),
        ("json: .list.answer", "failed"),
        ("json: .answer[0]", "failed"),
        ('json: .answer < "x"', "failed"),
        ("json: .yes == true", "passed"),
        ("json: .yes == 1", "failed"),
        ("json: .yes != 1", "passed"),
        ("json: .yes >= 1", "failed"),
        ("json: .none == null", "passed"),
        ("json: .list == []", "failed"),
    ],
)
def test_json_is_the_last_code_block_that_holds_some(line: str, expected: str) -> None:
    assert status(line, turn_of(ANSWER)) == expected
    assert status(line, turn_of("no JSON at all")) == "failed"


def test_json_may_be_the_whole_answer() -> None:
    assert status("json: .[0] == 1", turn_of("[1]")) == "passed"
    assert status("json: . == [1]", turn_of(" [1]\n")) == "passed"
    assert status("json: .a", turn_of("[" * 100_000)) == "failed"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cost <= 0.05", "passed"),  # 0.07 less the 0.03 of the turns before
        ("cost < 0.03", "failed"),
        ("seconds <= 2", "passed"),
        ("seconds < 2", "failed"),
        ("tokens <= 5_000", "passed"),
        ("tokens < 100", "failed"),
        ("no permission denied", "passed"),
        ("stop reason: end_turn", "passed"),
        ("stop reason: refusal", "failed"),
    ],
)
def test_limits_are_held_against_the_turn(line: str, expected: str) -> None:
    assert status(line) == expected


@pytest.mark.parametrize("line", ["cost <= 1", "tokens <= 1"])
def test_what_the_agent_does_not_report_is_an_error_and_no_pass(line: str) -> None:
    assert status(line, turn_of("", usage={})) == "error"


def test_a_denied_permission_fails_its_check() -> None:
    turn = turn_of("", PermissionEntry("e2", 1, state="denied", title="Write a.txt"))
    assert status("no permission denied", turn) == "failed"


# -- how they are shown -----------------------------------------------------------------------


def test_results_are_shown_as_a_table_and_kept_as_data() -> None:
    hostile = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
    results = [
        Result("changed a.py", "passed", "a.py"),
        Result("command: make", "failed", f"exit code 1\n{hostile}"),
        Result("cost <= 1", "error", "the agent reported no cost"),
    ]
    bundle = rendering.bundle(results)
    assert "1 of 3 checks passed" in bundle["text/plain"]
    assert "✗ command: make: failed" in bundle["text/plain"]
    for text in bundle.values():
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<img" not in bundle["text/html"]
    data = rendering.metadata(results)["acp"]["checks"]
    assert [check["status"] for check in data] == ["passed", "failed", "error"]


def test_results_raise_where_one_did_not_pass() -> None:
    good = checking.Checks([Result("changed a", "passed")])
    assert good.passed
    assert good.raise_for_failure() is good
    bad = checking.Checks([*good, Result("changed b", "error", "unknown")])
    assert not bad.passed
    with pytest.raises(CheckFailed, match="1 of 2 checks did not pass: changed b"):
        bad.raise_for_failure()


# -- snapshots --------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    name = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(params=["folder", "git"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two files, in a git worktree or not."""
    folder = tmp_path / "w"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("a = 1\n")
    (folder / "b.txt").write_text("b\n")
    if request.param == "git":
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
    return folder


def test_a_snapshot_tells_what_changed_came_and_went(workspace: Path) -> None:
    before = snapshot.take(str(workspace))
    assert before.changed() == []
    times = os.stat(workspace / "src" / "a.py")
    (workspace / "src" / "a.py").write_text("a = 2\n")  # of the same size
    os.utime(workspace / "src" / "a.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    (workspace / "b.txt").unlink()
    (workspace / "new file.txt").write_text("")
    (workspace / "link").symlink_to("/etc/passwd")
    assert before.changed() == ["b.txt", "link", "new file.txt", "src/a.py"]


def test_a_file_that_was_only_touched_has_not_changed(workspace: Path) -> None:
    before = snapshot.take(str(workspace))
    os.utime(workspace / "b.txt")
    assert before.changed() == []


def test_a_file_that_becomes_something_else_has_changed(workspace: Path) -> None:
    before = snapshot.take(str(workspace))
    (workspace / "b.txt").unlink()
    os.mkfifo(workspace / "b.txt")  # reading it would wait for ever
    assert before.changed() == ["b.txt"]


def test_a_snapshot_of_a_worktree_leaves_out_what_git_ignores(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build").mkdir()
    before = snapshot.take(str(tmp_path))
    (tmp_path / "build" / "out.txt").write_text("x")
    (tmp_path / "kept.txt").write_text("x")
    assert before.changed() == ["kept.txt"]
    # A folder that is ignored as a whole is not empty for that.
    inside = snapshot.take(str(tmp_path / "build"))
    assert list(inside.files) == ["out.txt"]


def test_a_snapshot_starts_no_program_that_a_repository_names(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("a")
    program = tmp_path.parent / f"{tmp_path.name}.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path.parent}/{tmp_path.name}.ran\n")
    program.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(program))
    snapshot.take(str(tmp_path)).changed()
    assert not program.with_suffix(".ran").exists()


def test_a_folder_with_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / str(number)).write_text("")
    with pytest.raises(UsageError, match="more than 3 files"):
        snapshot.take(str(tmp_path))


# -- commands ---------------------------------------------------------------------------------


def run_command(command: str, cwd: Path, timeout: float = 30.0) -> Result:
    line = f"command: {command}"
    found = checking.run_checks(
        [parse_line(line)], turn_of(), terminals={}, cwd=str(cwd), snapshot=None, timeout=timeout
    )
    result: Result = found[0]
    return result


def test_a_command_runs_in_the_sessions_folder_without_jupyters_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_TOKEN", "token-4711-0815")
    monkeypatch.setenv("OWN_API_KEY", "key-4711-0815")
    code = (
        "import os; print(os.getcwd(), os.environ.get('JUPYTER_TOKEN'), os.environ['OWN_API_KEY'])"
    )
    result = run_command(f'{sys.executable} -c "{code}"', tmp_path)
    assert result.passed
    assert f"{os.path.realpath(tmp_path)} None [redacted]" in result.detail


def test_a_command_is_no_shells(tmp_path: Path) -> None:
    assert run_command("echo a > made", tmp_path).passed
    assert not (tmp_path / "made").exists()


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "open('pid', 'w').write(str(child.pid)); time.sleep(600)"
    )
    begun = time.monotonic()
    result = run_command(f'{sys.executable} -c "{code}"', tmp_path, timeout=3.0)
    assert result.status == "error"
    assert "longer than 3 s" in result.detail
    assert time.monotonic() - begun < 60
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not alive(pid))


@pytest.mark.parametrize("command", ["no-such-program", "'open quote", '""'])
def test_a_command_that_cannot_be_started_is_an_error(tmp_path: Path, command: str) -> None:
    assert run_command(command, tmp_path).status == "error"


# -- with an agent ----------------------------------------------------------------------------


def test_a_turn_is_checked_from_python(tmp_path: Path) -> None:
    with acp.connect("demo", cwd=tmp_path, permissions="allow") as agent:
        session = agent.new_session()
        with pytest.raises(UsageError, match="no turn to check"):
            session.check("changed a.txt")
        session.snapshot()
        turn = session.prompt("write a.txt: one")
        found = session.check(
            "unchanged b*", changed="a.txt", tool_used="edit", cost=1, command="test -f a.txt"
        )
        assert found.passed, found.as_json()
        assert [result.check for result in found][:2] == ["unchanged b*", "changed a.txt"]
        assert turn.check("changed a.txt", "unchanged b*").passed  # while the turn ran
        session._live.changed.watch = None
        unknown = session.prompt("write a.txt: two").check("changed a.txt")
        assert unknown[0].status == "error"
        assert "session.snapshot()" in unknown[0].detail
        with pytest.raises(CheckFailed, match="text contains"):
            turn.check("text contains: never said", fail=True)
        with pytest.raises(UsageError, match="nothing to check"):
            turn.check()


CHECKS = """%%acp_check
changed src/*.py
unchanged tests/**
command: test -f src/a.py
tool used: edit
text contains: never said
stop reason: end_turn"""


def test_a_cell_of_checks_shows_them_and_keeps_their_data(tmp_path: Path) -> None:
    place = Place(tmp_path)
    notebook = agent_notebook("%acp connect demo", "%acp snapshot", "write src/a.py: a = 1", CHECKS)
    summary = place.run(notebook, "--permissions", "allow", "--fail-on-check", expect=4)
    assert summary["status"] == "check"
    assert summary["error"] == "1 of 6 checks did not pass"
    assert [check["cell"] for check in summary["checks"]] == [3] * 6
    assert summary["totals"]["checks_passed"] == 5
    cell = place.read("out.ipynb").cells[3]
    assert "5 of 6 checks passed" in shown(cell)
    (output,) = cell.outputs
    data = output.metadata.acp.checks
    assert {check.check: check.status for check in data}["text contains: never said"] == "failed"


def test_checks_fail_their_cell_where_they_are_asked_to(tmp_path: Path) -> None:
    place = Place(tmp_path)
    summary = place.run(
        python_notebook(
            "%load_ext acp_jupyter\n%acp connect demo --as one",
            "import acp_jupyter\n"
            "with acp_jupyter.connect('demo') as agent:\n"
            "    session = agent.new_session()\n"
            "    turn = session.prompt('Hello')\n"
            "turn.check(stop_reason='end_turn')",
            "%%acp --session one\nHello",
            "%%acp_check --session one\nstop reason: refusal",
            "%%acp_check --session one --fail\nstop reason: refusal",
            "print('never')",
        ),
        expect=4,
    )
    assert summary["status"] == "check"
    assert [check["status"] for check in summary["checks"]] == ["passed", "failed", "failed"]
    cells = place.read("out.ipynb").cells
    assert cells[1].outputs[0].metadata.acp.checks[0].status == "passed"
    assert cells[4].outputs[-1].ename == "CheckFailed"
    assert cells[5].outputs == []


def test_checks_that_cannot_be_made_are_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    tags = ["raises-exception"]
    place.run(
        agent_notebook(
            ("%%acp_check\nstop reason: end_turn", tags),
            "%acp connect demo",
            ("%%acp_check\nstop reason: end_turn", tags),
            ("%%acp_check --session nobody\nstop reason: end_turn", tags),
            ("%%acp_check --fial\nstop reason: end_turn", tags),
            ("%%acp_check\nchnged a", tags),
            "Hello",
            "%%acp_check\nchanged a",
        ),
    )
    cells = place.read("out.ipynb").cells
    for number, words in (
        (0, "no agent is connected"),
        (2, "was not prompted yet"),
        (3, "no agent was connected as 'nobody'"),
        (4, "--fial"),
        (5, "'chnged a' is no check"),
        (7, "no file that matches"),
    ):
        assert words in shown(cells[number]), (number, shown(cells[number]))
