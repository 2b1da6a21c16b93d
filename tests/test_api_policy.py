"""Policies and decisions in the Python API, with a real agent and nobody to ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import acp_jupyter as acp
from acp_jupyter.errors import UsageError
from tests.test_api import _settings_of_nobody  # noqa: F401

POLICY = {"rules": [{"action": "allow", "command": "echo allowed"}]}


def test_a_dict_or_a_file_decides_and_each_decision_is_data(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(POLICY))
    for policy in (POLICY, path, str(path)):
        with acp.connect("demo", cwd=folder, permissions=policy) as agent:
            session = agent.new_session()
            session.prompt("run echo allowed")
            session.prompt("run echo other")
            made = json.loads(json.dumps([record.as_json() for record in session.decisions]))
        assert [(r["command"], r["outcome"], r["by"]) for r in made] == [
            ("echo allowed", "allowed", "policy"),  # what the agent asked
            ("echo allowed", "allowed", "policy"),  # before the client started it
            ("echo other", "denied", "nobody"),
        ]
        assert made[0]["rule"] == "rule 1: allow `echo allowed`"


def test_f33_a_policy_in_the_agents_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(POLICY))
    with pytest.raises(UsageError, match="could rewrite it"):
        acp.connect("demo", cwd=tmp_path, permissions=path)


def test_a_mistake_in_a_policy_is_told_before_anything_starts() -> None:
    for policy in ({"rules": [{"action": "perhaps"}]}, "perhaps"):
        with pytest.raises(UsageError, match="'perhaps'"):
            acp.connect("demo", permissions=policy)
