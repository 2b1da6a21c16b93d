"""JSON-RPC 2.0 on two file descriptors, one message a line.

Rules:
- One thread reads (``Connection.run``) and never waits for an answer; each prompt turn has a thread
  of its own, which may wait for the client as long as it likes.
- One lock owns the output; each message is written whole, so that nothing is left in a buffer when
  the process ends.
- Every wait is on ``Connection.changed``: an answer, a cancellation and the end of the connection
  all wake it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002

# A client answers a withdrawn request at once; more than this and it does not answer at all.
CANCEL_GRACE_S = 1.0

Json = dict[str, Any]


class RpcError(Exception):
    """A JSON-RPC error: raised by our handlers for the client, and by `Connection.request`.

    Args:
        code: JSON-RPC error code.
        message: one sentence.
        data: optional ``error.data``; must be JSON.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_json(self) -> Json:
        error: Json = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


class Cancelled(Exception):
    """The prompt turn was cancelled by the client."""


class Closed(Exception):
    """The client is gone: stdin ended or stdout broke."""


class Pending:
    """One request to the client that waits for its answer."""

    __slots__ = ("done", "error", "method", "request_id", "result")

    def __init__(self, request_id: int, method: str) -> None:
        self.request_id = request_id
        self.method = method
        self.done = False
        self.result: Any = None
        self.error: RpcError | None = None

    def settle(self, message: Json) -> None:
        error = message.get("error")
        if error is None:
            self.result = message.get("result")
        elif isinstance(error, dict) and isinstance(error.get("code"), int):
            self.error = RpcError(error["code"], str(error.get("message", "")), error.get("data"))
        else:
            self.error = RpcError(INTERNAL_ERROR, "the client sent a malformed error")
        self.done = True


class Batch:
    """The answers to one batch, which are sent together when all ``expected`` are there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._answers: list[Json] = []
        self.expected = 0

    def add(self, answer: Json) -> None:
        with self._connection.changed:
            self._answers.append(answer)
            complete = len(self._answers) == self.expected
        if complete:
            self._connection.send(self._answers)


class Connection:
    """Both directions of the wire.

    Args:
        source: binary stream to read lines from.
        sink: file descriptor to write to.

    Attributes:
        second: version 2 was agreed on, which has batches.
    """

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._write_lock = threading.Lock()
        self.changed = threading.Condition()
        self.closed = False
        self._pending: dict[int, Pending] = {}
        self._next_id = 0
        self.second = False
        self._batches: dict[Any, Batch] = {}

    def run(self, on_message: Callable[[Json], None]) -> None:
        """Hand every request and notification to ``on_message`` until the input ends."""
        try:
            for line in self._source:
                if line.strip():
                    self._receive(line, on_message)
        finally:
            self.close()

    def _receive(self, line: bytes, on_message: Callable[[Json], None]) -> None:
        try:
            message = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            self.send_error(None, RpcError(PARSE_ERROR, "The line is not JSON."))
            return
        if self.second and isinstance(message, list):
            self._receive_batch(message, on_message)
        else:
            self._receive_one(message, on_message)

    def _receive_batch(self, messages: list[Any], on_message: Callable[[Json], None]) -> None:
        """Serve a batch of version 2: its answers go out as one array."""
        if not messages:
            self.send_error(None, RpcError(INVALID_REQUEST, "A batch must not be empty."))
            return
        batch = Batch(self)
        for message in messages:
            if isinstance(message, dict) and isinstance(message.get("method"), str):
                if "id" in message and _is_id(message["id"]):
                    batch.expected += 1
                    self._batches[message["id"]] = batch
            elif not isinstance(message, dict) or not {"result", "error"} & set(message):
                batch.expected += 1
        for message in messages:
            is_message = isinstance(message, dict) and bool(
                {"method", "result", "error"} & set(message)
            )
            if is_message:
                self._receive_one(message, on_message)
            else:
                error = RpcError(INVALID_REQUEST, "An entry of the batch is no message.")
                batch.add({"jsonrpc": "2.0", "id": None, "error": error.as_json()})

    def _receive_one(self, message: Any, on_message: Callable[[Json], None]) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            error = RpcError(INVALID_REQUEST, 'A message is one object with "jsonrpc": "2.0".')
            self.send_error(None, error)
        elif isinstance(message.get("method"), str):
            if "id" in message and not _is_id(message["id"]):
                error = RpcError(INVALID_REQUEST, "An id is a string, an integer or null.")
                self.send_error(None, error)
            else:
                on_message(message)
        elif "result" in message or "error" in message:
            self._settle(message)
        else:
            self.send_error(None, RpcError(INVALID_REQUEST, "The message has no method."))

    def _settle(self, message: Json) -> None:
        # Unknown ids are answers to requests we gave up after a cancel: nobody waits for them.
        with self.changed:
            key = message.get("id")
            pending = self._pending.pop(key, None) if isinstance(key, int) else None
            if pending is not None:
                pending.settle(message)
                self.changed.notify_all()

    def send(self, message: Json | list[Json]) -> None:
        """Write one message. After the client is gone this does nothing."""
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate is legal in JSON and has no UTF-8 form: it becomes "?".
        data = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._write_lock:
            try:
                while data and not self.closed:
                    data = data[os.write(self._sink, data) :]
            except OSError:
                self.close()

    def send_result(self, request_id: Any, result: Json) -> None:
        self._answer({"jsonrpc": "2.0", "id": request_id, "result": result})

    def send_error(self, request_id: Any, error: RpcError) -> None:
        self._answer({"jsonrpc": "2.0", "id": request_id, "error": error.as_json()})

    def _answer(self, message: Json) -> None:
        batch = self._batches.pop(message["id"], None)
        if batch is None:
            self.send(message)
        else:
            batch.add(message)

    def notify(self, method: str, params: Json) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method: str, params: Json) -> Pending:
        """Send a request; `wait` for its answer. Several may be under way at once."""
        with self.changed:
            self._next_id += 1
            pending = self._pending[self._next_id] = Pending(self._next_id, method)
        self.send({"jsonrpc": "2.0", "id": pending.request_id, "method": method, "params": params})
        return pending

    def wait(
        self,
        pending: Pending,
        *,
        cancelled: Callable[[], bool],
        on_cancel: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Wait for the answer to a request.

        Args:
            pending: from `begin`.
            cancelled: true once the turn is cancelled; checked whenever `changed` is notified.
            on_cancel: makes the client answer after a cancel (or does nothing where the client must
                answer by itself); the request is withdrawn only if that answer does not come.
            timeout: seconds to wait at most; for clean-up after a cancel.

        Returns:
            The ``result`` as sent.

        Raises:
            RpcError: the client answered with an error, or not within ``timeout``.
            Cancelled: the turn was cancelled meanwhile.
            Closed: the client is gone.
        """
        with self.changed:
            self.changed.wait_for(lambda: pending.done or self.closed or cancelled(), timeout)
        if not pending.done and not self.closed and on_cancel is not None:
            on_cancel()
            self._wait_briefly(pending)
        if not pending.done and not self.closed:
            self.notify("$/cancel_request", {"requestId": pending.request_id})
            self._wait_briefly(pending)
        with self.changed:
            self._pending.pop(pending.request_id, None)
        return _outcome(pending, self.closed, cancelled())

    def _wait_briefly(self, pending: Pending) -> None:
        with self.changed:
            self.changed.wait_for(lambda: pending.done or self.closed, CANCEL_GRACE_S)

    def close(self) -> None:
        """Wake every waiter; idempotent."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


def _outcome(pending: Pending, closed: bool, cancelled: bool) -> Any:
    if pending.done and pending.error is None:
        return pending.result
    if closed:
        raise Closed
    if cancelled:
        raise Cancelled
    if pending.error is not None:
        raise pending.error
    raise RpcError(INTERNAL_ERROR, f"The client did not answer {pending.method} in time.")


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str) or type(value) is int


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
