"""A scripted agent for the benchmark: it writes lines that were encoded before the prompt came.

It is never the limit of what is measured, so it imports the standard library only, answers one
session, and does nothing else while it writes. Its prompts, which are also its arguments (lines of
the scenarios given there are encoded before it answers ``initialize``):

    chunks N SIZE       N message chunks of SIZE characters; a paragraph ends every 500 characters
    unbroken N SIZE     the same without a line break anywhere
    stream N SIZE MS    N of the same chunks, one every MS milliseconds
    tools N             N tool calls of five updates each
    paced N MS          N chunks, one every MS milliseconds; each holds its time as ``T<ns>Z``
    permission N        N permission requests, one after the other
    read N PATH         N ``fs/read_text_file`` requests for PATH, one after the other
    until-cancelled MS  chunks every MS milliseconds (0: as fast as the pipe takes them), until
                        ``session/cancel`` comes; the last chunk is followed by the answer at once

Each chunk of ``chunks`` and ``unbroken`` begins with its number (``c000017``), so that a reader of
the answer can tell which were lost or swapped. With ``--log FILE`` it appends one JSON object a
line about what only it can see: when the cancel came, when it answered, how long each round trip
took. Times are `time.monotonic_ns`, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable
from typing import Any

SESSION = "bench-1"
PARAGRAPH = 500
FLOOD_SLICE = 400
"""Chunks written between two looks at stdin while flooding: less than a millisecond's worth."""


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def update(fields: dict[str, Any]) -> bytes:
    params = {"sessionId": SESSION, "update": fields}
    return encode({"method": "session/update", "params": params})


def chunk(text: str) -> bytes:
    content = {"type": "text", "text": text}
    return update({"sessionUpdate": "agent_message_chunk", "content": content})


def chunk_text(number: int, size: int, broken: bool) -> str:
    """``size`` characters that begin with the chunk's number and read like words."""
    text = (f"c{number:06d} " + "lorem ipsum " * (size // 12 + 1))[: size - 1] + " "
    if not broken:
        return text
    if size >= PARAGRAPH:
        cuts = range(PARAGRAPH, size + 1, PARAGRAPH)
        for cut in cuts:
            text = text[: cut - 2] + "\n\n" + text[cut:]
        return text
    ends_paragraph = (number + 1) % (PARAGRAPH // size) == 0
    return text[:-2] + "\n\n" if ends_paragraph else text


def _mark(number: int) -> bytes:
    """A chunk with its time; a paragraph ends after twenty."""
    return chunk(f"T{time.monotonic_ns()}Z " + ("\n\n" if number % 20 == 19 else ""))


def tool_call(number: int) -> bytes:
    """A tool call and its four updates, as an agent that reads a file would send them."""
    path = f"/tmp/bench/file{number}.py"
    output = f"line of output {number}\n" * 5
    call = {"toolCallId": f"call-{number}"}
    return b"".join(
        (
            update(
                {
                    "sessionUpdate": "tool_call",
                    **call,
                    "title": f"Read file{number}.py",
                    "kind": "read",
                    "status": "pending",
                    "rawInput": {"path": path},
                }
            ),
            update({"sessionUpdate": "tool_call_update", **call, "status": "in_progress"}),
            update(
                {
                    "sessionUpdate": "tool_call_update",
                    **call,
                    "locations": [{"path": path, "line": number}],
                }
            ),
            update(
                {
                    "sessionUpdate": "tool_call_update",
                    **call,
                    "content": [{"type": "content", "content": {"type": "text", "text": output}}],
                }
            ),
            update(
                {
                    "sessionUpdate": "tool_call_update",
                    **call,
                    "status": "completed",
                    "rawOutput": {"ok": True},
                }
            ),
        )
    )


def prepare(scenario: str) -> bytes:
    """The bytes of a scenario that needs no answer while it runs; empty for the others."""
    match scenario.split():
        case ["chunks" | "unbroken" as name, count, size]:
            broken = name == "chunks"
            return b"".join(chunk(chunk_text(n, int(size), broken)) for n in range(int(count)))
        case ["tools", count]:
            return b"".join(tool_call(number) for number in range(int(count)))
    return b""


class Wire:
    """stdin and stdout of the agent: whole lines in, whole buffers out."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def read(self, timeout: float | None = None) -> dict[str, Any] | None:
        """The next message, or None when none came within ``timeout`` seconds.

        Raises:
            EOFError: the client closed the pipe.
        """
        while not self._lines:
            if not select.select([0], [], [], timeout)[0]:
                return None
            data = os.read(0, 65536)
            if not data:
                raise EOFError
            *self._lines, self._rest = (self._rest + data).split(b"\n")
        message: dict[str, Any] = json.loads(self._lines.pop(0))
        return message


class ScriptedAgent:
    """Answers one client until it closes the pipe."""

    def __init__(self, wire: Wire, prepared: dict[str, bytes], log: str | None) -> None:
        self._wire = wire
        self._prepared = prepared
        self._log = log
        self._cancelled = False
        self._next_id = 0

    def serve(self) -> None:
        while True:
            message = self._wire.read()
            assert message is not None
            match message.get("method"):
                case "initialize":
                    capabilities = {"promptCapabilities": {"embeddedContext": True}}
                    info = {"name": "scripted-agent", "version": "1"}
                    self._answer(
                        message,
                        {
                            "protocolVersion": 1,
                            "agentCapabilities": capabilities,
                            "agentInfo": info,
                        },
                    )
                case "session/new":
                    self._answer(message, {"sessionId": SESSION})
                case "session/prompt":
                    self._prompt(message)
                case _ if "id" in message and "method" in message:
                    error = {"code": -32601, "message": "Method not found"}
                    self._wire.write(encode({"id": message["id"], "error": error}))

    def _prompt(self, message: dict[str, Any]) -> None:
        blocks = message["params"]["prompt"]
        scenario = "".join(block.get("text", "") for block in blocks).strip()
        self._cancelled = False
        if scenario not in self._prepared:
            self._prepared[scenario] = prepare(scenario)
        if data := self._prepared[scenario]:
            self._wire.write(data)
        else:
            self._play(scenario)
        self._note("answered")
        reason = "cancelled" if self._cancelled else "end_turn"
        self._answer(message, {"stopReason": reason})

    def _play(self, scenario: str) -> None:
        match scenario.split(maxsplit=2):
            case ["paced", count, milliseconds]:
                self._paced(int(count), float(milliseconds) / 1000, _mark)
            case ["stream", count, rest]:
                size, milliseconds = rest.split()
                lines = [chunk(chunk_text(n, int(size), True)) for n in range(int(count))]
                self._paced(int(count), float(milliseconds) / 1000, lines.__getitem__)
            case ["permission", count]:
                self._round_trips(int(count), "session/request_permission", self._permission)
            case ["read", count, path]:
                params = {"sessionId": SESSION, "path": path}
                self._round_trips(int(count), "fs/read_text_file", lambda _: params)
            case ["until-cancelled", milliseconds]:
                self._until_cancelled(float(milliseconds) / 1000)
            case _:
                self._wire.write(chunk(f"This agent has no scenario {scenario!r}."))

    def _paced(self, count: int, interval: float, line: Callable[[int], bytes]) -> None:
        due = time.monotonic()
        for number in range(count):
            due += interval
            if self._cancel_came(max(0.0, due - time.monotonic())):
                return
            self._wire.write(line(number))

    def _until_cancelled(self, interval: float) -> None:
        lines = [chunk(chunk_text(number, 20, broken=True)) for number in range(FLOOD_SLICE)]
        step = b"".join(lines) if interval == 0 else lines[0]
        while not self._cancel_came(interval):
            self._wire.write(step)
        self._wire.write(chunk("stopped. "))

    def _cancel_came(self, timeout: float) -> bool:
        """Whether the client cancelled the turn, waiting up to ``timeout`` seconds for it."""
        until = time.monotonic() + timeout
        while not self._cancelled:
            message = self._wire.read(max(0.0, until - time.monotonic()))
            if message is None:
                return False
            self._look(message)
        return True

    def _look(self, message: dict[str, Any]) -> None:
        if message.get("method") == "session/cancel":
            self._note("cancel")
            self._cancelled = True

    def _permission(self, number: int) -> dict[str, Any]:
        kinds = ("allow_once", "reject_once")
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
        call = {
            "toolCallId": f"ask-{number}",
            "title": "Write a file",
            "kind": "edit",
            "status": "pending",
            "rawInput": {"path": "/tmp/bench/file.py"},
        }
        return {"sessionId": SESSION, "toolCall": call, "options": options}

    def _round_trips(self, count: int, method: str, params: Any) -> None:
        durations: list[int] = []
        failed = 0
        for number in range(count):
            self._next_id += 1
            request = encode({"id": self._next_id, "method": method, "params": params(number)})
            start = time.monotonic_ns()
            self._wire.write(request)
            reply = self._reply(self._next_id)
            durations.append(time.monotonic_ns() - start)
            outcome = reply.get("result", {}).get("outcome", {}).get("outcome")
            failed += "error" in reply or outcome == "cancelled"
            if self._cancelled:
                break
        self._note("round-trips", ns=durations, failed=failed)

    def _reply(self, request_id: int) -> dict[str, Any]:
        while True:
            message = self._wire.read()
            assert message is not None
            if "method" not in message and message.get("id") == request_id:
                return message
            self._look(message)

    def _answer(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        self._wire.write(encode({"id": request["id"], "result": result}))

    def _note(self, event: str, **fields: Any) -> None:
        if self._log is None:
            return
        with open(self._log, "a", encoding="utf-8") as log:
            log.write(json.dumps({"event": event, "at": time.monotonic_ns(), **fields}) + "\n")


def main(arguments: list[str]) -> None:
    log = None
    if arguments[:1] == ["--log"]:
        log, arguments = arguments[1], arguments[2:]
    try:
        ScriptedAgent(Wire(), {name: prepare(name) for name in arguments}, log).serve()
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
