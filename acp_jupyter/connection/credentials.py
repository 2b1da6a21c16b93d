"""The token for a remote agent: read when it is connected, and kept nowhere.

It comes from an environment variable, or from a credential helper: a program of the user's that
prints it. It is sent as ``Authorization: Bearer …``, and is in no text of an error.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from ..errors import ConnectionFailed, UsageError
from .address import RemoteSource
from .environment import SHORTEST_SECRET, child_environment

__all__ = ["Credentials", "credentials_of"]

HELPER_LIMIT: Final = 30.0
"""Seconds for the credential helper; one that asks somebody cannot ask here."""

_TOKEN = re.compile(rb"[\x21-\x7e]{1,16384}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What goes with each request, and no further.

    Attributes:
        headers: header fields.
        secrets: values in them that are never shown.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


async def credentials_of(source: RemoteSource, environ: Mapping[str, str]) -> Credentials:
    """Read the token and the further header fields.

    Args:
        source: says where the token is; without any, there is none.
        environ: the environment that variables are read from, and, without Jupyter's own, the
            helper runs with.

    Raises:
        UsageError: the variable is not set, or its value cannot be a token.
        ConnectionFailed: the helper did not print one.
    """
    token = ""
    if source.token_env:
        value = environ.get(source.token_env, "").strip()
        if not value:
            raise UsageError(
                f"the environment variable {source.token_env} is not set, or empty",
                remedy="Set it where Jupyter is started, to the agent's token.",
            )
        token = _checked(value.encode("utf-8", "replace"), f"the value of {source.token_env}")
    elif source.credential_helper:
        token = await _ask_helper(source.credential_helper, environ)
    headers = list(source.headers.items())
    if token:
        headers = [(name, v) for name, v in headers if name.lower() != "authorization"]
        headers.append(("Authorization", f"Bearer {token}"))
    values = {token, *source.headers.values()}
    # "Bearer abc" among the configured fields: the token alone is as secret.
    values |= {value.rpartition(" ")[2] for value in source.headers.values()}
    secrets = frozenset(value for value in values if len(value) >= SHORTEST_SECRET)
    return Credentials(tuple(headers), secrets)


async def _ask_helper(argv: tuple[str, ...], environ: Mapping[str, str]) -> str:
    remedy = "Run the helper in a terminal to see what it says."
    name = argv[0]
    try:
        with trio.fail_after(HELPER_LIMIT):
            done = await trio.run_process(
                list(argv),
                stdin=b"",
                capture_stdout=True,
                stderr=subprocess.DEVNULL,  # it may say more of the secret than it should
                check=False,
                env=child_environment(environ),
                start_new_session=True,
            )
    except trio.TooSlowError:
        raise ConnectionFailed(
            f"the credential helper {name!r} did not end within {HELPER_LIMIT:.0f} s",
            remedy=remedy,
        ) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConnectionFailed(
            f"the credential helper {name!r} could not be started: {why}",
            remedy='Correct "credential_helper" in the agent\'s configuration.',
        ) from error
    if done.returncode:
        raise ConnectionFailed(
            f"the credential helper {name!r} exited with code {done.returncode}", remedy=remedy
        )
    return _checked(done.stdout.strip(), f"what the credential helper {name!r} printed")


def _checked(value: bytes, what: str) -> str:
    if _TOKEN.fullmatch(value) is None:
        raise UsageError(
            f"{what} is no token: one word of printable ASCII characters",
            remedy="Nothing else may be in it, no name and no quotes.",
        )
    return value.decode("ascii")
