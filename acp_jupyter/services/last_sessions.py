"""Which session a notebook used last, for ``%acp resume`` after the kernel was restarted.

Kept in Jupyter's data directory, in one file a notebook that only its owner can read: never in the
notebook, which others write too. What is kept says where to go on and nothing else: the session's
id, its directory, and of the agent its name, its protocol and a digest of its command. No command
is started from such a file, and no consent is in it.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Last", "LastSessions"]

AGENTS: Final = 20
"""Agents that are kept of one notebook."""

NOTEBOOKS: Final = 1_000
"""Notebooks that are kept; those used longest ago are forgotten."""

LARGEST: Final = 2**17
"""Bytes of a file that is read."""


class Last(msgspec.Struct, frozen=True):
    """Where a notebook was.

    Attributes:
        alias: under which the agent was connected; may be empty.
        agent: what the user calls it.
        digest: of its command.
        session_id: the agent's.
        cwd: of the session; absolute.
        at: seconds since the epoch.
        protocol: version that the agent speaks; it is asked for that one again.
    """

    alias: str
    agent: str
    digest: str
    session_id: str
    cwd: str
    at: float
    protocol: int = 1


class LastSessions:
    """The file of one notebook.

    Args:
        folder: where the files of all notebooks are.
        notebook: absolute path of the notebook, or of the folder where it is not known.
    """

    def __init__(self, folder: Path, notebook: Path) -> None:
        name = hashlib.sha256(os.fsencode(notebook)).hexdigest()[:40]
        self._path = folder / f"{name}.json"

    def read(self, alias: str, digest: str | None = None) -> Last | None:
        """The session used last under that alias, with that agent or any; ``None`` if unknown."""
        fits = (
            last
            for last in self._read()
            if last.alias == alias and digest in (None, last.digest) and os.path.isabs(last.cwd)
        )
        return max(fits, key=lambda last: last.at, default=None)

    def write(
        self, alias: str, agent: str, digest: str, session_id: str, cwd: str, protocol: int = 1
    ) -> None:
        """Keep where the notebook is now. A disk that is full, or read-only, keeps nothing."""
        now = Last(alias, agent, digest, session_id, cwd, time.time(), protocol)
        others = [last for last in self._read() if (last.alias, last.digest) != (alias, digest)]
        kept = [now, *sorted(others, key=lambda last: -last.at)][:AGENTS]
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                file.write(msgspec.json.encode(kept))
            os.replace(temporary, self._path)
            self._forget_old()
        except OSError:
            return  # it is a convenience: the turn that was just run is worth more

    def _read(self) -> list[Last]:
        try:
            with self._path.open("rb") as file:
                return msgspec.json.decode(file.read(LARGEST), type=list[Last])
        except (OSError, msgspec.MsgspecError):
            return []

    def _forget_old(self) -> None:
        files = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(self._path.parent)]
        for _, path in sorted(files, reverse=True)[NOTEBOOKS:]:
            os.unlink(path)
