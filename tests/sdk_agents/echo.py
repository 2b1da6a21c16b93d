"""The least an agent on the SDK can be: no name, no capabilities, the prompt sent back.

It answers ``initialize`` with whatever version it is asked for.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from acp import run_agent
from acp.interfaces import Client
from acp.schema import (
    AgentMessageChunk,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
)


class EchoAgent:
    client: Client

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **kwargs: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt: list[Any], session_id: str, **kwargs: Any) -> PromptResponse:
        for block in prompt:
            chunk = AgentMessageChunk(session_update="agent_message_chunk", content=block)
            await self.client.session_update(session_id=session_id, update=chunk)
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    agent: Any = EchoAgent()  # the SDK does without the methods that are not there
    asyncio.run(run_agent(agent))
