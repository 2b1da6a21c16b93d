"""Which frontend runs a cell, and so how to publish and how to ask.

Told from what the frontend itself cannot get wrong: the environment that the server gives a
kernel, whether the request allows stdin, and who started the process.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, get_args

from ..display import Publish
from ..errors import UsageError

Ask = Literal["widgets", "stdin", "terminal"]
"""``terminal`` is that of a script; cells ask by the others."""

OUTPUT_VARIABLE: Final = "ACP_JUPYTER_OUTPUT"


@dataclass(frozen=True, slots=True)
class Frontend:
    """How to publish to a frontend, and the ways to ask its user, in order."""

    publish: Publish
    ask: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """How this process was started; read once.

    Attributes:
        by_server: a Jupyter server started it for a notebook (``JPY_SESSION_NAME`` is its own).
        by_console: ``jupyter console`` did.
        publish: what ``ACP_JUPYTER_OUTPUT`` asks for, if anything.
    """

    by_server: bool
    by_console: bool
    publish: Publish | None


def choose(launch: Launch, *, allow_stdin: bool) -> Frontend:
    """The frontend of a cell.

    A server's frontends show widgets, also those that forbid stdin; `jupyter console` shows
    neither widgets nor updates. Who allows nothing gets no question: nobody can answer.
    """
    stdin: tuple[Ask, ...] = ("stdin",) if allow_stdin else ()
    if launch.by_server:
        return Frontend(launch.publish or "updates", ("widgets", *stdin))
    if launch.by_console and allow_stdin:
        return Frontend(launch.publish or "append", stdin)
    return Frontend(launch.publish or "updates", stdin)


def read_launch(environ: Mapping[str, str]) -> Launch:
    """Find out how this process was started.

    Raises:
        UsageError: ``ACP_JUPYTER_OUTPUT`` asks for something unknown.
    """
    parent = os.getppid()
    return Launch(
        by_server=bool(environ.get("JPY_SESSION_NAME")) and _is_server(parent),
        by_console=is_console(_command_of(parent)),
        publish=_publish(environ.get(OUTPUT_VARIABLE, "")),
    )


def _publish(value: str) -> Publish | None:
    if not value:
        return None
    for known in get_args(Publish):
        if value == known:
            return known
    raise UsageError(
        f"{OUTPUT_VARIABLE}={value!r} is unknown",
        remedy=f"Use one of: {', '.join(get_args(Publish))}.",
    )


def _is_server(pid: int) -> bool:
    """A server writes a file that names its process; a kernel started by another program inherits
    only the variable."""
    from jupyter_core.paths import jupyter_runtime_dir

    runtime = Path(jupyter_runtime_dir())
    return any((runtime / f"{name}-{pid}.json").exists() for name in ("jpserver", "nbserver"))


def is_console(command: Sequence[str]) -> bool:
    """Whether a command line is that of `jupyter console`, in one of its forms."""
    names = [word.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe") for word in command]
    return any(
        name in ("jupyter-console", "jupyter_console") or pair == ("jupyter", "console")
        for name, pair in zip(names, pairwise([*names, ""]), strict=True)
    )


def _command_of(pid: int) -> list[str]:
    """The command line of a process, empty if it cannot be told."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        pass
    if os.name != "posix":
        return []
    try:  # macOS has no /proc
        shown = subprocess.run(
            ["/bin/ps", "-o", "command=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=1,
            check=False,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return shown.stdout.split()
