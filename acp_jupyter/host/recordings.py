"""What of a notebook is recorded, and what is replayed in its place.

Asked for by ``%acp record``, by ``ACP_JUPYTER_RECORD``, or by the notebook's own metadata
(``metadata.acp.record``): to record is no permission, so a notebook may ask for it. Replayed are
connections to ``replay:FILE``, and with ``ACP_JUPYTER_REPLAY`` all of them.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .. import __version__
from ..errors import UsageError
from ..services.agents import REPLAY, AgentSpec, ReplaySource, from_recording
from ..services.recording import Recorder
from ..services.replay import Tapes

RECORD_VARIABLE: Final = "ACP_JUPYTER_RECORD"
REPLAY_VARIABLE: Final = "ACP_JUPYTER_REPLAY"
OPTIONS_VARIABLE: Final = "ACP_JUPYTER_REPLAY_OPTIONS"

SIDECAR: Final = ".acp.jsonl"
"""What the name of a notebook's recording ends with, in place of ``.ipynb``."""

LARGEST_NOTEBOOK: Final = 100 * 2**20
"""Bytes of a notebook that is read for its metadata."""

LARGEST_RUNTIME: Final = 2**16
RUNTIME_FILES: Final = 100
"""Bytes of a server's runtime file, and how many of them are read for their tokens."""


class Recordings:
    """See the module. One per notebook.

    Args:
        environ: the process's environment.
        notebook: the notebook's file, where it is known.

    Attributes:
        tapes: which connections were replayed.
    """

    def __init__(self, environ: Mapping[str, str], notebook: Path | None) -> None:
        self._environ = environ
        self._notebook = notebook
        self._recorder: Recorder | None = None
        self._asked = False
        self.tapes = Tapes()

    @property
    def replayed_from(self) -> str:
        """The recording that takes the place of every agent; empty without one."""
        return self._environ.get(REPLAY_VARIABLE, "")

    def start(self, name: str = "") -> Path:
        """Record the connections from now on; returns where.

        Args:
            name: of the file; empty for the one beside the notebook.

        Raises:
            UsageError: nothing can be recorded there.
        """
        path = Path(os.path.abspath(os.path.expanduser(name))) if name else self._sidecar()
        if self._recorder is not None and self._recorder.active and self._recorder.path == path:
            return path
        recorder = Recorder(
            path, environment=self._environ, values=server_tokens(), client=__version__
        )
        self.stop()
        self._recorder = recorder
        return path

    def stop(self) -> Path | None:
        """Record nothing more; returns what was recorded to."""
        self._asked = True
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        recorder.close()
        return recorder.path

    def current(self) -> Recorder | None:
        """Who records an agent that starts now.

        Raises:
            UsageError: environment or metadata ask for what cannot be.
        """
        if not self._asked:
            self._asked = True
            if self._environ.get(RECORD_VARIABLE):
                self.start(self._environ[RECORD_VARIABLE])
            elif self._notebook is not None and asks_to_be_recorded(self._notebook):
                self.start()
        return self._recorder

    def in_place_of(self, spec: AgentSpec) -> AgentSpec:
        """The agent, or the replay that the environment puts in its place.

        Raises:
            UsageError: there is no such recording.
        """
        if not self.replayed_from or spec.replay is not None:
            return spec
        return self.replay_of(spec.name)

    def replay_of(self, agent: str | None) -> AgentSpec:
        """The replay that the environment puts in the place of an agent of that name, or any."""
        options = shlex.split(self._environ.get(OPTIONS_VARIABLE, ""))
        source, rest = read_options(options)
        if rest:
            raise UsageError(
                f"{OPTIONS_VARIABLE}: {rest[0]!r} is no option",
                remedy="Known: --speed full|original, --apply-files.",
            )
        path = self.replayed_from.removeprefix(REPLAY)
        return from_recording(path, replace(source, agent=agent))

    def _sidecar(self) -> Path:
        if self._notebook is None:
            raise UsageError(
                "the notebook's own file is not known here",
                remedy="Name one: `%acp record FILE`, for example notebook.acp.jsonl.",
            )
        return sidecar_of(self._notebook)


def sidecar_of(notebook: Path) -> Path:
    """Where a notebook's recording is by custom: beside it."""
    return notebook.with_name(notebook.name.removesuffix(".ipynb") + SIDECAR)


def notebook_of(environ: Mapping[str, str], *, by_server: bool) -> Path | None:
    """The notebook's file, which a Jupyter server tells its kernels; ``None`` if unknown."""
    path = Path(environ.get("JPY_SESSION_NAME", ""))
    known = by_server and path.is_absolute() and path.suffix == ".ipynb" and path.is_file()
    return path if known else None


def asks_to_be_recorded(notebook: Path) -> bool:
    """Whether the metadata of a saved notebook say so."""
    try:
        if notebook.stat().st_size > LARGEST_NOTEBOOK:
            return False
        found = json.loads(notebook.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False  # it is the frontend's to tell that a notebook is broken
    for name in ("metadata", "acp", "record"):
        found = found.get(name) if isinstance(found, dict) else None
    return found is True


def read_options(words: Iterable[str]) -> tuple[ReplaySource, list[str]]:
    """How to replay, from ``--speed original`` and ``--apply-files``; and the words that are left.

    Raises:
        UsageError: there is no such speed.
    """
    source, rest = ReplaySource(""), []
    left = iter(words)
    for word in left:
        name, _, value = word.partition("=")
        if name == "--speed":
            speed = value or next(left, "")
            if speed not in ("full", "original"):
                raise UsageError(
                    f"--speed {speed}: there is no such speed", remedy="Use full or original."
                )
            source = replace(source, original=speed == "original")
        elif word == "--apply-files":
            source = replace(source, apply_files=True)
        else:
            rest.append(word)
    return source, rest


def server_tokens() -> set[str]:
    """Tokens of the user's Jupyter servers, which open them to whoever has one."""
    from jupyter_core.paths import jupyter_runtime_dir

    found: set[str] = set()
    folder = Path(jupyter_runtime_dir())
    files = [path for name in ("jpserver", "nbserver") for path in folder.glob(f"{name}-*.json")]
    for path in files[:RUNTIME_FILES]:
        try:
            with path.open("rb") as file:
                facts: Any = json.loads(file.read(LARGEST_RUNTIME))
        except (OSError, ValueError, RecursionError):
            continue
        token = facts.get("token") if isinstance(facts, dict) else None
        if isinstance(token, str) and token:
            found.add(token)
    return found
