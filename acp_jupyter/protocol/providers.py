"""Where an agent gets its models from (``providers/list``, unstable). Pure.

Headers that were set are never told by an agent; a web address may have a password all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..errors import RemoteProtocolError
from .dialects import dicts, identifier
from .secrets import Redactor

JSON = Any

PROVIDERS: Final = 200
TEXT: Final = 500


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider.

    Attributes:
        id: as the agent calls it.
        supported: protocols that it may be set to.
        required: it cannot be disabled.
        api_type: protocol that it is set to; empty where it is disabled.
        base_url: where its requests go, passwords taken out.
    """

    id: str
    supported: tuple[str, ...]
    required: bool
    api_type: str = ""
    base_url: str = ""


def providers(result: JSON) -> list[Provider]:
    """Read the answer to ``providers/list``; older agents say ``id`` for ``providerId``.

    Raises:
        RemoteProtocolError: it has no list of providers.
    """
    if type(result) is not dict or type(result.get("providers")) is not list:
        raise RemoteProtocolError(
            "the agent's answer to providers/list has no list of providers",
            remedy="`%acp log` shows it; the agent needs a fix.",
        )
    found = []
    for item in dicts(result["providers"])[:PROVIDERS]:
        ident = identifier(item.get("providerId", item.get("id")))
        current = item.get("current")
        current = current if type(current) is dict else {}
        supported = item.get("supported")
        names = supported if type(supported) is list else []
        if ident is not None:
            found.append(
                Provider(
                    ident,
                    tuple(name[:TEXT] for name in names if type(name) is str),
                    item.get("required") is not False,
                    _text(current.get("apiType")),
                    Redactor().text(_text(current.get("baseUrl"))),
                )
            )
    return found


def _text(value: JSON) -> str:
    return value[:TEXT] if type(value) is str else ""
