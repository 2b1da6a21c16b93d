"""An agent that goes on after its answer: its updates come once a file named ``go`` exists in its
working directory, so that a test decides when."""

from __future__ import annotations

import time
from pathlib import Path

from tests.browser.small_agent import say, serve, update

CALL = "call-1"


def prompt(_text: str) -> None:
    say("An early word.")
    fields = {"title": "A slow tool", "kind": "other", "status": "in_progress"}
    update("tool_call", toolCallId=CALL, **fields)


def after() -> None:
    while not Path("go").exists():
        time.sleep(0.01)
    update("tool_call_update", toolCallId=CALL, status="completed", rawOutput="a late output")
    say("A late word.")


if __name__ == "__main__":
    serve(prompt, after)
