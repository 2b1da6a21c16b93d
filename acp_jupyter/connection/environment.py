"""Which environment variables an agent gets, and which values its output must not show.

Pure functions; the caller passes the environment in.

Rules:

- An agent gets the user's environment: its API keys, proxies and certificates are there. What
  belongs to Jupyter never goes along: the server's and the hub's tokens open the whole server to
  whoever holds them. Neither does a variable that repeats one of those secrets under another name.
- What the kernel set for itself (a Matplotlib backend only a kernel can import, colours forced on
  every program) does not go along either.
- ``minimal`` starts from an allowlist instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ..errors import UsageError
from ..protocol.secrets import REDACTED

__all__ = ["child_environment", "redact", "secret_values", "without_tokens"]

SHORTEST_SECRET = 8
"""Characters below which a value is not treated as a secret: `1`, `true` and `none` are words."""

_JUPYTERS_OWN = re.compile(r"JPY_|JUPYTER|ACP_JUPYTER_|CONFIGPROXY_AUTH_TOKEN$")
_KERNEL_ONLY = re.compile(r"PYDEVD_|IPYKERNEL")

# Connection files hold the key that signs kernel messages; runtime files the server's token.
_RUNTIME_FILE = re.compile(r"\b(?:kernel-[0-9a-f-]{8,}|jpserver-\d+|nbserver-\d+)\.json\b")

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|APIKEY|_KEY$|_KEY_|^KEY$|_PAT$|_PWD$|_PASS$"
)
_PLACE_NAME = re.compile(r"_(?:FILE|PATH|DIR|SOCK|HOME|URL_PREFIX|KEY_ID)$|^PWD$|^OLDPWD$")
_PASSWORD_IN_URL = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")

# What ipykernel's ZMQInteractiveShell.init_environment puts into every kernel, for `!ls`.
_FORCED_COLOURS = {"CLICOLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}
_KERNELS_TERM = "xterm-color"

_MINIMAL = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM"),
        *("TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        # Windows programs do not start without these.
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA"),
        *("USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH", "PROGRAMDATA", "PROGRAMFILES"),
    }
)


def child_environment(
    base: Mapping[str, str],
    *,
    extra: Mapping[str, str] | None = None,
    minimal: bool = False,
    keep: Sequence[str] = (),
) -> dict[str, str]:
    """The environment an agent is started with.

    Args:
        base: the kernel's environment.
        extra: variables set for this agent; they win over ``base``.
        minimal: start from an allowlist (PATH, HOME, the locale, temporary directories, …).
        keep: names taken over from ``base`` that would be left out: those beyond the allowlist
            when ``minimal``, otherwise those that only a kernel needs. Never Jupyter's own.

    Raises:
        UsageError: ``extra`` or ``keep`` asks for one of Jupyter's own variables or secrets.
    """
    extra = extra or {}
    own_secrets = _jupyters_secrets(base)
    for name in (*extra, *keep):
        if _is_jupyters(name) or _carries_secret(extra.get(name, ""), own_secrets):
            raise UsageError(
                f"the environment variable {name} belongs to Jupyter and is never given to an "
                "agent: it opens the notebook server.",
                remedy="Remove it from the agent's settings; give the agent a token of its own.",
            )
    kept = frozenset(keep)
    child = {
        name: value
        for name, value in base.items()
        if not _is_jupyters(name)
        and not _carries_secret(value, own_secrets)
        and (name in kept or (_is_allowed(name) if minimal else not _is_kernels(name, base)))
    }
    if child.get("TERM", _KERNELS_TERM) == _KERNELS_TERM and "TERM" not in kept:
        child["TERM"] = "xterm-256color"  # some agents do not start without one
    child.update(extra)
    return child


def without_tokens(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel that is started from here, or of what starts one.

    Jupyter's settings go along, which say where kernels and data are; its tokens do not, nor does
    a variable that repeats one.
    """
    own_secrets = _jupyters_secrets(base)
    return {
        name: value
        for name, value in base.items()
        if not (_is_jupyters(name) and _is_secret_name(name))
        and not _carries_secret(value, own_secrets)
    }


def secret_values(env: Mapping[str, str]) -> frozenset[str]:
    """Values in an environment that look like secrets, for `redact`.

    A name like ``…TOKEN…``, ``…SECRET…``, ``…PASSWORD…`` or ``…_KEY`` makes its value one, and so
    does a password within a URL. Lines of a value with several (private keys) count one by one,
    because output is read line by line.
    """
    found: set[str] = set()
    for name, value in env.items():
        found.update(_PASSWORD_IN_URL.findall(value))
        if _is_secret_name(name):
            found.add(value)
            found.update(line.strip() for line in value.splitlines())
    return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every occurrence of a secret replaced by ``[redacted]``."""
    # Longest first: a secret that contains another one must not leave its rest behind.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _is_jupyters(name: str) -> bool:
    return _JUPYTERS_OWN.match(name.upper()) is not None


def _is_secret_name(name: str) -> bool:
    upper = name.upper()
    return _SECRET_NAME.search(upper) is not None and _PLACE_NAME.search(upper) is None


def _jupyters_secrets(base: Mapping[str, str]) -> frozenset[str]:
    return secret_values({name: value for name, value in base.items() if _is_jupyters(name)})


def _carries_secret(value: str, secrets: frozenset[str]) -> bool:
    return _RUNTIME_FILE.search(value) is not None or any(secret in value for secret in secrets)


def _is_kernels(name: str, base: Mapping[str, str]) -> bool:
    if name == "MPLBACKEND":  # one of the user's own choice, like Agg, works outside a kernel too
        return base[name].startswith("module://") or base[name] == "inline"
    if name in _FORCED_COLOURS and base.get("TERM") == _KERNELS_TERM:
        return base[name] == _FORCED_COLOURS[name]
    return _KERNEL_ONLY.match(name) is not None


def _is_allowed(name: str) -> bool:
    return name.upper() in _MINIMAL or name.startswith("LC_")
