"""A small ACP client for tests of the bundled agent: a real process, newline JSON, bounded waits.

Every message in both directions is checked against the official schema when the peer is closed,
so no test of the agent can pass with a message that the protocol does not allow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.acp_schema import validate_message

WAIT_S = 15.0
HOLD = object()

ALL_OFFERS = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}


class AgentError(Exception):
    """The agent answered with a JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Peer:
    """A client of one agent process.

    Attributes:
        messages: everything received, in order, the entries of batches one by one.
        batches: how many arrays were received.
        answers: by method, a function from the params to the result; it may return `HOLD` to
            answer later by `reply`, or raise `AgentError` to answer with an error.
    """

    def __init__(self, store: Path | str, *, version: int = 1, **env: str) -> None:
        self.version = version
        environ = {**os.environ, "ACP_DEMO_STORE": str(store), **env}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "acp_jupyter.demo_agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
        )
        self.messages: list[dict[str, Any]] = []
        self.batches = 0
        self.sent: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.exempt: Callable[[dict[str, Any]], bool] = lambda message: False
        self.stderr = b""
        self._changed = threading.Condition()
        self._ended = False
        self._next_id = 0
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
        if kind is None:
            self.check_schema()

    # -- the wire --------------------------------------------------------------------------------

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            with self._changed:
                self.messages += message if isinstance(message, list) else [message]
                self.batches += isinstance(message, list)
                self._changed.notify_all()
            if isinstance(message, list):
                continue
            if "method" in message and "id" in message:
                self._serve(message)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        self.stderr = self.process.stderr.read()

    def _serve(self, message: dict[str, Any]) -> None:
        handler = self.answers.get(message["method"])
        if handler is None:
            self.reply(message, error={"code": -32601, "message": "not offered"})
            return
        try:
            result = handler(message["params"])
        except AgentError as error:
            self.reply(message, error={"code": error.code, "message": str(error)})
            return
        if result is not HOLD:
            self.reply(message, result)

    def send(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        if isinstance(message, dict):
            self.sent.append(message)
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(data + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the agent has ended, which the test finds out by what did not arrive

    def reply(self, request: dict[str, Any], result: Any = None, error: Any = None) -> None:
        answer = {"result": {} if result is None else result} if error is None else {"error": error}
        self.send({"jsonrpc": "2.0", "id": request["id"], **answer})

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, **params: Any) -> int:
        self._next_id += 1
        self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        return self._next_id

    def wait_for(self, find: Callable[[], Any], what: str = "") -> Any:
        """Wait until ``find`` returns something true, and return that."""
        with self._changed:
            found = self._changed.wait_for(lambda: find() or self._ended, WAIT_S) and find()
        assert found, f"never came: {what}; last: {self.messages[-3:]}; stderr: {self.stderr!r}"
        return found

    def response(self, request_id: int) -> Any:
        """The result of a request.

        Raises:
            AgentError: the agent answered with an error.
        """

        def find() -> Any:
            for message in reversed(self.messages):
                if "method" not in message and message.get("id") == request_id:
                    return message
            return None

        message = self.wait_for(find, f"the response to request {request_id}")
        if "error" in message:
            raise AgentError(message["error"])
        return message["result"]

    def call(self, method: str, **params: Any) -> Any:
        return self.response(self.request(method, **params))

    # -- the protocol ----------------------------------------------------------------------------

    def initialize(self, capabilities: dict[str, Any] | None = None) -> Any:
        return self.call("initialize", protocolVersion=1, clientCapabilities=capabilities or {})

    def new_session(self, cwd: Path | str, **more: Any) -> str:
        session_id: str = self.call("session/new", cwd=str(cwd), mcpServers=[], **more)["sessionId"]
        return session_id

    def start_prompt(self, session_id: str, *blocks: Any) -> int:
        prompt = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        return self.request("session/prompt", sessionId=session_id, prompt=prompt)

    def prompt(self, session_id: str, *blocks: Any) -> str:
        """Run a prompt turn; returns the stop reason."""
        reason: str = self.response(self.start_prompt(session_id, *blocks))["stopReason"]
        return reason

    def updates(self, kind: str = "", since: int = 0) -> list[dict[str, Any]]:
        """The session updates so far, of one kind or of all."""
        found = [
            message["params"]["update"]
            for message in self.messages[since:]
            if message.get("method") == "session/update"
        ]
        return [u for u in found if kind in ("", u["sessionUpdate"])]

    def text(self, kind: str = "agent_message_chunk", since: int = 0) -> str:
        return "".join(u["content"].get("text", "") for u in self.updates(kind, since))

    def requests(self, method: str) -> list[dict[str, Any]]:
        return [m for m in self.messages if m.get("method") == method and "id" in m]

    def wait_request(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        return self.wait_for(
            lambda: len(self.requests(method)) >= count and self.requests(method),
            f"{count} requests {method}",
        )

    def tool_call(self, call_id: str) -> dict[str, Any]:
        """A tool call with all its updates applied."""
        state: dict[str, Any] = {}
        for update in self.updates():
            if update.get("toolCallId") == call_id:
                state.update(update)
        return state

    def allow(self, option: str = "allow-once") -> None:
        self.answers["session/request_permission"] = lambda params: {
            "outcome": {"outcome": "selected", "optionId": option}
        }

    def cancel(self, session_id: str) -> None:
        """What a client does on a cancel: the notification, then every open question."""
        self.notify("session/cancel", sessionId=session_id)
        answered = {m["id"] for m in self.sent if "method" not in m}
        for message in self.requests("session/request_permission"):
            if message["id"] not in answered:
                self.reply(message, {"outcome": {"outcome": "cancelled"}})

    # -- the end ---------------------------------------------------------------------------------

    def wait_exit(self) -> int:
        return self.process.wait(WAIT_S)

    def close(self) -> int:
        """Close the agent's stdin and wait for its end; returns the exit status."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            status = self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join(WAIT_S)
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()
        return status

    def check_schema(self) -> None:
        """Hold everything that went over the wire against the official schema."""
        ours = {m["id"]: m["method"] for m in self.sent if "method" in m and "id" in m}
        theirs = {m["id"]: m["method"] for m in self.messages if "method" in m and "id" in m}
        for message in self.messages:
            if message.get("id", 0) is not None and not self.exempt(message):
                answers = ours.get(message.get("id"))
                validate_message("to_client", message, self.version, method_of_response=answers)
        for message in self.sent:
            if "method" not in message:
                answers = theirs[message["id"]]
                validate_message("to_agent", message, self.version, method_of_response=answers)
