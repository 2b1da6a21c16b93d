"""Reading permission policies: TOML, JSON and dicts; every mistake is told with its place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.services.policy import Policy, Rule
from acp_jupyter.services.policy_file import (
    LARGEST,
    check_outside,
    parse_policy,
    read_policy,
    read_policy_file,
)

TOML = """\
default = "deny"

[[rules]]
action = "allow"
kind = "edit"
path = "src/**"

[[rules]]
action = "ask"
command = "git push *"

[[rules]]
action = "allow"
command = "make a && make b"
shell = true
agent = "demo"
"""

RULES = (
    Rule(1, "allow", kind="edit", path="src/**"),
    Rule(2, "ask", command="git push *"),
    Rule(3, "allow", command="make a && make b", shell=True, agent="demo"),
)


def written(folder: Path, text: str, name: str = "policy.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_toml_file_is_read_in_order(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, TOML))
    assert (policy.default, policy.rules) == ("deny", RULES)
    assert policy.source == str(tmp_path / "policy.toml")
    assert len(policy.digest) == 64


def test_a_json_file_and_a_dict_say_the_same(tmp_path: Path) -> None:
    document = {
        "default": "deny",
        "rules": [
            {"action": "allow", "kind": "edit", "path": "src/**"},
            {"action": "ask", "command": "git push *"},
            {"action": "allow", "command": "make a && make b", "shell": True, "agent": "demo"},
        ],
    }
    path = written(tmp_path, json.dumps(document), "policy.json")
    assert read_policy(path).rules == RULES
    assert read_policy(document) == Policy("deny", RULES)


@pytest.mark.parametrize("mode", ["ask", "deny", "allow", " ASK "])
def test_a_mode_is_a_policy(mode: str) -> None:
    assert read_policy(mode) == Policy(mode.strip().lower())  # type: ignore[arg-type]


def test_without_a_default_it_asks() -> None:
    assert parse_policy({}) == Policy("ask")


def test_a_policy_is_its_own() -> None:
    policy = Policy("deny", RULES)
    assert read_policy(policy) is policy


def test_a_home_directory_and_a_byte_order_mark_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "p.toml").write_bytes(b"\xef\xbb\xbfdefault = 'deny'\n")
    assert read_policy("~/p.toml").default == "deny"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({}, "action is missing"),
        ({"action": "perhaps"}, "'perhaps'"),
        ({"action": True}, "True"),
        ({"action": "allow", "kinds": "edit"}, "'kinds'"),
        ({"action": "allow", "kind": "edits"}, "'edits'"),
        ({"action": "allow", "kind": "fetch"}, "only the agent says so"),
        ({"action": "allow", "kind": 1}, "kind must be"),
        ({"action": "allow", "path": ""}, "path must be"),
        ({"action": "allow", "path": "/etc/*"}, "not relative"),
        ({"action": "allow", "path": "~/x"}, "not relative"),
        ({"action": "allow", "path": "C:/x"}, "not relative"),
        ({"action": "allow", "path": "a/../b"}, "'..'"),
        ({"action": "allow", "path": "./b"}, "'.'"),
        ({"action": "allow", "path": "a[z-a]"}, "cannot be read"),
        ({"action": "allow", "command": ["ls"]}, "command must be"),
        ({"action": "allow", "command": "a[z-a]"}, "cannot be read"),
        ({"action": "allow", "command_regex": "("}, "command_regex cannot be read"),
        ({"action": "allow", "command": "a", "command_regex": "a"}, "exclude"),
        ({"action": "allow", "command": "a", "kind": "edit"}, "'edit'"),
        ({"action": "allow", "command_regex": "a", "shell": True}, "never allows lines"),
        ({"action": "allow", "command": "a", "shell": "yes"}, "true or false"),
        ({"action": "deny", "command": "a", "shell": True}, "rules that allow"),
        ({"action": "allow", "agent": "[z-a]"}, "cannot be read"),
        ("allow", "no table"),
        (None, "no table"),
    ],
)
def test_a_mistake_in_a_rule_is_told_with_its_number(rule: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy({"rules": [{"action": "ask"}, rule]})
    assert "rule 2" in caught.value.message
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "no table"),
        ("ask", "no table"),
        ({"defaults": "ask"}, "'defaults'"),
        ({"default": "maybe"}, "'maybe'"),
        ({"rules": {}}, "no list"),
        ({"rules": "x"}, "no list"),
    ],
)
def test_a_mistake_in_the_document_is_told(document: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_policy(document)


def test_a_mistake_in_a_file_is_told_with_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path, TOML.replace('"git push *"', "7"))
    with pytest.raises(UsageError) as caught:
        read_policy(path)
    assert f"{path}, rule 2 (line 8): command must be" in caught.value.message


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("p.toml", "default = ask\n", "line 1"),
        ("p.toml", "default = 'ask'\ndefault = 'allow'\n", "line 2"),
        ("p.json", "{\n  nonsense\n}", "line 2"),
        ("p.json", '{"default": "deny", "default": "allow"}', "twice"),
        ("p.json", "[" * 100_000, "nested|line"),
        ("p.toml", "x" * (LARGEST + 1), "larger"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    path = written(tmp_path, text, name)
    with pytest.raises(UsageError, match=told) as caught:
        read_policy(path)
    assert path in caught.value.message


def test_a_file_that_is_none_is_told_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, told in (
        ("missing.toml", "is not there"),
        ("fifo.toml", "no regular file"),
        ("bytes.toml", "not UTF-8"),
    ):
        with pytest.raises(UsageError, match=told):
            read_policy_file(str(tmp_path / name))
    with pytest.raises(UsageError, match="no regular file"):
        read_policy_file(str(tmp_path))


def test_what_is_neither_mode_nor_file_names_both() -> None:
    with pytest.raises(UsageError) as caught:
        read_policy("perhaps")
    assert "ask, deny, allow" in caught.value.remedy
    assert ".toml" in caught.value.remedy


def test_f33_a_policy_within_the_sessions_folder_is_refused(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "project-policies"
    (project / "sub").mkdir(parents=True)
    elsewhere.mkdir()
    inside = read_policy(written(project / "sub", TOML))
    with pytest.raises(UsageError, match="could rewrite it"):
        check_outside(inside, [str(project)])
    check_outside(inside, [str(elsewhere)])
    outside = read_policy(written(elsewhere, TOML))
    check_outside(outside, [str(project)])
    check_outside(Policy("allow"), [str(project)])


def test_f33_links_into_the_sessions_folder_are_seen_through(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    real = written(project, TOML)
    os.symlink(real, elsewhere / "link.toml")
    outward = written(elsewhere, TOML)
    os.symlink(outward, project / "outward.toml")
    os.symlink(project, tmp_path / "other-name")
    for path in (elsewhere / "link.toml", project / "outward.toml"):
        with pytest.raises(UsageError, match="could rewrite it"):
            check_outside(read_policy(path), [str(project)])
    with pytest.raises(UsageError, match="could rewrite it"):
        check_outside(read_policy(real), [str(tmp_path / "other-name")])


def test_a_file_rewritten_after_it_was_read_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, TOML)
    policy = read_policy(path)
    written(tmp_path, 'default = "allow"\n')
    assert policy.default == "deny"
