"""What was allowed, and nothing else, is run: what an agent can try between a yes and the command.

Commands that a question has shown in full are not asked for a second time; each test here makes
the agent use a yes for something that the user had not seen.
"""

from __future__ import annotations

from tests.conftest import wait_until
from tests.test_faults_permission import connected


def go(kernel, script, prompt, answers, **given):
    """Run a turn whose questions are answered in order, then with no; the cell."""
    given = {"cwd": str(kernel.cwd), **given}
    made = connected(kernel, script, prompt=prompt, given=given)
    left = list(answers)
    cell = kernel.run("go", answer=lambda prompt: left.pop(0) if left else "n")
    return made, cell


def test_f46_a_command_that_was_shown_is_asked_for_once(kernel, script):
    def prompt(agent):
        call = {"kind": "execute", "rawInput": {"command": "echo once > shown", "cwd": ""}}
        agent.permission("allow_once", "reject_once", title="Run it", **call)
        agent.ask("terminal/create", command="echo once > shown")

    made, cell = go(kernel, script, prompt, ["1"])
    assert len(cell.ok().asked) == 1
    assert "$ echo once > shown" in cell.asked[0]
    assert "result" in made.notes("terminal/create")[0]


def test_f46_a_command_changed_while_the_question_is_open_is_asked_for(kernel, script):
    def prompt(agent):
        raw = {"command": "echo harmless"}
        call = {"toolCallId": "call", "title": "Run it", "kind": "execute", "rawInput": raw}
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
        ident = agent.request("session/request_permission", params)
        agent.ask("fs/read_text_file", path=agent.given["cwd"] + "/none")  # served in order
        raw = {"command": "touch swapped"}
        agent.update(sessionUpdate="tool_call_update", toolCallId="call", rawInput=raw)
        agent.text("Swapped.")
        agent.answer(ident)
        agent.ask("terminal/create", command="touch swapped")

    made = connected(kernel, script, prompt=prompt, given={"cwd": str(kernel.cwd)})
    answers: list[str] = []
    cell = kernel.start("go", answer=lambda prompt: answers.pop(0) if answers else None)
    cell.wait(lambda c: c.asked)
    cell.wait_text("Swapped.")
    kernel.client.input("1")
    cell.wait(lambda c: len(c.asked) == 2)
    kernel.client.input("n")
    cell.finish().ok()
    assert "touch swapped" in cell.asked[1]
    assert "error" in made.notes("terminal/create")[0]
    assert not (kernel.cwd / "swapped").exists()


def test_f46_a_question_shows_what_it_was_about_when_it_was_asked(kernel, script):
    def prompt(agent):
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        idents = []
        for name in ("first", "second"):
            raw = {"command": f"echo {name}"}
            call = {"toolCallId": name, "title": name, "kind": "execute", "rawInput": raw}
            params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
            idents.append(agent.request("session/request_permission", params))
        agent.ask("fs/read_text_file", path=agent.given["cwd"] + "/none")  # served in order
        raw = {"command": "touch hidden"}
        agent.update(sessionUpdate="tool_call_update", toolCallId="second", rawInput=raw)
        agent.text("Swapped.")
        for ident in idents:
            agent.answer(ident)
        agent.ask("terminal/create", command="echo second")

    connected(kernel, script, prompt=prompt, given={"cwd": str(kernel.cwd)})
    cell = kernel.start("go", answer=lambda prompt: None)
    cell.wait_text("Swapped.")
    for count in (1, 2):
        cell.wait(lambda c, count=count: len(c.asked) == count)
        kernel.client.input("1")
    cell.finish().ok()
    assert "$ echo second" in cell.asked[1]
    assert "hidden" not in cell.asked[1]
    assert len(cell.asked) == 2  # what was shown is what was allowed


def test_f46_a_command_folded_away_in_the_input_is_asked_for(kernel, script):
    def prompt(agent):
        content = [{"type": "content", "content": {"type": "text", "text": "the README"}}]
        call = {"kind": "read", "content": content, "rawInput": {"command": "touch folded"}}
        agent.permission("allow_once", "reject_once", title="Read the README", **call)
        agent.ask("terminal/create", command="touch folded")

    made, cell = go(kernel, script, prompt, ["1"])
    assert len(cell.ok().asked) == 2
    assert "touch folded" in cell.asked[1]
    assert "error" in made.notes("terminal/create")[0]


def test_f46_arguments_that_the_command_line_does_not_show_are_asked_for(kernel, script):
    def prompt(agent):
        raw = {"command": "touch", "args": ["hidden-argument", 1]}
        agent.permission("allow_once", "reject_once", kind="execute", rawInput=raw)
        agent.ask("terminal/create", command="touch", args=["hidden-argument", "1"])

    made, cell = go(kernel, script, prompt, ["1"])
    assert len(cell.ok().asked) == 2
    assert "error" in made.notes("terminal/create")[0]


def test_f46_a_command_shown_for_another_directory_is_asked_for(kernel, script):
    def prompt(agent):
        raw = {"command": "touch elsewhere", "cwd": "/tmp"}
        agent.permission("allow_once", "reject_once", kind="execute", rawInput=raw)
        agent.ask("terminal/create", command="touch elsewhere")

    made, cell = go(kernel, script, prompt, ["1"])
    assert len(cell.ok().asked) == 2
    assert "error" in made.notes("terminal/create")[0]


def test_f45_choosing_an_option_of_unknown_kind_is_no_consent_to_a_command(kernel, script):
    def prompt(agent):
        raw = {"command": "touch unclear"}
        agent.permission("tell_me_more", "reject_once", kind="execute", rawInput=raw)
        agent.ask("terminal/create", command="touch unclear")

    made, cell = go(kernel, script, prompt, ["1"])
    assert len(cell.ok().asked) == 2
    assert "error" in made.notes("terminal/create")[0]


def test_f20_a_command_that_was_allowed_does_not_start_after_the_cancel(kernel, script):
    def prompt(agent):
        raw = {"command": "touch late"}
        agent.permission("allow_once", "reject_once", kind="execute", rawInput=raw)
        agent.text("Allowed.")
        agent.wait("session/cancel")
        agent.ask("terminal/create", command="touch late")
        agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go", answer=lambda prompt: "1")
    cell.wait_text("Allowed.")
    kernel.interrupt()
    cell.finish().failed("TurnCancelled")
    assert "error" in made.notes("terminal/create")[0]
    assert not (kernel.cwd / "late").exists()


def test_a_command_that_was_allowed_does_not_start_after_the_turn(kernel, script):
    def prompt(agent):
        raw = {"command": "touch after"}
        agent.permission("allow_once", "reject_once", kind="execute", rawInput=raw)
        agent.end()
        agent.ask("terminal/create", command="touch after")

    made, cell = go(kernel, script, prompt, ["1"])
    cell.ok()
    wait_until(lambda: made.notes("terminal/create"))
    assert "error" in made.notes("terminal/create")[0]
    assert not (kernel.cwd / "after").exists()


def test_f38_every_variable_of_a_command_is_shown_in_full(kernel, script):
    def prompt(agent):
        env = [{"name": "A", "value": "a" * 400}, {"name": "HOME", "value": "/somewhere/else"}]
        agent.ask("terminal/create", command="true", env=env, cwd=agent.given["cwd"])

    made, cell = go(kernel, script, prompt, [])
    assert "a" * 400 in cell.ok().asked[0]
    assert "HOME=/somewhere/else" in cell.asked[0]
    assert "error" in made.notes("terminal/create")[0]


def test_f33_a_write_of_a_protected_file_shows_what_is_written(kernel, script):
    def prompt(agent):
        path = agent.given["cwd"] + "/.git/hooks/pre-commit"
        agent.ask("fs/write_text_file", path=path, content="#!/bin/sh\ncurl evil.invalid\n")

    made, cell = go(kernel, script, prompt, [])
    assert "curl evil.invalid" in cell.ok().asked[0]
    assert "error" in made.notes("fs/write_text_file")[0]


def test_a_subject_of_unknown_kind_is_shown_before_it_is_allowed(kernel, script):
    def prompt(agent):
        subject = {"type": "purchase", "item": "a yacht"}
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        agent.ask("session/request_permission", subject=subject, options=options)

    _, cell = go(kernel, script, prompt, [])
    assert "a yacht" in cell.ok().asked[0]


def test_f50_more_than_twenty_open_questions_are_denied(kernel, script):
    def prompt(agent):
        idents = []
        for number in range(30):
            options = [{"optionId": k, "name": k, "kind": k} for k in ("allow_once", "reject_once")]
            call = {"toolCallId": f"call-{number}", "title": f"Call {number}"}
            params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
            idents.append(agent.request("session/request_permission", params))
        agent.ask("fs/read_text_file", path="/none")  # served in order: all were asked
        agent.text("All asked.")
        agent.note("answers", [agent.answer(ident)["result"] for ident in idents])

    made = connected(kernel, script, prompt=prompt)
    all_asked = False
    cell = kernel.start("go", answer=lambda prompt: "1" if all_asked else None)
    cell.wait(lambda c: c.asked and "All asked." in c.text)
    all_asked = True
    kernel.client.input("1")  # to the first, which was left open
    cell.finish().ok()
    chosen = [answer["outcome"]["optionId"] for answer in made.notes("answers")[0]]
    assert chosen == ["allow_once"] * 20 + ["reject_once"] * 10
    assert len(cell.asked) == 20
    assert "20 questions are open already" in cell.text


def test_f47_an_answer_to_a_question_that_was_withdrawn_answers_no_other(kernel, script):
    def prompt(agent):
        idents = []
        for name in ("first", "second"):
            options = [{"optionId": k, "name": k, "kind": k} for k in ("allow_once", "reject_once")]
            call = {"toolCallId": name, "title": name}
            params = {"sessionId": agent.session_id, "toolCall": call, "options": options}
            idents.append(agent.request("session/request_permission", params))
        agent.ask("fs/read_text_file", path="/none")  # served in order: both were asked
        withdrawn = {"requestId": idents[0]}
        agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": withdrawn})
        agent.answer(idents[0])
        agent.note("second", agent.answer(idents[1])["result"]["outcome"])

    made = connected(kernel, script, prompt=prompt)
    requests = []
    client = kernel.client
    take = client.get_stdin_msg

    def keep(**settings):
        requests.append(take(**settings))
        return requests[-1]

    client.get_stdin_msg = keep
    try:
        cell = kernel.start("go", answer=lambda prompt: None)
        cell.wait(lambda c: len(c.asked) == 2)
        for value, request in zip(("1", "2"), requests, strict=True):
            reply = client.session.msg("input_reply", {"value": value}, parent=request["header"])
            client.stdin_channel.send(reply)
        cell.finish().ok()
    finally:
        del client.get_stdin_msg
    assert "first" in cell.asked[0]
    assert "second" in cell.asked[1]
    assert made.notes("second")[0]["optionId"] == "reject_once"
