"""What `acp-jupyter doctor AGENT` finds in agents that keep the rules, and in ones that do not."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from acp_jupyter.doctor import examination, forms
from acp_jupyter.doctor.agent import check_agent
from acp_jupyter.doctor.findings import AgentReport, Findings, Item
from acp_jupyter.errors import UsageError
from tests.acp_schema import definition
from tests.test_cli import run as command

BROKEN = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def update(**update):
    send(method="session/update", params={"sessionId": "s", "update": update})

def serve(line):
    message = json.loads(line)
    method, ident = message["method"], message.get("id")
    if ident is None:
        if method.startswith("_"):
            send(id=None, error={"code": -32601, "message": "no such notification"})
        return
    if method == "initialize":
        asked = message["params"]["protocolVersion"]
        send(id=ident, result={"protocolVersion": asked, "authMethods": ["password"]})
    elif method == "session/new":
        send(id=ident, result={"sessionId": "s", "modes": []} if FORM else {"sessionId": "s"})
    elif method == "session/prompt":
        print("thinking ...", flush=True)
        update(sessionUpdate="agent_message_chunk", content={"type": "text"})
        update(sessionUpdate="thought", content={"type": "text", "text": "x"})
        send(id="c-1", method="terminal/create", params={"sessionId": "s", "command": "true"})
        send(id=ident, result={"stopReason": "done"})
        send(id=ident, result={"stopReason": "done"})
    else:
        send(id=ident, result={})

for line in sys.stdin:
    serve(line)
import time
time.sleep(30)
"""


def agent(tmp_path: Path, source: str, **given: object) -> list[str]:
    path = tmp_path / "agent.py"
    head = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    path.write_text(head + textwrap.dedent(source))
    return [sys.executable, str(path)]


def statuses(report: AgentReport) -> dict[str, str]:
    return {item.id: item.status for item in report.items}


@pytest.mark.parametrize("version", [1, 2])
def test_the_bundled_agent_keeps_all_rules(version: int) -> None:
    report = check_agent("demo", protocol=version)
    assert report.protocol == version
    assert set(statuses(report).values()) == {"ok"}, report.as_text()
    ids = [item.id for item in report.items]
    assert len(set(ids)) == len(ids)
    wanted = {"start", "prompt", "cancel", "list", "load", "resume", "fork", "close", "delete"}
    wanted |= {"set option", "unknown method", "parse error", "stdout", "end", "negotiation"}
    assert wanted <= set(ids)
    assert ("set mode" in ids) == (version == 1)
    assert ("empty batch" in ids) == (version == 2)


def test_an_agent_that_breaks_rules_is_told_which(tmp_path: Path) -> None:
    with mock.patch.object(examination, "END_GRACE", 0.5):
        report = check_agent(agent(tmp_path, BROKEN, FORM=0))
    found = statuses(report)
    broken = ["initialize", "prompt", "cancel", "messages", "declared", "stdout", "negotiation"]
    broken += ["unknown method", "unknown notification"]
    assert {ident: found[ident] for ident in broken} == dict.fromkeys(broken, "fail")
    for ident in ("info", "end", "early", "relative folder", "unknown session"):
        assert found[ident] in ("warn", "fail"), ident
    assert report.status == "fail"
    assert "'done'" in report["prompt"].detail
    assert "thinking ..." in report["stdout"].detail
    assert report["declared"].detail == "terminal/create"
    for words in ("agent_message_chunk: text without text", "'thought'", "a second answer"):
        assert words in report["messages"].detail
    assert "-32601" in report["unknown method"].rule


def test_a_session_in_a_wrong_form_ends_the_examination_of_sessions(tmp_path: Path) -> None:
    with mock.patch.object(examination, "END_GRACE", 0.5):
        report = check_agent(agent(tmp_path, BROKEN, FORM=1), prompts=False)
    assert report["session"].status == "fail"
    assert "modes" in report["session"].detail
    assert "prompt" not in statuses(report)


LOGIN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"error": {"code": -32000, "message": "Authentication required"}}
    if message["method"] == "initialize":
        methods = [{"id": "key", "name": "API key"}]
        info = {"name": "closed", "version": "1"}
        result = {"protocolVersion": 1, "agentInfo": info, "authMethods": methods}
        answer = {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def test_what_needs_a_login_is_not_run_and_says_so(tmp_path: Path) -> None:
    report = check_agent(agent(tmp_path, LOGIN))
    assert report["session"].status == "not run"
    assert "log in" in report["session"].detail
    assert report["login"].detail == "API key"
    assert "prompt" not in statuses(report)


def test_a_program_that_is_no_agent_does_not_start(tmp_path: Path) -> None:
    report = check_agent(agent(tmp_path, "print('usage: tool FILE')"))
    assert statuses(report) == {"start": "fail"}
    assert "usage: tool FILE" in report["start"].detail
    report = check_agent(["/no/such/program"])
    assert statuses(report) == {"start": "fail"}
    assert "/no/such/program" in report["start"].detail


def test_an_agent_of_version_1_alone_is_checked_with_that(tmp_path: Path) -> None:
    report = check_agent(agent(tmp_path, LOGIN), protocol=2)
    assert report["version 2"].status == "not run"
    assert report.protocol == 1
    assert report["version"].status == "ok"


CURIOUS = """
import json, os, sys
asked, told = {}, []
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def ask(method, **params):
    asked[method] = None
    send(id=method, method=method, params={"sessionId": "s", **params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == method and "method" not in message:
            return message
for line in sys.stdin:
    message = json.loads(line)
    method, ident = message["method"], message.get("id")
    if ident is None: continue
    if method == "initialize":
        send(id=ident, result={"protocolVersion": 1})
    elif method == "session/new":
        send(id=ident, result={"sessionId": "s"})
    elif method == "session/prompt":
        made = os.path.join(os.getcwd(), "made.txt")
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"},
                   {"optionId": "n", "name": "No", "kind": "reject_once"}]
        answers = [
            ask("fs/write_text_file", path=made, content="x"),
            ask("fs/read_text_file", path=made),
            ask("fs/read_text_file", path=OUTSIDE),
            ask("fs/write_text_file", path=OUTSIDE, content="changed"),
            ask("fs/read_text_file", path="made.txt"),
            ask("session/request_permission", toolCall={"toolCallId": "c"}, options=options),
            ask("session/request_permission", toolCall={"toolCallId": "c"}, options=options[:1]),
            ask("_vendor/thing"),
        ]
        with open(NOTES, "w") as file:
            json.dump([a.get("result", a.get("error")) for a in answers], file)
        send(id=ident, result={"stopReason": "end_turn"})
    else:
        send(id=ident, error={"code": -32601, "message": "no"})
"""


def test_an_examined_agent_gets_no_permission_and_no_file_of_the_users(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    notes = tmp_path / "notes.json"
    argv = agent(tmp_path, CURIOUS, OUTSIDE=str(outside), NOTES=str(notes))
    report = check_agent(argv)
    written, read, *refused, denied, none, unknown = json.loads(notes.read_text())
    assert (written, read) == ({}, {"content": "x"})
    assert [error["code"] for error in refused] == [-32602] * 3
    assert denied == {"outcome": {"outcome": "selected", "optionId": "n"}}
    assert none == {"outcome": {"outcome": "cancelled"}}
    assert unknown["code"] == -32601
    assert outside.read_text() == "secret"
    assert report["declared"].status == "ok"
    assert "not absolute" in report["messages"].detail


# -- the tables -----------------------------------------------------------------------------------


def required(version: int, union: str, key: str) -> dict[str, set[str]]:
    """By the name of each variant of a union in the schema: the fields that it must have."""
    whole = definition(version, True, union)
    found = {}
    for branch in [*whole.get("oneOf", []), *whole.get("anyOf", [])]:
        name = branch.get("properties", {}).get(key, {}).get("const")
        if name is None:
            continue
        fields: set[str] = set()
        for part in branch.get("allOf", []):
            if "$ref" in part:
                schema = definition(version, True, part["$ref"].rpartition("/")[2])
                fields |= set(schema.get("required", []))
        found[name] = fields
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_the_forms_are_those_of_the_official_schema(version: int) -> None:
    updates = {kind: set(fields) for kind, fields in forms.UPDATES[version].items()}
    assert updates == required(version, "SessionUpdate", "sessionUpdate")
    blocks = {kind: set(fields) for kind, fields in forms.BLOCKS.items()}
    assert blocks == required(version, "ContentBlock", "type")


def test_the_stop_reasons_are_those_of_version_1() -> None:
    reasons = definition(1, True, "StopReason")["oneOf"]
    assert {reason["const"] for reason in reasons} == forms.STOP_REASONS


@pytest.mark.parametrize(
    ("update", "version", "words"),
    [
        ({}, 1, "without sessionUpdate"),
        ({"sessionUpdate": "plan"}, 1, "plan without entries"),
        ({"sessionUpdate": "new_thing"}, 1, "does not have"),
        ({"sessionUpdate": "agent_message_chunk", "content": "x"}, 1, "no content block"),
        (
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}},
            2,
            "Id",
        ),
        ({"sessionUpdate": "new_thing"}, 2, ""),
        ({"sessionUpdate": "_mine"}, 1, ""),
        ({"sessionUpdate": "session_info_update", "title": None}, 1, ""),
    ],
)
def test_what_is_wrong_with_an_update_is_named(
    update: dict[str, Any], version: int, words: str
) -> None:
    problems = list(forms.update_problems(update, version))
    assert bool(problems) == bool(words)
    assert words in "".join(problems)


# -- the report -----------------------------------------------------------------------------------


def report_of(*items: Item) -> AgentReport:
    return AgentReport("a\x1b[2J 1", ("agent",), 1, items)


def test_the_table_has_the_rule_of_what_breaks_it_and_lets_nothing_through() -> None:
    report = report_of(
        Item("a", "one", "ok", rule="kept"),
        Item("b", "longer", "fail", "<b>\x1b[2J", "it must"),
        Item("c", "c", "not run", "no"),
    )
    lines = report.as_text().splitlines()
    assert lines[0].endswith("ACP version 1: 1 ok, 1 fail, 1 not run")
    assert lines[1:] == [
        "✓ one",
        "✗ longer  <b>⟨U+001B⟩[2J",
        "          the rule: it must",
        "· c       no",
    ]
    page = report._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
    assert "The rule: it must." in page
    assert "kept" not in page
    assert report.status == "fail"
    assert report_of().status == "ok"
    with pytest.raises(KeyError):
        report["d"]


def test_a_rule_that_only_says_should_is_a_warning() -> None:
    found = Findings()
    found.hold("a", "a", "broken", must=False)
    found.hold("b", "b", "")
    assert [item.status for item in found.items] == ["warn", "ok"]


def test_the_command_tells_it_as_a_table_and_as_json_with_an_exit_code(tmp_path: Path) -> None:
    done = command("doctor", "demo", "--json", "--no-prompts", home=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["state"]) == (0, "ok"), report
    assert {"id", "title", "status", "detail", "rule"} == report["checks"][0].keys()
    assert {"prompt", "cancel"} == {c["id"] for c in report["checks"] if c["status"] == "not run"}
    line = " ".join([sys.executable, "-c", "pass"])
    done = command("doctor", line, home=tmp_path)
    assert done.returncode == 3
    assert "✗ starts" in done.stdout
    done = command("doctor", "no-such-agent-anywhere", home=tmp_path)
    assert done.returncode == 1
    assert "no agent is called" in done.stderr


def test_an_agent_that_runs_elsewhere_is_not_examined() -> None:
    with pytest.raises(UsageError, match="started here"):
        check_agent("ws://127.0.0.1:1/acp")


def test_the_package_hands_it_out() -> None:
    import acp_jupyter

    assert acp_jupyter.check_agent is check_agent
