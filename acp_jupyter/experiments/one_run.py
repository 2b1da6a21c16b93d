"""One run of a sweep, a process of its own: ``python -m acp_jupyter.experiments.one_run FOLDER``.

`executors` starts it in the folder of a run in flight. It copies the workspace, runs the notebook
in the copy, measures what has changed there and writes ``run.json``, last of all. Exit codes: 0 if
that is there, whatever became of the notebook; 130 if it was told to end; 1 if the run could not be
made. Its standard input is held open by whoever started it: its end means that nobody waits for
the run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ACPError
from ..services.workspace import copies
from ..session.changes import FileChange
from . import directory

if TYPE_CHECKING:
    from .result import RunResult

STOPPED: Final = 130

ALONE_LIMIT: Final = 10.0
"""Seconds to end in order when whoever started the run is gone, and then at once."""


def main(argv: list[str]) -> int:
    threading.Thread(target=_watch_lifeline, name="acp-lifeline", daemon=True).start()
    attempt = Path(argv[0])
    try:
        orders = json.loads((attempt / "job.json").read_bytes())
        return run(attempt, orders)
    except KeyboardInterrupt:
        return STOPPED
    except ACPError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _watch_lifeline() -> None:
    """End this run when whoever started it is gone, also where nothing could tell it so."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(ALONE_LIMIT)
    os._exit(1)


def run(attempt: Path, orders: dict[str, Any]) -> int:
    """Make the run that the orders describe; returns the exit code.

    Raises:
        ACPError: it could not be made.
    """
    from .run import run_notebook

    started = datetime.now(UTC)
    results = directory.Results(attempt.parent.parent)
    base = results.path / directory.WORKSPACE
    with _copy(attempt, base, orders) as place:
        result = run_notebook(
            results.path / directory.NOTEBOOK,
            attempt / directory.NOTEBOOK,
            parameters=orders["parameters"],
            cwd=place / orders["inside"],
            timeout=orders["timeout"],
            permissions=orders["permissions"],
            budget=orders["budget"],
            record=orders["record"],
        )
        if result.status in ("interrupted", "terminated"):
            return STOPPED
        changes = copies.changes(base, place)
    held = _run_data(result, changes, orders, started)
    for name in (directory.PLACE, "job.json", "stderr.txt"):
        (attempt / name).unlink(missing_ok=True)
    text = json.dumps(_without_secrets(held), indent=1, ensure_ascii=False) + "\n"
    directory.write_whole(attempt / directory.RUN, text)
    return 0


def _run_data(
    result: RunResult,
    changes: list[FileChange],
    orders: dict[str, Any],
    started: datetime,
) -> dict[str, Any]:
    """What ``run.json`` says, see `table.rows`."""
    return {
        "version": directory.VERSION,
        **{name: orders[name] for name in ("key", "parameters", "repeat")},
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 3),
        "status": result.status,
        "error": result.error,
        "turns": result.turns,
        "changes": [_change(change) for change in changes],
        "checks": len(result.checks),
        "checks_passed": result.checks_passed,
        "check_results": result.checks,
        "header": result.header,
    }


def _change(change: FileChange) -> dict[str, Any]:
    """A changed file: the words are those of version 1 of ``run.json``."""
    start = change.diff.find("\n--- ") if "\nGIT binary patch\n" not in change.diff else -1
    return {
        "path": change.path,
        "change": {"created": "added", "deleted": "removed"}.get(change.kind, "changed"),
        "lines_added": change.added,
        "lines_removed": change.removed,
        "text": change.diff[start + 1 :] if start >= 0 else "",
    }


def _without_secrets(held: dict[str, Any]) -> Any:
    """Without what this process knows to be secret; a copied file may hold it."""
    from ..connection.environment import redact, secret_values

    secrets = secret_values(os.environ)

    def clean(value: Any) -> Any:
        match value:
            case str():
                return redact(value, secrets)
            case dict():
                return {clean(name): clean(item) for name, item in value.items()}
            case list():
                return [clean(item) for item in value]
            case _:
                return value

    return clean(held)


@contextmanager
def _copy(attempt: Path, base: Path, orders: dict[str, Any]) -> Iterator[Path]:
    """A workspace of this run's own, gone at its end."""
    folder = Path(tempfile.mkdtemp(prefix=f"{directory.COPY_PREFIX}{orders['key']}-"))
    source = Path(orders["workspace"])
    # Named as the workspace is: an agent sees, and a notebook shows, the name of its folder.
    place = folder / (source.name or "workspace")
    worktree = orders["isolate"] == "worktree"
    try:
        (attempt / directory.PLACE).write_text(os.fspath(folder), encoding="utf-8")
        if worktree:
            copies.add_worktree(source, place, orders["commit"])
        else:
            copies.copy(base, place)
        yield place
    finally:
        if worktree:
            copies.remove_worktree(source, place)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
