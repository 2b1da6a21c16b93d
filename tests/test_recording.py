"""Recordings: their form, how they are written, and what must never be in one."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_jupyter.errors import UsageError
from acp_jupyter.host.recordings import (
    Recordings,
    asks_to_be_recorded,
    notebook_of,
    read_options,
    server_tokens,
)
from acp_jupyter.protocol import recording
from acp_jupyter.protocol.secrets import Redactor
from acp_jupyter.services import recording as service
from acp_jupyter.services.recording import Recorder
from tests.bench.kernels import clean_environment
from tests.recordings import demo, header, lines, made, open_client, prompted, record, recorder_to

ROOT = Path(__file__).parents[1]
CANARY = "canary-9f8e7d6c5b4a"
WHERE: dict[str, Any] = {"connection": 1, "t": 0.5, "turn": 1}
LINES: list[Any] = [
    header(),
    recording.Frame(**WHERE, direction="in", cell="c", message={"jsonrpc": "2.0"}),
    recording.Frame(**WHERE, direction="in", raw="no JSON"),
    recording.Decision(**WHERE, request=1, state="allowed", chosen=0, by="user", waited=1.5),
    recording.Answer(**WHERE, request="a", action="accept", content={"x": 1}, by="user"),
    recording.File(**WHERE, request=3, op="read", path="/w/x", outcome="served", bytes=4),
    recording.Terminal(**WHERE, session="s", ident="t", argv=["ls"], cwd="/w", exit_code=0),
    recording.Notice(**WHERE, session="s", key="k", text="No reply for 10 s."),
    recording.Stop(**WHERE, session="s", how="cancel"),
    recording.Exit(**WHERE, returncode=-9, stderr="oh"),
    recording.End(**WHERE, session="s", stop_reason="end_turn"),
]


def parsed(data: bytes, torn: list[int] | None = None) -> list[recording.Line]:
    return list(
        recording.read(io.BytesIO(data).readline, (torn if torn is not None else []).append)
    )


# -- the form ------------------------------------------------------------------------------------


def test_a_recording_is_read_as_it_was_written():
    assert parsed(b"".join(map(recording.encode, LINES))) == LINES


def test_the_documentation_of_the_form_names_every_type():
    kinds = {json.loads(recording.encode(line))["type"] for line in LINES}
    assert all(f"\n``{kind}``" in str(recording.__doc__) for kind in kinds)


def test_a_line_that_was_torn_off_at_the_end_is_left_out_and_told():
    whole = b"".join(map(recording.encode, LINES))
    for cut in (1, 5, 30):
        torn: list[int] = []
        assert parsed(whole[:-cut], torn) == (LINES if cut == 1 else LINES[:-1])
        assert torn == ([] if cut == 1 else [len(LINES)])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"oh no\n", "malformed"),
        (b'{"type":"frame","connection":1,"t":0,"dir":"sideways"}\n', "sideways"),
        (b'{"type":"frame","connection":1,"t":-1,"dir":"in"}\n', "0"),
        (b'{"type":"frame","connection":true,"t":0,"dir":"in"}\n', "int"),
        (b'{"type":"frame","connection":2,"t":0,"dir":"in"}\n', "has not begun"),
        (b'{"type":"header","version":2}\n', "2"),
        (b'{"type":"magic","connection":1,"t":0}\n', "magic"),
        (b'{"type":"exit","connection":1,"t":0,"returncode":"0"}\n', "str"),
        (
            b'{"type":"frame","connection":1,"t":0,"dir":"in","message":' + b"[" * 500 + b"]" * 500,
            "",
        ),
        (b"[" * 100_000 + b"\n", ""),
        (b"\x00\xff\n", ""),
        (b"[]\n", "object"),
    ],
)
def test_f64_a_line_that_is_none_is_an_error_that_names_it(line, why):
    good = recording.encode(LINES[0])
    with pytest.raises(UsageError, match="line 2 is no line of a recording") as caught:
        parsed(good + line + (b"" if line.endswith(b"\n") else b"}\n") + good)
    assert why in caught.value.message


def test_f64_a_line_without_an_end_is_not_read_into_memory(monkeypatch):
    monkeypatch.setattr(recording, "MAX_RECORDED", 1000)
    asked = []

    def readline(size: int) -> bytes:
        asked.append(size)
        return b"x" * size

    with pytest.raises(UsageError, match="more than 1,000 bytes"):
        list(recording.read(readline))
    assert asked == [1001]


def test_an_empty_file_is_told_as_one():
    with pytest.raises(UsageError, match="empty"):
        parsed(b"")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=3), inner, max_size=3)))  # fmt: skip
def test_any_json_agrees_with_itself_and_survives_a_recording(value):
    value = json.loads(json.dumps(value))
    assert recording.agrees(value, value)
    if len(json.dumps(value)) < 300 and not _is_huge(value):
        frame = recording.Frame(connection=1, t=0.0, direction="in", message=value)
        assert recording.decode(recording.encode(frame)) == frame


def _is_huge(value: object) -> bool:
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) != value)
    except (ValueError, OverflowError):
        return True


@pytest.mark.parametrize(
    ("recorded", "live", "same"),
    [
        ("a [redacted] b", "a secret b", True),
        ("a [redacted] b", "a secret c", False),
        ("[redacted][redacted]", "anything", True),
        ("x[redacted]y[redacted]z", "x1y2z", True),
        ("x[redacted]y[redacted]z", "x1z", False),
        ("ab[redacted]ba", "aba", False),
        ({"a": [1, "[redacted]"]}, {"a": [1, "s"]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (1, True, False),
        ([], {}, False),
    ],
)
def test_a_redacted_part_agrees_with_any_text(recorded, live, same):
    assert recording.agrees(recorded, live) is same


def test_paths_move_with_the_directory_and_nothing_else_does():
    value = {
        "/old": ["/old/x", "see /old.", "file:///old/y", "/older", "/old-2", "a/old/x"],
        "n": 1,
    }
    moved = ["/new/x", "see /new.", "file:///new/y", "/older", "/old-2", "a/old/x"]
    assert recording.relocate(value, "/old", "/new") == {"/old": moved, "n": 1}
    assert recording.relocate("/old", "/", "/new") == "/old"


# -- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o777])
async def test_a_recording_is_for_its_owner_alone_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "x.acp.jsonl"
    before = os.umask(umask)
    try:
        recorder = recorder_to(path)
        connection = recorder.connection(name="a", argv=["a"], cwd="/w", environment={})
        connection.begin_turn()
        connection.end_turn(session="s", stop_reason="end_turn", error="")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_its_place_is_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("")
    link = tmp_path / "x.acp.jsonl"
    link.symlink_to(target)
    with pytest.raises(UsageError, match="links are not followed"):
        recorder_to(link)


async def test_a_link_that_comes_later_is_replaced_and_what_it_names_is_not_touched(tmp_path):
    target, link = tmp_path / "precious", tmp_path / "x.acp.jsonl"
    target.write_text("precious")
    recorder = recorder_to(link)
    link.symlink_to(target)
    recorder.connection(name="a", argv=[], cwd="/w", environment={}).end_turn(
        session="s", stop_reason=None, error=""
    )
    assert target.read_text() == "precious"
    assert not link.is_symlink()
    assert len(lines(link)) == 2


def test_what_is_no_recording_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    for wrong in (path, tmp_path, tmp_path / "no" / "x.acp.jsonl"):
        with pytest.raises(UsageError):
            recorder_to(wrong)
    assert path.read_text() == "notes"


async def test_an_older_recording_is_replaced_by_the_first_turn_and_not_before(tmp_path):
    path = made(tmp_path / "x.acp.jsonl", [])
    before = path.read_bytes()
    recorder = recorder_to(path)
    connection = recorder.connection(name="new", argv=[], cwd="/w", environment={})
    assert path.read_bytes() == before
    connection.end_turn(session="s", stop_reason=None, error="")
    assert [line.agent.name for line in lines(path) if hasattr(line, "agent")] == ["new"]


async def test_each_turn_is_in_the_file_when_it_has_ended(tmp_path):
    path = tmp_path / "x.acp.jsonl"
    async with open_client(recorder_to(path)) as client:
        session = await client.connect(demo(tmp_path), str(tmp_path))
        for number in (1, 2):
            await prompted(session, "hello")
            ends = [line.turn for line in lines(path) if isinstance(line, recording.End)]
            assert ends == list(range(1, number + 1))


async def test_several_connections_are_told_apart(tmp_path):
    path = tmp_path / "x.acp.jsonl"
    recorder = recorder_to(path)
    for _ in range(2):
        async with open_client(recorder) as client:
            await prompted(await client.connect(demo(tmp_path), str(tmp_path)), "hello")
    found = lines(path)
    assert [each.connection for each in found if isinstance(each, recording.Header)] == [1, 2]
    assert {each.connection for each in found if isinstance(each, recording.End)} == {1, 2}
    first = found[0]
    assert (first.agent.title, first.agent.version) == ("Demo Agent", "1.0.0")
    assert first.permissions == "allow"


async def test_who_is_not_recorded_is_not_tapped(tmp_path):
    async with open_client() as client:
        session = await client.connect(demo(tmp_path), str(tmp_path))
        assert session.recording is None
        assert client.agent is not None
        assert client.agent._connection is not None
        assert client.agent._connection._tap is None


def test_a_full_disk_becomes_a_notice_and_no_turn_fails(tmp_path):
    path = tmp_path / "x.acp.jsonl"
    code = f"""
        import resource, acp_jupyter as acp
        with acp.connect("demo", permissions="allow") as agent:
            session = agent.new_session()
            session.prompt("hello")
            size = __import__("os").path.getsize({str(path)!r})
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 500, hard))
            for _ in range(2):
                turn = session.prompt("hello")
                assert turn.stop_reason == "end_turn"
                print([e.text for e in session._live.transcript.entries() if hasattr(e, "key")])
            assert __import__("os").path.getsize({str(path)!r}) == size
    """
    environ = clean_environment(tmp_path) | {
        "ACP_JUPYTER_RECORD": str(path),
        "ACP_DEMO_STORE": str(tmp_path / "sessions"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Recording has ended: File too large") == 2
    assert [line.turn for line in lines(path) if isinstance(line, recording.End)] == [1]


# -- secrets -------------------------------------------------------------------------------------


async def test_f55_no_canary_is_in_a_recording(tmp_path, script, monkeypatch):
    """In the environment, the prompt, the answer, also cut in two, files, commands, the argv."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", CANARY)
    token = "ghp_" + "a1B2" * 8

    def prompt(agent):
        canary, token = agent.given["canary"], agent.given["token"]
        for text in ("the key is " + canary[:9], canary[9:], " and ", token[:12], token[12:]):
            agent.text(text)
        secret = {"password": "hunter22"}
        agent.update(sessionUpdate="tool_call", toolCallId="1", title=canary, rawOutput=secret)
        path = agent.given["path"]
        agent.ask("fs/write_text_file", path=path, content=f"API_KEY={token}")
        agent.ask("fs/read_text_file", path=path)
        made = agent.ask("terminal/create", command="echo", args=[canary])
        agent.ask("terminal/wait_for_exit", terminalId=made["result"]["terminalId"])
        agent.ask("terminal/output", terminalId=made["result"]["terminalId"])
        agent.raw(f"stray {canary}\n".encode())
        print(canary, file=sys.stderr, flush=True)
        os._exit(3)

    given = {"canary": CANARY, "token": token, "path": str(tmp_path / "x.txt")}
    scripted = script(prompt=prompt, given=given)
    path = tmp_path / "x.acp.jsonl"
    spec = demo(tmp_path)
    argv = (*scripted.argv, f"--key={CANARY}")
    from dataclasses import replace

    await record(path, replace(spec, argv=argv), tmp_path, f"{CANARY} password: hunter22!")
    data = path.read_text()
    joined = "".join(
        line.message["params"]["update"]["content"]["text"]
        for line in lines(path)
        if isinstance(line, recording.Frame)
        and isinstance(line.message, dict)
        and "agent_message_chunk" in json.dumps(line.message)
    )
    assert joined == "the key is [redacted] and [redacted]"
    for secret in (CANARY, token, "hunter22", CANARY[9:], token[12:]):
        assert secret not in data, secret
    assert any(isinstance(line, recording.Exit) for line in lines(path))
    assert any(isinstance(line, recording.File) for line in lines(path))


def test_f55_the_tokens_of_running_servers_are_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "jpserver-1.json").write_text(json.dumps({"token": "t" * 20, "port": 1}))
    (tmp_path / "jpserver-2.json").write_text("broken")
    (tmp_path / "jpserver-3.json").write_text("[]")
    assert server_tokens() == {"t" * 20}


def test_a_secret_in_pieces_becomes_the_first_piece():
    redactor = Redactor([CANARY])
    assert redactor.pieces(["a ", "b"]) == ["a ", "b"]
    assert redactor.pieces([f"a {CANARY}", " b"]) == ["a [redacted]", " b"]
    assert redactor.pieces(["a " + CANARY[:5], CANARY[5:], " b"]) == ["a [redacted] b", "", ""]


# -- who asks for it -----------------------------------------------------------------------------


def test_the_metadata_of_a_saved_notebook_can_ask_to_be_recorded(tmp_path):
    notebook = tmp_path / "my notebook.ipynb"
    for metadata, asked in [
        ({"acp": {"record": True}}, True),
        ({"acp": {"record": "yes"}}, False),
        ({"acp": []}, False),
        ({}, False),
    ]:
        notebook.write_text(json.dumps({"metadata": metadata}))
        assert asks_to_be_recorded(notebook) is asked
    notebook.write_text("broken")
    assert not asks_to_be_recorded(notebook)
    assert not asks_to_be_recorded(tmp_path / "none.ipynb")


def test_a_notebook_that_asks_is_recorded_beside_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    notebook = tmp_path / "my notebook.ipynb"
    notebook.write_text(json.dumps({"metadata": {"acp": {"record": True}}}))
    environ = {"JPY_SESSION_NAME": str(notebook)}
    found = notebook_of(environ, by_server=True)
    recorder = Recordings(environ, found).current()
    assert recorder is not None
    assert recorder.path == tmp_path / "my notebook.acp.jsonl"
    assert notebook_of(environ, by_server=False) is None
    assert notebook_of({"JPY_SESSION_NAME": "my notebook.ipynb"}, by_server=True) is None
    assert Recordings({}, found and None).current() is None


def test_recording_can_be_turned_off_against_environment_and_metadata(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    recordings = Recordings({"ACP_JUPYTER_RECORD": str(tmp_path / "x.acp.jsonl")}, None)
    assert recordings.stop() is None
    assert recordings.current() is None
    with pytest.raises(UsageError, match="notebook's own file is not known"):
        recordings.start()


def test_the_options_of_a_replay_are_read():
    source, rest = read_options(["--speed=original", "x", "--apply-files"])
    assert (source.original, source.apply_files, rest) == (True, True, ["x"])
    assert not read_options(["--speed", "full"])[0].original
    with pytest.raises(UsageError, match="no such speed"):
        read_options(["--speed", "warp"])


async def test_a_write_that_fails_leaves_whole_lines(tmp_path, monkeypatch):
    path = tmp_path / "x.acp.jsonl"
    recorder = Recorder(path, environment={}, client="1.0")
    connection = recorder.connection(name="a", argv=[], cwd="/w", environment={})
    told: list[str] = []
    connection.on_failure = told.append
    connection.end_turn(session="s", stop_reason=None, error="")
    before = path.read_bytes()

    def half(fd: int, data: bytes) -> None:
        os.write(fd, data[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(service, "_write_all", half)
    for _ in range(2):
        connection.end_turn(session="s", stop_reason=None, error="")
    assert told == ["No space left on device"]
    assert path.read_bytes() == before
