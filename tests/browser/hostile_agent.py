"""An agent that says hostile things in every place where an agent can say anything."""

from __future__ import annotations

from collections.abc import Iterator

from tests import hostile
from tests.browser.small_agent import ask_permission, read, say, serve, update

STRONGEST = [
    *hostile.SCRIPTS[:8],
    *hostile.EVENTS[:1],
    *hostile.EVENTS[4:12],
    *hostile.EVENTS[15:18],
    *hostile.FRAMES[:6],
    *hostile.FRAMES[9:12],
    *hostile.LINKS[:12],
    *hostile.IMAGES,
    *hostile.SVG,
    *hostile.STYLES[:6],
    *hostile.COMMANDS[:5],
    *hostile.MATHS[:6],
    *hostile.MATHS[11:16],
    *hostile.TERMINAL[-4:-3],
]
BLOCKS = [block for block in hostile.BLOCKS if len(str(block)) < 2_000]

EACH = 4
"""Texts in one entry."""


def _batches() -> Iterator[list[str]]:
    for start in range(0, len(STRONGEST), EACH):
        yield STRONGEST[start : start + EACH]


def prompt(text: str) -> None:
    if "ask" in text:
        _ask()
        return
    _say_all()


def _say_all() -> None:
    for number, texts in enumerate(_batches()):
        both = "\n\n".join(texts)
        say(both)
        say(both, "agent_thought_chunk")
        _tool_call(f"call-{number}", texts)
    for block in BLOCKS:
        update("agent_message_chunk", content=block)
    entries = [{"content": text, "priority": text, "status": text} for text in STRONGEST]
    update("plan", entries=entries)
    for text in STRONGEST[:8]:
        update(text, content={"type": "text", "text": text})


def _tool_call(ident: str, texts: list[str]) -> None:
    both = "\n".join(texts)
    first = texts[0]
    content = [
        {"type": "content", "content": {"type": "text", "text": both}},
        {"type": "diff", "path": first, "oldText": both, "newText": f"{both}\n{first}"},
        {"type": first, "text": first},
    ]
    update(
        "tool_call",
        toolCallId=ident,
        title=first,
        kind=texts[-1],
        status="failed",  # so that it is shown opened
        locations=[{"path": text, "line": 1} for text in texts],
        rawInput={text: text for text in texts},
        rawOutput=both,
        content=content,
    )


def _ask() -> None:
    """One question with hostile words everywhere, answered by anything."""
    everything = {"type": "text", "text": "\n\n".join(STRONGEST)}
    call = {
        "toolCallId": "asked",
        "title": " ".join(STRONGEST[:20]),
        "kind": "execute",
        "rawInput": {"command": STRONGEST},
        "content": [{"type": "content", "content": everything}],
    }
    kinds = ("allow_once", "allow_always", "reject_once", "reject_always")
    options = [
        {"optionId": str(number), "name": text, "kind": kinds[number % 4]}
        for number, text in enumerate(STRONGEST[:24])
    ]
    ask_permission(1, call, options)
    while read().get("id") != 1:
        pass
    say("It was answered.")


if __name__ == "__main__":
    serve(prompt)
