"""The agent kernel in `jupyter console`, in a terminal of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.bench.kernels import OURS, write_kernel_specs
from tests.conftest import alive, wait_until
from tests.live_kernel import kernel_environment

LIMIT = 40
PROMPT = r"In \[\d+\]: "


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def console(home: Path) -> Iterator[pexpect.spawn]:
    """A console connected to the bundled agent."""
    write_kernel_specs(home)
    (home / "workspace").mkdir()
    command = ["-m", "jupyter_console", "--kernel", OURS, "--simple-prompt"]
    child = pexpect.spawn(
        sys.executable,
        command,
        env=kernel_environment(home) | {"ACP_JUPYTER_AGENT": "demo", "TERM": "dumb"},
        cwd=str(home / "workspace"),
        encoding="utf-8",
        timeout=LIMIT,
        dimensions=(50, 200),
        echo=False,
    )
    try:
        child.expect(PROMPT)
        yield child
    finally:
        if child.isalive():
            leave(child)
        child.close(force=True)


def leave(console: pexpect.spawn) -> None:
    """As a user does: end of input, and yes. ("exit" is a prompt like any other.)"""
    console.sendeof()
    console.expect("really want to exit")
    console.sendline("y")
    console.expect(pexpect.EOF, timeout=15)


def run(console: pexpect.spawn, code: str) -> str:
    """Run a cell; returns what was printed."""
    console.sendline(code)
    console.expect(PROMPT)
    return clean(console.before)


def clean(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")


def test_a_prompt_streams_its_text(console: pexpect.spawn) -> None:
    console.sendline("slow 5")
    console.expect("1 of 5")
    console.expect("3 of 5")  # each piece is there before the end of the turn
    console.expect("end_turn")
    console.expect(PROMPT)


def test_nothing_of_the_answer_is_printed_twice_or_lost(console: pexpect.spawn) -> None:
    text = run(console, "count 500")
    numbers = [int(word) for word in re.findall(r"\b\d+\b", text.split("[end_turn")[0])]
    assert numbers == list(range(1, 501))


def test_plan_thought_and_tool_call_are_printed_once_each(console: pexpect.spawn) -> None:
    text = run(console, "plan Look; think Hm hm hm; search nothing-like-this")
    assert text.count("> Hm hm hm") == 1
    assert text.count("✓ Look") == 1
    assert text.count("[search]") == 1
    assert "<div" not in text


def test_a_permission_is_asked_and_allowed(console: pexpect.spawn, home: Path) -> None:
    console.sendline("write asked.txt: by console")
    console.expect("asked.txt")
    console.expect(r"\[1\] Allow")
    console.expect("> ")
    console.sendline("1")
    console.expect(PROMPT)
    assert "Allowed once by you" in clean(console.before)
    assert (home / "workspace" / "asked.txt").read_text() == "by console"


def test_a_permission_is_asked_and_denied(console: pexpect.spawn, home: Path) -> None:
    console.sendline("write denied.txt: by console")
    console.expect(r"\[1\] Allow")
    console.expect("> ")
    console.sendline("no")
    console.expect(PROMPT)
    assert not (home / "workspace" / "denied.txt").exists()


def test_control_c_cancels_the_turn_and_keeps_what_had_come(console: pexpect.spawn) -> None:
    console.sendline("slow 100")
    console.expect("2 of 100")
    console.sendintr()
    console.expect("TurnCancelled", timeout=10)
    console.expect(PROMPT)
    assert "Hello after" in run(console, "Hello after the cancel")


def test_control_c_at_a_question_withdraws_it(console: pexpect.spawn, home: Path) -> None:
    console.sendline("write never.txt: x")
    console.expect(r"\[1\] Allow")
    console.expect("> ")
    console.sendintr()
    console.expect("TurnCancelled", timeout=10)
    console.expect(PROMPT)
    assert not (home / "workspace" / "never.txt").exists()
    assert "Hello after" in run(console, "Hello after the question")


def test_a_mistake_is_a_short_error(console: pexpect.spawn) -> None:
    text = run(console, "%acp conect demo")
    assert "Did you mean connect" in text
    assert "Traceback" not in text


def test_leaving_the_console_leaves_no_process(home: Path, console: pexpect.spawn) -> None:
    text = run(console, "%acp")
    found = re.search(r"Process\s+(\d+)", text)
    assert found is not None, text
    leave(console)
    agent = int(found[1])
    wait_until(lambda: not alive(agent))
