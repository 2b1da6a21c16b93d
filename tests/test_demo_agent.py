"""The bundled agent as a process: its language, its sessions, its manners."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_jupyter.demo_agent import language
from acp_jupyter.demo_agent.handlers import HANDLERS
from tests.demo_peer import ALL_OFFERS, HOLD, AgentError, Peer

OPTION_KINDS = ["allow_once", "allow_always", "reject_once", "reject_always"]


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with Peer(tmp_path / "store") as connected:
        connected.initialize()
        yield connected


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def session(peer: Peer, work: Path) -> str:
    return peer.new_session(work)


class Client:
    """The client's files and terminals, for peers that offer them."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.log: list[str] = []
        self.files: dict[str, str] = {}
        self.exited = threading.Event()
        self.peer = peer
        self.folder = folder
        peer.answers["fs/read_text_file"] = self.read
        peer.answers["fs/write_text_file"] = self.write
        for method in ("create", "output", "wait_for_exit", "kill", "release"):
            peer.answers[f"terminal/{method}"] = getattr(self, method)

    def read(self, params: dict[str, Any]) -> Any:
        self.log.append("read")
        if params["path"] not in self.files:
            raise AgentError({"code": -32002, "message": "not found"})
        return {"content": self.files[params["path"]]}

    def write(self, params: dict[str, Any]) -> Any:
        self.log.append("write")
        self.files[params["path"]] = params["content"]
        return {}

    def create(self, params: dict[str, Any]) -> Any:
        self.log.append("create")
        self.created = params
        return {"terminalId": "t1"}

    def wait_for_exit(self, params: dict[str, Any]) -> Any:
        self.log.append("wait_for_exit")
        return {"exitCode": 0} if self.created["command"] == "true" else HOLD

    def output(self, params: dict[str, Any]) -> Any:
        self.log.append("output")
        return {"output": "from the terminal\n", "truncated": False}

    def kill(self, params: dict[str, Any]) -> Any:
        self.log.append("kill")
        waiting = self.peer.requests("terminal/wait_for_exit")[-1]
        self.peer.reply(waiting, {"signal": "SIGKILL"})
        return {}

    def release(self, params: dict[str, Any]) -> Any:
        self.log.append("release")
        return {}


@pytest.fixture
def rich(tmp_path: Path, work: Path) -> Iterator[tuple[Peer, Client, str]]:
    """A peer that offers everything, and a session."""
    with Peer(tmp_path / "store") as connected:
        connected.initialize(ALL_OFFERS)
        client = Client(connected, work)
        yield connected, client, connected.new_session(work)


# -- start and end ---------------------------------------------------------------------------------


def test_it_starts_and_answers_well_within_a_second(tmp_path: Path) -> None:
    started = time.perf_counter()
    with Peer(tmp_path) as connected:
        connected.initialize()
        assert time.perf_counter() - started < 1.0


def test_it_loads_nothing_of_the_client() -> None:
    code = (
        "import sys, acp_jupyter.demo_agent.agent; "
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('trio', 'msgspec', 'asyncio', 'IPython', 'traitlets') "
        "or m.startswith('acp_jupyter.') and not m.startswith('acp_jupyter.demo_agent')])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=30, text=True
    )
    assert output.stdout.strip() == "[]", output.stderr


def test_it_exits_with_0_and_a_silent_stderr_when_stdin_ends(peer: Peer, session: str) -> None:
    peer.prompt(session, "hello")
    assert peer.close() == 0
    assert peer.stderr == b""


@pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX")
@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
def test_the_end_takes_a_running_command_with_it(peer: Peer, work: Path, end: str) -> None:
    session_id = peer.new_session(work)
    peer.allow()
    peer.start_prompt(session_id, "run echo $$ > pid && exec sleep 60")
    pid = _written_pid(work / "pid")
    if end == "stdin":
        assert peer.close() == 0
    else:
        peer.process.send_signal(signal.SIGTERM)
        assert peer.wait_exit() == 128 + signal.SIGTERM
    assert _has_ended(pid)


def test_crash_ends_the_process_with_17_and_keeps_the_turn(tmp_path: Path, work: Path) -> None:
    with Peer(tmp_path / "store") as first:
        first.initialize()
        session_id = first.new_session(work)
        first.start_prompt(session_id, "think of it\ncrash")
        assert first.wait_exit() == 17
    with Peer(tmp_path / "store") as second:
        second.initialize()
        second.call("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
        assert "crash" in second.text("user_message_chunk")
        assert second.text("agent_thought_chunk") == "of it\n"


def test_unknown_arguments_end_with_2_and_help_describes_the_language() -> None:
    command = [sys.executable, "-m", "acp_jupyter.demo_agent"]
    unknown = subprocess.run([*command, "--fast"], capture_output=True, timeout=30, text=True)
    assert unknown.returncode == 2
    assert "--fast" in unknown.stderr
    shown = subprocess.run([*command, "--help"], capture_output=True, timeout=30, text=True)
    assert shown.returncode == 0
    assert all(f"``{word}" in shown.stdout for word in language.WORDS)


# -- the language ----------------------------------------------------------------------------------


def test_every_word_has_a_handler_and_every_handler_a_word() -> None:
    assert set(HANDLERS) == set(language.WORDS) | {"say", "misuse"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("read a; read b\nread c", ["read", "read", "read"]),
        ("/count 3", ["count"]),
        ("hello; world", ["say"]),
        ("one\n\ntwo\ncount 2\nthree", ["say", "count", "say"]),
        ("table of contents", ["say"]),
        ("table", ["table"]),
        ("count sheep", ["misuse"]),
        ("/nothing", ["misuse"]),
        ("Read the file", ["say"]),
        ("max tokens", ["max"]),
        ("run a \\; b", ["run"]),
        ("  \n ", []),
    ],
)
def test_a_prompt_is_split_into_requests(text: str, words: list[str]) -> None:
    assert [request.word for request in language.parse(text)] == words


def test_an_escaped_semicolon_stays_in_the_request_and_plain_text_stays_whole() -> None:
    assert language.parse("run a \\; b")[0].arguments == ("a ; b",)
    assert language.parse("hello; big\nworld")[0].arguments == ("hello; big\nworld",)
    assert language.unescape(r"a\nb\\n\t") == "a\nb\\n\t"


def test_plain_text_is_said_back_with_the_way_to_help(peer: Peer, session: str) -> None:
    assert peer.prompt(session, "good day") == "end_turn"
    assert "> good day" in peer.text()
    assert "/help" in peer.text()


def test_the_same_prompts_give_the_same_messages_in_another_store(
    tmp_path: Path, work: Path
) -> None:
    transcripts = []
    for name in ("one", "two"):
        with Peer(tmp_path / name) as connected:
            connected.initialize()
            connected.allow()
            session_id = connected.new_session(work)
            connected.prompt(session_id, "hello\nplan a, b\nwrite f.txt: x\nrun echo hi")
            (work / "f.txt").unlink()
            transcripts.append(connected.messages)
    assert transcripts[0] == transcripts[1]


def test_help_lists_every_request(peer: Peer, session: str) -> None:
    peer.prompt(session, "/help")
    assert all(f"| `{word}" in peer.text() for word in language.WORDS)


def test_a_request_in_a_wrong_form_is_told_its_usage(peer: Peer, session: str) -> None:
    peer.prompt(session, "count sheep\n/bogus")
    assert "`count N`" in peer.text()
    assert "no request `/bogus`" in peer.text()


def test_attachments_of_every_kind_are_described(peer: Peer, session: str) -> None:
    data = base64.b64encode(b"12345").decode()
    peer.prompt(
        session,
        "look",
        {"type": "image", "mimeType": "image/png", "data": data},
        {"type": "audio", "mimeType": "audio/wav", "data": data},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "size": 7},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "four"}},
        {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": data}},
    )
    for line in (
        "- image image/png, 5 bytes",
        "- audio audio/wav, 5 bytes",
        "- resource_link a.txt <file:///a.txt>, 7 bytes",
        "- resource <file:///b.txt>, 4 characters",
        "- resource <file:///c.bin>, 5 bytes",
        "> look",
    ):
        assert line in peer.text()


def test_plan_entries_follow_the_requests(peer: Peer, session: str) -> None:
    peer.prompt(session, "plan one, two!, three\nthink x\nread missing.txt")
    plans = peer.updates("plan")
    states = [[entry["status"] for entry in plan["entries"]] for plan in plans]
    assert states == [
        ["pending", "pending", "pending"],
        ["in_progress", "pending", "pending"],
        ["completed", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "pending", "pending"],  # reading failed
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]
    assert [entry["priority"] for entry in plans[0]["entries"]] == ["medium", "high", "medium"]


def test_think_is_a_thought(peer: Peer, session: str) -> None:
    peer.prompt(session, "think deeply")
    assert peer.text("agent_thought_chunk") == "deeply\n"
    assert peer.text() == ""


def test_count_sends_a_chunk_a_number_in_order(peer: Peer, session: str) -> None:
    peer.prompt(session, "count 500")
    assert peer.text() == " ".join(map(str, range(1, 501)))
    chunks = peer.updates("agent_message_chunk")
    assert len(chunks) == 500
    assert len({chunk["messageId"] for chunk in chunks}) == 1


@pytest.mark.parametrize("length", [0, 1, 20_001])
def test_text_has_exactly_the_length(peer: Peer, session: str, length: int) -> None:
    peer.prompt(session, f"text {length}")
    assert len(peer.text()) == length


def test_show_image_is_a_real_png(peer: Peer, session: str) -> None:
    peer.prompt(session, "show image")
    content = peer.updates("agent_message_chunk")[0]["content"]
    data = base64.b64decode(content["data"], validate=True)
    assert content["mimeType"] == "image/png"
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    assert len(zlib.decompress(data[41 : 41 + length])) == height * (1 + 3 * width)


def test_show_audio_is_a_real_wav(peer: Peer, session: str, tmp_path: Path) -> None:
    import wave

    peer.prompt(session, "show audio")
    content = peer.updates("agent_message_chunk")[0]["content"]
    path = tmp_path / "sound.wav"
    path.write_bytes(base64.b64decode(content["data"], validate=True))
    with wave.open(str(path)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 2000)


@pytest.mark.parametrize(("what", "kind"), [("link", "resource_link"), ("resource", "resource")])
def test_show_link_and_resource(peer: Peer, session: str, what: str, kind: str) -> None:
    peer.prompt(session, f"show {what}")
    assert [u["content"]["type"] for u in peer.updates("agent_message_chunk")] == [kind]


def test_table_and_markdown_are_messages_of_their_own(peer: Peer, session: str) -> None:
    peer.prompt(session, "table\nmarkdown")
    assert "|:--------|" in peer.text()
    assert "```python" in peer.text()
    assert "$$" in peer.text()
    assert len({u["messageId"] for u in peer.updates("agent_message_chunk")}) == 2


def test_slow_sends_a_chunk_a_step(peer: Peer, session: str) -> None:
    started = time.perf_counter()
    peer.prompt(session, "slow 3")
    assert time.perf_counter() - started >= 0.3
    assert peer.text() == "Step 1 of 3.\n\nStep 2 of 3.\n\nStep 3 of 3.\n\n"


def test_usage_grows_with_every_turn_and_is_priced(peer: Peer, session: str) -> None:
    peer.prompt(session, "hello")
    peer.prompt(session, "usage")
    used = [update["used"] for update in peer.updates("usage_update")]
    assert len(used) == 3
    assert used[0] < used[1] < used[2]
    assert peer.updates("usage_update")[0]["cost"]["currency"] == "USD"
    assert peer.updates("usage_update")[0]["cost"]["amount"] > 0


def test_title_is_sent_and_listed(peer: Peer, session: str) -> None:
    peer.prompt(session, "hello")
    assert peer.call("session/list")["sessions"][0]["title"] == "hello"
    peer.prompt(session, "title A better one")
    assert peer.updates("session_info_update")[-1]["title"] == "A better one"
    assert peer.call("session/list")["sessions"][0]["title"] == "A better one"


def test_commands_are_advertised_after_the_setup_response(peer: Peer, session: str) -> None:
    update = peer.wait_for(lambda: peer.updates("available_commands_update"))[0]
    names = {command["name"]: command for command in update["availableCommands"]}
    assert set(names) == set(language.WORDS)
    assert names["read"]["input"]["hint"] == "FILE"
    assert "input" not in names["table"]
    methods = [m.get("method", m.get("id")) for m in peer.messages]
    assert methods == [1, 2, "session/update"]
    peer.prompt(session, "commands")
    assert len(peer.updates("available_commands_update")) == 2


def test_fail_is_a_json_rpc_error_and_the_session_goes_on(peer: Peer, session: str) -> None:
    with pytest.raises(AgentError) as caught:
        peer.prompt(session, "fail")
    assert caught.value.code == -32603
    assert peer.prompt(session, "hello") == "end_turn"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("max tokens", "max_tokens"), ("max requests", "max_turn_requests"), ("refuse", "refusal")],
)
def test_stop_reasons_end_the_turn_at_once(
    peer: Peer, session: str, text: str, reason: str
) -> None:
    assert peer.prompt(session, f"{text}\nthink more") == reason
    assert peer.text("agent_thought_chunk") == ""


def test_a_refused_turn_is_not_in_the_history(peer: Peer, session: str, work: Path) -> None:
    peer.prompt(session, "hello")
    peer.prompt(session, "refuse")
    mark = len(peer.messages)
    peer.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert peer.text("user_message_chunk", since=mark) == "hello"


def test_stderr_writes_one_line_there(peer: Peer, session: str) -> None:
    peer.prompt(session, "stderr a noise")
    peer.close()
    assert peer.stderr == b"a noise\n"


def test_unknown_is_an_update_of_a_kind_with_underscore(peer: Peer, session: str) -> None:
    peer.exempt = lambda message: "_demo_unknown" in json.dumps(message)
    peer.prompt(session, "unknown")
    assert len(peer.updates("_demo_unknown")) == 1


def test_notice_and_compact_are_sent_only_where_offered(
    peer: Peer, session: str, rich: tuple[Peer, Client, str]
) -> None:
    peer.prompt(session, "notice mind the gap\ncompact")
    assert peer.updates("notice") == peer.updates("compaction_update") == []
    assert "mind the gap" in peer.text()
    offered, _, other = rich
    offered.prompt(other, "notice mind the gap\ncompact")
    assert offered.updates("notice")[0]["title"] == "mind the gap"
    assert [u["status"] for u in offered.updates("compaction_update")] == [
        "in_progress",
        "completed",
    ]


# -- files with the agent's own access -------------------------------------------------------------


def test_read_shows_the_file_and_its_location(peer: Peer, session: str, work: Path) -> None:
    (work / "a.txt").write_text("one\n```\ntwo\n")
    peer.prompt(session, "read a.txt")
    call = peer.tool_call("call-1")
    assert (call["kind"], call["status"]) == ("read", "completed")
    assert call["locations"] == [{"path": str(work / "a.txt")}]
    assert call["content"][0]["content"]["text"] == "````\none\n```\ntwo\n````"
    assert "3 lines" in peer.text()


def test_write_asks_with_all_four_kinds_and_shows_the_diff(
    peer: Peer, session: str, work: Path
) -> None:
    (work / "a.txt").write_text("old")
    peer.allow()
    peer.prompt(session, r"write a.txt: new\nlines")
    assert (work / "a.txt").read_text() == "new\nlines"
    request = peer.requests("session/request_permission")[0]["params"]
    assert [option["kind"] for option in request["options"]] == OPTION_KINDS
    diff = {
        "type": "diff",
        "path": str(work / "a.txt"),
        "oldText": "old",
        "newText": "new\nlines",
    }
    assert request["toolCall"]["content"] == [diff]
    assert request["toolCall"]["toolCallId"] == "call-1"
    assert peer.tool_call("call-1")["status"] == "completed"


def test_a_new_file_has_no_old_text_and_its_folders_are_made(
    peer: Peer, session: str, work: Path
) -> None:
    peer.allow()
    peer.prompt(session, "write sub/b.txt: hi")
    assert (work / "sub" / "b.txt").read_text() == "hi"
    assert peer.tool_call("call-1")["content"][0]["oldText"] is None


def test_edit_replaces_once(peer: Peer, session: str, work: Path) -> None:
    (work / "a.txt").write_text("x y x")
    peer.allow()
    peer.prompt(session, "edit a.txt: x -> z\nedit a.txt: missing -> z")
    assert (work / "a.txt").read_text() == "z y x"
    assert peer.tool_call("call-2")["status"] == "failed"
    assert "does not contain" in peer.text()


def test_delete_asks_and_deletes(peer: Peer, session: str, work: Path) -> None:
    (work / "a.txt").write_text("x")
    peer.allow("reject-once")
    peer.prompt(session, "delete a.txt")
    assert (work / "a.txt").exists()
    assert peer.tool_call("call-1")["status"] == "failed"
    peer.allow()
    peer.prompt(session, "delete a.txt")
    assert not (work / "a.txt").exists()
    assert peer.tool_call("call-2")["kind"] == "delete"


def test_search_gives_locations_with_lines(peer: Peer, session: str, work: Path) -> None:
    (work / "b.py").write_text("no\nneedle here\n")
    (work / "a.py").write_text("needle\n")
    (work / ".hidden").write_text("needle\n")
    peer.prompt(session, "search needle")
    call = peer.tool_call("call-1")
    assert call["kind"] == "search"
    assert call["locations"] == [
        {"path": str(work / "a.py"), "line": 1},
        {"path": str(work / "b.py"), "line": 2},
    ]
    assert "2 lines with `needle` in 2 files" in peer.text()


def test_paths_outside_the_roots_are_refused_with_the_same_words(
    peer: Peer, tmp_path: Path, work: Path
) -> None:
    (tmp_path / "secret.txt").write_text("s")
    (work / "link").symlink_to(tmp_path / "secret.txt")
    peer.allow()
    session_id = peer.new_session(work)
    errors = []
    requests = ["read ../secret.txt", "read ../nothing.txt", "read link", "write ../x.txt: y"]
    for number, request in enumerate([*requests, "delete ../secret.txt"], 1):
        peer.prompt(session_id, request)
        errors.append(peer.tool_call(f"call-{number}")["rawOutput"]["error"])
    assert set(errors) == {"The path is outside the session's directories."}
    assert (tmp_path / "secret.txt").exists()
    assert not (tmp_path / "x.txt").exists()


def test_additional_directories_are_roots_too(peer: Peer, tmp_path: Path, work: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("hello")
    session_id = peer.new_session(work, additionalDirectories=[str(other)])
    peer.prompt(session_id, f"read {other}/a.txt")
    assert peer.tool_call("call-1")["status"] == "completed"
    assert peer.call("session/list")["sessions"][0]["additionalDirectories"] == [str(other)]


# -- commands with the agent's own access ----------------------------------------------------------


def test_run_asks_and_reports_output_and_exit_code(peer: Peer, session: str) -> None:
    peer.allow()
    peer.prompt(session, "run echo hello\nrun echo oops >&2 \\; exit 3")
    first, second = peer.tool_call("call-1"), peer.tool_call("call-2")
    assert first["rawInput"]["command"] == "echo"
    assert first["content"][0]["content"]["text"] == "```\nhello\n```"
    assert (first["status"], first["rawOutput"]["exitCode"]) == ("completed", 0)
    assert second["rawInput"]["args"][0] == "-c"
    assert (second["status"], second["rawOutput"]["exitCode"]) == ("failed", 3)
    assert "oops" in second["content"][0]["content"]["text"]


def test_run_of_a_missing_program_fails_with_the_reason(peer: Peer, session: str) -> None:
    peer.allow()
    peer.prompt(session, "run no-such-program-here")
    assert peer.tool_call("call-1")["status"] == "failed"
    assert "No such file" in peer.text()


# -- the client's files and terminals --------------------------------------------------------------


def test_files_go_through_the_client_where_it_offers_them(
    rich: tuple[Peer, Client, str], work: Path
) -> None:
    peer, client, session_id = rich
    peer.allow()
    peer.prompt(session_id, "write a.txt: one\nedit a.txt: one -> two\nread a.txt\nread b.txt")
    assert client.log == ["read", "write", "read", "write", "read", "read"]
    assert client.files == {str(work / "a.txt"): "two"}
    assert list(work.iterdir()) == []
    assert [peer.tool_call(f"call-{i}")["status"] for i in (1, 2, 3, 4)] == [
        "completed",
        "completed",
        "completed",
        "failed",
    ]


def test_a_refusal_of_the_client_fails_the_tool_call_and_not_the_turn(
    rich: tuple[Peer, Client, str],
) -> None:
    peer, _, session_id = rich

    def refuse(params: dict[str, Any]) -> Any:
        raise AgentError({"code": -32602, "message": "outside the roots"})

    peer.answers["fs/read_text_file"] = refuse
    assert peer.prompt(session_id, "read /etc/passwd\nwrite /etc/x: y") == "end_turn"
    assert peer.tool_call("call-1")["status"] == peer.tool_call("call-2")["status"] == "failed"
    assert "outside the roots" in peer.text()


def test_a_terminal_is_shown_waited_for_read_and_released(
    rich: tuple[Peer, Client, str], work: Path
) -> None:
    peer, client, session_id = rich
    peer.allow()
    peer.prompt(session_id, "run true --now")
    assert client.log == ["create", "wait_for_exit", "output", "release"]
    assert client.created["command"] == "true"
    assert client.created["args"] == ["--now"]
    assert client.created["cwd"] == str(work)
    call = peer.tool_call("call-1")
    assert call["content"] == [{"type": "terminal", "terminalId": "t1"}]
    assert call["status"] == "completed"
    mark = len(peer.messages)
    peer.call("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
    replayed = peer.updates("tool_call", since=mark)[0]
    assert replayed["content"][0]["content"]["text"] == "```\nfrom the terminal\n```"


# -- permission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("allow-once", True),
        ("allow-always", True),
        ("reject-once", False),
        ("reject-always", False),
        ("made-up", False),
    ],
)
def test_each_permission_option_is_obeyed(
    peer: Peer, session: str, work: Path, option: str, written: bool
) -> None:
    peer.allow(option)
    peer.prompt(session, "write a.txt: x")
    assert (work / "a.txt").exists() is written
    assert peer.tool_call("call-1")["status"] == ("completed" if written else "failed")


@pytest.mark.parametrize("option", ["allow-always", "reject-always"])
def test_always_is_remembered_by_session_and_tool_kind(
    peer: Peer, session: str, work: Path, option: str
) -> None:
    peer.allow(option)
    peer.prompt(session, "write a.txt: x\nwrite b.txt: y")
    assert len(peer.requests("session/request_permission")) == 1
    assert (work / "b.txt").exists() is (option == "allow-always")
    peer.prompt(session, "run true")
    assert len(peer.requests("session/request_permission")) == 2
    peer.prompt(peer.new_session(work), "write c.txt: z")
    assert len(peer.requests("session/request_permission")) == 3


def test_an_error_as_answer_to_a_permission_request_is_a_no(
    peer: Peer, session: str, work: Path
) -> None:
    peer.prompt(session, "write a.txt: x")  # no answer is set up: the peer says -32601
    assert not (work / "a.txt").exists()


def test_permissions_are_asked_all_at_once_and_answered_in_any_order(
    peer: Peer, session: str
) -> None:
    peer.answers["session/request_permission"] = lambda params: HOLD
    request_id = peer.start_prompt(session, "permissions 5")
    waiting = peer.wait_request("session/request_permission", 5)
    for number, request in enumerate(reversed(waiting)):
        option = "allow-once" if number % 2 else "reject-once"
        peer.reply(request, {"outcome": {"outcome": "selected", "optionId": option}})
    assert peer.response(request_id)["stopReason"] == "end_turn"
    assert "2 of 5 were allowed" in peer.text()


def test_ask_without_forms_is_a_permission_request_with_the_choices(
    peer: Peer, session: str
) -> None:
    peer.allow("choice-2")
    peer.prompt(session, "ask Which colour? red | green")
    request = peer.requests("session/request_permission")[0]["params"]
    assert [option["name"] for option in request["options"]] == [
        "red",
        "green",
        "Skip the question",
    ]
    assert request["toolCall"]["title"] == "Which colour?"
    assert "You chose: green." in peer.text()
    peer.allow("skip")
    peer.prompt(session, "ask Sure?")
    assert "You did not answer." in peer.text()


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            {"action": "accept", "content": {"answer": "green", "note": "dark"}},
            "You chose: green (dark).",
        ),
        ({"action": "accept", "content": {"answer": "blue"}}, "You did not answer."),
        ({"action": "decline"}, "You did not answer."),
        ({"action": "cancel"}, "You did not answer."),
    ],
)
def test_ask_is_a_form_where_the_client_offers_that(
    rich: tuple[Peer, Client, str], result: Any, said: str
) -> None:
    peer, _, session_id = rich
    peer.answers["elicitation/create"] = lambda params: result
    peer.prompt(session_id, "ask Which colour? red | green")
    params = peer.requests("elicitation/create")[0]["params"]
    assert (params["mode"], params["message"]) == ("form", "Which colour?")
    assert said in peer.text()


# -- modes and options -----------------------------------------------------------------------------


def test_trust_does_not_ask_and_plan_runs_nothing(peer: Peer, session: str, work: Path) -> None:
    peer.call("session/set_mode", sessionId=session, modeId="plan")
    peer.prompt(session, "write a.txt: x\nrun true")
    assert not (work / "a.txt").exists()
    assert [e["content"] for e in peer.updates("plan")[-1]["entries"]] == [
        "write a.txt: x",
        "run true",
    ]
    peer.call("session/set_mode", sessionId=session, modeId="trust")
    peer.prompt(session, "write a.txt: x")
    assert (work / "a.txt").read_text() == "x"
    assert peer.requests("session/request_permission") == []


def test_mode_and_its_option_always_agree(peer: Peer, work: Path) -> None:
    setup = peer.call("session/new", cwd=str(work), mcpServers=[])
    session_id = setup["sessionId"]
    assert setup["modes"]["currentModeId"] == "ask"
    assert [mode["id"] for mode in setup["modes"]["availableModes"]] == ["ask", "trust", "plan"]
    assert [o["id"] for o in setup["configOptions"]] == ["mode", "model"]

    def option() -> Any:
        return peer.updates("config_option_update")[-1]["configOptions"][0]["currentValue"]

    peer.call("session/set_mode", sessionId=session_id, modeId="trust")
    assert option() == "trust"
    assert peer.updates("current_mode_update") == []
    result = peer.call(
        "session/set_config_option", sessionId=session_id, configId="mode", value="plan"
    )
    assert result["configOptions"][0]["currentValue"] == "plan"
    assert peer.updates("current_mode_update")[-1]["currentModeId"] == "plan"
    peer.prompt(session_id, "mode ask")
    assert peer.updates("current_mode_update")[-1]["currentModeId"] == option() == "ask"
    peer.prompt(session_id, "mode nonsense")
    assert "`ask`, `trust`, `plan`" in peer.text()


def test_the_model_changes_context_price_and_answer(peer: Peer, session: str) -> None:
    peer.prompt(session, "hello you")
    small = peer.updates("usage_update")[-1]
    peer.call("session/set_config_option", sessionId=session, configId="model", value="large")
    peer.prompt(session, "hello you")
    large = peer.updates("usage_update")[-1]
    assert (small["size"], large["size"]) == (8_000, 64_000)
    assert large["cost"]["amount"] > 10 * small["cost"]["amount"]
    assert "2 words" in peer.text()


def test_verbose_is_offered_only_to_clients_with_boolean_options(
    peer: Peer, session: str, rich: tuple[Peer, Client, str]
) -> None:
    given = {"configId": "verbose", "type": "boolean", "value": True}
    with pytest.raises(AgentError) as caught:
        peer.call("session/set_config_option", sessionId=session, **given)
    assert caught.value.code == -32602
    offered, _, other = rich
    result = offered.call("session/set_config_option", sessionId=other, **given)
    assert result["configOptions"][2]["currentValue"] is True
    offered.prompt(other, "table")
    assert offered.text("agent_thought_chunk") == "Next: table\n"


# -- sessions --------------------------------------------------------------------------------------


def test_load_replays_the_conversation_before_its_response(tmp_path: Path, work: Path) -> None:
    with Peer(tmp_path / "store") as first:
        first.initialize()
        first.allow()
        session_id = first.new_session(work)
        first.prompt(session_id, "plan a\nwrite f.txt: x\nthink hm\nhello")
        first.prompt(session_id, "show image")
        first.call("session/set_mode", sessionId=session_id, modeId="trust")
        said, thought = first.text(), first.text("agent_thought_chunk")
        call = first.tool_call("call-1")
    with Peer(tmp_path / "store") as second:
        second.initialize()
        result = second.call("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
        response = next(i for i, m in enumerate(second.messages) if m.get("id") == 2)
        kinds = [m["params"]["update"]["sessionUpdate"] for m in second.messages[1:response]]
        assert kinds == [
            "user_message_chunk",
            "plan",
            "tool_call",
            "agent_message_chunk",
            "agent_thought_chunk",
            "agent_message_chunk",
            "user_message_chunk",
            "agent_message_chunk",
        ]
        assert (second.text(), second.text("agent_thought_chunk")) == (said, thought)
        assert second.tool_call("call-1") == {**call, "sessionUpdate": "tool_call"}
        assert result["modes"]["currentModeId"] == "trust"
        second.prompt(session_id, "read f.txt")
        assert second.tool_call("call-2")["kind"] == "read"


def test_resume_replays_nothing_and_goes_on(tmp_path: Path, work: Path) -> None:
    with Peer(tmp_path / "store") as first:
        first.initialize()
        session_id = first.new_session(work)
        first.prompt(session_id, "hello")
        used = first.updates("usage_update")[-1]["used"]
    with Peer(tmp_path / "store") as second:
        second.initialize()
        second.call("session/resume", sessionId=session_id, cwd=str(work))
        second.wait_for(lambda: second.updates("available_commands_update"))
        assert len(second.updates()) == 1
        second.prompt(session_id, "hello")
        assert second.updates("usage_update")[-1]["used"] > used


def test_list_pages_newest_first_and_filters_by_directory(
    peer: Peer, tmp_path: Path, work: Path
) -> None:
    ids = [peer.new_session(work) for _ in range(45)]
    other = peer.new_session(tmp_path)
    assert len(set(ids)) == 45
    pages, cursor = [], None
    while True:
        page = peer.call("session/list", cwd=str(work), **({"cursor": cursor} if cursor else {}))
        pages.append([info["sessionId"] for info in page["sessions"]])
        if "nextCursor" not in page:
            break
        cursor = page["nextCursor"]
    assert [len(page) for page in pages] == [20, 20, 5]
    assert [session_id for page in pages for session_id in page] == ids[::-1]
    assert peer.call("session/list")["sessions"][0]["sessionId"] == other
    with pytest.raises(AgentError) as caught:
        peer.call("session/list", cursor="nonsense")
    assert caught.value.code == -32602


def test_a_closed_session_takes_no_prompt_until_it_is_resumed(
    peer: Peer, session: str, work: Path
) -> None:
    assert peer.call("session/close", sessionId=session) == {}
    with pytest.raises(AgentError) as caught:
        peer.prompt(session, "hello")
    assert caught.value.code == -32002
    peer.call("session/resume", sessionId=session, cwd=str(work))
    assert peer.prompt(session, "hello") == "end_turn"


def test_close_cancels_the_running_turn_first(peer: Peer, session: str) -> None:
    request_id = peer.start_prompt(session, "count 2\nwait")
    peer.wait_for(lambda: peer.text() == "1 2")
    close_id = peer.request("session/close", sessionId=session)
    assert peer.response(close_id) == {}
    assert peer.response(request_id)["stopReason"] == "cancelled"
    answers = [m["id"] for m in peer.messages if "method" not in m][-2:]
    assert sorted(answers) == [request_id, close_id]


def test_delete_removes_the_session_for_good(
    peer: Peer, session: str, tmp_path: Path, work: Path
) -> None:
    assert peer.call("session/delete", sessionId=session) == {}
    assert peer.call("session/list")["sessions"] == []
    assert list((tmp_path / "store").glob("demo-*")) == []
    with pytest.raises(AgentError) as caught:
        peer.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert caught.value.code == -32002
    assert peer.call("session/delete", sessionId="../../etc/passwd") == {}
    assert peer.new_session(work) != session


def test_sessions_are_stored_privately_and_atomically(
    peer: Peer, session: str, tmp_path: Path
) -> None:
    peer.prompt(session, "hello")
    store = tmp_path / "store"
    assert sorted(path.name for path in store.iterdir()) == ["counter", f"{session}.json"]
    assert stat.S_IMODE((store / f"{session}.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_two_agents_on_one_store_give_different_ids(tmp_path: Path, work: Path) -> None:
    with Peer(tmp_path / "store") as first, Peer(tmp_path / "store") as second:
        first.initialize()
        second.initialize()
        ids = [peer.new_session(work) for _ in range(5) for peer in (first, second)]
        assert len(set(ids)) == 10


def test_without_a_usable_store_the_sessions_live_in_memory(tmp_path: Path, work: Path) -> None:
    (tmp_path / "file").write_text("")
    with Peer(tmp_path / "file" / "store") as connected:
        connected.initialize()
        session_id = connected.new_session(work)
        assert connected.prompt(session_id, "hello") == "end_turn"
        connected.call("session/close", sessionId=session_id)
        connected.call("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
        assert connected.text("user_message_chunk") == "hello"
        assert len(connected.call("session/list")["sessions"]) == 1


def test_the_default_store_follows_xdg_state_home(tmp_path: Path, work: Path) -> None:
    with Peer("", XDG_STATE_HOME=str(tmp_path / "state")) as connected:
        connected.initialize()
        session_id = connected.new_session(work)
    assert (tmp_path / "state" / "acp-jupyter" / "demo-agent" / f"{session_id}.json").exists()


def test_a_damaged_file_hides_only_its_own_session(
    peer: Peer, session: str, tmp_path: Path, work: Path
) -> None:
    other = peer.new_session(work)
    peer.call("session/close", sessionId=session)
    (tmp_path / "store" / f"{session}.json").write_text("{")
    assert [s["sessionId"] for s in peer.call("session/list")["sessions"]] == [other]
    with pytest.raises(AgentError) as caught:
        peer.call("session/resume", sessionId=session, cwd=str(work))
    assert caught.value.code == -32002


def test_load_in_another_directory_is_refused(peer: Peer, session: str, tmp_path: Path) -> None:
    with pytest.raises(AgentError) as caught:
        peer.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
    assert caught.value.code == -32602


# -- cancel ----------------------------------------------------------------------------------------


def test_cancel_in_a_slow_answer_keeps_what_was_said(peer: Peer, session: str, work: Path) -> None:
    request_id = peer.start_prompt(session, "slow 600")
    peer.wait_for(lambda: "Step 2" in peer.text())
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    said, mark = peer.text(), len(peer.messages)
    peer.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert peer.text(since=mark) == said
    assert peer.prompt(session, "hello") == "end_turn"


def test_cancel_in_silence_and_in_a_flood(peer: Peer, session: str) -> None:
    request_id = peer.start_prompt(session, "wait")
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    request_id = peer.start_prompt(session, "count 9999999")
    peer.wait_for(lambda: " 50" in peer.text())
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"


def test_cancel_at_a_permission_request_marks_the_tool_call_failed(
    peer: Peer, session: str, work: Path
) -> None:
    peer.answers["session/request_permission"] = lambda params: HOLD
    request_id = peer.start_prompt(session, "write a.txt: x\nthink after")
    peer.wait_request("session/request_permission")
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    assert peer.tool_call("call-1")["status"] == "failed"
    assert peer.text("agent_thought_chunk") == ""
    assert not (work / "a.txt").exists()
    assert not any(m.get("method") == "$/cancel_request" for m in peer.messages)


def test_cancel_with_many_permission_requests_open(peer: Peer, session: str) -> None:
    peer.answers["session/request_permission"] = lambda params: HOLD
    request_id = peer.start_prompt(session, "permissions 4")
    peer.wait_request("session/request_permission", 4)
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    assert {peer.tool_call(f"call-{i}")["status"] for i in (1, 2, 3, 4)} == {"failed"}


def test_a_client_that_leaves_a_permission_open_is_asked_to_drop_it(
    peer: Peer, session: str
) -> None:
    peer.answers["session/request_permission"] = lambda params: HOLD
    request_id = peer.start_prompt(session, "write a.txt: x")
    waiting = peer.wait_request("session/request_permission")
    peer.notify("session/cancel", sessionId=session)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    withdrawn = [m["params"] for m in peer.messages if m.get("method") == "$/cancel_request"]
    assert withdrawn == [{"requestId": waiting[0]["id"]}]


def test_cancel_withdraws_a_form(rich: tuple[Peer, Client, str]) -> None:
    peer, _, session_id = rich
    peer.answers["elicitation/create"] = lambda params: HOLD
    request_id = peer.start_prompt(session_id, "ask Now?")
    waiting = peer.wait_request("elicitation/create")[0]
    peer.cancel(session_id)
    peer.wait_for(lambda: [m for m in peer.messages if m.get("method") == "$/cancel_request"])
    peer.reply(waiting, error={"code": -32800, "message": "cancelled"})
    assert peer.response(request_id)["stopReason"] == "cancelled"


def test_cancel_kills_and_releases_the_terminal(rich: tuple[Peer, Client, str]) -> None:
    peer, client, session_id = rich
    peer.allow()
    request_id = peer.start_prompt(session_id, "run sleep 60")
    peer.wait_request("terminal/wait_for_exit")
    peer.cancel(session_id)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    assert client.log == ["create", "wait_for_exit", "kill", "output", "release"]
    assert peer.tool_call("call-1")["status"] == "failed"


@pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX")
def test_cancel_kills_our_own_command_with_its_children(
    peer: Peer, session: str, work: Path
) -> None:
    peer.allow()
    request_id = peer.start_prompt(session, "run sleep 60 & echo $! > pid && wait")
    pid = _written_pid(work / "pid")
    started = time.perf_counter()
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"
    assert time.perf_counter() - started < 2.0
    assert _has_ended(pid)


def _written_pid(path: Path) -> int:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "the command did not start"
        time.sleep(0.01)
    return int(path.read_text())


def _has_ended(pid: int) -> bool:
    """A killed orphan stays a zombie until init takes it; that counts as ended."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and ") Z " in status.read_text():
            return True
        time.sleep(0.01)
    return False


def test_cancel_request_for_the_prompt_cancels_the_turn(peer: Peer, session: str) -> None:
    request_id = peer.start_prompt(session, "wait")
    peer.notify("$/cancel_request", requestId=request_id)
    assert peer.response(request_id)["stopReason"] == "cancelled"


def test_cancels_that_name_nothing_are_ignored(peer: Peer, session: str) -> None:
    peer.notify("session/cancel", sessionId=session)
    peer.notify("session/cancel", sessionId="nobody")
    peer.notify("$/cancel_request", requestId=999)
    peer.notify("$/cancel_request", requestId=None)
    peer.notify("_unknown/notification", a=1)
    assert peer.prompt(session, "hello") == "end_turn"


# -- concurrency and errors ------------------------------------------------------------------------


def test_a_second_prompt_is_refused_while_one_runs_and_other_sessions_work(
    peer: Peer, session: str, work: Path
) -> None:
    request_id = peer.start_prompt(session, "wait")
    with pytest.raises(AgentError) as caught:
        peer.prompt(session, "hello")
    assert caught.value.code == -32600
    other = peer.new_session(work)
    assert peer.prompt(other, "hello") == "end_turn"
    peer.call("session/set_mode", sessionId=session, modeId="trust")
    peer.cancel(session)
    assert peer.response(request_id)["stopReason"] == "cancelled"


def test_version_0_is_answered_with_1(tmp_path: Path) -> None:
    with Peer(tmp_path) as connected:
        assert connected.call("initialize", protocolVersion=0)["protocolVersion"] == 1


@pytest.mark.parametrize("version", [2, 7, 65535])
def test_later_versions_are_answered_with_2(tmp_path: Path, version: int) -> None:
    info = {"name": "peer", "version": "1"}
    with Peer(tmp_path, version=2) as connected:
        answer = connected.call("initialize", protocolVersion=version, info=info)
        assert (answer["protocolVersion"], answer["info"]["title"]) == (2, "Demo Agent")


BAD_REQUESTS: list[tuple[str, dict[str, Any], int]] = [
    ("session/fly", {}, -32601),
    ("_other/method", {}, -32601),
    ("logout", {}, -32601),
    ("initialize", {"protocolVersion": "1"}, -32602),
    ("authenticate", {"methodId": "demo"}, -32602),
    ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
    ("session/new", {"cwd": "/tmp"}, -32602),
    ("session/new", {"cwd": "/tmp", "mcpServers": [{"name": "x"}]}, -32602),
    ("session/new", {"cwd": "/tmp", "mcpServers": [], "additionalDirectories": ["x"]}, -32602),
    (
        "session/new",
        {"cwd": "/", "mcpServers": [{"type": "http", "name": "x", "url": "u", "headers": []}]},
        -32602,
    ),
    ("session/load", {"sessionId": "demo-99", "cwd": "/tmp", "mcpServers": []}, -32002),
    ("session/load", {"sessionId": "../x", "cwd": "/tmp", "mcpServers": []}, -32002),
    ("session/resume", {"sessionId": "demo-99", "cwd": "/tmp"}, -32002),
    ("session/prompt", {"sessionId": "demo-99", "prompt": []}, -32002),
    ("session/prompt", {"sessionId": 5, "prompt": []}, -32602),
    ("session/close", {"sessionId": "demo-99"}, -32002),
    ("session/set_mode", {"sessionId": "demo-99", "modeId": "ask"}, -32002),
    ("session/list", {"cwd": "relative"}, -32602),
]


@pytest.mark.parametrize(("method", "params", "code"), BAD_REQUESTS)
def test_bad_requests_get_their_error_code(
    peer: Peer, method: str, params: dict[str, Any], code: int
) -> None:
    with pytest.raises(AgentError) as caught:
        peer.call(method, **params)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("session/prompt", {"prompt": "text"}),
        ("session/prompt", {"prompt": [{"type": "video"}]}),
        ("session/prompt", {"prompt": [{"type": "text"}]}),
        ("session/prompt", {"prompt": [{"type": "resource", "resource": {"uri": "x"}}]}),
        ("session/set_mode", {"modeId": "yolo"}),
        ("session/set_config_option", {"configId": "colour", "value": "red"}),
        ("session/set_config_option", {"configId": "model", "value": "medium"}),
        ("session/set_config_option", {"configId": "model", "value": {}}),
    ],
)
def test_bad_parameters_of_an_open_session_are_invalid(
    peer: Peer, session: str, method: str, more: dict[str, Any]
) -> None:
    with pytest.raises(AgentError) as caught:
        peer.call(method, sessionId=session, **more)
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"no json", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"_demo/echo","params":{"a":NaN}}', -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"3", -32600),
        (b'{"id":1,"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
    ],
)
def test_a_line_that_is_no_message_gets_an_error_with_a_null_id(
    peer: Peer, session: str, line: bytes, code: int
) -> None:
    peer.send(line)
    found = peer.wait_for(lambda: [m for m in peer.messages if "error" in m])[0]
    assert (found["id"], found["error"]["code"]) == (None, code)
    assert peer.prompt(session, "hello") == "end_turn"


def test_an_answer_to_nothing_is_ignored(peer: Peer, session: str) -> None:
    for answer in ({"id": 77, "result": {}}, {"id": "77", "result": 1}, {"id": None, "error": 1}):
        peer.send(json.dumps({"jsonrpc": "2.0", **answer}).encode())
    assert peer.prompt(session, "hello") == "end_turn"


def test_initialize_must_come_first(tmp_path: Path) -> None:
    with Peer(tmp_path) as connected:
        with pytest.raises(AgentError) as caught:
            connected.new_session(tmp_path)
        assert caught.value.code == -32600


def test_ids_of_every_kind_come_back_as_sent(peer: Peer) -> None:
    for request_id in ("a-string", 0, -5):
        message = {"jsonrpc": "2.0", "id": request_id, "method": "_demo/echo", "params": {"x": 1}}
        peer.send(message)
        peer.wait_for(lambda: peer.messages[-1].get("id") == message["id"])  # noqa: B023


def test_the_echo_extension_answers_its_params(peer: Peer) -> None:
    params = {"text": "grüße 🎈 \u2028", "nested": {"a": [1, None]}}
    assert peer.call("_demo/echo", **params) == params
    assert peer.call("_demo/echo", lone="\ud800") == {"lone": "?"}


def test_a_prompt_of_one_huge_line_is_served(peer: Peer, session: str) -> None:
    assert peer.prompt(session, "x" * 3_000_000) == "end_turn"
    assert "3000000 characters" in peer.text()


def test_auth_gates_the_sessions_until_authenticate_and_after_logout(
    tmp_path: Path, work: Path
) -> None:
    with Peer(tmp_path / "store", ACP_DEMO_AUTH="1") as connected:
        result = connected.initialize()
        assert [method["id"] for method in result["authMethods"]] == ["demo"]
        assert result["agentCapabilities"]["auth"] == {"logout": {}}

        def attempt(action: Callable[[], Any]) -> int:
            with pytest.raises(AgentError) as caught:
                action()
            return int(caught.value.code)

        assert attempt(lambda: connected.new_session(work)) == -32000
        assert attempt(lambda: connected.call("authenticate", methodId="other")) == -32602
        assert connected.call("authenticate", methodId="demo") == {}
        session_id = connected.new_session(work)
        assert connected.prompt(session_id, "hello") == "end_turn"
        assert connected.call("logout") == {}
        assert attempt(lambda: connected.prompt(session_id, "hello")) == -32000
        assert attempt(lambda: connected.call("session/list")) == -32000
