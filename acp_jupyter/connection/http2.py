"""One HTTP/2 connection that carries long event streams and short requests side by side.

The protocol is h2's, the bytes are trio's. httpx, which has both, cannot do this: in httpcore (seen
in 1.0.9) whoever waits for a stream reads for all, and a stream whose data has arrived may wait
until the one that reads gets data too: a busy stream stands still beside a silent one.

Rules:

- One task reads, and sorts what comes by stream. What a stream has not been read of is bounded by
  its window; the others go on.
- A ping goes out every `PING_EVERY` seconds. Who sends nothing for `SILENCE` is gone.
- Nothing that the other side does raises out of the reader: the connection is lost, with a reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import trio

from .spawn import READ_SIZE

__all__ = ["Http2", "Http2Lost", "Stream"]

WINDOW: Final = 2**18
"""Bytes of one stream that may wait to be read."""

CONNECTION_WINDOW: Final = 2**24
"""The same for all together: one stream that is not read leaves enough for the others."""

PING_EVERY: Final = 20.0
SILENCE: Final = 65.0
"""Seconds between two pings, and without a word from the server after which it is gone."""

CANCEL: Final = 8
"""The error code of a stream that is not wanted any more."""

Fields = Sequence[tuple[str, str]]


class Http2Lost(Exception):
    """The connection, or the stream, has ended; the text says how, after "the agent …".

    Translated before anybody outside of this package sees it.
    """


class Stream:
    """A request and its answer; made by `Http2.request`.

    Attributes:
        status: of the answer, once `begun`.
        fields: its header fields, names in lower case.
    """

    def __init__(self, http: Http2, ident: int) -> None:
        self._http = http
        self._ident = ident
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._more = trio.Event()
        self._ended = False
        self._begun = trio.Event()
        self._why = ""
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []

    def field(self, name: str) -> str:
        """A header field of the answer; empty where there is none."""
        wanted = name.encode("ascii")
        return next((v.decode("latin-1") for n, v in self.fields if n == wanted), "")

    async def begun(self) -> None:
        """Wait for the answer's head.

        Raises:
            Http2Lost: there will be none.
        """
        await self._begun.wait()
        if not self.status:
            raise Http2Lost(self._why)

    async def read(self) -> bytes:
        """The next piece of the body; ``b""`` at its end.

        Raises:
            Http2Lost: it was cut off.
        """
        while not self._pieces:
            if self._why:
                raise Http2Lost(self._why)
            if self._ended:
                return b""
            self._more = trio.Event()
            await self._more.wait()
        data, size = self._pieces.popleft()
        await self._http.acknowledge(self._ident, size)
        return data

    async def aclose(self) -> None:
        """Nothing more of it is wanted."""
        await self._http.leave(self._ident, cut=not self._ended and not self._why)

    # -- called by the connection --------------------------------------------------------------

    def begin(self, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self.fields = [(bytes(name), bytes(value)) for name, value in fields]
        status = self.field(":status")
        self.status = int(status) if status.isdigit() else 0
        self._begun.set()

    def add(self, data: bytes, size: int) -> None:
        self._pieces.append((data, size))
        self._more.set()

    def end(self, why: str = "") -> None:
        self._ended = True
        self._why = self._why or why
        self._begun.set()
        self._more.set()


class Http2:
    """A connection over a stream of bytes that is open.

    Args:
        stream: to the server.
        close: ends it at once.
        target: authority, scheme and path of all requests.

    Attributes:
        reason: how it has ended, after "the agent …"; empty while it has not.
        greeted: the server has spoken HTTP/2.
        silent: it was given up because nothing came.
    """

    def __init__(
        self, stream: trio.abc.Stream, close: Callable[[], object], target: tuple[str, str, str]
    ) -> None:
        self._stream = stream
        self._close = close
        self._target = target
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._state = h2.connection.H2Connection(config)
        self._state.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 2**16,
            },
        )
        self._streams: dict[int, Stream] = {}
        self._sending = trio.Lock()
        self._window = trio.Event()
        self._heard = trio.current_time()
        self.reason = ""
        self.greeted = False
        self.silent = False

    async def start(self) -> None:
        """Send the preface.

        Raises:
            Http2Lost: the connection broke.
        """
        self._state.initiate_connection()
        self._state.increment_flow_control_window(CONNECTION_WINDOW)
        await self._flush()

    async def request(self, method: str, fields: Fields, body: bytes = b"") -> Stream:
        """Send a request, its body included.

        Raises:
            Http2Lost: the connection broke.
        """
        self._check()
        authority, scheme, path = self._target
        head = [(":method", method), (":authority", authority), (":scheme", scheme)]
        head += [(":path", path), *((name.lower(), value) for name, value in fields)]
        try:
            ident = self._state.get_next_available_stream_id()
            stream = self._streams[ident] = Stream(self, ident)
            encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in head]
            self._state.send_headers(ident, encoded, end_stream=not body)
            await self._flush()
            if body:
                await self._send_body(ident, stream, body)
        except h2.exceptions.ProtocolError as error:
            raise Http2Lost("closed the connection") from error
        return stream

    async def _send_body(self, ident: int, stream: Stream, body: bytes) -> None:
        while body and not stream._ended:  # an answer may come before all is sent
            self._check()
            size = min(
                self._state.local_flow_control_window(ident), self._state.max_outbound_frame_size
            )
            if size <= 0:
                self._window = trio.Event()
                await self._window.wait()
                continue
            piece, body = body[:size], body[size:]
            self._state.send_data(ident, piece, end_stream=not body)
            await self._flush()

    async def acknowledge(self, ident: int, size: int) -> None:
        """Open a stream's window again by what was read."""
        if not self.reason and size:
            try:
                self._state.acknowledge_received_data(size, ident)
            except h2.exceptions.ProtocolError:
                return  # it has ended meanwhile
            await self._flush()

    async def leave(self, ident: int, *, cut: bool) -> None:
        """Forget a stream."""
        left = self._streams.pop(ident, None)
        if left is None or self.reason:
            return
        try:
            if cut:
                self._state.reset_stream(ident, CANCEL)
            for _, size in left._pieces:
                self._state.acknowledge_received_data(size, ident)
            with trio.CancelScope(shield=True), trio.move_on_after(1.0):
                await self._flush()
        except (h2.exceptions.ProtocolError, Http2Lost):
            pass  # it has ended meanwhile

    async def read(self) -> None:
        """Task: read until the connection ends."""
        while not self.reason:
            try:
                data = await self._stream.receive_some(READ_SIZE)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                data = b""
            self._heard = trio.current_time()
            if not data:
                self.lose("dropped the connection")
                return
            try:
                for event in self._state.receive_data(bytes(data)):
                    self._take(event)
                await self._flush()
            except h2.exceptions.ProtocolError:
                self.lose("broke the rules of HTTP/2")
            except Http2Lost:
                return

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.lose("closed the connection")
            return
        if isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self.greeted = True
            self._window.set()
            return
        stream = self._streams.get(getattr(event, "stream_id", 0) or 0)
        if isinstance(event, h2.events.DataReceived):
            if stream is not None:
                stream.add(event.data, event.flow_controlled_length)
            else:  # what was left still counts
                self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif stream is None:
            return
        elif isinstance(event, h2.events.ResponseReceived):
            stream.begin(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            stream.end()
        elif isinstance(event, h2.events.StreamReset):
            stream.end("cut off an answer")

    async def keep_alive(self) -> None:
        """Task: ping, and notice when nothing comes back."""
        while not self.reason:
            await trio.sleep(PING_EVERY)
            if trio.current_time() - self._heard > SILENCE:
                self.silent = True
                self.lose(f"has not answered for {SILENCE:.0f} s; the connection is given up")
            elif not self.reason:
                self._state.ping(b"acp-ping")
                with trio.move_on_after(PING_EVERY):
                    try:
                        await self._flush()
                    except Http2Lost:
                        return

    async def _flush(self) -> None:
        async with self._sending:
            data = self._state.data_to_send()
            if not data:
                return
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
                self.lose("dropped the connection")
                raise Http2Lost(self.reason) from error
            except trio.Cancelled:
                self.lose("was disconnected")  # half a frame may have gone out
                raise

    def _check(self) -> None:
        if self.reason:
            raise Http2Lost(self.reason)

    def lose(self, reason: str) -> None:
        """End the connection now."""
        if self.reason:
            return
        self.reason = reason
        for stream in self._streams.values():
            if not stream._ended:
                stream.end(reason)
        self._window.set()
        self._close()
