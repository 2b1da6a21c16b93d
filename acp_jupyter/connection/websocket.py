"""An agent reached by WebSocket: one text frame or more for each message, both ways.

Rules:

- Text goes on as it comes, in pieces: a message of any size is never held here, and the limits on
  lines hold for it. A line's end within a message is white space of its JSON, and becomes a space.
- Binary messages are ignored, as the protocol's proposal has it.
- Compression is not offered: a small frame could become a huge message.
- A ping goes out every `PING_EVERY` seconds. Who sends nothing for `SILENCE` is gone: half-open
  connections would otherwise look like an agent that thinks.
- One task reads, one task writes; pings, and answers to pings, go between messages' frames.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
import wsproto
import wsproto.events as events
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from .address import Address, RemoteSource
from .credentials import Credentials
from .remote import CONNECT_LIMIT, RemoteTransport, cookie_header, keep_cookies
from .spawn import READ_SIZE

__all__ = ["WebSocketTransport", "open_websocket"]

PING_EVERY: Final = 20.0
SILENCE: Final = 65.0
"""Seconds between two pings, and without a word from the agent after which it is gone."""

NORMAL: Final = 1000

_CODES: Final = {
    1000: "closed the connection",
    1001: "is going away and closed the connection",
    1006: "dropped the connection",
    1009: "closed the connection: a message was too large for it",
    1011: "closed the connection after an error of its own",
    1012: "restarts and closed the connection",
    1013: "has too much to do and closed the connection",
}


class WebSocketTransport(RemoteTransport):
    """A connection that is open; made by `open_websocket`."""

    def __init__(self, name: str, address: Address, credentials: Credentials) -> None:
        super().__init__(name, address, credentials)
        self._socket: wsproto.WSConnection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._stream: trio.abc.Stream | None = None
        self._tcp: trio.SocketStream | None = None
        self._sending = trio.Lock()
        self._heard = trio.current_time()
        self._ended = trio.Event()
        self._closing = False

    # -- opening -------------------------------------------------------------------------------

    async def open(self, source: RemoteSource, version: str) -> None:
        """Connect, and agree to speak WebSocket.

        Raises:
            ConnectionFailed: it was not reached, or refused.
        """
        try:
            with trio.fail_after(CONNECT_LIMIT):
                self._stream, self._tcp = await self._connect("http/1.1")
                await self._shake_hands(source, version)
        except trio.TooSlowError:
            raise self._too_slow() from None
        except (OSError, trio.BrokenResourceError, ssl.CertificateError) as error:
            raise self._unreached(error) from error
        except (LocalProtocolError, RemoteProtocolError) as error:
            raise self._unreached(error) from error

    async def _shake_hands(self, source: RemoteSource, version: str) -> None:
        fields = [("User-Agent", f"acp-jupyter/{version}"), *self._credentials.headers]
        cookies = cookie_header(source.cookies, self._address)
        if cookies:
            fields.append(("Cookie", cookies))
        await self._send(
            events.Request(
                host=self._address.authority,
                target=self._address.target,
                extra_headers=[(n.encode("ascii"), v.encode("latin-1")) for n, v in fields],
            )
        )
        while True:
            for event in self._socket.events():
                if isinstance(event, events.AcceptConnection):
                    keep_cookies(source.cookies, self._address, event.extra_headers)
                    return
                if isinstance(event, events.RejectConnection):
                    found = {bytes(n).lower(): bytes(v) for n, v in event.headers}
                    location = found.get(b"location", b"").decode("latin-1")
                    raise self._refused(event.status_code, location)
            await self._read()
            if self._ended.is_set():
                raise trio.BrokenResourceError("the connection was closed before it was open")

    # -- reading -------------------------------------------------------------------------------

    async def receive_some(self) -> bytes:
        """Pieces of messages, each message with a line's end after it; ``b""`` at the end."""
        while True:
            text = await self._take_events()
            if text or self._ended.is_set():
                return text
            try:
                await self._read()
            except (RemoteProtocolError, LocalProtocolError) as error:
                self._end(f"broke the rules of WebSocket ({self._shown(str(error))})")

    async def _read(self) -> None:
        assert self._stream is not None
        try:
            data = await self._stream.receive_some(READ_SIZE)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            data = b""
        self._heard = trio.current_time()
        if data:
            self._socket.receive_data(bytes(data))
        else:
            self._end("dropped the connection")

    async def _take_events(self) -> bytes:
        """What has arrived, as text; control frames are answered."""
        pieces: list[bytes] = []
        if self._socket.state is wsproto.connection.ConnectionState.CLOSED:
            return b""
        for event in self._socket.events():
            if isinstance(event, events.TextMessage):
                piece = event.data.encode("utf-8", "replace")
                pieces.append(piece.replace(b"\n", b" ").replace(b"\r", b" "))
                if event.message_finished:
                    pieces.append(b"\n")
            elif isinstance(event, events.Ping):
                await self._try(event.response())
            elif isinstance(event, events.CloseConnection):
                await self._try(event.response())
                reason = self._shown(event.reason or "")
                text = _CODES.get(event.code, f"closed the connection (code {int(event.code)})")
                self._end(f"{text} ({reason})" if reason else text)
                break
        return b"".join(pieces)

    # -- writing -------------------------------------------------------------------------------

    async def send_all(self, data: bytes) -> None:
        """Send lines, a text message each; blocks while the agent does not read.

        Raises:
            ConnectionLost: the connection has ended.
        """
        for line in data.split(b"\n"):
            if line:
                try:
                    await self._send(events.TextMessage(data=line.decode("utf-8")))
                except _BROKEN as error:
                    self._end("dropped the connection")
                    raise self._lost() from error

    async def _send(self, event: events.Event) -> None:
        assert self._stream is not None
        async with self._sending:
            await self._stream.send_all(self._socket.send(event))

    async def _try(self, event: events.Event) -> None:
        """Send what nobody waits for."""
        try:
            await self._send(event)
        except _BROKEN:
            pass  # the reader sees the end as well

    async def keep_alive(self) -> None:
        """Task: ping, and notice when nothing comes back."""
        while not self._ended.is_set():
            await trio.sleep(PING_EVERY)
            if trio.current_time() - self._heard > SILENCE:
                self._end(f"has not answered for {SILENCE:.0f} s; the connection is given up")
                return
            with trio.move_on_after(PING_EVERY):
                await self._try(events.Ping())

    # -- ending --------------------------------------------------------------------------------

    async def wait_ended(self) -> None:
        await self._ended.wait()

    def _end(self, reason: str) -> None:
        """Nothing comes any more; whoever reads or writes is woken."""
        if not self._ended.is_set():
            self._reason = reason
            self._ended.set()
        if self._tcp is not None:
            self._tcp.socket.close()

    def kill(self) -> None:
        """See `transport.Transport`."""
        self._end("was disconnected")

    async def aclose(self, grace: float = 0.5) -> None:
        """Say goodbye, and close."""
        with trio.CancelScope(shield=True), trio.move_on_after(grace):
            if not self._closing and not self._ended.is_set():
                self._closing = True
                await self._try(events.CloseConnection(code=NORMAL))
                while not self._ended.is_set():
                    await self._goodbye()
        self._end("was disconnected")

    async def _goodbye(self) -> None:
        """Read on until the other side has closed as well."""
        try:
            await self._take_events()
            if not self._ended.is_set():
                await self._read()
        except (RemoteProtocolError, LocalProtocolError):
            self._end("was disconnected")


_BROKEN: Final = (
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    LocalProtocolError,  # the connection is closing: nothing more can be sent
    OSError,
)


@asynccontextmanager
async def open_websocket(
    source: RemoteSource, credentials: Credentials, *, name: str, version: str
) -> AsyncIterator[WebSocketTransport]:
    """Connect; called by `remote.open_remote`.

    Raises:
        ConnectionFailed: it was not reached, or refused.
    """
    transport = WebSocketTransport(name, source.address, credentials)
    failure: BaseException | None = None
    try:
        await transport.open(source, version)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.keep_alive)
            try:
                yield transport
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: BLE001  # raised again below
                failure = error
            finally:
                await transport.aclose()
                nursery.cancel_scope.cancel()
    finally:
        transport.kill()
        # Outside of the nursery, which would wrap the body's own error in a group.
        if failure is not None:
            raise failure
