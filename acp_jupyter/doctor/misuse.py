"""What an agent does with what no client should send: a process of its own for that.

An agent meets all of this sooner or later, by a client's fault or a newer version. It has to live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from ..errors import ErrorCode
from ..protocol import outgoing
from .examination import START_LIMIT, open_peer
from .findings import Findings
from .peer import CAPABILITIES, INFO, Answer, Peer, initialize

if TYPE_CHECKING:
    from ..services.agents import AgentSpec

FUTURE: Final = 65535
"""A version that does not exist; the largest number that one may have."""

SHORT: Final = 30.0
"""Seconds for an answer that takes no work."""

QUIET: Final = 1.0
"""Seconds in which an answer that JSON-RPC forbids would come."""

UNKNOWN: Final = "_acp-jupyter/no_such_method"


async def examine(found: Findings, spec: AgentSpec, env: Mapping[str, str], folder: str) -> None:
    """Send what is wrong, and see what comes."""
    version = found.version
    errors: list[int] = []
    async with open_peer(spec, env, folder, version, errors) as peer:
        await _negotiates(found, peer)
    async with open_peer(spec, env, folder, version, errors) as peer:
        await _early(found, peer, folder)
        answer = await peer.call("initialize", initialize(version), limit=START_LIMIT)
        if not answer.ok:
            found.warn("misuse", "bears what is wrong", f"initialize after that: {answer.why}")
            return
        await _methods(found, peer)
        await _sessions(found, peer)
        await _text(found, peer)
        if version > 1:
            await _batches(found, peer)


async def _negotiates(found: Findings, peer: Peer) -> None:
    params = outgoing.initialize(max(1, peer.version), CAPABILITIES, INFO)
    answer = await peer.call("initialize", {**params, "protocolVersion": FUTURE}, limit=START_LIMIT)
    title = "offers its newest version to a client that wants a newer one"
    rule = "an agent that does not support the version asked for answers with its newest one"
    if peer.version > 1 and answer.code == ErrorCode.UNSUPPORTED_VERSION:
        found.ok("negotiation", title, answer.why, rule)
        return
    agreed = answer.result.get("protocolVersion") if type(answer.result) is dict else None
    problem = answer.why
    if not problem and (type(agreed) is not int or agreed == FUTURE):
        problem = f"it agrees to version {agreed!r}"
    found.hold("negotiation", title, problem, rule, detail=str(agreed))


async def _early(found: Findings, peer: Peer, folder: str) -> None:
    params = {"cwd": folder, "mcpServers": []}
    answer = await peer.call("session/new", params, limit=SHORT)
    found.hold(
        "early",
        "refuses a session before initialize",
        "it opens one" if answer.ok else answer.missing,
        "initialize comes before any session",
        detail=answer.why,
        must=False,
    )


async def _methods(found: Findings, peer: Peer) -> None:
    answer = await peer.call(UNKNOWN, {}, limit=SHORT)
    wrong = "" if answer.code == ErrorCode.METHOD_NOT_FOUND else answer.why or "it answers it"
    rule = "a request for a method that is not known is answered with the error -32601"
    found.hold("unknown method", "refuses an unknown method", wrong, rule)
    await peer.notify("_acp-jupyter/no_such_notification", {})
    await peer.notify("$/cancel_request", {"requestId": 987654})
    before = len(peer.refused)
    answer = await peer.call(UNKNOWN, {}, limit=SHORT, ident="a-string")
    problem = answer.missing
    if not problem and len(peer.refused) > before:
        problem = "a notification was answered"
    rule = "a notification that is not known is ignored"
    found.hold("unknown notification", "ignores an unknown notification", problem, rule)
    found.hold("ids", "answers with the id of the request, also a string", answer.missing)


async def _sessions(found: Findings, peer: Peer) -> None:
    block = {"type": "text", "text": "hello"}
    params = {"sessionId": "acp-jupyter-no-such-session", "prompt": [block]}
    answer = await peer.call("session/prompt", params, limit=SHORT)
    problem = f"it answers {str(answer.result)[:100]}" if answer.ok else answer.missing
    title = "refuses a prompt to a session that does not exist"
    found.hold("unknown session", title, problem, must=False, detail=answer.why)
    answer = await peer.call("session/new", {"cwd": "relative/folder", "mcpServers": []})
    found.hold(
        "relative folder",
        "refuses a working directory that is not absolute",
        "it opens a session" if answer.ok else answer.missing,
        "all paths are absolute",
        must=False,
        detail=answer.why,
    )
    answer = await peer.call("session/new", {"cwd": 7}, limit=SHORT)
    code = answer.code
    problem = "" if code == ErrorCode.INVALID_PARAMS else answer.why or "it opens a session"
    rule = "parameters that are wrong are answered with the error -32602"
    title = "refuses wrong parameters"
    found.hold("wrong parameters", title, problem, rule, must=code is None)


async def _text(found: Findings, peer: Peer) -> None:
    await peer.send(b"this is no JSON\n")
    alive = await _alive(peer)
    answered = await _refused(peer, ErrorCode.PARSE_ERROR)
    rule = "what is no JSON is answered with the error -32700 and the id null"
    title = "bears a line that is no JSON"
    if alive.missing:
        found.fail("parse error", title, f"after it: {alive.missing}", rule)
    else:
        found.hold("parse error", title, "" if answered else "no answer", rule, must=False)
    if peer.ended:
        return
    long = {"jsonrpc": "2.0", "method": "_acp-jupyter/long", "params": {"text": "x" * 1_000_000}}
    await peer.notify(str(long["method"]), long["params"])
    alive = await _alive(peer)
    title = "bears a line of a megabyte"
    found.hold("long line", title, f"after it: {alive.missing}" if alive.missing else "")


async def _batches(found: Findings, peer: Peer) -> None:
    before = len(peer.refused)
    await peer.send(b"[]\n")
    await peer.wait(lambda: len(peer.refused) > before, SHORT)
    count = len(peer.refused) - before
    rule = "an empty batch is answered with one error -32600"
    problem = "" if count == 1 else f"it was answered by {count} errors"
    found.hold("empty batch", "refuses an empty batch", problem, rule)


async def _refused(peer: Peer, code: int) -> bool:
    def there() -> bool:
        return any(error.get("code") == code for error in peer.refused)

    return await peer.wait(there, QUIET)


async def _alive(peer: Peer) -> Answer:
    with trio.move_on_after(SHORT):
        return await peer.call(UNKNOWN, {}, limit=SHORT)
    return Answer(missing="it does not read")
