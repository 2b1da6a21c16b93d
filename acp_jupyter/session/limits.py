"""Caps on one prompt turn: time, cost, tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..errors import UsageError

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may take; ``None`` is no limit.

    Attributes:
        seconds: from the prompt to the end of the turn.
        cost: in the currency that the agent reports.
        tokens: context in use, as the agent reports it.
    """

    seconds: float | None = None
    cost: float | None = None
    tokens: int | None = None

    def check(self) -> None:
        """Refuse limits that nothing could keep.

        Raises:
            UsageError: one of them is not positive.
        """
        for name, value in (("time", self.seconds), ("cost", self.cost), ("tokens", self.tokens)):
            if value is not None and not value > 0:
                raise UsageError(f"a limit of {name} must be more than 0, not {value}")


NO_LIMITS: Final = Limits()


@dataclass(slots=True)
class Spent:
    """What the turns of a notebook have taken so far.

    Attributes:
        seconds: from each prompt to the end of its turn.
        cost: in the currency that the agent reports.
    """

    seconds: float = 0.0
    cost: float = 0.0


def within(limits: Limits, caps: Limits, spent: Spent) -> Limits:
    """The limits of a turn, and what is left of the caps on all of them, whichever is less.

    Args:
        limits: of the turn.
        caps: seconds and cost of all turns together; tokens of the context.
        spent: what the turns before have taken.

    Raises:
        UsageError: nothing is left.
    """
    if caps == NO_LIMITS:
        return limits
    for name, cap, used in (
        ("time", caps.seconds, spent.seconds),
        ("cost", caps.cost, spent.cost),
    ):
        if cap is not None and used >= cap:
            raise UsageError(
                f"the notebook's budget of {name} is spent: {used:.4g} of {cap:g}",
                remedy="Raise it with `%acp budget`, or lift it with `%acp budget off`.",
            )
    return Limits(
        _least(limits.seconds, _left(caps.seconds, spent.seconds)),
        _least(limits.cost, _left(caps.cost, spent.cost)),
        _least(limits.tokens, caps.tokens),
    )


def _left(cap: float | None, used: float) -> float | None:
    return None if cap is None else cap - used


def _least(one: _Number | None, other: _Number | None) -> _Number | None:
    given = [value for value in (one, other) if value is not None]
    return min(given, default=None)


def cost_of(usage: Mapping[str, Any]) -> tuple[float, str] | None:
    """Cost and currency so far in the session, if the agent reports them."""
    cost = usage.get("cost")
    amount = cost.get("amount") if isinstance(cost, Mapping) else None
    if isinstance(amount, int | float) and not isinstance(amount, bool):
        currency = cost.get("currency") if isinstance(cost, Mapping) else ""
        return float(amount), currency if isinstance(currency, str) else ""
    return None


def exceeded(limits: Limits, usage: Mapping[str, Any], cost_before: float) -> str:
    """Which limit the usage is beyond, in words; ``""`` if none.

    Args:
        limits: of the turn.
        usage: the last ``usage_update``.
        cost_before: what the session had cost when the turn began; agents report a total.
    """
    cost = cost_of(usage)
    if limits.cost is not None and cost is not None and cost[0] - cost_before > limits.cost:
        return f"it cost {cost[0] - cost_before:.4g} {cost[1]}, the limit is {limits.cost:g}"
    used = usage.get("used")
    if limits.tokens is not None and type(used) is int and used > limits.tokens:
        return f"it uses {used:,} tokens, the limit is {limits.tokens:,}"
    return ""


def turn_cost(usage: Mapping[str, Any], before: float) -> tuple[float, str] | None:
    """Cost and currency of one turn, if the agent reports them.

    Args:
        usage: the last one of the turn.
        before: what the session had cost when the turn began.
    """
    cost = cost_of(usage)
    return None if cost is None else (max(0.0, cost[0] - before), cost[1])


def turn_tokens(usage: Mapping[str, Any]) -> int | None:
    """Tokens of context in use after a turn; those of the turn where only they are reported."""
    found = (usage.get("used"), usage.get("totalTokens"))
    return next((count for count in found if type(count) is int), None)
