from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.protocol.methods import AGENT_METHODS, CANCEL_REQUEST, CLIENT_METHODS, supports

from .acp_schema import definition_names

# Names that methods had before they were stable; agents in use still call them.
OLDER = {
    "session/elicitation": "elicitation/create",
    "session/elicitation/complete": "elicitation/complete",
}


# Methods that only the unstable schema has.
UNSTABLE = {"session/fork", "providers/list", "providers/set", "providers/disable"}
UNSTABLE_OF_CLIENT = {"mcp/message"}


def in_schema(side: str, *, unstable: bool = False) -> dict[str, set[str]]:
    """Methods served by that side in version 1, with the kinds of their definitions."""
    methods: dict[str, set[str]] = {}
    for served_by, method, kind in definition_names(1, unstable=unstable):
        if served_by == side:
            methods.setdefault(method, set()).add(kind)
    return methods


def test_the_tables_have_every_method_of_the_official_schema() -> None:
    assert set(AGENT_METHODS) - UNSTABLE == set(in_schema("agent"))
    assert set(in_schema("agent", unstable=True)) >= UNSTABLE
    assert set(CLIENT_METHODS) - set(OLDER) - UNSTABLE_OF_CLIENT == set(in_schema("client"))
    assert set(in_schema("client", unstable=True)) >= UNSTABLE_OF_CLIENT
    assert set(in_schema("protocol")) == {CANCEL_REQUEST}


def test_notifications_are_what_the_schema_says_is_one() -> None:
    for table, side in ((AGENT_METHODS, "agent"), (CLIENT_METHODS, "client")):
        kinds = in_schema(side, unstable=True)
        for method in table.values():
            if method.name in OLDER:
                continue
            assert method.notification == (kinds[method.name] == {"Notification"}), method.name


@pytest.mark.parametrize(
    "granted", [{"loadSession": True}, {"loadSession": {}}, {"loadSession": {"any": "thing"}}]
)
def test_true_and_an_object_grant(granted: dict[str, Any]) -> None:
    assert supports(granted, AGENT_METHODS["session/load"].needs)


@pytest.mark.obligation("C5")
@pytest.mark.parametrize(
    "refused",
    [{}, {"loadSession": None}, {"loadSession": False}]
    + [{"loadSession": value} for value in ("true", 1, [], [True], "")],
)
def test_c5_omitted_null_false_and_values_of_a_wrong_type_mean_unsupported(
    refused: dict[str, Any],
) -> None:
    assert not supports(refused, AGENT_METHODS["session/load"].needs)


@pytest.mark.obligation("C16")
@pytest.mark.parametrize("broken", [None, True, [], "resume", {"list": None}, {"resume": None}])
def test_c16_a_path_that_ends_early_means_unsupported(broken: Any) -> None:
    needs = AGENT_METHODS["session/resume"].needs
    assert supports({"sessionCapabilities": {"resume": {}}}, needs)
    assert not supports({"sessionCapabilities": broken}, needs)


def test_an_older_name_is_served_as_the_one_that_took_its_place() -> None:
    for name, now in OLDER.items():
        older, newer = CLIENT_METHODS[name], CLIENT_METHODS[now]
        assert (older.needs, older.notification) == (newer.needs, newer.notification)


def test_baseline_methods_need_nothing() -> None:
    for name in ("initialize", "session/new", "session/prompt", "session/cancel"):
        assert supports({}, AGENT_METHODS[name].needs)
    assert supports({}, CLIENT_METHODS["session/request_permission"].needs)


def test_f60_files_and_terminals_of_the_client_need_to_be_advertised() -> None:
    for name, method in CLIENT_METHODS.items():
        if name.startswith(("fs/", "terminal/")):
            assert not supports({"fs": {}, "terminal": False}, method.needs), name
            assert supports(
                {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
                method.needs,
            ), name
