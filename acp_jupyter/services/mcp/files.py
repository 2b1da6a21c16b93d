"""The files in which users have MCP servers already: read only when the user names one.

``{"mcpServers": {NAME: {…}}}``, as `.mcp.json` and the files of most agents and editors have it, or
``{"servers": {…}}`` of VS Code. The servers of one project within `~/.claude.json` are left out.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...errors import UsageError
from .servers import McpServer, read_server

__all__ = ["FAMILIAR", "familiar_files", "read_file"]

LARGEST: Final = 8 * 2**20
"""Bytes of a file; `~/.claude.json` has a history besides."""

FAMILIAR: Final = (
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".gemini/settings.json",
    "~/.claude.json",
    "~/.cursor/mcp.json",
    "~/.gemini/settings.json",
    "~/.config/Claude/claude_desktop_config.json",
    "~/Library/Application Support/Claude/claude_desktop_config.json",
)
"""Where such files usually are, in the notebook's folder and the home directory."""


def familiar_files(cwd: str) -> list[str]:
    """Those of `FAMILIAR` that are there, as a user writes them; none is opened."""
    return [
        name for name in FAMILIAR if os.path.isfile(os.path.join(cwd, os.path.expanduser(name)))
    ]


def read_file(path: str | Path) -> dict[str, McpServer]:
    """The servers of a file, by name; those that it says are disabled are left out.

    Raises:
        UsageError: it cannot be read, or has no servers.
    """
    found = _loaded(Path(path))
    servers = found.get("mcpServers", found.get("servers"))
    if not isinstance(servers, Mapping) or not servers:
        raise UsageError(
            f"{path} has no MCP servers", remedy='They stand in it under "mcpServers".'
        )
    folder = _folder_of(Path(path))
    return {
        name: read_server(name, value, source=str(path), cwd=folder)
        for name, value in servers.items()
        if not (isinstance(value, Mapping) and value.get("disabled") is True)
    }


def _folder_of(path: Path) -> str:
    """What relative commands start from: the project that an editor's folder belongs to."""
    folder = path.parent
    return str(folder.parent if folder.name.startswith(".") else folder)


def _loaded(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no file")
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", remedy="`%acp mcp` lists what there is."
        ) from error
    if len(data) > LARGEST:
        raise UsageError(f"{path} is larger than {LARGEST:,} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is no JSON: {str(error)[:200]}", remedy="Comments are not read either."
        ) from error
    return found if isinstance(found, Mapping) else {}
