"""What a run was made with, and what of it differs now."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from acp_jupyter import __version__
from acp_jupyter.experiments import header
from tests.experiment_notebooks import Place, agent_notebook, python_notebook


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A git repository in which ``in.ipynb`` was run, with a file that is not committed."""
    made = Place(tmp_path_factory.mktemp("verify"))
    made.write("in.ipynb", agent_notebook("%acp connect demo", "Hello"))
    git(made.work, "init", "-q")
    git(made.work, "add", ".")
    git(made.work, "commit", "-qm", "first")
    (made.work / "draft.txt").write_text("not committed")
    done = made.call("run", "in.ipynb", "-o", "out.ipynb", "--record", "--permissions", "deny")
    assert done.returncode == 0, done.stderr
    return made


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def verified(place: Place, *arguments: str, expect: int) -> dict[str, Any]:
    done = place.call_here("verify", "--json", *arguments)
    assert done.returncode == expect, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["same"] is (expect == 0)
    return found


def changed_header(place: Place, name: str, **changes: Any) -> None:
    """A copy of the executed notebook that says it was run with something else."""
    notebook = place.read("out.ipynb")
    for path, value in changes.items():
        target = notebook.metadata.acp.run
        *parents, last = path.split("__")
        for parent in parents:
            target = target[int(parent) if parent.isdigit() else parent]
        target[last] = value
    nbformat.write(notebook, place.work / name)


def test_the_header_says_what_the_run_was_made_with(place: Place) -> None:
    held = place.read("out.ipynb").metadata.acp.run
    assert held.version == 1
    assert held.notebook == "in.ipynb"
    assert held.packages["acp-jupyter"] == __version__
    assert held.environment.python.count(".") == 2
    assert held.repository == {"commit": git(place.work, "rev-parse", "HEAD"), "dirty": 1}
    (agent,) = held.agents
    assert (agent.name, agent.agent, agent.version) == ("demo", "Demo Agent", "1.0.0")
    assert agent.model == "small"
    assert agent.options.mode == "ask"
    assert agent.mcp_servers == []
    assert agent.policy.default == "deny"


def test_nothing_differs_right_after_the_run(place: Place) -> None:
    found = verified(
        place, "out.ipynb", "--source", "in.ipynb", "--permissions", "deny", "--agents", expect=0
    )
    assert found["differences"] == []
    assert found["not_compared"] == []
    done = place.call_here("verify", "out.ipynb")
    assert (done.returncode, done.stdout) == (0, "Nothing differs.\n")
    assert done.stderr.count("not compared:") == 3


def test_what_differs_is_told_with_then_and_now(place: Place) -> None:
    changed_header(
        place,
        "../other.ipynb",
        packages__trio="0.1",
        environment__digest="0" * 64,
        repository__commit="0" * 40,
        agents__0__version="0.9",
        agents__0__command=["python", "old.py"],
        agents__0__policy__default="allow",
        source="0" * 64,
    )
    found = verified(
        place,
        *("../other.ipynb", "--cwd", ".", "--source", "in.ipynb"),
        *("--permissions", "deny", "--agents"),
        expect=3,
    )
    differing = {item["what"]: item["then"] for item in found["differences"]}
    assert differing.pop("repository.dirty", 1) == 1, "out.ipynb counts for another notebook"
    assert set(differing) == {
        "packages.trio",
        "environment.digest",
        "repository.commit",
        "source",
        "agents.demo.version",
        "agents.demo.command",
        "agents.demo.policy.default",
    }
    shown = place.call_here("verify", "../other.ipynb", "--cwd", ".")
    assert shown.returncode == 3
    assert "packages.trio: 0.1 then, " in shown.stdout


def test_a_notebook_names_no_program_to_start(place: Place) -> None:
    changed_header(
        place, "hostile.ipynb", agents__0__name="touch made", agents__0__command=["touch"]
    )
    found = verified(place, "hostile.ipynb", "--agents", "--cwd", "..", expect=3)
    assert any("touch made" in line for line in found["not_compared"])
    assert not (place.work / "made").exists()
    (place.work / "hostile.ipynb").unlink()


@pytest.mark.parametrize("agents", [None, "x", [1], [{}], [{"name": 3}], [{"name": "demo"}]])
def test_a_damaged_header_is_compared_as_far_as_it_goes(place: Place, agents: Any) -> None:
    changed_header(place, "damaged.ipynb", agents=agents, packages=[], environment=None)
    verified(place, "damaged.ipynb", "--agents", "--permissions", "deny", expect=3)
    (place.work / "damaged.ipynb").unlink()


def test_a_notebook_that_was_not_run_has_nothing_to_verify(place: Place) -> None:
    for name in ("in.ipynb", "none.ipynb"):
        done = place.call_here("verify", name)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
    assert "does not say what it was run with" in place.call_here("verify", "in.ipynb").stderr


def test_the_source_is_what_the_cells_say_without_injected_parameters() -> None:
    plain = python_notebook("a", "b")
    injected = python_notebook("a", ("x = 1", ["injected-parameters"]), "b")
    assert header.source_digest(plain) == header.source_digest(injected)
    assert header.source_digest(plain) != header.source_digest(python_notebook("a", "c"))


def test_an_agent_that_is_connected_again_stands_there_once_as_it_was_last() -> None:
    facts = {"connection": "", "name": "demo", "model": "small", "kind": "agent"}
    held: dict[str, Any] = {"agents": []}
    header.add_agent(held, facts)
    header.add_agent(held, {**facts, "connection": "b"})
    header.add_agent(held, {**facts, "model": "large"})
    assert [(agent["connection"], agent["model"]) for agent in held["agents"]] == [
        ("b", "small"),
        ("", "large"),
    ]
    assert "kind" not in held["agents"][0]
