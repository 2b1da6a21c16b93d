"""A client of an agent that is examined: it sends what it is told to, also what is wrong, and keeps
all that comes.

Rules:

- It judges nothing but what is wrong with single messages (`Peer.problems`); the rest is `agent`'s.
- What the agent asks for is answered carefully: permissions are refused, files are those of the
  agent's own folder, everything else is no method of ours. What was not declared is noted.
- Every wait is bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from .. import __version__
from ..connection.stdio import StdioTransport
from ..errors import ACPError, ErrorCode
from ..protocol import jsonrpc, outgoing
from . import forms

JSON = Any

ANSWER_LIMIT: Final = 60.0
"""Seconds for an answer to anything but a prompt; agents load much when they open a session."""

PROBLEMS: Final = 50
"""How many things that are wrong with messages are kept."""

CAPABILITIES: Final[Mapping[str, Any]] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": False,
}
"""What we declare: files, because they can be kept to a folder, and no commands."""

INFO: Final = {"name": "acp-jupyter-doctor", "title": "acp-jupyter doctor", "version": __version__}

_FILES: Final = frozenset({"fs/read_text_file", "fs/write_text_file"})
_ALWAYS: Final = frozenset({"session/request_permission"})


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was answered.

    Attributes:
        result: ``None`` also where there is an error, or no answer.
        error: the JSON-RPC error object.
        missing: why there is no answer at all; empty if there is one.
        seconds: until it came.
    """

    result: JSON = None
    error: dict[str, Any] | None = None
    missing: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.missing and self.error is None

    @property
    def code(self) -> int | None:
        """Of the error."""
        code = None if self.error is None else self.error.get("code")
        return code if type(code) is int else None

    @property
    def why(self) -> str:
        """What went wrong, in words; empty if nothing did."""
        if self.missing or self.error is None:
            return self.missing
        return f"error {self.error.get('code')}: {str(self.error.get('message'))[:300]}"


class Peer:
    """See the module.

    Args:
        transport: the agent's process.
        folder: where it may read and write files.
        version: of the protocol that is asked for.

    Attributes:
        updates: session id and update of each ``session/update``, in order.
        asked: the methods that the agent called, in order.
        undeclared: those of them that were not declared.
        problems: what is wrong with single messages, a sentence each.
        noise: how many lines were no messages.
        noisy: the beginning of the first of them.
        refused: answers without an id, which JSON-RPC has for what cannot be read.
        ended: the agent's output has ended.
    """

    def __init__(self, transport: StdioTransport, folder: str, version: int) -> None:
        self.transport = transport
        self.version = version
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[str] = []
        self.undeclared: list[str] = []
        self.problems: list[str] = []
        self.noise = 0
        self.noisy = ""
        self.refused: list[dict[str, Any]] = []
        self.ended = False
        self._folder = folder
        self._receiver = jsonrpc.Receiver()
        self._answers: dict[int | str, jsonrpc.Response] = {}
        self._waiting: set[int | str] = set()
        self._next_id = 0
        self._changed = trio.Event()

    # -- to the agent ----------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: JSON,
        *,
        limit: float = ANSWER_LIMIT,
        ident: int | str | None = None,
    ) -> Answer:
        """Send a request and wait for its answer."""
        return await self.answer(await self.begin(method, params, ident), limit)

    async def begin(self, method: str, params: JSON, ident: int | str | None = None) -> int | str:
        """Send a request; returns its id."""
        if ident is None:
            self._next_id += 1
            ident = self._next_id
        self._waiting.add(ident)
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        await self.send(jsonrpc.encode(message))
        return ident

    async def answer(self, ident: int | str, limit: float = ANSWER_LIMIT) -> Answer:
        """Wait for the answer to a request."""
        began = trio.current_time()
        await self.wait(lambda: ident in self._answers, limit)
        seconds = trio.current_time() - began
        response = self._answers.get(ident)
        if response is None:
            missing = "the agent ended" if self.ended else f"no answer within {limit:.0f} s"
            return Answer(missing=missing, seconds=seconds)
        return Answer(response.result, response.error, response.problem, seconds)

    async def notify(self, method: str, params: JSON) -> None:
        await self.send(jsonrpc.encode({"jsonrpc": "2.0", "method": method, "params": params}))

    async def send(self, data: bytes) -> None:
        """Send these very bytes; an agent that is gone does not get them."""
        try:
            with trio.move_on_after(ANSWER_LIMIT):
                await self.transport.send_all(data)
        except ACPError:
            self.ended = True

    async def wait(self, condition: Callable[[], object], limit: float) -> bool:
        """Wait for what the agent does to make a condition true, or for its end."""
        with trio.move_on_after(limit):
            while not condition() and not self.ended:
                await self._changed.wait()
        return bool(condition())

    # -- from the agent --------------------------------------------------------------------------

    async def read(self) -> None:
        """Task: take what the agent says until its end."""
        while data := await self.transport.receive_some():
            for frame in self._receiver.receive(data):
                await self._take(frame)
            self._tell()
        for frame in self._receiver.receive_eof():
            await self._take(frame)
        self.ended = True
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def _take(self, frame: jsonrpc.Frame) -> None:
        match frame:
            case jsonrpc.Batch():
                if self.version == 1:
                    self._problem("an array of messages, which version 1 does not have")
                for part in frame.frames:
                    await self._take(part)
            case jsonrpc.Response():
                self._take_response(frame)
            case jsonrpc.Notification():
                self._take_notification(frame)
            case jsonrpc.Request():
                await self._serve(frame)
            case jsonrpc.InvalidRequest():
                self._problem(f"a request that cannot be answered: {frame.reason}")
            case jsonrpc.Noise():
                self.noise += 1
                self.noisy = self.noisy or frame.raw[:200].decode("utf-8", "replace")
            case jsonrpc.Overlong():
                self._problem(f"a line of more than {jsonrpc.MAX_LINE:,} bytes")

    def _take_response(self, response: jsonrpc.Response) -> None:
        ident = response.id
        if ident is None and response.error is not None:
            self.refused.append(response.error)
        elif type(ident) not in (int, str) or ident not in self._waiting:
            self._problem(f"an answer to nothing that was asked, with the id {str(ident)[:40]!r}")
        elif ident in self._answers:
            self._problem(f"a second answer to the request {str(ident)[:40]!r}")
        else:
            self._answers[ident] = response
            if response.error is not None:
                for problem in forms.error_problems(response.error):
                    self._problem(problem)

    def _take_notification(self, told: jsonrpc.Notification) -> None:
        if told.method != "session/update":
            if not told.method.startswith(("_", "$/", "elicitation/")):
                self._problem(f"a notification that does not exist: {told.method[:80]!r}")
            return
        params = told.params if type(told.params) is dict else {}
        session, update = params.get("sessionId"), params.get("update")
        if type(session) is not str or type(update) is not dict:
            self._problem("a session/update without sessionId or update")
            return
        self.updates.append((session, update))
        for problem in forms.update_problems(update, self.version):
            self._problem(problem)

    def _problem(self, problem: str) -> None:
        if problem not in self.problems and len(self.problems) < PROBLEMS:
            self.problems.append(problem)

    # -- what it asks for ------------------------------------------------------------------------

    async def _serve(self, request: jsonrpc.Request) -> None:
        method = request.method
        params = request.params if type(request.params) is dict else {}
        if len(self.asked) < 1000:
            self.asked.append(method)
        declared = method in _ALWAYS or (self.version == 1 and method in _FILES)
        if not declared and not method.startswith("_") and method not in self.undeclared:
            self.undeclared.append(method)
        body: dict[str, Any]
        if method == "session/request_permission":
            body = {"result": {"outcome": _refusal(params.get("options"))}}
        elif declared:
            body = self._serve_file(method, params)
        else:
            body = _error(ErrorCode.METHOD_NOT_FOUND, "not offered by this client")
        await self.send(jsonrpc.encode({"jsonrpc": "2.0", "id": request.id, **body}))

    def _serve_file(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        path, content = params.get("path"), params.get("content")
        if type(path) is not str or not os.path.isabs(path):
            self._problem(f"{method} with a path that is not absolute")
            return _error(ErrorCode.INVALID_PARAMS, "path must be absolute")
        folder = os.path.realpath(self._folder)
        real = os.path.realpath(path)
        if os.path.commonpath([folder, real]) != folder:
            return _error(ErrorCode.INVALID_PARAMS, "outside of the session's folder")
        try:
            if method == "fs/read_text_file":
                return {"result": {"content": Path(real).read_text(encoding="utf-8")}}
            if type(content) is not str:
                return _error(ErrorCode.INVALID_PARAMS, "content must be a string")
            Path(real).write_text(content, encoding="utf-8")
        except FileNotFoundError:
            return _error(ErrorCode.RESOURCE_NOT_FOUND, "no such file")
        except (OSError, ValueError) as error:
            return _error(ErrorCode.INTERNAL_ERROR, str(error))
        return {"result": {}}


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": int(code), "message": message}}


def _refusal(options: JSON) -> dict[str, Any]:
    """The answer no: the agent's option for it, or that nobody chose."""
    for option in options if type(options) is list else []:
        if type(option) is dict and re.match("reject", str(option.get("kind"))):
            return {"outcome": "selected", "optionId": option.get("optionId")}
    return {"outcome": "cancelled"}


def initialize(version: int) -> dict[str, Any]:
    """The parameters of ``initialize``."""
    return outgoing.initialize(version, CAPABILITIES, INFO)
