"""The wire alone: what reading one scenario costs a client, measured in a process of its own.

``python -m tests.bench.wire CLIENT SCENARIO`` starts the scripted agent, connects, lets one small
scenario go by to warm up, and measures the next: wall time from the prompt to the decoded answer,
the process's own CPU time, and its peak memory. The clients:

* ``json``: the bare loop, `os.read`, split, `json.loads`. The floor that ratios refer to.
* ``ours``: this package's client as the kernel uses it, under its guard: connection, log,
  normalisation, reducer, transcript. Only publishing is left out.
* ``sdk``: the official Python SDK's client, which collects the text of the updates.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
AGENT = Path(__file__).with_name("scripted_agent.py")
WARM_UP = "chunks 1000 20"
TIMEOUT = 120
"""Seconds for one client and scenario; the slowest known takes one second."""


@dataclass
class WireCost:
    """What one scenario cost a client.

    Attributes:
        wall: seconds from before the prompt was sent until its answer was decoded.
        cpu: seconds of CPU time of the client's process in between.
        updates: how many ``session/update`` notifications it saw.
        peak: the process's peak resident memory, bytes.
    """

    wall: float = 0.0
    cpu: float = 0.0
    updates: int = 0
    peak: int = 0


def agent_command(*scenarios: str, log: Path | None = None) -> list[str]:
    """The scripted agent with ``scenarios`` encoded before its first answer."""
    options = [] if log is None else ["--log", str(log)]
    return [sys.executable, str(AGENT), *options, *scenarios]


def measure_wire(client: str, scenario: str) -> WireCost:
    """Run ``client`` through ``scenario`` in a fresh process.

    Raises:
        RuntimeError: the client failed; its stderr is in the message.
    """
    command = [sys.executable, "-m", "tests.bench.wire", client, scenario]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"client {client!r} failed: {last}\n{done.stderr[-2000:]}")
    return WireCost(**json.loads(done.stdout))


@contextmanager
def timed(cost: WireCost) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    cost.wall = time.perf_counter() - wall
    cost.cpu = time.process_time() - cpu


def prompt_params(scenario: str, session: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": scenario}]}


def run_json(scenario: str) -> WireCost:
    """The floor: no reducer, no log, no check of anything."""
    agent = subprocess.Popen(
        agent_command(WARM_UP, scenario), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    stdin, stdout = agent.stdin.fileno(), agent.stdout.fileno()

    def request(method: str, params: dict[str, Any]) -> tuple[Any, int]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        os.write(stdin, json.dumps(message).encode() + b"\n")
        rest, updates = b"", 0
        while True:
            data = os.read(stdout, 65536)
            if not data:
                raise RuntimeError("the scripted agent ended")
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            for line in lines:
                message = json.loads(line)
                if "id" in message:
                    return message, updates
                updates += 1

    with agent:
        request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        new, _ = request("session/new", {"cwd": "/", "mcpServers": []})
        session = new["result"]["sessionId"]
        request("session/prompt", prompt_params(WARM_UP, session))
        cost = WireCost()
        with timed(cost):
            _, cost.updates = request("session/prompt", prompt_params(scenario, session))
        agent.stdin.close()
    return cost


async def run_sdk(scenario: str) -> WireCost:
    """The official Python SDK, with a client that does no more than join the text."""
    import acp
    from acp.schema import AgentMessageChunk, TextContentBlock

    class Collector(acp.Client):
        updates = 0
        parts: list[str] = []  # noqa: RUF012

        async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
            self.updates += 1
            if isinstance(update, AgentMessageChunk) and isinstance(
                update.content, TextContentBlock
            ):
                self.parts.append(update.content.text)

    collector = Collector()  # type: ignore[abstract]
    command, *arguments = agent_command(WARM_UP, scenario)
    async with acp.spawn_agent_process(collector, command, *arguments) as (connection, _):
        await connection.initialize(protocol_version=1)
        session = (await connection.new_session(cwd="/", mcp_servers=[])).session_id

        async def prompt(text: str) -> None:
            await connection.prompt(prompt=[acp.text_block(text)], session_id=session)

        await prompt(WARM_UP)
        collector.updates = 0
        cost = WireCost()
        with timed(cost):
            await prompt(scenario)
        cost.updates = collector.updates
    return cost


def run_ours(scenario: str) -> WireCost:
    """This package's client; a turn ends with all of its updates in the transcript."""
    import trio  # not in the other clients' processes

    return trio.run(_run_ours, scenario)


async def _run_ours(scenario: str) -> WireCost:
    import trio

    from acp_jupyter.client.client import Client
    from acp_jupyter.services.agents import from_command
    from acp_jupyter.session.transcript import MessageEntry, ToolCallEntry

    client = Client(environ=os.environ, version="bench")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await client.wait_open()
        spec = from_command(agent_command(WARM_UP, scenario))
        session = await client.connect(spec, str(ROOT))
        await session.prompt([{"type": "text", "text": WARM_UP}])
        cost = WireCost()
        with timed(cost):
            turn = await session.prompt([{"type": "text", "text": scenario}])
        for entry in turn.entries:
            if isinstance(entry, MessageEntry):
                cost.updates += len(re.findall(r"\bc\d{6} ", entry.text))
            elif isinstance(entry, ToolCallEntry) and entry.raw_output == {"ok": True}:
                cost.updates += 5
        await client.shutdown()
        nursery.cancel_scope.cancel()
    return cost


CLIENTS: dict[str, Callable[[str], WireCost]] = {
    "json": run_json,
    "ours": run_ours,
    "sdk": lambda scenario: asyncio.run(run_sdk(scenario)),
}


def main(client: str, scenario: str) -> None:
    cost = CLIENTS[client](scenario)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost.peak = peak if sys.platform == "darwin" else peak * 1024
    print(json.dumps(asdict(cost)))


if __name__ == "__main__":
    main(*sys.argv[1:])
