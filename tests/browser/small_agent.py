"""The least an agent can be, on the standard library: for agents that say what no good one would.

One session, one turn at a time, no capabilities. A script makes it an agent by `serve`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

SESSION = "s"

_writing = threading.Lock()


def send(**message: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message})
    with _writing:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def update(kind: str, /, **fields: Any) -> None:
    content = {"sessionUpdate": kind, **fields}
    send(method="session/update", params={"sessionId": SESSION, "update": content})


def say(text: str, kind: str = "agent_message_chunk") -> None:
    update(kind, content={"type": "text", "text": text})


def read() -> dict[str, Any]:
    """The next message; ends the process with the input."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def serve(prompt: Callable[[str], None], after: Callable[[], None] | None = None) -> None:
    """Serve until the input ends.

    Args:
        prompt: serves one prompt's text.
        after: is called once its answer is sent.
    """
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                info = {"name": "small", "version": "1"}
                result: dict[str, Any] = {"protocolVersion": 1, "agentInfo": info}
                send(id=message["id"], result=result)
            case "session/new":
                send(id=message["id"], result={"sessionId": SESSION})
            case "session/prompt":
                prompt("".join(block.get("text", "") for block in message["params"]["prompt"]))
                send(id=message["id"], result={"stopReason": "end_turn"})
                if after is not None:
                    after()
            case _:
                pass  # session/cancel, and the answers to questions
