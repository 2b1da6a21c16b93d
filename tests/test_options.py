"""What can be set in a session: config options, or what older agents have in their place."""

from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.session.options import OPTIONS, VALUES, Option, OptionValue, options
from acp_jupyter.session.transcript import SessionInfo

MODES = [{"id": "code", "name": "Code", "description": "Changes files"}, {"id": "plan"}]
MODELS = [{"modelId": "s", "name": "Small"}, {"modelId": "l", "name": "Large"}]


def select(**fields: Any) -> dict[str, Any]:
    values = [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}]
    return {
        "id": "o",
        "name": "O",
        "type": "select",
        "currentValue": "a",
        "options": values,
        **fields,
    }


def only(option: dict[str, Any]) -> Option:
    (found,) = options(SessionInfo(config_options=[option]))
    return found


@pytest.mark.obligation("C43")
def test_modes_and_models_count_only_where_there_are_no_config_options() -> None:
    info = SessionInfo(modes=MODES, current_mode="code", models=MODELS, current_model="l")
    mode, model = options(info)
    assert (mode.id, mode.category, mode.value) == ("mode", "mode", "code")
    assert mode.values[0] == OptionValue("code", "Code", "Changes files")
    assert mode.values[1].name == "plan"
    assert mode.request("plan") == {"modeId": "plan"}
    assert (model.method, model.value) == ("session/set_model", "l")
    assert model.request("s") == {"modelId": "s"}
    info.config_options = [select()]
    assert [option.id for option in options(info)] == ["o"]


@pytest.mark.obligation("C44")
def test_groups_are_flattened_in_the_agents_order() -> None:
    grouped = [
        {"group": "g1", "name": "First", "options": [{"value": "a", "name": "A"}]},
        {"group": "g2", "options": [{"value": "b", "name": "B"}, {"value": "c", "name": "C"}]},
    ]
    found = only(select(options=grouped))
    assert [(value.value, value.group) for value in found.values] == [
        ("a", "First"),
        ("b", "g2"),
        ("c", "g2"),
    ]


def test_a_boolean_takes_true_and_false_alone() -> None:
    found = only({"id": "v", "name": "V", "type": "boolean", "currentValue": False})
    assert found.accepts(True)
    assert not found.accepts("true")
    assert not found.accepts(1)
    assert found.request(True) == {"configId": "v", "type": "boolean", "value": True}


def test_a_select_takes_what_is_advertised_alone() -> None:
    found = only(select())
    assert found.accepts("b")
    assert not found.accepts("c")
    assert not found.accepts(True)
    assert found.request("b") == {"configId": "o", "value": "b"}


@pytest.mark.obligation("C48")
@pytest.mark.parametrize(
    "option",
    [
        {},
        select(id=7),
        select(id=""),
        select(id="o\u202e"),
        select(type="colour"),
        select(currentValue=7),
        {"id": "v", "type": "boolean", "currentValue": "true"},
    ],
)
def test_what_cannot_be_shown_or_set_is_left_out(option: dict[str, Any]) -> None:
    assert options(SessionInfo(config_options=[option, select()])) == [only(select())]


def test_texts_of_other_types_are_empty() -> None:
    found = only(select(name=None, description=7, category=["mode"]))
    assert (found.name, found.description, found.category) == ("o", "", "")


def test_there_is_an_end_to_what_is_offered() -> None:
    many = [{"value": f"v{n}", "name": "V"} for n in range(2 * VALUES)]
    info = SessionInfo(config_options=[select(options=many)] * (2 * OPTIONS))
    found = options(info)
    assert len(found) == OPTIONS
    assert {len(option.values) for option in found} == {VALUES}
