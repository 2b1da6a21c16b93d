"""``%acp providers``: where an agent gets its models from, where it lets the user say. On the trio
thread.

What is sent in headers is typed masked, goes to the agent, and is taken out of logs and recordings.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..protocol.forms import Field
from ..protocol.providers import Provider, providers
from ..rendering.characters import one_line
from ..services.permissions import CannotAsk
from ..session.transcript import ElicitationEntry
from .asking import Asking

if TYPE_CHECKING:
    from ..client.agent import Agent
    from .cell import CellContext
    from .host import Host
    from .link import Link


async def listed(_cell: CellContext, link: Link) -> list[Provider]:
    """The providers of the agent that is connected.

    Raises:
        UsageError: none is connected, or it has no providers.
        ACPError: it failed.
    """
    return await _listed(_agent(link))


async def disable(_cell: CellContext, link: Link, ident: str) -> None:
    """Disable a provider.

    Raises:
        UsageError: there is none of that id, or it is required: that is never called.
        ACPError: it failed.
    """
    agent = _agent(link)
    if _known(await _listed(agent), ident).required:
        raise UsageError(
            f"provider {one_line(ident, 100)!r} is required, and cannot be disabled",
            remedy="Set it to another address: `%acp providers set ID --type TYPE --url URL`.",
        )
    await agent.request("providers/disable", {"providerId": ident})


async def configure(
    cell: CellContext,
    host: Host,
    link: Link,
    ident: str,
    api_type: str,
    url: str,
    headers: Sequence[str],
) -> None:
    """Replace the whole configuration of a provider.

    Args:
        cell: that runs.
        host: of the notebook.
        link: whose agent it is.
        ident: of the provider.
        api_type: protocol that it speaks.
        url: where its requests go.
        headers: names of headers, whose values are asked for.

    Raises:
        UsageError: there is none of that id, or nobody can be asked.
        ACPError: it failed.
    """
    agent = _agent(link)
    provider = _known(await _listed(agent), ident)
    if provider.supported and api_type not in provider.supported:
        raise UsageError(
            f"provider {one_line(ident, 100)!r} does not speak {one_line(api_type, 100)!r}",
            remedy=f"It speaks: {one_line(', '.join(provider.supported), 300)}.",
        )
    params: dict[str, Any] = {"providerId": ident, "apiType": api_type, "baseUrl": url}
    if headers:
        values = await _typed(host, cell, agent, headers)
        agent.conceal(values.values())
        params["headers"] = values
    await agent.request("providers/set", params)


async def _typed(
    host: Host, cell: CellContext, agent: Agent, names: Sequence[str]
) -> dict[str, str]:
    ident = f"headers-{secrets.token_hex(6)}"
    entry = ElicitationEntry(
        ident,
        0,
        question_id=ident,
        agent=agent.name,
        message="The values are sent to the agent as you type them, and kept nowhere here.",
        fields=[Field(name, "text", name, required=True, secret=True) for name in names],
    )
    remedy = "Run it where you can answer; values of headers are never written in a cell."
    try:
        answer = await Asking(host, cell).fill(entry)
    except CannotAsk as error:
        raise UsageError(f"the headers have to be typed: {error}", remedy=remedy) from error
    if answer.action != "accept":
        raise UsageError("the headers were not typed; nothing was set", remedy=remedy)
    return {name: str(value) for name, value in answer.content.items()}


async def _listed(agent: Agent) -> list[Provider]:
    if not agent.offers("providers/list"):
        raise UsageError(
            f"agent {agent.spec.name!r} has no providers that could be set",
            remedy="It does not advertise them; use its own settings.",
        )
    return providers(await agent.request("providers/list", {}))


def _known(known: list[Provider], ident: str) -> Provider:
    found = next((each for each in known if each.id == ident), None)
    if found is None:
        names = one_line(", ".join(each.id for each in known), 300)
        raise UsageError(
            f"the agent has no provider {one_line(ident, 100)!r}",
            remedy=f"It has: {names}." if names else "It has none.",
        )
    return found


def _agent(link: Link) -> Agent:
    if link.agent is None or not link.agent.alive:
        raise UsageError("no agent is connected", remedy="Run `%acp connect` first.")
    return link.agent
