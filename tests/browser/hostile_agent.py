"""An agent that says hostile things in every place where an agent can say anything.

A prompt is the name of a function below and its arguments. Texts are taken in parts of the corpus,
because a turn of all of them would be more than a page shows at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from tests import hostile
from tests.browser.small_agent import SESSION, read, say, send, update

NAME = f"<img src=x onerror={hostile.RUN}>Kn\u202eown\u2066\u200b agent"
"""What the agent calls itself, and its version."""

BLOCKS = [block for block in hostile.BLOCKS if len(str(block)) < 100_000]

SHORT = [text for text in hostile.TEXTS if len(text) < 2_000]
"""For places that a person reads whole: the long ones are there to be slow, once is enough."""

PARTS = 6
"""Turns that the corpus is told in."""

EACH = 4
"""Texts in one tool call."""

FENCE = "`" * 3_001
"""Longer than any that a text has."""


def part(number: int) -> list[str]:
    """A part of the corpus; each has some of every kind of text."""
    return hostile.TEXTS[number::PARTS]


def batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# -- what is said in turns -----------------------------------------------------------------------


def texts(number: str) -> str:
    """A part of the corpus as messages, thoughts and tool calls, and as the end of the turn."""
    some = part(int(number))
    for index, text in enumerate(some):
        message = {"content": text_block(text), "messageId": f"m-{number}-{index}"}
        update("agent_message_chunk", **message)
    for index, few in enumerate(batches([text for text in some if text in SHORT], EACH)):
        say("\n\n".join(few), "agent_thought_chunk")
        _tool_call(f"call-{number}-{index}", few)
    _usage(some[int(number)])
    return some[-1 - int(number)]


def _usage(text: str) -> None:
    update("usage_update", used=5, size=10, cost={"amount": 1.5, "currency": text})


def _tool_call(ident: str, some: Sequence[str]) -> None:
    both = "\n".join(some)
    first = some[0]
    content = [
        {"type": "content", "content": text_block(both)},
        {"type": "diff", "path": first, "oldText": both, "newText": f"{both}\n{first}"},
        {"type": first, "text": first},
    ]
    update(
        "tool_call",
        toolCallId=ident,
        title=first,
        kind=some[-1],
        status="failed",  # so that it is shown opened
        locations=[{"path": text, "line": 1} for text in some],
        rawInput={text: text for text in some},
        rawOutput=both,
        content=content,
    )


def blocks() -> None:
    for block in BLOCKS:
        update("agent_message_chunk", content=block)
    content = [{"type": "content", "content": block} for block in BLOCKS]
    update("tool_call", toolCallId="blocks", title="Blocks", status="failed", content=content)


def reports() -> None:
    """Plans, notices, unknown updates, compactions, and what sessions say to each other."""
    entries = [{"content": text, "priority": text, "status": text} for text in SHORT]
    for start in range(0, len(entries), 200):  # more is counted only
        listed = {"planId": f"items-{start}", "entries": entries[start : start + 200]}
        update("plan_update", plan=listed)
    for index, some in enumerate(batches(SHORT, 40)):
        update("plan_update", plan={"planId": f"text-{index}", "content": "\n\n".join(some)})
        update("plan_update", plan={"planId": f"uri-{index}", "uri": some[0]})
        names = {"title": some[1], "description": "\n".join(some), "state": {"state": some[2]}}
        update("subagent_update", sessionId=some[0], **names)
        content = [text_block("\n".join(some))]
        ends = {"senderSessionId": some[0], "recipientSessionId": some[1]}
        update("session_message", messageId=f"between-{index}", content=content, **ends)
    for index, text in enumerate(SHORT):
        update("notice", title=text, description=text, severity="error")
        update(text, content=text_block(text))
        if index % 10 == 0:
            both = "\n\n".join(SHORT[index : index + 10])
            summary = {"status": text, "summary": [text_block(both)], "error": both}
            update("compaction_update", compactionId=f"compaction-{index}", **summary)


def code() -> None:
    """The corpus as code blocks, each of which is proposed as a cell."""
    some = list(batches(SHORT, -(-len(SHORT) // 18)))
    languages = ["python", "bash", "markdown", "javascript", "html", "js"]
    for index, each in enumerate(some):
        source = "\n".join(["x = 1", *each])
        say(f"\n\n{FENCE}{languages[index % 3]}\n{source}\n{FENCE}\n\n")
    for language in languages[3:]:
        say(f"\n\n```{language}\n{hostile.RUN}\n```\n\n")


def decided() -> None:
    """Permissions that are decided by a rule, and questions that are put to nobody."""
    for index, some in enumerate(batches(SHORT, 2)):
        _permission(f"decided-{index}", some[0], list(some))
    for index, text in enumerate(SHORT):
        hidden = {"nobody": {"type": text, "title": text, "description": text}}
        schema = {"title": text, "description": text, "properties": hidden, "required": ["nobody"]}
        form: dict[str, Any] = {"mode": "form", "message": text, "requestedSchema": schema}
        visit = {"mode": "url", "message": text, "url": text, "elicitationId": str(index)}
        ask("elicitation/create", sessionId=SESSION, **(form if index % 2 else visit))


def client() -> None:
    """Files and terminals of the client's, some shown by a tool call and one by none."""
    for text in SHORT:
        path = f"{os.getcwd()}/{text}"
        ask("fs/read_text_file", sessionId=SESSION, path=path)
    for index, some in enumerate(batches(SHORT, 60)):
        data = "\r\n".join(some).encode("utf-8", "replace")
        write = f"import sys; sys.stdout.buffer.write({data!r})"
        words = [text.replace("\0", "") for text in some[:5]]
        arguments = ["-c", write, *(word.encode("utf-8", "replace").decode() for word in words)]
        _run(f"terminal-{index}" if index else "", sys.executable, arguments)
    for index, some in enumerate(batches(SHORT, 20)):
        terminal = {"terminal_id": f"streamed-{index}"}
        update("tool_call", toolCallId=f"streamed-{index}", title=some[0], kind="execute")
        for text in some:
            meta = {"terminal_output_delta": {**terminal, "data": f"{text}\r\n"}}
            update("tool_call_update", toolCallId=f"streamed-{index}", _meta=meta)
        ended = {"terminal_exit": {**terminal, "exit_code": 1, "signal": some[0]}}
        update("tool_call_update", toolCallId=f"streamed-{index}", status="failed", _meta=ended)


def _run(call: str, command: str, arguments: list[str]) -> None:
    made = ask("terminal/create", sessionId=SESSION, command=command, args=arguments)
    terminal = made["terminalId"]
    if call:
        content = [{"type": "terminal", "terminalId": terminal}]
        update("tool_call", toolCallId=call, title=call, kind="execute", content=content)
    for method in ("terminal/wait_for_exit", "terminal/release"):
        ask(method, sessionId=SESSION, terminalId=terminal)


def names() -> None:
    """The names of what the session offers."""
    some = SHORT[:200]
    commands = [{"name": f"c{text}", "description": text} for text in some]
    update("available_commands_update", availableCommands=commands)
    update("session_info_update", title=NAME)
    values = [
        {"value": f"v{index}", "name": text, "description": text, "group": text}
        for index, text in enumerate(SHORT)
    ]
    options: list[dict[str, Any]] = [
        {
            "id": f"option-{index}",
            "name": text,
            "description": text,
            "category": ["mode", "model", text][index % 3],
            "type": "select",
            "currentValue": f"v{index}",
            "options": values if index < 3 else values[index : index + 5],
        }
        for index, text in enumerate(hostile.DECEPTION + hostile.EVENTS + hostile.SVG)
    ]
    options[-1] |= {"type": "boolean", "currentValue": True}
    update("config_option_update", configOptions=options)


# -- what is asked ---------------------------------------------------------------------------------


def permission() -> None:
    """One question with hostile words everywhere, answered by anything."""
    _permission("asked", " ".join(SHORT[:20]), SHORT)
    say("It was answered.")


def _permission(ident: str, title: str, some: list[str]) -> None:
    everything = text_block("\n\n".join(some))
    call = {
        "toolCallId": ident,
        "title": title,
        "kind": "execute",
        "rawInput": {"command": some},
        "content": [{"type": "content", "content": everything}],
    }
    kinds = ("allow_once", "allow_always", "reject_once", "reject_always")
    options = [
        {"optionId": str(number), "name": text, "kind": kinds[number % 4]}
        for number, text in enumerate(some[:24])
    ]
    ask("session/request_permission", sessionId=SESSION, toolCall=call, options=options)


FIELDS = 40


def form() -> None:
    """One form with all of the corpus in the names of what it asks for."""
    some = list(batches(SHORT, -(-len(SHORT) // FIELDS)))
    properties = {
        f"{index} {each[0]}"[:200]: {
            "type": "string",
            "title": each[0],
            "description": "\n".join(each),
            "oneOf": [
                {"const": f"{number} {text}", "title": text, "description": text}
                for number, text in enumerate(each)
            ],
        }
        for index, each in enumerate(some)
    }
    words = {"title": NAME, "description": "\n".join(SHORT[:50])}
    schema = {"type": "object", "properties": properties, **words}
    message = "\n".join(SHORT[50:])
    ask("elicitation/create", sessionId=SESSION, mode="form", message=message,
        requestedSchema=schema)  # fmt: skip
    say("The form was answered.")


def visit() -> None:
    url = f"{hostile.HOST}/'onmouseover={hostile.RUN}//data-commandlinker-command=x"
    message = "\n".join(SHORT)
    ask("elicitation/create", sessionId=SESSION, mode="url", message=message, url=url,
        elicitationId=NAME)  # fmt: skip
    say("The visit was answered.")


_ids = count(1)


def ask(method: str, **params: Any) -> Any:
    """Ask the client, and wait for the answer; its result, if it has one."""
    ident = next(_ids)
    send(id=ident, method=method, params=params)
    while True:
        message = read()
        if "method" not in message and message.get("id") == ident:
            return message.get("result")


# -- serving -----------------------------------------------------------------------------------


def end() -> None:
    """As if it had crashed: the session is loaded again with the next prompt."""
    os._exit(1)


def load() -> None:
    """The history of the session that is loaded."""
    for some in batches(SHORT, 4):
        both = "\n\n".join(some)
        say(both, "user_message_chunk")
        say(both, "agent_thought_chunk")
        say(both)
        _tool_call(f"history-{some[0]}", some)


PROMPTS: dict[str, Callable[..., str | None]] = {
    made.__name__: made
    for made in (texts, blocks, reports, code, decided, client, names, permission, form, visit, end)
}


def state() -> dict[str, Any]:
    """What a new session has to offer: modes and models, as older agents have them."""
    modes = [{"id": f"m{index}", "name": text} for index, text in enumerate(SHORT)]
    models = [{"modelId": f"m{index}", "name": text} for index, text in enumerate(SHORT)]
    return {
        "modes": {"currentModeId": "m0", "availableModes": modes},
        "models": {"currentModelId": "m1", "availableModels": models},
    }


def serve() -> None:
    while True:
        message = read()
        ident, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case "initialize":
                info = {"name": NAME, "title": NAME, "version": NAME}
                capabilities = {"loadSession": True}
                result = {"agentInfo": info, "agentCapabilities": capabilities}
                send(id=ident, result={"protocolVersion": 1, **result})
            case "session/new":
                send(id=ident, result={"sessionId": SESSION, **state()})
            case "session/load":
                load()
                send(id=ident, result=state())
            case "session/prompt":
                words = params["prompt"][0]["text"].split()
                reason = PROMPTS[words[0]](*words[1:2] if words[0] == "texts" else ())
                send(id=ident, result={"stopReason": reason or "end_turn"})
            case _:
                pass  # session/cancel


if __name__ == "__main__":
    serve()
