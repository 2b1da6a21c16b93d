"""Policies, remembered answers and decisions as data, through the running kernel."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.live_kernel import Cell, LiveKernel, live_kernel
from tests.scripted import Script
from tests.test_cli import run as acp_jupyter


def write_policy(folder: Path, text: str, name: str = "policy.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def decisions(*cells: Cell) -> list[dict[str, Any]]:
    """The decisions in the metadata of what the cells show in the end."""
    shown: dict[str, dict[str, Any]] = {}
    for cell in cells:
        for kind in ("display_data", "update_display_data"):
            for content in cell.contents(kind):
                ident = content["transient"].get("display_id", "")
                shown[ident] = content["metadata"]
    return [
        decision
        for data in shown.values()
        if "acp" in data
        for decision in data["acp"]["decisions"]
    ]


def saved(path: Path, *cells: Cell) -> None:
    """The cells as a frontend saves them: the last state of each display."""
    outputs: dict[str, Any] = {}
    for cell in cells:
        for message in cell.published:
            content = message["content"]
            if message["msg_type"] in ("display_data", "update_display_data"):
                ident = content["transient"].get("display_id", message["header"]["msg_id"])
                outputs[ident] = nbformat.v4.new_output(
                    "display_data", content["data"], metadata=content["metadata"]
                )
    made = nbformat.v4.new_code_cell("prompt", outputs=list(outputs.values()))
    nbformat.write(nbformat.v4.new_notebook(cells=[made]), path)


ONE_COMMAND = """
default = "ask"

[[rules]]
action = "deny"
command = "echo secret*"

[[rules]]
action = "allow"
command = "echo allowed *"
agent = "demo"

[[rules]]
action = "allow"
kind = "edit"
path = "src/**"
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel with a policy file, in which nobody can answer unless a cell allows stdin."""
    home = tmp_path_factory.mktemp("policy")
    path = write_policy(home, ONE_COMMAND)
    with live_kernel(home, ACP_JUPYTER_PERMISSIONS=path, ACP_JUPYTER_AGENT="demo") as running:
        yield running


def test_a_policy_file_allows_its_command_headless_and_says_which_rule(
    kernel: LiveKernel,
) -> None:
    cell = kernel.run("run echo allowed one").expect_ok()
    assert "by rule 2: allow `echo allowed *` of demo" in cell.text
    assert "`echo allowed one` ended with exit code 0" in cell.text
    asked, run = decisions(cell)  # by the agent, and by the client before it starts the command
    for record in (asked, run):
        assert (record["outcome"], record["by"]) == ("allowed", "policy")
        assert record["rule"].startswith("rule 2:")
        assert record["command"] == "echo allowed one"


@pytest.mark.parametrize(
    "command",
    ["echo other", "echo allowed x && echo other", "echo allowed x; touch made", "touch made"],
)
def test_a_policy_file_leaves_other_commands_denied_headless(
    kernel: LiveKernel, command: str
) -> None:
    cell = kernel.run("run " + command.replace(";", "\\;")).expect_ok()
    assert "nobody can answer, denied" in cell.text
    assert "policy file" in cell.text, "says how to allow it"
    assert not (kernel.cwd / "made").exists()


def test_a_rule_that_denies_is_named(kernel: LiveKernel) -> None:
    cell = kernel.run("run echo secret1", answers=["y"]).expect_ok()
    assert cell.questions == []
    assert "by rule 1: deny `echo secret*`" in cell.text


def test_a_path_rule_allows_edits_below_it_and_no_others(kernel: LiveKernel) -> None:
    (kernel.cwd / "src").mkdir(exist_ok=True)
    kernel.run("write src/a.txt: yes").expect_ok()
    assert (kernel.cwd / "src" / "a.txt").read_text() == "yes"
    kernel.run("write b.txt: no").expect_ok()
    assert not (kernel.cwd / "b.txt").exists()


def test_f33_a_protected_file_is_not_allowed_by_a_rule(kernel: LiveKernel) -> None:
    (kernel.cwd / "src").mkdir(exist_ok=True)
    cell = kernel.run("write src/.env: x").expect_ok()
    assert not (kernel.cwd / "src" / ".env").exists()
    assert "asked for each time" in cell.text


def test_the_list_shows_policy_rules_and_decisions(kernel: LiveKernel) -> None:
    kernel.run("run echo allowed two").expect_ok()
    text = kernel.run("%acp permissions").expect_ok().text
    assert "3 rules of " in text
    assert "1. deny `echo secret*`" in text
    assert "allowed by rule 2: allow `echo allowed *` of demo: execute echo allowed two" in text
    assert "3 rules" in kernel.run("%acp").expect_ok().text


def test_f33_a_policy_in_the_sessions_folder_is_refused_and_the_old_one_stays(
    kernel: LiveKernel,
) -> None:
    kernel.run("Hello").expect_ok()
    write_policy(kernel.cwd, 'default = "allow"\n', "inside.toml")
    cell = kernel.run("%acp permissions inside.toml").expect_error("UsageError")
    assert "could rewrite it" in cell.text
    assert "3 rules of " in kernel.run("%acp permissions").expect_ok().text


def test_f33_no_agent_starts_with_a_policy_that_it_could_rewrite(tmp_path: Path) -> None:
    with live_kernel(tmp_path, ACP_JUPYTER_PERMISSIONS="inside.toml") as kernel:
        write_policy(kernel.cwd, 'default = "allow"\n', "inside.toml")
        cell = kernel.run("%acp connect demo").expect_error("UsageError")
        assert "could rewrite it" in cell.text


def test_a_mistake_in_a_policy_is_told_in_the_cell(kernel: LiveKernel) -> None:
    path = write_policy(kernel.cwd.parent, "[[rules]]\naction = 'perhaps'\n", "wrong.toml")
    cell = kernel.run(f"%acp permissions {path}").expect_error("UsageError")
    assert f"{path}, rule 1 (line 1), action: 'perhaps'" in cell.text
    kernel.run("%acp permissions revoke").expect_error("UsageError")
    kernel.run("%acp permissions revoke x").expect_error("UsageError")
    kernel.run("%acp permissions revoke 99").expect_error("UsageError")


# -- what is remembered -------------------------------------------------------------------------


def test_f49_always_holds_for_the_same_command_and_is_revoked(tmp_path: Path) -> None:
    with live_kernel(tmp_path, ACP_JUPYTER_AGENT="demo") as kernel:
        first = kernel.run("run echo kept", answers=["2"]).expect_ok()
        assert "Always allowed by you" in first.text
        assert "remembered as answer 1" in first.text
        again = kernel.run("run echo kept").expect_ok()
        assert "by remembered answer 1" in again.text
        (record,) = decisions(again)
        assert (record["by"], record["outcome"]) == ("remembered", "allowed")
        other = kernel.run("run echo another").expect_ok()
        assert "nobody can answer, denied" in other.text
        listed = kernel.run("%acp permissions").expect_ok().text
        assert "1. always allow execute echo kept" in listed
        assert "allowed by user after" in listed
        assert "Forgot 1 remembered" in kernel.run("%acp permissions revoke 1").expect_ok().text
        gone = kernel.run("run echo kept").expect_ok()
        assert "nobody can answer, denied" in gone.text
        assert "Forgot 0" in kernel.run("%acp permissions revoke all").expect_ok().text
        kernel.run("run echo kept", answers=["y"]).expect_ok()
        kernel.run("%acp restart").expect_ok()
        assert "always allow" not in kernel.run("%acp permissions").expect_ok().text


def test_f49_only_the_very_same_request_is_answered_from_memory(
    tmp_path: Path, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        call = {
            "kind": "edit",
            "rawInput": {"file": "a", "text": agent.given["texts"][agent.turn - 1]},
        }
        agent.permission("allow_once", "allow_always", "reject_once", title="Tool", **call)
        agent.end()

    texts = ["x", "x", "y"]
    scenario = script(prompt=prompt, given={"texts": texts})
    with live_kernel(tmp_path) as kernel:
        kernel.run(f"%acp connect -- {shlex.join(scenario.argv)}").expect_ok()
        kernel.run("one", answers=["2"]).expect_ok()
        same = kernel.run("two", answers=["n"]).expect_ok()
        other = kernel.run("three", answers=["n"]).expect_ok()
        assert (len(same.questions), len(other.questions)) == (0, 1)
    chosen = [note["result"]["outcome"] for note in scenario.notes("session/request_permission")]
    assert [outcome["optionId"] for outcome in chosen] == [
        "allow_always",
        "allow_always",
        "reject_once",
    ]


def test_f49_what_changed_while_it_was_asked_is_neither_remembered_nor_made_a_rule(
    tmp_path: Path, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        call = {"toolCallId": "call", "title": "Tool", "rawInput": {"command": "rm -r x"}}
        options = [
            {"optionId": kind, "name": kind, "kind": kind}
            for kind in ("allow_once", "allow_always", "reject_once")
        ]
        params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
        asked = agent.request("session/request_permission", params)
        if agent.turn == 1:
            from pathlib import Path

            for _ in range(2000):  # until the user has been asked
                if Path("asked").exists():
                    break
                agent.sleep(0.01)
            harmless = {"command": "ls"}
            agent.update(sessionUpdate="tool_call_update", toolCallId="call", rawInput=harmless)
            agent.text("changed")
        agent.answer(asked)
        agent.end()

    scenario = script(prompt=prompt)
    with live_kernel(tmp_path) as kernel:
        kernel.run(f"%acp connect -- {shlex.join(scenario.argv)}").expect_ok()
        first = kernel.start("one", allow_stdin=True)
        kernel.read(lambda: first.questions)
        (kernel.cwd / "asked").touch()
        kernel.read(lambda: "changed" in first.text)
        kernel.client.input("2")
        kernel.finish(first).expect_ok()
        assert "remembered" not in first.text
        (record,) = decisions(first)
        assert (record["by"], record["option"], record["exact"]) == ("user", "allow_always", False)
        assert len(kernel.run("two", answers=["n"]).expect_ok().questions) == 1


def test_f49_the_clients_own_question_offers_always_for_exactly_that_command(
    tmp_path: Path, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        for command in (["echo", "a"], ["echo", "a"], ["echo", "a b"], ["cat", ".env"]):
            agent.ask("terminal/create", command=command[0], args=command[1:])

    scenario = script(prompt=prompt)
    with live_kernel(tmp_path) as kernel:
        kernel.run(f"%acp connect -- {shlex.join(scenario.argv)}").expect_ok()
        cell = kernel.run("one", answers=["2", "n", "n"]).expect_ok()
        first, other, protected = cell.questions
        assert "[2] Always allow" in first
        assert "'a b'" in other
        assert "Always" not in protected, "what is asked for each time is not allowed always"
        assert "remembered as answer 1" in cell.text
        assert "1. always allow execute echo a" in kernel.run("%acp permissions").expect_ok().text
        again = kernel.run("two", answers=["n", "n"]).expect_ok()
        assert len(again.questions) == 2
        kernel.run("%acp permissions revoke 1").expect_ok()
        assert len(kernel.run("three", answers=["n"] * 4).expect_ok().questions) == 4
    ran = ["result" in note for note in scenario.notes("terminal/create")]
    assert ran == [True, True, False, False, True, True, False, False] + [False] * 4


def test_f33_always_never_applies_to_a_protected_file(
    tmp_path: Path, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        diff = {"type": "diff", "path": agent.given["path"], "oldText": "", "newText": "x"}
        agent.permission("allow_once", "allow_always", title="Tool", content=[diff])
        agent.end()

    path = str(tmp_path / "workspace" / ".env")
    scenario = script(prompt=prompt, given={"path": path})
    with live_kernel(tmp_path, ACP_JUPYTER_PERMISSIONS="allow") as kernel:
        kernel.run(f"%acp connect -- {shlex.join(scenario.argv)}").expect_ok()
        for _ in range(2):
            assert len(kernel.run("ask", answers=["2"]).expect_ok().questions) == 1
        assert "always allow" not in kernel.run("%acp permissions").expect_ok().text


# -- files through the client -------------------------------------------------------------------


def test_rules_that_deny_hold_for_files_through_the_client(tmp_path: Path) -> None:
    path = write_policy(
        tmp_path, "default = 'allow'\n[[rules]]\naction = 'deny'\npath = 'private/**'\n"
    )
    with live_kernel(tmp_path, ACP_JUPYTER_PERMISSIONS=path, ACP_JUPYTER_AGENT="demo") as kernel:
        (kernel.cwd / "private").mkdir()
        (kernel.cwd / "private" / "a.txt").write_text("the secret text")
        (kernel.cwd / "b.txt").write_text("the open text")
        denied = kernel.run("read private/a.txt").expect_ok()
        assert "the secret text" not in denied.text
        assert "rule 1: deny private/**" in denied.text
        assert "the open text" in kernel.run("read b.txt").expect_ok().text


def test_a_rule_for_edits_stops_a_write_that_the_agent_did_not_ask_about(
    tmp_path: Path, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        agent.ask("fs/read_text_file", path=agent.given["path"])
        agent.ask("fs/write_text_file", path=agent.given["path"], content="new")
        agent.end()

    target = tmp_path / "workspace" / "a.txt"
    policy = write_policy(
        tmp_path, "default = 'deny'\n[[rules]]\naction = 'deny'\nkind = 'edit'\npath = '**'\n"
    )
    scenario = script(prompt=prompt, given={"path": str(target)})
    with live_kernel(tmp_path, ACP_JUPYTER_PERMISSIONS=policy) as kernel:
        target.write_text("old")
        kernel.run(f"%acp connect -- {shlex.join(scenario.argv)}").expect_ok()
        turn = kernel.run("go").expect_ok()
        assert "rule 1: deny" in turn.text
        assert target.read_text() == "old"


# -- from an interactive run to a headless one --------------------------------------------------


def test_the_decisions_of_a_run_become_the_policy_of_a_headless_one(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    with live_kernel(first, ACP_JUPYTER_AGENT="demo") as kernel:
        cells = [
            kernel.run("run echo approved", answers=["y"]).expect_ok(),
            kernel.run("write notes.txt: hello", answers=["y"]).expect_ok(),
            kernel.run("run echo refused", answers=["n"]).expect_ok(),
        ]
    saved(tmp_path / "run.ipynb", *cells)
    nbformat.validate(nbformat.read(tmp_path / "run.ipynb", as_version=4))
    done = acp_jupyter("policy", "--from", "run.ipynb", "-o", "made.toml", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [
        (rule["action"], rule["kind"], rule.get("command") or rule.get("path"))
        for rule in tomllib.loads(done.stdout)["rules"]
    ] == [
        ("deny", "execute", "echo refused"),
        ("allow", "execute", "echo approved"),
        ("allow", "edit", "notes.txt"),
    ]
    second = tmp_path / "second"
    second.mkdir()
    policy = str(tmp_path / "made.toml")
    with live_kernel(second, ACP_JUPYTER_AGENT="demo", ACP_JUPYTER_PERMISSIONS=policy) as kernel:
        assert "by rule 2" in kernel.run("run echo approved").expect_ok().text
        kernel.run("write notes.txt: again").expect_ok()
        assert (kernel.cwd / "notes.txt").read_text() == "again"
        assert "by rule 1" in kernel.run("run echo refused").expect_ok().text
        assert "nobody can answer" in kernel.run("run echo approved too").expect_ok().text


def test_f62_decisions_in_a_notebook_allow_nothing_by_themselves(tmp_path: Path) -> None:
    with live_kernel(tmp_path, ACP_JUPYTER_AGENT="demo") as kernel:
        cell = kernel.run("write a.txt: x", answers=["y"]).expect_ok()
        (record,) = decisions(cell)
        saved(kernel.cwd / "run.ipynb", cell)
        kernel.run("%acp restart").expect_ok()
        metadata = {"acp": {"decisions": [record]}}
        again = kernel.run("write a.txt: y", metadata=metadata).expect_ok()
        assert "nobody can answer, denied" in again.text
        assert (kernel.cwd / "a.txt").read_text() == "x"
