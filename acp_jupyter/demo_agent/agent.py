"""The agent: one client, its sessions, and the methods it may call.

Rules:
- The reader's thread answers every method but ``session/prompt`` and ``session/close`` at once;
  a prompt turn runs in a thread of its own, one at a time in a session.
- `_answer` and `Agent._run_turn` are the two places that turn an exception into a wire error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from acp_jupyter.demo_agent import VERSION, handlers, language, params, second, settings
from acp_jupyter.demo_agent.settings import Offers
from acp_jupyter.demo_agent.store import Session, Store, open_store
from acp_jupyter.demo_agent.turn import Stop, Turn
from acp_jupyter.demo_agent.wire import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    Cancelled,
    Closed,
    Connection,
    Json,
    RpcError,
)

PROTOCOL_VERSION = 1
AUTH_METHOD = "demo"
AUTH = {
    "id": AUTH_METHOD,
    "name": "Demo login",
    "description": "Logs in at once, without a password",
}
INFO = {"name": "acp-jupyter-demo", "title": "Demo Agent", "version": VERSION}
TITLE_CHARACTERS = 60
# How long the end of the connection waits for turns to end their commands.
EXIT_GRACE_S = 2.0

_NO_AUTH_NEEDED = frozenset({"initialize", "authenticate", "logout"})


class Agent:
    """All state of one connection.

    Args:
        connection: the wire.
        store: where sessions are kept.
        auth: whether sessions need `authenticate` first.
    """

    def __init__(self, connection: Connection, store: Store, *, auth: bool) -> None:
        self._connection = connection
        self._store = store
        self._auth = auth
        self._authenticated = not auth
        self._offers: Offers | None = None
        self._sessions: dict[str, Session] = {}
        self._threads: list[threading.Thread] = []
        self._prompts: dict[Any, Turn] = {}
        self._requests: dict[str, Callable[[Json], Json]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_config_option,
            "_demo/echo": dict,
        }
        # These answer from a thread of their own, later.
        self._long_requests: dict[str, Callable[[Any, Json], None]] = {
            "session/close": self._close,
            "session/prompt": self._prompt,
        }
        if auth:
            self._requests["logout"] = self._logout

    # -- dispatch --------------------------------------------------------------------------------

    def receive(self, message: Json) -> None:
        """Serve one request or notification of the client."""
        given = message.get("params")
        if "id" in message:
            self._answer(message["id"], message["method"], {} if given is None else given)
        elif message["method"] == "session/cancel" and isinstance(given, dict):
            session = self._sessions.get(str(given.get("sessionId")))
            if session is not None:
                _cancel(session.turn)
        elif message["method"] == "$/cancel_request" and isinstance(given, dict):
            request_id = given.get("requestId")
            if isinstance(request_id, (str, int)):
                _cancel(self._prompts.get(request_id))

    def _answer(self, request_id: Any, method: str, given: Any) -> None:
        try:
            if self._connection.second and isinstance(given, dict):
                method, given = second.incoming(method, given)
            result = self._call(request_id, method, given)
        except RpcError as error:
            self._connection.send_error(request_id, error)
        except Exception as error:  # noqa: BLE001 - the seam: every request gets an answer
            self._connection.send_error(request_id, _internal(error))
        else:
            if result is not None:
                if self._connection.second:
                    result = second.result(result)
                self._connection.send_result(request_id, result)
                if method in ("session/new", "session/load", "session/resume", "session/fork"):
                    self._advertise_commands(result.get("sessionId") or given["sessionId"])

    def _call(self, request_id: Any, method: str, given: Any) -> Json | None:
        if method not in self._requests and method not in self._long_requests:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")
        if not isinstance(given, dict):
            raise params.invalid("params must be an object.")
        if self._offers is None and method != "initialize":
            raise RpcError(INVALID_REQUEST, "initialize must come first.")
        if not self._authenticated and method not in _NO_AUTH_NEEDED:
            raise RpcError(AUTH_REQUIRED, f"Authenticate with the method {AUTH_METHOD!r} first.")
        if method in self._requests:
            return self._requests[method](given)
        self._long_requests[method](request_id, given)
        return None

    def _advertise_commands(self, session_id: str) -> None:
        self._update(
            session_id,
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": language.available_commands(),
            },
        )

    def _update(self, session_id: str, update: Json) -> None:
        said = second.update(update) if self._connection.second else update
        if said is None:
            return
        update = said
        self._connection.notify("session/update", {"sessionId": session_id, "update": update})

    # -- connection ------------------------------------------------------------------------------

    def _initialize(self, given: Json) -> Json:
        version = given.get("protocolVersion")
        if type(version) is not int or not 0 <= version <= 65535:
            raise params.invalid("protocolVersion must be an integer from 0 to 65535.")
        # A client of a version yet to come may ask in a form that is not that of version 2.
        if version == second.VERSION or (version > second.VERSION and "info" in given):
            return self._initialize_second(given)
        self._offers = settings.offers(given.get("clientCapabilities"))
        capabilities: Json = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "additionalDirectories": {},
                "resume": {},
                "fork": {},
                "close": {},
            },
            "_meta": {"acp-jupyter.demo": {"methods": ["_demo/echo"]}},
        }
        methods: list[Json] = []
        if self._auth:
            capabilities["auth"] = {"logout": {}}
            methods.append(dict(AUTH))
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": capabilities,
            "agentInfo": dict(INFO),
            "authMethods": methods,
        }

    def _initialize_second(self, given: Json) -> Json:
        if not isinstance(given.get("info"), dict):
            raise params.invalid("info must be an object.")
        self._offers = second.offers(given.get("capabilities"))
        self._connection.second = True
        return second.initialized(dict(INFO), auth=dict(AUTH) if self._auth else None)

    def _authenticate(self, given: Json) -> Json:
        method = params.string(given, "methodId")
        if not self._auth or method != AUTH_METHOD:
            raise params.invalid(f"There is no auth method {method!r}.")
        self._authenticated = True
        return {}

    def _logout(self, _given: Json) -> Json:
        self._authenticated = False
        return {}

    # -- sessions --------------------------------------------------------------------------------

    def _setup(self, session: Session) -> Json:
        assert self._offers is not None
        return {
            "modes": settings.modes(session),
            "configOptions": settings.config_options(session, self._offers),
        }

    def _new(self, given: Json) -> Json:
        cwd = params.absolute_path(given, "cwd")
        roots = params.directories(given)
        params.mcp_servers(given, required=True)
        session = self._store.create(cwd, roots)
        self._sessions[session.session_id] = session
        return {"sessionId": session.session_id, **self._setup(session)}

    def _reopen(self, given: Json, *, servers_required: bool, use: bool = True) -> Session:
        """The session that load, resume and fork name; if it is used, with the roots that they
        give it."""
        session_id = params.string(given, "sessionId")
        cwd = params.absolute_path(given, "cwd")
        roots = params.directories(given)
        params.mcp_servers(given, required=servers_required)
        session = self._sessions.get(session_id) or self._store.load(session_id)
        if session is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"There is no session {session_id!r}.")
        if os.path.normpath(cwd) != os.path.normpath(session.cwd):
            raise params.invalid(f"The session belongs to another directory, {session.cwd}.")
        if session.turn is not None:
            raise RpcError(INVALID_REQUEST, "A prompt of that session is still running.")
        if use:
            session.additional_directories = roots
            self._sessions[session_id] = session
        return session

    def _load(self, given: Json) -> Json:
        session = self._reopen(given, servers_required=True)
        for update in session.history.updates:
            self._update(session.session_id, update)
        self._tell_idle(session)
        return self._setup(session)

    def _tell_idle(self, session: Session) -> None:
        """How things are, after a replay and before the answer (version 2)."""
        if self._connection.second:
            self._update(session.session_id, {"sessionUpdate": "state_update", "state": "idle"})

    def _resume(self, given: Json) -> Json:
        session = self._reopen(given, servers_required=False)
        self._tell_idle(session)
        return self._setup(session)

    def _fork(self, given: Json) -> Json:
        source = self._reopen(given, servers_required=False, use=False)
        session = self._store.fork(source, params.directories(given))
        self._sessions[session.session_id] = session
        return {"sessionId": session.session_id, **self._setup(session)}

    def _list(self, given: Json) -> Json:
        cwd = None if given.get("cwd") is None else params.absolute_path(given, "cwd")
        sessions, cursor = self._store.page(cwd, params.optional_string(given, "cursor"))
        return {"sessions": sessions, **({} if cursor is None else {"nextCursor": cursor})}

    def _close(self, request_id: Any, given: Json) -> None:
        session = self._open_session(given)
        del self._sessions[session.session_id]
        _cancel(session.turn)

        def finish() -> None:
            with self._connection.changed:
                self._connection.changed.wait_for(
                    lambda: session.turn is None or self._connection.closed
                )
            self._connection.send_result(request_id, {})

        self._start(finish)

    def _delete(self, given: Json) -> Json:
        session_id = params.string(given, "sessionId")
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.deleted = True
            _cancel(session.turn)
        self._store.delete(session_id)
        return {}

    def _open_session(self, given: Json) -> Session:
        session = self._sessions.get(params.string(given, "sessionId"))
        if session is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"No session {given['sessionId']!r} is open.")
        return session

    def _set_mode(self, given: Json) -> Json:
        session = self._open_session(given)
        mode = params.string(given, "modeId")
        if mode not in settings.MODES:
            raise params.invalid(f"There is no mode {mode!r}.")
        session.mode = mode
        self._changed_settings(session)
        return {}

    def _set_config_option(self, given: Json) -> Json:
        assert self._offers is not None
        session = self._open_session(given)
        mode = session.mode
        option = params.string(given, "configId")
        settings.set_option(session, self._offers, option, given.get("value"))
        if session.mode != mode:
            self._update(
                session.session_id,
                {"sessionUpdate": "current_mode_update", "currentModeId": session.mode},
            )
        self._save_idle(session)
        return {"configOptions": settings.config_options(session, self._offers)}

    def _changed_settings(self, session: Session) -> None:
        assert self._offers is not None
        options = settings.config_options(session, self._offers)
        update = {"sessionUpdate": "config_option_update", "configOptions": options}
        self._update(session.session_id, update)
        self._save_idle(session)

    def _save_idle(self, session: Session) -> None:
        # A running turn saves the session at its end, with whatever was set meanwhile.
        if session.turn is None:
            self._store.save(session)

    # -- prompt turns ----------------------------------------------------------------------------

    def _prompt(self, request_id: Any, given: Json) -> None:
        session = self._open_session(given)
        blocks = params.prompt(given)
        if session.turn is not None:
            raise RpcError(INVALID_REQUEST, "A prompt of that session is still running.")
        session.turns += 1
        assert self._offers is not None
        turn = Turn(self._connection, self._store, session, self._offers)
        session.turn = turn
        if self._connection.second:
            self._accept(request_id, turn, blocks)
        else:
            self._prompts[request_id] = turn
        self._start(lambda: self._run_turn(request_id, turn, blocks))

    def _accept(self, request_id: Any, turn: Turn, blocks: list[Json]) -> None:
        """Take a prompt into the session: in version 2 the answer says no more than that."""
        message_id = turn.prompt_id
        self._connection.send_result(request_id, {"messageId": message_id})
        turn.send_update(
            {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}
        )
        turn.state("running")

    def _run_turn(self, request_id: Any, turn: Turn, blocks: list[Json]) -> None:
        session = turn.session
        error: RpcError | None = None
        reason = "end_turn"
        mark = session.history.mark()
        try:
            self._begin_turn(turn, blocks)
            handlers.receive(turn, blocks)
        except Cancelled:
            reason = "cancelled"
        except Stop as stop:
            reason = stop.reason
        except Closed:
            reason = "cancelled"
        except RpcError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - the seam: every prompt gets an answer
            error = _internal(failure)
        turn.fail_open_calls("The turn ended.")
        if turn.cancelled:
            reason, error = "cancelled", None
        if reason == "refusal":
            session.history.drop_after(mark)
        self._end_turn(request_id, turn)
        if self._connection.second:
            if error is not None:
                turn.state("idle", stopReason="error", error=error.as_json())
            else:
                turn.state("idle", stopReason=reason)
        elif error is not None:
            self._connection.send_error(request_id, error)
        else:
            self._connection.send_result(request_id, {"stopReason": reason})

    def _begin_turn(self, turn: Turn, blocks: list[Json]) -> None:
        """Keep the prompt, so that it is not lost if the agent ends in mid-turn."""
        session = turn.session
        session.history.start_turn()
        for block in blocks:
            session.history.add(
                {
                    "sessionUpdate": "user_message_chunk",
                    "content": block,
                    "messageId": turn.prompt_id,
                }
            )
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        session.input_tokens += _tokens(len(text))
        if session.title is None and text.strip():
            session.title = text.strip().splitlines()[0][:TITLE_CHARACTERS]
            turn.send_update({"sessionUpdate": "session_info_update", "title": session.title})
        turn.save()

    def _end_turn(self, request_id: Any, turn: Turn) -> None:
        """Everything that must be done before the client may send the next prompt."""
        session = turn.session
        session.output_tokens += _tokens(turn.output_length)
        turn.send_update(turn.usage())
        turn.save()
        with self._connection.changed:
            session.turn = None
            self._prompts.pop(request_id, None)
            self._connection.changed.notify_all()

    def _start(self, work: Callable[[], None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def shut_down(self) -> None:
        """End the connection, which wakes the turns, and wait for them to clean up."""
        self._connection.close()
        deadline = time.monotonic() + EXIT_GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _cancel(turn: Turn | None) -> None:
    # The turn is an argument because its own thread may take it off the session at any time.
    if turn is not None:
        turn.cancel()


def _tokens(characters: int) -> int:
    """Four characters a token, rounded up."""
    return -(-characters // 4)


def _internal(error: Exception) -> RpcError:
    line = traceback.format_exception_only(error)[-1].strip()
    return RpcError(INTERNAL_ERROR, "The demo agent has a fault.", {"error": line})


def _end_on_signals(shut_down: Callable[[], None]) -> None:
    """End the process with 128 + the signal's number when it is asked to end.

    A thread does it: a handler of Python's runs only between two steps of the main thread, which
    may be just about to wait for input, and then waits for as long as none comes.
    """
    told, teller = socket.socketpair()
    teller.setblocking(False)
    signal.set_wakeup_fd(teller.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    def end() -> None:
        number = told.recv(1)[0]
        shut_down()
        os._exit(128 + number)

    threading.Thread(target=end, name="signals", daemon=True).start()


def serve() -> int:
    """Serve the client on stdin and stdout until stdin ends; returns the exit status."""
    sink = os.dup(1)
    # Nothing but messages may reach stdout: whatever else writes there goes to stderr.
    with contextlib.suppress(OSError):  # started without a stderr
        os.dup2(2, 1)
    connection = Connection(sys.stdin.buffer, sink)
    environ = dict(os.environ)
    agent = Agent(connection, open_store(environ), auth=environ.get("ACP_DEMO_AUTH") == "1")
    _end_on_signals(agent.shut_down)
    try:
        connection.run(agent.receive)
    finally:
        agent.shut_down()
    return 0
