"""What clients in this process send, held against the official schema of its version.

`Wire` sees every `Connection` that begins with ``initialize``, whatever agent is at its other end:
the bundled one, those of the SDKs, remote ones and replays. Agents of `tests.scripted` are left to
it, which knows what a test means to be outside of the schema. Kernels are other processes: what
they send is seen by the scripted agents that they meet.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_jupyter.connection.connection import Connection
from acp_jupyter.protocol import jsonrpc
from tests.acp_schema import validate_message

SEEN = 300
"""Different messages of one test that are looked at."""


class Wire:
    """The messages that were sent, by connection; `check` validates them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._sent: dict[int, list[bytes]] = {}
        self._served: dict[tuple[int, str], str] = {}
        self._kept: list[Connection] = []  # so that no other one gets its id
        self._size = 0
        send, take_request = Connection._send, Connection._take_request

        def sending(connection: Connection, message: Any) -> None:
            send(connection, message)
            self._keep(connection, message)

        def taking(connection: Connection, request: jsonrpc.Request, *rest: Any) -> None:
            self._served[id(connection), json.dumps(request.id)] = request.method
            take_request(connection, request, *rest)

        monkeypatch.setattr(Connection, "_send", sending)
        monkeypatch.setattr(Connection, "_take_request", taking)

    def _keep(self, connection: Connection, message: Any) -> None:
        begins = isinstance(message, dict) and message.get("method") == "initialize"
        if id(connection) not in self._sent:
            spec = getattr(connection._handler, "spec", None)
            if not begins or spec is None or "scripted_agent.py" in str(spec.argv):
                return
            self._kept.append(connection)
            self._sent[id(connection)] = []
        if self._size < SEEN:
            self._size += 1
            self._sent[id(connection)].append(jsonrpc.encode(message))

    def check(self) -> None:
        """Hold all that was sent against the schema.

        Raises:
            SchemaMismatch: the first message that it does not allow.
        """
        for connection, lines in list(self._sent.items()):
            version = 1
            seen: set[str] = set()
            for line in list(lines):
                read = json.loads(line)
                for message in read if isinstance(read, list) else [read]:
                    if message.get("method") == "initialize":
                        version = message["params"]["protocolVersion"]
                    self._check_one(connection, message, version, seen)

    def forget(self) -> None:
        """Leave out what was sent so far: the test means it to be outside of the schema."""
        self._sent = {connection: [] for connection in self._sent}

    def _check_one(
        self, connection: int, message: dict[str, Any], version: int, seen: set[str]
    ) -> None:
        method = self._served.get((connection, json.dumps(message.get("id"))), "_unknown")
        answers = None if "method" in message else method
        same = json.dumps([answers, {**message, "id": 0}])
        if same not in seen:
            seen.add(same)
            validate_message("to_agent", message, version, method_of_response=answers)
