"""Logging in: every kind of method, in a real kernel; what is typed is seen by the agent alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import acp_jupyter as acp
from acp_jupyter.errors import AuthenticationRequired, UsageError
from acp_jupyter.host.login import Login
from acp_jupyter.protocol.auth import AuthMethod, Variable, auth_methods, find
from acp_jupyter.protocol.dialects import initialized
from acp_jupyter.services.agents import from_name
from tests.kernel_client import KernelUnderTest
from tests.live_kernel import LiveKernel, as_server, live_kernel
from tests.test_elicitation_kernel import Page

TYPED = "hunter2-is-typed"
AWKWARD = 'qu"ote\\slash-ü'


def methods(*given: Any) -> list[AuthMethod]:
    return auth_methods(initialized({"protocolVersion": 1, "authMethods": list(given)}, 1))


def test_every_kind_of_method_is_told_apart() -> None:
    found = methods(
        {"id": "a", "name": "A"},
        {"id": "b", "name": "B", "type": "agent"},
        {"id": "c", "name": "C", "type": "terminal", "args": ["--login"], "env": {"K": "v"}},
        {"id": "d", "name": "D", "_meta": {"terminal-auth": {"command": "x", "args": ["y"]}}},
        {"id": "e", "name": "E", "type": "env_var", "vars": [{"name": "API_KEY"}], "link": "h"},
        {"id": "f", "name": "F", "type": "_x"},
    )
    assert [method.kind for method in found] == [
        *("agent", "agent", "terminal", "terminal", "env_var", "unknown")
    ]
    assert (found[2].args, found[2].env, found[2].command) == (("--login",), (("K", "v"),), "")
    assert (found[3].args, found[3].command) == (("y",), "x")
    assert found[4].variables == (Variable("API_KEY", "API_KEY"),)
    assert [method.kind for method in methods("password", "none")] == ["string"]
    assert find(found, "D") is found[3]
    with pytest.raises(UsageError, match="no login 'z'"):
        find(found, "z")


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "PYTHONPATH", "JPY_API_TOKEN", "a b", "", 7, "NODE_OPTIONS"]
)
def test_a_method_cannot_set_variables_that_decide_what_runs(name: Any) -> None:
    (found,) = methods({"id": "e", "name": "E", "type": "env_var", "vars": [{"name": name}]})
    assert found.variables == ()
    env = [{"name": name, "value": "x"}, {"name": "OTHER", "value": "y"}]
    (found,) = methods({"id": "t", "name": "T", "type": "terminal", "env": env})
    assert found.env == (("OTHER", "y"),)


async def test_a_command_that_a_remote_agent_names_is_not_for_this_machine() -> None:
    offered = {"id": "m", "name": "M", "_meta": {"terminal-auth": {"command": "x", "args": []}}}
    found = initialized({"protocolVersion": 1, "authMethods": [offered]}, 1)
    spec = from_name("far", {"far": {"url": "wss://agents.example.org/acp"}})
    agent: Any = SimpleNamespace(initialized=found, spec=spec, replay=None)
    nobody: Any = None  # is neither asked nor shown anything
    with pytest.raises(UsageError, match="on the machine of the agent"):
        await Login(nobody, nobody, "m")(agent, None)


def refusing(*given: Any) -> dict[str, Any]:
    """A scenario whose agent wants a login, by these methods."""

    def initialize(agent: Any) -> None:
        info = {"name": "scripted", "version": "1"}
        offered = {"protocolVersion": 1, "agentCapabilities": agent.capabilities}
        agent.reply({**offered, "agentInfo": info, "authMethods": agent.given["methods"]})

    def new_session(agent: Any) -> None:
        logged_in = any(m.get("method") == "authenticate" for m in agent.received)
        agent.note("key", os.environ.get("SCRIPTED_THING"))
        if not logged_in and not os.environ.get("SCRIPTED_THING"):
            agent.reply(error={"code": -32000, "message": "Authentication required"})

    def authenticate(agent: Any) -> None:
        agent.reply({})

    return {
        "given": {"methods": list(given)},
        "initialize": initialize,
        "new_session": new_session,
        "authenticate": authenticate,
    }


def connect(kernel: KernelUnderTest, made: Any, *answers: str) -> Any:
    """Connect; the questions on stdin get these answers, one after the other."""
    left = iter(answers)
    command = " ".join(f"'{word}'" for word in made.argv)
    return kernel.run(f"%acp connect -- {command}", answer=lambda _: next(left, None))


def test_error_32000_leads_to_the_login_and_the_cell_goes_on(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = script(**refusing({"id": "a", "name": "Account"}, {"id": "b", "name": "Other"}))
    cell = connect(kernel, made, "2", "")
    assert "Log in by" in cell.ok().asked[0]
    assert "Logged in." in cell.text
    assert "Connected to" in cell.text
    (sent,) = made.received("authenticate")
    assert sent["params"] == {"methodId": "b"}
    assert len(made.received("initialize")) == 1


def test_who_does_not_log_in_is_told_how_to(kernel: KernelUnderTest, script: Any) -> None:
    made = script(**refusing({"id": "a", "name": "Account"}))
    error = connect(kernel, made, "/decline").failed("AuthenticationRequired")
    assert "%acp login METHOD" in error.traceback
    assert not made.received("authenticate")
    command = " ".join(f"'{word}'" for word in made.argv)
    error = kernel.run(f"%acp connect -- {command}").failed("AuthenticationRequired")
    assert "nobody can be asked" in error.traceback
    cell = kernel.run("%acp login a").ok()
    assert "Connected to" in cell.text
    assert [m["params"] for m in made.received("authenticate")] == [{"methodId": "a"}]


def test_a_key_is_typed_masked_and_set_for_a_new_process_of_the_agent_alone(
    kernel: KernelUnderTest, script: Any
) -> None:
    variables = [{"name": "SCRIPTED_THING", "label": "Your thing"}]
    made = script(
        **refusing({"id": "k", "name": "Key", "type": "env_var", "vars": variables, "link": "x"})
    )
    cell = connect(kernel, made, "1", "", TYPED, "").ok()
    assert "Your thing" in "".join(cell.asked)
    assert TYPED not in "".join(cell.asked)
    assert made.notes("key") == [None, TYPED]
    assert made.runs == 2
    assert not made.received("authenticate")
    shown = cell.text + cell.html + kernel.run("%acp log").ok().text + kernel.run("%acp").ok().text
    assert TYPED not in shown
    assert "SCRIPTED_THING" not in kernel.run("%%python\nimport os; print(os.environ)").ok().text


@pytest.mark.obligation("C11")
def test_a_login_in_a_terminal_is_shown_as_a_command_and_its_id_is_never_sent(
    kernel: KernelUnderTest, script: Any
) -> None:
    method = {
        "id": "t",
        "name": "Terminal",
        "type": "terminal",
        "args": ["--login", "it's"],
        "env": {"SOME": "va lue"},
    }
    made = script(**refusing(method))
    cell = connect(kernel, made, "1", "", "n")
    text = cell.failed("AuthenticationRequired").text
    assert "env 'SOME=va lue'" in text
    assert "--login 'it'\"'\"'s'" in text
    assert not made.received("authenticate")
    cell = connect(kernel, made, "1", "", "y", "/cancel")
    cell.failed("AuthenticationRequired")
    assert made.runs == 3  # it was connected again, and still wanted a login
    assert not made.received("authenticate")


def test_a_password_of_the_oldest_dialect_is_sent_and_seen_nowhere_else(
    kernel: KernelUnderTest, script: Any
) -> None:
    def authenticate(agent: Any) -> None:
        agent.note("typed", agent.wait("authenticate")["params"])
        if agent.run == 1:
            agent.reply(error={"code": 1, "message": "not hunter2-is-typed"})
        else:
            agent.reply({})

    made = script(**{**refusing("password"), "authenticate": authenticate})
    made.older_methods.add("authenticate")
    error = connect(kernel, made, "1", "", TYPED, "").failed("RequestError")
    assert "not [redacted]" in error.traceback
    cell = connect(kernel, made, "1", "", TYPED, "").ok()
    assert made.notes("typed") == [{"method": "password", "password": TYPED}] * 2
    log = kernel.run("%acp log").ok().text
    assert "authenticate" in log
    assert TYPED not in log + cell.text + cell.html + "".join(cell.asked) + json.dumps(cell.asked)


def test_what_is_typed_is_in_no_recording_and_not_in_the_log_of_json(
    kernel: KernelUnderTest, script: Any
) -> None:
    recording = kernel.cwd / "login.acp.jsonl"
    kernel.run(f"%acp record {recording}").ok()
    made = script(**refusing("token"))
    made.older_methods |= {"authenticate", "session/prompt"}  # the oldest dialect has others
    connect(kernel, made, "1", "", AWKWARD, "").ok()
    kernel.run("hello").ok()
    log = kernel.run("%acp log").ok().text
    kernel.run("%acp disconnect").ok()
    kernel.run("%acp record off").ok()
    (sent,) = made.received("authenticate")
    assert sent["params"] == {"method": "token", "token": AWKWARD}
    kept = recording.read_text("utf-8")
    assert '"authenticate"' in kept
    for text in (log, kept):
        assert "slash-" not in text
        assert "[redacted]" in text


def test_a_type_that_nobody_knows_is_shown_and_not_sent(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = script(**refusing({"id": "x", "name": "Ray", "type": "_ray"}))
    error = connect(kernel, made, "1", "").failed("UsageError")
    assert "'_ray'" in error.traceback
    assert not made.received("authenticate")


@pytest.mark.obligation("C14")
def test_a_prompt_that_wants_a_login_is_sent_again_after_it(
    kernel: KernelUnderTest, script: Any
) -> None:
    def prompt(agent: Any) -> None:
        if any(m.get("method") == "authenticate" for m in agent.received):
            agent.text("welcome")
            agent.end()
        else:
            agent.reply(error={"code": -32000, "message": "Authentication required"})

    given = {**refusing({"id": "a", "name": "Account"}), "prompt": prompt}
    del given["new_session"]
    made = script(**given)
    kernel.connect(made).ok()
    answers = iter(["1", ""])
    assert "welcome" in kernel.run("hello", answer=lambda _: next(answers)).ok().text
    assert len(made.received("session/prompt")) == 2


def test_a_question_of_the_agent_about_its_login_is_put_to_the_user(
    kernel: KernelUnderTest, script: Any
) -> None:
    def authenticate(agent: Any) -> None:
        ask = {"mode": "url", "url": "https://login.example/x", "elicitationId": "e"}
        about = {"requestId": agent.current_id, "message": "Sign in there", **ask}
        agent.note("answer", agent.answer(agent.request("elicitation/create", about)))
        agent.reply({})

    given = refusing({"id": "a", "name": "Account"})
    made = script(**{**given, "authenticate": authenticate})
    cell = connect(kernel, made, "1", "", "1").ok()
    assert "login.example" in "".join(cell.asked)
    assert [note["result"] for note in made.notes("answer")] == [{"action": "accept"}]


@pytest.mark.obligation("C9")
def test_logging_out_is_done_only_where_it_is_advertised(
    kernel: KernelUnderTest, script: Any
) -> None:
    def logout(agent: Any) -> None:
        agent.reply({})

    plain = script()
    kernel.connect(plain).ok()
    assert "cannot log out" in kernel.run("%acp logout").failed("UsageError").traceback
    made = script(capabilities={"auth": {"logout": {}}}, logout=logout)
    kernel.connect(made).ok()
    assert "Logged out." in kernel.run("%acp logout").ok().text
    assert len(made.received("logout")) == 1
    kernel.run("%acp disconnect").ok()
    assert not plain.received("logout")


def test_a_script_names_the_way_to_log_in(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ACP_DEMO_STORE", str(tmp_path / "store"))
    wanted = {"ACP_DEMO_AUTH": "1"}
    with pytest.raises(AuthenticationRequired, match="nobody can"):
        acp.connect("demo", cwd=tmp_path, env=wanted, permissions="deny")
    with acp.connect("demo", cwd=tmp_path, env=wanted, permissions="deny", login="demo") as agent:
        assert "You said" in agent.new_session().prompt("hello").text


# -- by widgets, as a frontend of a Jupyter server shows them -------------------------------------


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("served")
    with live_kernel(home, **as_server(home)) as running:
        yield running


def test_a_key_is_typed_into_a_masked_widget_and_is_in_no_output(
    served: LiveKernel, script: Any
) -> None:
    variables = [{"name": "SCRIPTED_THING", "label": "Your thing"}]
    made = script(**refusing({"id": "k", "name": "Key", "type": "env_var", "vars": variables}))
    page = Page(served, served.start(f"%acp connect -- {' '.join(made.argv)}"))
    page.show()
    assert "The agent wants you to log in." in page.words
    served.read(lambda: page.find("ButtonModel", description="Submit"))
    page.click("Submit")
    served.read(lambda: page.find("PasswordModel") and page.find("PlayModel"))
    page.set(page.find("PlayModel"), value=1)
    page.set(page.find("PasswordModel"), value=TYPED)
    page.click("Submit")
    cell = served.finish(page.cell).expect_ok()
    assert made.notes("key") == [None, TYPED]
    assert "Connected to" in cell.text
    assert TYPED not in json.dumps(cell.outputs)
