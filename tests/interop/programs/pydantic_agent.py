"""An agent of pydantic-ai behind pydantic-acp, with tools that ask first."""

from __future__ import annotations

from pathlib import Path

from pydantic_acp import AdapterConfig, NativeApprovalBridge, run_acp
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


run_acp(agent=agent, config=AdapterConfig(approval_bridge=NativeApprovalBridge()))
