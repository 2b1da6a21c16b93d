"""JSON-RPC 2.0 over lines: bytes to frames and back.

`Receiver` takes bytes as they come, in any cut, and returns frames; it never raises on what the
peer sends. What cannot be used becomes `Noise`, which the connection counts, logs and shows once.

Rules for what real agents put on their standard output:

* blank lines, CRLF, a byte order mark and a missing final newline are accepted silently;
* text that is not JSON, a JSON scalar, an object that is no JSON-RPC message: `Noise`;
* invalid UTF-8 is decoded with U+FFFD and counted; a lone surrogate becomes U+FFFD;
* a line that cannot be read but names an id is `Noise` with that id, so that the request it meant
  to answer can fail at once instead of waiting for ever;
* NaN, Infinity, integers of more than 4,300 digits and nesting beyond `MAX_DEPTH` are not JSON
  that we accept: `Noise`;
* a batch array gives its entries in order, as one `Batch`; an empty one is `Noise` and an invalid
  request (C80);
* a line beyond `MAX_LINE` is thrown away while it streams in: `Overlong`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..errors import LocalProtocolError

MAX_LINE: Final = 32 * 2**20
"""Bytes of one line. Agents send single lines of up to some MB (a file read, an image); the
limit keeps a broken one from filling the memory."""

FATAL_LINE: Final = 256 * 2**20
"""Bytes after which a line without an end means that the peer is not speaking JSON-RPC at all."""

MAX_DEPTH: Final = 128
"""Nesting of arrays and objects; deeper ones only come from attacks."""

RAW_KEPT: Final = 2000
"""Bytes of a noisy line that are kept for the log."""

JSON = Any


class Request(msgspec.Struct, frozen=True):
    """The peer asks; ``id`` is an integer or a string."""

    id: int | str
    method: str
    params: JSON


class InvalidRequest(msgspec.Struct, frozen=True):
    """A request that can only be refused: ``id`` null or of a wrong type, method no string."""

    id: int | str | None
    reason: str


class Notification(msgspec.Struct, frozen=True, gc=False):
    """The peer tells."""

    method: str
    params: JSON


class Response(msgspec.Struct, frozen=True):
    """The peer answers. ``problem`` says what is wrong with a malformed answer."""

    id: JSON
    result: JSON = None
    error: dict[str, Any] | None = None
    problem: str = ""


class Noise(msgspec.Struct, frozen=True):
    """A line, or a part of it, that means nothing to us.

    ``ids``: ids of requests that an unreadable line seems to answer.
    """

    reason: str
    raw: bytes
    ids: tuple[int | str, ...] = ()


class Overlong(msgspec.Struct, frozen=True):
    """A line beyond `MAX_LINE` was thrown away, ``size`` bytes; ``fatal`` at `FATAL_LINE`."""

    size: int
    fatal: bool


class Batch(msgspec.Struct, frozen=True):
    """Messages that came together, in order.

    ``useless``: how many more entries were no messages; ``raw``: the beginning of the line.
    """

    frames: tuple[Request | InvalidRequest | Notification | Response, ...]
    useless: int
    raw: bytes


Frame = Request | InvalidRequest | Notification | Response | Noise | Overlong | Batch
Take = Callable[[Frame], object]

_decode = msgspec.json.Decoder().decode
_ID_IN_TEXT = re.compile(rb'"id"\s*:\s*(\d{1,15}|"\d{1,15}")(?=\s*[,}])')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BOM = b"\xef\xbb\xbf"


class Receiver:
    """Bytes in, frames out; holds the unfinished line between calls.

    Args:
        on_line: called with each complete raw line, before it is understood (log, recording).
    """

    def __init__(self, on_line: Callable[[bytes], object] | None = None) -> None:
        self._held = bytearray()
        self._size = 0
        self._on_line = on_line
        self._fatal_reported = False

    def receive(self, data: bytes) -> list[Frame]:
        """Frames completed by ``data``, in order."""
        frames: list[Frame] = []
        self.feed(data, frames.append)
        return frames

    def feed(self, data: bytes, take: Take) -> None:
        """Hand each frame that ``data`` completes to ``take``, in order.

        One after the other, so that a frame is gone before the next one is decoded: a list of
        a thousand dicts costs a fifth more, in the garbage collector.
        """
        if b"\n" not in data:
            self._hold(data, take)
            return
        first, *lines = data.split(b"\n")
        rest = lines.pop()
        self._finish(first, take)
        on_line = self._on_line
        for line in lines:
            if len(line) > MAX_LINE:
                take(Overlong(len(line), len(line) >= FATAL_LINE))
                continue
            if on_line is not None:
                on_line(line)
            # The common line, a short notification, is read here; calls are what costs.
            try:
                message = _decode(line)
            except _UNDECODABLE:
                _read_again(line, take)
                continue
            if len(line) < _SHALLOW and type(message) is dict and "id" not in message:
                method = message.get("method")
                if type(method) is str:
                    take(Notification(method, message.get("params")))
                    continue
            _take(message, line, take)
        if rest:
            self._hold(rest, take)

    def receive_eof(self) -> list[Frame]:
        """Frames of a last line without a newline."""
        frames: list[Frame] = []
        if self._size:
            self._finish(b"", frames.append)
        return frames

    def _hold(self, data: bytes, take: Take) -> None:
        self._size += len(data)
        if self._size <= MAX_LINE:
            # Not a list of pieces: one of a byte each costs more than thirty times its size.
            self._held += data
            return
        self._held = bytearray()
        if self._size >= FATAL_LINE and not self._fatal_reported:
            self._fatal_reported = True
            take(Overlong(self._size, fatal=True))

    def _finish(self, end: bytes, take: Take) -> None:
        held, size, reported = self._held, self._size + len(end), self._fatal_reported
        self._held, self._size, self._fatal_reported = bytearray(), 0, False
        if size <= MAX_LINE:
            line = bytes(held + end) if held else end
            if self._on_line is not None:
                self._on_line(line)
            _read_line(line, take)
        elif not reported:
            take(Overlong(size, size >= FATAL_LINE))


_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SHALLOW: Final = 2 * MAX_DEPTH
"""A line of fewer bytes cannot be nested beyond the limit."""


def _read_line(line: bytes, take: Take) -> None:
    try:
        message = _decode(line)
    except _UNDECODABLE:
        _read_again(line, take)
    else:
        _take(message, line, take)


def _read_again(line: bytes, take: Take) -> None:
    whole = line
    line = line.strip().removeprefix(_BOM).strip()
    if not line:
        return
    if len(line) < len(whole):
        try:
            message = _decode(line)
        except _UNDECODABLE:
            pass
        else:
            _take(message, line, take)
            return
    message = _second_reading(line, take)
    if message is not _UNREADABLE:
        _take(message, line, take)


def _take(message: JSON, line: bytes, take: Take) -> None:
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and too_deep(message):
        take(_noise("nested too deeply", line))
    elif type(message) is list:
        _take_batch(message, line, take)
    else:
        take(classify(message, line))


def _take_batch(batch: list[JSON], line: bytes, take: Take) -> None:
    if not batch:
        take(_noise("an empty batch", line))
        take(InvalidRequest(None, "a batch must not be empty"))
        return
    frames = []
    for entry in batch:
        frame = classify(entry, b"")
        if not isinstance(frame, Noise):
            frames.append(frame)
    take(Batch(tuple(frames), len(batch) - len(frames), line[:RAW_KEPT]))


_UNREADABLE: Final = object()


def _second_reading(line: bytes, take: Take) -> JSON:
    """Read what the strict decoder refused but other peers send: bad UTF-8, lone surrogates."""
    text = line.decode("utf-8", "replace")
    try:
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        take(_noise("not JSON", line))
        return _UNREADABLE
    # json.loads lets lone surrogates and huge exponents through; a round trip settles both.
    try:
        message = _decode(_cleaned(message))
    except (ValueError, RecursionError):
        take(_noise("not JSON", line))
        return _UNREADABLE
    take(Noise("invalid UTF-8 or half a character, shown as U+FFFD", line[:RAW_KEPT]))
    return message


def _cleaned(message: JSON) -> bytes:
    """``message`` as JSON, each lone surrogate replaced by U+FFFD."""
    text = json.dumps(message, ensure_ascii=False, allow_nan=False)
    return _LONE_SURROGATE.sub("\ufffd", text).encode()


def _refuse_constant(name: str) -> JSON:
    raise ValueError(name)


def _noise(reason: str, line: bytes) -> Noise:
    ids: tuple[int | str, ...] = ()
    if b'"result"' in line or b'"error"' in line:
        # The id stands at the start of an answer, or at its end.
        ends = line if len(line) <= 100_000 else line[:90_000] + b"\n" + line[-10_000:]
        ids = tuple(int(match.strip(b'"')) for match in _ID_IN_TEXT.findall(ends)[:4])
    return Noise(reason, line[:RAW_KEPT], ids)


def too_deep(message: JSON) -> bool:
    level = [message] if type(message) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            for child in (value.values() if type(value) is dict else value)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def classify(
    message: JSON, line: bytes
) -> Request | InvalidRequest | Notification | Response | Noise:
    """The frame of one decoded JSON value."""
    if type(message) is not dict:
        return Noise("JSON, but no JSON-RPC message", line[:RAW_KEPT])
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return _response(message)  # some serialisers write out what is absent as null
    if "method" in message:
        if "id" not in message:
            if type(method) is str:
                return Notification(method, message.get("params"))
            return Noise("a notification whose method is no string", line[:RAW_KEPT])
        ident = message["id"]
        if type(ident) is not int and type(ident) is not str:
            return InvalidRequest(None, "the id of a request must be an integer or a string")
        if type(method) is not str:
            return InvalidRequest(ident, "the method of a request must be a string")
        return Request(ident, method, message.get("params"))
    if "id" in message:
        return _response(message)
    return Noise("an object, but no JSON-RPC message", line[:RAW_KEPT])


def _response(message: dict[str, Any]) -> Response:
    ident = message.get("id")
    error = message.get("error")
    if "error" in message and error is not None:
        if "result" in message and message["result"] is not None:
            return Response(ident, problem="it has both a result and an error")
        if type(error) is not dict:
            return Response(ident, problem=f"its error is no object: {str(error)[:200]}")
        return Response(ident, error=error)
    if "result" not in message:
        return Response(ident, problem="it has neither a result nor an error")
    return Response(ident, result=message["result"])


def match_id(ident: JSON) -> tuple[int | None, bool]:
    """Our integer id that a response's ``id`` means, and whether it was sent literally.

    ``"2"`` means 2 (some agents turn ids into strings); bool, null, float and objects mean none.
    """
    if type(ident) is int:
        return ident, True
    if type(ident) is str and ident.isascii() and ident.isdigit() and len(ident) < 16:
        return int(ident), False
    return None, False


def encode(message: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    """One line, with its newline; of a list a batch.

    Raises:
        LocalProtocolError: ``message`` holds something that JSON cannot express.
    """
    try:
        try:
            return msgspec.json.encode(message) + b"\n"
        except UnicodeEncodeError:  # lone surrogates, from user text or file names
            return _cleaned(message) + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"this cannot be sent as JSON: {error}") from error


def request(ident: int, method: str, params: JSON) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}


def notification(method: str, params: JSON) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(ident: int | str, value: JSON) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "result": value}


def error(ident: int | str | None, code: int, message: str, data: JSON = None) -> dict[str, Any]:
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": ident, "error": body}
