"""The directory of a sweep's results, which is all that a sweep knows of what was done before.

::

    DIR/sweep.json         the manifest: what is swept, and how each run is made (`Manifest`)
    DIR/notebook.ipynb     the notebook as it was when the sweep began
    DIR/workspace/         the workspace as it was then; each run begins with a copy of it
    DIR/runs/KEY/          a run that has ended, never run again:
        run.json           what became of it (`table` reads it)
        notebook.ipynb     the executed notebook
        notebook.acp.jsonl the recording, where it was asked for
    DIR/runs/.KEY.XXXX/    a run in flight, or one that was killed; the next start removes these
    DIR/table.csv          all runs, see `table`; table.parquet too, where pyarrow is installed

The rules:

* A run is worked on in its own folder and gets its name with one rename, when all is written. So it
  is there whole or not at all, and a kill at any moment costs the runs in flight.
* One sweep at a time has the directory (a lock that ends with its process).
* The notebook, the workspace and the settings of all runs are the same: what has changed since
  belongs into another directory, and a sweep says so.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import ACPError, UsageError
from .grid import KEY_LENGTH

VERSION: Final = 1
MANIFEST: Final = "sweep.json"
NOTEBOOK: Final = "notebook.ipynb"
WORKSPACE: Final = "workspace"
RUN: Final = "run.json"
UNFINISHED: Final = ".unfinished"
"""There while the directory is set up."""

PLACE: Final = "place"
"""In the folder of a run in flight: where its copy of the workspace is."""

COPY_PREFIX: Final = "acp-sweep-"
"""Of the folders with copies, which are in the system's place for temporary ones: an agent that
looks above its workspace, for a repository or for instructions, shall not find the results."""

MAX_RUN: Final = 200_000_000
"""Bytes of one run.json that are read."""

Isolate = Literal["copy", "worktree"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What all runs of a directory have in common.

    Attributes:
        notebook: the notebook's path, as it was given.
        digest: of its content, see `grid.digest`.
        workspace: the folder whose copies the runs have.
        inside: where in it the runs' kernels start, relative to it.
        isolate: "copy", or "worktree" of its git repository.
        commit: that the worktrees have; empty for copies.
        settings: of all runs: timeout, permissions, budget, record.
        parameters: names, in the grid's order.
    """

    notebook: str
    digest: str
    workspace: str
    inside: str
    isolate: Isolate
    commit: str
    settings: Mapping[str, Any]
    parameters: tuple[str, ...]


class Results:
    """A directory of results; see the module.

    Args:
        path: may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.runs = self.path / "runs"

    # -- the manifest --------------------------------------------------------------------------

    def manifest(self) -> Manifest | None:
        """What is swept here; ``None`` if nothing is yet.

        Raises:
            UsageError: it cannot be read.
        """
        try:
            held = json.loads((self.path / MANIFEST).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from error
        if not isinstance(held, dict) or held.get("version") != VERSION:
            raise self._damaged("it is of another version")
        try:
            values = {field.name: held[field.name] for field in fields(Manifest)}
            return Manifest(**{**values, "parameters": tuple(values["parameters"])})
        except (KeyError, TypeError) as error:
            raise self._damaged(f"it lacks {error}") from error

    def _damaged(self, why: str) -> UsageError:
        return UsageError(
            f"{self.path / MANIFEST} cannot be used: {why}",
            remedy="Name a directory that `acp-jupyter sweep` made, or a new one.",
        )

    def begin(self, manifest: Manifest, notebook: str, workspace: Callable[[Path], object]) -> None:
        """Set the directory up; what an earlier try left is made anew.

        Args:
            manifest: written last of all.
            notebook: its text.
            workspace: puts a copy of the workspace into a folder that is not there yet.

        Raises:
            UsageError: there is something else in the directory.
            ACPError: it cannot be written.
        """
        if self.runs.exists():
            raise UsageError(
                f"{self.path} has runs, but lacks {MANIFEST}", remedy="Name a new directory."
            )
        place = self.path / WORKSPACE
        if place.exists():
            if not (self.path / UNFINISHED).exists():
                raise UsageError(
                    f"{place} is in the way: a sweep keeps its copy of the workspace there",
                    remedy="Name a new directory.",
                )
            shutil.rmtree(place)
        self.write(UNFINISHED, "")
        workspace(place)
        place.chmod(0o700)
        self.write(NOTEBOOK, notebook)
        held = {"version": VERSION, **asdict(manifest)}
        self.write(MANIFEST, json.dumps(held, indent=1, ensure_ascii=False) + "\n")
        (self.path / UNFINISHED).unlink()

    def check(self, manifest: Manifest) -> None:
        """Refuse to mix runs that cannot be compared.

        Raises:
            UsageError: what is swept here is something else.
        """
        known = self.manifest()
        if known is None or known == manifest:
            return
        words = {
            "notebook": "the notebook is another one",
            "digest": "the notebook has changed",
            "workspace": "the workspace is another one",
            "isolate": "--isolate is another one",
            "commit": "the repository is at another commit",
            "settings": "the runs' limits, permissions or recording are others",
            "parameters": "the grid has other parameters",
        }
        differing = [
            text for name, text in words.items() if getattr(known, name) != getattr(manifest, name)
        ]
        if differing == [words["notebook"]]:
            return  # the same, by another path
        raise UsageError(
            f"{self.path} holds runs that these cannot be compared with: {', '.join(differing)}",
            remedy="Name a new directory with -o, or undo the change to go on with this one.",
        )

    # -- runs ----------------------------------------------------------------------------------

    def finished(self) -> set[str]:
        """Keys of the runs that have ended."""
        try:
            names = os.listdir(self.runs)
        except FileNotFoundError:
            return set()
        return {name for name in names if is_key(name) and (self.runs / name / RUN).is_file()}

    def attempt(self, key: str) -> Path:
        """A new folder for a run in flight."""
        self.runs.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{key}.", dir=self.runs))

    def keep(self, attempt: Path, key: str) -> None:
        """Make a run in flight one that has ended.

        Raises:
            ACPError: it cannot be renamed.
        """
        try:
            os.rename(attempt, self.runs / key)
        except OSError as error:
            raise ACPError(f"the run {key} cannot be kept: {error}") from error

    def read(self, key: str) -> dict[str, Any]:
        """One run.

        Raises:
            ACPError: its file is damaged.
        """
        return read_run(self.runs / key / RUN)

    def forget(self, key: str) -> None:
        """Remove a run, to have it run again."""
        place = self.attempt(key)
        os.rename(self.runs / key, place / "old")
        shutil.rmtree(place, ignore_errors=True)

    def clear(self) -> int:
        """Remove what runs left that were stopped or killed; returns how many they were. Only
        while the lock is held."""
        attempts = sorted(self.runs.glob(".*.*")) if self.runs.is_dir() else []
        for attempt in attempts:
            place = _place(attempt)
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(attempt, ignore_errors=True)
        return len(attempts)

    # -- files ---------------------------------------------------------------------------------

    def write(self, name: str, text: str | bytes) -> None:
        """Write a file of the directory whole, or leave it as it was.

        Raises:
            ACPError: it cannot be written.
        """
        write_whole(self.path / name, text)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Have the directory alone.

        Raises:
            UsageError: another sweep has it.
            ACPError: the directory cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("ab")
        except OSError as error:
            raise ACPError(f"the directory {self.path} cannot be written: {error}") from error
        with file:
            if not _locked(file.fileno()):
                raise UsageError(
                    f"another sweep is writing to {self.path}",
                    remedy="Wait for its end, or stop it, and start this one again.",
                )
            yield


def _locked(descriptor: int) -> bool:
    """Lock a file until it is closed, which the system does for a process that was killed."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_key(name: str) -> bool:
    return len(name) == KEY_LENGTH and set(name) <= set("0123456789abcdef")


def _place(attempt: Path) -> Path | None:
    """Where the copy of a run is that was killed, if that is a folder of ours."""
    try:
        place = Path((attempt / PLACE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    ours = place.name.startswith(COPY_PREFIX) and ".." not in place.parts
    return place if ours and place.parent == Path(tempfile.gettempdir()) else None


def read_run(path: Path) -> dict[str, Any]:
    """The file of one run, checked: anybody may have written it.

    Raises:
        ACPError: it is damaged.
    """
    try:
        if path.stat().st_size > MAX_RUN:
            raise ACPError(f"{path} is too large to be read")
        held = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ACPError(
            f"{path} is damaged: {error}", remedy="Remove its folder to have it run again."
        ) from error
    kinds: dict[str, Any] = {
        "key": str,
        "parameters": dict,
        "repeat": int,
        "seconds": (int, float),
        "status": str,
        "error": str,
        "turns": list,
        "changes": list,
        "checks": int,
        "checks_passed": int,
    }
    sound = isinstance(held, dict) and held.get("version") == VERSION
    if not sound or not all(isinstance(held.get(name), kind) for name, kind in kinds.items()):
        raise ACPError(f"{path} is damaged", remedy="Remove its folder to have it run again.")
    turns, changes = held["turns"], held["changes"]
    counted = ("lines_added", "lines_removed")
    if not all(isinstance(item, dict) for item in [*turns, *changes]) or not all(
        type(change.get(name)) is int for change in changes for name in counted
    ):
        raise ACPError(f"{path} is damaged", remedy="Remove its folder to have it run again.")
    result: dict[str, Any] = held
    return result


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file so that a reader, or a kill, finds the old one or the new one.

    Raises:
        ACPError: it cannot be written.
    """
    data = text.encode("utf-8") if isinstance(text, str) else text
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ACPError(f"the file {path} cannot be written: {error}") from error
