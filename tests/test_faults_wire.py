"""What an agent can do wrong on the wire, as the user of the kernel meets it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import psutil
import pytest

from tests.conftest import alive, wait_until

GONE = "does not remember the earlier turns"


def connected(kernel, script, **settings):
    """Connect to a scenario."""
    made = script(**settings)
    kernel.connect(made)
    return made


def test_f1_log_noise_is_one_counted_notice_and_the_turn_goes_on(kernel, script):
    def prompt(agent):
        agent.text("before ")
        for _ in range(40):
            agent.raw(b"INFO loading the model\n17\ntrue\n")
            agent.raw(b'{"level": "info", "msg": "not an RPC object"}\n')
        agent.text("after")

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "before after" in cell.text
    assert "\N{MULTIPLICATION SIGN}160" in cell.text
    assert cell.text.count("The agent sent lines that are no ACP messages") == 1
    assert kernel.run("go").ok()


def test_f1_a_thousand_bad_lines_running_end_the_agent_with_a_remedy(kernel, script):
    def prompt(agent):
        if agent.run > 1:
            return
        agent.text("kept")
        agent.raw(b"progress ...\n" * 1000)
        agent.hang()

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").failed("RemoteProtocolError")
    assert "1,000 lines running were no JSON-RPC messages" in cell.traceback
    assert "Check the agent's command" in cell.traceback
    assert "kept" in cell.text
    wait_until(lambda: not alive(made.pids[0]))
    assert GONE in kernel.run("go").ok().text


def test_f1_999_bad_lines_and_one_good_one_are_no_reason_to_end(kernel, script):
    def prompt(agent):
        for _ in range(2):
            agent.raw(b"progress\n" * 999)
            agent.text("good ")

    connected(kernel, script, prompt=prompt)
    assert "good good" in kernel.run("go").ok().text


def test_f2_the_entries_of_a_batch_are_handled_in_order(kernel, script):
    def prompt(agent):
        def chunk(text):
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": agent.session_id, "update": update}
            return {"jsonrpc": "2.0", "method": "session/update", "params": params}

        answer = {"jsonrpc": "2.0", "id": agent.current_id, "result": {"stopReason": "end_turn"}}
        agent.send([chunk("one "), chunk("two "), chunk("three"), answer])
        agent.hang()

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "one two three" in cell.text
    assert "a batch; its entries were handled one by one" in cell.text


def test_f3_invalid_utf8_is_shown_as_replacement_characters(kernel, script):
    def prompt(agent):
        line = json.dumps(
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {
                    "sessionId": agent.session_id,
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": "caf@ ok"},
                    },
                },
            }
        )
        agent.raw(line.encode().replace(b"@", b"\xe9") + b"\n")

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "caf\ufffd ok" in cell.text
    assert "invalid UTF-8" in cell.text


def test_f3_an_unreadable_answer_fails_its_request_instead_of_hanging(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("kept")
            answer = f'{{"jsonrpc":"2.0","id":{agent.current_id},"result":{{"stopReason"'
            agent.raw(b"DEBUG done " + answer.encode() + b':"end_turn"}}\n')
            agent.hang()

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go", limit=10).failed("RemoteProtocolError")
    assert "the agent's answer to session/prompt cannot be read" in cell.traceback
    assert "kept" in cell.text
    assert cell.seconds < 3
    kernel.run("again").ok()
    assert made.runs == 1  # the connection lived on


def test_f4_bom_crlf_blank_lines_and_no_final_newline_are_accepted_silently(kernel, script):
    def prompt(agent):
        def line(**message):
            return json.dumps({"jsonrpc": "2.0", **message}).encode()

        content = {"type": "text", "text": "read"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": agent.session_id, "update": update}
        agent.raw(b"\xef\xbb\xbf" + line(method="session/update", params=params) + b"\r\n")
        agent.raw(b"\r\n\n   \n")
        agent.raw(line(id=agent.current_id, result={"stopReason": "end_turn"}))
        os._exit(0)

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "read" in cell.text
    assert "no ACP messages" not in cell.text


def test_f5_an_id_sent_back_as_a_string_is_accepted_and_told(kernel, script):
    def prompt(agent):
        agent.reply({"stopReason": "end_turn"}, ident=str(agent.current_id))

    connected(kernel, script, prompt=prompt)
    assert "an answer whose id changed its type" in kernel.run("go").ok().text


def test_f5_no_other_type_of_id_matches(kernel, script):
    def prompt(agent):
        ident = agent.current_id
        for other in (None, ident == 1, float(ident), {"id": ident}, [ident], f"{ident}.0"):
            agent.reply({"stopReason": "refusal"}, ident=other)
        agent.text("still running")
        agent.end()

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "still running" in cell.text
    assert "refused" not in cell.text


def test_f6_unknown_duplicate_and_unhashable_answers_are_ignored(kernel, script):
    def prompt(agent):
        idents: list[Any] = [10_000, "nobody", -1, {"a": 1}, [[]]]
        for ident in idents:
            agent.reply({"stopReason": "refusal"}, ident=ident)
        agent.text(f"turn {agent.turn} ")
        agent.end()
        agent.end("refusal")
        if agent.turn > 1:
            agent.reply({"stopReason": "refusal"}, ident=agent.current_id - 1)

    made = connected(kernel, script, prompt=prompt)
    for number in (1, 2, 3):
        cell = kernel.run("go").ok()
        assert f"turn {number}" in cell.text
        assert "refused" not in cell.text
    assert made.runs == 1


BAD_ANSWERS = {
    "both": {"result": {"stopReason": "end_turn"}, "error": {"code": 1, "message": "x"}},
    "neither": {},
    "error is no object": {"error": "it failed"},
    "result is no object": {"result": "end_turn"},
    "stop reason is missing": {"result": {}},
    "stop reason is no string": {"result": {"stopReason": 7}},
}


@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_f7_a_malformed_answer_fails_its_request_and_no_more(kernel, script, what):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("kept")
            agent.send({"jsonrpc": "2.0", "id": agent.current_id, **agent.given["body"]})
            agent.hang()

    made = connected(kernel, script, prompt=prompt, given={"body": BAD_ANSWERS[what]})
    cell = kernel.run("go", limit=10).failed("RemoteProtocolError")
    assert "the agent's answer to session/prompt" in cell.traceback
    assert "kept" in cell.text
    kernel.run("again").ok()
    assert made.runs == 1


def test_f7_an_error_object_with_odd_types_is_still_an_error(kernel, script):
    def prompt(agent):
        agent.reply(error={"code": "many", "message": ["not", "text"], "data": 3})

    made = connected(kernel, script, prompt=prompt)
    for _ in range(2):
        cell = kernel.run("go").failed("RequestError")
        assert "the agent answered session/prompt with an error" in cell.traceback
    assert made.runs == 1


def test_f8_unknown_kinds_of_update_and_content_are_shown_with_their_raw_text(kernel, script):
    def prompt(agent):
        agent.update(sessionUpdate="telepathy", thought="<b>raw</b> 42")
        agent.update(
            sessionUpdate="agent_message_chunk", content={"type": "hologram", "beam": "blue"}
        )
        agent.text("after")

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "“telepathy”" in cell.text
    assert "42" in cell.text
    assert "hologram" in cell.text
    assert "after" in cell.text
    assert "<b>raw</b>" not in cell.html


def test_f9_what_is_not_quite_json_is_noise_and_never_sent_on(kernel, script):
    def prompt(agent):
        for value in ("NaN", "Infinity", "-Infinity", "1" * 5000, "[" * 200 + "]" * 200):
            agent.raw(
                b'{"jsonrpc": "2.0", "id": "odd", "method": "fs/read_text_file", "params": '
                b'{"sessionId": "session-1", "path": "/x", "limit": ' + value.encode() + b"}}\n"
            )
        agent.text("after")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "after" in cell.text
    assert "The agent sent lines that are no ACP messages" in cell.text
    assert not made.answers("odd")


def test_f10_a_line_beyond_the_limit_is_thrown_away_and_the_error_names_the_limit(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("kept")
            agent.raw(b'{"jsonrpc": "2.0", "method": "session/update", "params": "')
            for _ in range(40):
                agent.raw(b"x" * 2**20)
            agent.raw(b'"}\n')
            agent.wait("session/cancel")
            agent.note("cancel")
            agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    before = kernel.process.memory_info().rss
    cell = kernel.run("go").failed("LineTooLong")
    assert "the limit is 32 MiB" in cell.traceback
    assert "Ask for less at once" in cell.traceback
    assert "kept" in cell.text
    wait_until(lambda: made.notes("cancel"))
    kernel.run("again").ok()
    assert made.runs == 1
    assert kernel.process.memory_info().rss - before < 128 * 2**20


def test_f10_a_line_without_any_end_ends_the_agent(kernel, script):
    def prompt(agent):
        if agent.run > 1:
            return
        agent.text("kept")
        while True:
            agent.raw(b"x" * 2**20)

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").failed("LineTooLong")
    assert "the limit is 32 MiB" in cell.traceback
    assert "kept" in cell.text
    wait_until(lambda: not alive(made.pids[0]))
    assert GONE in kernel.run("go").ok().text


def test_f11_a_flood_of_updates_is_coalesced_and_arrives_complete_and_in_order(kernel, script):
    def prompt(agent):
        def line(number):
            content = {"type": "text", "text": f"c{number:06d} "}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": agent.session_id, "update": update}
            message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
            return json.dumps(message).encode() + b"\n"

        for start in range(0, 20_000, 100):
            agent.raw(b"".join(line(number) for number in range(start, start + 100)))

    connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    numbers = [int(word[1:]) for word in cell.text.split() if word[:1] == "c" and len(word) == 7]
    assert numbers == list(range(20_000))
    size = sum(len(json.dumps(message["content"])) for message in cell.messages)
    assert size < 3 * 2 * 160_000  # HTML and text of each
    renders = len([m for m in cell.messages if m["msg_type"].endswith("display_data")])
    assert renders <= 20 * cell.seconds + 60  # each of the segments is shown once besides


def test_f12_bad_requests_of_the_agent_get_the_error_they_should(kernel, script):
    def prompt(agent):
        path = agent.given["path"]
        read = {"sessionId": agent.session_id, "path": path}
        agent.request("fs/read_text_file", read, ident=None)
        agent.wait(lambda m: "method" not in m and m["id"] is None)
        for ident, method, params in (
            ("unknown", "fs/format_disk", read),
            ("ours", "session/prompt", {"sessionId": agent.session_id, "prompt": []}),
            ("notification", "session/update", read),
            ("no params", "fs/read_text_file", None),
            ("bad params", "fs/read_text_file", {"sessionId": agent.session_id, "path": 5}),
            ("a list", "fs/read_text_file", [1, 2]),
            ("good", "fs/read_text_file", read),
        ):
            agent.request(method, params, ident=ident)
            agent.answer(ident)

    (kernel.cwd / "f12.txt").write_text("content")
    made = connected(kernel, script, prompt=prompt, given={"path": str(kernel.cwd / "f12.txt")})
    kernel.run("go").ok()
    codes = {
        ident: [answer.get("error", {}).get("code") for answer in made.answers(ident)]
        for ident in (None, "unknown", "ours", "notification", "no params", "bad params", "a list")
    }
    assert codes == {
        None: [-32600],
        "unknown": [-32601],
        "ours": [-32601],
        "notification": [-32601],
        "no params": [-32602],
        "bad params": [-32602],
        "a list": [-32602],
    }
    assert made.answers("good")[0]["result"] == {"content": "content"}


def test_f12_an_id_that_is_being_served_cannot_be_used_a_second_time(kernel, script):
    def prompt(agent):
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {
            "sessionId": agent.session_id,
            "toolCall": {"toolCallId": "t"},
            "options": options,
        }
        agent.request("session/request_permission", params, ident="twice")
        agent.request("session/request_permission", params, ident="twice")
        agent.answer("twice")
        agent.note("first", agent.received[-1])
        agent.wait("session/cancel")
        agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go", answer=lambda prompt: kernel.interrupt())
    cell.finish().failed("TurnCancelled")
    assert made.notes("first")[0]["error"]["code"] == -32600


def test_f13_updates_and_requests_for_foreign_sessions_are_kept_out(kernel, script):
    def prompt(agent):
        agent.text("from elsewhere", session_id="somebody-else")
        agent.request(
            "session/request_permission",
            {"sessionId": "somebody-else", "toolCall": {"toolCallId": "t"}, "options": []},
            ident="foreign",
        )
        agent.answer("foreign")
        agent.text("mine")
        time.sleep(11)

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.run("go").ok()
    assert "from elsewhere" not in cell.text
    assert "mine" in cell.text
    assert "Updates for a session that does not exist were dropped" in cell.text
    assert made.answers("foreign")[0]["error"]["message"] == "no such session"


def test_f13_updates_before_the_session_is_known_are_shown_once_it_is(kernel, script):
    def new_session(agent):
        agent.text("early bird", session_id="early")
        agent.session_id = "early"
        agent.reply({"sessionId": "early"})

    made = script(new_session=new_session)
    cell = kernel.connect(made)
    cell.wait_text("early bird")


def test_f22_an_update_after_the_end_stays_in_the_cell_it_belongs_to(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("first")
            agent.end()
            agent.text(" and late")
        else:
            agent.text("second")

    connected(kernel, script, prompt=prompt)
    first = kernel.run("go")
    first.wait_text("and late")
    second = kernel.run("go").ok()
    assert "second" in second.text
    assert "late" not in second.text


def test_f22_end_turn_after_a_cancel_is_shown_as_cancelled(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("partial")
            agent.wait("session/cancel")
            agent.end("end_turn")
            agent.end("end_turn")

    connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("partial")
    kernel.interrupt()
    cell.finish().failed("TurnCancelled")
    assert "Cancelled. What had arrived is kept." in cell.text
    assert "'end_turn'" in cell.text
    assert kernel.run("again").ok().text.count("Cancelled") == 0


def test_f22_an_error_after_a_cancel_is_shown_as_cancelled(kernel, script):
    def prompt(agent):
        if agent.turn == 1:
            agent.text("partial")
            agent.wait("session/cancel")
            agent.reply(error={"code": -32603, "message": "aborted"})

    connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("partial")
    kernel.interrupt()
    cell.finish().failed("TurnCancelled")
    assert "partial" in cell.text
    kernel.run("again").ok()


def test_f23_an_agent_that_stops_reading_leaves_the_kernel_usable(kernel, script):
    def prompt(agent):
        if agent.turn == 1 and agent.run == 1:
            agent.reading.clear()
            agent.text("deaf")
            for number in range(400):
                agent.request(
                    "fs/read_text_file",
                    {"sessionId": agent.session_id, "path": agent.given["path"]},
                    ident=f"r{number}",
                )
            agent.hang()

    (kernel.cwd / "f23.txt").write_text("x" * 100_000)
    made = connected(kernel, script, prompt=prompt, given={"path": str(kernel.cwd / "f23.txt")})
    cell = kernel.run("go").failed("AgentUnresponsive")
    assert "the agent does not read" in cell.traceback
    assert "%acp restart" in cell.traceback
    assert "deaf" in cell.text
    assert GONE in kernel.run("again").ok().text
    assert made.runs == 2


def test_f23_a_turn_of_a_deaf_agent_can_be_stopped(kernel, script):
    def prompt(agent):
        if agent.run == 1:
            agent.reading.clear()
            agent.text("deaf")
            agent.hang()

    made = connected(kernel, script, prompt=prompt)
    cell = kernel.start("go")
    cell.wait_text("deaf")
    kernel.interrupt()
    cell.wait(lambda c: made.notes("turn"))
    kernel.interrupt()
    cell.finish(10).failed("AgentUnresponsive")
    assert "second interrupt" in cell.traceback
    assert GONE in kernel.run("again").ok().text


def test_f27_a_second_cell_is_refused_while_a_turn_runs(kernel, script):
    def prompt(agent):
        agent.text(f"turn {agent.turn}")
        if agent.turn == 1:
            agent.wait("session/cancel")
            agent.end("cancelled")

    made = connected(kernel, script, prompt=prompt)
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    first = kernel.start("go")
    first.wait_text("turn 1")
    second = kernel.run("me too", subshell=subshell).failed("TurnRunning")
    assert "stop button" in second.traceback
    assert second.text == ""
    kernel.interrupt()
    first.finish().failed("TurnCancelled")
    kernel.control("delete_subshell_request", subshell_id=subshell)
    assert "turn 2" in kernel.run("and now").ok().text
    assert len(made.received("session/prompt")) == 2


def test_f60_what_was_not_offered_is_not_there(kernel, script):
    def prompt(agent):
        for method in ("terminal/create", "session/fork", "mcp/message"):
            agent.request(method, {"sessionId": agent.session_id, "command": "id"}, ident=method)
            agent.answer(method)

    kernel.run("%acp permissions deny").ok()
    made = connected(kernel, script, prompt=prompt)
    try:
        kernel.run("go").ok()
    finally:
        kernel.run("%acp permissions ask").ok()
    offered = made.received("initialize")[0]["params"]["clientCapabilities"]
    assert offered["terminal"] is False
    assert "mcp" not in offered
    for method in ("terminal/create", "session/fork", "mcp/message"):
        assert made.answers(method)[0]["error"]["code"] == -32601


@pytest.mark.obligation("C64")
def test_f61_meta_never_takes_the_place_of_a_real_parameter(kernel, script):
    def prompt(agent):
        agent.ask(
            "fs/read_text_file",
            path=agent.given["public"],
            _meta={"path": agent.given["secret"], "sessionId": "other", "limit": 1},
        )
        agent.permission(
            "reject_once",
            meta={
                "options": [{"optionId": "sneaky", "name": "Allow", "kind": "allow_once"}],
                "toolCall": {"toolCallId": "other", "title": "harmless"},
                "sessionId": "other",
            },
        )

    (kernel.cwd / "public.txt").write_text("public")
    (kernel.cwd / "other.txt").write_text("the other file")
    given = {"public": str(kernel.cwd / "public.txt"), "secret": str(kernel.cwd / "other.txt")}
    made = connected(kernel, script, prompt=prompt, given=given)
    kernel.run("%acp permissions allow").ok()
    try:
        cell = kernel.run("go").ok()
    finally:
        kernel.run("%acp permissions ask").ok()
    assert made.notes("fs/read_text_file") == [{"result": {"content": "public"}}]
    outcome = {"outcome": "selected", "optionId": "reject_once"}
    assert made.notes("session/request_permission") == [{"result": {"outcome": outcome}}]
    assert "read public.txt" in cell.text
    assert "other.txt" not in cell.text
    assert "harmless" not in cell.text


@pytest.mark.parametrize(
    "ident", ["../../x", "a" * 1024, "<img src=x onerror=alert(1)>", "\x1b[2J"]
)
def test_f63_a_session_id_is_opaque(kernel, script, ident):
    def new_session(agent):
        agent.session_id = agent.given["ident"]
        agent.reply({"sessionId": agent.session_id})

    def prompt(agent):
        agent.text("works")

    made = script(new_session=new_session, prompt=prompt, given={"ident": ident})
    banner = kernel.connect(made)
    cell = kernel.run("go").ok()
    assert "works" in cell.text
    assert made.received("session/prompt")[0]["params"]["sessionId"] == ident
    assert "<img" not in banner.html + cell.html
    assert "\x1b" not in banner.text + banner.html
    assert not any(ident in key for key in cell.displays)


def test_f63_an_id_beyond_a_kibibyte_is_refused(kernel, script):
    def new_session(agent):
        agent.reply({"sessionId": "x" * 2**20})

    made = script(new_session=new_session)
    cell = kernel.run(f"%acp connect -- {' '.join(made.argv)}").failed("RemoteProtocolError")
    assert "session/new" in cell.traceback
    assert len(cell.traceback) < 2000
    wait_until(lambda: not any(map(psutil.pid_exists, made.pids)))


def test_f63_ids_of_requests_are_held_to_the_same_limit(kernel, script):
    def prompt(agent):
        long = "x" * 2**20
        for ident, method, params in (
            ("session", "fs/read_text_file", {"sessionId": long, "path": "/x"}),
            (
                "tool call",
                "session/request_permission",
                {
                    "sessionId": agent.session_id,
                    "toolCall": {"toolCallId": long},
                    "options": [],
                },
            ),
            ("terminal", "terminal/output", {"sessionId": agent.session_id, "terminalId": long}),
        ):
            agent.request(method, params, ident=ident)
            agent.answer(ident)

    made = connected(kernel, script, prompt=prompt)
    kernel.run("go").ok()
    for ident in ("session", "tool call", "terminal"):
        error = made.answers(ident)[0]["error"]
        assert error["code"] in (-32602, -32002)
        assert len(error["message"]) < 300
