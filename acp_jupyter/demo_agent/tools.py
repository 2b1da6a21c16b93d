"""The requests that work on files and commands, and the questions to the user.

Rules:
- The client's files and terminals are used when it offers them, and are then the boundary; our own
  file access stays inside the session's roots and refuses everything else with the same words.
- Nothing is changed or run before `permit` said yes.
- Every tool call ends as completed or failed, and the answer says in one sentence what happened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from acp_jupyter.demo_agent import command, language, samples
from acp_jupyter.demo_agent.turn import ToolCall, Turn
from acp_jupyter.demo_agent.wire import RESOURCE_NOT_FOUND, Cancelled, Json, RpcError

MAX_FILE_BYTES = 4_000_000
MAX_SEARCHED_FILES = 2_000
MAX_MATCHES = 50
MAX_PERMISSIONS = 100

_ALWAYS = {"edit": "edits", "delete": "deletions", "execute": "commands"}


class ToolError(Exception):
    """The tool could not do its work; the text goes to the user."""


# -- permission ----------------------------------------------------------------------------------


def permit(turn: Turn, call: ToolCall) -> bool:
    """Ask the user, unless the mode or an earlier "always" answers; false marks the call failed."""
    session, kind = turn.session, call.state["kind"]
    if session.mode == "trust":
        return True
    if kind not in session.remembered:
        chosen = _ask_permission(turn, call, _permission_options(kind))
        if chosen in ("allow-always", "reject-always"):
            session.remembered[kind] = chosen == "allow-always"
        allowed = chosen in ("allow-once", "allow-always")
    else:
        allowed = session.remembered[kind]
    if not allowed:
        call.fail("The user rejected it.")
        turn.say("That was not permitted, so I changed nothing.")
    return allowed


def _permission_options(kind: str) -> list[Json]:
    what = _ALWAYS[kind]
    return [
        {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "allow-always", "name": f"Always allow {what}", "kind": "allow_always"},
        {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
        {"optionId": "reject-always", "name": f"Always reject {what}", "kind": "reject_always"},
    ]


def _ask_permission(turn: Turn, call: ToolCall, options: list[Json]) -> str:
    pending = turn.begin("session/request_permission", {"toolCall": call.state, "options": options})
    return _permission_answer(turn, pending)


def _permission_answer(turn: Turn, pending: Any) -> str:
    """The chosen option's id; empty where the client could not ask or answered nonsense."""
    try:
        # The client itself must settle a permission request when it cancels the turn.
        result = turn.wait(pending, on_cancel=lambda: None)
    except RpcError:
        return ""
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict):
        return ""
    if outcome.get("outcome") == "cancelled":
        raise Cancelled
    return str(outcome.get("optionId", ""))


def permissions(turn: Turn, number: str) -> bool:
    """``permissions N``: N requests at once, answered in any order."""
    count = min(int(number), MAX_PERMISSIONS)
    if turn.session.mode == "trust":
        turn.say(f"The mode is `trust`, so I did not ask {count} times.")
        return True
    calls = [
        turn.tool_call(f"Question {i} of {count}", "other", "ask", rawInput={"number": i})
        for i in range(1, count + 1)
    ]
    options = [
        {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
    ]
    under_way = [
        turn.begin("session/request_permission", {"toolCall": call.state, "options": options})
        for call in calls
    ]
    allowed = 0
    for call, pending in zip(calls, under_way, strict=True):
        if _permission_answer(turn, pending) == "allow-once":
            allowed += 1
            call.complete()
        else:
            call.fail("The user rejected it.")
    turn.say(f"{allowed} of {count} were allowed.")
    return True


def ask(turn: Turn, text: str) -> bool:
    """``ask QUESTION? A | B``: by a form, or by a permission request with the choices."""
    question, mark, rest = text.partition("?")
    choices = [choice.strip() for choice in rest.split("|") if choice.strip()] or ["Yes", "No"]
    question = (question + mark).strip()
    answer = _ask_form if turn.offers.form else _ask_by_permission
    try:
        chosen = answer(turn, question, choices)
    except RpcError as error:
        turn.say(f"I could not ask: {error.message}")
        return False
    turn.say("You did not answer." if chosen is None else f"You chose: {chosen}.")
    return chosen is not None


def _ask_form(turn: Turn, question: str, choices: list[str]) -> str | None:
    schema = {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "title": "Answer",
                "oneOf": [{"const": choice, "title": choice} for choice in choices],
            },
            "note": {"type": "string", "title": "Note", "description": "Anything to add"},
        },
        "required": ["answer"],
    }
    result = turn.request(
        "elicitation/create", {"mode": "form", "message": question, "requestedSchema": schema}
    )
    if not isinstance(result, dict) or result.get("action") != "accept":
        return None
    content = result.get("content")
    if not isinstance(content, dict) or content.get("answer") not in choices:
        return None
    note = content.get("note")
    return f"{content['answer']} ({note})" if isinstance(note, str) and note else content["answer"]


def _ask_by_permission(turn: Turn, question: str, choices: list[str]) -> str | None:
    call = turn.tool_call(question, "other", "ask", rawInput={"question": question})
    options = [
        {"optionId": f"choice-{i}", "name": choice, "kind": "allow_once"}
        for i, choice in enumerate(choices, 1)
    ]
    options.append({"optionId": "skip", "name": "Skip the question", "kind": "reject_once"})
    option = _ask_permission(turn, call, options)
    names = {item["optionId"]: item["name"] for item in options[:-1]}
    if option not in names:
        call.fail("The question was not answered.")
        return None
    call.complete(rawOutput={"answer": names[option]})
    return str(names[option])


# -- files ---------------------------------------------------------------------------------------


def absolute(turn: Turn, name: str) -> str:
    return os.path.normpath(os.path.join(turn.session.cwd, name))


def _confined(turn: Turn, path: str) -> str:
    """The real path, if it is inside the session's roots."""
    real = os.path.realpath(path)
    for root in turn.session.roots:
        real_root = os.path.realpath(root)
        if real != real_root and os.path.commonpath([real, real_root]) == real_root:
            return real
    raise ToolError("The path is outside the session's directories.")


def _read_own(path: str) -> str | None:
    """The text of a file that is ours to read; None if there is no such file."""
    try:
        if not os.path.isfile(path):
            if os.path.exists(path):
                raise ToolError("It is no regular file.")
            return None
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ToolError(f"{error.strerror}.") from error
    if len(data) > MAX_FILE_BYTES:
        raise ToolError("The file is too large.")
    return data.decode("utf-8", "replace")


def _read(turn: Turn, path: str) -> str | None:
    """The text of a file by the client or by ourselves; None if there is no such file."""
    if not turn.offers.read:
        return _read_own(_confined(turn, path))
    try:
        result = turn.request("fs/read_text_file", {"path": path})
    except RpcError as error:
        if error.code == RESOURCE_NOT_FOUND:
            return None
        raise ToolError(f"The client refused: {error.message}") from error
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        raise ToolError("The client sent no content.")
    return str(result["content"])


def _write(turn: Turn, path: str, text: str) -> None:
    if turn.offers.write:
        try:
            turn.request("fs/write_text_file", {"path": path, "content": text})
        except RpcError as error:
            raise ToolError(f"The client refused: {error.message}") from error
        return
    real = _confined(turn, path)
    try:
        os.makedirs(os.path.dirname(real), exist_ok=True)
        with open(real, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise ToolError(f"{error.strerror}.") from error


def _file_call(turn: Turn, verb: str, kind: str, name: str, **raw_input: str) -> ToolCall:
    path = absolute(turn, name)
    return turn.tool_call(
        f"{verb} {name}",
        kind,
        f"{verb.lower()}_file",
        locations=[{"path": path}],
        rawInput={"path": path, **raw_input},
    )


def _give_up(turn: Turn, call: ToolCall, what: str, reason: str) -> bool:
    call.fail(reason)
    turn.say(f"I could not {what}. {reason}")
    return False


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def read(turn: Turn, name: str) -> bool:
    """``read FILE``."""
    call = _file_call(turn, "Read", "read", name)
    call.start()
    try:
        text = _read(turn, absolute(turn, name))
    except ToolError as error:
        return _give_up(turn, call, f"read `{name}`", str(error))
    if text is None:
        return _give_up(turn, call, f"read `{name}`", "There is no such file.")
    call.complete(content=[samples.text_content(text)], rawOutput={"characters": len(text)})
    lines, characters = _count(len(text.splitlines()), "line"), _count(len(text), "character")
    turn.say(f"`{name}` has {lines} and {characters}.")
    return True


def _change(turn: Turn, call: ToolCall, old: str | None, new: str, what: str) -> bool:
    """Show the diff, ask, write."""
    path = call.state["locations"][0]["path"]
    if not turn.offers.write:
        _confined(turn, path)
    call.update(content=[{"type": "diff", "path": path, "oldText": old, "newText": new}])
    if not permit(turn, call):
        return False
    call.start()
    _write(turn, path, new)
    call.complete(rawOutput={"characters": len(new)})
    turn.say(what)
    return True


def write(turn: Turn, name: str, text: str) -> bool:
    """``write FILE: TEXT``."""
    new = language.unescape(text)
    call = _file_call(turn, "Write", "edit", name, content=new)
    try:
        old = _read(turn, absolute(turn, name))
        what = "created" if old is None else "replaced"
        return _change(turn, call, old, new, f"I {what} `{name}` ({len(new)} characters).")
    except ToolError as error:
        return _give_up(turn, call, f"write `{name}`", str(error))


def edit(turn: Turn, name: str, old_part: str, new_part: str) -> bool:
    """``edit FILE: OLD -> NEW``: the first occurrence only."""
    before, after = language.unescape(old_part), language.unescape(new_part)
    call = _file_call(turn, "Edit", "edit", name, old=before, new=after)
    try:
        old = _read(turn, absolute(turn, name))
        if old is None:
            raise ToolError("There is no such file.")
        if before not in old:
            raise ToolError(f"It does not contain `{before}`.")
        new = old.replace(before, after, 1)
        return _change(turn, call, old, new, f"I edited `{name}`.")
    except ToolError as error:
        return _give_up(turn, call, f"edit `{name}`", str(error))


def delete(turn: Turn, name: str) -> bool:
    """``delete FILE``: always our own access, the protocol has no method for it."""
    call = _file_call(turn, "Delete", "delete", name)
    try:
        real = _confined(turn, absolute(turn, name))
        old = _read_own(real)
        if old is None:
            raise ToolError("There is no such file.")
        if not permit(turn, call):
            return False
        call.start()
        try:
            os.unlink(real)
        except OSError as error:
            raise ToolError(f"{error.strerror}.") from error
    except ToolError as error:
        return _give_up(turn, call, f"delete `{name}`", str(error))
    call.complete()
    turn.say(f"I deleted `{name}`.")
    return True


# -- search --------------------------------------------------------------------------------------


def _files(root: str) -> Iterator[str]:
    for directory, names, files in os.walk(root):
        names[:] = sorted(n for n in names if not n.startswith(".") and n != "node_modules")
        yield from (os.path.join(directory, n) for n in sorted(files) if not n.startswith("."))


def _matches(turn: Turn, text: str) -> list[tuple[str, int, str]]:
    """Path, line number from 1 and line of what was found, in a stable order."""
    found: list[tuple[str, int, str]] = []
    searched = 0
    for root in turn.session.roots:
        for path in _files(root):
            turn.check()
            searched += 1
            if searched > MAX_SEARCHED_FILES:
                return found
            try:
                content = _read_own(_confined(turn, path)) or ""
            except ToolError:
                continue
            for number, line in enumerate(content.splitlines(), 1):
                if text in line:
                    found.append((path, number, line.strip()[:200]))
                    if len(found) == MAX_MATCHES:
                        return found
    return found


def search(turn: Turn, text: str) -> bool:
    """``search TEXT``."""
    call = turn.tool_call(f"Search for {text}", "search", "search", rawInput={"text": text})
    call.start()
    found = _matches(turn, text)
    lines = "\n".join(
        f"{os.path.relpath(path, turn.session.cwd)}:{number}: {line}"
        for path, number, line in found
    )
    call.complete(
        content=[samples.text_content(lines)] if found else [],
        locations=[{"path": path, "line": number} for path, number, _ in found],
        rawOutput={"matches": len(found)},
    )
    files = len({path for path, _, _ in found})
    turn.say(f"I found {_count(len(found), 'line')} with `{text}` in {_count(files, 'file')}.")
    return True


# -- commands ------------------------------------------------------------------------------------


def run(turn: Turn, text: str) -> bool:
    """``run COMMAND``: in the client's terminal if offered, else as our own child process."""
    program, arguments = command.split(text)
    call = turn.tool_call(
        f"Run {text}",
        "execute",
        "run_command",
        rawInput={"command": program, "args": arguments, "cwd": turn.session.cwd},
    )
    if not permit(turn, call):
        return False
    run_it = command.in_terminal if turn.offers.terminal else command.in_child
    try:
        result = run_it(turn, call, program, arguments)
    except (OSError, RpcError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message
        return _give_up(turn, call, f"run `{text}`", f"{reason}")
    changes: Json = {"rawOutput": {"exitCode": result.exit_code, "signal": result.signal}}
    if turn.offers.display:
        call.keep = {"content": [samples.text_content(result.output)]}
    elif not turn.offers.terminal:
        changes["content"] = [samples.text_content(result.output)]
    if result.exit_code == 0:
        call.complete(**changes)
    else:
        call.fail("", **changes)
    turn.say(f"`{text}` ended with {result.ending}.")
    return result.exit_code == 0
