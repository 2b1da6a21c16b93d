"""A server for remote agents, as strict as the protocol's proposal: WebSocket and streamable HTTP.

Each connection is a process of an agent (the bundled one), whose lines are bridged. The server runs
as ``python -m tests.remote_peer [OPTIONS]`` and prints its port. What it was sent is at ``/seen``;
``/drop`` cuts all connections.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypercorn.trio
import trio
from hypercorn.config import Config

AGENT = (sys.executable, "-P", "-m", "acp_jupyter.demo_agent")
COOKIE = "affinity=server-7"
ANSWERED_ON_CONNECTION = ("session/new", "session/load", "session/resume", "session/fork")
UNSCOPED = ("session/new", "session/list", "authenticate", "logout")

JSON = dict[str, Any]


class Link:
    """An agent's process, and the streams of one connection to it."""

    def __init__(self, number: int) -> None:
        self.ident = f"connection-{number}"
        self.process: trio.Process | None = None
        self.queues: dict[str, tuple[Any, Any]] = {}
        self.asked: dict[Any, tuple[str, str]] = {}
        self.known: set[str] = set()
        self.gone = trio.Event()
        self.has_streams = False

    def queue(self, session: str) -> tuple[Any, Any]:
        if session not in self.queues:
            self.queues[session] = trio.open_memory_channel[bytes](10_000)
        return self.queues[session]

    async def serve(self, task_status: Any) -> None:
        """Run the agent until the connection is gone."""
        self.process = await trio.lowlevel.open_process(
            AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump)
            await self.gone.wait()
            self.process.kill()
            await self.process.wait()
            nursery.cancel_scope.cancel()

    async def tell(self, line: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        await self.process.stdin.send_all(line + b"\n")

    async def _pump(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        held = b""
        async for data in self.process.stdout:
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                self.queue(self._stream_of(json.loads(line)))[0].send_nowait(line)

    def _stream_of(self, message: JSON) -> str:
        if not self.has_streams:
            return ""
        if "method" in message:
            return str(message.get("params", {}).get("sessionId", ""))
        method, session = self.asked.pop(message.get("id"), ("", ""))
        if method in ANSWERED_ON_CONNECTION:
            found = (message.get("result") or {}).get("sessionId") or session
            self.known.add(found)
            return ""
        return session


class Server:
    """The ASGI application."""

    def __init__(self, token: str, strict_sessions: bool) -> None:
        self.token = token
        self.strict_sessions = strict_sessions
        self.links: dict[str, Link] = {}
        self.seen: list[JSON] = []
        self.nursery: trio.Nursery | None = None
        self.count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
        headers = {k.decode().lower(): v.decode() for k, v in scope["headers"]}
        if scope["path"] in ("/seen", "/drop"):
            await self._control(scope["path"], send)
            return
        self.seen.append(
            {
                "type": scope["type"],
                "method": scope.get("method", "GET"),
                "http": scope["http_version"],
                "client": scope["client"],
                "query": scope["query_string"].decode(),
                "headers": {k: v for k, v in headers.items() if k != "authorization"},
                "authorized": headers.get("authorization") == f"Bearer {self.token}",
            }
        )
        if scope["type"] == "websocket":
            await self._websocket(headers, receive, send)
        else:
            await self._http(scope, headers, receive, send)

    async def _control(self, path: str, send: Any) -> None:
        if path == "/drop":
            for link in self.links.values():
                link.gone.set()
            self.links.clear()
        await _answer(send, 200, json.dumps(self.seen).encode())

    async def _new_link(self) -> Link:
        self.count += 1
        link = Link(self.count)
        assert self.nursery is not None
        await self.nursery.start(_started(link.serve))
        self.links[link.ident] = link
        return link

    def _allowed(self, headers: dict[str, str]) -> bool:
        return not self.token or headers.get("authorization") == f"Bearer {self.token}"

    # -- WebSocket -----------------------------------------------------------------------------

    async def _websocket(self, headers: dict[str, str], receive: Any, send: Any) -> None:
        await receive()
        if not self._allowed(headers):
            await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b""})
            return
        link = await self._new_link()
        fields = [(b"acp-connection-id", link.ident.encode()), (b"set-cookie", COOKIE.encode())]
        await send({"type": "websocket.accept", "headers": fields})
        await send({"type": "websocket.send", "bytes": b"binary is ignored"})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell, link.queue("")[1], send)
            nursery.start_soon(_when, link.gone, nursery.cancel_scope.cancel)
            while (event := await receive())["type"] == "websocket.receive":
                message = json.loads(event["text"])
                self.seen[-1].setdefault("messages", []).append(message.get("method"))
                await link.tell(event["text"].encode())
            nursery.cancel_scope.cancel()
        if link.gone.is_set():
            await send({"type": "websocket.close", "code": 1012})
        link.gone.set()

    async def _tell(self, lines: Any, send: Any) -> None:
        async for line in lines:
            await send({"type": "websocket.send", "text": line.decode()})

    # -- streamable HTTP -----------------------------------------------------------------------

    async def _http(self, scope: Any, headers: dict[str, str], receive: Any, send: Any) -> None:
        # All of it before any answer: hypercorn does not expect what comes after one.
        body = await _body(receive) if scope["method"] == "POST" else b""
        problem = self._problem(scope, headers)
        if problem:
            await _answer(send, problem, f"refused with {problem}".encode(), b"text/plain")
            return
        link = self.links.get(headers.get("acp-connection-id", ""))
        if scope["method"] == "POST":
            await self._post(link, headers, body, send)
        elif scope["method"] == "GET":
            assert link is not None
            await self._stream(link, headers.get("acp-session-id", ""), receive, send)
        else:
            assert link is not None
            await _answer(send, 202, b"")
            del self.links[link.ident]
            link.gone.set()

    def _problem(self, scope: Any, headers: dict[str, str]) -> int:
        """The status that refuses a request; 0 for none."""
        method, ident = scope["method"], headers.get("acp-connection-id")
        if scope["http_version"] != "2":
            return 505
        if not self._allowed(headers):
            return 401
        if method == "POST" and headers.get("content-type") != "application/json":
            return 415
        if method == "GET" and "text/event-stream" not in headers.get("accept", ""):
            return 406
        if ident is None:
            return 0 if method == "POST" else 400
        if headers.get("cookie") != COOKIE or headers.get("acp-protocol-version") != "1":
            return 400
        if ident not in self.links:
            return 404
        session = headers.get("acp-session-id", "")
        unknown = session and session not in self.links[ident].known
        return 404 if method == "GET" and unknown and self.strict_sessions else 0

    async def _post(
        self, link: Link | None, headers: dict[str, str], body: bytes, send: Any
    ) -> None:
        message = json.loads(body)
        if isinstance(message, list):
            await _answer(send, 501, b"")
            return
        self.seen[-1]["message"] = method = message.get("method")
        if link is None:
            if method != "initialize":
                await _answer(send, 400, b"")
                return
            link = await self._new_link()
            link.has_streams = True
            await link.tell(body)
            line = await link.queue("")[1].receive()
            ident = (b"acp-connection-id", link.ident.encode())
            await _answer(send, 200, line, b"application/json", ident)
            return
        session = (message.get("params") or {}).get("sessionId", "")
        given = headers.get("acp-session-id", "")
        if given != session if method else not given:
            await _answer(send, 400, b"Acp-Session-Id", b"text/plain")
            return
        if method and "id" in message:
            link.asked[message["id"]] = (method, session)
        await link.tell(body)
        await _answer(send, 202, b"")

    async def _stream(self, link: Link, session: str, receive: Any, send: Any) -> None:
        fields = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b": begun\n\n", "more_body": True})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_when, link.gone, nursery.cancel_scope.cancel)
            nursery.start_soon(_left, receive, nursery.cancel_scope.cancel)
            async for line in link.queue(session)[1]:
                event = b"event: message\r\ndata: " + line + b"\r\n\r\n"
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _started(function: Callable[[Any], Any]) -> Callable[..., Any]:
    async def run(*, task_status: Any) -> None:
        await function(task_status)

    return run


async def _when(event: trio.Event, function: Callable[[], None]) -> None:
    await event.wait()
    function()


async def _left(receive: Any, function: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    function()


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body


async def _answer(
    send: Any, status: int, body: bytes, kind: bytes = b"application/json", *more: Any
) -> None:
    fields = [(b"content-type", kind), (b"set-cookie", COOKIE.encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--token", default="")
    parser.add_argument("--strict-sessions", action="store_true")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(True)
    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.errorlog = None
    if options.certificate:
        config.certfile = config.keyfile = str(options.certificate)
    server = Server(options.token, options.strict_sessions)

    async def stopped() -> None:
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)

    async with trio.open_nursery() as server.nursery:
        print(listener.getsockname()[1], flush=True)
        await hypercorn.trio.serve(server, config, shutdown_trigger=stopped, mode="asgi")
        server.nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
