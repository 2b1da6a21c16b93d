"""One JSON-RPC connection to an agent: one reader, one writer, a task for each request we serve.

The reader takes what has arrived as one batch, applies notifications inline and in order, and
only then lets other tasks run: no channel hop and no task per update. The writer alone touches
the stream; everyone else queues. Requests of the agent run in tasks of their own, so that a
question to the user never holds up the stream.

What the peer does wrong is never fatal to the connection unless it stops speaking JSON-RPC at
all: `NOISE_LIMIT` unusable lines running, or a line without an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol

import msgspec
import trio

from ..errors import (
    ACPError,
    AgentError,
    AgentUnresponsive,
    AuthenticationRequired,
    ErrorCode,
    LineTooLong,
    Refusal,
    RemoteProtocolError,
    RequestError,
)
from ..protocol import elicitation, jsonrpc
from ..protocol.methods import CANCEL_REQUEST
from .batch import Answers
from .transport import Stream

JSON = Any

NOISE_LIMIT: Final = 1000
"""Unusable lines running after which the agent is not speaking JSON-RPC."""

QUEUE_LIMIT: Final = 8 * 2**20
"""Bytes that wait to be written; an agent that has not read that much does not read."""

END_GRACE: Final = 0.7
"""Seconds between the end of the agent's stdin and that of its stdout, if both belong together."""

SERVED_LIMIT: Final = 256
"""Requests of the agent that are served at the same time."""

LOG_MESSAGES: Final = 2000
LOG_LINE: Final = 4096
"""How many lines the log keeps, and how many bytes of each."""


SERVED: ContextVar[int | str | None] = ContextVar("SERVED", default=None)
"""Id of the agent's request that the task serves."""

Reply = Callable[[dict[str, Any]], None]

Tap = Callable[[float, bool, bytes], object]
"""Called with each whole line before it is acted on: when it came (one time for all lines that were
read together), and whether it was sent by us."""


class Handler(Protocol):
    """What a connection needs from its owner.

    All but `serve_request` and `explain_end` run inside the reader: no waiting.
    """

    def on_notification(self, method: str, params: JSON) -> None:
        """The agent told something."""

    def on_noise(self, noise: jsonrpc.Noise) -> None:
        """A line was of no use."""

    def on_failure(self, method: str, error: Exception) -> None:
        """Serving a request of the agent's failed for a reason of ours."""

    def on_batch(self) -> None:
        """All that had arrived was handled."""

    def on_overlong(self, error: LineTooLong) -> None:
        """A line beyond the limit was thrown away."""

    async def explain_end(self) -> ACPError:
        """The agent's output ended: the error that whoever waits will get."""

    async def serve_request(self, method: str, params: JSON) -> JSON:
        """Answer a request of the agent's.

        Raises:
            Refusal: the request is answered with this error.
        """


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of the log: ``sent`` by us or received, cut at `LOG_LINE` bytes."""

    time: float
    sent: bool
    line: bytes


class _Pending:
    """A request of ours that waits for its answer."""

    __slots__ = ("answered", "error", "method", "on_answer", "result")

    def __init__(self, method: str, on_answer: Callable[[], None] | None) -> None:
        self.method = method
        self.on_answer = on_answer
        self.answered = trio.Event()
        self.result: JSON = None
        self.error: ACPError | None = None


class Connection:
    """See the module's rules. `run` has to run for anything to happen.

    Args:
        transport: the open stream.
        handler: the owner.
        clock: seconds, for the log.
        tap: who records it; must not raise.

    Attributes:
        batches: version 2 was agreed on, in which messages come in arrays, too. In version 1 an
            array is noise, of which the entries are handled one by one.
    """

    def __init__(
        self,
        transport: Stream,
        handler: Handler,
        *,
        clock: Callable[[], float],
        tap: Tap | None = None,
    ) -> None:
        self._transport = transport
        self._handler = handler
        self._clock = clock
        self._tap = tap
        # Chosen here, once: a line that is not recorded costs no question.
        self._receiver = jsonrpc.Receiver(
            self._log_received if tap is None else self._log_and_tap_received
        )
        self._pending: dict[int, _Pending] = {}
        self._serving: dict[int | str, trio.CancelScope] = {}
        self._begun = trio.Event()
        self._begun.set()
        self._queue: list[bytes] = []
        self._queued = 0
        self._to_write = trio.Event()
        self._written = trio.Event()
        self._next_id = 0
        self._noise_running = 0
        self.batches = False
        self._nursery: trio.Nursery | None = None
        self._now = clock()
        self.error: ACPError | None = None
        self.closed = trio.Event()
        self.log: deque[LogLine] = deque(maxlen=LOG_MESSAGES)
        self.logged = 0
        self.last_received = self._now
        self.noise_count = 0
        self.ignored_answers = 0

    async def run(self) -> None:
        """Read and write until the stream ends, `close` is called or the caller cancels."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._write)
                await self._read()
                self.close(await self._handler.explain_end())
        finally:
            self._nursery = None
            self.close(None)

    def close(self, error: ACPError | None) -> None:
        """End the connection: whoever waits for an answer gets ``error``."""
        if self.closed.is_set():
            return
        self.error = self.error or error
        self.closed.set()
        self._to_write.set()
        self.fail_pending(error or RemoteProtocolError("the connection to the agent is closed"))
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    # -- requests and notifications of ours ----------------------------------------------------

    async def request(
        self, method: str, params: JSON, *, on_answer: Callable[[], None] | None = None
    ) -> JSON:
        """Send a request and wait for its result.

        A cancelled wait withdraws the request (``$/cancel_request``).

        Args:
            method: as on the wire.
            params: likewise.
            on_answer: called by the reader when the answer has come, before anything that came
                after it is looked at; must not raise.

        Raises:
            RequestError: the agent answered with an error.
            RemoteProtocolError: the answer is malformed.
            AgentError: the agent ended, or does not read.
        """
        pending = _Pending(method, on_answer)
        ident = self._next_id
        self._send(jsonrpc.request(ident, method, params))
        self._next_id += 1
        self._pending[ident] = pending
        try:
            await pending.answered.wait()
        except trio.Cancelled:
            self._pending.pop(ident, None)
            if not pending.answered.is_set():
                self._withdraw(ident)
            raise
        self._pending.pop(ident, None)
        if pending.error is not None:
            raise pending.error
        return pending.result

    def notify(self, method: str, params: JSON) -> None:
        """Queue a notification.

        Raises:
            AgentUnresponsive: the agent has not read what was sent before.
        """
        self._send(jsonrpc.notification(method, params))

    def withdraw(self, method: str) -> None:
        """Withdraw the requests of that method that still wait (``$/cancel_request``)."""
        for ident, pending in self._pending.items():
            if pending.method == method:
                self._withdraw(ident)

    def _withdraw(self, ident: int) -> None:
        """A courtesy: an agent that is gone, or does not read, goes without."""
        try:
            self._send(jsonrpc.notification(CANCEL_REQUEST, {"requestId": ident}))
        except ACPError:
            pass

    def fail_pending(self, error: ACPError, method: str | None = None) -> None:
        """Let the requests that wait (of one method, or all) fail now."""
        for pending in list(self._pending.values()):
            if method is None or pending.method == method:
                self._answer(pending, error=error)

    def _answer(
        self, pending: _Pending, result: JSON = None, error: ACPError | None = None
    ) -> None:
        if not pending.answered.is_set():
            pending.result = result
            pending.error = error
            if pending.on_answer is not None:
                pending.on_answer()
            pending.answered.set()

    def _send(self, message: dict[str, Any] | list[dict[str, Any]]) -> None:
        if self.closed.is_set():
            raise self.error or RemoteProtocolError("the connection to the agent is closed")
        if self._queued > QUEUE_LIMIT:
            raise AgentUnresponsive(
                f"the agent does not read: {self._queued:,} bytes wait to be sent",
                remedy="Run `%acp restart` to start it anew.",
            )
        line = jsonrpc.encode(message)
        self.log.append(LogLine(self._clock(), True, line[:LOG_LINE]))
        self.logged += 1
        if self._tap is not None:
            self._tap(self._clock(), True, line)
        self._queue.append(line)
        self._queued += len(line)
        self._to_write.set()

    async def _write(self) -> None:
        while not self.closed.is_set():
            await self._to_write.wait()
            self._to_write = trio.Event()
            data = b"".join(self._queue)
            self._queue.clear()
            if data:
                try:
                    await self._transport.send_all(data)
                except AgentError as error:
                    # The reader sees the end of the stream too, and says more about it; only an
                    # agent that lives on with its stdin closed leaves it to us.
                    await trio.sleep(END_GRACE)
                    self.close(error)
                    return
                self._queued -= len(data)

    # -- what the agent sends ---------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            data = await self._transport.receive_some()
            self._now = self.last_received = self._clock()
            if data:
                self._receiver.feed(data, self._take)
            else:
                for frame in self._receiver.receive_eof():
                    self._take(frame)
            self._handler.on_batch()
            if not data:
                return

    def _log_received(self, line: bytes) -> None:
        kept = line if len(line) < LOG_LINE else line[:LOG_LINE]
        self.log.append(LogLine(self._now, False, kept))
        self.logged += 1

    def _log_and_tap_received(self, line: bytes) -> None:
        self._log_received(line)
        assert self._tap is not None
        self._tap(self._now, False, line)

    def _take(self, frame: jsonrpc.Frame) -> None:
        if type(frame) is jsonrpc.Notification:
            self._noise_running = 0
            if frame.method == CANCEL_REQUEST:
                self._cancel_served(frame.params)
            else:
                self._handler.on_notification(frame.method, frame.params)
            return
        if isinstance(frame, jsonrpc.Noise):
            self._take_noise(frame)
            return
        self._noise_running = 0
        if isinstance(frame, jsonrpc.Response):
            self._take_response(frame)
        elif isinstance(frame, jsonrpc.Request):
            self._take_request(frame, self._reply)
        elif isinstance(frame, jsonrpc.InvalidRequest):
            self._reply_error(frame.id, ErrorCode.INVALID_REQUEST, frame.reason)
        elif isinstance(frame, jsonrpc.Batch):
            self._take_batch(frame)
        elif isinstance(frame, jsonrpc.Overlong):
            self._take_overlong(frame)

    def _take_batch(self, batch: jsonrpc.Batch) -> None:
        if not self.batches:
            text = "a batch; its entries were handled one by one"
            self._take_noise(jsonrpc.Noise(text, batch.raw))
        answers = Answers(batch, self._reply) if self.batches else None
        for frame in batch.frames:
            if answers is not None and isinstance(frame, jsonrpc.Request):
                self._take_request(frame, answers.add)
            elif answers is not None and isinstance(frame, jsonrpc.InvalidRequest):
                answers.refuse(frame)
            else:
                self._take(frame)
        if batch.useless:  # told once: a line may hold millions of them
            text = f"{batch.useless} entries of a batch that are no messages"
            self._take_noise(jsonrpc.Noise(text, batch.raw))

    def _take_noise(self, noise: jsonrpc.Noise) -> None:
        self.noise_count += 1
        self._noise_running += 1
        for ident in noise.ids:
            pending = self._pending.get(ident) if type(ident) is int else None
            if pending is not None:
                error = RemoteProtocolError(
                    f"the agent's answer to {pending.method} cannot be read ({noise.reason})",
                    remedy="Send it again; `%acp log` shows the line.",
                )
                self._answer(pending, error=error)
        self._handler.on_noise(noise)
        if self._noise_running >= NOISE_LIMIT:
            self.close(
                RemoteProtocolError(
                    f"{NOISE_LIMIT:,} lines running were no JSON-RPC messages: "
                    "this program does not speak ACP",
                    remedy="Check the agent's command; many agents need an option such as --acp.",
                )
            )

    def _take_overlong(self, overlong: jsonrpc.Overlong) -> None:
        limit = jsonrpc.MAX_LINE // 2**20
        error = LineTooLong(
            f"the agent sent one message of {overlong.size:,} bytes; the limit is {limit} MiB",
            remedy="Ask for less at once; the message was dropped.",
        )
        if overlong.fatal:
            self.close(error)
        else:
            self._handler.on_overlong(error)

    def _take_response(self, response: jsonrpc.Response) -> None:
        ident, literal = jsonrpc.match_id(response.id)
        pending = self._pending.get(ident) if ident is not None else None
        if pending is None or pending.answered.is_set():
            self.ignored_answers += 1
            message = response.error.get("message") if response.error else ""
            if response.id is None and message:
                text = f"an error that answers nothing: {str(message)[:200]}"
                self._handler.on_noise(jsonrpc.Noise(text, b""))
            return
        if not literal:
            self._handler.on_noise(
                jsonrpc.Noise("an answer whose id changed its type", str(response.id).encode())
            )
        if response.problem:
            text = f"the agent's answer to {pending.method} is malformed: {response.problem}"
            self._answer(pending, error=RemoteProtocolError(text, remedy="Send it again."))
        elif response.error is not None:
            what = f"the agent answered {pending.method} with an error"
            self._answer(pending, error=request_error(what, response.error))
        else:
            self._answer(pending, result=response.result)

    # -- requests of the agent ----------------------------------------------------------------

    def _take_request(self, request: jsonrpc.Request, reply: Reply) -> None:
        if request.id in self._serving:
            text = "a request with this id is being served"
            reply(jsonrpc.error(request.id, ErrorCode.INVALID_REQUEST, text))
        elif len(self._serving) >= SERVED_LIMIT:
            text = "too many requests at once"
            reply(jsonrpc.error(request.id, ErrorCode.INTERNAL_ERROR, text))
        elif self._nursery is not None:
            scope = trio.CancelScope()
            self._serving[request.id] = scope
            before, self._begun = self._begun, trio.Event()
            self._nursery.start_soon(self._serve, request, scope, before, self._begun, reply)

    async def _serve(
        self,
        request: jsonrpc.Request,
        scope: trio.CancelScope,
        before: trio.Event,
        begun: trio.Event,
        reply: Reply,
    ) -> None:
        """Serve one request. trio starts tasks in any order, so each waits until the one ``before``
        has begun: who waits for nothing further is then served in the order of arrival."""
        await before.wait()
        begun.set()  # wakes the next one once this one waits
        SERVED.set(request.id)
        answer = jsonrpc.error(request.id, ErrorCode.REQUEST_CANCELLED, "Request cancelled")
        with scope:
            try:
                answer = jsonrpc.result(
                    request.id, await self._handler.serve_request(request.method, request.params)
                )
            except Refusal as refusal:
                answer = jsonrpc.error(request.id, refusal.code, refusal.message, refusal.data)
            except ACPError as error:
                answer = jsonrpc.error(request.id, ErrorCode.INTERNAL_ERROR, error.message)
            except Exception as error:  # noqa: BLE001  # here an exception becomes a wire error
                text = f"{type(error).__name__} in the client"
                answer = jsonrpc.error(request.id, ErrorCode.INTERNAL_ERROR, text)
                self._handler.on_failure(request.method, error)
        self._serving.pop(request.id, None)
        reply(answer)

    def _cancel_served(self, params: JSON) -> None:
        ident = params.get("requestId") if type(params) is dict else None
        if type(ident) is not int and type(ident) is not str:
            return
        scope = self._serving.get(ident)
        if scope is not None:
            scope.cancel()

    def _reply_error(self, ident: int | str | None, code: int, message: str) -> None:
        self._reply(jsonrpc.error(ident, code, message))

    def _reply(self, message: dict[str, Any] | list[dict[str, Any]]) -> None:
        if self.closed.is_set():
            return
        try:
            self._send(message)
        except AgentUnresponsive as error:
            self.close(error)


def request_error(what: str, error: dict[str, Any]) -> RequestError:
    """The exception for a JSON-RPC error object; code and message may be of any type.

    Args:
        what: happened, in our words.
        error: the object.
    """
    code = error.get("code")
    code = code if type(code) is int else ErrorCode.INTERNAL_ERROR
    message = error.get("message")
    message = message if type(message) is str and message else "no message"
    data = error.get("data")
    detail = ""
    if type(data) is str:
        detail = data
    elif type(data) is dict:
        inner = data.get("details", data.get("message"))
        detail = inner if type(inner) is str else ""
    text = f"{what}: {message[:1000]} ({code})"
    if detail and detail not in message:
        text += f": {detail[:1000]}"
    if code == ErrorCode.AUTH_REQUIRED:
        return AuthenticationRequired(text, code=code, data=data)
    remedy = ""
    if code == ErrorCode.URL_ELICITATION_REQUIRED:
        visits = [visit.url for visit in elicitation.required(data) if not visit.problem]
        remedy = f"Visit {' and '.join(visits)}, then run this again." if visits else ""
    return RequestError(text, code=code, data=data, remedy=remedy)
