"""Every type that the four official schemas name is read, shown or sent.

The types come from the schemas alone (`tests.acp_instances`): what a newer schema adds is tested
without a line here.
"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import jsonschema
import pytest

from acp_jupyter.connection.connection import request_error
from acp_jupyter.errors import UsageError
from acp_jupyter.protocol import dialects, elicitation, outgoing, v2
from acp_jupyter.protocol.auth import auth_methods
from acp_jupyter.protocol.methods import CANCEL_REQUEST, CLIENT_METHODS
from acp_jupyter.rendering import entrydata, html, text
from acp_jupyter.session.options import options
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import NoticeEntry, Transcript, UnknownEntry

from .acp_instances import EXTENSION, LATER, Instances
from .acp_schema import _validator, definition, definition_names

SCHEMAS = [(1, False), (1, True), (2, False), (2, True)]

UNKNOWN = (EXTENSION, LATER)

PROXIES = "proxy/"
"""Methods between the parts of a chain of agents; a client at its end never sees them."""

SHOWN = re.compile(
    r'"(?:text|path|oldPath|title|command|error)": '
    r'"(<[^"<>]+>|/[^"<>]+)"'
)
"""What a user has to see wherever an agent sends it: words, files, commands."""


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_the_instances_are_what_the_schema_says(version: int, unstable: bool) -> None:
    made = Instances(version, unstable)
    for name in ("SessionUpdate", "RequestPermissionRequest", "InitializeResponse"):
        validator = _validator(version, unstable, f"#/$defs/{name}")
        for instance in made.of(name)[:: 40 if name == "SessionUpdate" else 8]:
            assert validator.is_valid(instance), instance


# -- updates ------------------------------------------------------------------------------------


def updates_of(version: int, unstable: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Instances(version, unstable).of("SessionUpdate")
    return found


def applied(update: dict[str, Any], version: int, *before: dict[str, Any]) -> Transcript:
    """A transcript of one turn in which the update came."""
    transcript = Transcript()
    reducer = Reducer(transcript, version)
    reducer.start_turn([], 0.0)
    for each in (*before, update):
        reducer.apply(each, 1.0)
    reducer.end_turn(2.0, stop_reason="end_turn")
    return transcript


def shown(transcript: Transcript) -> tuple[str, str]:
    """All of it as text and as HTML without its tags' escapes; the data is made as well."""
    plain, marked_up = "", ""
    for entry in transcript.entries():
        plain += text.render(entry, terminals=transcript.terminals, cwd="/")
        bundle = html.render(entry, terminals=transcript.terminals, cwd="/")
        marked_up += unescape(str(bundle))
        entrydata.of(entry, "acp-1", cwd="/", terminals=transcript.terminals)
    return plain, marked_up


def is_known(update: dict[str, Any]) -> bool:
    plan = update.get("plan")
    tags = [update["sessionUpdate"], update.get("state")]
    if isinstance(plan, dict):
        tags.append(plan.get("type"))
    return not any(isinstance(tag, str) and tag in UNKNOWN for tag in tags)


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_kind_of_update_in_the_schema_has_a_handler(version: int, unstable: bool) -> None:
    kinds = Instances(version, unstable).tags("SessionUpdate", "sessionUpdate")
    assert len(kinds) > 10
    assert kinds <= Reducer(Transcript(), version).kinds


@pytest.mark.obligation("C39")
@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_update_is_applied_without_a_trace_of_being_unknown(
    version: int, unstable: bool
) -> None:
    for update in updates_of(version, unstable):
        if not is_known(update) or update["sessionUpdate"] == "plan_removed":
            continue
        unknown = [e for e in applied(update, version).entries() if isinstance(e, UnknownEntry)]
        assert not unknown, update


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_no_update_is_dropped(version: int, unstable: bool) -> None:
    seeds: list[dict[str, Any]] = [
        {"sessionUpdate": "session_info_update", "title": "before", "updatedAt": "before"},
        {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "before"}]},
        {"sessionUpdate": "config_option_update", "configOptions": [{"id": "before"}]},
    ]
    for update in updates_of(version, unstable):
        if not set(update) - {"sessionUpdate", "_meta"}:
            continue  # it says nothing
        transcript = Transcript()
        reducer = Reducer(transcript, version)
        reducer.start_turn([], 0.0)
        for seed in seeds:
            reducer.apply(seed, 1.0)
        transcript.take_changed()
        before = repr((transcript.info, transcript.terminals))
        reducer.apply(update, 2.0)
        changed = transcript.dirty or repr((transcript.info, transcript.terminals)) != before
        assert changed, update


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_c70_words_files_and_commands_are_shown(version: int, unstable: bool) -> None:
    for update in updates_of(version, unstable):
        kind = update["sessionUpdate"]
        if not re.match(r"(user|agent)_|tool_call|plan|compaction|notice|terminal", kind):
            continue
        plain, marked_up = shown(applied(update, version))
        for mark in SHOWN.findall(json.dumps({k: v for k, v in update.items() if k != "_meta"})):
            assert mark in plain or mark in marked_up, (mark, update)


@pytest.mark.obligation("C69", "C70", "C71")
@pytest.mark.parametrize(("version", "unstable"), [(2, False), (2, True)])
@pytest.mark.parametrize("kind", UNKNOWN)
def test_c69_c70_c71_an_update_of_an_unknown_kind_is_kept_and_shown_as_that(
    version: int, unstable: bool, kind: str
) -> None:
    (update, *_) = (
        (u for u in updates_of(version, unstable) if u["sessionUpdate"] == kind and "mine" in u)
        if kind == EXTENSION
        else ({"sessionUpdate": kind, "mine": "<SessionUpdate.mine>"},)
    )
    transcript = applied(update, version)
    (entry,) = (e for e in transcript.entries() if isinstance(e, UnknownEntry))
    assert entry.kind == kind
    assert "<SessionUpdate.mine>" in entry.raw[0]
    assert all("<SessionUpdate.mine>" in rendered for rendered in shown(transcript))


@pytest.mark.obligation("C69", "C70", "C71")
def test_c69_c71_unknown_content_is_kept_and_shown_wherever_content_stands() -> None:
    block = {"type": EXTENSION, "mine": "<mine>"}
    for update in (
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": block},
        {"sessionUpdate": "agent_message", "messageId": "m", "content": [block]},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [block]},
        {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": block},
        {"sessionUpdate": "plan_update", "plan": {"planId": "p", **block}},
    ):
        transcript = applied(update, 2)
        assert all("<mine>" in rendered for rendered in shown(transcript)), update


@pytest.mark.obligation("C38", "C69")
def test_c69_a_plan_of_an_unknown_kind_takes_the_place_of_the_one_before() -> None:
    known = {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": "p", "entries": [{"content": "<old step>"}]},
    }
    later = {
        "sessionUpdate": "plan_update",
        "plan": {"type": LATER, "planId": "p", "mine": "<new>"},
    }
    transcript = applied(later, 2, known)
    for rendered in shown(transcript):
        assert "<old step>" not in rendered
        assert "<new>" in rendered


def test_work_without_a_prompt_that_fails_says_so() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript, 2)
    error = {"code": -32603, "message": "<why>"}
    reducer.apply({"sessionUpdate": "state_update", "state": "running"}, 1.0)
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "error"}
    reducer.apply({**idle, "error": error}, 2.0)
    reducer.apply({**idle, "error": error}, 3.0)  # how things are, told once more
    (notice,) = (e for e in transcript.entries() if isinstance(e, NoticeEntry))
    assert (notice.level, notice.detail, notice.count) == ("error", "<why>", 1)


# -- requests of the agent's --------------------------------------------------------------------


def test_every_method_that_an_agent_may_call_is_known_or_refused_on_purpose() -> None:
    for version, unstable in SCHEMAS:
        for side, method, _ in definition_names(version, unstable):
            if side in ("client", "protocol") and not method.startswith(PROXIES):
                served = method in CLIENT_METHODS or method == CANCEL_REQUEST
                # Where an agent was told nothing of them, they do not come.
                offered = method.startswith(("mcp/", "auth/status"))
                assert served or offered, method


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_permission_request_is_read_and_says_what_it_is_about(
    version: int, unstable: bool
) -> None:
    made = Instances(version, unstable).of("RequestPermissionRequest")
    subjects = set()
    for params in made:
        for number, option in enumerate(params["options"]):
            option["optionId"] = f"option-{number}"
        read = dialects.permission_request(params)
        assert len(read.options) == len(params["options"])
        assert read.title == params.get("title", read.title)
        subject = params.get("subject")
        if isinstance(subject, dict):
            subjects.add(subject["type"])
            told = read.tool_call is not None or read.command
            assert told or "mine" not in subject or subject["mine"] in read.description
        assert read.title or read.tool_call is not None
    if version == 2:
        tags = Instances(version, unstable).tags("RequestPermissionSubject", "type")
        assert tags | set(UNKNOWN) == subjects


@pytest.mark.obligation("C69")
def test_c69_a_permission_option_of_an_unknown_kind_is_neutral() -> None:
    option = {"optionId": "o", "name": "n", "kind": LATER}
    read = dialects.permission_request(
        {"sessionId": "s", "title": "t", "options": [option], "subject": {"type": EXTENSION}}
    )
    assert read.options[0].kind == LATER
    assert EXTENSION in read.description


@pytest.mark.obligation("C62")
@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_elicitation_is_read_and_an_unknown_mode_or_field_stays_unknown(
    version: int, unstable: bool
) -> None:
    made = Instances(version, unstable)
    modes = made.tags("CreateElicitationRequest", "mode")
    for params in made.of("CreateElicitationRequest"):
        params.get("requestedSchema", {}).pop("required", None)
        if params.get("requestId", "") is None:
            continue  # C83: such an id is none
        read = elicitation.elicitation(params)
        assert (read.mode == "unknown") == (params["mode"] not in modes), params

    def form(schemas: list[Any]) -> elicitation.Elicitation:
        properties = {f"p{number}": schema for number, schema in enumerate(schemas)}
        schema = {"type": "object", "properties": properties}
        about = {"sessionId": "s", "mode": "form", "message": "m"}
        return elicitation.elicitation({**about, "requestedSchema": schema})

    types = made.tags("ElicitationPropertySchema", "type")
    for schema in made.of("ElicitationPropertySchema"):
        for titled in (schema.get("oneOf"), schema.get("items", {}).get("anyOf")):
            for number, choice in enumerate(titled or []):
                choice["const"] = f"choice {number}"
        if not _choosable(schema):
            continue  # nothing to choose from: the form is refused
        (field,) = form([schema]).fields
        items = schema.get("items", {})
        known = schema["type"] in types and items.get("type", "string") == "string"
        assert (field.kind != "unknown") == known, schema


def _choosable(schema: dict[str, Any]) -> bool:
    """Whether a list to choose from has anything in it."""
    lists = [schema.get("enum"), schema.get("oneOf")]
    items = schema.get("items", {})
    lists += [items.get("enum"), items.get("anyOf")]
    return [] not in lists


# -- answers of the agent's -----------------------------------------------------------------------


@pytest.mark.obligation("C6", "C10")
@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_answer_to_initialize_is_read(version: int, unstable: bool) -> None:
    for answer in Instances(version, unstable).of("InitializeResponse"):
        read = dialects.initialized({**answer, "protocolVersion": version}, version)
        assert read.version == version
        info = answer.get("info", answer.get("agentInfo"))
        assert read.name == (info or {}).get("name", "")
        assert len(read.auth_methods) == len(answer.get("authMethods") or [])
        offered = version == 1 or bool(read.auth_methods)
        assert outgoing.offers(read, "authenticate") is offered  # C10


@pytest.mark.obligation("C48", "C70")
@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
@pytest.mark.parametrize("name", ["NewSessionResponse", "ResumeSessionResponse"])
def test_every_answer_that_opens_a_session_is_taken_over(
    version: int, unstable: bool, name: str
) -> None:
    for answer in Instances(version, unstable).of(name):
        transcript = Transcript()
        reducer = Reducer(transcript, version)
        reducer.session_state(dialects.session_state(answer))
        info = transcript.info
        given = answer.get("configOptions") or []
        assert len(info.config_options) == len(given)  # unknown types are kept (C48, C70)
        known = [option for option in given if option["type"] in ("select", "boolean")]
        assert len(options(info)) == len({o.get("configId", o.get("id")) for o in known}) or (
            len(options(info)) == len(known) or not known
        )
        assert len(info.commands) == len(answer.get("availableCommands") or [])


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_error_code_becomes_an_error_that_has_it(version: int, unstable: bool) -> None:
    schema = definition(version, unstable, "ErrorCode")
    codes = [variant["const"] for variant in schema["anyOf"] if "const" in variant]
    assert len(codes) > 6
    for code in codes:
        error = request_error("it failed", {"code": code, "message": "m"})
        assert error.code == code


@pytest.mark.parametrize("unstable", [False, True])
def test_every_stop_reason_of_version_2_ends_the_work_of_a_prompt(unstable: bool) -> None:
    made = Instances(2, unstable).of("IdleStateUpdate")
    reasons = set()
    for idle in made:
        foreground = v2.Foreground(None)
        foreground.accept({"messageId": "m"})
        foreground.take({"sessionUpdate": "state_update", "state": "running"})
        foreground.take({"sessionUpdate": "state_update", "state": "idle", **idle})
        assert foreground.ended is not None
        assert foreground.ended.stop_reason == (idle.get("stopReason") or v2.NO_REASON)
        reasons.add(foreground.ended.stop_reason)
    named = Instances(2, unstable).tags("IdleStateUpdate", "stopReason")
    assert named | set(UNKNOWN) | {v2.NO_REASON} == reasons


# -- what we send ---------------------------------------------------------------------------------


def served_by_agents(version: int) -> dict[str, str]:
    """Methods of agents, to the kind of message: ``Request`` or ``Notification``."""
    return {
        method: kind
        for side, method, kind in definition_names(version, unstable=True)
        if side in ("agent", "both") and kind != "Response" and not method.startswith(PROXIES)
    }


@pytest.mark.obligation("C69")
def test_c69_the_methods_of_version_2_are_those_of_its_schema() -> None:
    theirs = set(served_by_agents(2))
    assert {m for m in theirs if outgoing.exists(2, m) or m in ("auth/login", "auth/logout")} == (
        theirs
    )
    for method in set(served_by_agents(1)) - theirs - {"authenticate", "logout", "session/load"}:
        assert not outgoing.exists(2, method), method
        with pytest.raises(UsageError, match="no " + method):
            outgoing.request(2, method, {})


def test_every_request_in_the_form_of_version_1_goes_out_in_that_of_version_2() -> None:
    """``sse`` is no transport of version 2, where it would be one that nobody knows."""
    made = Instances(1, True)
    tried = 0
    for method, kind in served_by_agents(1).items():
        if not outgoing.exists(2, method) or method in ("initialize", "mcp/message"):
            continue
        source = definition_names(1, True)[_side(1, method, kind), method, kind]
        for params in made.of(source):
            given = dict(params)
            if isinstance(given.get("value"), bool):
                given["type"] = "boolean"  # as `Option.request` has it
            if given.get("prompt") == []:
                continue  # version 2 forbids it
            name, sent = outgoing.request(2, method, given)
            target = definition_names(2, True)[_side(2, name, kind), name, kind]
            validator = _validator(2, True, f"#/$defs/{target}")
            error = jsonschema.exceptions.best_match(validator.iter_errors(sent))
            assert error is None, f"{error.message}: {sent}"
            tried += 1
    assert tried > 30


def _side(version: int, method: str, kind: str) -> str:
    names = definition_names(version, True)
    return next(side for side in ("agent", "both") if (side, method, kind) in names)


@pytest.mark.obligation("C7", "C63")
def test_c7_initialize_of_version_2_says_who_we_are_and_only_what_exists_there() -> None:
    capabilities = {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "auth": {"terminal": True},
        "elicitation": {"form": {}, "url": {}},
        "session": {"configOptions": {"boolean": {}}},
    }
    info = {"name": "acp-jupyter", "title": "Jupyter", "version": "1"}
    params = outgoing.initialize(2, capabilities, info)
    assert params == {
        "protocolVersion": 2,
        "info": info,
        "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}},
    }
    assert next(_validator(2, False, "#/$defs/InitializeRequest").iter_errors(params), None) is None
    assert "auth" not in outgoing.declared(2, {"auth": {"terminal": False}})["auth"]


def test_an_option_is_set_with_the_type_of_its_value() -> None:
    name, params = outgoing.request(
        2, "session/set_config_option", {"sessionId": "s", "configId": "c", "value": "v"}
    )
    assert (name, params["type"]) == ("session/set_config_option", "id")
    boolean = {"sessionId": "s", "configId": "c", "value": True, "type": "boolean"}
    assert outgoing.request(2, "session/set_config_option", boolean)[1] == boolean


def test_c16_history_is_asked_for_by_resuming_and_mcp_servers_have_their_type() -> None:
    server = {"name": "n", "command": "/bin/x", "args": [], "env": []}
    params = {"sessionId": "s", "cwd": "/", "mcpServers": [server]}
    assert outgoing.request(2, "session/load", params) == (
        "session/resume",
        {
            "sessionId": "s",
            "cwd": "/",
            "mcpServers": [{"type": "stdio", **server}],
            "replayFrom": {"type": "start"},
        },
    )
    assert outgoing.request(1, "session/load", params) == ("session/load", params)
    assert "replayFrom" not in outgoing.request(2, "session/resume", params)[1]


@pytest.mark.obligation("C10", "C12")
def test_c10_c12_only_methods_that_the_protocol_drives_are_logged_in_with() -> None:
    for version, unstable in SCHEMAS:
        for answer in Instances(version, unstable).of("InitializeResponse"):
            read = dialects.initialized({**answer, "protocolVersion": version}, version)
            for method in auth_methods(read):
                assert (method.kind == "agent") is (method.type_name in ("", "agent"))
    none = dialects.initialized({"protocolVersion": 2, "info": {}, "authMethods": []}, 2)
    assert not outgoing.offers(none, "authenticate")
    assert not outgoing.offers(none, "logout")


@pytest.mark.obligation("C24")
def test_c24_transports_of_mcp_servers_are_those_that_are_advertised() -> None:
    def agent(version: int, mcp: Any) -> dialects.Initialized:
        if version == 1:
            answer: Any = {"agentCapabilities": {"mcpCapabilities": mcp}}
        else:
            answer = {"info": {}, "capabilities": {"session": {"mcp": mcp}}}
        return dialects.initialized({"protocolVersion": version, **answer}, version)

    assert outgoing.mcp_transports(agent(1, {"http": True, "sse": False})) == {"stdio", "http"}
    assert outgoing.mcp_transports(agent(2, {"http": {}, "acp": None})) == {"http"}
    assert outgoing.mcp_transports(agent(2, {"stdio": {}, "acp": {}})) == {"stdio", "acp"}
    assert outgoing.mcp_transports(agent(2, None)) == frozenset()
