"""Recording: what is said and decided, written to a file (`protocol.recording` has its form).

Rules:

* Nothing here fails a turn or holds it up: what cannot be written is told once, and recording ends.
* Lines are redacted before they leave the memory: values of secret environment variables, tokens
  and passwords by their shapes, also where an agent's answer cuts one into two chunks.
* The file is new, and its mode 0600 from the start; then it takes the place of an older recording.
  A symbolic link is not followed, and a file that is no recording is not touched.
* What a turn has said is in the file when the turn has ended.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from ..connection.environment import secret_values
from ..errors import UsageError
from ..protocol import recording
from ..protocol.secrets import Redactor

HELD_LIMIT: Final = 8 * 2**20
"""Bytes of the wire that are held back in a turn; then they are written before its end."""

BEGINNING: Final = b'{"type":"header","version":'
"""With which a recording begins."""

SHOWN: Final = 10_000
"""Characters that are kept of texts for people."""

Line = recording.Line


class Recorder:
    """Writes one file; connections of several agents may be in it. On trio's thread.

    Args:
        path: of the file; it is made when the first turn has ended.
        environment: values of its secret-looking variables are secrets.
        values: other values that are.
        client: our version.

    Attributes:
        failed: why nothing is recorded any more; empty while it is.
    """

    def __init__(
        self,
        path: Path,
        *,
        environment: Mapping[str, str],
        values: Iterable[str] = (),
        client: str,
    ) -> None:
        self.path = path
        self.failed = ""
        self._environment = dict(environment)
        self._values = frozenset(values)
        self._client = client
        self._fd = -1
        self._size = 0
        self._connections = 0
        self._closed = False
        check(path)

    def connection(
        self, *, name: str, argv: Sequence[str], cwd: str, environment: Mapping[str, str]
    ) -> Connection:
        """Begin to record a connection.

        Args:
            name: what the user calls the agent.
            argv: its command.
            cwd: absolute.
            environment: the agent's.
        """
        self._connections += 1
        redactor = Redactor(
            self._values | secret_values(self._environment) | secret_values(environment)
        )
        header = recording.Header(
            1,
            self._connections,
            datetime.now(UTC).isoformat(timespec="seconds"),
            recording.AgentFacts(name, [redactor.text(word) for word in argv]),
            self._client,
            cwd,
        )
        return Connection(self, header, redactor)

    def close(self) -> None:
        """Nothing is recorded any more; the file stays."""
        self._closed = True
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def active(self) -> bool:
        """Whether what comes now is recorded."""
        return not self._closed and not self.failed

    def write(self, lines: list[bytes]) -> None:
        """Append lines; a failure ends the recording, see `failed`."""
        if not self.active or not lines:
            return
        data = b"".join(lines)
        try:
            if self._fd < 0:
                self._fd = _new_file(self.path)
            _write_all(self._fd, data)
            self._size += len(data)
        except OSError as error:
            self.failed = error.strerror or str(error)
            self._cut()

    def _cut(self) -> None:
        """Leave no half of a line behind."""
        if self._fd >= 0:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                pass  # then the last line is torn, which readers know
            os.close(self._fd)
            self._fd = -1


@dataclass(frozen=True, slots=True)
class _Wire:
    """A line of the wire, not yet understood."""

    t: float
    turn: int
    sent: bool
    cell: str
    data: bytes


class Connection:
    """Records one connection; made by `Recorder.connection`.

    Attributes:
        cell: id of the notebook's cell that runs.
        title, version: what the agent says of itself, once it has.
        permissions: the policy in words.
        on_failure: called once with the reason when recording had to end.
    """

    def __init__(self, recorder: Recorder, header: recording.Header, redactor: Redactor) -> None:
        self._recorder = recorder
        self._header: recording.Header | None = header
        self._number = header.connection
        self._redactor = redactor
        self._began = trio.current_time()
        self._held: list[_Wire | Line] = []
        self._size = 0
        self._turn = 0
        self._told = False
        self._dropped = False
        self.cell = ""
        self.title = ""
        self.version = ""
        self.permissions = ""
        self.on_failure: Callable[[str], None] = _ignore

    # -- what happens --------------------------------------------------------------------------

    def tap(self, now: float, sent: bool, line: bytes) -> None:
        """A line of the wire."""
        if self._recorder.active:
            self._held.append(_Wire(self._since(now), self._turn, sent, self.cell, bytes(line)))
            self._size += len(line)
            if self._size > HELD_LIMIT:
                self.flush()

    def conceal(self, values: Iterable[str]) -> None:
        """Further values that are secret."""
        self._redactor.add(values)

    def begin_turn(self) -> None:
        self._turn += 1

    def end_turn(self, **fields: Any) -> None:
        """The turn ended (see `recording.End`): all of it is written."""
        self._add(recording.End(**self._where(), **_cut_texts(fields)))
        self.flush()

    def decision(self, **fields: Any) -> None:
        """See `recording.Decision`."""
        self._add(recording.Decision(**self._where(), **_cut_texts(fields)))

    def answer(self, **fields: Any) -> None:
        """See `recording.Answer`."""
        self._add(recording.Answer(**self._where(), **_cut_texts(fields)))

    def file(self, **fields: Any) -> None:
        """See `recording.File`."""
        self._add(recording.File(**self._where(), **_cut_texts(fields)))

    def terminal(self, **fields: Any) -> None:
        """See `recording.Terminal`."""
        self._add(recording.Terminal(**self._where(), **fields))

    def notice(self, **fields: Any) -> None:
        """See `recording.Notice`."""
        self._add(recording.Notice(**self._where(), **_cut_texts(fields)))

    def changes(self, **fields: Any) -> None:
        """See `recording.Changes`."""
        self._add(recording.Changes(**self._where(), **fields))

    def stop(self, **fields: Any) -> None:
        """See `recording.Stop`."""
        self._add(recording.Stop(**self._where(), **_cut_texts(fields)))

    def exit(self, returncode: int | None, stderr: str) -> None:
        """See `recording.Exit`."""
        self._add(recording.Exit(**self._where(), returncode=returncode, stderr=stderr))

    # -- writing -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what has happened so far."""
        held, self._held, self._size = self._held, [], 0
        if self._dropped:
            return
        lines: list[Line] = []
        if self._header is not None and held:
            agent = msgspec.structs.replace(
                self._header.agent, title=self.title, version=self.version
            )
            header = msgspec.structs.replace(
                self._header, agent=agent, permissions=self.permissions[:SHOWN]
            )
            lines.append(header)
            self._header = None
        for each in held:
            lines += self._frames(each) if isinstance(each, _Wire) else [each]
        self._recorder.write(list(map(recording.encode, self._redacted(lines))))
        if self._recorder.failed and not self._told:
            self._told = True
            self.on_failure(self._recorder.failed)

    def drop(self) -> None:
        """Nothing of this connection is written: it was given up for another one at once."""
        self._dropped = True

    def _where(self) -> dict[str, Any]:
        return {
            "connection": self._number,
            "t": self._since(trio.current_time()),
            "turn": self._turn,
        }

    def _since(self, now: float) -> float:
        return round(max(0.0, now - self._began), 6)

    def _add(self, line: Line) -> None:
        if self._recorder.active:
            self._held.append(line)

    def _frames(self, wire: _Wire) -> Iterator[recording.Frame]:
        """A line of the wire, understood; of a batch of ours its messages one by one, as they are
        waited for in a replay."""
        try:
            message = msgspec.json.decode(wire.data)
        except (ValueError, RecursionError):
            message = None
        if wire.sent and isinstance(message, list):
            yield from (self._frame(wire, part) for part in message)
        else:
            yield self._frame(wire, message)

    def _frame(self, wire: _Wire, message: Any) -> recording.Frame:
        raw = None
        if not isinstance(message, dict) or not _WIRE.intersection(message):
            message, raw = None, wire.data.decode("utf-8", "replace")  # shown as it came
        return recording.Frame(
            connection=self._number,
            t=wire.t,
            turn=wire.turn,
            direction="out" if wire.sent else "in",
            cell=wire.cell,
            message=message,
            raw=raw,
        )

    def _redacted(self, lines: list[Line]) -> list[Line]:
        """The lines without secrets."""
        for run in _runs(lines):
            texts = self._redactor.pieces([content["text"] for content in run])
            for content, text in zip(run, texts, strict=True):
                content["text"] = text
        return [self._redacted_line(line) for line in lines]

    def _redacted_line(self, line: Line) -> Line:
        value = self._redactor.value
        if isinstance(line, recording.Header):
            return line
        if isinstance(line, recording.Frame):
            raw = None if line.raw is None else self._redactor.text(line.raw)
            return msgspec.structs.replace(line, message=value(line.message), raw=raw)
        fields = {
            name: value(getattr(line, name))
            for name in line.__struct_fields__
            if isinstance(getattr(line, name), str | list | dict) and name not in _OWN_WORDS
        }
        return msgspec.structs.replace(line, **fields)


_WIRE: Final = frozenset({"method", "result", "error"})
"""One of which a JSON-RPC message has."""

_OWN_WORDS: Final = frozenset({"state", "action", "op", "outcome", "level", "how", "request"})


def _runs(lines: Iterable[Line]) -> list[list[dict[str, Any]]]:
    """The text contents of chunks that follow each other in one message, of two or more."""
    runs: list[list[dict[str, Any]]] = []
    kinds: dict[Any, tuple[str, list[dict[str, Any]]]] = {}
    for line in lines:
        found = _chunk(line.message) if isinstance(line, recording.Frame) else None
        if found is None:
            continue
        session, kind, content = found
        before = kinds.get(session)
        if before is None or before[0] != kind:
            run: list[dict[str, Any]] = []
            runs.append(run)
            kinds[session] = (kind, run)
        if content is not None:
            kinds[session][1].append(content)
    return [run for run in runs if len(run) > 1]


def _chunk(message: Any) -> tuple[str, str, dict[str, Any] | None] | None:
    """Session, kind and text content of an update; ``None`` if it is none."""
    params = message.get("params") if isinstance(message, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(update, dict):
        return None
    kind, content = str(update.get("sessionUpdate")), update.get("content")
    text = isinstance(content, dict) and isinstance(content.get("text"), str)
    return str(params.get("sessionId")), kind, content if text else None


def _cut_texts(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value[:SHOWN] if isinstance(value, str) else value for name, value in fields.items()
    }


def _ignore(_reason: str) -> None:
    return None


# -- the file -------------------------------------------------------------------------------------


def check(path: Path) -> None:
    """See that a recording can be made there.

    Raises:
        UsageError: it cannot, or there is something else that would be lost.
    """
    remedy = "Name another file: `%acp record FILE`."
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", remedy=remedy)
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"nothing can be written in {path.parent}", remedy=remedy) from None
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be looked at: {error.strerror}", remedy=remedy) from error
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is no plain file, and links are not followed", remedy=remedy)
    if found.st_size and not _is_recording(path):
        raise UsageError(f"{path} is there already and is no recording", remedy=remedy)


def _is_recording(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(len(BEGINNING)) == BEGINNING
    except OSError:
        return False


def _new_file(path: Path) -> int:
    """A new file in place of an older recording, open for appending."""
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600)
    try:
        os.fchmod(fd, 0o600)  # whatever the umask took away
        os.replace(temporary, path)
    except BaseException:
        os.close(fd)
        os.unlink(temporary)
        raise
    return fd


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
