"""The answers to a batch: they go out together, in one array, when the last one is there (C81)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import ErrorCode
from ..protocol import jsonrpc

ERRORS: Final = 100
"""Entries of a batch that are no messages and are answered, each by an error of its own."""

Message = dict[str, Any]


class Answers:
    """Collects what a batch is answered; a batch without a request is answered by nothing (C80).

    Args:
        batch: of the peer's.
        send: the array.
    """

    def __init__(self, batch: jsonrpc.Batch, send: Callable[[list[Message]], None]) -> None:
        asked = (jsonrpc.Request, jsonrpc.InvalidRequest)
        useless = min(batch.useless, ERRORS)
        self._expected = useless + sum(isinstance(frame, asked) for frame in batch.frames)
        self._send = send
        self._answers: list[Message] = []
        for _ in range(useless):
            self.refuse(jsonrpc.InvalidRequest(None, "an entry of a batch that is no message"))

    def add(self, answer: Message) -> None:
        self._answers.append(answer)
        if len(self._answers) == self._expected:
            self._send(self._answers)

    def refuse(self, request: jsonrpc.InvalidRequest) -> None:
        self.add(jsonrpc.error(request.id, ErrorCode.INVALID_REQUEST, request.reason))
