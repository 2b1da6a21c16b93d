"""A deep agent behind deepagents-acp, whose writes and commands have to be approved."""

from __future__ import annotations

import asyncio
import os

from acp import run_agent
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from deepagents_acp.server import AgentServerACP
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import MemorySaver


async def main() -> None:
    agent = create_deep_agent(
        model=ChatOpenAI(model="scripted", streaming=True),
        backend=LocalShellBackend(root_dir=os.getcwd(), virtual_mode=False),
        checkpointer=MemorySaver(),
        interrupt_on={"write_file": True, "execute": True},
    )
    await run_agent(AgentServerACP(agent))


asyncio.run(main())
