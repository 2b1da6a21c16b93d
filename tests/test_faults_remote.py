"""F59 and its kin: servers of remote agents that break, stall, redirect or attack.

The servers are a few lines each, on a socket of their own; what the client says to a user in the
end is what counts.
"""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager
from functools import partial

import h2.config
import h2.connection
import h2.events
import pytest
import trio
import wsproto
import wsproto.events as ws

from acp_jupyter.connection import http2, streamable_http, websocket
from acp_jupyter.errors import ACPError, ConnectionFailed, ConnectionLost, LineTooLong
from acp_jupyter.protocol import jsonrpc
from acp_jupyter.services.agents import from_name, from_text
from tests.conftest import trio_wait_until
from tests.test_client import open_client, shown

TOKEN = "quite-a-secret-token-4711"
PROMPT = [{"type": "text", "text": "go"}]
LIMIT = 2**20
"""Bytes of a line in these tests: the real limit, only lower."""


@asynccontextmanager
async def serving(handle):
    """Serve connections with ``handle(stream)``; gives the port."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def answer_to(message):
    """What a plain agent answers to a request, or ``None``."""
    results = {
        "initialize": {"protocolVersion": 1, "agentCapabilities": {}},
        "session/new": {"sessionId": "s1"},
        "session/prompt": {"stopReason": "end_turn"},
    }
    if message.get("method") not in results:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}


def chunk(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"sessionId": "s1", "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


class WebSocketServer:
    """Speaks WebSocket well; ``misbehave(self, prompt)`` takes the place of answers to prompts."""

    def __init__(self, misbehave):
        self.misbehave = misbehave

    async def __call__(self, stream):
        self.stream, self.socket = stream, wsproto.WSConnection(wsproto.ConnectionType.SERVER)
        text = ""
        try:
            async for data in stream:
                self.socket.receive_data(bytes(data))
                for event in self.socket.events():
                    if isinstance(event, ws.Request):
                        await self.say(ws.AcceptConnection())
                    elif isinstance(event, ws.TextMessage):
                        text += event.data
                        if event.message_finished:
                            message, text = json.loads(text), ""
                            await self.take(message)
                    elif isinstance(event, (ws.Ping, ws.CloseConnection)):
                        await self.say(event.response())
        except (
            trio.BrokenResourceError,
            trio.ClosedResourceError,
            wsproto.utilities.ProtocolError,
        ):
            pass  # the client has had enough

    async def take(self, message):
        if message.get("method") == "session/prompt" and self.misbehave is not None:
            await self.misbehave(self, message)
        elif answer_to(message) is not None:
            await self.tell(answer_to(message))

    async def tell(self, message):
        await self.say(ws.TextMessage(data=json.dumps(message)))

    async def say(self, event):
        await self.stream.send_all(self.socket.send(event))

    async def raw(self, data):
        await self.stream.send_all(data)


class HttpServer:
    """The same for streamable HTTP."""

    def __init__(self, misbehave):
        self.misbehave = misbehave

    async def __call__(self, stream):
        self.stream = stream
        self.state = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.state.initiate_connection()
        self.streams, self.requests, self.bodies = {}, {}, {}
        try:
            await self.flush()
            async for data in stream:
                for event in self.state.receive_data(bytes(data)):
                    await self.take(event)
                await self.flush()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h2.exceptions.ProtocolError):
            pass  # the client has had enough

    async def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            fields = self.requests[event.stream_id] = dict(event.headers)
            self.bodies[event.stream_id] = b""
            if fields[":method"] == "GET":
                self.streams[fields.get("acp-session-id", "")] = event.stream_id
                self.head(event.stream_id, 200, "text/event-stream")
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded) and self.bodies[event.stream_id]:
            await self.post(event.stream_id, json.loads(self.bodies[event.stream_id]))

    async def post(self, ident, message):
        if message.get("method") == "initialize":
            self.head(ident, 200, "application/json", ("acp-connection-id", "c1"))
            self.state.send_data(ident, json.dumps(answer_to(message)).encode(), end_stream=True)
            return
        self.head(ident, 202, "text/plain", end=True)
        if message.get("method") == "session/prompt" and self.misbehave is not None:
            await self.misbehave(self, message)
        elif answer_to(message) is not None:
            on = "s1" if message["method"] == "session/prompt" else ""
            await self.tell(answer_to(message), on)

    def head(self, ident, status, kind, *more, end=False):
        fields = [(":status", str(status)), ("content-type", kind), *more]
        self.state.send_headers(ident, fields, end_stream=end)

    async def tell(self, message, session="s1"):
        await self.raw(b"data: " + json.dumps(message).encode() + b"\n\n", session)

    async def raw(self, data, session="s1"):
        """Bytes on an event stream, as fast as its window allows."""
        ident = self.streams[session]
        while data:
            size = min(self.state.local_flow_control_window(ident), 16384)
            if size == 0:
                await self.flush()
                received = await self.stream.receive_some()
                for event in self.state.receive_data(bytes(received)):
                    await self.take(event)
                continue
            self.state.send_data(ident, data[:size])
            data = data[size:]
            await self.flush()

    async def flush(self):
        await self.stream.send_all(self.state.data_to_send())


@pytest.fixture
def impatient(monkeypatch):
    """All limits on a server's silence are a second or two."""
    for module in (websocket, http2):
        monkeypatch.setattr(module, "PING_EVERY", 0.5)
        monkeypatch.setattr(module, "SILENCE", 2.0)
    monkeypatch.setattr(websocket, "CONNECT_LIMIT", 2.0)


SERVERS = pytest.mark.parametrize(
    ("scheme", "server"), [("ws", WebSocketServer), ("http", HttpServer)]
)


async def connected(client, scheme, port, tmp_path):
    return await client.connect(from_text(f"{scheme}://127.0.0.1:{port}", {}), str(tmp_path))


# -- while a turn runs ---------------------------------------------------------------------------


@SERVERS
async def test_f1_garbage_between_messages_is_noise(scheme, server, tmp_path):
    async def misbehave(server, message):
        for text in ("garbage", "5", "[]", '{"a": 1}', '{"jsonrpc": "2.0"', ""):
            if scheme == "ws":
                await server.say(ws.TextMessage(data=text))
            else:
                await server.raw(f": comment\nevent: x\ndata: {text}\n\n".encode())
        if scheme == "ws":
            await server.say(ws.BytesMessage(data=b'{"jsonrpc": "2.0", "method": "binary"}'))
            await server.say(ws.Ping(payload=b"are you there"))
        await server.tell(chunk("after the noise"))
        await server.tell(answer_to(message))

    async with serving(server(misbehave)) as port, open_client() as client:
        session = await connected(client, scheme, port, tmp_path)
        await session.prompt(PROMPT)
        assert "after the noise" in shown(session)
        assert "no ACP messages" in shown(session)
        assert client.agent.alive


@SERVERS
async def test_f4_messages_may_have_line_ends_within(scheme, server, tmp_path):
    async def misbehave(server, message):
        for found in (chunk("in lines"), answer_to(message)):
            text = json.dumps(found, indent=2)
            if scheme == "ws":
                for number, part in enumerate(text.split(":")):  # in fragments, too
                    data = part if number == 0 else f":{part}"
                    await server.say(ws.TextMessage(data=data, message_finished=False))
                await server.say(ws.TextMessage(data="", message_finished=True))
            else:
                lines = "".join(f"data: {line}\r\n" for line in text.split("\n"))
                await server.raw(f"{lines}\r\n".encode())

    async with serving(server(misbehave)) as port, open_client() as client:
        session = await connected(client, scheme, port, tmp_path)
        await session.prompt(PROMPT)
        assert "in lines" in shown(session)


@SERVERS
async def test_f10_a_huge_message_is_thrown_away_while_it_comes(
    scheme, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(jsonrpc, "MAX_LINE", LIMIT)
    monkeypatch.setattr(streamable_http, "MAX_LINE", LIMIT)

    async def misbehave(server, message):
        if scheme == "ws":
            for _ in range(48):
                await server.say(ws.TextMessage(data="x" * 2**16, message_finished=False))
            await server.say(ws.TextMessage(data="", message_finished=True))
        else:
            await server.raw(b"data: ")
            for _ in range(48):
                await server.raw(b"x" * 2**16)
            await server.raw(b"\n\n")
        await server.tell(answer_to(message))

    async with serving(server(misbehave)) as port, open_client() as client:
        session = await connected(client, scheme, port, tmp_path)
        with pytest.raises(LineTooLong, match="3,145,7"):
            await session.prompt(PROMPT)
        assert client.agent.alive


async def _set_when_shown(event, session, text):
    await trio_wait_until(lambda: text in shown(session), 30)
    event.set()


@SERVERS
async def test_f15_a_connection_that_breaks_in_mid_message_fails_the_turn(scheme, server, tmp_path):
    arrived = trio.Event()

    async def misbehave(server, message):
        await server.tell(chunk("half an answer"))
        await arrived.wait()  # what TCP throws away at such an end, nobody can keep
        if scheme == "ws":
            await server.raw(b"\x81\x7e\x7f\xff{half")
        else:
            await server.raw(b"data: {half")
        await trio.aclose_forcefully(server.stream)

    async with serving(server(misbehave)) as port, open_client() as client:
        session = await connected(client, scheme, port, tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_set_when_shown, arrived, session, "half an answer")
            with pytest.raises(ConnectionLost, match="dropped the connection during this turn"):
                await session.prompt(PROMPT)
        assert "half an answer" in shown(session)
        await client.session()
        assert "does not remember the earlier turns" in shown(client.current)


@pytest.mark.parametrize(
    ("scheme", "server", "data"),
    [
        ("ws", WebSocketServer, b"\x00" * 1000),
        ("ws", WebSocketServer, b"\xff" * 1000),
        ("ws", WebSocketServer, b"HTTP/1.1 400 no\r\n\r\n" * 9),
        ("ws", WebSocketServer, b"\x81\x02\xff\xfe"),
        ("http", HttpServer, b"\x00" * 1000),
        ("http", HttpServer, b"\x00\x00\x08\x06\x00\x00\x00\x00\x01"),
    ],
)
async def test_bytes_that_are_no_frames_end_the_connection(scheme, server, data, tmp_path):
    async def misbehave(server, message):
        await server.stream.send_all(data)

    async with serving(server(misbehave)) as port, open_client() as client:
        session = await connected(client, scheme, port, tmp_path)
        with pytest.raises(ConnectionLost, match="during this turn"):
            await session.prompt(PROMPT)


@SERVERS
async def test_who_does_not_answer_a_ping_is_gone(scheme, server, tmp_path, impatient):
    """A half-open connection must not look like an agent that thinks."""

    async def misbehave(server, message):
        if scheme == "http":
            await server.flush()
        await trio.sleep_forever()

    async with serving(server(misbehave)) as port, open_client() as client:
        session = await connected(client, scheme, port, tmp_path)
        with pytest.raises(ConnectionLost, match="has not answered for"):
            await session.prompt(PROMPT)


async def test_an_event_stream_that_ends_by_itself_ends_the_connection(tmp_path):
    """What came meanwhile would be missing, and nobody could tell."""

    async def misbehave(server, message):
        server.state.end_stream(server.streams["s1"])

    async with serving(HttpServer(misbehave)) as port, open_client() as client:
        session = await connected(client, "http", port, tmp_path)
        with pytest.raises(ConnectionLost, match="ended the session's event stream"):
            await session.prompt(PROMPT)


async def test_a_stream_with_an_endless_message_does_not_hold_up_other_sessions_for_good(tmp_path):
    """F10: at 256 MiB without an end the connection is given up; below that it is thrown away."""
    sent = 0

    async def misbehave(server, message):
        nonlocal sent
        await server.raw(b"data: ")
        while True:
            await server.raw(b"x" * 2**16)
            sent += 2**16

    async with serving(HttpServer(misbehave)) as port, open_client() as client:
        session = await connected(client, "http", port, tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jsonrpc, "MAX_LINE", LIMIT)
            patch.setattr(streamable_http, "MAX_LINE", LIMIT)
            patch.setattr(jsonrpc, "FATAL_LINE", 4 * LIMIT)
            with pytest.raises(LineTooLong):
                await session.prompt(PROMPT)
        assert not client.agent.alive
        assert sent < 64 * LIMIT


# -- while it connects ---------------------------------------------------------------------------


def plain_http(status, *fields, body=b""):
    """A server that answers each request with this, and notes what it was sent."""
    seen = []

    async def handle(stream):
        seen.append(bytes(await stream.receive_some()))
        lines = [f"HTTP/1.1 {status} So", f"Content-Length: {len(body)}", *fields, "", ""]
        await stream.send_all("\r\n".join(lines).encode() + body)

    return handle, seen


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_f59_a_redirect_is_not_followed_and_gets_no_token(status, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_ACCESS", TOKEN)
    elsewhere, seen = plain_http(200)
    async with serving(elsewhere) as other:
        handle, _ = plain_http(status, f"Location: ws://u:{TOKEN}@127.0.0.1:{other}/?k={TOKEN}")
        async with serving(handle) as port, open_client() as client:
            settings = {"url": f"ws://127.0.0.1:{port}", "token_env": "LAB_ACCESS"}
            with pytest.raises(ConnectionFailed, match="are not followed") as caught:
                await client.connect(from_name("a", {"a": settings}), str(tmp_path))
            assert f"127.0.0.1:{other}" in str(caught.value)
            assert TOKEN not in str(caught.value)
    assert seen == []


async def test_f59_a_redirect_of_a_post_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_ACCESS", TOKEN)
    elsewhere, seen = plain_http(200)

    class Redirecting(HttpServer):
        location = ""

        async def post(self, ident, message):
            self.head(ident, 307, "text/plain", ("location", self.location), end=True)

    async with serving(elsewhere) as other:
        server = Redirecting(None)
        server.location = f"http://127.0.0.1:{other}/acp"
        async with serving(server) as port, open_client() as client:
            settings = {"url": f"http://127.0.0.1:{port}", "token_env": "LAB_ACCESS"}
            with pytest.raises(ConnectionFailed, match="are not followed"):
                await client.connect(from_name("a", {"a": settings}), str(tmp_path))
    assert seen == []


async def test_f59_host_and_no_origin_are_sent(tmp_path):
    handle, seen = plain_http(403, body=b"no")
    async with serving(handle) as port, open_client() as client:
        with pytest.raises(ConnectionFailed, match="403"):
            await connected(client, "ws", port, tmp_path)
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "GET /acp HTTP/1.1"
    assert f"Host: 127.0.0.1:{port}".lower() in [line.lower() for line in lines]
    assert not any(line.lower().startswith(("origin", "authorization")) for line in lines)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "another version"),
        (401, "--token-env"),
        (403, "--token-env"),
        (404, "/acp"),
        (406, "ws://"),
        (415, "ws://"),
        (501, "ws://"),
        (503, "too much to do"),
    ],
)
async def test_a_refusal_says_what_to_do(status, hint, tmp_path):
    class Refusing(HttpServer):
        async def post(self, ident, message):
            self.head(ident, status, "text/plain")
            self.state.send_data(ident, b"because \x1b]0;evil\x07 of this", end_stream=True)

    async with serving(Refusing(None)) as port, open_client() as client:
        with pytest.raises(ConnectionFailed) as caught:
            await connected(client, "http", port, tmp_path)
        assert caught.value.status == status
        assert hint in caught.value.remedy
        assert "of this" in caught.value.message
        assert "\x1b" not in caught.value.message


async def test_a_server_without_http2_is_told_to_use_a_websocket(tmp_path):
    handle, _ = plain_http(400)
    async with serving(handle) as port, open_client() as client:
        with pytest.raises(ConnectionFailed, match=r"HTTP/2(.|\n)*Use ws://"):
            await connected(client, "http", port, tmp_path)


@pytest.mark.parametrize(
    ("fields", "body", "says"),
    [
        ([("acp-connection-id", "c1")], b"<html>", "no JSON"),
        ([], b'{"jsonrpc": "2.0", "id": 0, "result": {}}', "no usable id"),
        ([("acp-connection-id", "c" * 2000)], b'{"id": 0, "result": {}}', "no usable id"),
        ([("acp-connection-id", "c1"), ("content-encoding", "gzip")], b"{}", "in place of"),
    ],
)
async def test_an_answer_to_initialize_that_cannot_be_used(fields, body, says, tmp_path):
    class Odd(HttpServer):
        async def post(self, ident, message):
            self.head(ident, 200, "application/json", *fields)
            self.state.send_data(ident, body, end_stream=True)

    async with serving(Odd(None)) as port, open_client() as client:
        with pytest.raises(ConnectionFailed, match=says):
            await connected(client, "http", port, tmp_path)


@pytest.mark.parametrize("session", ["a\r\nX-Evil: 1", "s" * 2000, "é", " s"])
async def test_f63_a_session_id_that_is_no_header_field_is_refused(session, tmp_path):
    class Odd(HttpServer):
        async def post(self, ident, message):
            if message.get("method") != "session/new":
                await super().post(ident, message)
                return
            self.head(ident, 202, "text/plain", end=True)
            result = {"sessionId": session}
            await self.tell({"jsonrpc": "2.0", "id": message["id"], "result": result}, "")

    async with serving(Odd(None)) as port, open_client() as client:
        with pytest.raises(ACPError, match="no header field can hold"):
            await connected(client, "http", port, tmp_path)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_server_that_never_answers_is_given_up(scheme, tmp_path, impatient):
    async def handle(stream):
        async for _ in stream:
            pass

    async with serving(handle) as port, open_client() as client:
        with pytest.raises(ConnectionFailed, match=r"did not answer|has not answered"):
            await connected(client, scheme, port, tmp_path)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_port_where_nobody_listens_is_told_at_once(scheme, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with open_client() as client:
        with pytest.raises(ConnectionFailed, match=r"(?i)refused(.|\n)*Check the address"):
            await connected(client, scheme, port, tmp_path)


@SERVERS
async def test_closing_ends_what_the_server_does_not(scheme, server, tmp_path):
    """A server that reads nothing and closes nothing does not hold up the kernel's end."""
    silent = trio.Event()

    async def take(self, message):
        if silent.is_set():
            await trio.sleep_forever()
        await server.take(self, message)

    deaf = type("Deaf", (server,), {"take": take})
    async with serving(deaf(None)) as port, open_client() as client:
        await connected(client, scheme, port, tmp_path)
        agent = client.agent
        silent.set()
        await client.shutdown()
        await trio_wait_until(agent.ended.is_set)
        assert not agent.alive
