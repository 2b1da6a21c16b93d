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
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import trio

from ..errors import AgentError, ConnectionFailed
from ..protocol.jsonrpc import MAX_LINE, match_id
from .address import RemoteSource
from .credentials import Credentials
from .http2 import Http2, Http2Lost, Stream
from .remote import CONNECT_LIMIT, RemoteTransport, cookie_header, keep_cookies
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
        name: what the user calls the agent.
        source: where it is, and its cookies.
        credentials: what goes with each request.
        version: of this package.
        nursery: where event streams are read.
    """

    def __init__(
        self,
        name: str,
        source: RemoteSource,
        credentials: Credentials,
        version: str,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(name, source.address, credentials)
        self._cookies = source.cookies
        self._user_agent = f"acp-jupyter/{version}"
        self._http: Http2 | None = None
        self._nursery = nursery
        self._into, self._out = trio.open_memory_channel[bytes](0)
        self._floor = trio.Lock()
        self._ended = trio.Event()
        self._connection_id = ""
        self._version = ""
        self._streams: dict[str, _Events] = {}
        self._reading: set[_Events] = set()
        self._leaving: set[str] = set()
        self._opening: dict[int, tuple[str, str]] = {}
        self._questions: dict[int | str, str] = {}

    async def open(self) -> None:
        """Connect.

        Raises:
            ConnectionFailed: it was not reached, or does not speak HTTP/2.
        """
        try:
            with trio.fail_after(CONNECT_LIMIT):
                stream, tcp = await self._connect("h2")
                if isinstance(stream, trio.SSLStream) and stream.selected_alpn_protocol() != "h2":
                    await trio.aclose_forcefully(tcp)
                    raise self._without_http2()
                address = self._address
                scheme = "https" if address.tls else "http"
                target = (address.authority, scheme, address.target)
                self._http = Http2(stream, tcp.socket.close, target)
                await self._http.start()
        except trio.TooSlowError:
            raise self._too_slow() from None
        except (OSError, trio.BrokenResourceError, ssl.CertificateError, Http2Lost) as error:
            raise self._unreached(error) from error
        self._nursery.start_soon(self._http.read)
        self._nursery.start_soon(self._http.keep_alive)

    def _without_http2(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"agent {self._name!r} at {self._address} does not speak HTTP/2, which streamable "
            "HTTP needs",
            remedy=f"Use {'wss' if self._address.tls else 'ws'}:// with the same address, or let "
            "the server speak HTTP/2.",
        )

    async def _ask(self, method: str, session: str, message: Any = None) -> Stream:
        """Send a request; its answer's head has not come yet."""
        assert self._http is not None
        fields = self._fields(session, method)
        cookies = cookie_header(self._cookies, self._address)
        if cookies:
            fields["Cookie"] = cookies
        body = b"" if message is None else msgspec.json.encode(message)
        return await self._http.request(method, list(fields.items()), body)

    async def _begun(self, stream: Stream) -> int:
        """Wait for the answer's head; its status."""
        await stream.begun()
        found = [(name, value) for name, value in stream.fields if name == b"set-cookie"]
        if found:
            keep_cookies(self._cookies, self._address, found)
        return stream.status

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
        except Http2Lost as error:
            raise self._broken(error) from error
        except ConnectionFailed as error:
            self._failure = self._failure or error
            self._end("refused a message")
            raise

    def _broken(self, error: Http2Lost) -> AgentError:
        if not self._connection_id:
            assert self._http is not None
            self._failure = self._failure or (
                ConnectionFailed(
                    f"agent {self._name!r} at {self._address} {error}",
                    remedy="Check the address, and what the server's log says.",
                )
                if self._http.greeted or self._http.silent
                else self._without_http2()  # which makes no sense to a server of HTTP/1.1
            )
        self._end(str(error))
        return self._failure if isinstance(self._failure, AgentError) else self._lost()

    async def _initialize(self, message: dict[str, Any]) -> None:
        response = await self._ask("POST", "", message)
        try:
            if await self._begun(response) != 200:
                raise await self._refusal(response)
            body = await self._read_answer(response)
            self._connection_id = self._id_of_connection(response, body)
        finally:
            await response.aclose()
        await self._open_stream("")
        await self._pass_on(msgspec.json.encode(body) + b"\n")

    async def _read_answer(self, response: Stream) -> Any:
        """The JSON in the answer to initialize."""
        kind = _kind(response)
        if kind != "application/json" or response.field("content-encoding"):
            raise ConnectionFailed(
                f"agent {self._name!r} at {self._address} answered initialize with "
                f"{self._shown(kind) or 'no content type'} in place of plain application/json",
                remedy="Check the address: agents are often at /acp.",
            )
        body = bytearray()
        while piece := await response.read():
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

    def _id_of_connection(self, response: Stream, body: Any) -> str:
        result = body.get("result") if type(body) is dict else None
        result = result if type(result) is dict else {}
        version = result.get("protocolVersion")
        self._version = str(version) if type(version) is int else ""
        found = response.field("acp-connection-id") or result.get("connectionId")
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
        with trio.move_on_after(POST_LIMIT) as scope:
            response = await self._ask("POST", session, message)
            try:
                if not 200 <= await self._begun(response) < 300:
                    raise await self._refusal(response)
            finally:
                await response.aclose()
        if scope.cancelled_caught:
            self._end(f"did not take a message within {POST_LIMIT:.0f} s; it is given up")
            raise self._lost()

    async def _refusal(self, response: Stream) -> AgentError:
        """The error for a status that refuses a message."""
        text = b""
        if _kind(response) in ("text/plain", "application/json"):
            with trio.move_on_after(GOODBYE_LIMIT):
                while len(text) < REFUSAL_READ and (piece := await response.read()):
                    text += piece
        status = response.status
        if status == 404 and self._connection_id:
            self._end("does not know this connection any more")
            return self._lost()
        return self._refused(status, response.field("location"), text.decode("utf-8", "replace"))

    def _fields(self, session: str, method: str) -> dict[str, str]:
        posting = method == "POST"
        fields = {"User-Agent": self._user_agent, **dict(self._credentials.headers)}
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
        self._fields(session, "GET")  # refuses ids that cannot be sent
        stream = self._streams[session] = _Events(session, may_be_missing=may_be_missing)
        self._reading.add(stream)
        self._nursery.start_soon(self._read_stream, stream)
        with trio.move_on_after(STREAM_LIMIT):
            await stream.begun.wait()
        if stream.missing:
            del self._streams[session]
        stream.may_be_missing = False

    async def _read_stream(self, stream: _Events) -> None:
        """Task: read an event stream to its end."""
        try:
            await self._read_to_end(stream)
        finally:
            self._reading.discard(stream)
            self._close_when_read()

    async def _read_to_end(self, stream: _Events) -> None:
        whose = "the session's event stream" if stream.session else "the event stream"
        reason = f"ended {whose}"
        try:
            with stream.reading:
                await self._follow(stream)
        except Http2Lost as error:
            reason = str(error)
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
        reader = EventReader()
        response = await self._ask("GET", stream.session)
        try:
            status = await self._begun(response)
            if status == 404 and stream.may_be_missing:
                stream.missing = True
                return
            if status != 200:
                raise self._refused(status, response.field("location"))
            kind = _kind(response)
            if kind != TEXT or response.field("content-encoding"):
                raise ConnectionFailed(
                    f"agent {self._name!r} sent {self._shown(kind) or 'no content type'} in place "
                    f"of a plain {TEXT}",
                    remedy="The server is at fault; try ws:// or wss:// instead.",
                )
            stream.begun.set()
            while data := await response.read():
                for piece, last in reader.feed(data):
                    await self._take(stream, piece, last)
        finally:
            await response.aclose()

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
        while (quiet := min(stream.heard + SETTLED, limit)) > trio.current_time():  # noqa: ASYNC110
            await trio.sleep_until(quiet)

    # -- ending --------------------------------------------------------------------------------

    async def wait_ended(self) -> None:
        await self._ended.wait()

    def _end(self, reason: str) -> None:
        if not self._ended.is_set():
            self._reason = reason
            self._ended.set()
            if self._http is not None:
                self._http.lose(reason)
            self._close_when_read()

    def _close_when_read(self) -> None:
        """Nothing comes any more once each stream has passed on what had arrived."""
        if self._ended.is_set() and not self._reading:
            self._into.close()

    def kill(self) -> None:
        """See `transport.Transport`."""
        self._end("was disconnected")
        for stream in self._reading:
            stream.reading.cancel()
        self._into.close()

    async def aclose(self, grace: float = 0.5) -> None:
        """Tell the agent that the connection is over, and end it."""
        if self._connection_id and not self._ended.is_set():
            limit = max(grace, GOODBYE_LIMIT)
            with trio.CancelScope(shield=True), trio.move_on_after(limit):
                try:
                    await (await self._ask("DELETE", "")).begun()
                except Http2Lost:
                    pass  # it notices by itself
        self._connection_id = ""
        self.kill()


def _kind(response: Stream) -> str:
    """The content type, without parameters."""
    return response.field("content-type").partition(";")[0].strip().lower()


_LOADING: Final = frozenset({"session/load", "session/resume"})


@asynccontextmanager
async def open_http(
    source: RemoteSource, credentials: Credentials, *, name: str, version: str
) -> AsyncIterator[HttpTransport]:
    """Connect; called by `remote.open_remote`.

    Raises:
        ConnectionFailed: it was not reached, or does not speak HTTP/2.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            opened = HttpTransport(name, source, credentials, version, nursery)
            try:
                await opened.open()
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
