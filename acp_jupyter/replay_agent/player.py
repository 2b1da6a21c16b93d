"""Walking through a recorded connection: what was received is sent, what was sent is waited for.

Rules:

* Requests of the client's are matched in the order of the recording: the same method, the same
  parameters, where the directory may be another one and a redacted part any text. One that does not
  match is answered with an error that says what was recorded in its place; the recording waits.
* Ids of the client's requests are its own; all other ids are those of the recording.
* Between the frames the client is told what was decided, served and shown (`REPLAY_EVENT`), at
  the place where it was.
* A turn that is cancelled now, though it was not then, ends as cancelled; its rest is left out.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from ..errors import ErrorCode
from ..protocol import jsonrpc
from ..protocol.recording import (
    REPLAY_EVENT,
    Changes,
    End,
    Event,
    Exit,
    Frame,
    Header,
    Line,
    Over,
    Ready,
    Served,
    agrees,
    is_event,
    read,
    relocate,
)

PATIENCE: Final = 20.0
"""Seconds that a request of the client's waits while the recording waits for another one first."""

WRITE_SIZE: Final = 2**16
"""Bytes that are written at once, while nothing is waited for."""

SETTLE: Final = 0.02
"""Seconds in which the client acts on an answer, where the recorded agent said more only later."""

LONGEST_PAUSE: Final = 3600.0
"""Seconds between two lines at original speed; a longer one is cut."""

SHOWN: Final = 200
"""Characters of a prompt in an error."""

ANY_PARAMS: Final = frozenset({"initialize", "session/new", "authenticate"})
"""Requests whose parameters are those of this machine and this client, not of the notebook."""

DEADLY: Final = frozenset(
    {
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT),
        *(signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGTERM),
    }
)
"""Signals that a recorded agent may have ended by: others would stop this one, or do nothing."""

Message = dict[str, Any]


class Ended(Exception):
    """The client has closed our standard input."""


class Inbox:
    """The client's messages as they come, read by a thread of its own."""

    def __init__(self, source: BinaryIO) -> None:
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._source = source
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        receiver = jsonrpc.Receiver()
        for line in self._source:
            if not receiver.receive(line):
                continue
            message = msgspec.json.decode(line)
            for part in message if type(message) is list else [message]:
                if type(part) is dict:
                    self._messages.put(part)
        self._messages.put(None)

    def take(self, seconds: float | None = None) -> Message | None:
        """The next message; ``None`` if none has come within the time.

        Raises:
            Ended: there will be none.
        """
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)
            raise Ended
        return message


class Player:
    """See the module.

    Args:
        lines: of the recording, of this connection alone.
        cwd: the directory of the recording.
        inbox: what the client says.
        output: where what the agent says goes.
        original: with the pauses of then.
    """

    def __init__(
        self,
        lines: Iterator[Line],
        cwd: str,
        inbox: Inbox,
        output: BinaryIO,
        *,
        original: bool,
    ) -> None:
        self._lines = lines
        self._recorded_cwd = self._cwd = cwd
        self._inbox = inbox
        self._output = output
        self._original = original
        self._at = 0.0
        self._answered = False
        self._taken = 0
        self._unwritten = bytearray()
        self._requests: list[Message] = []
        self._answers: dict[str, Message] = {}
        self._cancels = 0
        self._ours: dict[str, int | str] = {}  # recorded ids of the client's requests, to its ids
        self._prompts: set[str] = set()
        self._prompted = ""  # the session of the last prompt
        self._working: set[str] = set()  # sessions that work on one (version 2)
        self._skipping: set[str] = set()
        self._left_out: set[str] = set()

    def run(self) -> int:
        """Replay until the client leaves, or the recorded agent ended; returns the exit status."""
        try:
            for line in self._lines:
                if isinstance(line, Exit):
                    return self._exit(line)
                self._step(line)
            self._tell(Over())
            self._end_all("the recording ends before its answer")
            while True:
                self._refuse(self._next_request(None), "the recording ends before it")
        except Ended:
            return 0

    def _step(self, line: Line) -> None:
        if isinstance(line, Frame):
            if line.direction == "in":
                self._pause(line.t)
                self._say(line)
            else:
                self._hear(line)
            self._at = line.t
        elif is_event(line) and not self._skipping:
            if self._answered and not isinstance(line, Changes | End):  # which end the turn
                self._pause(self._at + SETTLE)
            self._tell(line)  # type: ignore[arg-type]

    # -- what the agent said -------------------------------------------------------------------

    def _pause(self, until: float) -> None:
        seconds = min(max(0.0, until - self._at), LONGEST_PAUSE)
        if not self._original:
            seconds = SETTLE if self._answered and seconds else 0.0
        if seconds:
            self._answered = False
            self._flush()
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            message = self._inbox.take(max(0.0, left))
            if message is not None:
                self._sort(message)
            elif left <= 0:
                break
        self._heed_cancels()

    def _say(self, line: Frame) -> None:
        if line.raw is not None:
            if not self._skipping:
                raw = str(self._moved(line.raw))
                self._write(raw.replace("\n", " ").encode("utf-8", "replace"))
            return
        message = self._moved(line.message)
        if isinstance(message, list):
            message = [each for part in message if (each := self._mapped(part)) is not None]
        else:
            message = self._mapped(message)
        if message:
            self._write(msgspec.json.encode(message))

    def _mapped(self, message: Any) -> Any:
        """A message of the agent's with the client's ids of now; ``None`` if it is left out."""
        if not isinstance(message, dict) or message.get("method") == REPLAY_EVENT:
            return None
        ident = message.get("id")
        if message.get("method") is None and ident is not None:
            number, literal = jsonrpc.match_id(ident)
            live = self._ours.pop(str(number), None)
            was_prompt = str(number) in self._prompts
            self._prompts.discard(str(number))
            if live is None or str(number) in self._skipping:
                self._skipping.discard(str(number))
                return None
            self._answered = True
            if was_prompt and _is_receipt(message):
                self._working.add(self._prompted)
            return {**message, "id": live if literal else str(live)}
        idle = _idle_session(message)
        self._working.discard(idle)
        if _until_idle(idle) in self._skipping:
            self._skipping.discard(_until_idle(idle))
            return None
        if self._skipping:
            if ident is not None:
                self._left_out.add(_key(ident))
            return None
        return message

    def _moved(self, value: Any) -> Any:
        return relocate(value, self._recorded_cwd, self._cwd)

    def _tell(self, event: Event) -> None:
        params = {"event": self._moved(msgspec.to_builtins(event))}
        self._write(msgspec.json.encode(jsonrpc.notification(REPLAY_EVENT, params)))

    def _write(self, data: bytes) -> None:
        self._unwritten += data + b"\n"
        if len(self._unwritten) > WRITE_SIZE:
            self._flush()

    def _flush(self) -> None:
        """Lines that came together go together."""
        data, self._unwritten = bytes(self._unwritten), bytearray()
        try:
            self._output.write(data)
            self._output.flush()
        except BrokenPipeError as error:
            raise Ended from error

    def _wait(self, seconds: float | None) -> Message | None:
        """The client's next message, see `Inbox.take`."""
        self._flush()
        return self._inbox.take(seconds)

    def _exit(self, line: Exit) -> int:
        self._flush()
        if line.stderr:
            sys.stderr.write(self._moved(line.stderr) + "\n")
            sys.stderr.flush()
        code = line.returncode
        if code is None:  # it closed its standard output and lived on
            self._output.close()
            while True:
                self._inbox.take()
        if -code in DEADLY:
            if -code != signal.SIGKILL:
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return code & 0xFF

    # -- what the client said ------------------------------------------------------------------

    def _hear(self, line: Frame) -> None:
        message = line.message
        if not isinstance(message, dict):
            return
        ident, method = message.get("id"), message.get("method")
        if method is None:
            self._hear_answer(ident, message)
        elif ident is not None:
            self._hear_request(str(ident), message)
        elif method == "session/cancel" and not self._skipping:
            self._hear_cancel()

    def _hear_request(self, ident: str, recorded: Message) -> None:
        while True:
            live = self._next_request(recorded)
            why = self._difference(recorded, live)
            if why is None:
                break
            self._refuse(live, why)
        self._ours[ident] = live["id"]
        params = live.get("params")
        if live["method"] == "session/prompt":
            self._prompts.add(ident)
            self._prompted = str(params.get("sessionId")) if isinstance(params, dict) else ""
        if isinstance(params, dict) and isinstance(params.get("cwd"), str):
            self._cwd = params["cwd"]
            then = recorded.get("params")
            if isinstance(then, dict) and isinstance(then.get("cwd"), str):
                self._recorded_cwd = then["cwd"]

    def _next_request(self, recorded: Message | None) -> Message:
        """The client's next request. Those that wait for it in vain are ended by an error."""
        since = time.monotonic()
        if not self._requests:
            self._tell(Ready(self._taken))
        while not self._requests:
            message = self._wait(PATIENCE if self._ours else None)
            if message is not None:
                self._sort(message)
                self._heed_cancels()
            elif self._ours and time.monotonic() - since >= PATIENCE:
                waits = _described(recorded) if recorded else "the end"
                self._end_all(f"the recording waits for {waits} before it goes on")
        self._taken += 1
        return self._requests.pop(0)

    def _difference(self, recorded: Message, live: Message) -> str | None:
        """Why a request is not the one that was recorded; ``None`` if it is."""
        method = live["method"]
        if method == recorded.get("method"):
            if method in ANY_PARAMS:
                return None
            then, now = recorded.get("params"), live.get("params")
            if agrees(_asked(self._moved(then)), _asked(now)):
                return None
        return f"in its place the recording has {_described(recorded)}"

    def _hear_answer(self, ident: Any, recorded: Message) -> None:
        key = _key(ident)
        if key in self._left_out:
            self._left_out.discard(key)
            return
        if "result" in recorded:
            self._tell(Served(request=_ident(ident), result=recorded["result"]))
        elif isinstance(recorded.get("error"), dict):
            self._tell(Served(request=_ident(ident), error=recorded["error"]))
        end = time.monotonic() + PATIENCE
        while key not in self._answers and time.monotonic() < end and not self._skipping:
            message = self._wait(PATIENCE)
            if message is not None:
                self._sort(message)
                self._heed_cancels()
        self._answers.pop(key, None)

    def _hear_cancel(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._cancels and time.monotonic() < end:
            message = self._wait(PATIENCE)
            if message is not None:
                self._sort(message)
        self._cancels = 0

    def _sort(self, message: Message) -> None:
        method = message.get("method")
        if method is None:
            self._answers[_key(message.get("id"))] = message
        elif "id" in message:
            self._requests.append(message)
        elif method == "session/cancel":
            self._cancels += 1

    def _heed_cancels(self) -> None:
        """A cancel that was not recorded here: the turn ends, what it would have said does not
        come."""
        if not self._cancels:
            return
        self._cancels = 0
        for ident in self._prompts:
            live = self._ours[ident]
            self._write(msgspec.json.encode(jsonrpc.result(live, {"stopReason": "cancelled"})))
        for session in self._working:
            update = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
            told = jsonrpc.notification("session/update", {"sessionId": session, "update": update})
            self._write(msgspec.json.encode(told))
        self._skipping |= self._prompts | {_until_idle(session) for session in self._working}
        self._prompts.clear()
        self._working.clear()

    def _end_all(self, why: str) -> None:
        """End by an error what the client waits for."""
        for live in self._ours.values():
            self._answer_error(live, why)
        self._ours.clear()
        self._prompts.clear()

    def _refuse(self, live: Message, why: str) -> None:
        text = (
            f"this was not recorded: {_described(live)}; {why}. Run the notebook as it was "
            "recorded, from its start, or record it again"
        )
        self._answer_error(live["id"], text)

    def _answer_error(self, ident: int | str, text: str) -> None:
        error = jsonrpc.error(ident, ErrorCode.INTERNAL_ERROR, text)
        self._write(msgspec.json.encode(error))


def play(path: str, number: int, *, original: bool) -> int:
    """Replay a connection of a recording on standard input and output.

    Raises:
        UsageError: the file is no recording.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        lines = (line for line in read(file.readline) if line.connection == number)
        header = next(lines, None)
        if not isinstance(header, Header):
            sys.stderr.write(f"the recording {path} has no connection {number}\n")
            return 1
        player = Player(
            lines, header.cwd, Inbox(sys.stdin.buffer), sys.stdout.buffer, original=original
        )
        return player.run()


def _is_receipt(message: Message) -> bool:
    """Whether the answer to a prompt is that of version 2: the work goes on until an idle."""
    result = message.get("result")
    return isinstance(result, dict) and "stopReason" not in result


def _idle_session(message: Message) -> str:
    """The session that an update says is idle (version 2); empty for any other message."""
    params = message.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("update"), dict):
        return ""
    update = params["update"]
    idle = update.get("sessionUpdate") == "state_update" and update.get("state") == "idle"
    return str(params.get("sessionId")) if idle else ""


def _until_idle(session: str) -> str:
    """The key under which the rest of a session's work is left out."""
    return f"idle {session}"


def _key(ident: Any) -> str:
    """Ids of the agent's requests: 1 and "1" are two."""
    return repr(ident)


def _ident(ident: Any) -> int | str | None:
    return ident if type(ident) in (int, str) else None


def _asked(params: Any) -> Any:
    """What a request is about: ``_meta`` is not, nor is what a dialect calls the prompt."""
    if not isinstance(params, dict):
        return params
    asked = {name: value for name, value in params.items() if name != "_meta"}
    return {"prompt" if name == "content" else name: value for name, value in asked.items()}


def _described(message: Message) -> str:
    method = str(message.get("method"))[:SHOWN]
    params = message.get("params")
    blocks = _asked(params).get("prompt") if isinstance(params, dict) else None
    if method != "session/prompt" or not isinstance(blocks, list):
        return method
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    text = " ".join(text for text in texts if isinstance(text, str))
    more = "…" if len(text) > SHOWN else ""
    return f"the prompt {text[:SHOWN]!r}{more}"
