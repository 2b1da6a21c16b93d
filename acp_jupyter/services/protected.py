"""Which files the agent is never given without asking, however much it is trusted otherwise.

Two kinds: files that hold secrets, and files that decide what runs or what is allowed later (git
hooks, settings of editors, agents and MCP servers). Instruction files for agents (AGENTS.md and
the like) are ordinary files: they advise, and a change to them shows in the diff.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

__all__ = ["is_protected"]

_JUPYTER: Final = "Jupyter's configuration, tokens and keys"

# Regular expressions for a whole name, of a file or of any directory above it; letters folded.
_NAMES: Final[dict[str, Sequence[str]]] = {
    "git runs programs that it names": (r"\.git", r"git~1", r"\.gitconfig"),
    "environment files hold secrets": (r"\.env.*",),
    "keys and credentials": (
        *(r"\.ssh", r"\.gnupg", r"\.aws", r"\.azure", r"\.kube", r"\.docker"),
        r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?",
        r".*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)",
        *(r"[._]netrc", r"\.pgpass", r"\.pypirc", r"\.npmrc", r"\.git-credentials"),
    ),
    "shells run it": (r"\.(?:bash|zsh)(?:rc|env)", r"\.(?:bash_|z)?profile", r"\.bash_login"),
    _JUPYTER: (
        *(r"\.jupyter", r"\.ipython", r"jupyter_cookie_secret"),
        *(r"jupyter_.*config.*\.(?:py|json)", r"jupyter_.*config\.d"),
        *(r"kernel-.*\.json", r"(?:jp|nb)server-.*\.(?:json|html)"),
    ),
    "configuration of agents and MCP servers": (
        *(r"\.?mcp\.json", r"\.claude(?:\.json)?", r"claude_desktop_config\.json"),
        *(r"\.codex", r"\.gemini", r"\.cursor", r"\.qwen", r"\.goose", r"\.copilot"),
        *(r"\.opencode", r"opencode\.jsonc?", r"\.continue", r"\.windsurf"),
        r"\.aider\.conf\.ya?ml",
    ),
    "editors run programs that it names": (r"\.vscode", r"\.idea", r"\.zed", r"\.devcontainer"),
}
_PATTERNS: Final = {reason: re.compile("|".join(names)) for reason, names in _NAMES.items()}


def is_protected(path: str) -> str | None:
    """Why a file is asked for each time, in a few words; ``None`` for an ordinary one.

    Args:
        path: with ``/``. Leave out what is above the session's root: the user chose that.

    Names count as the most forgiving file system would read them: letters folded, invisible
    characters and final dots and spaces left out.
    """
    names = [_plain_name(part) for part in path.split("/")]
    for reason, pattern in _PATTERNS.items():
        if any(pattern.fullmatch(name) for name in names):
            return reason
    return _JUPYTER if ("jupyter", "runtime") in itertools.pairwise(names) else None


def _plain_name(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    visible = (char for char in folded if unicodedata.category(char) != "Cf")
    return "".join(visible).rstrip(". ")
