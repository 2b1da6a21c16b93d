"""Caps on a turn: what they mean, and which cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.session.limits import NO_LIMITS, Limits, Spent, cost_of, exceeded, within


def usage(used: Any = 10, amount: Any = 0.5, currency: Any = "EUR") -> dict[str, Any]:
    return {"used": used, "size": 8000, "cost": {"amount": amount, "currency": currency}}


@pytest.mark.parametrize(
    "limits", [NO_LIMITS, Limits(0.1, 0.01, 1), Limits(seconds=1e9), Limits(tokens=10**12)]
)
def test_limits_above_nothing_can_be_kept(limits: Limits) -> None:
    limits.check()


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(seconds=0), "time"),
        (Limits(seconds=-1), "time"),
        (Limits(seconds=float("nan")), "time"),
        (Limits(cost=0.0), "cost"),
        (Limits(cost=float("nan")), "cost"),
        (Limits(tokens=0), "tokens"),
        (Limits(tokens=-5), "tokens"),
    ],
)
def test_a_limit_that_nothing_could_keep_is_refused_by_name(limits: Limits, name: str) -> None:
    with pytest.raises(UsageError, match=f"limit of {name} must be more than 0"):
        limits.check()


def test_without_limits_nothing_is_exceeded() -> None:
    assert exceeded(NO_LIMITS, usage(used=10**9, amount=10**6), 0.0) == ""


def test_the_cost_of_a_turn_is_what_it_adds_to_the_sessions_total() -> None:
    limits = Limits(cost=0.2)
    assert exceeded(limits, usage(amount=0.5), cost_before=0.4) == ""
    assert exceeded(limits, usage(amount=0.7), cost_before=0.4) == (
        "it cost 0.3 EUR, the limit is 0.2"
    )


def test_a_limit_that_is_just_reached_is_not_exceeded() -> None:
    assert exceeded(Limits(cost=0.5, tokens=10), usage(), 0.0) == ""


def test_tokens_are_those_of_the_context_in_use() -> None:
    assert exceeded(Limits(tokens=1000), usage(used=1234), 0.0) == (
        "it uses 1,234 tokens, the limit is 1,000"
    )


@pytest.mark.parametrize("used", [None, "many", True, 3.5, [9]])
def test_a_count_of_tokens_that_is_none_exceeds_nothing(used: Any) -> None:
    assert exceeded(Limits(tokens=1), usage(used=used), 0.0) == ""


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"cost": None},
        {"cost": 3},
        {"cost": {}},
        {"cost": {"amount": "3"}},
        {"cost": {"amount": True, "currency": "EUR"}},
        {"cost": [1]},
    ],
)
def test_an_agent_that_reports_no_cost_has_none(reported: dict[str, Any]) -> None:
    assert cost_of(reported) is None
    assert exceeded(Limits(cost=0.1), reported, 0.0) == ""


def test_cost_comes_in_the_agents_currency_if_it_names_one() -> None:
    assert cost_of(usage(amount=2)) == (2.0, "EUR")
    assert cost_of(usage(amount=2, currency=None)) == (2.0, "")


def test_a_turn_gets_the_least_of_its_own_limits_and_what_is_left_of_the_notebooks() -> None:
    caps, spent = Limits(100, 2.0, 5000), Spent(seconds=40, cost=1.5)
    assert within(NO_LIMITS, caps, spent) == Limits(60, 0.5, 5000)
    assert within(Limits(10, 1.0, 9000), caps, spent) == Limits(10, 0.5, 5000)
    assert within(Limits(10), NO_LIMITS, spent) == Limits(10)


@pytest.mark.parametrize("spent", [Spent(seconds=100), Spent(cost=2.5)])
def test_nothing_is_sent_once_the_notebooks_budget_is_spent(spent: Spent) -> None:
    with pytest.raises(UsageError, match=r"budget of (time|cost) is spent"):
        within(NO_LIMITS, Limits(100, 2.0), spent)
