"""A session that is replayed: what the client did then is shown, and nothing is done (`replay`).

With ``apply_files`` recorded writes are made as well, by a file service that asks nobody: what the
policy does not let through unasked is not written, and a notice says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import trio

from ..connection.connection import SERVED
from ..errors import Refusal
from ..protocol import recording
from ..services.files import FileAccess, FileEvent, FileService
from ..services.replay import Replay
from ..services.terminals import CommandRequest
from ..session.changes import Changes, from_data
from ..session.reducer import Reducer
from .changed import AFTER_CANCEL

JSON = Any

LONGEST: Final = 20.0
"""Seconds in which a recording comes from an answer to the end of its turn."""


class Asks(Protocol):
    """Who shows the client's own questions."""

    async def ask_command(self, request: CommandRequest) -> bool: ...

    async def ask_file(self, access: FileAccess) -> bool: ...


class Stops(Protocol):
    """Who stops the turn."""

    def stop_as_recorded(self, how: str, reason: str) -> None: ...


class Replayed:
    """See the module. On trio's thread.

    Args:
        replay: what was recorded.
        reducer: of the session's transcript.
        questions: show and decide.
        session: is stopped.
        on_file: shows a file event.
        writer: makes recorded writes; ``None`` leaves them out.
    """

    def __init__(
        self,
        replay: Replay,
        reducer: Reducer,
        questions: Asks,
        session: Stops,
        *,
        on_file: Callable[[FileEvent], None],
        writer: FileService | None,
    ) -> None:
        self.replay = replay
        self._reducer = reducer
        self._questions = questions
        self._session = session
        self._on_file = on_file
        self._writer = writer
        self._changes: Changes | None = None
        self._ended = False

    async def serve(self, method: str, params: dict[str, Any]) -> JSON:
        """Answer ``fs/…`` or ``terminal/…`` as it was answered.

        Raises:
            Refusal: it was refused, or there is no answer in the recording.
        """

        async def observe(event: recording.File) -> None:
            if method == "fs/write_text_file" and event.outcome == "served":
                await self._write(params)
            self._on_file(FileEvent(event.op, event.path, event.outcome, event.reason, event.bytes))

        return await self.replay.serve(SERVED.get(), ask=self._ask, observe=observe)

    async def _ask(self, decision: recording.Decision) -> None:
        question = about(decision.about)
        if isinstance(question, CommandRequest):
            await self._questions.ask_command(question)
        elif question is not None:
            await self._questions.ask_file(question)

    async def _write(self, params: dict[str, Any]) -> None:
        if self._writer is None:
            return
        try:
            await self._writer.write_text_file(params)
        except Refusal as refusal:
            path = str(params.get("path"))[:1000]
            self._reducer.notice(
                f"not-applied-{path}",
                f"The replay did not write {path}: {refusal.message}",
                level="warning",
            )

    async def begin_turn(self) -> None:
        """Wait until all was said that comes before the next prompt."""
        await self.replay.wait_ready()
        self._changes, self._ended = None, False

    async def changes(self, *, cancelled: bool) -> Changes | None:
        """What had changed when the turn ended; waits for the recording to come to that.

        Args:
            cancelled: by the user of the replay, who does not wait for long.
        """
        with trio.move_on_after(AFTER_CANCEL if cancelled else LONGEST):
            await self.replay.wait_for(lambda: self._ended)
        return self._changes

    def apply(self, event: recording.InSession) -> None:
        """Show what the client showed, do what it did to the turn."""
        if isinstance(event, recording.Terminal):
            self._show(event)
        elif isinstance(event, recording.Notice):
            self._reducer.notice(
                event.key, event.text, level=event.level, detail=event.detail, count=False
            )
        elif isinstance(event, recording.Changes):
            self._changes = from_data(event.files, event.more, event.notes)
        elif isinstance(event, recording.End):
            self._ended = True
            self.replay.wake()
        else:
            self._session.stop_as_recorded(event.how, event.reason)

    def _show(self, event: recording.Terminal) -> None:
        state = self._reducer.terminal(event.ident)
        state.argv, state.cwd = list(event.argv), event.cwd
        state.output, state.truncated = event.output, event.truncated
        state.exit_code, state.signal = event.exit_code, event.signal
        state.running, state.elapsed = event.running, event.elapsed
        self._reducer.touch_terminal(state)
        if event.shown:
            self._reducer.show_terminal(state)


def about_command(request: CommandRequest) -> dict[str, Any]:
    """The question as it is recorded; read again by `about`."""
    command = {
        "argv": list(request.argv),
        "shell": request.shell,
        "cwd": request.cwd,
        "env": [list(pair) for pair in request.env],
        "title": request.title,
    }
    return {"command": command}


def about_file(access: FileAccess) -> dict[str, Any]:
    """The same of a file."""
    texts = {"old_text": access.old_text, "new_text": access.new_text}
    return {
        "file": {
            "operation": access.operation,
            "path": access.path,
            "reason": access.reason,
            **texts,
        }
    }


def about(value: Any) -> CommandRequest | FileAccess | None:
    """A question of the client's from a recording, which may hold anything; else ``None``."""
    match value:
        case {
            "command": {
                "argv": list(argv),
                "shell": bool(shell),
                "cwd": str(cwd),
                "env": list(env),
                "title": str(title),
            }
        } if argv and all(isinstance(word, str) for word in argv):
            pairs = tuple((str(p[0]), str(p[1])) for p in env if isinstance(p, list) and len(p) > 1)
            return CommandRequest(tuple(argv), shell, cwd, pairs, title)
        case {
            "file": {
                "operation": "read" | "write" as operation,
                "path": str(path),
                "reason": str(reason),
                "old_text": str() | None as old_text,
                "new_text": str() | None as new_text,
            }
        }:
            return FileAccess(operation, path, reason, old_text, new_text)
    return None
