"""What each request of the language does.

Rules:
- `HANDLERS` has one function for each word of `language.WORDS`, plus ``say`` and ``misuse``; each
  gets the turn and the request's arguments and says whether it succeeded.
- In the mode ``plan`` only `HARMLESS` requests are run; the others become a plan.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from acp_jupyter.demo_agent import language, samples, tools
from acp_jupyter.demo_agent.language import Request
from acp_jupyter.demo_agent.settings import MODES, config_options
from acp_jupyter.demo_agent.turn import Plan, Stop, Turn
from acp_jupyter.demo_agent.wire import INTERNAL_ERROR, Json, RpcError

SLOW_STEP_S = 0.1
CRASH_STATUS = 17
ECHOED_CHARACTERS = 400
HARMLESS = frozenset({"help", "say", "misuse", "mode", "usage", "commands", "title"})

Handler = Callable[..., bool]


def _help(turn: Turn) -> bool:
    turn.say(language.help_text().rstrip())
    return True


def _plan(turn: Turn, text: str) -> bool:
    items = [item.strip() for item in text.split(",") if item.strip(" !")]
    turn.plan = Plan(turn, items)
    return True


def _think(turn: Turn, text: str) -> bool:
    turn.think(text)
    return True


def _show(turn: Turn, kind: str) -> bool:
    turn.chunk(samples.content(kind))
    return True


def _table(turn: Turn) -> bool:
    turn.say(samples.TABLE.rstrip())
    return True


def _markdown(turn: Turn) -> bool:
    turn.say(samples.MARKDOWN.rstrip())
    return True


def _count(turn: Turn, number: str) -> bool:
    for i in range(1, int(number) + 1):
        turn.write(f"{i}" if i == 1 else f" {i}")
    return True


def _text(turn: Turn, number: str) -> bool:
    for piece in samples.pieces(samples.text_of_length(int(number))):
        turn.write(piece)
    return True


def _slow(turn: Turn, number: str) -> bool:
    for i in range(1, int(number) + 1):
        turn.pause(SLOW_STEP_S)
        turn.write(f"Step {i} of {number}.\n\n")
    return True


def _wait(turn: Turn) -> bool:
    turn.pause(None)
    return True


def _usage(turn: Turn) -> bool:
    turn.send_update(turn.usage())
    session = turn.session
    turn.say(
        f"So far {session.input_tokens} tokens in and {session.output_tokens} tokens out "
        f"with the model `{session.model}`."
    )
    return True


def _mode(turn: Turn, mode: str) -> bool:
    if mode not in MODES:
        turn.say(f"There is no mode `{mode}`. The modes are {_listed(MODES)}.")
        return False
    turn.session.mode = mode
    turn.send_update({"sessionUpdate": "current_mode_update", "currentModeId": mode})
    options = config_options(turn.session, turn.offers)
    turn.send_update({"sessionUpdate": "config_option_update", "configOptions": options})
    turn.say(f"The mode is now `{mode}`: {MODES[mode][1]}")
    return True


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _title(turn: Turn, title: str) -> bool:
    turn.session.title = title
    turn.send_update({"sessionUpdate": "session_info_update", "title": title})
    turn.say("The session has a new title.")
    return True


def _commands(turn: Turn) -> bool:
    commands = language.available_commands()
    turn.send_update({"sessionUpdate": "available_commands_update", "availableCommands": commands})
    turn.say(f"I offer {len(commands)} commands.")
    return True


def _notice(turn: Turn, text: str) -> bool:
    if turn.offers.notices:
        turn.send_update({"sessionUpdate": "notice", "severity": "info", "title": text})
    else:
        turn.say(f"Notice: {text}")
    return True


def _compact(turn: Turn) -> bool:
    if not turn.offers.compaction:
        turn.say("Your client does not show compactions.")
        return True
    compaction = f"{turn.session.session_id}-{turn.number}"
    summary = {"type": "text", "text": f"The session so far has {turn.number} turns."}
    turn.emit(_compaction(compaction, "in_progress"))
    turn.emit(
        {
            "sessionUpdate": "compaction_summary_chunk",
            "compactionId": compaction,
            "content": summary,
        }
    )
    turn.emit(_compaction(compaction, "completed"))
    return True


def _compaction(compaction: str, status: str) -> Json:
    return {"sessionUpdate": "compaction_update", "compactionId": compaction, "status": status}


def _unknown(turn: Turn) -> bool:
    turn.send_update({"sessionUpdate": "_demo_unknown", "text": "No client knows this kind."})
    return True


def _fail(_turn: Turn) -> bool:
    raise RpcError(INTERNAL_ERROR, "The demo agent was asked to fail.", {"request": "fail"})


def _refuse(turn: Turn) -> bool:
    turn.say("I refuse.")
    raise Stop("refusal")


def _max(_turn: Turn, what: str) -> bool:
    raise Stop("max_tokens" if what == "tokens" else "max_turn_requests")


def _crash(turn: Turn) -> bool:
    turn.save()
    os._exit(CRASH_STATUS)


def _stderr(turn: Turn, text: str) -> bool:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    turn.say("I wrote a line to standard error.")
    return True


def _say(turn: Turn, text: str) -> bool:
    """Plain text: say it back, and how to get help."""
    shown = text[:ECHOED_CHARACTERS] + ("…" if len(text) > ECHOED_CHARACTERS else "")
    quoted = "\n".join(f"> {line}".rstrip() for line in shown.splitlines())
    turn.say(f"You said ({len(text)} characters):\n\n{quoted}")
    if turn.session.model == "large":
        words = len(text.split())
        turn.say(f"That is {words} words; the small model does not count them.")
    turn.say("I am a demo agent without a model. Type `/help` to see what I understand.")
    return True


def _misuse(turn: Turn, word: str) -> bool:
    turn.say(language.usage(word))
    return False


HANDLERS: dict[str, Handler] = {
    "help": _help,
    "plan": _plan,
    "think": _think,
    "read": tools.read,
    "write": tools.write,
    "edit": tools.edit,
    "delete": tools.delete,
    "search": tools.search,
    "run": tools.run,
    "ask": tools.ask,
    "permissions": tools.permissions,
    "show": _show,
    "table": _table,
    "markdown": _markdown,
    "count": _count,
    "text": _text,
    "slow": _slow,
    "wait": _wait,
    "usage": _usage,
    "mode": _mode,
    "title": _title,
    "commands": _commands,
    "notice": _notice,
    "compact": _compact,
    "unknown": _unknown,
    "fail": _fail,
    "refuse": _refuse,
    "max": _max,
    "crash": _crash,
    "stderr": _stderr,
    "say": _say,
    "misuse": _misuse,
}


def run_requests(turn: Turn, requests: list[Request]) -> None:
    """Run the requests in order, keeping the plan's entries in step."""
    postponed: list[Request] = []
    for request in requests:
        turn.check()
        if turn.session.mode == "plan" and request.word not in HARMLESS:
            postponed.append(request)
            continue
        _run_one(turn, request)
    if postponed:
        _only_plan(turn, postponed)
    elif turn.plan is not None:
        # Entries that no request was left for: what they name needs nothing done.
        while (entry := turn.plan.start_next()) is not None:
            turn.plan.mark(entry, "completed")


def _run_one(turn: Turn, request: Request) -> None:
    turn.new_message()
    if turn.session.verbose:
        turn.think(f"Next: {request.source}")
    plan = turn.plan
    entry = plan.start_next() if plan is not None else None
    succeeded = HANDLERS[request.word](turn, *request.arguments)
    if plan is not None and entry is not None:
        plan.mark(entry, "completed" if succeeded else "pending")


def _only_plan(turn: Turn, requests: list[Request]) -> None:
    turn.new_message()
    Plan(turn, [request.source for request in requests])
    turn.say("The mode is `plan`, so I ran nothing. `mode ask` lets me work.")


def receive(turn: Turn, blocks: list[Json]) -> None:
    """Answer a prompt: describe its attachments, then run the requests of its text."""
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    attachments = [samples.describe(block) for block in blocks if block["type"] != "text"]
    if attachments:
        turn.say("You attached:\n\n" + "\n".join(f"- {line}" for line in attachments))
    requests = language.parse(text)
    if not requests and not attachments:
        turn.say("Your prompt is empty. Type `/help` to see what I understand.")
    run_requests(turn, requests)
