"""The reproducibility header of a run: what it was run with, kept in the notebook.

It stands in the notebook's metadata as ``acp.run``. Version 1::

    {"version": 1, "date": ISO 8601, "notebook": name, "source": SHA-256 of the cells' sources,
     "kernel": name, "parameters": {…}, "agents": [{"connection", "name", "agent", "version",
     "protocol", "command", "variables": names, "model", "options", "mcp_servers",
     "policy": {"default", "rules", "digest"}}],
     "packages": {name: version}, "environment": {"platform", "machine", "python",
     "implementation", "packages": how many, "digest": SHA-256 of all their versions},
     "repository": {"commit", "dirty": how many files} or null}

Agents are those that were connected, as they were at the end of their last turn; ``options``
are what they let the user set. Values of environment variables are not kept, texts are redacted,
and home directories stand as ``~``. Packages and environment are those of the Python that ran
`run`, of which the kernels that `acp-jupyter install` made are too.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..host.recordings import sidecar_of
from ..services.workspace.git import git

if TYPE_CHECKING:
    from ..export.redaction import Redactor

VERSION: Final = 1
KEY: Final = "run"

PACKAGES: Final = (
    "acp-jupyter",
    "ipykernel",
    "ipython",
    "jupyter-client",
    "nbclient",
    "nbformat",
    "trio",
)
"""Those whose versions are told one by one."""


def make(
    notebook: Any,
    *,
    name: str,
    kernel: str,
    parameters: Mapping[str, Any],
    cwd: str,
    output: Path,
) -> dict[str, Any]:
    """The header of a run that begins; its agents are not known yet."""
    return {
        "version": VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "notebook": name,
        "source": source_digest(notebook),
        "kernel": kernel,
        "parameters": redacted(dict(parameters)),
        "agents": [],
        "packages": packages(),
        "environment": environment(),
        "repository": repository(cwd, output),
    }


def add_agent(header: dict[str, Any], facts: dict[str, Any]) -> None:
    """Note an agent; one of the same name and connection takes the place of what was known."""
    known = {name: value for name, value in facts.items() if name != "kind"}
    identity = (facts["connection"], facts["name"])
    agents = header["agents"]
    kept = [a for a in agents if (a["connection"], a["name"]) != identity]
    header["agents"] = [*kept, redacted(known)]


def redacted(value: Any) -> Any:
    """JSON without secrets and home directories."""
    from ..export.file import process_redactor

    return _redact(value, process_redactor())


def _redact(value: Any, redactor: Redactor, name: str = "") -> Any:
    if isinstance(value, str):
        # A value by itself has no form: with its name it may have one.
        shown = redactor.text(value)
        named = f'{name} = "{value}"'
        return shown if not name or redactor.text(named) == f'{name} = "{shown}"' else "[redacted]"
    if isinstance(value, Mapping):
        return {
            redactor.text(str(key)): _redact(item, redactor, str(key))
            for key, item in value.items()
        }
    return [_redact(item, redactor) for item in value] if isinstance(value, list) else value


def source_digest(notebook: Any) -> str:
    """A hash of what the code cells say, but for injected parameters."""
    from .parameters import INJECTED, tags

    sources = [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and INJECTED not in tags(cell)
    ]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def packages() -> dict[str, str | None]:
    """Versions of the packages that matter most; ``None`` for one that is not there."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def environment() -> dict[str, Any]:
    """This Python, its platform, and a hash of all that is installed in it."""
    installed = sorted(
        {
            f"{distribution.metadata['Name']}=={distribution.version}".lower()
            for distribution in metadata.distributions()
        }
    )
    return {
        "platform": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": len(installed),
        "digest": hashlib.sha256("\n".join(installed).encode()).hexdigest(),
    }


def repository(cwd: str, output: Path) -> dict[str, Any] | None:
    """Commit of the repository that a folder is in, and how many files differ from it.

    ``None`` where there is none, or git is not installed. The executed notebook and its recording
    do not count: they are what the run makes.
    """
    top = git(cwd, "rev-parse", "--show-toplevel")
    status = git(cwd, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    if top is None or status is None:
        return None
    commit = git(cwd, "rev-parse", "--verify", "--quiet", "HEAD")
    made = {os.path.realpath(path) for path in (output, sidecar_of(output))}
    differing = [os.path.join(top.rstrip("\n"), item[3:]) for item in status.split("\0") if item]
    dirty = sum(os.path.realpath(path) not in made for path in differing)
    return {"commit": commit.strip() if commit is not None else None, "dirty": dirty}


def of_notebook(notebook: Any) -> dict[str, Any] | None:
    """The header of an executed notebook; ``None`` if it has none that can be read."""
    held = notebook.metadata.get("acp")
    header = held.get(KEY) if isinstance(held, Mapping) else None
    if not isinstance(header, Mapping) or header.get("version") != VERSION:
        return None
    return dict(header)
