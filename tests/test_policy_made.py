"""Policies made of decisions: as narrow as what was decided, whoever wrote the notebook."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from acp_jupyter.services.decisions import Record, from_json, record_of
from acp_jupyter.services.policy import Decision, Subject
from acp_jupyter.services.policy_file import parse_policy
from acp_jupyter.services.policy_made import as_json, as_toml, make_policy, records_in
from acp_jupyter.session.transcript import PermissionChoice, PermissionEntry
from tests.test_cli import run
from tests.test_policy import CWD, action, requested, started

OPTIONS = [PermissionChoice("a", "Yes", "allow_once"), PermissionChoice("b", "No", "reject_once")]


def decided(subject: Subject, *, allowed: bool = True, by: str = "user") -> Record:
    entry = PermissionEntry("e1", 1, title="A title", options=OPTIONS)
    decision = Decision("allowed" if allowed else "denied", 0 if allowed else 1, by)
    return record_of(entry, subject, decision, at="2026-01-02T03:04:05+00:00", waited=1.5)


def made_into_rules(*records: Record) -> list[dict[str, Any]]:
    """The rules as they stand in a TOML file."""
    return list(tomllib.loads(as_toml(make_policy(records), source="x")).get("rules", []))


NASTY = [
    "make test && make install",
    "echo '*' \"[a]\" \\ $HOME",
    "a\nb\tc\x01\x7f\u202e\u00e9\U0001f600",
    "x = '''\"\"\"'''",
]


@pytest.mark.parametrize("line", ["git status", *NASTY])
def test_a_command_that_was_allowed_is_allowed_exactly(line: str) -> None:
    rules = made_into_rules(decided(requested({"command": line})))
    assert action(requested({"command": line}), *rules) == "allow"
    assert action(requested({"command": line}, agent="another"), *rules) == "ask"
    for other in (line + " x", line + "; x", line[:-1], "x " + line, line.replace("e", "f", 1)):
        if other != line:
            assert action(requested({"command": other}), *rules) == "ask", other


def test_a_file_that_was_edited_may_be_edited_again_and_no_other() -> None:
    rules = made_into_rules(decided(requested(diffs=(f"{CWD}/src/a[1]*.py",))))
    assert action(requested(diffs=(f"{CWD}/src/a[1]*.py",)), *rules) == "allow"
    assert action(requested(diffs=(f"{CWD}/src/a1x.py",)), *rules) == "ask"
    assert action(requested(diffs=(f"{CWD}/src/a[1]*.py", f"{CWD}/b")), *rules) == "ask"
    assert action(requested({"command": "rm src/a"}), *rules) == "ask"


def test_what_was_denied_once_is_denied() -> None:
    yes = decided(started("make", "x"))
    no = decided(started("make", "x"), allowed=False)
    for records in ((yes, no), (no, yes)):
        rules = made_into_rules(*records)
        assert [rule["action"] for rule in rules] == ["deny", "allow"]
        assert action(started("make", "x"), *rules) == "deny"


@pytest.mark.parametrize("by", ["policy", "nobody", "cancel", "agent"])
def test_only_what_the_user_decided_counts(by: str) -> None:
    assert made_into_rules(decided(started("ls"), by=by)) == []
    assert made_into_rules(decided(started("ls"), by="remembered"))


@pytest.mark.parametrize(
    "subject",
    [
        requested({"n": 1}),
        requested({"command": "ls", "cmd": "rm"}),
        requested({"command": "ls"}, diffs=(f"{CWD}/a",)),
        requested(diffs=(f"{CWD}/a", f"{CWD}/b")),
        requested(diffs=("/etc/passwd",)),
        requested(diffs=(f"{CWD}/.env",)),
        requested({"command": "cat .env"}),
        requested({"command": "make", "cwd": "/etc"}),
        requested({"command": "a" * 5000}),
        requested({"command": "x\ud800"}),
    ],
)
def test_what_cannot_be_said_narrowly_is_left_out_and_named(subject: Subject) -> None:
    made = make_policy([decided(subject)])
    assert made.rules == ()
    assert len(made.left_out) == 1
    assert "\n" not in made.left_out[0]


def test_the_same_decision_twice_is_one_rule_and_json_says_the_same() -> None:
    made = make_policy([decided(started("ls")), decided(started("ls"))])
    assert len(made.rules) == 1
    assert parse_policy(json.loads(as_json(made))).rules[0].command == "ls"


def test_a_record_survives_json() -> None:
    record = decided(requested({"command": "a; b"}))
    assert from_json(json.loads(json.dumps(record.as_json()))) == record


@pytest.mark.parametrize(
    "change",
    [
        {"kinds": ["everything"]},
        {"kinds": "execute"},
        {"command": ["ls"]},
        {"command": "x" * 10_000},
        {"paths": [1]},
        {"paths": ["a"] * 1000},
        {"shell": "no"},
        {"exact": 1},
        {"turn": "1"},
        {"waited": None},
        {"agent": None},
        {"outcome": 7},
    ],
)
def test_f62_a_record_that_is_none_is_not_read(change: dict[str, Any]) -> None:
    data = decided(started("ls")).as_json()
    assert from_json({**data, **change}) is None
    assert from_json([data]) is None
    assert from_json({}) is None


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../b", "~/x", ".env", ".git/config"])
def test_f62_a_forged_record_makes_no_rule_beyond_the_folder_or_for_protected_files(
    path: str,
) -> None:
    forged = replace(decided(requested(diffs=(f"{CWD}/a",))), paths=(path,))
    assert make_policy([forged]).rules == ()


def test_f62_a_forged_pattern_is_taken_literally() -> None:
    forged = replace(decided(started("ls")), command="*", shell=True, agent="*")
    rules = made_into_rules(forged)
    assert action(started("rm", "x"), *rules) == "ask"


def test_decisions_are_found_in_metadata_of_any_shape() -> None:
    outputs: list[dict[str, Any]] = [
        {},
        {"metadata": None},
        {"metadata": {"acp": 1}},
        {"metadata": {"acp": {}}},
    ]
    assert records_in(outputs) == []
    assert records_in([{"metadata": {"acp": {"decisions": [7]}}}]) == [7]


# -- the command --------------------------------------------------------------------------------


def notebook(folder: Path, *decisions: Any) -> str:
    outputs = [
        nbformat.v4.new_output(
            "display_data", {"text/plain": "Allowed"}, metadata={"acp": {"decisions": [decision]}}
        )
        for decision in decisions
    ]
    cell = nbformat.v4.new_code_cell("prompt", outputs=outputs)
    path = folder / "run.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return str(path)


def test_the_command_shows_and_writes_a_policy(tmp_path: Path) -> None:
    record = decided(requested({"command": "make test"})).as_json()
    path = notebook(tmp_path, record, {"forged": 1})
    done = run("policy", "--from", path, "-o", "made.toml", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, (tmp_path / "made.toml").read_text())
    assert tomllib.loads(done.stdout)["rules"] == [
        {"action": "allow", "kind": "execute", "command": "make test", "agent": "demo"}
    ]
    assert "1 that cannot be read" in done.stderr
    again = run("policy", "--from", path, "-o", "made.toml", home=tmp_path)
    assert (again.returncode, "there already" in again.stderr) == (1, True)
    done = run("policy", "--from", path, "-o", "made.json", home=tmp_path)
    assert json.loads((tmp_path / "made.json").read_text())["default"] == "ask"


def test_the_command_says_when_there_is_nothing_to_make(tmp_path: Path) -> None:
    path = notebook(tmp_path, decided(requested({"n": 1})).as_json())
    done = run("policy", "--from", path, "-o", "made.toml", home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "left out" in done.stderr
    assert not (tmp_path / "made.toml").exists()


def test_the_command_tells_what_is_no_notebook(tmp_path: Path) -> None:
    (tmp_path / "text.ipynb").write_text("no notebook")
    for name in ("text.ipynb", "missing.ipynb"):
        done = run("policy", "--from", name, home=tmp_path)
        assert (done.returncode, "cannot be read" in done.stderr) == (1, True), done.stderr
    assert run("policy", home=tmp_path).returncode == 2
