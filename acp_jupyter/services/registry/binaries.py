"""Agents that are downloaded: fetched, held against their checksum, unpacked, kept by version.

Each lies in a folder of its own, named after version, address and checksum; it appears there
whole or not at all, and only the user can open it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...errors import UsageError
from .fetching import download
from .model import Binary as Target
from .model import RegistryAgent
from .places import data_folder, make_private
from .unpacking import BOUNDS, Bounds, kind_of, program_in, unpack

AGENTS: Final = "agents"

NEW: Final = ".new-"
"""With which the name of a folder begins that is not complete."""

KILLED_AFTER: Final = 24 * 3600.0
"""Seconds after which such a folder is nobody's: a download has much less time."""


class WrongChecksum(UsageError):
    """What was downloaded is not what the registry says."""


def place_of(agent: RegistryAgent, binary: Target) -> Path:
    """The folder of a downloaded agent, whether it is there or not."""
    words = "\n".join((binary.url, binary.sha256, binary.cmd))
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    return data_folder() / AGENTS / agent.id / f"{agent.version}-{digest}"


def installed(agent: RegistryAgent, binary: Target) -> Path | None:
    """The program of a downloaded agent; ``None`` if it is not there."""
    place = place_of(agent, binary)
    if not place.is_dir():
        return None
    name = binary.cmd if kind_of(binary.url) != "raw" else binary.cmd.rsplit("/", 1)[-1]
    return program_in(place, name)


def install(
    agent: RegistryAgent,
    binary: Target,
    *,
    stopped: Callable[[], bool],
    bounds: Bounds = BOUNDS,
) -> Path:
    """Download an agent unless it is there; returns its program.

    Args:
        agent: whose it is.
        binary: the one for this platform.
        stopped: tells that it is not wanted any more.
        bounds: what its archive may hold.

    Raises:
        WrongChecksum: it is another one than the registry says.
        BadArchive: it would do harm, or is broken.
        CannotFetch: the network says no.
        UsageError: it cannot be kept.
    """
    kind = kind_of(binary.url)
    found = installed(agent, binary)
    if found is not None:
        return found
    place = place_of(agent, binary)
    try:
        for folder in (data_folder(), data_folder() / AGENTS, place.parent):
            make_private(folder)
        _sweep(place.parent)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=NEW) as made:
            archive, folder = Path(made, "archive"), Path(made, "agent")
            with archive.open("wb") as target:
                digest = download(binary.url, target, limit=bounds.sent, stopped=stopped)
            if binary.sha256 and digest != binary.sha256:
                raise WrongChecksum(
                    f"{binary.url} is not what the registry says: its SHA-256 is {digest}, "
                    f"not {binary.sha256}",
                    remedy="It was thrown away. Run `acp-jupyter agents update`, and try again.",
                )
            folder.mkdir(mode=0o700)
            program = unpack(archive, kind, folder, program=binary.cmd, bounds=bounds)
            _keep(folder, place)
            return place / program.relative_to(folder)
    except OSError as error:
        raise UsageError(
            f"{agent.id} cannot be kept in {place}: {error.strerror}",
            remedy="Look whether there is room, and whether the folder is yours.",
        ) from error


def _sweep(folder: Path) -> None:
    """Remove what a download left that was killed; one that still runs is younger."""
    for left in folder.glob(f"{NEW}*"):
        if time.time() - left.stat().st_mtime > KILLED_AFTER:
            shutil.rmtree(left, ignore_errors=True)


def _keep(folder: Path, place: Path) -> None:
    """Move what was unpacked to its place; somebody else may have been faster."""
    try:
        os.rename(folder, place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(folder)
