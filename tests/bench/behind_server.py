"""A cell run as a browser would: through the WebSocket of a Jupyter server in its default setting.

Such a server drops what exceeds its message and byte limits, and says so on stderr; it never delays
(`ZMQChannelsWebsocketConnection._limit_rate`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import nbformat
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.bench.kernels import Published, chunk_numbers, final_text, kernel_specs
from tests.browser.server import JupyterServer, jupyter_server

SILENCE = 5.0
"""Seconds without any message after which a cell that is not idle counts as hung."""


@dataclass(frozen=True)
class ServedRun:
    """One cell behind a server.

    Attributes:
        lost: chunks of the answer that no output shows at the end.
        in_order: those shown stand in their order.
        idle: the idle status arrived.
        wall: seconds to idle, or to the last message where it did not arrive.
    """

    lost: int
    in_order: bool
    idle: bool
    wall: float


@contextmanager
def default_server(**env: str) -> Iterator[JupyterServer]:
    """A bare Jupyter server with the benchmark's kernels."""
    with (
        TemporaryDirectory(prefix="bench-server-") as directory,
        jupyter_server("server", Path(directory), kernel_specs(), env) as server,
    ):
        yield server


class ServedKernel:
    """A kernel of a notebook session on a server, and the WebSocket to it."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._session = uuid4().hex

    async def run(self, code: str) -> tuple[list[Published], bool, float]:
        """Run a cell: what was published, whether idle came, and seconds until then."""
        request = self._request("execute_request", {"code": code, "silent": False})
        start = last = time.monotonic()
        published: list[Published] = []
        await self._socket.write_message(json.dumps(request))
        while True:
            try:
                message = await self._read()
            except TimeoutError:
                return published, False, last - start
            last = time.monotonic()
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return published, True, last - start
            if message["channel"] == "iopub":
                published.append(Published(last, kind, content, len(json.dumps(content))))

    async def wait_ready(self) -> None:
        """Until the kernel answers a request for its info."""
        request = self._request("kernel_info_request", {})
        await self._socket.write_message(json.dumps(request))
        async with asyncio.timeout(30):
            while (await self._read(30))["header"]["msg_type"] != "kernel_info_reply":
                pass

    async def _read(self, seconds: float = SILENCE) -> dict[str, Any]:
        data = await asyncio.wait_for(self._socket.read_message(), seconds)
        if data is None:
            raise RuntimeError("the server closed the WebSocket")
        message: dict[str, Any] = json.loads(data)
        return message

    def _request(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        header = {
            "msg_id": uuid4().hex,
            "msg_type": kind,
            "session": self._session,
            "username": "",
            "version": "5.3",
            "date": datetime.now(UTC).isoformat(),
        }
        return {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "buffers": [],
        }


def run_behind_server(
    server: JupyterServer, kernel: str, connect: str, scenario: str, chunks: int
) -> ServedRun:
    """Start ``kernel`` for a new notebook, run the cell ``connect``, then ``scenario``."""
    name = f"{kernel}-{uuid4().hex[:8]}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), server.root / name)
    body = {"path": name, "name": name, "type": "notebook", "kernel": {"name": kernel}}
    session = server.request("POST", "api/sessions", body)
    try:
        return asyncio.run(_run(server, session["kernel"]["id"], connect, scenario, chunks))
    finally:
        server.request("DELETE", f"api/sessions/{session['id']}")


async def _run(
    server: JupyterServer, kernel_id: str, connect: str, scenario: str, chunks: int
) -> ServedRun:
    url = server.url.replace("http", "ws", 1) + f"api/kernels/{kernel_id}/channels"
    headers = {"Authorization": f"token {server.token}"}
    socket = await websocket_connect(HTTPRequest(url, headers=headers))
    try:
        kernel = ServedKernel(socket)
        await kernel.wait_ready()
        _, connected, _ = await kernel.run(connect)
        if not connected:
            raise RuntimeError("the kernel did not connect to the scripted agent")
        published, idle, wall = await kernel.run(scenario)
    finally:
        socket.close()
    # A turn may show more than the answer, so only what the agent numbered counts.
    numbers = chunk_numbers(final_text(published))
    lost = chunks - len(set(numbers) & set(range(chunks)))
    return ServedRun(lost, numbers == sorted(set(numbers)), idle, wall)
