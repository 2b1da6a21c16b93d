"""Kernels that a Jupyter server starts: its files, its notebook, its token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_jupyter.services.jupyter_server import kernel_id
from tests.contents_servers import contents_server, run_notebook
from tests.scripted import Script

LOOK_AT_CHILDREN = """%%python
import psutil
print([child.environ() for child in psutil.Process().children(recursive=True)])"""


def prompt(agent: Any) -> None:
    """Make the requests that the prompt lists."""
    text = agent.wait(
        lambda m: m.get("method") == "session/prompt",
        since=agent.given.setdefault("seen", 0),
    )["params"]["prompt"][0]["text"]
    agent.given["seen"] = len(agent.received)
    for method, params in json.loads(text):
        agent.ask(method, **params)


def read(path: Path, **params: Any) -> list[Any]:
    return ["fs/read_text_file", {"path": str(path), **params}]


def write(path: Path, content: str) -> list[Any]:
    return ["fs/write_text_file", {"path": str(path), "content": content}]


def results(script: Script, method: str) -> list[Any]:
    """What the client answered, oldest first: the result, or the error's message."""
    return [
        note["result"] if "result" in note else note["error"]["message"]
        for note in script.notes(f"fs/{method}_text_file")
    ]


def test_files_of_a_server_that_has_them_in_memory(tmp_path: Path) -> None:
    script = Script(tmp_path / "script", {"prompt": prompt})
    with contents_server("memory", tmp_path / "server") as server:
        root = server.root.resolve()
        model = {"type": "file", "format": "text", "content": "one\ntwo"}
        server.request("PUT", "api/contents/data.txt", model)
        changed = json.dumps(
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "id": "new",
                        "source": "answer = 42",
                        "metadata": {},
                        "outputs": [],
                        "execution_count": None,
                    }
                ],
                "metadata": {},
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
        steps = [
            read(root / "data.txt", line=2),
            write(root / "sub/made.txt", "made"),
            read(root / "run.ipynb", _meta={"acp-jupyter": {"notebook": "text"}}),
            write(root / "run.ipynb", changed),
            read(Path("/etc/hostname")),
        ]
        ran = run_notebook(
            server,
            "run.ipynb",
            [
                "%acp permissions allow\n%acp record wire.jsonl",
                f"%acp connect -- {' '.join(script.argv)}",
                json.dumps(steps),
                LOOK_AT_CHILDREN,
                "%acp log 100",
                "%acp changes",
                "%acp undo",
            ],
        )
        made = server.request("GET", "api/contents/sub/made.txt")["content"]
        notebook = server.request("GET", "api/contents/run.ipynb")["content"]
        token, log = server.token, server.log.read_text("utf-8", "replace")
        recording = (root / "wire.jsonl").read_text("utf-8")
    reads, writes = results(script, "read"), results(script, "write")
    assert reads[0] == {"content": "two"}
    assert reads[1] == {"content": "# %% [code] id=first\n%acp\n"}
    assert "outside the session's roots" in reads[2]
    assert made == "made"
    assert not (root / "sub").exists()
    assert "1 new or changed cells were proposed" in writes[1]
    assert "answer = 42" in ran.texts[2]
    for text in (ran.texts[5], ran.texts[6]):
        assert "Changes of files are not known where the Jupyter server has them" in text
    assert notebook["cells"][0]["source"] == "%acp"
    assert "PATH" in ran.texts[3]
    assert "JPY" not in ran.texts[3]
    record = json.dumps(script.entries())
    for text in (*ran.texts, json.dumps(ran.bundles, default=str), recording, record, log):
        assert token not in text
    script.check_schema()


def test_a_notebook_that_was_renamed_while_it_runs_is_still_the_one(tmp_path: Path) -> None:
    script = Script(tmp_path / "script", {"prompt": prompt})
    with contents_server("disk", tmp_path / "server") as server:
        root = server.root.resolve()
        new = root / "new name.ipynb"

        def rename(ident: str) -> None:
            (session,) = server.request("GET", "api/sessions")
            assert session["kernel"]["id"] == ident
            server.request("PATCH", "api/contents/old.ipynb", {"path": new.name})
            server.request("PATCH", f"api/sessions/{session['id']}", {"path": new.name})

        empty = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        steps = [write(new, empty), write(root / "old.ipynb", empty), write(root / "a.txt", "a")]
        (root / "notes.txt").write_text("old\n")
        conflict = [read(root / "notes.txt"), write(root / "notes.txt", "the agent's\n")]
        run_notebook(
            server,
            "old.ipynb",
            [f"%acp connect -- {' '.join(script.argv)}", json.dumps(steps), json.dumps(conflict)],
            rename,
        )
        assert "running" in results(script, "write")[0]
        assert json.loads(new.read_text())["cells"] != []
        assert (root / "old.ipynb").read_text() == empty
        assert (root / "a.txt").read_text() == "a"
        assert (root / "notes.txt").read_text() == "the agent's\n"


# -- finding the server --------------------------------------------------------------------------

FIND = """
import os
from acp_jupyter.services.jupyter_server import find_server
found = find_server(os.environ)
print(None if found is None else (found.url, found.root, len(found.token)), found)
"""


def find(runtime: Path, *, between: bool = False, **env: str) -> str:
    """What a child process, or its child, finds."""
    environment = {**os.environ, "JPY_PARENT_PID": str(os.getpid()), **env}
    environment["JUPYTER_RUNTIME_DIR"] = str(runtime)
    command = [sys.executable, "-c", FIND]
    if between:
        command = [sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    facts = {
        "pid": os.getpid(),
        "url": "http://127.0.0.1:8888/base/",
        "root_dir": str(tmp_path),
        "token": "canary-token",
    }
    path = tmp_path / f"jpserver-{os.getpid()}.json"
    path.write_text(json.dumps(facts))
    path.chmod(0o600)
    return path


def test_the_server_is_found_by_its_file_and_its_token_is_not_shown(runtime: Path) -> None:
    expected = f"('http://127.0.0.1:8888/base/', '{runtime.parent.resolve()}', 12)"
    for between in (False, True):  # a launcher may stand between
        found = find(runtime.parent, between=between)
        assert found.startswith(expected)
        assert "canary" not in found


def test_a_hub_tells_its_token_in_the_environment_too(runtime: Path) -> None:
    facts = json.loads(runtime.read_text()) | {"token": ""}
    runtime.write_text(json.dumps(facts))
    assert find(runtime.parent, JPY_API_TOKEN="of the hub").split(")")[0].endswith(", 10")
    assert find(runtime.parent).split(")")[0].endswith(", 0")


def test_a_file_that_others_can_read_or_that_is_no_ancestors_is_none(runtime: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        stranger = runtime.with_name(f"jpserver-{other.pid}.json")
        facts = json.loads(runtime.read_text())
        stranger.write_text(json.dumps(facts | {"pid": other.pid}))
        stranger.chmod(0o600)
        assert find(runtime.parent, JPY_PARENT_PID=str(other.pid)).startswith("None")
        assert other.stdin is not None
        other.stdin.close()
    assert find(runtime.parent, JPY_PARENT_PID="../1").startswith("None")
    runtime.chmod(0o640)
    assert find(runtime.parent).startswith("None")
    runtime.chmod(0o600)
    linked = runtime.rename(runtime.with_name("elsewhere.json"))
    runtime.symlink_to(linked)
    assert find(runtime.parent).startswith("None")


@pytest.mark.parametrize(
    "facts",
    [
        [],
        {"pid": 1},
        {"url": "http+unix://%2Ftmp%2Fsocket/"},
        {"url": 7},
        {"root_dir": "relative"},
        {"root_dir": None},
    ],
)
def test_a_file_of_another_form_is_none(runtime: Path, facts: Any) -> None:
    known = json.loads(runtime.read_text())
    runtime.write_text(json.dumps({**known, **facts} if facts else facts))
    assert find(runtime.parent).startswith("None")


def test_a_kernels_id_is_in_the_name_of_its_connection_file() -> None:
    ident = "0b5ac5b5-4d3c-4b7e-9d0d-0a1b2c3d4e5f"
    assert kernel_id(f"/run/jupyter/kernel-{ident}.json") == ident
    assert kernel_id("/run/jupyter/kernel-123.json") == ""
