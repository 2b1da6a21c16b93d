"""Where the registry, downloaded agents and consents are kept: the user's own, and private.

A file that others may write is not read: it decides which programs are run.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from ...errors import UsageError

NAME: Final = "acp-jupyter"


def data_folder() -> Path:
    """What can be fetched again: below Jupyter's data directory."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir(), NAME)


def config_folder() -> Path:
    """What the user has decided: below Jupyter's configuration directory."""
    from jupyter_core.paths import jupyter_config_dir

    return Path(jupyter_config_dir(), NAME)


def make_private(folder: Path) -> Path:
    """A folder that only the user can open; made where it is missing.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if os.name == "posix" and stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def read_private(path: Path, limit: int) -> bytes | None:
    """A file of ours; ``None`` if it is not there.

    Raises:
        UsageError: it is not the user's alone, too large, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            problem = problem_of(os.fstat(file.fileno()))
            if problem:
                raise UsageError(
                    f"{path} is not used: {problem}", remedy=f"Look at it, and run `rm {path}`."
                )
            data = file.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise UsageError(f"{path} is larger than {limit:,} bytes")
    return data


def problem_of(facts: os.stat_result) -> str:
    """Why a file, or a folder, is not the user's alone to write; empty if it is."""
    if os.name != "posix":
        return ""
    if facts.st_uid not in (os.getuid(), 0):
        return "it belongs to somebody else"
    return "others may write it" if facts.st_mode & 0o022 else ""


def write_private(path: Path, text: str) -> None:
    """Put a text into a file that only the user can read, in place of what is there, at once.

    Raises:
        OSError: it cannot be written.
    """
    make_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
