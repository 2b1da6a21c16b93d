"""Setting what an agent lets the user set: in the agent's form, within what it advertised."""

from __future__ import annotations

from typing import Any, Final, Protocol

import trio

from ..errors import AgentUnresponsive, UsageError
from ..session.options import Option, options
from ..session.reducer import Reducer

JSON = Any

OPTION_LIMIT: Final = 30.0
"""Seconds an agent has to take the setting of an option."""


class Requests(Protocol):
    """What this needs of an agent."""

    async def request(self, method: str, params: JSON) -> JSON: ...


async def set_option(
    agent: Requests, session_id: str, reducer: Reducer, ident: str, value: str | bool
) -> None:
    """See `Session.set_option`."""
    option = _find(options(reducer.transcript.info), ident, value)
    params = {"sessionId": session_id, **option.request(value)}
    reducer.expect(ident, value)
    try:
        with trio.move_on_after(OPTION_LIMIT) as scope:
            answer = await agent.request(option.method, params)
        if scope.cancelled_caught:
            raise AgentUnresponsive(
                f"the agent did not answer {option.method} within {OPTION_LIMIT:.0f} s",
                remedy="Try again; `%acp log` shows what was said.",
            )
        _take(reducer, option, value, answer)
    finally:
        reducer.expect_nothing()


def _find(known: list[Option], ident: str, value: str | bool) -> Option:
    option = next((option for option in known if option.id == ident), None)
    if option is None:
        names = ", ".join(option.id for option in known)
        raise UsageError(
            f"this agent has no option {ident[:100]!r}",
            remedy=f"It has: {names}." if names else "It has none.",
        )
    if not option.accepts(value):
        values = [choice.value for choice in option.values[:20]] or ["true", "false"]
        raise UsageError(
            f"option {ident!r} cannot be set to {str(value)[:100]!r}",
            remedy=f"Its values are: {', '.join(values)}.",
        )
    return option


def _take(reducer: Reducer, option: Option, value: str | bool, answer: JSON) -> None:
    """Write down what was set: the agent's answer has all options; one without counts as a yes."""
    now = trio.current_time()
    if option.method == "session/set_model":
        reducer.set_model(str(value))
    elif option.method == "session/set_mode":
        reducer.apply({"sessionUpdate": "current_mode_update", "currentModeId": value}, now)
    else:
        given = answer.get("configOptions") if type(answer) is dict else None
        if type(given) is not list:
            given = [
                {**known, "currentValue": value} if known.get("id") == option.id else known
                for known in reducer.transcript.info.config_options
            ]
        reducer.apply({"sessionUpdate": "config_option_update", "configOptions": given}, now)
