"""One agent: its process, its connection, and its sessions.

`Agent.serve` owns all of it: when it ends, for whatever reason, the process tree is gone, the
terminals are ended and everyone who waited has an error that says why.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import trio

from ..connection.connection import LOG_LINE, Connection, LogLine
from ..connection.environment import child_environment, redact, secret_values
from ..connection.transport import Transport
from ..errors import (
    ACPError,
    AgentError,
    AgentExited,
    AgentUnresponsive,
    ConnectionLost,
    ErrorCode,
    LineTooLong,
    Refusal,
    RequestError,
    VersionMismatch,
)
from ..protocol import dialects, elicitation, jsonrpc, older, outgoing, recording, v2
from ..protocol.methods import CLIENT_METHODS, supports
from ..protocol.recording import REPLAY_EVENT
from ..services.agents import MISSING_IS_EMPTY, AgentSpec
from ..services.elicitation import Answer
from ..services.notebooks import META
from ..services.permissions import Permissions
from ..services.policy import Policy
from ..services.recording import Connection as Recording
from ..services.recording import Recorder
from ..services.remembered import Remembered, agent_digest
from ..services.replay import Replay
from ..services.workplace import Workplace
from .extensions import Extensions
from .held import HELD_SECONDS, HELD_UPDATES, Held
from .lifecycle import Lifecycle
from .mcp import SERVED
from .opening import open_transport
from .session import Session

JSON = Any

STDERR_RECORDED: Final = 100
"""Lines of standard error that a recording keeps of an agent that ended by itself."""

PRINTED_KEPT: Final = 500
"""Bytes quoted of a line that an agent printed in place of its first message."""

ERROR_LINES: Final = 500
"""Lines of standard error that are kept with their times."""

CLOSE_GRACE: Final = 0.5
DISCONNECT_GRACE: Final = 5.0
"""Seconds an agent has to end by itself: at kernel shutdown, and when the user disconnects."""


class Agent:
    """A running agent. All methods run on the trio thread.

    Attributes:
        spec: how it was started.
        initialized: what it said of itself; set once it is ready.
        sessions: by session id.
        lifecycle: opens, lists and ends them.
        extensions: what the user handles besides the protocol.
        ended: set when its process is gone.
        error: why it ended; ``None`` if it was closed on purpose.
        workplace: what its sessions work on; set before the first is opened.
        recording: who records what is said; ``None`` where nobody does.
        replay: what its recording tells, where it is a replay.
        secrets: values that are never shown of what it says.
        errors: the last lines of its standard error as they came, see `log`.
        on_news: called when anything about it may have changed: it said something, a turn or a
            question began or ended, it is gone. Often; it must be cheap.
        on_question: answers questions about a request of ours outside of a turn; ``None`` where
            nobody can.
    """

    def __init__(
        self,
        spec: AgentSpec,
        *,
        cwd: str,
        environ: Mapping[str, str],
        client_version: str,
        recorder: Recorder | None = None,
    ) -> None:
        self.spec = spec
        self.cwd = cwd
        self.environment = child_environment(
            environ, extra=spec.env, minimal=spec.minimal_env, keep=spec.keep
        )
        if spec.remote is not None:  # its token is not for the commands that it has us run
            self.environment.pop(spec.remote.token_env, None)
        # Those of the kernel too: none of them is the agent's to know, so none is to be shown.
        self.secrets = secret_values(self.environment) | secret_values(environ) | spec.secrets
        self.replay = Replay() if spec.replay is not None else None
        self.recording: Recording | None = None
        if recorder is not None and self.replay is None:  # what is replayed is recorded already
            self.recording = recorder.connection(
                name=spec.name, argv=spec.argv, cwd=cwd, environment=self.environment
            )
            self.recording.on_failure = self._tell_not_recorded
        self.initialized: dialects.Initialized | None = None
        self.sessions: dict[str, Session] = {}
        self.lifecycle = Lifecycle(self)
        self.extensions = Extensions()
        self.ended = trio.Event()
        self.error: ACPError | None = None
        self.capabilities: dict[str, Any] = {}
        self.workplace = Workplace()
        self._environ = environ
        self._client_version = client_version
        self._connection: Connection | None = None
        self._transport: Transport | None = None
        self._nursery: trio.Nursery | None = None
        self._stop = trio.Event()
        self._older = spec.dialect == older.DIALECT and spec.protocol == 1
        self._grace = CLOSE_GRACE
        self._held = Held(self._tell_dropped)
        self._opening = 0
        self._events: list[recording.InSession] = []
        self._opened = trio.Event()
        self._last_noise: jsonrpc.Noise | None = None
        self.errors: deque[LogLine] = deque(maxlen=ERROR_LINES)
        self.errors_count = 0
        self._error_rest = b""
        self.on_news: Callable[[], None] = _nothing
        self.on_question: Callable[[elicitation.Elicitation], Awaitable[Answer]] | None = None

    # -- life ----------------------------------------------------------------------------------

    async def serve(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Start the process and serve its connection until `close`, `kill` or its own end.

        Raises:
            ACPError: it could not be started or reached; raised before ``task_status.started``.
        """
        try:
            async with open_transport(
                self.spec,
                cwd=self.cwd,
                environment=self.environment,
                environ=self._environ,
                version=self._client_version,
                on_stderr=self._on_stderr,
            ) as self._transport:
                self.conceal(self.spec.secrets | self._transport.secrets)
                self._connection = Connection(
                    self._transport,
                    self,
                    clock=trio.current_time,
                    tap=None if self.recording is None else self.recording.tap,
                )
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._run_connection)
                    task_status.started()
                    await self._stop.wait()
                    await self._leave()
                    self._nursery.cancel_scope.cancel()
                if self._grace > CLOSE_GRACE:
                    await self._transport.aclose(self._grace)
        finally:
            if self.recording is not None:
                self.recording.flush()
            self.ended.set()
            self.on_news()

    def conceal(self, secrets: Iterable[str]) -> None:
        """Take values out of everything that is shown, kept or recorded from now on."""
        for secret in filter(None, secrets):  # the log has lines of JSON
            self.secrets |= {secret, msgspec.json.encode(secret).decode()[1:-1]}
        if self.recording is not None:
            self.recording.conceal(self.secrets)

    async def _run_connection(self) -> None:
        assert self._connection is not None
        try:
            await self._connection.run()
        finally:
            self.error = self.error or self._connection.error
            if self.replay is not None:
                self.replay.end()
            self._stop.set()
            self.on_news()

    async def _leave(self) -> None:
        for session in self.sessions.values():
            await session.aclose()
        if self._connection is not None:
            self._connection.close(self.error)

    def close(self, *, grace: float = CLOSE_GRACE) -> None:
        """Begin to end the agent in order; `ended` tells when it is gone."""
        self._grace = grace
        self._stop.set()

    def kill(self, error: ACPError) -> None:
        """End the agent now; whoever waits for it gets ``error``."""
        self.error = self.error or error
        if self._transport is not None:
            if isinstance(error, AgentError) and not error.stderr:
                error.stderr = self.stderr_tail()
            self._transport.kill()
        if self._connection is not None:
            self._connection.close(error)
        self._stop.set()

    @property
    def alive(self) -> bool:
        """Whether it can still be talked to."""
        return self._connection is not None and not self._connection.closed.is_set()

    async def explain_end(self) -> ACPError:
        transport = self._transport
        assert transport is not None
        with trio.move_on_after(0.5):
            await transport.wait_ended()
        code = transport.returncode
        if self.recording is not None:
            self.recording.exit(code, self.stderr_tail(STDERR_RECORDED))
        during = "during this turn" if any(s.running for s in self.sessions.values()) else ""
        if transport.failure is not None:
            return transport.failure
        what = f"agent {self.spec.name!r} {transport.ending()} {during}".rstrip()
        remote = self.spec.remote is not None
        again = "connect again" if remote else "start the agent again"
        if during:
            what += "; the output above is kept"
            remedy = f"Run the cell again to {again}."
        elif self.initialized is not None:
            remedy = f"Run the cell again to {again}."
        else:
            remedy = "Check that its command starts an agent that speaks ACP on standard output."
        if remote:
            return ConnectionLost(what, remedy=remedy)
        if self.initialized is None and self._last_noise is not None:
            # It never spoke ACP: what it printed in place of it says why.
            printed = self._last_noise.raw[:PRINTED_KEPT].decode("utf-8", "replace").strip()
            what += f"; it printed: {redact(printed, self.secrets)}"
        return AgentExited(what, remedy=remedy, stderr=self.stderr_tail(), returncode=code)

    # -- setting up ----------------------------------------------------------------------------

    async def initialize(self, policy: Policy, *, limit: float | None = None) -> None:
        """Agree on a version and on capabilities (C1-C7).

        Args:
            policy: terminals are not offered where no command can be allowed.
            limit: seconds to wait for the answer; ``None`` waits until cancelled.

        Raises:
            VersionMismatch: there is no version in common.
            AgentUnresponsive: no answer within ``limit``.
            ACPError: it ended, or answered with an error.
        """
        if self.recording is not None:
            self.recording.permissions = str(policy) if policy.rules else policy.default
        self.capabilities = {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": policy.may_run_commands or self.replay is not None,
            "elicitation": {"form": {}, "url": {}},
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "plan": {},
            "auth": {"terminal": self._own_command},
            "_meta": {
                META: {"notebook": "text"},  # what `fs/read_text_file` takes there
                "terminal-auth": self._own_command,  # `auth.terminal`, before there was one
            },
        }
        asked = self.spec.protocol
        info = {"name": "acp-jupyter", "title": "Jupyter", "version": self._client_version}
        params = outgoing.initialize(asked, self.capabilities, info)
        with trio.move_on_after(limit if limit is not None else float("inf")) as scope:
            try:
                answer = await self.request("initialize", params)
            except RequestError as error:
                if asked < outgoing.NEWEST and outgoing.NEWEST in v2.supported(error.data):
                    error.remedy = f"Connect with `--protocol {outgoing.NEWEST}`."
                raise
        if scope.cancelled_caught:
            raise AgentUnresponsive(
                f"agent {self.spec.name!r} did not answer initialize within {limit:.0f} s",
                remedy="Check that its command speaks ACP on standard output.",
                stderr=self.stderr_tail(),
            )
        # A recording has the version that was agreed on then, whatever is asked for now.
        newest = outgoing.NEWEST if self.replay is not None else asked
        initialized = dialects.initialized(answer, newest)
        if not 1 <= initialized.version <= newest:
            raise VersionMismatch(
                f"agent {self.spec.name!r} speaks ACP version {initialized.version}, "
                f"this client version {asked}",
                remedy="Connect with `--protocol 2`."
                if initialized.version == outgoing.NEWEST
                else "Update the agent, or use another one.",
                stderr=self.stderr_tail(),
            )
        self.initialized = initialized
        self._open_connection().batches = initialized.version > 1
        self.capabilities = outgoing.declared(initialized.version, self.capabilities)
        if self.recording is not None:
            self.recording.title = initialized.title or initialized.name
            self.recording.version = initialized.agent_version

    @contextmanager
    def opening(self) -> Iterator[None]:
        """While a session is opened whose id is not known yet: what comes for it waits."""
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1

    def add_session(self, ident: str, cwd: str, policy: Policy) -> Session:
        """Know a session, whatever the agent says of it."""
        assert self._nursery is not None
        session = Session(
            self,
            ident,
            cwd,
            permissions=Permissions(
                policy, remembered=Remembered(agent_digest(self.spec.argv), ident)
            ),
            environment=self.environment,
            nursery=self._nursery,
            version=self.version,
            recording=self.recording,
            replay=self.replay,
            apply_files=self.spec.replay is not None and self.spec.replay.apply_files,
            workplace=self.workplace,
        )
        if self.initialized is not None and self.initialized.name in MISSING_IS_EMPTY:
            session.files.missing_is_empty = True
        session.terminals.flat = self._older
        session.on_news = self._tell_news
        self.sessions[ident] = session
        return session

    def hand_over(self, session: Session) -> None:
        """Give a new session the updates that came before it was known."""
        events, self._events = self._events, []
        for event in events:
            if event.session == session.session_id:
                session.apply_recorded(event)
        for updates in self._held.take(session.session_id):
            session.take(updates)
        self._opened.set()
        self._opened = trio.Event()
        session.on_batch()

    def offers(self, method: str) -> bool:
        """Whether the agent advertised what ``method`` needs."""
        return self.initialized is not None and outgoing.offers(self.initialized, method)

    @property
    def version(self) -> int:
        """Version of the protocol that was agreed on, or that is asked for."""
        return self.spec.protocol if self.initialized is None else self.initialized.version

    @property
    def _own_command(self) -> bool:
        """Whether the user can run the agent's command as we do (C13)."""
        return self.replay is None and self.spec.remote is None

    @property
    def agent_capabilities(self) -> Mapping[str, Any]:
        return self.initialized.capabilities if self.initialized is not None else {}

    # -- Peer: what sessions use ---------------------------------------------------------------

    @property
    def prompt_capabilities(self) -> Mapping[str, Any]:
        value = self.agent_capabilities.get("promptCapabilities")
        return value if type(value) is dict else {}

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def last_received(self) -> float:
        return self._connection.last_received if self._connection is not None else 0.0

    async def request(
        self, method: str, params: JSON, *, on_answer: Callable[[], None] | None = None
    ) -> JSON:
        """Send a request that is written in the form of version 1, see `outgoing.request`.

        Args:
            method: by its name there.
            params: in that form.
            on_answer: see `Connection.request`.
        """
        method, params = outgoing.request(self.version, method, params)
        if self._older:
            params = older.request(method, params)
        if self.replay is not None:
            self.replay.begin_request()
        try:
            answer = await self._open_connection().request(method, params, on_answer=on_answer)
        except RequestError as error:  # agents quote what they were sent
            error.message = redact(error.message, self.secrets)
            error.args = (error.message,)
            raise
        if not self.spec.dialect and self.version == 1 and older.proves(answer):
            self._older = True
        return answer

    async def wait_gone(self) -> ACPError:
        """Wait until the connection has ended; returns why."""
        connection = self._open_connection()
        await connection.closed.wait()
        return connection.error or AgentError(f"the connection to {self.name!r} was closed")

    def notify(self, method: str, params: JSON) -> None:
        method, params = outgoing.request(self.version, method, params)
        self._open_connection().notify(method, params)

    def withdraw(self, method: str) -> None:
        self._open_connection().withdraw(method)

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise AgentError(f"agent {self.spec.name!r} is not running")
        return self._connection

    # -- Handler: what the connection reports --------------------------------------------------

    def on_notification(self, method: str, params: JSON) -> None:
        if method in ("elicitation/complete", "session/elicitation/complete"):
            for session in self.sessions.values():
                session.elicitations.completed(params)
            return
        if self.replay is not None and method == REPLAY_EVENT:
            self._on_recorded(params)
            return
        if method != "session/update":
            self.extensions.told(method, params, self._nursery)  # C67
            return
        if type(params) is dict:  # the most frequent message by far, without a detour
            ident, update = params.get("sessionId"), params.get("update")
            if type(update) is dict and type(ident) is str and ident in self.sessions:
                session = self.sessions[ident]
                if session.on_update is None:
                    session.reducer.apply(update, self.last_received)
                    return
        found = dialects.session_updates(params)
        if found is None:
            raw = msgspec.json.encode(params)[: jsonrpc.RAW_KEPT]
            self.on_noise(jsonrpc.Noise("a session/update without updates", raw))
            return
        ident, updates = found
        if ident in self.sessions:
            self.sessions[ident].take(updates)
        else:
            self._held.hold(ident, updates, self._nursery)

    def _on_recorded(self, params: JSON) -> None:
        """What the client decided, served and showed, from a replay."""
        assert self.replay is not None
        event = recording.event(params.get("event") if type(params) is dict else None)
        if isinstance(event, recording.InSession):
            session = self.sessions.get(event.session)
            if session is not None:
                session.apply_recorded(event)
            elif self._opening and len(self._events) < HELD_UPDATES:
                self._events.append(event)
        elif event is not None:
            self.replay.tell(event)

    def _tell_not_recorded(self, reason: str) -> None:
        for session in self.sessions.values():
            session.reducer.notice(
                "recording",
                f"Recording has ended: {reason}. What had been recorded is kept.",
                level="warning",
            )
            session.on_batch()

    def _tell_dropped(self, count: int) -> None:
        for session in self.sessions.values():
            for _ in range(count):
                session.reducer.notice(
                    "foreign", "Updates for a session that does not exist were dropped."
                )
            session.on_batch()

    def on_noise(self, noise: jsonrpc.Noise) -> None:
        self._last_noise = noise
        for session in self.sessions.values():
            session.reducer.notice(
                "noise",
                f"The agent sent lines that are no ACP messages: {noise.reason}.",
                detail=noise.raw.decode("utf-8", "replace"),
            )

    def on_failure(self, method: str, error: Exception) -> None:
        for session in self.sessions.values():
            session.reducer.notice(
                f"failure:{method}",
                f"{method} could not be served: internal error, please report it.",
                level="error",
                detail="".join(traceback.format_exception(error)),
            )

    def on_overlong(self, error: LineTooLong) -> None:
        for session in self.sessions.values():
            if session.running:
                session.notify_cancel()
            session.work.fail(error)
        self._open_connection().fail_pending(error)

    def on_batch(self) -> None:
        for session in self.sessions.values():
            session.on_batch()
        self.on_news()

    def _tell_news(self) -> None:
        self.on_news()  # which the surface may have set since

    def _on_stderr(self, data: bytes) -> None:
        *lines, rest = (self._error_rest + data).split(b"\n")
        self._error_rest = rest[:LOG_LINE]
        now = trio.current_time()
        self.errors.extend(LogLine(now, False, line[:LOG_LINE]) for line in lines)
        self.errors_count += len(lines)
        if lines:
            self.on_news()

    async def serve_request(self, method: str, params: JSON) -> JSON:
        if method in SERVED and self.lifecycle.mcp.sharing:
            return await self.lifecycle.mcp.serve(method, params)
        known = CLIENT_METHODS.get(method)
        if known is None:
            return await self.extensions.serve(method, params)
        if known.notification or not supports(self.capabilities, known.needs):
            raise Refusal(f"Method not found: {method[:200]}", code=ErrorCode.METHOD_NOT_FOUND)
        if known.needs == ("elicitation",) and elicitation.about_request(params):
            return await self._elicit_about_request(method, params)
        session = await self._session_of(dialects.session_id_of(params))
        return await session.serve(method, params)

    async def _elicit_about_request(self, method: str, params: JSON) -> JSON:
        """A question that belongs to a request of ours: shown in the one turn that runs, or where
        the user logs in. Elsewhere there is no output to show it in, so nobody can answer.
        """
        running = [session for session in self.sessions.values() if session.running]
        if len(running) == 1:
            return await running[0].serve(method, params)
        request = elicitation.elicitation(params)  # what is no question is refused all the same
        if self.on_question is None:
            return elicitation.response("cancel")
        answer = await self.on_question(request)
        accepted = answer.action == "accept" and request.mode == "form"
        return elicitation.response(answer.action, answer.content if accepted else None)

    async def _session_of(self, ident: str) -> Session:
        if ident not in self.sessions and self._opening:
            with trio.move_on_after(HELD_SECONDS):
                while ident not in self.sessions and self._opening:
                    await self._opened.wait()
        if ident not in self.sessions:
            raise Refusal("no such session", code=ErrorCode.RESOURCE_NOT_FOUND)
        return self.sessions[ident]

    # -- for people ----------------------------------------------------------------------------

    def stderr_tail(self, lines: int = 20) -> str:
        if self._transport is None:
            return ""
        return redact(self._transport.stderr_tail(lines), self.secrets)

    def survivors(self) -> list[str]:
        """What it had started and left running when it ended; those processes were ended too."""
        return self._transport.survivors() if self._transport is not None else []

    @property
    def log(self) -> list[LogLine]:
        """The last messages, oldest first."""
        return list(self._connection.log) if self._connection is not None else []

    @property
    def log_count(self) -> int:
        """How many messages there have been, those included that `log` has dropped."""
        return self._connection.logged if self._connection is not None else 0

    @property
    def pid(self) -> int | None:
        return self._transport.pid if self._transport is not None else None


def _nothing() -> None:
    return None
