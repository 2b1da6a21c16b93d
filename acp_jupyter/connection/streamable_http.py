"""An agent reached by streamable HTTP: what we say is POSTed, what it says comes on event streams.

One HTTP/2 connection carries all of it: the POSTs, one event stream for the connection and one for
each session. Over TLS it is agreed on by ALPN; without TLS, on this machine, it is begun unasked.

Rules:

- Messages are POSTed one after the other, so that they arrive in their order; a POST ends when the
  agent has taken the message, not when it has answered.
- ``initialize`` is answered in the POST itself, and brings the connection's id.
- The stream of a session is asked for before anything is said in that session, and before the
  answer that names a new session is passed on: nothing that the agent says there is missed.
- An event stream that ends, other than with its session, ends the connection: there is no way to
  know what was missed.
- The answer to ``session/load`` is passed on when the session's stream is quiet: the history comes
  on that stream, the answer on the other, and nothing says in which order.
- At most one message of each stream is held, up to `MAX_LINE`; a longer one goes on in pieces, and
  the limits on lines hold for it.
- Nothing is compressed: a few bytes could become a huge message.
- An idle connection is watched by TCP (`KEEP_ALIVE`): httpx sends no HTTP/2 pings.
"""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import h2  # noqa: F401  # without it, httpx would fall back to HTTP/1.1
import httpx
import msgspec
import trio

from ..errors import AgentError, ConnectionFailed
from ..protocol.jsonrpc import MAX_LINE, match_id
from .address import Address, RemoteSource
from .credentials import Credentials
from .remote import CONNECT_LIMIT, RemoteTransport, tls_context
from .sse import EventReader

__all__ = ["HttpTransport", "open_http"]

POST_LIMIT: Final = 30.0
"""Seconds for the agent to take a message; its answer may take as long as it likes."""

STREAM_LIMIT: Final = 3.0
"""Seconds that the head of an event stream is waited for. Some servers send it with the first
event only, so going on without it is no error."""

SETTLED: Final = 0.1
SETTLE_LIMIT: Final = 5.0
"""Seconds without a word on a session's stream after which its history has come, and for that."""

GOODBYE_LIMIT: Final = 1.0

QUESTIONS: Final = 1000
"""Requests of the agent whose session is remembered until they are answered."""

REFUSAL_READ: Final = 2000
"""Bytes read of what a server says of a refusal."""

TEXT: Final = "text/event-stream"

_OPENING: Final = frozenset({"session/new", "session/fork", "session/load", "session/resume"})
_CLOSING: Final = frozenset({"session/close", "session/delete"})

_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?")
"""What an id must be to stand in a header field."""


def _keep_alive() -> list[tuple[int, int, int]]:
    """Socket options that let the system notice within about a minute that nobody is there."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


KEEP_ALIVE: Final = _keep_alive()


class _Events:
    """One event stream: of a session, or of the connection where ``session`` is empty."""

    def __init__(self, session: str, *, may_be_missing: bool) -> None:
        self.session = session
        self.may_be_missing = may_be_missing
        self.missing = False
        self.begun = trio.Event()
        self.held = bytearray()
        self.has_floor = False
        self.heard = trio.current_time()
        self.reading = trio.CancelScope()


class HttpTransport(RemoteTransport):
    """Made by `open_http`.

    Args:
        client: keeps the connection and the cookies.
        nursery: where event streams are read.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        credentials: Credentials,
        client: httpx.AsyncClient,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(name, address, credentials)
        self._client = client
        self._nursery = nursery
        self._into, self._out = trio.open_memory_channel[bytes](0)
        self._floor = trio.Lock()
        self._ended = trio.Event()
        self._connection_id = ""
        self._version = ""
        self._streams: dict[str, _Events] = {}
        self._leaving: set[str] = set()
        self._opening: dict[int, tuple[str, str]] = {}
        self._questions: dict[int | str, str] = {}

    # -- what we say ---------------------------------------------------------------------------

    async def send_all(self, data: bytes) -> None:
        """POST lines, one after the other.

        Raises:
            ConnectionFailed: the agent was not reached, or refused.
            ConnectionLost: the connection has ended.
        """
        for line in data.split(b"\n"):
            if line:
                found = msgspec.json.decode(line)
                # Batches are not for this transport: their entries go one by one.
                for message in found if type(found) is list else [found]:
                    await self._say(message)

    async def _say(self, message: dict[str, Any]) -> None:
        if self._ended.is_set():
            raise self._failure or self._lost()
        try:
            if message.get("method") == "initialize":
                await self._initialize(message)
            else:
                await self._post(message)
        except httpx.HTTPError as error:
            raise self._broken(error) from error
        except ConnectionFailed as error:
            self._failure = self._failure or error
            self._end("refused a message")
            raise

    def _broken(self, error: httpx.HTTPError) -> AgentError:
        if not self._connection_id:
            self._failure = self._unreached(error)
        self._end("dropped the connection")
        return self._failure if isinstance(self._failure, AgentError) else self._lost()

    async def _initialize(self, message: dict[str, Any]) -> None:
        fields = self._fields("", posting=True)
        request = self._client.build_request("POST", self._url, json=message, headers=fields)
        response = await self._client.send(request, stream=True)
        try:
            if response.http_version != "HTTP/2":
                raise ConnectionFailed(
                    f"agent {self._name!r} at {self._address} speaks {response.http_version}; "
                    "streamable HTTP needs HTTP/2",
                    remedy=f"Use {'wss' if self._address.tls else 'ws'}:// with the same address, "
                    "or let the server speak HTTP/2.",
                )
            if response.status_code != 200:
                raise await self._refusal(response)
            body = await self._read_answer(response)
            self._connection_id = self._id_of_connection(response, body)
        finally:
            await response.aclose()
        await self._open_stream("")
        await self._pass_on(msgspec.json.encode(body) + b"\n")

    async def _read_answer(self, response: httpx.Response) -> Any:
        """The JSON in the answer to initialize."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or "content-encoding" in response.headers:
            raise ConnectionFailed(
                f"agent {self._name!r} at {self._address} answered initialize with "
                f"{self._shown(kind) or 'no content type'} in place of plain application/json",
                remedy="Check the address: agents are often at /acp.",
            )
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MAX_LINE:
                raise ConnectionFailed(
                    f"agent {self._name!r} answered initialize with more than "
                    f"{MAX_LINE // 2**20} MiB",
                    remedy="Check the address: this is no agent.",
                )
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConnectionFailed(
                f"agent {self._name!r} at {self._address} answered initialize with what is no JSON",
                remedy="Check the address: agents are often at /acp.",
            ) from error

    def _id_of_connection(self, response: httpx.Response, body: Any) -> str:
        result = body.get("result") if type(body) is dict else None
        result = result if type(result) is dict else {}
        version = result.get("protocolVersion")
        self._version = str(version) if type(version) is int else ""
        found = response.headers.get("acp-connection-id") or result.get("connectionId")
        if type(found) is not str or _FIELD.fullmatch(found) is None:
            raise ConnectionFailed(
                f"agent {self._name!r} at {self._address} gave the connection no usable id",
                remedy="The server is at fault: the header field Acp-Connection-Id is missing.",
            )
        return found

    async def _post(self, message: dict[str, Any]) -> None:
        method, ident = message.get("method"), message.get("id")
        params = message.get("params")
        session = params.get("sessionId") if type(params) is dict else None
        if method is None:
            session = self._questions.pop(ident, None) if ident is not None else None
        elif method in _OPENING and type(ident) is int:
            self._opening[ident] = (method, session if method in _LOADING and session else "")
        if type(session) is not str:
            session = ""
        if session and session not in self._streams and method is not None:
            await self._open_stream(session, may_be_missing=method in _LOADING)
        if method in _CLOSING:
            self._leaving.add(session)
        fields = self._fields(session, posting=True)
        with trio.move_on_after(POST_LIMIT) as scope:
            request = self._client.build_request("POST", self._url, json=message, headers=fields)
            response = await self._client.send(request, stream=True)
            try:
                if not 200 <= response.status_code < 300:
                    raise await self._refusal(response)
            finally:
                await response.aclose()
        if scope.cancelled_caught:
            self._end(f"did not take a message within {POST_LIMIT:.0f} s; it is given up")
            raise self._lost()

    async def _refusal(self, response: httpx.Response) -> AgentError:
        """The error for a status that refuses a message."""
        text = ""
        kind = response.headers.get("content-type", "")
        if kind.startswith(("text/plain", "application/json")):
            with trio.move_on_after(GOODBYE_LIMIT):
                async for piece in response.aiter_raw():
                    text += piece.decode("utf-8", "replace")
                    if len(text) > REFUSAL_READ:
                        break
        status = response.status_code
        if status == 404 and self._connection_id:
            self._end("does not know this connection any more")
            return self._lost()
        return self._refused(status, response.headers.get("location", ""), text)

    @property
    def _url(self) -> str:
        return str(self._address)

    def _fields(self, session: str, *, posting: bool) -> dict[str, str]:
        fields = dict(self._credentials.headers)
        fields["Accept"] = f"application/json, {TEXT}" if posting else TEXT
        fields["Accept-Encoding"] = "identity"
        if posting:
            fields["Content-Type"] = "application/json"
        if self._connection_id:
            fields["Acp-Connection-Id"] = self._connection_id
        if session:
            if _FIELD.fullmatch(session) is None:
                raise ConnectionFailed(
                    f"agent {self._name!r} gave a session an id that no header field can hold",
                    remedy="The agent is at fault; try ws:// or wss:// instead.",
                )
            fields["Acp-Session-Id"] = session
        if self._version:
            fields["Acp-Protocol-Version"] = self._version
        return fields

    # -- what it says --------------------------------------------------------------------------

    async def receive_some(self) -> bytes:
        """Whole messages, each with a line's end; pieces of a huge one. ``b""`` at the end."""
        try:
            return await self._out.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            return b""

    async def _open_stream(self, session: str, *, may_be_missing: bool = False) -> None:
        """Ask for an event stream and wait until it has begun.

        Args:
            session: whose it is; empty for that of the connection.
            may_be_missing: the agent may not know the session before it is loaded.
        """
        self._fields(session, posting=False)  # refuses ids that cannot be sent
        stream = self._streams[session] = _Events(session, may_be_missing=may_be_missing)
        self._nursery.start_soon(self._read_stream, stream)
        with trio.move_on_after(STREAM_LIMIT):
            await stream.begun.wait()
        if stream.missing:
            del self._streams[session]
        stream.may_be_missing = False

    async def _read_stream(self, stream: _Events) -> None:
        """Task: read an event stream to its end."""
        whose = "the session's event stream" if stream.session else "the event stream"
        reason = f"ended {whose}"
        try:
            with stream.reading:
                await self._follow(stream)
        except httpx.HTTPError:
            reason = "dropped the connection"
        except ConnectionFailed as error:
            self._failure = self._failure or error
            reason = f"refused {whose}"
        finally:
            stream.begun.set()
            if stream.has_floor:
                self._floor.release()
        if stream.missing:
            return
        if stream.session in self._leaving:
            self._leaving.discard(stream.session)
            self._streams.pop(stream.session, None)
            return
        self._end(reason)

    async def _follow(self, stream: _Events) -> None:
        fields = self._fields(stream.session, posting=False)
        reader = EventReader()
        async with self._client.stream("GET", self._url, headers=fields) as response:
            if response.status_code == 404 and stream.may_be_missing:
                stream.missing = True
                return
            if response.status_code != 200:
                raise self._refused(response.status_code, response.headers.get("location", ""))
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != TEXT or "content-encoding" in response.headers:
                raise ConnectionFailed(
                    f"agent {self._name!r} sent {self._shown(kind) or 'no content type'} in place "
                    f"of a plain {TEXT}",
                    remedy="The server is at fault; try ws:// or wss:// instead.",
                )
            stream.begun.set()
            async for data in response.aiter_raw():
                for piece, last in reader.feed(data):
                    await self._take(stream, piece, last)

    async def _take(self, stream: _Events, piece: bytes, last: bool) -> None:
        """A piece of a message; whole messages of several streams do not mix."""
        stream.heard = trio.current_time()
        stream.held += piece
        if last and not stream.has_floor:
            line = bytes(stream.held)
            stream.held.clear()
            await self._heed(stream, line)
            await self._pass_on(line + b"\n")
        elif last or len(stream.held) > MAX_LINE:
            if not stream.has_floor:
                await self._floor.acquire()
                stream.has_floor = True
            await self._hand_on(bytes(stream.held) + (b"\n" if last else b""))
            stream.held.clear()
            if last:
                stream.has_floor = False
                self._floor.release()

    async def _pass_on(self, line: bytes) -> None:
        async with self._floor:
            await self._hand_on(line)

    async def _hand_on(self, data: bytes) -> None:
        try:
            await self._into.send(data)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass  # the connection has ended meanwhile

    async def _heed(self, stream: _Events, line: bytes) -> None:
        """Open the stream of a session that an answer brings; note whose a question is."""
        if b'"id"' not in line:
            return
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the connection says so
        if type(message) is not dict:
            return
        ident = message.get("id")
        if "method" in message:
            if (type(ident) is int or type(ident) is str) and len(self._questions) < QUESTIONS:
                params = message.get("params")
                named = params.get("sessionId") if type(params) is dict else None
                if type(named) is not str or named not in self._streams:
                    named = stream.session
                self._questions[ident] = named
            return
        number, _ = match_id(ident)
        if number is None or number not in self._opening:
            return
        method, session = self._opening.pop(number)
        result = message.get("result")
        if type(result) is dict and type(result.get("sessionId")) is str:
            session = session or result["sessionId"]
        if session and "error" not in message:
            if session not in self._streams:
                await self._open_stream(session)
            if method == "session/load":
                await self._settle(self._streams[session])

    async def _settle(self, stream: _Events) -> None:
        """Wait until what came on another stream before this was taken: nothing orders streams."""
        limit = trio.current_time() + SETTLE_LIMIT
        while (quiet := min(stream.heard + SETTLED, limit)) > trio.current_time():
            await trio.sleep_until(quiet)  # noqa: ASYNC110  # quiet is no event

    # -- ending --------------------------------------------------------------------------------

    async def wait_ended(self) -> None:
        await self._ended.wait()

    def _end(self, reason: str) -> None:
        if not self._ended.is_set():
            self._reason = reason
            self._ended.set()
            self._into.close()
            for stream in self._streams.values():
                stream.reading.cancel()

    def kill(self) -> None:
        """See `transport.Transport`."""
        self._end("was disconnected")

    async def aclose(self, grace: float = 0.5) -> None:
        """Tell the agent that the connection is over, and end it."""
        ident, self._connection_id = self._connection_id, ""
        if ident and not self._ended.is_set():
            fields = {**self._fields("", posting=False), "Acp-Connection-Id": ident}
            limit = max(grace, GOODBYE_LIMIT)
            with trio.CancelScope(shield=True), trio.move_on_after(limit):
                try:
                    request = self._client.build_request("DELETE", self._url, headers=fields)
                    await (await self._client.send(request, stream=True)).aclose()
                except httpx.HTTPError:
                    pass  # it notices by itself
        self.kill()


_LOADING: Final = frozenset({"session/load", "session/resume"})


@asynccontextmanager
async def open_http(
    source: RemoteSource, credentials: Credentials, *, name: str, version: str
) -> AsyncIterator[HttpTransport]:
    """Make ready; called by `remote.open_remote`. The first message connects."""
    address = source.address
    transport = httpx.AsyncHTTPTransport(
        verify=tls_context(),
        # Without TLS nothing can be agreed on: HTTP/2 is begun at once.
        http1=address.tls,
        http2=True,
        trust_env=False,
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        socket_options=KEEP_ALIVE,
    )
    client = httpx.AsyncClient(
        transport=transport,
        headers={"User-Agent": f"acp-jupyter/{version}"},
        cookies=source.cookies,
        timeout=httpx.Timeout(None, connect=CONNECT_LIMIT),
        follow_redirects=False,
        trust_env=False,
    )
    failure: BaseException | None = None
    try:
        async with client, trio.open_nursery() as nursery:
            opened = HttpTransport(name, address, credentials, client, nursery)
            try:
                yield opened
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: BLE001  # raised again below
                failure = error
            finally:
                await opened.aclose()
                nursery.cancel_scope.cancel()
    finally:
        # Outside of the nursery, which would wrap the body's own error in a group.
        if failure is not None:
            raise failure
