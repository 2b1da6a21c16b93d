"""Replaying: the same turns again, nothing touched, nobody asked; and all that may be wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import nbformat
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import acp_jupyter as acp
from acp_jupyter.errors import (
    AgentExited,
    AgentUnresponsive,
    RequestError,
    TurnCancelled,
    UsageError,
)
from acp_jupyter.protocol import recording
from acp_jupyter.services.agents import from_command
from acp_jupyter.services.elicitation import Answer
from acp_jupyter.services.replay import Tapes
from acp_jupyter.session.limits import Limits
from acp_jupyter.session.transcript import ElicitationEntry, NoticeEntry, PermissionEntry
from tests.bench.kernels import clean_environment, write_kernel_specs
from tests.conftest import trio_wait_until
from tests.kernel_client import open_kernel
from tests.live_kernel import kernel_environment
from tests.recordings import (
    demo,
    end_frame,
    greeted,
    header,
    made,
    open_client,
    prompt_frame,
    prompted,
    record,
    recorder_to,
    replay,
    replay_spec,
    request_frame,
    text,
    told,
)

ROOT = Path(__file__).parents[1]
SANITIZER = ROOT / "acp_jupyter" / "nbval_sanitize.cfg"
QUICKSTART = ROOT / "notebooks" / "01-quickstart.ipynb"
EVERYTHING = (
    "hello",
    "plan Look, Write; think hm; write a.txt: one; read a.txt; edit a.txt: one -> two",
    "run echo $((6 * 7)); run false; table; show image; unknown; notice careful; compact",
    "permissions 3; usage; mode trust; title New title; commands; delete a.txt",
    "fail",
    "refuse",
    "max tokens",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.acp.jsonl"


def entries(session: Any, kind: type) -> list[Any]:
    return [entry for entry in session.transcript.entries() if isinstance(entry, kind)]


# -- the same again ------------------------------------------------------------------------------


async def test_a_replay_shows_what_the_run_showed_and_touches_nothing(tmp_path, path):
    then = await record(path, demo(tmp_path), tmp_path / "then", *EVERYTHING)
    now = await replay(path, tmp_path / "now", *EVERYTHING)
    assert now == then
    assert now["stops"][-3:] == [("", ""), ("refusal", ""), ("max_tokens", "")] or now["stops"]
    assert os.listdir(tmp_path / "now") == []


async def test_a_replay_runs_no_command(tmp_path, path):
    marker = tmp_path / "marker"
    prompts = [f"run touch {marker}"]
    then = await record(path, demo(tmp_path), tmp_path / "then", *prompts)
    marker.unlink()
    assert await replay(path, tmp_path / "now", *prompts, policy="allow") == then
    assert not marker.exists()


class Clicks:
    """A user who answers in turn what the test says."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def ask(self, _entry: PermissionEntry) -> int | None:
        return self.answers.pop(0)

    async def elicit(self, _entry: ElicitationEntry) -> Answer:
        return self.answers.pop(0)


async def test_decisions_are_shown_as_they_were_made_and_nobody_is_asked(tmp_path, path):
    prompts = ["write a.txt: x", "write b.txt: x", "run echo hi", "ask Tea? yes | no"]
    answer = Answer("accept", {"answer": "yes"})

    async def turn_by_turn(session: Any, askers: list[Any]) -> Any:
        for prompt in prompts:
            session.permissions.askers = askers
            await session.prompt(text(prompt))
        return told(session), [each.as_json() for each in session.decisions]

    os.makedirs(tmp_path / "w")
    async with open_client(recorder_to(path), "ask") as client:
        session = await client.connect(demo(tmp_path), str(tmp_path / "w"))
        await greeted(session)
        then = await turn_by_turn(session, [Clicks(0, None, 0, answer)])
        by = [entry.decided_by for entry in entries(session, PermissionEntry)]
        assert by == ["user", "user", "user"]
    async with open_client(policy="ask") as client:
        session = await client.connect(replay_spec(path), str(tmp_path / "w"))
        await greeted(session)
        now = await turn_by_turn(session, [Clicks()])  # it would fail if it was asked
        states = [entry.state for entry in entries(session, PermissionEntry)]
        assert states == ["allowed", "denied", "allowed"]
        asked = entries(session, ElicitationEntry)
        assert [(each.state, each.answers) for each in asked] == [("accepted", {"answer": "yes"})]
    assert now == then


async def test_a_protected_file_is_asked_for_as_it_was(tmp_path, path, script):
    def prompt(agent):
        agent.note("answer", agent.ask("fs/write_text_file", path=agent.given["path"], content="x"))
        agent.end()

    target = tmp_path / ".git" / "hooks" / "pre-commit"
    scripted = script(prompt=prompt, given={"path": str(target)})
    os.makedirs(tmp_path / "w")
    async with open_client(recorder_to(path), "ask") as client:
        session = await client.connect(from_command(scripted.argv), str(tmp_path))
        session.permissions.askers = [Clicks(0)]
        await session.prompt(text("go"))
        then = told(session)
    assert target.read_text() == "x"
    target.unlink()
    assert await replay(path, tmp_path, "go") == then
    assert not target.exists()


async def test_the_agents_of_a_replay_may_be_ended_and_started_again(tmp_path, path):
    os.makedirs(tmp_path / "w")
    runs = []
    for recorder in (recorder_to(path), None):
        async with open_client(recorder) as client:
            found = []
            spec = replay_spec(path) if recorder is None else demo(tmp_path)
            session = await client.connect(spec, str(tmp_path / "w"))
            await greeted(session)
            found.append((await prompted(session, "hello"), told(session)))
            session = await client.restart()
            await greeted(session)
            found.append((await prompted(session, "crash"), told(session)))
            session = await client.session()
            await greeted(session)
            found.append((await prompted(session, "hello"), told(session)))
            runs.append([(list(map(repr, failures)), shown) for failures, shown in found])
    for then, now in zip(*runs, strict=True):
        assert now == then
    assert "exited with code 17 during this turn" in runs[1][1][0][0]


async def test_a_crash_is_replayed_with_its_status_and_last_words(tmp_path, path, script):
    def prompt(agent):
        agent.text("so far")
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 11)
        agent.hang()

    scripted = script(prompt=prompt)
    then = await record(path, from_command(scripted.argv), tmp_path / "w", "go")
    async with open_client() as client:
        session = await client.connect(replay_spec(path), str(tmp_path / "w"))
        (failure,) = await prompted(session, "go")
        assert isinstance(failure, AgentExited)
        assert failure.returncode == -11
        assert "last words" in failure.stderr
        assert told(session) == then


async def test_a_cancel_is_replayed_where_it_was(tmp_path, path):
    os.makedirs(tmp_path / "w")
    async with open_client(recorder_to(path)) as client:
        session = await client.connect(demo(tmp_path), str(tmp_path / "w"))
        await greeted(session)

        async def cancel() -> None:
            await trio_wait_until(lambda: session.transcript.turn.entries)
            session.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            with pytest.raises(TurnCancelled):
                await session.prompt(text("slow 100"))
        await session.prompt(text("hello"))
        then = told(session)
    async with open_client() as client:
        session = await client.connect(replay_spec(path), str(tmp_path / "w"))
        await greeted(session)
        with pytest.raises(TurnCancelled):
            await session.prompt(text("slow 100"))
        await session.prompt(text("hello"))
        assert told(session) == then


async def test_a_limit_and_a_kill_are_replayed(tmp_path, path, script):
    def prompt(agent):
        agent.text("going")
        agent.hang()

    scripted = script(prompt=prompt)
    os.makedirs(tmp_path / "w")
    shown = []
    for recorder in (recorder_to(path), None):
        async with open_client(recorder) as client:
            spec = replay_spec(path) if recorder is None else from_command(scripted.argv)
            session = await client.connect(spec, str(tmp_path / "w"))

            async def kill(session: Any = session) -> None:
                await trio_wait_until(lambda: session.transcript.turn.cancel_requested)
                session.cancel()

            async with trio.open_nursery() as nursery:
                if recorder is not None:
                    nursery.start_soon(kill)
                with pytest.raises(AgentUnresponsive, match="second interrupt"):
                    await session.prompt(text("go"), limits=Limits(seconds=0.2))
            shown.append(told(session))
    assert shown[0] == shown[1]
    assert "Stopped: it took longer than its limit of 0.2 s" in json.dumps(shown)


async def test_a_replay_can_be_cancelled_and_goes_on_with_the_next_turn(tmp_path, path):
    await record(path, demo(tmp_path), tmp_path / "w", "slow 30", "hello")
    async with open_client() as client:
        spec = replay_spec(path, original=True)
        session = await client.connect(spec, str(tmp_path / "w"))

        async def cancel() -> None:
            await trio_wait_until(lambda: session.transcript.turn.entries)
            session.cancel()

        begun = time.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            with pytest.raises(TurnCancelled):
                await session.prompt(text("slow 30"))
        assert time.monotonic() - begun < 2.5
        turn = await session.prompt(text("hello"))
        assert turn.stop_reason == "end_turn"


async def test_original_speed_takes_the_time_it_took_and_full_speed_does_not(tmp_path, path):
    await record(path, demo(tmp_path), tmp_path / "w", "slow 12")
    for original, low, high in ((True, 1.0, 30.0), (False, 0.0, 1.0)):
        async with open_client() as client:
            spec = replay_spec(path, original=original)
            session = await client.connect(spec, str(tmp_path / "w"))
            turn = await session.prompt(text("slow 12"))
            assert turn.ended is not None
            assert low <= turn.ended - turn.started <= high


async def test_recorded_writes_are_made_when_asked_for(tmp_path, path):
    prompts = ["write a.txt: one", "edit a.txt: one -> two"]
    then = await record(path, demo(tmp_path), tmp_path / "then", *prompts)
    now = await replay(path, tmp_path / "now", *prompts, policy="ask", apply_files=True)
    assert now == then
    assert (tmp_path / "now" / "a.txt").read_text() == "two"


async def test_f64_a_recording_cannot_have_protected_files_written(tmp_path, path):
    """What it says was decided is no consent."""
    target = tmp_path / "w" / ".git" / "hooks" / "pre-commit"
    outside = tmp_path / "outside.txt"
    about = {"file": {"operation": "write", "path": str(target), "reason": "it runs by itself",
                      "old_text": None, "new_text": "evil"}}  # fmt: skip
    where: dict[str, Any] = {"connection": 1, "t": 0.0}
    found: list[Any] = [prompt_frame("go")]
    for ident, wanted in ((7, target), (8, outside)):
        found += [
            request_frame(ident, "fs/write_text_file", path=str(wanted), content="evil"),
            recording.Decision(
                **where, request=ident, state="allowed", chosen=0, by="user", about=about
            ),
            recording.File(
                **where, request=ident, op="write", path=str(wanted), outcome="served", bytes=4
            ),
            ("out", {"jsonrpc": "2.0", "id": ident, "result": {}}),
        ]
    made(path, [*found, end_frame()], tmp_path / "w")
    os.makedirs(tmp_path / "w")
    async with open_client(policy="allow") as client:
        session = await client.connect(replay_spec(path, apply_files=True), str(tmp_path / "w"))
        await session.prompt(text("go"))
        notices = " ".join(entry.text for entry in entries(session, NoticeEntry))
    assert notices.count("The replay did not write") == 2
    assert not target.exists()
    assert not outside.exists()


# -- what was not recorded -----------------------------------------------------------------------


async def test_another_prompt_fails_and_says_what_was_recorded(tmp_path, path):
    await record(path, demo(tmp_path), tmp_path / "w", "hello", "table")
    async with open_client() as client:
        session = await client.connect(replay_spec(path), str(tmp_path / "w"))
        failures = await prompted(session, "something else", "hello", "table", "table")
        assert isinstance(failures[0], RequestError)
        assert "this was not recorded: the prompt 'something else'" in failures[0].message
        assert "in its place the recording has the prompt 'hello'" in failures[0].message
        assert "record it again" in failures[0].message
        assert failures[1:3] == [None, None]
        assert "the recording ends before it" in str(failures[3])


async def test_a_connection_too_many_fails_and_says_what_there_is(tmp_path, path):
    await record(path, demo(tmp_path), tmp_path / "w", "hello")
    tapes = Tapes()
    first = await tapes.take(replay_spec(path), again=False)
    assert first.name == "demo"
    with pytest.raises(UsageError, match=r"no further connection.*demo \(1\)"):
        await tapes.take(replay_spec(path), again=False)
    assert (await tapes.take(replay_spec(path), again=True)).argv == first.argv
    with pytest.raises(UsageError, match="connection to agent 'codex'"):
        await tapes.take(replay_spec(path, agent="codex"), again=True)


def test_a_recording_that_is_not_there_is_told_at_once(tmp_path):
    with pytest.raises(UsageError, match="there is no recording") as caught:
        replay_spec(tmp_path / "none")
    assert "%acp record" in caught.value.remedy


async def test_a_torn_recording_is_replayed_as_far_as_it_goes(tmp_path, path):
    await record(path, demo(tmp_path), tmp_path / "w", "hello", "count 500")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 2000])
    async with open_client() as client:
        session = await client.connect(replay_spec(path), str(tmp_path / "w"))
        failures = await prompted(session, "hello", "count 500")
        assert failures[0] is None
        assert "the recording ends before its answer" in str(failures[1])
        assert session.transcript.turn.entries


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a recording\n",
        b"\x00" * 10_000,
        b"[" * 1_000_000 + b"\n",
        recording.encode(header()) + b"x" * 1_000_000 + b"\n",
        recording.encode(header()) + b'{"type":"frame","connection":[]}\n',
        recording.encode(header()) * 2 + b"{}\n",
    ],
)
async def test_f64_what_is_no_recording_is_refused_before_anything_starts(tmp_path, path, data):
    path.write_bytes(data)
    async with open_client() as client:
        with pytest.raises(UsageError, match=re.escape(path.name)):
            await client.connect(replay_spec(path), str(tmp_path))
        assert client.agent is None


def answered(agent: Any, ident: int) -> bool:
    """Whether the client has answered that request of the agent's."""
    sent = [line.line for line in agent.log if line.sent and b'"method":' not in line.line]
    return any(b'"id":%d,' % ident in line for line in sent)


async def test_f64_requests_without_an_answer_in_the_recording_touch_nothing(tmp_path, path):
    """It asks for files, commands and consent, and brings no decision."""
    secret, made_file = tmp_path / "secret.txt", tmp_path / "made"
    secret.write_text("precious")
    choices = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "Delete all"}
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    found: list[Any] = [
        prompt_frame("go"),
        request_frame(1, "fs/read_text_file", path=str(secret)),
        request_frame(2, "fs/write_text_file", path=str(secret), content="evil"),
        request_frame(3, "terminal/create", command="touch", args=[str(made_file)]),
        request_frame(4, "session/request_permission", toolCall=call, options=choices),
        request_frame(5, "elicitation/create", mode="form", message="?", requestedSchema=form),
        request_frame(6, "no/such_method"),
        end_frame(),
    ]
    made(path, found, tmp_path)
    async with open_client(policy="allow") as client:
        session = await client.connect(replay_spec(path, apply_files=True), str(tmp_path))
        await prompted(session, "go")
        assert client.agent is not None
        for ident in range(1, 7):
            await trio_wait_until(partial(answered, client.agent, ident))
        (question,) = entries(session, PermissionEntry)
        assert (question.state, question.reason) == (
            "denied",
            "the recording has no decision for it",
        )
        assert [entry.state for entry in entries(session, ElicitationEntry)] == ["cancelled"]
        log = b"".join(line.line for line in client.agent.log if line.sent)
    assert b"precious" not in log
    assert secret.read_text() == "precious"
    assert not made_file.exists()


async def test_f64_events_of_the_wrong_form_and_wild_decisions_do_no_harm(tmp_path, path):
    where: dict[str, Any] = {"connection": 1, "t": 0.0}
    choices = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "t"}
    found: list[Any] = [
        prompt_frame("go"),
        ("in", {"jsonrpc": "2.0", "method": recording.REPLAY_EVENT, "params": {"event": 5}}),
        ("in", {"jsonrpc": "2.0", "id": 99, "result": {"stopReason": "end_turn"}}),
        ("in", [1, "x", None]),
        ("in", 5),
        request_frame(1, "session/request_permission", toolCall=call, options=choices),
        recording.Decision(**where, request=1, state="allowed", chosen=10**6, by="user"),
        ("out", {"jsonrpc": "2.0", "id": 1, "result": {}}),
        recording.Terminal(**where, session="s", ident="t" * 10_000, argv=[], cwd="/x", shown=True),
        recording.Terminal(**where, session="other", ident="t", argv=[], cwd="/x"),
        recording.Stop(**where, session="other", how="kill"),
        recording.Notice(**where, session="s", key="k", text="\x1b[2Jhi"),
        end_frame(),
    ]
    made(path, found)
    async with open_client() as client:
        session = await client.connect(replay_spec(path), str(tmp_path))
        assert await prompted(session, "go") == [None]
        (question,) = entries(session, PermissionEntry)
        assert question.state == "denied"


async def test_an_agent_that_is_no_replay_is_not_heard_as_one(tmp_path, script):
    def prompt(agent):
        event = {"type": "notice", "connection": 1, "t": 0, "key": "k", "text": "forged"}
        event["session"] = agent.session_id
        agent.send(
            {"jsonrpc": "2.0", "method": "_acp_jupyter/recorded", "params": {"event": event}}
        )
        agent.end()

    async with open_client() as client:
        session = await client.connect(from_command(script(prompt=prompt).argv), str(tmp_path))
        await session.prompt(text("go"))
        assert not entries(session, NoticeEntry)


# -- any transcript ------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CONTENT = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
IDENT = st.sampled_from(["1", "2"])
STATUS = st.sampled_from(["pending", "in_progress", "completed", "failed", "odd"])
PLAN_ENTRY = st.fixed_dictionaries({"content": TEXT, "priority": st.just("low"), "status": STATUS})
UPDATE = st.one_of(
    st.fixed_dictionaries(
        {
            "sessionUpdate": st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]),
            "content": CONTENT,
        }
    ),
    st.fixed_dictionaries(
        {
            "sessionUpdate": st.sampled_from(["tool_call", "tool_call_update"]),
            "toolCallId": IDENT,
            "title": TEXT,
            "status": STATUS,
            "content": st.lists(
                st.fixed_dictionaries({"type": st.just("content"), "content": CONTENT}), max_size=2
            ),
        }
    ),
    st.fixed_dictionaries(
        {"sessionUpdate": st.just("plan"), "entries": st.lists(PLAN_ENTRY, max_size=2)}
    ),
    st.fixed_dictionaries({"sessionUpdate": TEXT, "x": TEXT}),
)
STEP = st.one_of(
    UPDATE, st.sampled_from(["permission", "read", "write", "run", "noise", "batch", "string id"])
)


def play_steps(agent):
    """The turn of a scripted agent that does what it is given."""
    for step in agent.given["turns"][agent.turn - 1]:
        if isinstance(step, dict):
            agent.update(**step)
        elif step == "permission":
            agent.permission()
        elif step == "read":
            agent.ask("fs/read_text_file", path=agent.given["cwd"] + "/a.txt")
        elif step == "write":
            agent.ask("fs/write_text_file", path=agent.given["cwd"] + "/a.txt", content="x\n")
        elif step == "run":
            made = agent.ask("terminal/create", command="echo", args=["hi"])["result"]["terminalId"]
            agent.ask("terminal/wait_for_exit", terminalId=made)
            agent.ask("terminal/output", terminalId=made)
            agent.ask("terminal/release", terminalId=made)
        elif step == "noise":
            agent.raw(b"Loading\xff...\n{\n")
        elif step == "batch":
            content = {"type": "text", "text": "b"}
            chunk = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": agent.session_id, "update": chunk}
            agent.send([{"jsonrpc": "2.0", "method": "session/update", "params": params}] * 2)
    if "string id" in agent.given["turns"][agent.turn - 1]:
        agent.reply({"stopReason": "end_turn"}, ident=str(agent.current_id))
    else:
        agent.end()


@pytest.mark.slow
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(turns=st.lists(st.lists(STEP, max_size=8), min_size=1, max_size=3))
def test_any_transcript_is_replayed_as_it_was(turns, script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    given = {"turns": turns, "cwd": str(folder / "then")}
    scripted = script_in(folder, given)
    prompts = [f"turn {number}" for number in range(len(turns))]

    async def both() -> tuple[Any, Any]:
        with trio.fail_after(60):
            path = folder / "x.acp.jsonl"
            spec = from_command(scripted)
            then = await record(path, spec, folder / "then", *prompts)
            return then, await replay(path, folder / "now", *prompts)

    then, now = trio.run(both)
    assert now == then
    assert os.listdir(folder / "now") == []


def script_in(folder: Path, given: dict[str, Any]) -> tuple[str, ...]:
    from tests.scripted import Script

    return Script(folder / "script", {"prompt": play_steps}, given=given).argv


# -- the surfaces --------------------------------------------------------------------------------


def settings_of_nobody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("JUPYTER", "JPY_", "ACP_JUPYTER_")):
            monkeypatch.delenv(name)
    for name, value in clean_environment(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ACP_DEMO_STORE", str(home / "sessions"))


def test_a_program_records_and_replays(tmp_path, path, monkeypatch):
    settings_of_nobody(tmp_path, monkeypatch)
    workspace = tmp_path / "w"
    workspace.mkdir()
    monkeypatch.setenv("ACP_JUPYTER_RECORD", str(path))
    with acp.connect("demo", cwd=workspace, permissions="allow") as agent:
        then = agent.new_session().prompt("write a.txt: hi")
    monkeypatch.delenv("ACP_JUPYTER_RECORD")
    (workspace / "a.txt").unlink()
    with acp.connect(f"replay:{path}", cwd=workspace) as agent:
        now = agent.new_session().prompt("write a.txt: hi")
        assert agent.name == "Demo Agent 1.0.0"
    assert (now.text, now.stop_reason) == (then.text, then.stop_reason)
    assert [each.state for each in now.permissions] == ["allowed"]
    assert os.listdir(workspace) == []


def test_the_environment_replays_in_place_of_any_agent(tmp_path, path, monkeypatch):
    settings_of_nobody(tmp_path, monkeypatch)
    made(path, [prompt_frame("go"), end_frame()])
    monkeypatch.setenv("ACP_JUPYTER_REPLAY", str(path))
    with acp.connect("agent", cwd=tmp_path) as agent:  # which is not installed here
        assert agent.new_session().prompt("go").stop_reason == "end_turn"
    with pytest.raises(UsageError, match="no further connection to agent 'demo'"):
        acp.connect("demo", cwd=tmp_path)
    monkeypatch.setenv("ACP_JUPYTER_REPLAY_OPTIONS", "--fast")
    with pytest.raises(UsageError, match="--fast"):
        acp.connect("agent", cwd=tmp_path)
    monkeypatch.setenv("ACP_JUPYTER_REPLAY", str(tmp_path / "none"))
    monkeypatch.setenv("ACP_JUPYTER_REPLAY_OPTIONS", "")
    with pytest.raises(UsageError, match="there is no recording"):
        acp.connect("agent", cwd=tmp_path)


def test_a_notebook_records_and_replays_with_magics(tmp_path):
    with open_kernel(tmp_path / "k", environment={"ACP_DEMO_STORE": str(tmp_path / "s")}) as kernel:
        assert "Recording: off." in kernel.run("%acp record off").ok().text
        kernel.run("%acp record").failed("UsageError")
        kernel.run("%acp record a b").failed("UsageError")
        cell = kernel.run("%acp record talk.acp.jsonl").ok()
        assert "Recording: talk.acp.jsonl, from the next connect on." in cell.text
        kernel.run("%acp permissions allow").ok()
        kernel.run("%acp connect demo").ok()
        then = kernel.run("write a.txt: one").ok()
        python = kernel.run("%%acp\nrun echo hi").ok()
        assert "talk.acp.jsonl is kept" in kernel.run("%acp record off").ok().text
        assert kernel.cwd.joinpath("talk.acp.jsonl").stat().st_mode & 0o777 == 0o600
        kernel.cwd.joinpath("a.txt").unlink()
        kernel.run("%acp permissions deny").ok()
        kernel.run("%acp connect replay:talk.acp.jsonl --speed warp").failed("UsageError")
        kernel.run("%acp connect replay:none").failed("UsageError")
        kernel.run("%acp connect replay:talk.acp.jsonl --speed original").ok()
        assert "a replay of talk.acp.jsonl" in kernel.run("%acp").ok().text
        again = kernel.run("write a.txt: one").ok()
        assert untimed(again.text) == untimed(then.text)
        assert untimed(kernel.run("%%acp\nrun echo hi").ok().text) == untimed(python.text)
        failed = kernel.run("tell me more").failed("RequestError")
        assert "this was not recorded" in failed.traceback
        assert not kernel.cwd.joinpath("a.txt").exists()
        kernel.run("%acp connect replay:talk.acp.jsonl --apply-files").ok()
        kernel.run("write a.txt: one").ok()
        assert kernel.cwd.joinpath("a.txt").read_text() == "one"


def untimed(shown: str) -> str:
    return re.sub(r"\d+\.\d s\b", "0.0 s", shown)


def patterns() -> list[tuple[str, str]]:
    """As nbval reads them."""
    found = SANITIZER.read_text()
    return re.findall("^regex: (.*)$\n^replace: (.*)$", found, flags=re.MULTILINE)


def sanitized(notebook: Path) -> list[Any]:
    """The outputs of all cells, after the shipped sanitizers."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            for pattern, replacement in patterns():
                value = re.sub(pattern, replacement, value)
            return value
        if isinstance(value, list):
            return [clean(item) for item in value]
        return {k: clean(v) for k, v in value.items()} if isinstance(value, dict) else value

    cells = nbformat.read(notebook, as_version=4).cells
    return [clean(json.loads(json.dumps(cell.get("outputs")))) for cell in cells]


def command(
    words: list[str], environ: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=150,
    )


@pytest.mark.slow
def test_the_quickstart_is_replayed_byte_for_byte_and_under_nbval(tmp_path):
    write_kernel_specs(tmp_path)
    environ = kernel_environment(tmp_path) | {
        "ACP_DEMO_STORE": str(tmp_path / "sessions"),
        "ACP_JUPYTER_OUTPUT": "final",
    }
    then, now = tmp_path / "then", tmp_path / "here" / "now"
    then.mkdir()
    now.mkdir(parents=True)
    (then / "nb.ipynb").write_bytes(QUICKSTART.read_bytes())
    recording_environ = environ | {"ACP_JUPYTER_RECORD": "nb.acp.jsonl"}
    run = ["acp_jupyter.cli", "run", "nb.ipynb", "-o", "nb.ipynb", "--quiet"]
    done = command([*run, "--permissions", "allow"], recording_environ, then)
    assert done.returncode == 0, done.stderr
    for name in ("nb.ipynb", "nb.acp.jsonl"):
        (now / name).write_bytes((then / name).read_bytes())

    replayed = ["acp_jupyter.cli", "replay", "nb.ipynb", "-o", "out.ipynb", "--quiet"]
    done = command([*replayed, "--apply-files"], environ, now)
    assert done.returncode == 0, done.stderr
    assert sanitized(now / "out.ipynb") == sanitized(then / "nb.ipynb")
    assert (now / "greeting.txt").read_bytes() == (then / "greeting.txt").read_bytes()

    nbval = ["pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(now), "--nbval"]
    if not any(each.name == "acp_jupyter" for each in entry_points(group="pytest11")):
        nbval += ["-p", "acp_jupyter.nbval_plugin"]  # a checkout that was installed before it
    nbval += ["-q", "nb.ipynb"]
    nbval += ["--acp-replay", "--acp-apply-files"]
    del environ["ACP_JUPYTER_OUTPUT"]
    (now / "greeting.txt").unlink()
    done = command(nbval, environ, now)
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout

    (now / "nb.acp.jsonl").unlink()
    done = command(nbval, environ, now)
    assert done.returncode == 1
    assert "there is no nb.acp.jsonl beside it" in done.stdout
    done = command(replayed, environ, now)
    assert done.returncode == 1
    assert "there is no recording" in done.stderr


def test_the_plugin_leaves_other_runs_alone(tmp_path):
    (tmp_path / "test_x.py").write_text(
        "import os\ndef test_x():\n    assert 'ACP_JUPYTER_OUTPUT' not in os.environ\n"
    )
    environ = clean_environment(tmp_path)
    words = ["pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = command([*words, "-q", "-W", "error", str(tmp_path)], environ, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
