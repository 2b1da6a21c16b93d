"""The sessions of an agent in the kernel: listed, opened again, forked, closed, deleted."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel_client import KernelUnderTest, open_kernel


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelUnderTest]:
    home = tmp_path_factory.mktemp("sessions")
    with open_kernel(home, environment={"ACP_DEMO_STORE": str(home / "store")}) as running:
        yield running


def sessions(kernel: KernelUnderTest, words: str = "") -> str:
    return kernel.run(f"%acp sessions {words}").ok().text


def test_sessions_are_opened_listed_and_gone_back_to(kernel: KernelUnderTest) -> None:
    kernel.run("%acp connect demo").ok()
    kernel.run("first of all").ok()
    assert "The current session is" in sessions(kernel, "new")
    kernel.run("second thing").ok()
    listed = sessions(kernel)
    first, second = (re.search(rf"(\d+)\. {title}.*", listed) for title in ("first", "second"))
    assert first is not None
    assert second is not None
    assert "open" in first[0]
    assert "current" in second[0]
    assert "fork" in listed.splitlines()[-1]
    assert "first of all" in sessions(kernel, f"use {first[1]}")
    assert "first of all" in kernel.run("%acp").ok().text


def test_a_prompt_can_go_to_another_open_session(kernel: KernelUnderTest) -> None:
    kernel.run("%acp connect demo").ok()
    kernel.run("the first one").ok()
    sessions(kernel, "new")
    kernel.run("the second one").ok()
    number = re.search(r"(\d+)\. the first one", sessions(kernel))
    assert number is not None
    cell = kernel.run(f"%%acp --session {number[1]} --out turn\nusage").ok()
    assert "So far" in cell.text
    assert "number 2." in kernel.run("%%python\nprint(f'number {turn.number}.')").ok().text
    assert re.search(r"the second one · demo-\d+ · current", sessions(kernel))
    error = kernel.run("%%acp --session zebra\nhi").failed("UsageError")
    assert "no agent was connected as 'zebra'" in error.traceback


def test_a_fork_goes_on_from_there_and_leaves_the_other_as_it_is(kernel: KernelUnderTest) -> None:
    kernel.run("%acp connect demo").ok()
    kernel.run("to be forked").ok()
    assert "The current session is demo-" in sessions(kernel, "fork")
    listed = sessions(kernel)
    assert re.search(r"to be forked \(fork\) · demo-\d+ · current", listed)
    assert re.search(r"to be forked · demo-\d+ · open", listed)


def test_an_earlier_session_is_loaded_with_its_history_folded_or_resumed_without(
    kernel: KernelUnderTest,
) -> None:
    kernel.run("%acp connect demo").ok()
    kernel.run("from before").ok()
    for word, has_history in (("load", True), ("resume", False)):
        kernel.run("%acp restart").ok()
        number = re.search(r"(\d+)\. from before", sessions(kernel))
        assert number is not None
        cell = kernel.run(f"%acp sessions {word} {number[1]}").ok()
        assert "The current session is from before (demo-" in cell.text
        assert ("Earlier conversation" in cell.text) == has_history
        assert ("You said (11 characters)" in cell.text) == has_history


def test_closing_the_last_session_leaves_an_agent_that_opens_one_for_the_next_prompt(
    kernel: KernelUnderTest,
) -> None:
    kernel.run("%acp connect demo").ok()
    kernel.run("to be closed").ok()
    assert re.search(r"Session demo-\d+ is closed", sessions(kernel, "close"))
    assert "no session" in kernel.run("%acp").ok().text
    assert re.search(r"to be closed · demo-\d+\s", sessions(kernel))  # neither open nor current
    kernel.run("goes on").ok()
    assert re.search(r"goes on · demo-\d+ · current", sessions(kernel))


def test_deleting_asks_and_a_no_deletes_nothing(kernel: KernelUnderTest) -> None:
    kernel.run("%acp connect demo").ok()
    kernel.run("to be deleted").ok()
    number = re.search(r"(\d+)\. to be deleted", sessions(kernel))
    assert number is not None
    delete = f"%acp sessions delete {number[1]}"
    error = kernel.run(delete).failed("UsageError")
    assert f"{delete} --yes" in error.traceback
    cell = kernel.run(delete, answer=lambda _: "n")
    assert "Delete the session to be deleted (demo-" in cell.ok().asked[0]
    assert "Nothing was deleted." in cell.text
    assert "to be deleted" in sessions(kernel)
    assert "is deleted." in kernel.run(delete, answer=lambda _: "y").ok().text
    assert "to be deleted" not in sessions(kernel)


def test_a_session_that_does_not_exist_is_told_with_what_to_do(kernel: KernelUnderTest) -> None:
    kernel.run("%acp connect demo").ok()
    sessions(kernel)
    error = kernel.run("%acp sessions use zebra").failed("UsageError")
    assert "`%acp sessions` lists them" in error.traceback
    error = kernel.run("%acp sessions bogus").failed("UsageError")
    assert "new, use, load" in error.traceback


def test_resume_goes_on_where_the_notebook_was_before_its_kernel_was_restarted(
    tmp_path: Path,
) -> None:
    environment = {"ACP_DEMO_STORE": str(tmp_path / "store")}
    with open_kernel(tmp_path, environment=environment) as kernel:
        error = kernel.run("%acp resume").failed("UsageError")
        assert "no earlier session of this notebook is known" in error.traceback
        kernel.run("%acp connect demo --protocol 2", answer=lambda _: None).ok()
        kernel.run("remember me", answer=lambda _: None).ok()
        kernel.restart()
        cell = kernel.run("%acp resume", answer=lambda _: None).ok()
        assert "ACP version 2" in cell.text
        assert re.search(r"The current session is (?:remember me \()?demo-1", cell.text)
        assert "Connected to" in cell.text
        kernel.run("again", answer=lambda _: None).ok()
        assert re.search(r"remember me · demo-1 · current", sessions(kernel))
        kernel.restart()
        kernel.run(f"%acp connect -- {sys.executable} -P -m acp_jupyter.demo_agent")
        kernel.run("by its command", answer=lambda _: None).ok()
        kernel.restart()
        (kept,) = tmp_path.rglob("sessions/*.json")
        kept.write_text(kept.read_text("utf-8").replace('"demo"', '"python"'), "utf-8")
        error = kernel.run("%acp resume").failed("UsageError")
        assert "which has no name here" in error.traceback
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    last, *_ = json.loads(kept.read_text("utf-8"))
    assert set(last) == {"alias", "agent", "digest", "session_id", "cwd", "at", "protocol"}


def test_what_an_agent_does_not_advertise_is_not_called_and_not_offered(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = script()
    kernel.connect(made).ok()
    listed = sessions(kernel)
    assert "This agent does not list its earlier sessions." in listed
    assert listed.splitlines()[-1] == "`%acp sessions new`, `use N`."
    for word, cannot in (
        ("load x", "load sessions"),
        ("resume x", "resume sessions"),
        ("fork", "fork sessions"),
        ("close", "close sessions"),
        ("delete x --yes", "delete sessions"),
    ):
        error = kernel.run(f"%acp sessions {word}").failed("UsageError")
        assert f"cannot {cannot}" in error.traceback
    kernel.run("%acp disconnect").ok()
    assert {m["method"] for m in made.received()} == {"initialize", "session/new"}


def completed(kernel: KernelUnderTest, code: str) -> list[str]:
    reply = kernel.client.complete(code, len(code), reply=True, timeout=30)
    return list(reply["content"]["matches"])


def test_tab_offers_what_the_agent_has(kernel: KernelUnderTest, script: Any) -> None:
    kernel.run("%acp connect demo").ok()
    sessions(kernel)
    assert completed(kernel, "%acp set mo") == ["mode", "model"]
    assert completed(kernel, "%acp set model ") == ["small", "large"]
    assert completed(kernel, "%acp set verbose t") == ["true"]
    assert completed(kernel, "%acp sessions f") == ["fork"]
    assert "1" in completed(kernel, "%acp sessions load ")
    assert completed(kernel, "%acp provid") == []
    made = script()
    kernel.connect(made).ok()
    assert completed(kernel, "%acp sessions ") == ["new", "use"]
    assert completed(kernel, "%acp resu") == []
    assert completed(kernel, "%acp set ") == []
    kernel.run("%acp disconnect").ok()


def test_a_session_of_another_folder_needs_the_folder_to_be_named(
    kernel: KernelUnderTest, script: Any
) -> None:
    """An agent says itself where a session was; that does not widen what it may write."""

    def list_them(agent: Any) -> None:
        agent.reply({"sessions": [{"sessionId": "far", "cwd": "/", "title": "Far"}]})

    def load_session(agent: Any) -> None:
        agent.text("from there", "far")
        agent.reply({})

    capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}}}
    made = script(capabilities=capabilities, list=list_them, load_session=load_session)
    kernel.connect(made).ok()
    assert "Far · far · /" in sessions(kernel, "--all")
    error = kernel.run("%acp sessions load far").failed("UsageError")
    assert "--cwd FOLDER" in error.traceback
    assert not made.received("session/load")
    assert "Earlier conversation" in sessions(kernel, "load far --cwd .")
    (sent,) = made.received("session/load")
    assert sent["params"]["cwd"] == str(kernel.cwd)
