"""An agent of pydantic-ai behind pydantic-acp, with tools that ask first."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pydantic_acp import AdapterConfig, FileSessionStore, NativeApprovalBridge, run_acp
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(
    OpenAIChatModel("scripted"),
    name="pydantic-agent",
    output_type=[str, DeferredToolRequests],
)


@agent.tool_plain
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@agent.tool_plain(requires_approval=True)
def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return "written"


@agent.tool_plain(requires_approval=True)
def run_command(command: str) -> str:
    """Run a command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return done.stdout + done.stderr


config = AdapterConfig(
    approval_bridge=NativeApprovalBridge(),
    session_store=FileSessionStore(Path.home() / "sessions"),
)
run_acp(agent=agent, config=config)
