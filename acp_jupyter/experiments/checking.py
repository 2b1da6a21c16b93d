"""Checks of a turn: what they need is found out, then they are decided (`session.checks`).

Files come before commands, which may change some themselves. A command is one of the notebook's
author: who runs the cell has it run. It is no shell's, works in the session's folder, and gets the
environment that an agent would, without Jupyter's secrets: it may well run what an agent wrote.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from ..connection.environment import child_environment, redact, secret_values
from ..errors import CheckFailed, UsageError
from ..rendering import checks as rendering
from ..services.patterns import within_path
from ..services.workspace.snapshot import Snapshot
from ..session.checks import Check, CommandEnd, Found, Result, evaluate, parse, parse_line
from ..session.transcript import TerminalState, Turn

COMMAND_LIMIT: Final = 60.0
"""Seconds that a command may take."""

OUTPUT: Final = 1_500
"""Characters kept of the end of its output."""

NO_SNAPSHOT: Final = (
    "nobody looked at the files while the turn ran, and no snapshot of them was taken; run "
    "`%acp snapshot`, or session.snapshot(), before the prompt"
)


class Checks(Sequence[Result]):
    """Results of checks, in order. It displays itself, and keeps its data with the output."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = tuple(results)

    @property
    def passed(self) -> bool:
        """Whether all did."""
        return all(result.passed for result in self._results)

    def raise_for_failure(self) -> Checks:
        """Itself, if all passed.

        Raises:
            CheckFailed: one did not.
        """
        wrong = [result for result in self._results if not result.passed]
        if wrong:
            lines = "; ".join(result.check for result in wrong)
            raise CheckFailed(f"{len(wrong)} of {len(self)} checks did not pass: {lines}")
        return self

    def as_json(self) -> list[dict[str, str]]:
        return [result.as_json() for result in self._results]

    def __getitem__(self, index: Any) -> Any:
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __repr__(self) -> str:
        return f"<Checks: {rendering.title(self._results)}>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Called by IPython to display it."""
        return rendering.bundle(self._results), rendering.metadata(self._results)


def run_checks(
    checks: Sequence[Check],
    turn: Turn,
    *,
    terminals: Mapping[str, TerminalState],
    cwd: str,
    snapshot: Snapshot | None,
    timeout: float = COMMAND_LIMIT,
) -> Checks:
    """Check a turn that has ended.

    Args:
        checks: from `session.checks.parse`.
        turn: which turn.
        terminals: of its session.
        cwd: the session's folder.
        snapshot: what files are compared with; ``None`` for how they were before the turn.
        timeout: seconds that each command may take.

    Raises:
        UsageError: there was no turn yet, or it is running; there is no check.
    """
    if not checks:
        raise UsageError(
            "there is nothing to check", remedy="Write a check in each line; see `%%acp_check?`."
        )
    if turn.number == 0 or turn.running:
        what = "is still running" if turn.running else "was not prompted yet"
        raise UsageError(f"the turn {what}", remedy="Run this when a prompt has ended.")
    changed, unknown = None, ""
    if any(check.name in ("changed", "unchanged") for check in checks):
        changed, unknown = _changed(snapshot, turn, cwd)
    commands = {
        check.argument: _run(check.argument, cwd, timeout)
        for check in checks
        if check.name == "command:"
    }
    found = Found(turn, dict(terminals), changed, unknown, commands)
    return Checks(evaluate(checks, found, _matches))


def _matches(pattern: str, path: str) -> bool:
    return within_path(pattern, path, strict=True)


def _changed(snapshot: Snapshot | None, turn: Turn, cwd: str) -> tuple[list[str] | None, str]:
    if snapshot is None:
        return _changed_in(turn, cwd)
    if snapshot.folder != os.path.realpath(cwd):
        return None, "the snapshot is of another folder than the session's"
    try:
        return snapshot.changed(), ""
    except UsageError as error:
        return None, error.message


def _changed_in(turn: Turn, cwd: str) -> tuple[list[str] | None, str]:
    """What changed while the turn ran."""
    changes = turn.changes
    if changes is None:
        return None, NO_SNAPSHOT
    if changes.notes or changes.more:
        return None, " ".join([*changes.notes, *(["More files changed."] if changes.more else [])])
    roots = (os.path.realpath(cwd), "")
    return [change.path for change in changes.files if change.root in roots], ""


def from_arguments(lines: Sequence[str], named: Mapping[str, object]) -> list[Check]:
    """Checks as a program gives them: lines, and keywords such as ``tool_used="edit"``.

    ``cost``, ``seconds`` and ``tokens`` are upper limits; a list stands for several checks.

    Raises:
        UsageError: one of them is none.
    """
    found = [check for line in lines for check in parse(line)]
    for keyword, value in named.items():
        name = keyword.replace("_", " ")
        for one in value if isinstance(value, list | tuple) else [value]:
            found.append(_from_keyword(name, one))
    return found


def _from_keyword(name: str, value: object) -> Check:
    if name in ("cost", "seconds", "tokens"):
        return parse_line(f"{name} <= {value}")
    if name == "no permission denied" and value is True:
        return parse_line(name)
    if name in ("changed", "unchanged"):
        return parse_line(f"{name} {value}")
    return parse_line(f"{name}: {value}")


# -- commands -------------------------------------------------------------------------------------


def _run(command: str, cwd: str, timeout: float) -> CommandEnd:
    try:
        argv = shlex.split(command)
    except ValueError as error:
        return CommandEnd(None, f"the command cannot be read: {error}")
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=child_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, IndexError) as error:
            return CommandEnd(None, f"it could not be started: {error}")
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return CommandEnd(None, f"it took longer than {timeout:g} s\n{_tail(output)}".strip())
        finally:
            _end(process)
        return CommandEnd(code, _tail(output), time.monotonic() - begun)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has left running, also when the cell is interrupted."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended
    process.wait()


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT))
    text = output.read(OUTPUT).decode("utf-8", "replace").strip()
    return redact(text, secret_values(os.environ))
