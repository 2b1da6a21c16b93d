"""What an agent, a repository or a notebook can try at consent, as the user of the kernel meets it.

In the kernel of most tests nobody can answer unless a cell allows stdin; the one ``by_server``
asks by widgets, which the tests click by the messages that a page would send.
"""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from tests.kernel_client import open_kernel

ONCE = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
REJECT = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


@pytest.fixture(scope="module")
def module_by_server(tmp_path_factory):
    with open_kernel(tmp_path_factory.mktemp("by-server"), by_server=True) as running:
        yield running


@pytest.fixture
def by_server(module_by_server):
    """A kernel that takes this process for a Jupyter server: its frontends show widgets."""
    return module_by_server.ready()


def connected(kernel, script, **settings):
    """Connect to a scenario."""
    made = script(**settings)
    kernel.connect(made)
    return made


def outcomes(made):
    return [answer.get("result") for answer in made.notes("session/request_permission")]


# -- the page's side of the widgets --------------------------------------------------------------


def widgets(cell, model):
    """The models of a kind that the cell made: (description, tooltip, style, comm id)."""
    found = []
    for message in cell.messages:
        content = message["content"]
        if message["msg_type"] == "comm_open":
            state = content["data"]["state"]
            if state.get("_model_name") == model:
                found.append(
                    (
                        state.get("description"),
                        state.get("tooltip"),
                        state.get("button_style"),
                        content["comm_id"],
                    )
                )
    return found


def send_comm(kernel, comm_id, data):
    content = {"comm_id": comm_id, "data": data}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", content))


def show(kernel, cell, count=1):
    """What a page does once it has made the widgets: its counters count."""
    cell.wait(lambda c: len(widgets(c, "VBoxModel")) >= count)  # the last to be made
    for *_, comm_id in widgets(cell, "PlayModel"):
        send_comm(kernel, comm_id, {"method": "update", "state": {"value": 1}, "buffer_paths": []})


def click(kernel, comm_id):
    send_comm(kernel, comm_id, {"method": "custom", "content": {"event": "click"}})


def button(cell, label, number=0):
    cell.wait(lambda c: [b for b in widgets(c, "ButtonModel") if b[0] == label][number:])
    return [b for b in widgets(cell, "ButtonModel") if b[0] == label][number][-1]


# -- commands ------------------------------------------------------------------------------------


def run_touch(agent):
    """Source of a turn that runs a command through the client."""
    answer = agent.ask(
        "terminal/create",
        command=agent.given["command"],
        args=agent.given.get("args", []),
        env=[{"name": "MODE", "value": "fast\x1b[2J"}],
        cwd=agent.given["cwd"],
    )
    if "result" in answer:
        ident = answer["result"]["terminalId"]
        agent.ask("terminal/wait_for_exit", terminalId=ident)
        agent.ask("terminal/release", terminalId=ident)


def test_f38_a_command_is_asked_for_word_by_word_before_it_runs(kernel, script):
    mark = kernel.cwd / "f38; rm -rf x"
    given = {"command": "touch", "args": [mark.name], "cwd": str(kernel.cwd)}
    made = connected(kernel, script, prompt=run_touch, given=given)
    existed = []

    def answer(prompt):
        existed.append(mark.exists())
        return "1"

    cell = kernel.run("go", answer=answer).ok()
    assert existed == [False]
    assert "touch 'f38; rm -rf x'" in cell.asked[0]
    assert str(kernel.cwd) in cell.asked[0]
    assert "MODE" in cell.asked[0]
    assert "\x1b" not in cell.asked[0]
    assert "[1] Allow once" in cell.asked[0]
    assert "[2] Always allow" in cell.asked[0]
    assert "[3] Deny" in cell.asked[0]
    assert made.notes("terminal/wait_for_exit")[0]["result"]["exitCode"] == 0
    assert mark.exists()
    assert not (kernel.cwd / "f38").exists()  # no shell took the words apart


def test_f38_a_whole_command_line_is_labelled_as_one_for_a_shell(kernel, script):
    given = {"command": "echo a > f38-shell.txt && cat f38-shell.txt", "cwd": str(kernel.cwd)}
    made = connected(kernel, script, prompt=run_touch, given=given)
    cell = kernel.run("go", answer=lambda prompt: "n").ok()
    assert "shell" in cell.asked[0]
    assert "echo a > f38-shell.txt && cat f38-shell.txt" in cell.asked[0]
    assert "error" in made.notes("terminal/create")[0]
    assert not (kernel.cwd / "f38-shell.txt").exists()


def test_f38_where_nobody_can_answer_no_command_runs(kernel, script):
    given = {"command": "touch", "args": ["f38-headless"], "cwd": str(kernel.cwd)}
    made = connected(kernel, script, prompt=run_touch, given=given)
    cell = kernel.run("go").ok()
    assert "error" in made.notes("terminal/create")[0]
    assert "nobody can answer" in cell.text
    assert not (kernel.cwd / "f38-headless").exists()


# -- what the options say ------------------------------------------------------------------------


def lying_options(agent):
    """Source of a turn whose options claim to be others."""
    agent.ask(
        "session/request_permission",
        toolCall={"toolCallId": "t", "title": "Delete all", "kind": "delete"},
        options=[
            {"optionId": "a", "name": "Deny", "kind": "allow_once"},
            {"optionId": "b", "name": "Allow" + "\u202e!" * 200, "kind": "reject_once"},
        ],
    )


def test_f43_labels_come_from_the_kind_and_the_agents_words_are_quoted(kernel, script):
    made = connected(kernel, script, prompt=lying_options)
    cell = kernel.run("go", answer=lambda prompt: "2").ok()
    assert "[1] Allow once" in cell.asked[0]
    assert "[2] Deny" in cell.asked[0]
    assert "“Deny”" in cell.asked[0]
    assert "\u202e" not in cell.asked[0]
    assert "!" * 81 not in cell.asked[0].replace("\\u202e", "")
    assert outcomes(made) == [{"outcome": {"outcome": "selected", "optionId": "b"}}]
    assert "Denied by you" in cell.text


def test_f43_buttons_have_the_labels_and_colours_of_their_kinds(by_server, script):
    made = connected(by_server, script, prompt=lying_options)
    cell = by_server.start("go")
    show(by_server, cell)
    found = {label: (style, tooltip) for label, tooltip, style, _ in widgets(cell, "ButtonModel")}
    assert found["Allow once"] == ("success", "“Deny”")
    assert found["Deny"][0] == "danger"
    assert len(found["Deny"][1]) <= 90
    click(by_server, button(cell, "Deny"))
    cell.finish().ok()
    assert outcomes(made) == [{"outcome": {"outcome": "selected", "optionId": "b"}}]


@pytest.mark.parametrize("kinds", [["allow_once"], ["allow_once", "allow_always"], []])
def test_f44_the_client_always_offers_deny(kernel, script, kinds):
    def prompt(agent):
        agent.permission(*agent.given["kinds"])

    made = connected(kernel, script, prompt=prompt, given={"kinds": kinds})
    cell = kernel.run("go", answer=lambda prompt: str(len(kinds) + 1)).ok()
    assert f"[{len(kinds) + 1}] Deny" in cell.asked[0]
    assert outcomes(made) == [CANCELLED]
    assert "Denied by you" in cell.text


def test_f45_an_option_id_that_comes_twice_is_refused(kernel, script):
    def prompt(agent):
        agent.permission("allow_once", "allow_once")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go", answer=lambda prompt: "1").ok()
    assert made.notes("session/request_permission")[0]["error"]["code"] == -32602
    assert cell.asked == []


def test_f45_an_option_of_an_unknown_kind_is_neutral_and_never_automatic(by_server, script):
    def prompt(agent):
        agent.permission("allow_everything_forever")

    made = connected(by_server, script, prompt=prompt)
    cell = by_server.start("go")
    show(by_server, cell)
    buttons = {label: style for label, _, style, _ in widgets(cell, "ButtonModel")}
    label = "Choose “name of allow_everything_forever”"
    assert buttons == {label: "", "Deny": "danger"}
    click(by_server, button(cell, label))
    cell.finish().ok()
    by_server.run("%acp permissions allow").ok()
    try:
        by_server.run("go").ok()
    finally:
        by_server.run("%acp permissions ask").ok()
    chosen = {"outcome": {"outcome": "selected", "optionId": "allow_everything_forever"}}
    assert outcomes(made) == [chosen, CANCELLED]


def test_f46_what_the_agent_says_of_a_call_decides_nothing(kernel, script):
    def prompt(agent):
        for kind, title in (("read", "Read a file"), ("think", "harmless, approved by user")):
            agent.permission("allow_once", "reject_once", title=title, kind=kind)

    made = connected(kernel, script, prompt=prompt)
    kernel.run("go").ok()
    assert outcomes(made) == [REJECT, REJECT]


# -- stale and forged answers --------------------------------------------------------------------


def two_questions(agent):
    """Source of a turn with one question, then another."""
    agent.permission("allow_once", "reject_once", title="first")
    agent.permission("allow_once", "reject_once", title="second")


def test_f47_a_second_click_on_an_answered_question_answers_no_other(by_server, script):
    made = connected(by_server, script, prompt=two_questions)
    cell = by_server.start("go")
    show(by_server, cell)
    old = button(cell, "Allow once")
    click(by_server, old)
    show(by_server, cell, count=2)
    for _ in range(3):
        click(by_server, old)
    deny = button(cell, "Deny", 1)
    assert cell.idle is None
    click(by_server, deny)
    cell.finish().ok()
    assert outcomes(made) == [ONCE, REJECT]
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(
        list(cell.displays.values())
    )
    assert "Allowed once by you" in cell.text


def test_f47_clicks_after_a_cancel_or_a_restart_are_not_sent(by_server, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.permission("allow_once", "reject_once")
            agent.wait("session/cancel")
            agent.end("cancelled")

    made = connected(by_server, script, prompt=prompt)
    cell = by_server.start("go")
    show(by_server, cell)
    old = button(cell, "Allow once")
    by_server.interrupt()
    cell.finish().failed("TurnCancelled")
    click(by_server, old)
    by_server.run("again").ok()
    assert outcomes(made) == [CANCELLED]
    by_server.restart()
    click(by_server, old)
    assert "No agent is connected" in by_server.run("%acp").ok().text


def test_f47_forged_messages_answer_nothing(by_server, script):
    made = connected(by_server, script, prompt=two_questions)
    cell = by_server.start("go")
    show(by_server, cell)
    allow = button(cell, "Allow once")
    for comm_id in ("forged", "", "0" * 32):
        click(by_server, comm_id)
    for data in (
        {"method": "update", "state": {"clicked": True, "value": True}},
        {"method": "custom", "content": "click"},
        {"method": "custom", "content": {"event": "press"}},
        {"method": "custom"},
        {},
    ):
        send_comm(by_server, allow, data)
    click(by_server, button(cell, "Deny"))
    show(by_server, cell, count=2)
    click(by_server, button(cell, "Deny", 1))
    cell.finish().ok()
    assert outcomes(made) == [REJECT, REJECT]


# -- nobody there --------------------------------------------------------------------------------


def one_question(agent):
    """Source of a turn with one question."""
    agent.note("asked")
    agent.permission("allow_once", "reject_once", title="Write the file")
    agent.note("answered")


def test_f48_where_nobody_can_answer_the_answer_is_no_within_a_second(kernel, script):
    made = connected(kernel, script, prompt=one_question)
    cell = kernel.run("go").ok()
    assert made.times("answered")[0] - made.times("asked")[0] < 1
    assert outcomes(made) == [REJECT]
    assert "permission needed for Write the file, nobody can answer, denied" in cell.text
    assert "name a policy file in ACP_JUPYTER_PERMISSIONS" in cell.text


def test_f48_a_no_without_a_reject_option_is_cancelled(kernel, script):
    def prompt(agent):
        agent.permission("allow_once", "allow_always")

    made = connected(kernel, script, prompt=prompt)
    kernel.run("go").ok()
    assert outcomes(made) == [CANCELLED]


def test_f48_widgets_that_nobody_shows_fall_back_to_a_question_in_text(by_server, script):
    made = connected(by_server, script, prompt=one_question)
    cell = by_server.run("go", answer=lambda prompt: "1", limit=20).ok()
    assert 8 < made.times("answered")[0] - made.times("asked")[0] < 15
    assert len(cell.asked) == 1
    assert outcomes(made) == [ONCE]


def test_f50_several_questions_at_once_each_get_their_own_answer(by_server, script):
    def prompt(agent):
        idents = []
        for number in range(4):
            options = [
                {"optionId": f"{kind}-{number}", "name": kind, "kind": kind}
                for kind in ("allow_once", "reject_once")
            ]
            call = {"toolCallId": f"call-{number}", "title": f"Call {number}"}
            params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
            idents.append(agent.request("session/request_permission", params))
        agent.note("answers", [agent.answer(ident)["result"] for ident in idents])

    made = connected(by_server, script, prompt=prompt)
    cell = by_server.start("go")
    show(by_server, cell, count=4)
    for number in (2, 0):
        click(by_server, button(cell, "Allow once", number))
    for number in (3, 1):
        click(by_server, button(cell, "Deny", number))
    cell.finish().ok()
    chosen = [answer["outcome"]["optionId"] for answer in made.notes("answers")[0]]
    assert chosen == ["allow_once-0", "reject_once-1", "allow_once-2", "reject_once-3"]


# -- repositories and notebooks ------------------------------------------------------------------


TRAP = "import pathlib; pathlib.Path({mark!r}).write_text('ran')\n"


def set_traps(workspace, mark):
    """Everything in a repository that names an agent, or would run if it were believed."""
    command = [sys.executable, "-c", TRAP.format(mark=str(mark))]
    settings = {"ACPJupyter": {"agent": shlex.join(command), "agents": {"mine": command}}}
    for folder in (workspace, workspace / ".jupyter", workspace / "etc/jupyter"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "jupyter_acp_config.json").write_text(json.dumps(settings))
        text = TRAP.format(mark=str(mark)) + f"c.ACPJupyter.agent = {shlex.join(command)!r}\n"
        (folder / "jupyter_acp_config.py").write_text(text)
        (folder / "ipython_config.py").write_text(TRAP.format(mark=str(mark)))
    (workspace / ".env").write_text(f"ACP_JUPYTER_AGENT={shlex.join(command)}\n")
    (workspace / ".acp.json").write_text(json.dumps({"agent": command}))
    for module in ("trio", "msgspec", "ipywidgets", "acp_jupyter", "sitecustomize", "shlex"):
        (workspace / f"{module}.py").write_text(TRAP.format(mark=str(mark)))


def test_f58_nothing_in_the_workspace_runs_or_names_an_agent(tmp_path, script):
    home = tmp_path / "kernel"
    mark = tmp_path / "mark"
    (home / "workspace").mkdir(parents=True)
    set_traps(home / "workspace", mark)
    with open_kernel(home) as kernel:
        assert "No agent is connected" in kernel.run("%acp").ok().text
        cell = kernel.run("hello").failed("UsageError")
        assert "no agent is connected" in cell.traceback
        assert "%acp connect demo" in cell.traceback
        kernel.run("%acp connect mine").failed("UsageError")
        connected(kernel, script, prompt=one_question)
        kernel.run("go").ok()
        assert not mark.exists()


def test_f58_f62_what_a_notebook_says_of_agents_and_consent_is_ignored(kernel, script):
    made = connected(kernel, script, prompt=one_question)
    mark = kernel.cwd / "f62"
    claims = {
        "agent": f"touch {mark}",
        "permissions": "allow",
        "approved": ["*"],
        "trusted": True,
    }
    metadata = {"acp": claims, "acp_jupyter": claims, "ACPJupyter": claims, "trusted": True}
    message = kernel.client.session.msg(
        "execute_request",
        {"code": "go", "silent": False, "allow_stdin": False, "store_history": True},
        metadata=metadata,
    )
    message["content"].update(acp=claims, permissions="allow")
    cell = kernel.adopt(message)
    cell.finish().ok()
    assert outcomes(made) == [REJECT]
    assert not mark.exists()
    assert "ask" in kernel.run("%acp permissions").ok().text


def test_f62_saved_widgets_of_an_earlier_run_answer_nothing(by_server, script):
    made = connected(by_server, script, prompt=one_question)
    first = by_server.start("go")
    show(by_server, first)
    saved = button(first, "Allow once")
    click(by_server, saved)
    first.finish().ok()
    second = by_server.start("go")  # the notebook is run again, with the old button still there
    show(by_server, second)
    data = {"state": {"_model_name": "ButtonModel", "description": "Allow once"}}
    content = {"comm_id": saved, "target_name": "jupyter.widget", "data": data}
    session = by_server.client.session
    by_server.client.shell_channel.send(session.msg("comm_open", content))
    click(by_server, saved)
    click(by_server, button(second, "Deny"))
    second.finish().ok()
    assert outcomes(made) == [ONCE, REJECT]


def test_f62_what_was_allowed_holds_for_no_later_kernel(tmp_path, script):
    def prompt(agent):
        agent.permission("allow_always", "reject_once", title="Always the same")

    made = script(prompt=prompt)
    with open_kernel(tmp_path / "kernel") as kernel:
        kernel.connect(made)
        kernel.run("go", answer=lambda prompt: "1").ok()
        kernel.restart()
        kernel.connect(made)
        kernel.run("go").ok()
    chosen = [outcome["outcome"].get("optionId") for outcome in outcomes(made)]
    assert chosen == ["allow_always", "reject_once"]
