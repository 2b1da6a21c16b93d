from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.errors import ErrorCode, Refusal, RemoteProtocolError
from acp_jupyter.protocol import dialects
from acp_jupyter.protocol.methods import AGENT_METHODS, supports

from .acp_schema import definition, validate_message

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def updates_of(**params: Any) -> list[dict[str, Any]]:
    found = dialects.session_updates({"sessionId": "s", **params})
    assert found is not None
    assert found[0] == "s"
    return found[1]


# -- session/update -----------------------------------------------------------------------------


def test_an_official_update_is_handed_on_as_it_is() -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": None, "_meta": {"x": 1}}
    assert updates_of(update=update) == [update]


@pytest.mark.parametrize(
    "params",
    [None, [], "x", {}, {"sessionId": 5, "update": {}}, {"update": {}}, {"sessionId": None}],
)
def test_an_update_that_names_no_session_is_none(params: Any) -> None:
    assert dialects.session_updates(params) is None


def test_f63_an_update_with_a_session_id_beyond_the_limit_is_none() -> None:
    update: dict[str, Any] = {"sessionUpdate": "plan", "entries": []}
    longest = "../" * 341 + "x"
    assert dialects.session_updates({"sessionId": longest, "update": update}) is not None
    assert dialects.session_updates({"sessionId": longest + "x", "update": update}) is None


@pytest.mark.parametrize("rest", [{}, {"update": "text"}, {"update": None, "news": [1]}])
def test_f8_an_update_of_an_unknown_shape_is_handed_on_to_be_shown(rest: dict[str, Any]) -> None:
    assert updates_of(**rest) == [rest]


def test_an_update_without_its_envelope_is_understood() -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    assert updates_of(**update) == [update]


def test_seed_1_content_chunk_becomes_a_message_chunk_with_its_id_and_index() -> None:
    assert updates_of(contentChunk={"id": "p1", "index": 3, "delta": "hi"}) == [
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hi"},
            "messageId": "p1",
            "index": 3,
        }
    ]
    assert updates_of(contentChunk={"id": 1, "index": True, "delta": "hi"}) == [
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    ]


def test_seed_1_tool_call_becomes_a_patch_whose_content_is_in_official_items() -> None:
    text = {"type": "text", "text": "t"}
    official = {"type": "content", "content": text}
    (update,) = updates_of(
        toolCall={
            "toolCallId": "c",
            "title": "Edit",
            "kind": "edit",
            "status": "pending",
            "content": [text, official],
            "locations": [{"path": "/a"}],
            "diff": {"path": "/a", "oldContent": "1", "newContent": "2"},
        }
    )
    assert update == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "title": "Edit",
        "kind": "edit",
        "status": "pending",
        "content": [official, official],
        "locations": [{"path": "/a"}],
        "diffs": [{"type": "diff", "path": "/a", "oldText": "1", "newText": "2"}],
    }
    (update,) = updates_of(toolCall={"toolCallId": "c", "status": "completed"})
    assert "content" not in update
    assert update["diffs"] is None


def test_seed_1_plan_steps_become_entries() -> None:
    (update,) = updates_of(
        plan={"steps": [{"title": "a", "status": "completed"}, "junk", {"title": "b"}]}
    )
    assert update == {
        "sessionUpdate": "plan",
        "entries": [
            {"content": "a", "priority": "medium", "status": "completed"},
            {"content": "b", "priority": "medium", "status": "pending"},
        ],
    }


def test_seed_1_one_notification_may_hold_several_updates_in_order() -> None:
    kinds = [
        update["sessionUpdate"]
        for update in updates_of(
            currentModeId="code",
            plan={"steps": []},
            toolCall={"toolCallId": "c"},
            contentChunk={"delta": "x"},
        )
    ]
    assert kinds == ["agent_message_chunk", "tool_call_update", "plan", "current_mode_update"]


def test_seed_1_flat_embedded_resources_become_official_ones() -> None:
    flat = {"type": "embedded_resource", "uri": "file:///a", "text": "t", "extra": 1}
    resource = {"uri": "file:///a", "text": "t"}
    official = {"type": "resource", "resource": resource}
    assert dialects.content_block(flat) == official
    assert dialects.content_block({"type": "embedded_resource", "resource": resource}) == official
    assert dialects.content_block(official) == official


@pytest.mark.parametrize("block", [None, "text", [], {}, {"type": None}, {"type": ["text"]}])
def test_what_is_no_content_block_is_none(block: Any) -> None:
    assert dialects.content_block(block) is None


def test_f8_an_unknown_content_block_is_kept_as_it_came() -> None:
    block = {"type": "_hologram", "data": [1]}
    assert dialects.content_block(block) == block


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["contentChunk", "toolCall", "plan", "currentModeId"]), ANY_JSON
    )
)
def test_no_shape_of_an_older_update_raises(params: dict[str, Any]) -> None:
    for update in updates_of(**params):
        assert type(update) is dict


# -- initialize ---------------------------------------------------------------------------------


def test_a_version_1_answer_is_read() -> None:
    answer = {
        "protocolVersion": 1,
        "agentInfo": {"name": "a", "title": "A", "version": "1.2"},
        "agentCapabilities": {"loadSession": True},
        "authMethods": [{"id": "login", "name": "Log in", "description": "d"}],
    }
    read = dialects.initialized(answer, 1)
    assert (read.version, read.name, read.title, read.agent_version) == (1, "a", "A", "1.2")
    assert read.capabilities == {"loadSession": True}
    assert read.auth_methods == [{"id": "login", "name": "Log in", "description": "d"}]
    assert not read.old_auth


def test_a_version_2_answer_is_read_into_version_1_capabilities() -> None:
    answer = {
        "protocolVersion": 2,
        "info": {"name": "a", "version": "1"},
        "capabilities": {
            "session": {
                "prompt": {"image": {}, "audio": None, "embeddedContext": {}, "_meta": {}},
                "mcp": {"http": {}},
                "delete": {},
                "fork": None,
            },
            "providers": {},
        },
        "authMethods": [{"type": "agent", "methodId": "m", "name": "M"}],
    }
    read = dialects.initialized(answer, 2)
    assert (read.version, read.name) == (2, "a")
    granted = {name for name, m in AGENT_METHODS.items() if supports(read.capabilities, m.needs)}
    assert {"session/list", "session/resume", "session/close", "session/delete"} <= granted
    assert {"session/load", "logout"} <= granted
    assert read.capabilities["promptCapabilities"] == {
        "image": True,
        "audio": False,
        "embeddedContext": True,
    }
    assert read.capabilities["mcpCapabilities"] == {"http": True}
    assert read.capabilities["providers"] == {}
    assert read.auth_methods[0]["id"] == "m"


def test_a_version_2_agent_without_sessions_offers_no_session_methods() -> None:
    answer = {"protocolVersion": 2, "info": {"name": "a"}, "capabilities": {"session": None}}
    assert dialects.initialized(answer, 2).capabilities == {}


def test_an_echoed_2_without_the_shape_of_version_2_is_version_1() -> None:
    answer = {"protocolVersion": 2, "agentInfo": {"name": "echo"}, "agentCapabilities": {}}
    assert dialects.initialized(answer, 2).version == 1
    assert dialects.initialized({"protocolVersion": 2}, 2).version == 1
    assert dialects.initialized({"protocolVersion": 2}, 1).version == 2  # not asked: a mismatch


@pytest.mark.parametrize(
    "answer",
    [None, [], "1", {}, {"protocolVersion": None}, {"protocolVersion": True}]
    + [{"protocolVersion": value} for value in (1.0, "one", "²", "", [1], "9" * 5000)],
)
def test_an_answer_without_a_version_is_the_agents_error(answer: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        dialects.initialized(answer, 1)


def test_seed_1_authentication_methods_are_strings() -> None:
    answer = {"protocolVersion": "1", "authMethods": ["none", "password", 5, {"name": "x"}]}
    read = dialects.initialized(answer, 1)
    assert read.version == 1
    assert read.auth_methods == [{"id": "password", "name": "password"}]
    assert read.old_auth


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["info", "agentInfo", "capabilities", "agentCapabilities", "authMethods"]),
        ANY_JSON,
    )
)
def test_no_answer_with_a_version_raises(answer: dict[str, Any]) -> None:
    assert dialects.initialized({**answer, "protocolVersion": 2}, 2).version in (1, 2)


# -- sessions -----------------------------------------------------------------------------------


def test_modes_come_as_an_object_or_as_a_bare_list() -> None:
    modes = [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]
    official = dialects.session_state(
        {"sessionId": "s", "modes": {"currentModeId": "ask", "availableModes": [*modes, 5]}}
    )
    bare = dialects.session_state({"sessionId": "s", "modes": modes, "currentModeId": "ask"})
    assert official == bare
    assert (official.session_id, official.modes, official.current_mode) == ("s", modes, "ask")


def test_seed_3_models_are_read() -> None:
    state = dialects.session_state(
        {"models": {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]}}
    )
    assert state.current_model == "m"
    assert state.models == [{"modelId": "m", "name": "M"}]


def test_config_options_of_version_2_get_the_official_ids() -> None:
    official = {
        "id": "model",
        "name": "Model",
        "type": "select",
        "currentValue": "a",
        "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
    }
    second = {
        "configId": "model",
        "name": "Model",
        "type": "select",
        "currentValue": "a",
        "options": [{"groupId": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
    }
    flag = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
    unknown = {"id": "x", "type": "_dial", "currentValue": 5, "range": [0, 9]}
    expected = [official, flag, unknown]
    assert dialects.config_options([official, flag, None, unknown]) == expected
    assert dialects.config_options([second, flag, unknown]) == expected


@pytest.mark.parametrize("result", [None, [], 5, {}, {"sessionId": 5, "modes": 5, "models": []}])
def test_an_answer_that_says_nothing_of_a_session_is_an_empty_state(result: Any) -> None:
    state = dialects.session_state(result)
    assert state == dialects.SessionState(None, [], None, [], [], None)


@pytest.mark.parametrize(
    "reason",
    ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "tool_error", "_odd"],
)
def test_any_stop_reason_is_taken(reason: str) -> None:
    assert dialects.stop_reason({"stopReason": reason, "usage": {}}) == reason


def test_every_stop_reason_of_the_schema_is_taken() -> None:
    for alternative in definition(1, True, "StopReason")["oneOf"]:
        reason = alternative["const"]
        assert dialects.stop_reason({"stopReason": reason}) == reason


@pytest.mark.parametrize("result", [None, {}, [], "end_turn"])
@pytest.mark.parametrize("value", [None, 5, "", ["end_turn"], {}])
def test_f7_an_answer_without_a_stop_reason_is_the_agents_error(result: Any, value: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="no stop reason"):
        dialects.stop_reason(result)
    with pytest.raises(RemoteProtocolError, match="no stop reason"):
        dialects.stop_reason({"stopReason": value})


# -- permissions --------------------------------------------------------------------------------

OPTIONS = [
    {"optionId": "a", "name": "Allow", "kind": "allow_once"},
    {"optionId": "r", "name": "No", "kind": "reject_once"},
]


def permission(**params: Any) -> dialects.PermissionRequest:
    return dialects.permission_request({"sessionId": "s", **params})


def answer_to(request: dialects.PermissionRequest, index: int | None, **how: bool) -> Any:
    option = None if index is None else request.options[index]
    return dialects.permission_response(request.form, option, cancelled=how.get("cancelled", False))


def test_the_official_request_is_read_and_answered_by_the_schema() -> None:
    call = {"toolCallId": "c", "title": "rm", "kind": "execute", "rawInput": {"x": 1}}
    request = permission(toolCall=call, options=OPTIONS)
    assert request.tool_call == call
    assert request.title == "rm"
    assert [(o.option_id, o.name, o.kind) for o in request.options] == [
        ("a", "Allow", "allow_once"),
        ("r", "No", "reject_once"),
    ]
    for index, cancelled in ((0, False), (1, False), (None, True), (None, False)):
        for version in (1, 2):
            validate_message(
                "to_agent",
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "result": answer_to(request, index, cancelled=cancelled),
                },
                version=version,
                unstable=False,
                method_of_response="session/request_permission",
            )
    assert answer_to(request, 0) == {"outcome": {"outcome": "selected", "optionId": "a"}}
    assert answer_to(request, None, cancelled=True) == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize("kind", ["allow_once", "allow_always", "reject_once", "reject_always"])
def test_every_option_kind_is_kept(kind: str) -> None:
    for version in (1, 2):
        kinds_of: Any = definition(version, True, "PermissionOptionKind")
        kinds = [a.get("const") for a in kinds_of.get("oneOf", kinds_of.get("anyOf"))]
        assert kind in kinds
    options = [{"optionId": str(n), "name": "x", "kind": kind} for n in range(2)]
    assert [o.kind for o in permission(options=options).options] == [kind, kind]


def test_f45_an_unknown_kind_is_kept_and_a_missing_one_is_empty() -> None:
    request = permission(options=[{"optionId": "a", "kind": "allow_forever"}, {"optionId": "b"}])
    assert [option.kind for option in request.options] == ["allow_forever", ""]


def test_f45_a_duplicate_option_id_is_refused() -> None:
    with pytest.raises(Refusal, match="twice") as refused:
        permission(toolCall={"toolCallId": "c"}, options=[*OPTIONS, OPTIONS[0]])
    assert refused.value.code == ErrorCode.INVALID_PARAMS


def test_f44_a_request_without_options_is_read() -> None:
    assert permission(toolCall={"toolCallId": "c"}, options=[]).options == []
    assert permission(toolCall={"toolCallId": "c"}).options == []


@pytest.mark.parametrize(
    "params",
    [
        {"toolCall": "c"},
        {"toolCall": {}},
        {"toolCall": {"toolCallId": None}},
        {"toolCall": {"toolCallId": ""}},
        {"toolCall": {"toolCallId": "x" * 1025}},
        {"options": "all"},
        {"options": ["allow"]},
        {"options": [{"name": "x"}]},
        {"options": [{"optionId": 1}]},
        {"options": [{"optionId": "x" * 1025}]},
        {"options": [{"optionId": str(n)} for n in range(33)]},
        {"subject": {"type": "command", "command": None}, "options": []},
        {"subject": {"type": "tool_call", "toolCall": []}, "options": []},
        {"permissionId": 5, "title": "x"},
    ],
)
def test_f12_a_malformed_permission_request_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        permission(**params)
    assert refused.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.parametrize("params", [None, [], {}, {"sessionId": 1}, {"sessionId": ""}])
def test_f12_a_request_without_a_session_is_refused(params: Any) -> None:
    with pytest.raises(Refusal):
        dialects.permission_request(params)


def test_f63_a_session_id_beyond_the_limit_is_refused_and_any_other_is_opaque() -> None:
    assert dialects.session_id_of({"sessionId": "../../<b>x"}) == "../../<b>x"
    with pytest.raises(Refusal, match="longer than 1024"):
        dialects.session_id_of({"sessionId": "x" * 2**20})
    assert dialects.identifier("../<b>") == "../<b>"
    values: list[Any] = [None, 5, "", "x" * 1025, ["a"], {}]
    for value in values:
        assert dialects.identifier(value) is None


def test_version_2_names_a_tool_call_as_its_subject() -> None:
    call = {"toolCallId": "c", "title": "Title of the call"}
    request = permission(
        title="Run it?",
        description="because",
        subject={"type": "tool_call", "toolCall": call},
        options=OPTIONS,
    )
    assert request.tool_call == call
    assert (request.title, request.description) == ("Run it?", "because")
    assert request.form == "official"


def test_version_2_names_a_command_as_its_subject() -> None:
    subject = {"type": "command", "command": "rm -r x", "cwd": "/w", "toolCallId": "c"}
    request = permission(title="t", subject=subject, options=OPTIONS)
    assert (request.command, request.cwd) == ("rm -r x", "/w")
    assert request.tool_call == {"toolCallId": "c"}
    del subject["toolCallId"]
    assert permission(title="t", subject=subject, options=OPTIONS).tool_call is None


def test_version_2_an_unknown_subject_is_written_out() -> None:
    request = permission(
        title="t", description="d", subject={"type": "_network", "host": "h"}, options=OPTIONS
    )
    assert request.description == 'd\n{"type":"_network","host":"h"}'
    long = permission(title="t", subject={"type": "_n", "x": "y" * 10**6}, options=OPTIONS)
    assert len(long.description) == dialects.MAX_SUBJECT
    assert permission(title="t", subject=None, options=OPTIONS).description == ""


def test_seed_2_a_bare_tool_call_in_version_2_is_read_like_the_official_request() -> None:
    request = permission(toolCall={"toolCallId": "call_001"}, options=OPTIONS)
    assert request.tool_call == {"toolCallId": "call_001"}
    assert request.title == ""
    assert request.form == "official"


def test_seed_1_a_request_without_options_gets_three_and_an_answer_in_its_own_form() -> None:
    request = permission(
        permissionId="p1",
        title="Edit a file",
        kind="edit",
        content=[{"type": "text", "text": "why"}],
    )
    assert request.tool_call is not None
    assert request.tool_call["toolCallId"] == "p1"
    assert request.tool_call["kind"] == "edit"
    assert request.tool_call["content"] == [
        {"type": "content", "content": {"type": "text", "text": "why"}}
    ]
    assert request.title == "Edit a file"
    assert [answer_to(request, index) for index in range(3)] == [
        {"decision": "once"},
        {"decision": "always"},
        {"decision": "reject"},
    ]
    assert answer_to(request, None) == {"decision": "reject"}
    assert answer_to(request, None, cancelled=True) == {"decision": "reject", "cancelled": True}


def test_seed_1_a_request_that_names_its_tool_call_keeps_that_id() -> None:
    for named in ({"toolCallId": "c"}, {"toolCallId": None}):
        request = permission(permissionId="p1", title="t", kind="other", **named)
        assert request.tool_call is not None
        assert request.tool_call["toolCallId"] == (named["toolCallId"] or "p1")


@pytest.mark.obligation("C64")
def test_f61_meta_decides_nothing() -> None:
    meta = {
        "sessionId": "evil",
        "options": [{"optionId": "evil", "name": "evil", "kind": "allow_once"}],
        "toolCall": {"toolCallId": "evil"},
        "title": "evil",
        "permissionId": "evil",
        "update": {"sessionUpdate": "plan", "entries": []},
    }
    plain = permission(toolCall={"toolCallId": "c"}, options=OPTIONS)
    assert permission(toolCall={"toolCallId": "c"}, options=OPTIONS, _meta=meta) == plain
    update = {"sessionUpdate": "agent_message_chunk"}
    assert updates_of(update=update, _meta=meta) == [update]
    assert dialects.stop_reason({"stopReason": "refusal", "_meta": {"stopReason": "end_turn"}}) == (
        "refusal"
    )
    answer = {"protocolVersion": 1, "_meta": {"agentCapabilities": {"loadSession": True}}}
    assert dialects.initialized(answer, 1).capabilities == {}


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["toolCall", "subject", "options", "title", "permissionId", "kind"]),
        ANY_JSON,
    )
)
def test_f12_no_permission_request_raises_anything_but_a_refusal(params: dict[str, Any]) -> None:
    try:
        request = permission(**params)
    except Refusal:
        return
    assert request.tool_call is None or dialects.identifier(request.tool_call["toolCallId"])
