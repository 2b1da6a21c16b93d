"""The live connection (comm ``acp.live``) as a page in a browser meets it, on real kernels."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kernels import OURS, PLAIN
from tests.live_kernel import LiveKernel, as_server, live_kernel
from tests.live_page import LivePage
from tests.scripted import Script

MakeScript = Callable[..., Script]


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("live")
    secret = {"CANARY_TOKEN": CANARY}
    with live_kernel(home, **as_server(home), **secret) as running:
        yield running


@pytest.fixture
def kernel(module_kernel: LiveKernel) -> LiveKernel:
    """The agent kernel as a Jupyter server starts it, with the bundled agent."""
    module_kernel.run("%acp connect demo").expect_ok()
    return module_kernel


@pytest.fixture
def page(kernel: LiveKernel) -> Iterator[LivePage]:
    page = LivePage(kernel)
    yield page
    page.close()


CANARY = 'canary-4711-0815-"quoted"'


def connect(kernel: LiveKernel, script: Script) -> None:
    kernel.run(f"%acp connect -- {shlex.join(script.argv)}").expect_ok()


def allow(question: dict[str, Any]) -> int:
    """The index of the choice that allows once."""
    index: int = next(c["index"] for c in question["choices"] if c["kind"] == "allow_once")
    return index


# -- state --------------------------------------------------------------------------------------


def test_a_page_gets_the_state_of_a_kernel_without_agents(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        page = LivePage(kernel)
        assert page.of_type("state") == [{"type": "state", "version": 1, "links": []}]
        found = page.ask("complete", code="%acp con", cursor=8)
        assert found["matches"][0]["text"] == "connect"
        assert "no such agent" in page.refused("cancel", link="link-9")
        assert "no agent" in page.refused("set", link="link-1", option="mode", value="x")


def test_a_state_tells_all_that_a_page_shows(page: LivePage) -> None:
    link = page.link
    assert link["status"] == "idle"
    assert link["name"] == ""
    assert link["agent"]["protocol"] == "1"
    assert link["session"]["cwd"] == str(page.kernel.cwd)
    assert [session["status"] for session in link["sessions"]] == ["idle"]
    options = {option["id"]: option for option in link["options"]}
    assert options["mode"]["kind"] == "select"
    assert options["mode"]["category"] == "mode"
    assert [value["value"] for value in options["mode"]["values"]] == ["ask", "trust", "plan"]
    assert options["verbose"]["kind"] == "boolean"
    assert link["commands"]
    assert set(link["commands"][0]) == {"name", "description"}
    assert link["questions"] == []
    assert json.dumps(link, allow_nan=False)


def test_the_states_follow_a_prompt_with_a_question(page: LivePage) -> None:
    cell = page.kernel.start("write state.txt: yes", metadata={"cellId": "cell-7"})
    question = page.wait_question()
    assert question["kind"] == "permission"
    assert question["cell"] == "cell-7"
    assert question["tool"] == "edit"
    assert "state.txt" in question["title"] + question["detail"]
    assert question["choices"][0]["label"] == "Allow once"
    page.ask("answer", link=page.link["key"], question=question["id"], choice=allow(question))
    page.kernel.finish(cell).expect_ok()
    page.wait_status("idle")
    assert [status for status in page.statuses if status != "working"] == [
        "idle",
        "waiting",
        "idle",
    ]
    assert page.link["questions"] == []
    assert page.link["usage"]["used"] > 0
    assert (page.kernel.cwd / "state.txt").read_text() == "yes"
    assert "Allowed once by you" in cell.text


def test_a_question_of_the_clients_own_waits_for_the_user_too(page: LivePage) -> None:
    page.kernel.run("%acp sessions").expect_ok()
    cell = page.kernel.start("%acp sessions delete 1", metadata={"cellId": "cell-8"})
    question = page.wait_question()
    assert page.link["status"] == "waiting"
    assert (question["kind"], question["choices"], question["cell"]) == ("form", [], "cell-8")
    assert "Delete the session" in question["title"]
    refused = page.refused("answer", link=page.link["key"], question=question["id"], choice=0)
    assert "in its cell" in refused
    page.kernel.interrupt()
    page.kernel.finish(cell)
    page.wait_status("idle")
    assert page.link["questions"] == []


def test_a_start_an_end_and_a_disconnection_are_told(page: LivePage) -> None:
    page.kernel.run("%acp restart").expect_ok()
    page.wait_status("idle")
    page.kernel.run("%acp disconnect").expect_ok()
    page.wait_status("none")
    assert page.link["agent"] is None
    assert page.link["session"] is None
    page.kernel.run("%acp connect demo").expect_ok()
    page.wait_status("idle")
    told = page.statuses
    assert told[0] == "idle"
    assert "starting" in told  # each time, but where it is quicker than two messages
    assert [each for each in told if each != "starting"] == ["idle", "idle", "none", "idle"]


def test_a_crash_is_told_without_a_cell(kernel: LiveKernel, script: MakeScript) -> None:
    def prompt(agent: Any) -> None:
        agent.text("Goodbye")
        agent.end()
        agent.sleep(0.2)
        os._exit(3)

    connect(kernel, script(prompt=prompt))
    page = LivePage(kernel)
    kernel.run("go").expect_ok()
    page.wait_status("ended")
    page.close()


def test_two_agents_are_two_links(page: LivePage) -> None:
    page.kernel.run("%acp connect demo --as second").expect_ok()
    page.wait(lambda: len(page.states[-1]) == 2 and page.states[-1][1]["status"] == "idle")
    first, second = page.states[-1]
    assert (first["name"], second["name"]) == ("", "second")
    assert first["key"] != second["key"]
    page.kernel.run("%acp disconnect --as second").expect_ok()
    page.wait(lambda: page.states[-1][1]["status"] == "none")


def test_nothing_is_sent_without_a_page_and_nothing_after_it_is_closed(
    kernel: LiveKernel,
) -> None:
    mark = len(kernel.seen)
    kernel.run("Hello").expect_ok()
    page = LivePage(kernel)
    page.close()
    seen = len(page.received)
    kernel.run("Hello again").expect_ok()
    kernel.run("And again").expect_ok()
    assert len(page.received) == seen
    ours = {"acp.live", "acp.live.hello"}
    opened = [m for m in kernel.seen[mark:] if m["msg_type"] == "comm_open"]
    assert not [m for m in opened if m["content"]["target_name"] in ours]
    assert not [m for m in kernel.seen[mark:] if m["msg_type"] == "stream"]


def test_a_state_is_not_sent_twice(page: LivePage) -> None:
    page.kernel.run("Hello").expect_ok()
    page.wait_status("idle")
    states = page.states
    assert all(before != after for before, after in pairwise(states))


def test_a_page_that_has_said_nothing_gets_nothing(kernel: LiveKernel) -> None:
    page = LivePage(kernel, greet=False)
    kernel.run("Hello").expect_ok()
    assert page.received == []
    page.close()


def test_the_states_of_a_fast_stream_are_few(kernel: LiveKernel, script: MakeScript) -> None:
    def prompt(agent: Any) -> None:
        for number in range(20_000):
            agent.text("word ")
            if number % 10 == 0:
                agent.update(sessionUpdate="usage_update", used=number, size=100_000)
        agent.end()

    connect(kernel, script(prompt=prompt))
    page = LivePage(kernel)
    before = len(page.states)
    cell = kernel.start("go")
    page.wait_status("working")
    kernel.finish(cell, limit=90.0).expect_ok()
    page.wait_status("idle")
    page.wait(lambda: page.link["usage"]["used"] == 19_990)
    messages = [m for m in kernel.seen if m["msg_type"] == "status"]
    took = messages[-1]["header"]["date"] - _sent(kernel, cell.ident)
    assert len(page.states) - before <= took.total_seconds() * 10 + 3
    page.close()


def _sent(kernel: LiveKernel, ident: str) -> Any:
    busy = next(m for m in kernel.seen if m["parent_header"].get("msg_id") == ident)
    return busy["header"]["date"]


def test_the_wire_of_a_fast_stream_is_few_messages_of_bounded_size(
    kernel: LiveKernel, script: MakeScript
) -> None:
    def prompt(agent: Any) -> None:
        for _ in range(20_000):
            agent.text("word " * 10)
        agent.end()

    connect(kernel, script(prompt=prompt))
    page = LivePage(kernel)
    page.ask("wire", link=page.link["key"], on=True)
    before = len(page.of_type("wire"))
    cell = kernel.start("go")
    kernel.finish(cell, limit=90.0).expect_ok()
    page.wait(lambda: "end_turn" in page.of_type("wire")[-1]["lines"][-1]["text"])
    messages = page.of_type("wire")
    took = kernel.seen[-1]["header"]["date"] - _sent(kernel, cell.ident)
    assert len(messages) - before <= took.total_seconds() * 5 + 3
    assert all(len(message["lines"]) <= 500 for message in messages)
    numbers = [line["number"] for message in messages for line in message["lines"]]
    assert all(a < b for a, b in pairwise(numbers))
    assert numbers[-1] > 20_000
    page.close()


def test_of_many_pages_those_are_told_that_said_something_last(kernel: LiveKernel) -> None:
    silent = LivePage(kernel)
    others = [LivePage(kernel) for _ in range(16)]
    count = len(silent.states)
    kernel.run("Hello").expect_ok()
    for other in others:
        other.wait_status("idle")
    assert len(silent.states) == count
    silent.ask("hello", version=1)
    silent.wait(lambda: len(silent.states) > count)
    assert silent.states[-1] == others[-1].states[-1]
    for page in (silent, *others):
        page.close()


def test_what_the_agent_says_cannot_deceive_and_is_bounded(
    kernel: LiveKernel, script: MakeScript
) -> None:
    def new_session(agent: Any) -> None:
        options = [
            {"id": "evil\u202e", "name": "x", "type": "boolean", "currentValue": True},
            {"id": "colour", "name": "Co\u202elour", "type": "colour", "currentValue": "red"},
            {
                "id": "size",
                "name": "Si\u202eze" + 1000 * "e",
                "type": "select",
                "currentValue": "s",
                "options": [
                    {"group": "g", "name": "Gr\u200boup", "options": [{"value": "s", "name": "S"}]}
                ],
            },
        ]
        agent.reply({"sessionId": "session-1", "configOptions": options})
        commands = [{"name": f"c{n}", "description": "d" * 900} for n in range(1000)]
        agent.update(sessionUpdate="available_commands_update", availableCommands=commands)
        agent.update(sessionUpdate="usage_update", used=10**30, size=5, cost={"amount": 10**400})

    def prompt(agent: Any) -> None:
        text = "\n".join(200 * "long " for number in range(90))
        diff = {"type": "diff", "path": "/tmp/x\u202e", "oldText": "", "newText": text}
        agent.permission("allow_once", title="Wri\u202ete", kind="edit", content=[diff])
        agent.end()

    connect(kernel, script(new_session=new_session, prompt=prompt))
    page = LivePage(kernel)
    cell = kernel.start("go")
    question = page.wait_question()
    assert question["title"] == "Wri⟨U+202E⟩te"
    assert 1000 < len(question["detail"]) <= 4000
    assert question["choices"][-1] == {"index": None, "label": "Deny", "kind": "reject_once"}
    (option,) = page.link["options"]
    assert option["name"].startswith("Si⟨U+202E⟩ze")
    assert len(option["name"]) <= 120
    assert option["values"] == [
        {"value": "s", "name": "S", "description": "", "group": "Gr⟨U+200B⟩oup"}
    ]
    assert len(page.link["commands"]) == 200
    assert page.link["usage"] == {"size": 5}
    assert "\u202e" not in json.dumps(page.states, ensure_ascii=False)
    page.ask("answer", link=page.link["key"], question=question["id"], choice=None)
    kernel.finish(cell).expect_ok()
    assert "Denied by you" in cell.text
    page.close()


# -- answering ----------------------------------------------------------------------------------


@pytest.fixture(params=["main shell", "subshell"])
def subshell(request: pytest.FixtureRequest, kernel: LiveKernel) -> Iterator[str | None]:
    if request.param == "main shell":
        yield None
        return
    with kernel.subshell() as header:
        yield header["subshell_id"]


def test_an_answer_arrives_while_the_cell_runs(kernel: LiveKernel, subshell: str | None) -> None:
    page = LivePage(kernel, subshell)
    name = f"answered-{subshell}.txt"
    cell = kernel.start(f"write {name}: yes")
    question = page.wait_question()
    ident = page.send(
        "comm_msg",
        data={
            "id": "the answer",
            "type": "answer",
            "link": page.link["key"],
            "question": question["id"],
            "choice": allow(question),
        },
    )
    assert page.reply("the answer")["ok"] is True
    kernel.finish(cell).expect_ok()
    assert (kernel.cwd / name).read_text() == "yes"
    statuses = [
        m["content"]["execution_state"]
        for m in kernel.seen
        if m["msg_type"] == "status" and m["parent_header"].get("msg_id") == ident
    ]
    assert statuses == ["busy", "idle"]
    page.close()


def test_the_first_answer_counts_and_a_stale_one_is_refused(page: LivePage) -> None:
    cell = page.kernel.start("write first.txt: yes")
    question = page.wait_question()
    fields = {"link": page.link["key"], "question": question["id"]}
    assert "no such choice" in page.refused("answer", **fields, choice=99)
    assert "no such choice" in page.refused("answer", **fields, choice=True)
    assert "no such choice" in page.refused("answer", **fields)
    deny = next(c["index"] for c in question["choices"] if c["kind"] == "reject_once")
    first = page.start("answer", **fields, choice=deny)
    second = page.start("answer", **fields, choice=allow(question))
    assert page.reply(first)["ok"] is True
    assert "answered already" in page.reply(second)["error"]
    page.kernel.finish(cell).expect_ok()
    assert not (page.kernel.cwd / "first.txt").exists()
    assert "answered already" in page.refused("answer", **fields, choice=deny)


def test_a_page_loaded_anew_gets_the_open_question_and_answers_it(kernel: LiveKernel) -> None:
    before = LivePage(kernel)
    cell = kernel.start("write reloaded.txt: yes")
    question = before.wait_question()
    after = LivePage(kernel)
    assert after.wait_question() == question
    fields = {"link": after.link["key"], "question": question["id"], "choice": allow(question)}
    after.ask("answer", **fields)
    kernel.finish(cell).expect_ok()
    before.wait_status("idle")
    after.wait_status("idle")
    assert (kernel.cwd / "reloaded.txt").read_text() == "yes"
    before.close()
    after.close()


def test_a_question_on_standard_input_is_answered_from_the_page(
    tmp_path: Path,
) -> None:
    with live_kernel(tmp_path) as kernel:
        kernel.run("%acp connect demo").expect_ok()
        page = LivePage(kernel)
        cell = kernel.start("write typed.txt: yes", allow_stdin=True)
        question = page.wait_question()
        kernel.read(lambda: cell.questions)
        page.ask("answer", link=page.link["key"], question=question["id"], choice=allow(question))
        kernel.finish(cell).expect_ok()
        assert (kernel.cwd / "typed.txt").read_text() == "yes"
        assert "Allowed once by you" in cell.text


def test_a_form_is_shown_and_left_to_its_cell(page: LivePage, script: MakeScript) -> None:
    def prompt(agent: Any) -> None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        agent.ask("elicitation/create", mode="form", message="Who?", requestedSchema=schema)
        agent.end()

    connect(page.kernel, script(prompt=prompt))
    cell = page.kernel.start("go")
    question = page.wait_question()
    assert question["kind"] == "form"
    assert "Who?" in question["title"]
    assert question["choices"] == []
    error = page.refused("answer", link=page.link["key"], question=question["id"], choice=None)
    assert "form" in error
    page.ask("cancel", link=page.link["key"])
    page.kernel.finish(cell).expect_error("TurnCancelled")


# -- the other requests -------------------------------------------------------------------------


def test_options_are_set(page: LivePage) -> None:
    key = page.link["key"]
    changes: list[tuple[str, Any]] = [("mode", "trust"), ("model", "large"), ("verbose", True)]
    for ident, value in (*changes, ("mode", "ask")):
        page.ask("set", link=key, option=ident, value=value)
        expected = {ident: value}

        def is_set(expected: dict[str, Any] = expected) -> bool:
            options = {option["id"]: option["value"] for option in page.link["options"]}
            return expected.items() <= options.items()

        page.wait(is_set)
    assert "no option 'colour'" in page.refused("set", link=key, option="colour", value="red")
    assert "cannot be set" in page.refused("set", link=key, option="mode", value="yolo")
    assert "cannot be set" in page.refused("set", link=key, option="verbose", value="true")
    assert "text" in page.refused("set", link=key, option="mode", value=7)


def test_an_option_is_set_while_a_turn_runs(page: LivePage) -> None:
    cell = page.kernel.start("slow 600")
    page.wait_status("working")
    page.ask("set", link=page.link["key"], option="model", value="large")
    page.ask("set", link=page.link["key"], option="model", value="small")
    page.ask("cancel", link=page.link["key"])
    page.kernel.finish(cell).expect_error("TurnCancelled")


def test_modes_and_models_of_an_older_agent_are_options(
    kernel: LiveKernel, script: MakeScript
) -> None:
    def new_session(agent: Any) -> None:
        modes = [{"id": "code", "name": "Code"}, {"id": "plan", "name": "Plan"}]
        models = [{"modelId": "s", "name": "Small"}, {"modelId": "l", "name": "Large"}]
        agent.reply(
            {
                "sessionId": "session-1",
                "modes": {"currentModeId": "code", "availableModes": modes},
                "models": {"currentModelId": "s", "availableModels": models},
            }
        )

    def set_mode(agent: Any) -> None:
        asked = [m for m in agent.received if m.get("method") == "session/set_mode"]
        if asked[-1]["params"]["modeId"] == "plan":
            agent.reply({})
        else:
            agent.reply(error={"code": -32603, "message": "not now"})

    def set_model(agent: Any) -> None:
        agent.note("model", agent.received[-1]["params"])
        agent.reply({})

    made = script(new_session=new_session, set_mode=set_mode, set_model=set_model)
    made.older_methods = {"session/set_model"}
    connect(kernel, made)
    page = LivePage(kernel)
    key = page.link["key"]

    def values() -> dict[str, str]:
        return {option["category"]: option["value"] for option in page.link["options"]}

    assert values() == {"mode": "code", "model": "s"}
    page.ask("set", link=key, option="mode", value="plan")
    page.ask("set", link=key, option="model", value="l")
    page.wait(lambda: values() == {"mode": "plan", "model": "l"})
    assert "not now" in page.refused("set", link=key, option="mode", value="code")
    assert values()["mode"] == "plan"
    assert made.notes("model") == [{"sessionId": "session-1", "modelId": "l"}]
    page.close()


def test_a_turn_is_cancelled(page: LivePage) -> None:
    cell = page.kernel.start("slow 600")
    page.wait_status("working")
    page.ask("cancel", link=page.link["key"])
    page.kernel.finish(cell).expect_error("TurnCancelled")
    page.wait_status("idle")
    assert "nothing is running" in page.refused("cancel", link=page.link["key"])


def test_completion_answers_while_the_kernel_is_busy(page: LivePage) -> None:
    (page.kernel.cwd / "story.txt").write_text("")
    cell = page.kernel.start("slow 600")
    page.wait_status("working")
    found = page.ask("complete", code="/he", cursor=3)
    assert (found["start"], found["end"]) == (0, 3)
    assert "/help" in [match["text"] for match in found["matches"]]
    assert set(found["matches"][0]) == {"text", "type", "signature"}
    emoji = page.ask("complete", code="🦀🦀 @st", cursor=8)
    assert (emoji["start"], emoji["end"]) == (5, 8)
    assert page.ask("complete", code="%%python\nimp", cursor=12)["matches"] == []
    assert "cursor" in page.refused("complete", code="abc", cursor=4)
    page.ask("cancel", link=page.link["key"])
    page.kernel.finish(cell).expect_error("TurnCancelled")


def test_the_wire_is_told_from_its_beginning_and_has_no_secret(
    kernel: LiveKernel, script: MakeScript
) -> None:
    def prompt(agent: Any) -> None:
        secret = os.environ["CANARY_TOKEN"]
        print("on stderr: " + secret, file=sys.stderr, flush=True)
        agent.text("I know " + secret)
        agent.text("x" * 3950 + secret * 20)
        agent.end()

    connect(kernel, script(prompt=prompt))
    page = LivePage(kernel)
    assert page.of_type("wire") == []
    page.ask("wire", link=page.link["key"], on=True)
    kernel.run("go").expect_ok()

    def lines() -> list[dict[str, Any]]:
        return [line for message in page.of_type("wire") for line in message["lines"]]

    page.wait(lambda: any("end_turn" in line["text"] for line in lines()))
    page.wait(lambda: any(line["direction"] == "stderr" for line in lines()))
    assert '"initialize"' in lines()[0]["text"]
    assert lines()[0]["direction"] == "sent"
    assert [line["number"] for line in lines()] == list(range(1, len(lines()) + 1))
    assert "I know [redacted]" in json.dumps(lines())
    assert "on stderr: [redacted]" in json.dumps(lines())
    assert "canary" not in json.dumps(lines())
    page.ask("wire", link=page.link["key"], on=False)
    count = len(lines())
    kernel.run("go").expect_ok()
    page.wait_status("idle")
    assert len(lines()) == count
    page.close()


def test_the_file_that_is_worked_on_is_told(kernel: LiveKernel, script: MakeScript) -> None:
    def prompt(agent: Any) -> None:
        cwd = agent.given["cwd"]
        for line in range(1, 100):
            agent.update(
                sessionUpdate="tool_call",
                toolCallId=f"call-{line}",
                title="Read",
                locations=[{"path": cwd + "/src/a.py", "line": line}],
            )
        agent.update(
            sessionUpdate="tool_call",
            toolCallId="call-x",
            title="Read",
            locations=[{"path": "/etc/passwd"}],
        )
        agent.end()

    connect(kernel, script(prompt=prompt, given={"cwd": str(kernel.cwd)}))
    page, other = LivePage(kernel), LivePage(kernel)
    kernel.run("go").expect_ok()
    page.wait_status("idle")
    follows = page.of_type("follow")
    assert all(follow["location"]["path"] == "src/a.py" for follow in follows)
    assert len(follows) < 20
    assert other.of_type("follow") == follows
    (kernel.cwd / "served.txt").write_text("text")
    page.close()
    other.close()


def test_a_file_that_is_served_is_told(page: LivePage) -> None:
    (page.kernel.cwd / "served.txt").write_text("text")
    page.kernel.run("read served.txt").expect_ok()
    page.wait(lambda: page.of_type("follow"))
    assert page.of_type("follow")[-1]["location"] == {"path": "served.txt"}


def test_what_became_of_a_proposed_cell_is_kept(kernel: LiveKernel, script: MakeScript) -> None:
    def prompt(agent: Any) -> None:
        agent.text("Try this:\n\n```python\nx = 1\n```\n")
        agent.end()

    connect(kernel, script(prompt=prompt))
    page = LivePage(kernel)
    cell = kernel.run("go").expect_ok()

    def proposals() -> list[dict[str, Any]]:
        found = [data.get("application/vnd.acp.entry+json", {}) for data in cell.outputs]
        return [entry for entry in found if entry.get("type") == "cells"]

    (entry,) = proposals()
    assert entry["cells"] == [{"language": "python", "source": "x = 1", "state": "proposed"}]
    page.ask("cells", entry=entry["id"], index=0, state="inserted")
    page.wait(lambda: proposals()[0]["cells"][0]["state"] == "inserted")
    assert page.refused("cells", entry=entry["id"], index=1, state="run")
    assert page.refused("cells", entry=entry["id"], index=0, state="eaten")
    page.close()


def test_a_notebook_is_exported_without_its_secrets_where_asked(page: LivePage) -> None:
    source = f"print('{CANARY}')"
    cell = {
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": 1,
    }
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]}
    folder = page.kernel.cwd / "deeper"
    folder.mkdir()
    path = folder / "work.ipynb"
    path.write_text(json.dumps(notebook))
    plain = page.ask("export", path="deeper/work.ipynb", to="md", redact=False)
    assert plain["name"] == "work.md"
    assert source in plain["text"]
    page.kernel.start("slow 600")
    page.wait_status("working")
    redacted = page.ask("export", path=str(path), to="html", redact=True)
    assert redacted["name"] == "work.html"
    assert "4711" not in redacted["text"]
    page.ask("cancel", link=page.link["key"])
    page.wait_status("idle")
    path.write_text("no notebook")
    assert page.refused("export", path=str(path), to="md", redact=False)
    (folder / "link.ipynb").symlink_to("/etc/passwd")
    error = page.refused("export", path="deeper/link.ipynb", to="md", redact=False)
    assert "below" in error


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"type": "dance"}, "knows no request 'dance'"),
        ({"type": None}, "knows no request"),
        ({"type": ["hello"]}, "knows no request"),
        ({}, "knows no request"),
        ({"type": "cancel"}, "needs a link"),
        ({"type": "cancel", "link": 7}, "needs a link"),
        ({"type": "cancel", "link": "link-99"}, "no such agent"),
        ({"type": "answer", "link": "link-1"}, "needs a question"),
        ({"type": "wire", "link": "link-1", "on": 1}, "true or false"),
        ({"type": "complete", "code": 7, "cursor": 0}, "needs a code"),
        ({"type": "complete", "code": "", "cursor": True}, "needs a cursor"),
        ({"type": "cells", "entry": "e1", "index": 0, "state": "run"}, "has ended"),
        ({"type": "cells", "entry": "e1", "index": "0", "state": "run"}, "needs a index"),
        ({"type": "export", "path": "x.ipynb", "to": "exe", "redact": True}, "html, md, json"),
        ({"type": "export", "path": "../x.ipynb", "to": "md", "redact": True}, "below"),
        ({"type": "export", "path": "/etc/passwd", "to": "md", "redact": True}, "below"),
        ({"type": "export", "path": "none.ipynb", "to": "md", "redact": True}, "not there"),
    ],
)
def test_what_is_no_request_is_refused_with_a_reason(
    page: LivePage, data: dict[str, Any], words: str
) -> None:
    page.send("comm_msg", data={"id": "r", **data})
    assert words in page.reply("r")["error"]


@pytest.mark.parametrize("data", [None, 7, "hello", ["hello"], {"type": "hello"}, {"id": 7}])
def test_what_has_no_id_is_refused_too(page: LivePage, data: Any) -> None:
    page.send("comm_msg", data=data)
    assert "an id" in page.reply("")["error"]


# -- an ipykernel that the tap does not know ------------------------------------------------------


@pytest.mark.parametrize("name", [OURS, PLAIN])
def test_without_the_tap_a_page_is_answered_when_the_main_thread_is_free(
    tmp_path: Path, name: str
) -> None:
    unknown = tmp_path / "unknown"
    unknown.mkdir()
    (unknown / "sitecustomize.py").write_text(
        "from acp_jupyter.questions.comms import CommTap\n"
        "CommTap.supported = classmethod(lambda cls, kernel: False)\n"
    )
    with live_kernel(tmp_path, name=name, python_path=[str(unknown)]) as kernel:
        loads = name == PLAIN
        if loads:
            kernel.run("%load_ext acp_jupyter").expect_ok()
        page = LivePage(kernel)
        assert page.states == [[]]
        kernel.run("%acp connect demo").expect_ok()
        page.wait_status("idle")
        page.ask("set", link=page.link["key"], option="mode", value="plan")
        page.send("comm_msg", data="hello")
        assert "an id" in page.reply("")["error"]
        page.close()
        kernel.run("%acp disconnect").expect_ok()
        seen = len(page.received)
        kernel.run("%acp connect demo").expect_ok()
        assert len(page.received) == seen
        if loads:
            kernel.run("%unload_ext acp_jupyter").expect_ok()
        assert "Traceback" not in kernel.log()


# -- a Python kernel ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("python")
    with live_kernel(home, name=PLAIN, **as_server(home)) as running:
        yield running


@pytest.fixture
def loaded(python_kernel: LiveKernel) -> LiveKernel:
    python_kernel.run("%load_ext acp_jupyter").expect_ok()
    python_kernel.run("%acp connect demo").expect_ok()
    return python_kernel


@pytest.fixture(params=["main shell", "subshell"])
def python_subshell(request: pytest.FixtureRequest, loaded: LiveKernel) -> Iterator[str | None]:
    if request.param == "main shell":
        yield None
        return
    with loaded.subshell() as header:
        yield header["subshell_id"]


def test_a_python_cell_is_answered_while_it_blocks_the_main_thread(
    loaded: LiveKernel, python_subshell: str | None
) -> None:
    page = LivePage(loaded, python_subshell)
    name = f"python-{python_subshell}.txt"
    cell = loaded.start(f"%%acp\nwrite {name}: yes", metadata={"cellId": "python cell"})
    question = page.wait_question()
    assert question["cell"] == "python cell"
    found = page.ask("complete", code="x = 1\n%acp con", cursor=14)
    assert (found["start"], found["end"]) == (11, 14)
    assert found["matches"][0]["text"] == "connect"
    assert page.ask("complete", code="impo", cursor=4)["matches"] == []
    page.ask("answer", link=page.link["key"], question=question["id"], choice=allow(question))
    loaded.finish(cell).expect_ok()
    assert (loaded.cwd / name).read_text() == "yes"
    page.close()


def test_completion_sees_variables_while_a_cell_makes_them(loaded: LiveKernel) -> None:
    page = LivePage(loaded)
    cell = loaded.start(
        "found = 1\n"
        "while True:\n"
        "    globals()[f'made_{found % 5000}'] = found\n"
        "    globals().pop(f'made_{(found * 7) % 5000}', None)\n"
        "    found += 1\n"
    )
    code = "%%acp\nWhat is @foun"
    for _ in range(30):
        matches = page.ask("complete", code=code, cursor=len(code))["matches"]
        assert "found" in [match["text"].strip("@") for match in matches]
    loaded.interrupt()
    loaded.finish(cell).expect_error("KeyboardInterrupt")
    page.close()


def test_an_agent_of_the_python_api_is_a_link_while_it_lives(loaded: LiveKernel) -> None:
    page = LivePage(loaded)
    count = len(page.states[-1])
    loaded.run("import acp_jupyter as acp\nagent = acp.connect('demo')").expect_ok()
    page.wait(lambda: len(page.states[-1]) == count + 1)
    page.wait(lambda: page.states[-1][-1]["status"] == "idle")
    loaded.run("agent.close()").expect_ok()
    page.wait(lambda: len(page.states[-1]) == count)
    page.close()


def test_loading_says_hello_once_and_unloading_takes_the_connection_away(
    tmp_path: Path,
) -> None:
    with live_kernel(tmp_path, name=PLAIN) as kernel:
        kernel.run("%load_ext acp_jupyter").expect_ok()
        hellos = _hellos(kernel)
        assert [hello["parent_header"] for hello in hellos] == [{}]
        comm_id = hellos[0]["content"]["comm_id"]
        # A page that does not know the target closes it; it stays for those who do.
        for _ in range(2):
            kernel.send("shell", "comm_close", {"comm_id": comm_id, "data": {}})
        listed = kernel.request("comm_info_request", {"target_name": "acp.live.hello"})
        assert list(listed["comms"]) == [comm_id]
        kernel.run("import acp_jupyter.extension as e; e.load(get_ipython())").expect_ok()
        assert len(_hellos(kernel)) == 1
        page = LivePage(kernel)
        kernel.run("%unload_ext acp_jupyter").expect_ok()
        closed = [m["content"]["comm_id"] for m in kernel.seen if m["msg_type"] == "comm_close"]
        assert {page.comm_id, comm_id} <= set(closed)
        assert kernel.request("comm_info_request", {"target_name": "acp.live.hello"})["comms"] == {}
        kernel.run("%load_ext acp_jupyter").expect_ok()
        assert len(_hellos(kernel)) == 2
        assert LivePage(kernel).states == [[]]
        assert [m["content"] for m in kernel.seen if m["msg_type"] == "stream"] == []


def _hellos(kernel: LiveKernel) -> list[dict[str, Any]]:
    return [
        m
        for m in kernel.seen
        if m["msg_type"] == "comm_open" and m["content"]["target_name"] == "acp.live.hello"
    ]
