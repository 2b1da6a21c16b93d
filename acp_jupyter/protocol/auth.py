"""How an agent lets its users log in: the methods of ``initialize``, of all dialects. Pure.

What the kinds are, and what a client does with each:

- ``agent``: the agent does it itself, `authenticate` is called with the method's id.
- ``terminal``: the agent's own command, with further arguments and variables, is run in a terminal
  by the user; its id is never sent (C11). Before it was a kind, agents wrote the command into
  ``_meta["terminal-auth"]`` of a method.
- ``env_var`` (dropped 2026-08): variables are set for the agent, which is started anew.
- ``string``: a bare name, of the oldest dialect; `authenticate` takes a password or a token.
- ``unknown``: any other type. It can be shown, and that is all (C12).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import UsageError
from .dialects import Initialized, dicts

Dict = dict[str, Any]
Kind = Literal["agent", "terminal", "env_var", "string", "unknown"]

METHODS: Final = 50
VARIABLES: Final = 50
ARGUMENTS: Final = 200
"""How many of each are taken from an agent."""

TEXT: Final = 2_000
"""Characters of an argument or a value."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}", re.ASCII)

_NOT_SET: Final = re.compile(
    r"(?:LD_|DYLD_|PYTHON|NODE_OPTIONS|BASH_ENV|ENV$|PATH$|HOME$|SHELL$|IFS$|GIT_|PERL|RUBY"
    r"|JPY_|JUPYTER|ACP_JUPYTER)"
)
"""Variables that decide what runs: no login needs them, and an agent does not get to set them."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that a method needs.

    Attributes:
        name: of the environment variable.
        label: in the agent's words.
        secret: its value is not shown.
        optional: it may be left out.
    """

    name: str
    label: str
    secret: bool = True
    optional: bool = False


@dataclass(frozen=True, slots=True)
class AuthMethod:
    """One way to log in; the texts are the agent's.

    Attributes:
        id: opaque.
        command: of an older terminal method: what is to be run; empty for the agent's own command.
        args: arguments: after the agent's own ones, or after ``command``.
        env: variables for that command.
        variables: of an ``env_var`` method.
        link: where the user gets what a method asks for; may be empty.
        type_name: the type as the agent calls it.
    """

    id: str
    name: str
    kind: Kind
    description: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    variables: tuple[Variable, ...] = ()
    link: str = ""
    type_name: str = ""


def auth_methods(agent: Initialized) -> list[AuthMethod]:
    """The methods that an agent offers, in its order."""
    return [_method(method, old=agent.old_auth) for method in agent.auth_methods[:METHODS]]


def find(methods: list[AuthMethod], name: str) -> AuthMethod:
    """A method by its id or its name.

    Raises:
        UsageError: there is none.
    """
    wanted = name.casefold()
    for method in methods:
        if wanted in (method.id.casefold(), method.name.casefold()):
            return method
    offered = ", ".join(method.id[:80] for method in methods)
    raise UsageError(
        f"the agent has no login {name[:100]!r}",
        remedy=f"It offers: {offered}." if offered else "It offers none.",
    )


def _method(method: Dict, *, old: bool) -> AuthMethod:
    kind = method.get("type")
    base = {
        "id": method["id"],
        "name": method["name"][:TEXT],
        "description": _text(method.get("description")),
        "type_name": kind[:100] if type(kind) is str else "",
    }
    meta = method.get("_meta")
    older = meta.get("terminal-auth") if type(meta) is dict else None
    if kind == "terminal":
        return AuthMethod(**base, kind="terminal", args=_words(method), env=_env(method))
    if kind == "env_var":
        variables = tuple(
            variable
            for variable in map(_variable, dicts(method.get("vars"))[:VARIABLES])
            if variable is not None
        )
        link = _text(method.get("link"))
        return AuthMethod(**base, kind="env_var", variables=variables, link=link)
    if kind not in (None, "agent"):
        return AuthMethod(**base, kind="unknown")
    if type(older) is dict and type(older.get("command")) is str and older["command"]:
        command = older["command"][:TEXT]
        return AuthMethod(
            **base, kind="terminal", command=command, args=_words(older), env=_env(older)
        )
    return AuthMethod(**base, kind="string" if old else "agent")


def _words(method: Dict) -> tuple[str, ...]:
    value = method.get("args")
    words = value[:ARGUMENTS] if type(value) is list else []
    return tuple(word[:TEXT] for word in words if type(word) is str and "\0" not in word)


def _env(method: Dict) -> tuple[tuple[str, str], ...]:
    value = method.get("env")
    if type(value) is list:  # as of terminals: [{"name", "value"}]
        value = {str(item.get("name")): item.get("value") for item in dicts(value)}
    pairs = list(value.items())[:VARIABLES] if type(value) is dict else []
    return tuple(
        (name, text[:TEXT])
        for name, text in pairs
        if _may_set(name) and type(text) is str and "\0" not in text
    )


def _variable(item: Dict) -> Variable | None:
    name = item.get("name")
    if type(name) is not str or not _may_set(name):
        return None
    return Variable(
        name,
        _text(item.get("label")) or name,
        secret=item.get("secret") is not False,
        optional=item.get("optional") is True,
    )


def _may_set(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _NOT_SET.match(name.upper()) is None


def _text(value: Any) -> str:
    return value[:TEXT] if type(value) is str else ""
