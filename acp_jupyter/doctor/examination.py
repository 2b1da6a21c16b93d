"""What an agent does when it is used as intended: one process, from its start to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from ..connection.stdio import open_stdio
from ..errors import ErrorCode
from ..protocol import dialects, outgoing
from . import forms
from .findings import Findings
from .peer import Answer, Peer, initialize

if TYPE_CHECKING:
    from ..services.agents import AgentSpec

JSON = Any

START_LIMIT: Final = 120.0
"""Seconds for the first answer: some agents are downloaded by their command, or log in."""

PROMPT_LIMIT: Final = 180.0
CANCEL_LIMIT: Final = 20.0
"""Seconds between a cancel and the end of the turn; some wait for the model's answer."""

BEGIN_LIMIT: Final = 1.0
"""Seconds in which a turn that is to be cancelled shows that it has begun; some never do."""

SETTLE: Final = 0.5
"""Seconds in which agents tell what follows the opening of a session."""

END_GRACE: Final = 10.0
"""Seconds for an agent to end by itself when its standard input is closed."""

NEEDS_LOGIN: Final = "needs a login: log in with the agent's own command first"
SESSION: Final = "opens a session"
PROMPT: Final = "answers a prompt"
CANCEL: Final = "stops when it is cancelled"


@asynccontextmanager
async def open_peer(
    spec: AgentSpec, env: Mapping[str, str], folder: str, version: int, errors: list[int]
) -> AsyncIterator[Peer]:
    """Start the agent; it and all that it started is ended on leaving.

    Args:
        spec: with its command.
        env: its whole environment.
        folder: in which it works.
        version: of the protocol.
        errors: gets the size of each piece of its standard error.
    """

    def count(data: bytes) -> None:
        errors.append(len(data))

    async with open_stdio(spec.argv, cwd=folder, env=env, on_stderr=count) as transport:
        peer = Peer(transport, folder, version)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.read)
            yield peer
            nursery.cancel_scope.cancel()


async def examine(
    found: Findings,
    spec: AgentSpec,
    env: Mapping[str, str],
    folder: str,
    texts: tuple[str, str] | None,
) -> None:
    """Use all that the agent advertises.

    Args:
        found: gets the items.
        spec: with its command.
        env: its whole environment.
        folder: an empty folder for its sessions.
        texts: what to ask it, and what to ask it to be cancelled; ``None`` asks nothing.
    """
    errors: list[int] = []
    version = spec.protocol
    if version > 1:
        async with open_peer(spec, env, folder, version, errors) as peer:
            answer = await peer.call("initialize", initialize(version), limit=START_LIMIT)
        if not answer.ok or not _second(answer.result):
            why = answer.why or "it answers in the form of version 1"
            found.not_run("version 2", "speaks version 2", f"{why}; checked with version 1 instead")
            version = 1
    async with open_peer(spec, env, folder, version, errors) as peer:
        run = _Run(found, peer, folder)
        if await run.start():
            found.started = True
            await run.use(texts)
            await run.end(errors)


def _second(result: JSON) -> bool:
    return type(result) is dict and result.get("protocolVersion") == 2 and "info" in result


class _Run:
    """One process that is examined; its methods are called in order."""

    def __init__(self, found: Findings, peer: Peer, folder: str) -> None:
        self.found = found
        self.peer = peer
        self.folder = folder
        self.agent: dialects.Initialized | None = None
        self.session = ""

    # -- initialize ------------------------------------------------------------------------------

    async def start(self) -> bool:
        """Whether it can be talked to."""
        found, peer = self.found, self.peer
        answer = await peer.call("initialize", initialize(peer.version), limit=START_LIMIT)
        if not answer.ok or type(answer.result) is not dict:
            why = answer.why or "its answer to initialize is no object"
            if peer.noisy:
                why += f"; it printed: {peer.noisy}"
            tail = peer.transport.stderr_tail(3)
            found.fail("start", "starts", f"{why}; {tail}" if tail else why)
            return False
        seconds = f"{answer.seconds:.1f} s from the start to the answer to initialize"
        found.ok("start", "starts", seconds)
        result = answer.result
        agreed = result.get("protocolVersion")
        found.hold(
            "version",
            "agrees on a version",
            "" if agreed == peer.version else f"asked for {peer.version}, it says {agreed!r}",
            "an agent answers with the version that was asked for if it supports it",
            detail=str(agreed),
        )
        problems = "; ".join(forms.initialize_problems(result, peer.version))
        found.hold("initialize", "answers initialize in the official form", problems)
        self.agent = dialects.initialized(result, peer.version)
        found.version = peer.version
        self._tell_name(result)
        self._tell_capabilities()
        return True

    def _tell_name(self, result: Mapping[str, Any]) -> None:
        info = result.get("agentInfo" if self.peer.version == 1 else "info")
        name = f"{info.get('name')} {info.get('version', '')}" if type(info) is dict else ""
        self.found.agent = name.strip()
        self.found.hold(
            "info",
            "says its name and version",
            "" if name else "it does not",
            "an agent should say its name and version"
            if self.peer.version == 1
            else "an agent must say its name and version in version 2",
            detail=name.strip(),
            must=self.peer.version > 1,
        )

    def _tell_capabilities(self) -> None:
        assert self.agent is not None
        capabilities = self.agent.capabilities
        names = sorted(_granted(capabilities))
        self.found.ok("capabilities", "advertises", ", ".join(names) or "nothing")
        methods = [
            str(method.get("name") or method.get("id")) for method in self.agent.auth_methods
        ]
        self.found.ok("login", "ways to log in", ", ".join(methods) or "none")

    # -- sessions --------------------------------------------------------------------------------

    async def use(self, texts: tuple[str, str] | None) -> None:
        """Open a session and do with it all that there is."""
        answer = await self.peer.call("session/new", {"cwd": self.folder, "mcpServers": []})
        if not self._opened("session", SESSION, answer, new=True):
            return
        self.session = answer.result["sessionId"]
        await trio.sleep(SETTLE)
        await self._options(answer.result)
        await self._prompts(texts)
        await self._list()
        await self._reopen()
        await self._fork()
        await self._finish()

    def _opened(self, ident: str, title: str, answer: Answer, *, new: bool) -> bool:
        if answer.code == ErrorCode.AUTH_REQUIRED:
            self.found.not_run(ident, title, NEEDS_LOGIN)
            return False
        if not answer.ok:
            self.found.fail(ident, title, answer.why)
            return False
        problems = "; ".join(forms.session_problems(answer.result, self.peer.version, new=new))
        self.found.hold(ident, title, problems, detail=f"in {answer.seconds:.1f} s")
        return not problems

    async def _options(self, opened: Mapping[str, Any]) -> None:
        """Set an option, and a mode, to what they are."""
        peer = self.peer
        ident = "id" if peer.version == 1 else "configId"
        title = "sets an option"
        options = [o for o in opened.get("configOptions") or [] if o.get("type") == "select"]
        if not options:
            self.found.not_run("set option", title, "it has none to choose from")
        else:
            option = options[0]
            params = {
                "sessionId": self.session,
                "configId": option[ident],
                "value": option.get("currentValue"),
            }
            method, params = outgoing.request(peer.version, "session/set_config_option", params)
            answer = await peer.call(method, params)
            result = answer.result if type(answer.result) is dict else {}
            problem = answer.why
            if not problem and type(result.get("configOptions")) is not list:
                problem = "the answer has no configOptions"
            rule = "the answer has all options as they are now"
            self.found.hold("set option", title, problem, rule, detail=str(option.get("name")))
        modes = opened.get("modes")
        if peer.version == 1 and type(modes) is dict:
            mode = {"sessionId": self.session, "modeId": modes.get("currentModeId")}
            answer = await peer.call("session/set_mode", mode)
            self.found.hold("set mode", "sets a mode", answer.why, detail=str(mode["modeId"]))

    # -- prompts ---------------------------------------------------------------------------------

    async def _prompts(self, texts: tuple[str, str] | None) -> None:
        if texts is None:
            self.found.not_run("prompt", PROMPT, "no prompts were to be sent")
            self.found.not_run("cancel", CANCEL, "no prompts were to be sent")
            return
        since = len(self.peer.updates)
        answer, reason = await self._prompt(texts[0], PROMPT_LIMIT)
        if answer.code == ErrorCode.AUTH_REQUIRED:
            self.found.not_run("prompt", PROMPT, NEEDS_LOGIN)
        elif answer.error is not None or (answer.ok and reason == "error"):
            why = answer.why or "the turn ended with an error"
            self.found.not_run("prompt", PROMPT, f"needs a model that answers: {why}")
        else:
            self._tell_prompt(answer, reason, since)
            await self._cancel(texts[1])
            return
        self.found.not_run("cancel", CANCEL, "prompts are not answered")

    def _tell_prompt(self, answer: Answer, reason: JSON, since: int) -> None:
        updates = [u for session, u in self.peer.updates[since:] if session == self.session]
        kinds = {u.get("sessionUpdate") for u in updates}
        problem = answer.why
        if not problem and type(reason) is not str:
            problem = "it does not say why it stopped (stopReason)"
        elif not problem and self.peer.version == 1 and reason not in forms.STOP_REASONS:
            problem = f"it stopped for a reason that version 1 does not have: {reason!r}"
        rule = "a turn ends with one of the official stop reasons"
        self.found.hold("prompt", PROMPT, problem, rule, detail=str(reason))
        told = kinds & {"agent_message_chunk", "agent_message"}
        silent = "" if told else "it ended without a message of the agent's"
        self.found.hold("answer", "says something in answer", silent, must=False)

    async def _prompt(self, text: str, limit: float) -> tuple[Answer, JSON]:
        """Send a prompt and wait for its end; the answer, and why the agent stopped."""
        ident, since = await self._begin(text)
        answer = await self.peer.answer(ident, limit)
        return await self._reason(answer, since, limit)

    async def _begin(self, text: str) -> tuple[int | str, int]:
        since = len(self.peer.updates)
        block = {"type": "text", "text": text}
        params = {"sessionId": self.session, "prompt": [block]}
        return await self.peer.begin("session/prompt", params), since

    async def _reason(self, answer: Answer, since: int, limit: float) -> tuple[Answer, JSON]:
        if not answer.ok:
            return answer, None
        if self.peer.version == 1:
            result = answer.result if type(answer.result) is dict else {}
            return answer, result.get("stopReason")
        if not await self.peer.wait(lambda: self._idle(since), limit):
            return Answer(missing="the prompt was accepted, but no idle followed"), None
        return answer, self._idle(since)[0].get("stopReason")

    def _idle(self, since: int) -> list[dict[str, Any]]:
        return [
            update
            for session, update in self.peer.updates[since:]
            if session == self.session
            and update.get("sessionUpdate") == "state_update"
            and update.get("state") == "idle"
        ]

    async def _cancel(self, text: str) -> None:
        ident, since = await self._begin(text)
        if self.peer.version > 1:
            await self.peer.answer(ident)
        await self.peer.wait(lambda: len(self.peer.updates) > since, BEGIN_LIMIT)
        began = trio.current_time()
        await self.peer.notify("session/cancel", {"sessionId": self.session})
        answer = await self.peer.answer(ident, CANCEL_LIMIT)
        answer, reason = await self._reason(answer, since, CANCEL_LIMIT)
        took = f"after {trio.current_time() - began:.1f} s"
        rule = "a turn that is cancelled ends with the stop reason cancelled, and not with an error"
        if reason == "cancelled":
            self.found.ok("cancel", CANCEL, took, rule)
        elif reason in forms.STOP_REASONS:
            why = f"the turn ended as {reason} {took}: it may have ended before the cancel"
            self.found.not_run("cancel", CANCEL, why)
        else:
            self.found.fail("cancel", CANCEL, answer.why or f"it ended as {reason!r}", rule)

    # -- earlier sessions ------------------------------------------------------------------------

    def _offers(self, method: str) -> bool:
        assert self.agent is not None
        return outgoing.offers(self.agent, method)

    async def _list(self) -> None:
        title = "lists sessions"
        if not self._offers("session/list"):
            self.found.not_run("list", title, "it does not advertise it")
            return
        answer = await self.peer.call("session/list", {"cwd": self.folder})
        problem = answer.why
        sessions = answer.result.get("sessions") if type(answer.result) is dict else None
        if not problem and type(sessions) is not list:
            problem = "the answer has no sessions"
        known = [s.get("sessionId") for s in sessions or [] if type(s) is dict]
        here = "with the one made here" if self.session in known else "not the one made here"
        self.found.hold("list", title, problem, detail=f"{len(known)}, {here}")

    async def _reopen(self) -> None:
        """Load and resume the session, after it was closed where that can be."""
        where = {"sessionId": self.session, "cwd": self.folder, "mcpServers": []}
        for name in ("load", "resume"):
            method = f"session/{name}"
            title = f"{name}s a session"
            if not self._offers(method):
                self.found.not_run(name, title, "it does not advertise it")
                continue
            if self._offers("session/close"):
                await self._close()
            since = len(self.peer.updates)
            sent, params = outgoing.request(self.peer.version, method, where)
            answer = await self.peer.call(sent, params)
            if not self._opened(name, title, answer, new=False):
                continue
            history = [
                u.get("sessionUpdate")
                for session, u in self.peer.updates[since:]
                if session == self.session
            ]
            messages = sum(str(kind).endswith(("_message_chunk", "_message")) for kind in history)
            if name == "load" and self.found_ok("prompt"):
                self.found.hold(
                    "history",
                    "tells the history of a loaded session",
                    "" if messages else "no messages came before the answer",
                    "the whole conversation is told before session/load is answered",
                    detail=f"{messages} messages",
                    must=False,
                )
            if name == "resume":
                self.found.hold(
                    "quiet resume",
                    "does not tell the history of a resumed session",
                    f"{messages} messages came before the answer" if messages else "",
                    "a session is resumed without its history",
                    must=False,
                )

    def found_ok(self, ident: str) -> bool:
        return any(item.id == ident and item.status == "ok" for item in self.found.items)

    async def _close(self) -> Answer:
        return await self.peer.call("session/close", {"sessionId": self.session})

    async def _fork(self) -> None:
        title = "forks a session"
        if not self._offers("session/fork"):
            self.found.not_run("fork", title, "it does not advertise it")
            return
        where = {"sessionId": self.session, "cwd": self.folder, "mcpServers": []}
        method, params = outgoing.request(self.peer.version, "session/fork", where)
        answer = await self.peer.call(method, params)
        self._opened("fork", title, answer, new=True)

    async def _finish(self) -> None:
        for name in ("close", "delete"):
            title = f"{name}s a session"
            if not self._offers(f"session/{name}"):
                self.found.not_run(name, title, "it does not advertise it")
                continue
            answer = await self.peer.call(f"session/{name}", {"sessionId": self.session})
            self.found.hold(name, title, answer.why)

    # -- the end ---------------------------------------------------------------------------------

    async def end(self, errors: list[int]) -> None:
        """What can be told of the whole run, and how it ends."""
        found, peer = self.found, self.peer
        found.hold(
            "messages",
            "sends messages in the official form",
            "; ".join(peer.problems[:5]),
            "each message is of a kind of its version, with the fields that this has to have",
        )
        found.hold(
            "declared",
            "asks only for what the client declared",
            ", ".join(peer.undeclared),
            "a capability that is left out is not supported, and is not called",
            detail=", ".join(dict.fromkeys(peer.asked)) or "it asked for nothing",
        )
        found.hold(
            "stdout",
            "writes nothing else to standard output",
            f"{peer.noise} lines, the first: {peer.noisy}" if peer.noise else "",
            "an agent must not write anything but messages to its standard output",
        )
        began = trio.current_time()
        await peer.transport.aclose(END_GRACE)
        took = trio.current_time() - began
        code = peer.transport.returncode
        problem = f"it had to be ended ({peer.transport.ending()})" if took >= END_GRACE else ""
        detail = f"{peer.transport.ending()} after {took:.1f} s"
        if not problem and code is not None and code != 0:
            problem = f"it {detail}"
        found.hold(
            "end",
            "ends when its standard input is closed",
            problem,
            "a client ends an agent by closing its standard input",
            detail=detail,
            must=False,
        )
        left = peer.transport.survivors()
        found.hold(
            "leftovers",
            "leaves no processes behind",
            f"{len(left)} had to be ended: {', '.join(left[:3])}" if left else "",
            must=False,
        )
        found.ok("stderr", "standard error", f"{sum(errors):,} bytes")


def _granted(capabilities: Mapping[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for key, value in capabilities.items():
        if key == "_meta":
            continue
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            names += _granted(value, f"{name}.") or [name]
        elif value:
            names.append(name)
    return names
