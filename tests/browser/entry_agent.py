"""An agent whose work is looked at closely: a slow tool call, a long turn, proposed cells.

What is slow waits for a file named ``go`` in the working directory, so that a test decides when.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.browser.small_agent import say, serve, update

CALLS = 20
UPDATES = 10
STEP = 0.01

PYTHON = "made_by_agent = 6 * 7\nprint('the answer is', made_by_agent)"
BASH = "echo from the shell"
MARKDOWN = "## A proposed heading"


def prompt(text: str) -> None:
    match text.strip():
        case "slow":
            _slow()
        case "long":
            _long()
        case "cells":
            blocks = {"python": PYTHON, "bash": BASH, "markdown": MARKDOWN}
            say("\n\n".join(f"```{name}\n{code}\n```" for name, code in blocks.items()))
        case other:
            say(f"You said: {other}")


def _slow() -> None:
    call = {"title": "Look around", "kind": "execute", "rawInput": {"command": "ls -l"}}
    update("tool_call", toolCallId="slow", status="in_progress", **call)
    while not Path("go").exists():
        time.sleep(0.01)
    diff = {"type": "diff", "path": str(Path("seen.py").resolve()), "newText": "b = 2\nc = 3\n"}
    update(
        "tool_call_update",
        toolCallId="slow",
        status="completed",
        content=[diff | {"oldText": "a = 1\nc = 3\n"}],
        locations=[{"path": str(Path("seen.py").resolve()), "line": 2}],
    )


def _long() -> None:
    for number in range(CALLS):
        ident = f"call-{number}"
        update(
            "tool_call", toolCallId=ident, title=f"Call {number}", kind="execute", status="pending"
        )
        for step in range(UPDATES):
            lines = [f"line {line} of call {number}" for line in range(5 * step)]
            update(
                "tool_call_update",
                toolCallId=ident,
                status="completed" if step == UPDATES - 1 else "in_progress",
                rawOutput="\n".join(lines),
            )
            time.sleep(STEP)


if __name__ == "__main__":
    serve(prompt)
