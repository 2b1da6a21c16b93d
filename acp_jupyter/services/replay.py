"""Replaying in the client: which connection an agent stands for, and what was decided in it.

A replay is an agent in a process of its own (`replay_agent`). Beside the frames it hands on what
the client decided and served then, in notifications that are heard from such a process only.
Its rules:

* The client touches nothing for it: questions get the recorded answers, files and terminals the
  recorded outcomes. Nobody is asked.
* A question that the recording has no answer to is denied.
* What was recorded is still not trusted: it is shown as an agent's words are, and nothing more.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from ..errors import Refusal, UsageError
from ..protocol import recording
from .agents import AgentSpec, Shown

LARGEST: Final = 2**30
"""Bytes of a recording."""

_HEADER: Final = b'{"type":"header"'

Ident = int | str | None
Told = recording.Decision | recording.Answer | recording.File | recording.Served
T = TypeVar("T", bound=Told)

NOT_RECORDED: Final = "the recording has no decision for it"


class Tapes:
    """Which connections of recordings were replayed already; one of these per notebook."""

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}

    async def take(self, spec: AgentSpec, *, again: bool) -> AgentSpec:
        """The spec with a command: the next connection of its recording.

        Args:
            spec: one with a ``replay``.
            again: begin with the first connection again when all were replayed.

        Raises:
            UsageError: the file is no recording, or has no further connection to that agent.
        """
        assert spec.replay is not None
        source = spec.replay
        headers = await trio.to_thread.run_sync(read_headers, source.path)
        wanted = [each for each in headers if source.agent in (None, each.agent.name)]
        used = self._used.setdefault(source.path, set())
        left = [each for each in wanted if each.connection not in used]
        if not left and again and wanted:
            used.difference_update(each.connection for each in wanted)
            left = wanted
        if not left:
            raise _not_there(source.path, source.agent, headers)
        header = left[0]
        used.add(header.connection)
        number = str(header.connection)
        argv = [sys.executable, "-P", "-m", "acp_jupyter.replay_agent", source.path]
        argv += ["--connection", number, "--speed", "original" if source.original else "full"]
        shown = Shown(" ".join(header.agent.argv), header.permissions)
        return replace(spec, name=header.agent.name, argv=tuple(argv), shown=shown)


def read_headers(path: str) -> list[recording.Header]:
    """The connections of a recording, in order.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is no file", remedy="Name a recording.")
            if status.st_size > LARGEST:
                raise UsageError(
                    f"the recording {path} has {status.st_size:,} bytes, more than {LARGEST:,}",
                    remedy="Record less of it at once.",
                )
            return [
                line for line in recording.read(file.readline) if isinstance(line, recording.Header)
            ]
    except OSError as error:
        raise UsageError(
            f"the recording {path} cannot be read: {error.strerror}",
            remedy="Record a run first: `%acp record`, or ACP_JUPYTER_RECORD.",
        ) from error
    except UsageError as error:
        raise UsageError(f"{Path(path).name}: {error.message}", remedy=error.remedy) from error


def _not_there(path: str, agent: str | None, headers: list[recording.Header]) -> UsageError:
    names = [each.agent.name for each in headers]
    counted = ", ".join(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))
    which = f" to agent {agent!r}" if agent is not None else ""
    return UsageError(
        f"the recording {Path(path).name} has no further connection{which}; "
        f"it has connections to {counted}"[:1000],
        remedy="Restart the kernel to replay from the start, or record the run again.",
    )


class Replay:
    """What a replaying agent tells of the recording; one per agent, on trio's thread."""

    def __init__(self) -> None:
        self._told: defaultdict[Ident, deque[Told]] = defaultdict(deque)
        self._news = trio.Event()
        self._over = False
        self._released = 0
        self._asked = 0
        self._ready = 0

    def begin_request(self) -> None:
        """The client asks: what the agent says until it waits again belongs to that."""
        self._asked += 1

    async def wait_ready(self) -> None:
        """Wait until all was said that was said before the client's next request."""
        while self._ready < self._asked and not self._over:
            await self._news.wait()

    def tell(self, event: Told | recording.Over | recording.Ready) -> None:
        """Take what was recorded."""
        if isinstance(event, recording.Over):
            self.end()
            return
        if isinstance(event, recording.Ready):
            self._ready = event.requests
            self.wake()
            return
        self._told[event.request].append(event)
        self.wake()

    def end(self) -> None:
        """There is no more: who waits gets nothing."""
        self._over = True
        self.wake()

    def release(self) -> None:
        """The user has cancelled what is replayed: who waits now gets nothing."""
        self._released += 1
        self.wake()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something told has made it true, or nothing more comes before a request."""
        while not condition() and not self._over and self._ready < self._asked:
            await self._news.wait()

    def wake(self) -> None:
        """Have those who wait look again."""
        self._news.set()
        self._news = trio.Event()

    async def peek(self, request: Ident) -> Told | None:
        """What comes next for a request of the agent's; ``None`` if nothing does."""
        released = self._released
        while not self._told[request]:
            if self._over or self._released != released:
                return None
            await self._news.wait()
        return self._told[request][0]

    async def take(self, request: Ident, kind: type[T]) -> T | None:
        """`peek`, taken; ``None`` also if it is of another kind."""
        event = await self.peek(request)
        if not isinstance(event, kind):
            return None
        self._told[request].popleft()
        return event

    async def serve(
        self,
        request: Ident,
        *,
        ask: Callable[[recording.Decision], Any],
        observe: Callable[[recording.File], Any],
    ) -> Any:
        """Answer a file or terminal request as it was answered.

        Args:
            request: its id.
            ask: shows a question of the client's, and takes its decision (a coroutine function).
            observe: shows what became of a file (a coroutine function).

        Raises:
            Refusal: it was refused, or the recording ends.
        """
        while (event := await self.peek(request)) is not None:
            if isinstance(event, recording.Decision):
                await ask(event)
                if self._told[request] and self._told[request][0] is event:
                    self._told[request].popleft()
                continue
            self._told[request].popleft()
            if isinstance(event, recording.File):
                await observe(event)
            elif isinstance(event, recording.Served):
                return served(event)
        raise Refusal("the recording has no answer to it")


def served(event: recording.Served) -> Any:
    """The recorded result.

    Raises:
        Refusal: it was an error.
    """
    if event.error is None:
        return event.result
    code, message = event.error.get("code"), event.error.get("message")
    known = {"code": code} if type(code) is int else {}
    raise Refusal(str(message)[:1000], data=event.error.get("data"), **known)
