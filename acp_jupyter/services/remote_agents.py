"""Agents that run elsewhere: their addresses, and what the configuration says of them.

Commands that such an agent has us run get a minimal environment unless the configuration says
otherwise: the agent was given none of the user's variables, and what a command prints goes to it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..connection.address import RemoteSource
from ..errors import UsageError
from ..protocol import older

if TYPE_CHECKING:
    from .agents import AgentSpec

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")

SETTINGS: Final = frozenset(
    {"url", "headers", "token_env", "credential_helper", "insecure"}
    | {"env", "env_mode", "keep", "dialect"}
)


def from_address(url: str, *, token_env: str = "") -> AgentSpec:
    """An agent given by its address; named after its host.

    Args:
        url: ws://, wss://, http:// or https://.
        token_env: name of the environment variable that holds its token.

    Raises:
        UsageError: the address cannot be used.
    """
    return _spec(RemoteSource(url, token_env=token_env), {})


def with_token(spec: AgentSpec, variable: str) -> AgentSpec:
    """The same agent with the token of an environment variable.

    Raises:
        UsageError: it is no remote agent, or has a credential helper.
    """
    if _NAME.fullmatch(variable) is None:
        raise UsageError(
            "--token-env takes the name of an environment variable",
            remedy="The token itself is never written into a cell: put it into a variable.",
        )
    if spec.replay is not None:
        return spec  # it stands for the agent, and needs no token
    if spec.remote is None:
        raise UsageError(
            f"agent {spec.name!r} is started here, and takes no token",
            remedy="What it needs to know goes into its environment.",
        )
    return replace(spec, remote=replace(spec.remote, token_env=variable))


def from_settings(name: str, settings: Mapping[str, object]) -> AgentSpec:
    """A configured agent that has a ``url``.

    Args:
        name: in the configuration.
        settings: ``url``; ``headers`` (a dict), ``token_env`` (a variable's name) or
            ``credential_helper`` (a command as a list), ``insecure`` (true or false); ``env``,
            ``env_mode`` and ``keep`` for commands that it has us run; ``dialect``.

    Raises:
        UsageError: they cannot be read.
    """
    url, helper = settings.get("url"), settings.get("credential_helper", ())
    headers, token_env = settings.get("headers", {}), settings.get("token_env", "")
    insecure = settings.get("insecure", False)
    unknown = sorted(str(key) for key in settings if key not in SETTINGS)
    if isinstance(helper, str):
        helper = shlex.split(helper)
    if (
        unknown
        or not isinstance(url, str)
        or not isinstance(token_env, str)
        or not isinstance(insecure, bool)
        or not _is_dict_of_texts(headers)
        or not isinstance(helper, Sequence)
        or not all(isinstance(word, str) and word for word in helper)
    ):
        what = f": it has no {unknown[0]!r}" if unknown else ""
        raise UsageError(
            f"the configuration of the remote agent {name!r} cannot be read{what}",
            remedy='It is a dict with "url", and if need be "headers" (a dict), "token_env" (the '
            'name of a variable) or "credential_helper" (a list of strings), and "insecure".',
        )
    source = RemoteSource(
        url,
        token_env=token_env,
        credential_helper=tuple(helper),
        headers=dict(headers),  # type: ignore[call-overload]
        insecure=insecure,
    )
    return _spec(source, settings, name)


def _is_dict_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(item, str) for key, item in value.items()
    )


def _spec(source: RemoteSource, settings: Mapping[str, Any], name: str = "") -> AgentSpec:
    from .agents import AgentSpec

    env, keep = settings.get("env", {}), settings.get("keep", [])
    mode, dialect = settings.get("env_mode", "minimal"), settings.get("dialect", "")
    if (
        not _is_dict_of_texts(env)
        or not isinstance(keep, list)
        or mode not in ("user", "minimal")
        or dialect not in ("", older.OFFICIAL, older.DIALECT)
    ):
        raise UsageError(
            f"the configuration of the remote agent {name!r} cannot be read",
            remedy='"env" is a dict, "keep" a list of names, "env_mode" is "user" or "minimal", '
            f'"dialect" is "{older.OFFICIAL}" or "{older.DIALECT}".',
        )
    address = source.address
    return AgentSpec(
        name or address.authority,
        (str(address),),
        env=env,
        minimal_env=mode == "minimal",
        keep=tuple(str(key) for key in keep),
        remote=source,
        dialect=str(dialect),
    )
