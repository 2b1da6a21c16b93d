"""Sessions and where they are kept.

Rules:
- One JSON file a session, replaced atomically, readable by its owner only.
- Ids come from a counter in the directory and are never given twice, also between processes.
- Without a usable directory the sessions live in memory as long as the agent does.
- What is kept of a turn is what ``session/load`` replays: whole messages, tool calls in their last
  state, the plan in its last state.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import sys
import time
from typing import Any

from acp_jupyter.demo_agent.wire import INVALID_PARAMS, Json, RpcError

_ID = re.compile(r"demo-[0-9]{1,9}", re.ASCII)
PAGE_SIZE = 20
DEFAULT_MODE = "ask"
DEFAULT_MODEL = "small"


class History:
    """The updates that ``session/load`` replays, in order.

    Text that streams in is kept as pieces until it is read: a long answer costs linear time.
    """

    def __init__(self, updates: list[Json] | None = None) -> None:
        self._updates = updates or []
        self._pieces: list[str] = []
        self._tail: Json | None = None
        self._calls: dict[str, Json] = {}
        self._plan: Json | None = None

    def start_turn(self) -> None:
        """From here on a plan is a new plan."""
        self._join()
        self._plan = None

    def add(self, update: Json) -> None:
        """Keep one update; kinds that are no part of the conversation are left out."""
        kind = update["sessionUpdate"]
        if kind.endswith("_message_chunk") or kind == "agent_thought_chunk":
            self._add_chunk(update)
            return
        self._join()
        if kind == "tool_call":
            self._calls[update["toolCallId"]] = call = dict(update)
            self._updates.append(call)
        elif kind == "tool_call_update":
            changes = {k: v for k, v in update.items() if k != "sessionUpdate"}
            self._calls[update["toolCallId"]].update(changes)
        elif kind == "plan" and self._plan is None:
            self._plan = dict(update)
            self._updates.append(self._plan)
        elif kind == "plan" and self._plan is not None:
            self._plan.update(update)

    def _add_chunk(self, update: Json) -> None:
        content = update["content"]
        if content["type"] != "text":
            self._join()
            self._updates.append(update)
            return
        tail = self._tail
        if tail is None or any(tail[key] != update[key] for key in ("sessionUpdate", "messageId")):
            self._join()
            self._tail = dict(update)
            self._updates.append(self._tail)
        self._pieces.append(content["text"])

    def _join(self) -> None:
        if self._tail is not None:
            self._tail["content"] = {"type": "text", "text": "".join(self._pieces)}
            self._tail = None
            self._pieces = []

    @property
    def updates(self) -> list[Json]:
        self._join()
        return self._updates

    def mark(self) -> int:
        """Where the history ends now; see `drop_after`."""
        return len(self.updates)

    def drop_after(self, mark: int) -> None:
        """Forget a refused turn (stop reason ``refusal``)."""
        del self.updates[mark:]


class Session:
    """One conversation: what is kept on disk, and what lasts only while it is open.

    Attributes:
        session_id, cwd: as on the wire.
        additional_directories: further roots, absolute.
        remembered: answers "always" by tool kind; forgotten when the session is closed, because
            consent should not outlive the window in which it was given.
        turn: the running prompt turn, or None.
        deleted: it is saved no more, though a turn may still be ending.
    """

    def __init__(self, session_id: str, cwd: str, roots: list[str]) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.additional_directories = roots
        self.title: str | None = None
        self.mode = DEFAULT_MODE
        self.model = DEFAULT_MODEL
        self.verbose = False
        self.turns = 0
        self.tool_calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.history = History()
        self.remembered: dict[str, bool] = {}
        self.turn: Any = None
        self.deleted = False

    @property
    def roots(self) -> list[str]:
        return [self.cwd, *self.additional_directories]

    def as_json(self) -> Json:
        return {
            "sessionId": self.session_id,
            "cwd": self.cwd,
            "additionalDirectories": self.additional_directories,
            "title": self.title,
            "mode": self.mode,
            "model": self.model,
            "verbose": self.verbose,
            "turns": self.turns,
            "toolCalls": self.tool_calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "saved": time.time_ns(),
            "history": self.history.updates,
        }

    @classmethod
    def from_json(cls, data: Json) -> Session:
        session = cls(data["sessionId"], data["cwd"], list(data["additionalDirectories"]))
        session.title = data["title"]
        session.mode = data["mode"]
        session.model = data["model"]
        session.verbose = data["verbose"]
        session.turns = data["turns"]
        session.tool_calls = data["toolCalls"]
        session.input_tokens = data["inputTokens"]
        session.output_tokens = data["outputTokens"]
        session.history = History(data["history"])
        return session


class Store:
    """All sessions, open or not.

    Args:
        directory: where the files are; None keeps everything in memory.
    """

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._memory: dict[str, str] = {}

    def create(self, cwd: str, roots: list[str]) -> Session:
        """A new session under an id that no session had before."""
        number = self._last_number()
        while True:
            number += 1
            session_id = f"demo-{number}"
            if self._reserve(session_id, number):
                break
        session = Session(session_id, cwd, roots)
        self.save(session)
        return session

    def fork(self, source: Session, roots: list[str]) -> Session:
        """A new session that begins where another one is now."""
        session = self.create(source.cwd, roots)
        data = json.loads(json.dumps(source.as_json()))
        title = None if source.title is None else f"{source.title} (fork)"
        changed = {"sessionId": session.session_id, "additionalDirectories": roots, "title": title}
        session = Session.from_json({**data, **changed})
        self.save(session)
        return session

    def _last_number(self) -> int:
        if self._directory is None:
            return int(self._memory.get("", "0"))
        try:
            with open(os.path.join(self._directory, "counter"), encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def _reserve(self, session_id: str, number: int) -> bool:
        if self._directory is None:
            self._memory[""] = str(number)
            return True
        try:
            descriptor = os.open(
                self._path(session_id), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600
            )
        except FileExistsError:
            return False
        os.close(descriptor)
        self._replace(os.path.join(self._directory, "counter"), str(number))
        return True

    def save(self, session: Session) -> None:
        """Write the session; a full disk loses the history, not the conversation."""
        if session.deleted:
            return
        text = json.dumps(session.as_json(), separators=(",", ":"))
        if self._directory is None:
            self._memory[session.session_id] = text
            return
        with contextlib.suppress(OSError):
            self._replace(self._path(session.session_id), text)

    def load(self, session_id: str) -> Session | None:
        """The session as last saved; None if there is none, or its file is damaged."""
        data = self._read(session_id) if _ID.fullmatch(session_id) else None
        return None if data is None else Session.from_json(data)

    def delete(self, session_id: str) -> None:
        """Forget a session; one that does not exist is no error (the protocol's rule)."""
        if not _ID.fullmatch(session_id):
            return
        if self._directory is None:
            self._memory.pop(session_id, None)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(session_id))

    def page(self, cwd: str | None, cursor: str | None) -> tuple[list[Json], str | None]:
        """One page of ``session/list``, newest first, and the cursor of the next.

        Raises:
            RpcError: the cursor is none of ours.
        """
        before = _decode_cursor(cursor)
        found = [data for data in map(self._read, self._ids()) if data is not None]
        found = [data for data in found if cwd is None or data["cwd"] == cwd]
        found.sort(key=_sort_key, reverse=True)
        if before is not None:
            found = [data for data in found if _sort_key(data) < before]
        page = found[:PAGE_SIZE]
        more = len(found) > PAGE_SIZE
        return [_info(data) for data in page], _encode_cursor(page[-1]) if more else None

    def _ids(self) -> list[str]:
        if self._directory is None:
            return [key for key in self._memory if key]
        names = [name.removesuffix(".json") for name in os.listdir(self._directory)]
        return [name for name in names if _ID.fullmatch(name)]

    def _read(self, session_id: str) -> Json | None:
        try:
            if self._directory is None:
                data = json.loads(self._memory[session_id])
            else:
                with open(self._path(session_id), encoding="utf-8") as file:
                    data = json.load(file)
        except (KeyError, OSError, ValueError):
            return None
        return data if isinstance(data, dict) and "saved" in data else None

    def _path(self, session_id: str) -> str:
        assert self._directory is not None
        return os.path.join(self._directory, f"{session_id}.json")

    def _replace(self, path: str, text: str) -> None:
        temporary = f"{path}.{os.getpid()}"
        descriptor = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)


def open_store(environ: dict[str, str]) -> Store:
    """The store that the environment names, or one in memory where it cannot be used."""
    directory = environ.get("ACP_DEMO_STORE") or _default_directory(environ)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
    except OSError:
        usable = False
    return Store(directory if usable else None)


def _default_directory(environ: dict[str, str]) -> str:
    if sys.platform == "win32":
        state = environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    else:
        state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "acp-jupyter", "demo-agent")


def _info(data: Json) -> Json:
    info: Json = {"sessionId": data["sessionId"], "cwd": data["cwd"]}
    if data["additionalDirectories"]:
        info["additionalDirectories"] = data["additionalDirectories"]
    if data["title"] is not None:
        info["title"] = data["title"]
    return info


def _sort_key(data: Json) -> tuple[int, int]:
    return data["saved"], int(data["sessionId"].removeprefix("demo-"))


def _encode_cursor(data: Json) -> str:
    return base64.urlsafe_b64encode("{}:{}".format(*_sort_key(data)).encode()).decode()


def _decode_cursor(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    try:
        saved, number = base64.urlsafe_b64decode(cursor.encode()).decode().split(":")
        return int(saved), int(number)
    except ValueError:
        raise RpcError(INVALID_PARAMS, "The cursor is not one that session/list gave.") from None
