"""An agent on the official Python SDK's models of version 2 (experimental there)."""

from __future__ import annotations

import asyncio
import base64
from importlib import import_module
from typing import Any

v2: Any = import_module("acp.experimental.v2")  # only in SDKs newer than the one for version 1
schema: Any = v2.schema

MESSAGE = "message-1"


class SecondAgent:
    client: Any

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> Any:
        return schema.InitializeResponse.model_validate(
            {
                "protocolVersion": 2,
                "info": {"name": "sdk", "title": "SDK second", "version": "2.0"},
                "capabilities": {"session": {"prompt": {}, "mcp": {"stdio": {}}}},
            }
        )

    async def new_session(self, cwd: str, **kwargs: Any) -> Any:
        self.cwd = cwd
        return schema.NewSessionResponse(session_id="s-1")

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> Any:
        self.cancelled = asyncio.Event()
        self.work = asyncio.create_task(self._work(session_id, prompt[0].text))
        return schema.PromptResponse(message_id="u")

    async def cancel_session(self, session_id: str, **kwargs: Any) -> None:
        self.cancelled.set()

    async def _update(self, session_id: str, **update: Any) -> None:
        made = schema.UpdateSessionNotification.model_validate(
            {"sessionId": session_id, "update": update}
        )
        await self.client.session_update(session_id=session_id, update=made.update)

    async def _work(self, session_id: str, text: str) -> None:
        async def update(kind: str, **fields: Any) -> None:
            await self._update(session_id, sessionUpdate=kind, **fields)

        await update("user_message", messageId="u", content=[{"type": "text", "text": text}])
        await update("state_update", state="running")
        reason = "end_turn"
        if text == "wait":
            await update("tool_call_update", toolCallId="w", title="Waiting")
            await self.cancelled.wait()
            reason = "cancelled"
        else:
            await self._show(update)
            await self._ask(session_id, update)
        await update("state_update", state="idle", stopReason=reason)

    async def _show(self, update: Any) -> None:
        part = {"type": "text", "text": "a first "}
        await update("agent_message", messageId=MESSAGE, content=[part])
        part["text"] = "and a second"
        await update("agent_message_chunk", messageId=MESSAGE, content=part)
        await update("terminal_update", terminalId="t", command="make", cwd=self.cwd)
        shown = {"type": "terminal", "terminalId": "t"}
        await update("tool_call_update", toolCallId="c", title="Build", content=[shown])
        data = base64.b64encode(b"built\n").decode()
        await update("terminal_output_chunk", terminalId="t", data=data)
        await update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})

    async def _ask(self, session_id: str, update: Any) -> None:
        await update("state_update", state="requires_action")
        option = schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")
        answer = await self.client.request_permission(
            session_id=session_id,
            title="May I?",
            options=[option],
            subject=schema.CommandPermissionSubjectVariant.model_validate(
                {"type": "command", "command": "make install", "cwd": self.cwd}
            ),
        )
        await update("state_update", state="running")
        said = {"type": "text", "text": f"\n\nanswer: {answer.outcome.outcome}"}
        await update("agent_message_chunk", messageId=MESSAGE, content=said)


if __name__ == "__main__":
    asyncio.run(v2.run_agent(SecondAgent()))
