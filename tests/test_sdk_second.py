"""An agent on the official Python SDK's own version 2, which is experimental there: its models read
all that we send, and make all that it sends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from acp_jupyter.errors import TurnCancelled
from acp_jupyter.services.agents import AgentSpec
from tests.conftest import trio_wait_until
from tests.test_v2 import connected, shown

PROGRAM = Path(__file__).with_name("sdk_agents") / "second.py"
SDK = "agent-client-protocol==1.0.0rc3"


@pytest.fixture(scope="module")
def agent(request: pytest.FixtureRequest) -> AgentSpec:
    """The agent, on an SDK in a directory of its own: the installed one has version 1 only."""
    assert request.config.cache is not None
    target = request.config.cache.mkdir("agent-client-protocol") / SDK.rpartition("=")[2]
    if not (target / "acp" / "experimental" / "v2").is_dir():
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command += ["install", "-qq", "--no-deps", "--target", str(target), SDK]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"pip offers no {SDK} here: {done.stderr[-300:]}")
    return AgentSpec("second", (sys.executable, str(PROGRAM)), env={"PYTHONPATH": str(target)})


async def test_an_agent_on_the_sdk_works_in_version_2(agent, tmp_path):
    async with connected(agent, tmp_path, policy="allow") as (client, session):
        assert client.agent.version == 2
        assert client.agent.initialized.title == "SDK second"
        turn = await session.prompt([{"type": "text", "text": "go"}])
        assert turn.stop_reason == "end_turn"
        said = shown(session)
        assert "a first and a second\n\nanswer: selected" in said
        assert "$ make\n  built\n  [✓ exit status 0]" in said
        assert "May I?: 'make install'" in said


async def test_an_agent_on_the_sdk_is_cancelled_in_version_2(agent, tmp_path):
    async with connected(agent, tmp_path) as (_, session):
        async with trio.open_nursery() as nursery:

            async def cancel():
                await trio_wait_until(lambda: "Waiting" in shown(session))
                session.cancel()

            nursery.start_soon(cancel)
            with pytest.raises(TurnCancelled):
                await session.prompt([{"type": "text", "text": "wait"}])
        assert session.activity == "idle"
