"""What the tests of recording and replaying share: clients that record, clients that replay."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from acp_jupyter.client.client import Client
from acp_jupyter.client.session import Session
from acp_jupyter.errors import ACPError
from acp_jupyter.protocol import recording
from acp_jupyter.services.agents import AgentSpec, ReplaySource, demo_agent, from_recording
from acp_jupyter.services.policy import Policy
from acp_jupyter.services.recording import Recorder
from acp_jupyter.session.transcript import FooterEntry
from tests.conftest import trio_wait_until
from tests.transcripts import compact_transcript

TIMES = {"started", "ended", "asked_at", "decided_at", "first_chunk_at", "record", "duration"}
"""What differs from run to run: when it was, and how long it took."""


def text(prompt: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": prompt}]


@asynccontextmanager
async def open_client(
    recorder: Recorder | None = None,
    policy: str = "allow",
    environ: dict[str, str] | None = None,
) -> AsyncIterator[Client]:
    client = Client(environ=os.environ | (environ or {}), version="1.0")
    client.policy = Policy(policy)  # type: ignore[arg-type]
    client.recorder = lambda: recorder
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await client.wait_open()
        try:
            yield client
        finally:
            with trio.CancelScope(shield=True):
                await client.shutdown()
            nursery.cancel_scope.cancel()


def demo(tmp_path: Path) -> AgentSpec:
    spec = demo_agent()
    return dataclasses.replace(spec, env={"ACP_DEMO_STORE": str(tmp_path / "sessions")})


def recorder_to(path: Path, environ: dict[str, str] | None = None) -> Recorder:
    return Recorder(path, environment=os.environ | (environ or {}), client="1.0")


async def prompted(session: Session, *prompts: str) -> list[ACPError | None]:
    """Run prompts one after the other; returns what each of them failed with."""
    failures: list[ACPError | None] = []
    for prompt in prompts:
        try:
            await session.prompt(text(prompt))
            failures.append(None)
        except ACPError as error:
            failures.append(error)
    return failures


async def greeted(session: Session) -> None:
    """Wait for what the bundled agent says after it has opened a session."""
    await trio_wait_until(lambda: session.transcript.info.commands)


async def record(
    path: Path,
    spec: AgentSpec,
    cwd: Path,
    *prompts: str,
    policy: str = "allow",
    setup: Callable[[Session], None] = lambda _session: None,
) -> dict[str, Any]:
    """Record a run; returns its transcript, as `told` has it."""
    os.makedirs(cwd, exist_ok=True)
    async with open_client(recorder_to(path), policy) as client:
        session = await client.connect(spec, str(cwd))
        if spec.argv == demo_agent().argv:
            await greeted(session)
        setup(session)
        await prompted(session, *prompts)
        return told(session)


async def replay(
    path: Path, cwd: Path, *prompts: str, policy: str = "deny", **options: Any
) -> dict[str, Any]:
    """Replay a recording; returns the transcript, as `told` has it."""
    os.makedirs(cwd, exist_ok=True)
    greets = any("available_commands_update" in str(line) for line in lines(path))
    async with open_client(policy=policy) as client:
        session = await client.connect(replay_spec(path, **options), str(cwd))
        if greets:
            await greeted(session)
        await prompted(session, *prompts)
        return told(session)


def replay_spec(path: Path, **options: Any) -> AgentSpec:
    return from_recording(str(path), ReplaySource("", **options))


def told(session: Session) -> dict[str, Any]:
    """The transcript without times, and the directory by one name."""
    found = recording.relocate(compact_transcript(session.transcript), session.cwd, "/cwd")
    timeless: dict[str, Any] = _timeless(found)
    timeless["stops"] = [
        (entry.stop_reason, entry.error)
        for entry in session.transcript.entries()
        if isinstance(entry, FooterEntry)
    ]
    return timeless


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(item) for name, item in value.items() if name not in TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def lines(path: Path) -> list[Any]:
    """All lines of a recording, understood."""
    with path.open("rb") as file:
        return list(recording.read(file.readline))


def header(cwd: Path | str = "/recorded", connection: int = 1) -> recording.Header:
    agent = recording.AgentFacts("agent", ["agent", "--acp"], "Agent", "1")
    return recording.Header(1, connection, "2000-01-01T00:00:00+00:00", agent, "1.0", str(cwd))


def made(path: Path, messages: Sequence[Any], cwd: Path | str = "/recorded") -> Path:
    """Write a recording of one session, by hand: after its opening, each of ``messages`` is a tuple
    ("in" or "out", message), or a line as it is."""
    opening = [
        ("out", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}),
        ("in", {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}),
        ("out", {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": str(cwd)}}),
        ("in", {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}),
    ]
    found = [recording.encode(header(cwd))]
    for each in [*opening, *messages]:
        line = each if not isinstance(each, tuple) else _frame(*each)
        found.append(recording.encode(line))
    path.write_bytes(b"".join(found))
    return path


def _frame(direction: Any, message: Any) -> recording.Frame:
    return recording.Frame(connection=1, t=0.0, direction=direction, message=message)


def prompt_frame(prompt: str, ident: int = 2) -> tuple[str, dict[str, Any]]:
    params = {"sessionId": "s", "prompt": text(prompt)}
    return "out", {"jsonrpc": "2.0", "id": ident, "method": "session/prompt", "params": params}


def request_frame(ident: Any, method: str, **params: Any) -> tuple[str, dict[str, Any]]:
    params = {"sessionId": "s", **params}
    return "in", {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}


def end_frame(ident: int = 2) -> tuple[str, dict[str, Any]]:
    return "in", {"jsonrpc": "2.0", "id": ident, "result": {"stopReason": "end_turn"}}
