"""An agent on the SDK that uses the client: its files, its terminals, its user.

Run as ``worker.py STORE``; sessions are kept in the directory STORE and can be loaded. The first
word of a prompt says what to do (see `Worker.WORK`); anything else is sent back. What comes of it
is said in messages, so that a test can read it in the notebook.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

from acp import PROTOCOL_VERSION, RequestError, run_agent
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AllowedOutcome,
    FileEditToolCallContent,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PlanEntry,
    PromptResponse,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UserMessageChunk,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Go ahead", kind="allow_once"),
    PermissionOption(option_id="always", name="Always go ahead", kind="allow_always"),
    PermissionOption(option_id="no", name="Leave it", kind="reject_once"),
]


def text(words: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=words)


class Worker:
    client: Client

    def __init__(self, store: Path) -> None:
        self._store = store
        self._calls = 0
        self._cancelled: dict[str, asyncio.Event] = {}
        self._cwd: dict[str, str] = {}

    # -- the protocol --------------------------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="sdk-worker", title="SDK worker", version="3.2.1"),
        )

    async def new_session(self, cwd: str, **kwargs: Any) -> NewSessionResponse:
        ident = f"worker-{os.getpid()}"
        self._open(ident, cwd)
        return NewSessionResponse(session_id=ident)

    async def load_session(self, cwd: str, session_id: str, **kwargs: Any) -> LoadSessionResponse:
        file = self._store / session_id
        if not file.exists():
            raise RequestError.resource_not_found(session_id)
        self._open(session_id, cwd)
        for line in file.read_text(encoding="utf-8").splitlines():
            asked = UserMessageChunk(
                session_update="user_message_chunk", content=text(json.loads(line))
            )
            await self.client.session_update(session_id, asked)
            await self._say(session_id, f"You had asked for {json.loads(line)!r}.")
        return LoadSessionResponse()

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        self._cancelled[session_id].set()

    async def prompt(self, prompt: list[Any], session_id: str, **kwargs: Any) -> PromptResponse:
        words = prompt[0].text
        self._cancelled[session_id].clear()
        with (self._store / session_id).open("a", encoding="utf-8") as history:
            history.write(json.dumps(words) + "\n")
        name, _, rest = words.partition(" ")
        work = self.WORK.get(name)
        if work is None:
            await self._say(session_id, f"You said {words!r}.")
            return PromptResponse(stop_reason="end_turn")
        return PromptResponse(stop_reason=await work(self, session_id, rest) or "end_turn")

    # -- the work ------------------------------------------------------------------------------

    async def _think(self, session: str, rest: str) -> None:
        thought = AgentThoughtChunk(session_update="agent_thought_chunk", content=text(rest))
        await self.client.session_update(session, thought)
        await self._say(session, "I have thought.")

    async def _plan(self, session: str, rest: str) -> None:
        steps = rest.split(", ")
        for done in range(len(steps) + 1):
            entries = [
                PlanEntry(
                    content=step,
                    priority="high",
                    status="completed" if number < done else "pending",
                )
                for number, step in enumerate(steps)
            ]
            await self.client.session_update(
                session, AgentPlanUpdate(session_update="plan", entries=entries)
            )

    async def _count(self, session: str, rest: str) -> None:
        for number in range(int(rest)):
            await self._say(session, f"c{number:06d} ")

    async def _read(self, session: str, rest: str) -> None:
        path = os.path.join(self._cwd[session], rest)
        call = await self._start(session, f"Read {rest}", "read", path)
        try:
            answer = await self.client.read_text_file(session_id=session, path=path)
        except RequestError as error:
            await self._update(session, call, "failed")
            await self._say(session, f"It cannot be read: {error.code} {error}")
            return
        await self._update(session, call, "completed")
        await self._say(session, f"It holds {answer.content!r}.")

    async def _write(self, session: str, rest: str) -> None:
        name, _, content = rest.partition(" ")
        path = os.path.join(self._cwd[session], name)
        diff = FileEditToolCallContent(type="diff", path=path, new_text=content, old_text=None)
        call = await self._start(session, f"Write {name}", "edit", path, [diff])
        if not await self._allowed(session, call, f"Write {name}"):
            await self._update(session, call, "failed")
            return
        try:
            await self.client.write_text_file(session_id=session, path=path, content=content)
        except RequestError as error:
            await self._say(session, f"It cannot be written: {error.code} {error}")
        await self._update(session, call, "completed")

    async def _run(self, session: str, rest: str) -> None:
        call = await self._start(session, f"Run {rest}", "execute")
        try:
            made = await self.client.create_terminal(
                session_id=session, command="/bin/sh", args=["-c", rest], output_byte_limit=10_000
            )
        except RequestError as error:
            await self._update(session, call, "failed")
            await self._say(session, f"It cannot be run: {error.code} {error}")
            return
        ident = made.terminal_id
        shown = [TerminalToolCallContent(type="terminal", terminal_id=ident)]
        await self._update(session, call, "in_progress", shown)
        ended = await self.client.wait_for_terminal_exit(session_id=session, terminal_id=ident)
        output = await self.client.terminal_output(session_id=session, terminal_id=ident)
        await self.client.release_terminal(session_id=session, terminal_id=ident)
        await self._update(session, call, "completed")
        said = f"exit {ended.exit_code}, signal {ended.signal}, output {output.output!r}"
        await self._say(session, f"Seen: {said}.")

    async def _leave_alone(self, session: str, rest: str) -> str:
        await self.client.create_terminal(session_id=session, command="/bin/sh", args=["-c", rest])
        await self._cancelled[session].wait()
        return "cancelled"

    async def _ask_and_run(self, session: str, rest: str, more: str = "") -> None:
        call = await self._start(session, "Run it", "execute", raw_input={"command": rest})
        if await self._allowed(session, call, "Run it"):
            await self._run(session, rest + more)

    async def _ask_and_run_other(self, session: str, rest: str) -> None:
        await self._ask_and_run(session, rest, "; true")

    async def _ask_twice(self, session: str, rest: str) -> None:
        async def one(name: str) -> str:
            call = await self._start(session, name, "other")
            return f"{name}: {await self._allowed(session, call, name)}"

        answers = await asyncio.gather(*(one(name) for name in rest.split()))
        await self._say(session, "; ".join(answers))

    async def _wait(self, session: str, rest: str) -> str:
        await self._say(session, "Waiting.")
        await self._cancelled[session].wait()
        await self._say(session, " Stopped.")
        return "cancelled"

    async def _wait_for_answer(self, session: str, rest: str) -> str:
        call = await self._start(session, "Ask", "other")
        await self._allowed(session, call, "Ask")
        await self._cancelled[session].wait()
        return "cancelled"

    async def _stop(self, session: str, rest: str) -> str:
        return rest

    async def _raise(self, session: str, rest: str) -> None:
        raise ValueError(rest)

    async def _leave(self, session: str, rest: str) -> None:
        os._exit(int(rest))

    async def _extend(self, session: str, rest: str) -> None:
        try:
            await self.client.ext_method("unheard/of", {"sessionId": session})
        except RequestError as error:
            await self._say(session, f"The client knows no such method: {error.code}")

    WORK: ClassVar[dict[str, Callable[[Worker, str, str], Awaitable[Any]]]] = {
        "think": _think,
        "plan": _plan,
        "count": _count,
        "read": _read,
        "write": _write,
        "run": _run,
        "leave-alone": _leave_alone,
        "ask-and-run": _ask_and_run,
        "ask-and-run-other": _ask_and_run_other,
        "ask-twice": _ask_twice,
        "wait": _wait,
        "wait-for-answer": _wait_for_answer,
        "stop": _stop,
        "raise": _raise,
        "leave": _leave,
        "extend": _extend,
    }

    # -- parts of it ---------------------------------------------------------------------------

    def _open(self, ident: str, cwd: str) -> None:
        self._cwd[ident] = cwd
        self._cancelled[ident] = asyncio.Event()

    async def _say(self, session: str, words: str) -> None:
        chunk = AgentMessageChunk(session_update="agent_message_chunk", content=text(words))
        await self.client.session_update(session, chunk)

    async def _start(
        self,
        session: str,
        title: str,
        kind: Any,
        path: str = "",
        content: Any = None,
        raw_input: Any = None,
    ) -> str:
        self._calls += 1
        ident = f"call-{self._calls}"
        call = ToolCallStart(
            session_update="tool_call",
            tool_call_id=ident,
            title=title,
            kind=kind,
            status="pending",
            content=content,
            raw_input=raw_input,
            locations=[ToolCallLocation(path=path)] if path else None,
        )
        await self.client.session_update(session, call)
        return ident

    async def _update(self, session: str, call: str, status: Any, content: Any = None) -> None:
        update = ToolCallProgress(
            session_update="tool_call_update", tool_call_id=call, status=status, content=content
        )
        await self.client.session_update(session, update)

    async def _allowed(self, session: str, call: str, title: str) -> bool:
        answer = await self.client.request_permission(
            session_id=session,
            tool_call=ToolCallUpdate(tool_call_id=call, title=title),
            options=OPTIONS,
        )
        outcome = answer.outcome
        chosen = outcome.option_id if isinstance(outcome, AllowedOutcome) else "cancelled"
        await self._say(session, f"The answer is {chosen}. ")
        return chosen in ("yes", "always")


if __name__ == "__main__":
    agent: Any = Worker(Path(sys.argv[1]))  # the SDK does without the methods that are not there
    asyncio.run(run_agent(agent))
