"""``%acp providers``: where the agent gets its models from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError
from ..rendering.characters import one_line
from .base import Commands, unknown_option

if TYPE_CHECKING:
    from ..protocol.providers import Provider

EXAMPLE = "For example `%acp providers set main --type openai --url http://localhost:8000/v1`."


class ProviderCommands(Commands):
    """List and set providers."""

    TITLE = "Logins and models"

    def _do_providers(self, arguments: list[str]) -> None:
        """%acp providers, or %acp providers set ID --type TYPE --url URL [--header NAME …] |
        disable ID: where the agent gets its models from. Values of headers are typed, masked."""
        from ..host import providers

        link = self._link
        if not arguments:
            found = link.call(self._cell(), providers.listed, link)
            self._say("\n".join(map(_line, found)) or "The agent has no providers.")
            return
        name, rest = arguments[0], arguments[1:]
        if name == "disable" and len(rest) == 1:
            link.call(self._cell(), providers.disable, link, rest[0])
            self._say(f"Provider {one_line(rest[0], 100)} is disabled.")
        elif name == "set":
            ident, given, headers = _read(rest)
            link.call(
                self._cell(),
                providers.configure,
                self._host,
                link,
                ident,
                given["--type"],
                given["--url"],
                headers,
            )
            self._say(f"Provider {one_line(ident, 100)} is set.")
        else:
            raise UsageError("%acp providers takes set or disable, and an id", remedy=EXAMPLE)


def _read(words: list[str]) -> tuple[str, dict[str, str], list[str]]:
    """Read ``ID --type TYPE --url URL --header NAME``."""
    idents: list[str] = []
    given: dict[str, str] = {}
    headers: list[str] = []
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if not name.startswith("-"):
            idents.append(word)
            continue
        if name not in ("--type", "--url", "--header"):
            raise unknown_option(name, ["--type", "--url", "--header"])
        value = value if sign else next(rest, "")
        if name == "--header":
            headers.append(value)
        else:
            given[name] = value
    if len(idents) != 1 or not given.get("--type") or not given.get("--url") or "" in headers:
        raise UsageError("%acp providers set takes an id, a type and an address", remedy=EXAMPLE)
    return idents[0], given, headers


def _line(provider: Provider) -> str:
    current = f"{provider.api_type} at {provider.base_url}" if provider.api_type else "disabled"
    speaks = ", ".join(provider.supported)
    required = ", required" if provider.required else ""
    return (
        f"{one_line(provider.id, 60)}: {one_line(current, 200)} "
        f"(speaks {one_line(speaks, 200) or 'nothing that it tells'}{required})"
    )
