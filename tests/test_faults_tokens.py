"""A Jupyter token stays where it is (F56): it is in no process that the kernel starts, and in
nothing that is shown, logged, saved or recorded. The kernel has all the variables that servers and
hubs set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys  # in the scenarios
from pathlib import Path

import psutil
import pytest

from tests.conftest import wait_until
from tests.kernel_client import open_kernel

CANARY = "canary-jupyter-token-c0ffee4711"

TOKENS = {
    "JUPYTER_TOKEN": f"{CANARY}-1",
    "JUPYTERHUB_API_TOKEN": f"{CANARY}-2",
    "JPY_API_TOKEN": f"{CANARY}-2",
    "JUPYTERHUB_OAUTH_STATE": f"{CANARY}-3",
    "JUPYTER_SERVER_PASSWORD": f"{CANARY}-4",
    "JUPYTERHUB_SERVICE_URL": f"http://user:{CANARY}-5@127.0.0.1:1/user/ada/",
    "CONFIGPROXY_AUTH_TOKEN": f"{CANARY}-6",
    "COPIED": f"token {CANARY}-1",
}
"""What JupyterHub, its proxy and servers set, and a copy under another name."""

LIMIT = 40.0

GIT = """#!/bin/sh
env >> {seen}
exec {git} "$@"
"""
"""Stands before git on the PATH, and notes the environment that it is given."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The home of the kernel: with a git that tells, and a repository as the notebook's folder."""
    home = tmp_path_factory.mktemp("tokens")
    git = shutil.which("git")
    assert git, "git is needed"
    tools = home / "tools"
    tools.mkdir()
    (tools / "git").write_text(GIT.format(seen=home / "git-environment", git=git))
    (tools / "git").chmod(0o755)
    workspace = home / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "first"]):
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        subprocess.run([git, *identity, *words], cwd=workspace, check=True)
    return home


@pytest.fixture(scope="module")
def module_kernel(place):
    path = f"{place / 'tools'}{os.pathsep}{os.environ['PATH']}"
    with open_kernel(place, by_server=True, environment={**TOKENS, "PATH": path}) as running:
        yield running


def look_around(agent):
    """Source of a turn that tells its environment and a command's, in every way it can."""
    print(dict(os.environ), file=sys.stderr, flush=True)
    agent.note("environment", dict(os.environ))
    agent.text(json.dumps(dict(os.environ)))
    made = agent.ask("terminal/create", command="/bin/sh", args=["-c", "env; sleep 600"])
    ident = {"terminalId": made["result"]["terminalId"]}
    agent.update(
        sessionUpdate="tool_call",
        toolCallId="call",
        title="look around",
        status="in_progress",
        rawInput=dict(os.environ),
        content=[{"type": "terminal", **ident}],
    )
    agent.note("ready")
    agent.ask("terminal/wait_for_exit", **ident)
    agent.ask("terminal/output", **ident)
    agent.ask("terminal/release", **ident)
    agent.ask("fs/read_text_file", path=agent.given["runtime"])
    agent.ask("fs/read_text_file", path=f"/proc/{os.getppid()}/environ")
    agent.ask("fs/write_text_file", path=agent.given["file"], content="two\n")


def test_f56_no_token_leaves_the_kernel(kernel, place, script):
    runtime = next((place / "runtime").glob("jpserver-*.json"))
    runtime.write_text(json.dumps({"token": f"{CANARY}-1", "pid": os.getpid()}))
    assert CANARY in str(kernel.process.environ())
    given = {"runtime": str(runtime), "file": str(kernel.cwd / "a.txt")}
    made = script(prompt=look_around, given=given)
    cells = [kernel.run("%acp permissions allow").ok(), kernel.run("%acp record tape.jsonl").ok()]
    cells.append(kernel.connect(made))
    turn = kernel.start("go")
    wait_until(lambda: made.notes("ready"), LIMIT)
    _held_by_no_child(kernel, "sleep", "guard", "scripted_agent")
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    listed = kernel.run("%acp terminals", subshell=subshell).ok()
    number = next(line.split(".")[0] for line in listed.text.splitlines() if "running" in line)
    cells += [listed, kernel.run(f"%acp terminals stop {number}", subshell=subshell).ok()]
    cells.append(turn.finish(LIMIT).ok())
    assert (kernel.cwd / "a.txt").read_text() == "two\n"
    assert all("error" in answer for answer in made.notes("fs/read_text_file"))
    for code in ("%acp", "%acp log", "%acp record off"):
        cells.append(kernel.run(code).ok())
    assert "PATH" in turn.text
    cells.append(kernel.run("%acp connect replay:tape.jsonl", limit=LIMIT).ok())
    _held_by_no_child(kernel, "replay_agent")
    cells.append(kernel.run("go", limit=LIMIT).ok())
    assert "PATH" in cells[-1].text
    for cell in cells:
        assert CANARY not in json.dumps(cell.messages, default=str)
        assert CANARY not in json.dumps(cell.reply, default=str)
    assert (kernel.cwd / "tape.jsonl").is_file()
    runtime.unlink()
    _held_by_no_file(place)


def test_f56_git_gets_no_token(kernel, place):
    code = "from acp_jupyter.services.workspace.git import git; print(git('.', 'status'))"
    shown = kernel.run(f"%%python\n{code}").ok()
    assert "a.txt" in shown.text or "nothing to commit" in shown.text
    seen = (place / "git-environment").read_text()
    assert "PATH=" in seen
    assert CANARY not in seen


def _held_by_no_child(kernel, *expected: str) -> None:
    """No process that the kernel has started has the token; those expected are among them."""
    found = [_facts_of(child) for child in kernel.process.children(recursive=True)]
    for name in expected:
        assert any(name in command for command, _ in found), (name, found)
    for command, environment in found:
        assert CANARY not in command
        assert CANARY not in environment, command


def _facts_of(child: psutil.Process) -> tuple[str, str]:
    """Command line and environment; empty if it has ended in the meantime."""
    try:
        return " ".join(child.cmdline()), json.dumps(child.environ())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return "", ""


def _held_by_no_file(place: Path) -> None:
    """No file below the kernel's home, logs and the scenario's notes included, has the token."""
    files = [path for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path.name for path in files if path.name == "kernel.log"]
    for path in files:
        assert CANARY.encode() not in path.read_bytes(), path
