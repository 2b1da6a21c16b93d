"""The Python API in a plain program: agents, sessions and turns as objects, with and without await.

The bundled agent does what it is asked; nothing here runs in a notebook (`tests/test_extension.py`
does).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest

import acp_jupyter as acp
from acp_jupyter.errors import (
    AgentExited,
    AgentNotFound,
    RequestError,
    TurnCancelled,
    TurnError,
    TurnRunning,
    UsageError,
)
from acp_jupyter.session.transcript import MessageEntry, Transcript
from tests.bench.kernels import clean_environment
from tests.conftest import alive, wait_until

ROOT = Path(__file__).parents[1]
DEMO = [sys.executable, "-P", "-m", "acp_jupyter.demo_agent"]
LIMIT = 40.0


@pytest.fixture(autouse=True)
def _settings_of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("JUPYTER", "JPY_", "ACP_JUPYTER_")):
            monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)


def environment(home: Path) -> dict[str, str]:
    python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return clean_environment(home) | {
        "ACP_DEMO_STORE": str(home / "sessions"),
        "PYTHONPATH": python_path,
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
def agent(workspace: Path) -> Iterator[acp.Agent]:
    with acp.connect("demo", cwd=workspace, permissions="allow") as running:
        yield running


def run_async(coroutine: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT):
            return await coroutine

    return asyncio.run(bounded())


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


# -- connecting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["demo", DEMO, " ".join(DEMO)], ids=["name", "list", "command"])
def test_an_agent_is_given_by_name_by_list_or_by_command_line(given: Any) -> None:
    with acp.connect(given) as agent:
        assert agent.alive
        assert agent.name == "Demo Agent 1.0.0"
        assert agent.capabilities["loadSession"] is True
        assert "You said (5 characters)" in agent.new_session().prompt("hello").text


def test_paths_may_be_part_of_a_command() -> None:
    with acp.connect([Path(sys.executable), *DEMO[1:]]) as agent:  # type: ignore[list-item]
        assert agent.alive


def test_variables_reach_the_agent_and_nobody_else(workspace: Path) -> None:
    with acp.connect("demo", cwd=workspace, env={"ACP_DEMO_AUTH": "0", "GREETING": "hi"}) as agent:
        child = agent._link.agent
        assert child is not None
        assert child.environment["GREETING"] == "hi"
        assert "GREETING" not in os.environ


def test_a_session_works_in_the_directory_it_was_given(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    with acp.connect("demo", cwd=workspace, permissions="allow") as agent:
        assert agent.new_session().cwd == str(workspace.resolve())
        below = agent.new_session("sub")
        assert below.cwd == str((workspace / "sub").resolve())
        below.prompt("write f.txt: here")
    assert (workspace / "sub" / "f.txt").read_text() == "here"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("demmo",), UsageError, "demo"),
        ((["no-such-program-anywhere"],), AgentNotFound, "no-such-program-anywhere"),
        (([],), UsageError, "no command"),
    ],
)
def test_an_agent_that_cannot_be_started_says_why_and_leaves_nothing_behind(
    arguments: Any, error: type[Exception], words: str
) -> None:
    before = threading.active_count()
    with pytest.raises(error, match=words):
        acp.connect(*arguments)
    assert children() == []
    wait_until(lambda: threading.active_count() <= before + 1)  # trio keeps one idle worker


def test_an_agent_works_in_the_roots_that_it_was_given_and_no_others(
    tmp_path: Path, workspace: Path
) -> None:
    for name in ("more", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(f"text of {name}")
    more = str((tmp_path / "more").resolve())
    with acp.connect(DEMO, cwd=workspace, permissions="allow", roots=[more]) as agent:
        session = agent.new_session()
        assert session.roots == [session.cwd, more]
        assert "12 characters" in session.prompt(f"read {more}/file.txt").text
        refused = session.prompt(f"read {tmp_path}/outside/file.txt").text
        assert "outside the session's roots" in refused
    with pytest.raises(UsageError, match="nowhere is no directory"):
        acp.connect(DEMO, cwd=workspace, roots=["nowhere"])


def test_a_directory_that_is_none_is_refused(tmp_path: Path, agent: acp.Agent) -> None:
    with pytest.raises(UsageError, match="no directory"):
        acp.connect("demo", cwd=tmp_path / "missing")
    with pytest.raises(UsageError, match="no directory"):
        agent.new_session("missing")


def test_an_unknown_policy_is_refused_before_anything_is_started() -> None:
    with pytest.raises(UsageError, match="perhaps"):
        acp.connect("demo", permissions="perhaps")
    assert children() == []


@pytest.mark.parametrize(("policy", "written"), [("allow", True), ("deny", False), ("ask", False)])
def test_the_policy_decides_and_where_nobody_can_be_asked_the_answer_is_no(
    workspace: Path, policy: str, written: bool
) -> None:
    with acp.connect("demo", cwd=workspace, permissions=policy) as agent:
        turn = agent.new_session().prompt("write f.txt: x")
    assert (workspace / "f.txt").exists() is written
    assert [asked.state for asked in turn.permissions] == ["allowed" if written else "denied"]
    assert turn.permissions[0].decided_by in ("policy", "nobody")


def test_settings_give_names_to_agents(tmp_path: Path) -> None:
    (tmp_path / "config" / "jupyter_acp_config.json").write_text(
        '{"ACPJupyter": {"agents": {"mine": ' + repr(DEMO).replace("'", '"') + "}}}"
    )
    with acp.connect("mine") as agent:
        assert agent.alive


# -- life ---------------------------------------------------------------------------------------


def test_the_end_of_the_with_statement_ends_the_agent_and_all_that_it_started(
    workspace: Path,
) -> None:
    threads = threading.active_count()
    with acp.connect("demo", cwd=workspace) as agent:
        processes = children()
        assert any("acp_jupyter.demo_agent" in process.cmdline() for process in processes)
        assert "running" in repr(agent)
    assert not any(alive(process.pid) for process in processes)
    assert not agent.alive
    wait_until(lambda: threading.active_count() <= threads + 1)


def test_a_closed_agent_refuses_with_what_to_do_and_closing_again_does_nothing(
    workspace: Path,
) -> None:
    agent = acp.connect("demo", cwd=workspace)
    session = agent.new_session()
    turn = session.prompt("hello")
    agent.close()
    agent.close()
    for use in (agent.new_session, lambda: session.prompt("more"), lambda: agent.capabilities):
        with pytest.raises(UsageError, match="closed") as caught:
            use()
        assert "again" in str(caught.value)
    with pytest.raises(UsageError, match="closed"):
        run_async(session.aprompt("more"))
    assert children() == []
    assert "hello" in turn.text  # what was is still there
    assert session.turns == [turn]
    assert turn._repr_mimebundle_()["text/plain"]
    assert "ended" in repr(agent)
    assert session.id in repr(session)
    assert agent._repr_mimebundle_()["text/plain"]


def test_a_program_that_ends_without_closing_leaves_nothing_behind(tmp_path: Path) -> None:
    program = """
        import acp_jupyter as acp, psutil
        agent = acp.connect("demo")
        agent.new_session().prompt("hello")
        print(*[child.pid for child in psutil.Process().children(recursive=True)])
    """
    done = script(program, tmp_path)
    pids = [int(word) for word in done.stdout.split()]
    assert pids
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_agents_live_beside_each_other(workspace: Path) -> None:
    with acp.connect("demo", cwd=workspace) as one, acp.connect("demo", cwd=workspace) as other:
        first, second = one.new_session(), other.new_session()
        one.close()
        with pytest.raises(UsageError):
            first.prompt("hello")
        assert "You said" in second.prompt("hello").text


def test_an_agent_that_crashes_ends_its_turn_and_the_next_session_starts_it_again(
    agent: acp.Agent,
) -> None:
    session = agent.new_session()
    with pytest.raises(AgentExited, match="code 17"):
        session.prompt("count 3; crash")
    assert not agent.alive
    (failed,) = session.turns
    assert "code 17" in failed.error
    assert "3" in failed.text  # what had arrived
    assert failed.stop_reason is None
    with pytest.raises(TurnError, match="code 17"):
        failed.raise_for_stop_reason()
    assert "You said" in agent.new_session().prompt("hello").text
    assert agent.alive


# -- turns --------------------------------------------------------------------------------------


def test_a_turn_tells_all_that_happened(agent: acp.Agent, workspace: Path) -> None:
    (workspace / "notes.txt").write_text("alpha\n")
    session = agent.new_session()
    turn = session.prompt(
        "think Let me see; plan Look, Change!; edit notes.txt: alpha -> beta; markdown; usage"
    )
    assert turn.number == 1
    assert turn.agent == "Demo Agent 1.0.0"
    assert turn.session_id == session.id
    assert turn.prompt[0]["text"].startswith("think Let me see")
    assert turn.thoughts == ["Let me see\n"]
    assert [(item["content"], item["priority"]) for item in turn.plan] == [
        ("Look", "medium"),
        ("Change", "high"),
    ]
    (call,) = turn.tool_calls
    assert (call.title, call.kind, call.status) == ("Edit notes.txt", "edit", "completed")
    (diff,) = turn.diffs
    path = str((workspace / "notes.txt").resolve())
    assert diff == acp.FileDiff(path, "alpha\n", "beta\n")
    (asked,) = turn.permissions
    assert (asked.state, asked.decided_by) == ("allowed", "policy")
    assert turn.usage["cost"]["currency"] == "USD"
    assert turn.stop_reason == "end_turn"
    assert turn.error == ""
    assert turn.raise_for_stop_reason() is turn
    timings = turn.timings
    assert timings.first_chunk is not None
    assert timings.duration is not None
    assert 0 <= timings.first_chunk <= timings.duration < LIMIT
    assert any(block.language == "python" and "def " in block.code for block in turn.code_blocks)
    (cell,) = turn.cells
    assert (cell.language, cell.state) == ("python", "proposed")
    assert "def " in cell.source
    assert turn.entries


@pytest.mark.parametrize("prompt", ["refuse", "max tokens", "max requests"])
def test_a_turn_that_stopped_for_another_reason_raises_when_asked_to(
    agent: acp.Agent, prompt: str
) -> None:
    turn = agent.new_session().prompt(prompt)
    assert turn.stop_reason not in ("end_turn", None)
    with pytest.raises(TurnError, match=str(turn.stop_reason)):
        turn.raise_for_stop_reason()


def test_an_error_of_the_agents_is_raised_and_the_turn_is_kept(agent: acp.Agent) -> None:
    session = agent.new_session()
    with pytest.raises(RequestError):
        session.prompt("hello; fail")
    (turn,) = session.turns
    assert turn.error
    assert "hello" in turn.text
    assert "You said" in session.prompt("hello").text
    assert [turn.number for turn in session.turns] == [1, 2]


def test_a_turn_can_be_pickled_and_reads_the_same_elsewhere(
    agent: acp.Agent, workspace: Path, tmp_path: Path
) -> None:
    turn = agent.new_session().prompt("write f.txt: x; run echo hi; plan A, B; ask Ok? yes | no")
    data = pickle.dumps(turn)
    again = pickle.loads(data)
    for name in ("number", "text", "plan", "diffs", "usage", "stop_reason", "timings", "prompt"):
        assert getattr(again, name) == getattr(turn, name), name
    assert again._repr_mimebundle_() == turn._repr_mimebundle_()
    (tmp_path / "turn.pickle").write_bytes(data)
    program = """
        import pickle, sys
        turn = pickle.load(open("turn.pickle", "rb"))
        print(turn.stop_reason, len(turn.tool_calls), "trio" in sys.modules)
    """
    assert script(program, tmp_path).stdout.split() == ["end_turn", "2", "False"]


def test_agents_sessions_and_turns_say_what_they_are(agent: acp.Agent) -> None:
    session = agent.new_session()
    turn = session.prompt("hello <b>bold</b>")
    assert repr(turn).startswith("<Turn 1 of Demo Agent 1.0.0: end_turn, ")
    assert repr(session) == f"<Session {session.id} of demo: 1 turns>"
    assert repr(agent) == "<Agent Demo Agent 1.0.0: running, 1 sessions>"
    for thing in (turn, session, agent):
        bundle = thing._repr_mimebundle_()
        assert {"text/html", "text/plain"} <= set(bundle)
        assert "<b>bold" not in bundle["text/html"]
    assert "You said" in turn._repr_mimebundle_()["text/html"]
    assert "Permissions" in agent._repr_mimebundle_()["text/plain"]
    assert "allow" in agent._repr_mimebundle_()["text/plain"].lower()


def test_options_of_a_session_are_read_and_set_by_name(agent: acp.Agent) -> None:
    session = agent.new_session()
    assert session.options["model"] == "small"
    session.set_option("model", "large")
    assert session.options["model"] == "large"
    asyncio.run(session.aset_option("mode", "plan"))
    assert session.options["mode"] == "plan"
    with pytest.raises(UsageError, match="no option 'colour'"):
        session.set_option("colour", "red")


def test_a_session_becomes_a_frame_with_one_row_for_each_turn(agent: acp.Agent) -> None:
    session = agent.new_session()
    session.prompt("hello")
    session.prompt("write f.txt: x")
    with pytest.raises(RequestError):
        session.prompt("fail")
    frame = session.to_frame()
    assert list(frame["turn"]) == [1, 2, 3]
    assert list(frame["prompt"]) == ["hello", "write f.txt: x", "fail"]
    assert list(frame["tool_calls"]) == [0, 1, 0]
    assert list(frame["permissions"]) == [0, 1, 0]
    assert frame["error"][2]
    assert (frame["duration_s"] >= 0).all()
    assert frame["cost"][0] > 0


def test_without_pandas_a_frame_says_what_to_install(
    agent: acp.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        agent.new_session().to_frame()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"timeout": 0.3}, r"limit of 0\.3 s"),
        ({"tokens": 1}, "the limit is 1"),
        ({"budget": 1e-9}, "USD, the limit is 1e-09"),
    ],
)
def test_a_turn_beyond_a_limit_is_cancelled_and_kept(
    agent: acp.Agent, limits: dict[str, Any], words: str
) -> None:
    session = agent.new_session()
    with pytest.raises(TurnCancelled, match=words):
        session.prompt("hello; usage; slow 600", **limits)
    (turn,) = session.turns
    assert turn.stop_reason == "cancelled"
    assert "hello" in turn.text
    assert "You said" in session.prompt("hello").text  # the limit was that turn's


def test_a_limit_that_makes_no_sense_is_refused_before_anything_is_sent(agent: acp.Agent) -> None:
    session = agent.new_session()
    with pytest.raises(UsageError, match="more than 0"):
        session.prompt("hello", timeout=0)
    assert session.turns == []


# -- await --------------------------------------------------------------------------------------


def test_everything_can_be_awaited(workspace: Path) -> None:
    async def main() -> None:
        async with await acp.aconnect("demo", cwd=workspace) as agent:
            session = await agent.anew_session()
            turn = await session.aprompt("hello")
            assert "You said" in turn.text
        assert not agent.alive
        with pytest.raises(AgentNotFound):
            await acp.aconnect(["no-such-program-anywhere"])

    run_async(main())
    assert children() == []


def test_many_sessions_of_many_agents_run_at_once(workspace: Path) -> None:
    spans = []

    async def prompt(session: acp.Session, number: int) -> acp.Turn:
        begun = time.monotonic()
        turn = await session.aprompt(f"slow 10; number {number}")
        spans.append((begun, time.monotonic()))
        return turn

    async def main() -> list[acp.Turn]:
        async with (
            await acp.aconnect("demo", cwd=workspace) as one,
            await acp.aconnect("demo", cwd=workspace) as other,
        ):
            sessions = [await agent.anew_session() for agent in (one, one, one, other, other)]
            assert len({(id(session.agent), session.id) for session in sessions}) == 5
            return await asyncio.gather(*(prompt(s, n) for n, s in enumerate(sessions)))

    turns = run_async(main())
    for number, turn in enumerate(turns):
        assert f"number {number}" in turn.text
        assert turn.text.count("Step") == 10
    assert max(begun for begun, _ in spans) < min(ended for _, ended in spans)


def test_a_second_prompt_in_a_session_is_refused_and_the_first_goes_on(agent: acp.Agent) -> None:
    async def main() -> None:
        session = agent.new_session()
        seen: list[dict[str, Any]] = []
        async for update in session.stream("slow 5"):
            if not seen:
                with pytest.raises(TurnRunning, match="still running"):
                    await session.aprompt("hello")
            seen.append(update)
        assert len([update for update in seen if "Step" in str(update)]) == 5
        assert [turn.number for turn in session.turns] == [1]

    run_async(main())


def _answer(transcript: Transcript) -> str:
    entries = transcript.turn.entries
    return "".join(entry.text for entry in entries if isinstance(entry, MessageEntry))


def test_cancelling_the_task_cancels_the_turn(agent: acp.Agent) -> None:
    async def main() -> None:
        session = agent.new_session()
        task = asyncio.create_task(session.aprompt("hello; slow 600"))
        await asyncio.to_thread(wait_until, lambda: "hello" in _answer(session._live.transcript))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (turn,) = session.turns
        assert turn.stop_reason == "cancelled"
        assert "hello" in turn.text
        assert "You said" in (await session.aprompt("hello")).text

    run_async(main())


def test_a_task_cancelled_before_its_prompt_was_sent_sends_none(agent: acp.Agent) -> None:
    async def main() -> None:
        session = agent.new_session()
        task = asyncio.create_task(session.aprompt("slow 600"))
        await asyncio.sleep(0)  # it has begun, and no more
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "You said" in (await session.aprompt("hello")).text

    run_async(main())


def test_the_event_loop_goes_on_while_a_turn_is_awaited(agent: acp.Agent) -> None:
    async def main() -> None:
        session = agent.new_session()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await session.aprompt("slow 5")
        ticking.cancel()
        assert ticks > 5

    run_async(main())


def test_another_thread_can_cancel(agent: acp.Agent) -> None:
    session = agent.new_session()
    timer = threading.Timer(0.3, session.cancel)
    timer.start()
    with pytest.raises(TurnCancelled):
        session.prompt("slow 600")
    timer.join()


def test_updates_stream_in_order_to_the_last(agent: acp.Agent) -> None:
    async def main() -> None:
        session = agent.new_session()
        kinds, text = [], ""
        async for update in session.stream("plan A; count 5"):
            kinds.append(update["sessionUpdate"])
            if update["sessionUpdate"] == "agent_message_chunk":
                text += update["content"]["text"]
        assert kinds.index("plan") < kinds.index("agent_message_chunk")
        (turn,) = session.turns
        assert text.strip() == turn.text.strip()
        assert turn.stop_reason == "end_turn"

    run_async(main())


def test_leaving_a_stream_early_cancels_the_turn(agent: acp.Agent) -> None:
    async def main() -> None:
        session = agent.new_session()
        async with contextlib.aclosing(session.stream("slow 600")) as updates:
            async for _update in updates:
                break
        (turn,) = session.turns
        assert turn.stop_reason == "cancelled"
        assert "You said" in (await session.aprompt("hello")).text

    run_async(main())


def test_a_stream_raises_what_the_turn_failed_with_after_the_last_update(
    agent: acp.Agent,
) -> None:
    async def main() -> None:
        session = agent.new_session()
        seen: list[dict[str, Any]] = []

        async def read() -> None:
            async for update in session.stream("hello; crash"):
                seen.append(update)

        with pytest.raises(AgentExited):
            await read()
        assert "hello" in str(seen)

    run_async(main())


# -- programs -----------------------------------------------------------------------------------


def script(program: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that nobody watches."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


WRITES = textwrap.dedent(
    """
    import sys
    import acp_jupyter as acp
    with acp.connect("demo") as agent:
        turn = agent.new_session().prompt("write f.txt: x")
    asked = turn.permissions[0]
    print("STATE", asked.state, asked.decided_by, "IPython" in sys.modules)
    """
)


def test_a_program_without_a_terminal_is_answered_no_at_once(tmp_path: Path) -> None:
    done = script(WRITES, tmp_path)
    assert done.stdout.split() == ["STATE", "denied", "nobody", "False"]
    assert not (tmp_path / "f.txt").exists()


@pytest.mark.parametrize(("answer", "state"), [("y", "allowed"), ("n", "denied")])
def test_a_program_asks_on_its_terminal(tmp_path: Path, answer: str, state: str) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-c", WRITES],
        cwd=str(tmp_path),
        env=environment(tmp_path),
        timeout=LIMIT,
        encoding="utf-8",
    )
    try:
        child.expect("Write f.txt")
        child.expect("> ")
        child.sendline(answer)
        child.expect(f"STATE {state} user")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    assert (tmp_path / "f.txt").exists() is (state == "allowed")


def test_ctrl_c_in_a_program_cancels_the_turn_and_not_the_program(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import threading, time
        import acp_jupyter as acp

        def tell(session):
            while not session._live.running:
                time.sleep(0.01)
            print("RUNNING", flush=True)

        with acp.connect("demo") as agent:
            session = agent.new_session()
            threading.Thread(target=tell, args=[session], daemon=True).start()
            try:
                session.prompt("slow 600")
            except acp.ACPError as error:
                print(type(error).__name__)
            print("AFTER", session.prompt("hello").stop_reason)
        """
    )
    child = pexpect.spawn(
        sys.executable,
        ["-c", program],
        cwd=str(tmp_path),
        env=environment(tmp_path),
        timeout=LIMIT,
        encoding="utf-8",
    )
    try:
        child.expect("RUNNING")
        child.sendintr()
        child.expect("TurnCancelled")
        child.expect("AFTER end_turn")
    finally:
        child.close(force=True)


def test_an_interrupt_that_comes_before_the_prompt_is_on_its_way_is_not_lost(
    agent: acp.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = agent.new_session()
    submit = agent._link.submit

    def interrupted(*args: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return submit(*args, **options)

    monkeypatch.setattr(agent._link, "submit", interrupted)
    with pytest.raises(TurnCancelled):
        session.prompt("slow 600")
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert session.prompt("hello").stop_reason == "end_turn"
