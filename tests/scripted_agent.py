"""An agent that does what a test tells it, over ACP on stdio, in plain Python.

Run as ``python scripted_agent.py SCENARIO RECORD``. The scenario is a Python file (`tests.scripted`
writes it) that may define ``initialize``, ``new_session``, ``load_session`` and ``prompt``, each a
function of the `Agent`; what it does not define is done properly. RECORD is a directory: there
every line received, and everything the scenario notes, is kept in a file for each process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_S = 40.0


class Agent:
    """What a scenario works with.

    Attributes:
        session_id: of the newest session.
        turn: number of the prompt that runs, from 1.
        run: how many processes of this scenario have been started, this one included.
        given: the test's own values.
        version: of the protocol that it speaks at most.
        received: all messages so far, decoded.
        reading: cleared to stop reading standard input.
    """

    def __init__(self, scenario: dict[str, Any], record: Path) -> None:
        self._scenario = scenario
        self.given: dict[str, Any] = scenario.get("GIVEN", {})
        self.capabilities: dict[str, Any] = scenario.get("CAPABILITIES", {})
        self.version: int = scenario.get("VERSION", 1)
        self.session_id = "session-1"
        self.turn = 0
        self.run = len(list(record.glob("run-*"))) + 1
        self.received: list[dict[str, Any]] = []
        self.reading = threading.Event()
        self.reading.set()
        self._record = (record / f"run-{self.run}-{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._current = threading.local()
        self._next_id = 0

    # -- to the client -------------------------------------------------------------------------

    def raw(self, data: bytes) -> None:
        """Write these very bytes."""
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]

    def send(self, message: Any) -> None:
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and "method" in each and "id" in each:
                self._keep(asked=[each["id"], each["method"]])
        self.raw(json.dumps(message).encode() + b"\n")

    def update(self, session_id: str | None = None, **update: Any) -> None:
        params = {"sessionId": session_id or self.session_id, "update": update}
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def text(self, text: str, session_id: str | None = None) -> None:
        content = {"type": "text", "text": text}
        self.update(session_id, sessionUpdate="agent_message_chunk", content=content)

    def reply(self, result: Any = None, error: Any = None, ident: Any = ...) -> None:
        """Answer the request that is being served, or another one."""
        ident = self.current_id if ident is ... else ident
        self._current.answered = True
        body = {"error": error} if error is not None else {"result": result}
        self.send({"jsonrpc": "2.0", "id": ident, **body})

    def accept(self, message_id: str | None = "user-1") -> None:
        """Accept the prompt (version 2)."""
        self.reply({} if message_id is None else {"messageId": message_id})

    def state(self, state: str, **more: Any) -> None:
        """Tell the session's state (version 2)."""
        self.update(sessionUpdate="state_update", state=state, **more)

    def work(self, text: str = "done", stop_reason: str = "end_turn") -> None:
        """Accept the prompt, answer a text and stop (version 2)."""
        self.accept()
        self.state("running")
        content = {"type": "text", "text": text}
        self.update(sessionUpdate="agent_message_chunk", messageId="m-1", content=content)
        self.state("idle", stopReason=stop_reason)

    def end(self, stop_reason: str = "end_turn") -> None:
        self.reply({"stopReason": stop_reason})

    @property
    def current_id(self) -> Any:
        return self._current.id

    def request(self, method: str, params: Any, ident: Any = ...) -> Any:
        """Send a request without waiting for its answer; returns its id."""
        if ident is ...:
            self._next_id += 1
            ident = f"agent-{self._next_id}"
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        self.send(message)
        return ident

    def answer(self, ident: Any, limit: float = WAIT_S) -> dict[str, Any]:
        """Wait for the answer to a request of ours."""
        return self.wait(lambda m: "method" not in m and m.get("id") == ident, limit)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request in the session, wait for the answer, and note it under the method."""
        answer = self.answer(self.request(method, {"sessionId": self.session_id, **params}))
        self.note(method, {key: answer[key] for key in ("result", "error") if key in answer})
        return answer

    def permission(
        self, *kinds: str, title: str = "Do it", meta: Any = None, **call: Any
    ) -> dict[str, Any]:
        """Ask for permission with one option of each kind; an option's id is its kind."""
        options = [{"optionId": kind, "name": f"name of {kind}", "kind": kind} for kind in kinds]
        tool_call = {"toolCallId": f"call-{title}", "title": title, **call}
        extra = {} if meta is None else {"_meta": meta}
        return self.ask("session/request_permission", toolCall=tool_call, options=options, **extra)

    # -- from the client -----------------------------------------------------------------------

    def wait(
        self, find: str | Callable[[dict[str, Any]], bool], limit: float = WAIT_S, since: int = 0
    ) -> dict[str, Any]:
        """Wait for a message of a method, or one that ``find`` accepts."""

        def found() -> Any:
            for message in self.received[since:]:
                if message.get("method") == find if isinstance(find, str) else find(message):
                    return message
            return None

        with self._changed:
            message = self._changed.wait_for(found, limit)
        if message is None:
            self.note("timeout", str(find))
            raise TimeoutError(find)
        return dict(message)

    def note(self, key: str, value: Any = None) -> None:
        """Keep something for the test to look at, with the time it happened."""
        self._keep(note=key, value=value, at=time.monotonic())

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def hang(self) -> None:
        """Never come back."""
        threading.Event().wait()

    # -- the agent's own life ------------------------------------------------------------------

    def serve(self) -> None:
        self.note("pid", os.getpid())
        while True:
            self.reading.wait()
            line = sys.stdin.buffer.readline()
            if not line:
                break
            self._keep(received=line.decode("utf-8"))
            read = json.loads(line)
            for message in read if isinstance(read, list) else [read]:
                with self._changed:
                    self.received.append(message)
                    self._changed.notify_all()
                if "method" in message and "id" in message:
                    threading.Thread(target=self._handle, args=[message], daemon=True).start()
        at_end = self._scenario.get("at_end")
        if at_end is not None:
            at_end(self)

    def _handle(self, message: dict[str, Any]) -> None:
        self._current.id, self._current.answered = message["id"], False
        method = message["method"]
        names = {"session/new": "new_session", "session/load": "load_session"}
        name = names.get(method)
        handler = self._scenario.get(name or method.rpartition("/")[2])
        if method == "session/prompt":
            self.turn += 1
            self.note("turn", self.turn)
        if handler is not None:
            handler(self)
        if not self._current.answered:
            self._answer_properly(method, message.get("params") or {})

    def _answer_properly(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize" if self.version == 2 and params["protocolVersion"] == 2:
                info = {"name": "scripted", "version": "1"}
                capabilities = {"session": {}, **self.capabilities}
                self.reply({"protocolVersion": 2, "info": info, "capabilities": capabilities})
            case "initialize":
                self.reply(
                    {
                        "protocolVersion": 1,
                        "agentCapabilities": self.capabilities,
                        "agentInfo": {"name": "scripted", "version": "1"},
                        "authMethods": [],
                    }
                )
            case "session/new":
                self.reply({"sessionId": self.session_id})
            case "session/load":
                self.reply({})
            case "session/resume" if self.version == 2:
                self.reply({})
            case "session/prompt" if self.version == 2:
                self.work()
            case "session/prompt":
                self.end()
            case _:
                self.reply(error={"code": -32601, "message": "Method not found"})

    def _keep(self, **entry: Any) -> None:
        with self._writing:
            self._record.write(json.dumps(entry) + "\n")
            self._record.flush()


def main() -> None:
    path, record = sys.argv[1:3]
    scenario: dict[str, Any] = {"os": os, "sys": sys, "time": time, "json": json}
    exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), scenario)
    Agent(scenario, Path(record)).serve()
    sys.stdout.flush()
    os._exit(0)  # threads of the scenario may never end


if __name__ == "__main__":
    main()
