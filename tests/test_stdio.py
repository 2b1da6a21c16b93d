from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from acp_jupyter.connection.plain import start_plain
from acp_jupyter.connection.stdio import STDERR_KEPT, StderrRing, open_stdio
from acp_jupyter.errors import AgentExited, AgentNotFound, UsageError

from .conftest import alive, trio_wait_until, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes and signals")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="descendants are found on Linux")

ENV = dict(os.environ)
ROOT = str(Path(__file__).resolve().parent.parent)


def stdio(*argv, cwd="/", env=ENV, **settings):
    return open_stdio(argv, cwd=cwd, env=env, **settings)


def python(code, **settings):
    return stdio(sys.executable, "-c", code, **settings)


async def read_all(agent):
    found = bytearray()
    while data := await agent.receive_some():
        found += data
    return bytes(found)


async def read_line(agent):
    found = b""
    while not found.endswith(b"\n"):
        data = await agent.receive_some()
        assert data, f"ended after {found!r}"
        found += data
    return found


@pytest.mark.obligation("C78")
async def test_an_echo_goes_there_and_back():
    async with stdio("cat") as agent:
        await agent.send_all(b"hello\n")
        assert await read_line(agent) == b"hello\n"
        assert alive(agent.pid)
        assert repr(agent) == f"<StdioTransport 'cat' pid={agent.pid} running>"
    assert agent.returncode == 0
    assert not alive(agent.pid)
    assert "exited with 0" in repr(agent)


async def test_large_messages_pass_whole_in_both_directions():
    data = os.urandom(5_000_000)
    async with stdio("cat") as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.send_all, data)
        found = bytearray()
        while len(found) < len(data):
            found += await agent.receive_some()
        assert bytes(found) == data


@pytest.mark.parametrize(("end", "code"), [("sys.exit(17)", 17), ("os.abort()", -6)])
async def test_the_exit_status_is_known_and_output_before_it_is_complete(end, code):
    script = f"import os, sys; sys.stdout.write('x' * 200_000); sys.stdout.flush(); {end}"
    async with python(script) as agent:
        assert await read_all(agent) == b"x" * 200_000
        assert await agent.wait_exited() == code
        assert agent.returncode == code


async def test_f15_standard_error_is_complete_when_the_exit_is_known():
    script = "import sys; sys.stderr.write('line\\n' * 9_999 + 'the reason\\n'); sys.exit(1)"
    async with python(script) as agent:
        await agent.wait_exited()
        assert agent.stderr_tail(2) == "line\nthe reason"


@pytest.mark.parametrize(
    ("argv", "cwd", "message", "remedy"),
    [
        (["acp-no-such-agent", "x"], "/", "was not found", "Install it"),
        (["acp no such"], "/", "was not found", "separate words"),
        (["/no/such/agent"], "/", "was not found", "Check the path"),
        (["/etc/passwd"], "/", "permission denied", "chmod"),
        (["/etc"], "/", "permission denied", "Name a file"),
        (["cat"], "/no/such/directory", "working directory", "--cwd"),
    ],
)
async def test_f14_a_command_that_cannot_start_is_an_error_within_a_second(
    argv, cwd, message, remedy
):
    began = time.monotonic()
    with pytest.raises(AgentNotFound, match=message) as caught:
        async with stdio(*argv, cwd=cwd):
            pass
    assert time.monotonic() - began < 1
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("first_line", "message"),
    [("#!/no/such/interpreter", "interpreter named in its first line"), ("", "exec format error")],
)
async def test_f14_a_script_that_cannot_start_says_why(tmp_path, first_line, message):
    script = tmp_path / "agent"
    script.write_text(f"{first_line}\nprint()\n")
    script.chmod(0o755)
    with pytest.raises(AgentNotFound, match=message):
        async with stdio("./agent", cwd=str(tmp_path)):
            pass


@pytest.mark.parametrize("argv", [[], ["cat", "a\0b"]])
async def test_a_command_that_no_system_can_execute_is_the_users_error(argv):
    with pytest.raises(UsageError):
        async with stdio(*argv):
            pass


async def test_an_error_in_the_body_comes_out_as_it_is_and_the_agent_ends():
    started = []

    async def body():
        async with stdio("sleep", "60") as agent:
            started.append(agent)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()
    assert [agent.returncode for agent in started] == [-15]


async def test_cancelling_the_body_ends_the_agent_within_bounds():
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True);"
    with trio.CancelScope() as scope:
        async with python(ignore + "time.sleep(60)") as agent:
            await read_line(agent)
            began = trio.current_time()
            scope.cancel()
            await trio.sleep(60)
    assert scope.cancelled_caught
    assert agent.returncode == -9
    assert trio.current_time() - began < 2


async def test_reading_after_close_is_the_end_and_writing_an_error():
    async with stdio("cat") as agent:
        await agent.aclose()
        assert await agent.receive_some() == b""
        with pytest.raises(AgentExited, match=r"exited with code 0"):
            await agent.send_all(b"x")


async def test_closing_wakes_a_reader_and_may_be_done_twice_at_once():
    results = []

    async def read(agent):
        results.append(await agent.receive_some())

    async with stdio("sleep", "60") as agent:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, agent)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(agent.aclose, 0.0)
            nursery.start_soon(agent.aclose, 0.0)
        assert results == [b""]


async def test_writing_to_an_agent_that_ended_tells_its_end():
    script = "import sys; sys.stderr.write('out of credit\\n'); sys.exit(3)"
    async with python(script) as agent:
        await agent.wait_exited()
        with pytest.raises(AgentExited) as caught:
            await agent.send_all(b"x" * 10)
    assert caught.value.returncode == 3
    assert "exited with code 3" in caught.value.message
    assert caught.value.stderr == "out of credit"


async def test_writing_to_an_agent_that_closed_its_stdin_is_an_error():
    async with python(
        "import os, time; os.close(0); print(1, flush=True); time.sleep(60)"
    ) as agent:
        await read_line(agent)
        with pytest.raises(AgentExited, match="closed its standard input"):
            await agent.send_all(b"x")


# F17: the end of an agent whose pipes are held.

HOLD = """
import os, sys, time
if os.fork() == 0:
    {setsid}
    {then}
    time.sleep(60)
    os._exit(0)
sys.stdout.write("last words\\n")
sys.stdout.flush()
os._exit(17)
"""


@pytest.mark.parametrize(
    "setsid",
    [pytest.param("os.setsid()", marks=linux_only, id="setsid"), pytest.param("pass", id="group")],
)
async def test_f17_a_dead_agents_held_pipe_ends_within_a_second(setsid):
    async with python(HOLD.format(setsid=setsid, then="pass")) as agent:
        began = trio.current_time()
        assert await read_all(agent) == b"last words\n"
        assert await agent.wait_exited() == 17
        assert trio.current_time() - began < 1


async def test_f17_a_grandchild_that_never_stops_writing_is_no_exception():
    flood = "while True: os.write(1, b'y' * 4096)"
    async with python(HOLD.format(setsid="pass", then=flood)) as agent:
        began = trio.current_time()
        assert b"last words\n" in await read_all(agent)
        assert trio.current_time() - began < 1.5


async def test_f17_a_slow_reader_still_gets_all_that_a_dead_agent_wrote():
    script = "import os; os.write(1, b'z' * 60_000)"
    async with python(script) as agent:
        await agent.wait_exited()
        await trio_wait_until(lambda: trio.current_time() > agent._drained_at + 0.1)
        assert await read_all(agent) == b"z" * 60_000


async def test_f17_stdout_closed_by_a_living_agent_is_its_end():
    async with python("import os, time; os.close(1); time.sleep(60)") as agent:
        assert await agent.receive_some() == b""
        assert agent.returncode is None


# F18: standard error.


@pytest.mark.parametrize(
    "mebibytes", [64, pytest.param(256, marks=pytest.mark.slow)], ids=lambda n: f"{n}MiB"
)
async def test_f18_stderr_flood_is_drained_while_a_turn_goes_on(mebibytes):
    script = f"""if True:
    import os, sys
    chunk = b"e" * 65535 + b"\\n"
    for _ in range({mebibytes} * 16):
        written = 0
        while written < len(chunk):
            written += os.write(2, chunk[written:])
    os.write(2, b"last\\n")
    os.write(1, b"done\\n")
    sys.stdin.read()
    """
    sizes = []
    async with python(script, on_stderr=lambda data: sizes.append(len(data))) as agent:
        assert await read_line(agent) == b"done\n"
        await trio_wait_until(lambda: agent.stderr_tail(1) == "last")
        assert sum(sizes) == mebibytes * 2**20 + 5
        assert len(agent._stderr._kept) == STDERR_KEPT


def test_f18_the_ring_keeps_the_newest_and_no_half_line():
    ring = StderrRing()
    for number in range(20_000):
        ring.feed(b"line %d\n" % number)
    lines = ring.tail(10_000, frozenset()).split("\n")
    assert lines[-1] == "line 19999"
    assert all(line.startswith("line ") for line in lines)
    assert ring.tail(2, frozenset()) == "line 19998\nline 19999"
    assert ring.tail(0, frozenset()) == ""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\xff\xfe broken", "\ufffd\ufffd broken"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\u202eevil\u200b".encode(), "\\u202eevil\\u200b"),
        (b"a\r\n\n  \nb\tc\n", "a\nb\tc"),
        (b"x" * 1000, "x" * 499 + "\u2026"),
        (b"key can\x1b[1mary-12345", "key [redacted]"),
    ],
)
def test_f53_f55_the_tail_is_safe_to_show(written, shown):
    ring = StderrRing()
    ring.feed(written)
    assert ring.tail(20, frozenset({"canary-12345"})) == shown


async def test_f55_secrets_of_the_environment_do_not_show_in_the_tail():
    env = {**ENV, "OPENAI_API_KEY": "sk-canary-0815"}
    async with stdio("sh", "-c", "echo key $OPENAI_API_KEY >&2", env=env) as agent:
        await agent.wait_exited()
        assert agent.stderr_tail() == "key [redacted]"


async def test_f56_the_agent_has_exactly_the_environment_given():
    env = {"PATH": ENV["PATH"], "LANG": "C", "A": "1"}
    async with stdio("env", env=env) as agent:
        found = (await read_all(agent)).decode()
    assert dict(line.split("=", 1) for line in found.splitlines()) == env


# F24 to F26, F28: ends.

AGENT_WITH_FAMILY = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
def note():
    with open(os.path.join({place!r}, str(os.getpid())), "w"):
        pass
note()
if os.fork() == 0:
    note()                      # a plain child
elif os.fork() == 0:
    os.setsid()
    note()                      # a child in a session of its own
elif os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    note()                      # a daemon
while True:
    time.sleep(60)
"""

HOST = """
import os, subprocess, sys, trio
from acp_jupyter.connection.stdio import open_stdio
async def main():
    argv = [sys.executable, "-c", open({script!r}).read()]
    async with open_stdio(argv, cwd="/", env=dict(os.environ)):
        {then}
        print("ready", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


def family(place):
    return [int(path.name) for path in place.iterdir()]


def start_host(tmp_path, then="pass"):
    place = tmp_path / "pids"
    place.mkdir()
    script = tmp_path / "agent.py"
    script.write_text(AGENT_WITH_FAMILY.format(place=str(place)))
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.format(script=str(script), then=then)],
        stdout=subprocess.PIPE,
        env={**ENV, "PYTHONPATH": ROOT},
        start_new_session=True,
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"ready\n"
    wait_until(lambda: len(family(place)) == 4)
    return host, family(place)


@linux_only
def test_f25_kill_9_of_the_host_ends_the_whole_tree(tmp_path):
    host, pids = start_host(tmp_path)
    with host:
        host.kill()
        wait_until(lambda: not [pid for pid in pids if alive(pid)], limit=3)


@linux_only
def test_f25_a_fork_of_the_host_that_holds_the_lifeline_does_not_keep_the_tree(tmp_path):
    host, pids = start_host(tmp_path, "if os.fork() == 0: import time; time.sleep(5); os._exit(0)")
    with host:
        host.kill()
        wait_until(lambda: not [pid for pid in pids if alive(pid)], limit=3)
        os.killpg(host.pid, signal.SIGKILL)


@linux_only
async def test_f26_closing_ends_the_whole_family_within_two_seconds(tmp_path):
    async with python(AGENT_WITH_FAMILY.format(place=str(tmp_path))) as agent:
        await trio_wait_until(lambda: len(family(tmp_path)) == 4)
        began = trio.current_time()
        await agent.aclose(grace=0.5)
        assert trio.current_time() - began < 2
        assert not [pid for pid in family(tmp_path) if alive(pid)]
        assert agent.returncode == -9
        assert agent.left_running() == []


async def test_f21_kill_takes_the_agent_at_once():
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True);"
    async with python(ignore + "time.sleep(60)") as agent:
        await read_line(agent)
        began = trio.current_time()
        agent.kill()
        assert await agent.wait_exited() == -9
        assert trio.current_time() - began < 1
        agent.kill()  # harmless afterwards


async def test_an_agent_that_needs_time_after_eof_gets_the_grace_it_is_given():
    script = "import sys, time; sys.stdin.read(); time.sleep(0.8); sys.exit(4)"
    async with python(script) as agent:
        await agent.aclose(grace=5)
        assert agent.returncode == 4


@linux_only
async def test_f28_a_background_server_ends_with_the_agent_and_is_named():
    script = """if True:
    import subprocess, sys
    server = ["sleep", "61.5"]
    print(subprocess.Popen(server, start_new_session=True).pid, flush=True)
    sys.stdin.read()
    """
    async with python(script) as agent:
        pid = int(await read_line(agent))
        assert agent.survivors() == []
        await agent.aclose()
        assert agent.survivors() == [f"sleep 61.5 (pid {pid})"]
        assert not alive(pid)


@linux_only
async def test_a_killed_guard_ends_the_agent_and_the_transport():
    async with stdio("sleep", "60") as agent:
        agent._process.kill()
        assert await agent.receive_some() == b""
        assert await agent.wait_exited() == -9
        await trio_wait_until(lambda: not alive(agent.pid))


def test_f24_an_interrupt_of_the_hosts_group_does_not_reach_the_agent(tmp_path):
    code = """if True:
    import os, signal, sys, trio
    from acp_jupyter.connection.stdio import open_stdio
    async def main():
        async with open_stdio(["cat"], cwd="/", env=dict(os.environ)) as agent:
            with trio.open_signal_receiver(signal.SIGINT) as signals:
                os.killpg(0, signal.SIGINT)
                async for _ in signals:
                    break
            await agent.send_all(b"unaffected\\n")
            sys.stdout.buffer.write(await agent.receive_some())
            print(agent.returncode)
    trio.run(main)
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=30,
        env={**ENV, "PYTHONPATH": ROOT},
        start_new_session=True,
    )
    assert done.stdout == b"unaffected\nNone\n", done.stderr


# Leaks.


@linux_only
async def test_fifty_starts_and_stops_leak_no_descriptor_task_or_process():
    async def cycle(*argv):
        async with stdio(*argv) as agent:
            await agent.send_all(b"x\n")
            await agent.receive_some()

    def state():
        gc.collect()
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        tasks = trio.lowlevel.current_statistics().tasks_living
        return len(os.listdir("/proc/self/fd")), tasks, children

    await cycle("cat")
    before = state()
    for _ in range(50):
        await cycle("cat")
        with pytest.raises(AgentNotFound):
            await cycle("acp-no-such-agent")
    assert state() == before


@linux_only
async def test_every_descriptor_is_closed_on_exec():
    before = os.listdir("/proc/self/fd")
    async with stdio("cat"):
        made = set(os.listdir("/proc/self/fd")) - set(before)
        assert len(made) == 5  # stdin, stdout, stderr, status, lifeline
        assert not [fd for fd in made if os.get_inheritable(int(fd))]


# Without a guard (Windows), tried on what runs here.


async def plain_transport(*argv):
    return await start_plain(argv, "/", ENV, frozenset(), None)


def run_plain(agent, nursery):
    nursery.start_soon(agent._watch_status)
    nursery.start_soon(agent._drain_stderr)


async def test_without_a_guard_an_agent_still_answers_and_ends():
    async with trio.open_nursery() as nursery:
        agent = await plain_transport("cat")
        run_plain(agent, nursery)
        await agent.send_all(b"hello\n")
        assert await read_line(agent) == b"hello\n"
        await agent.aclose()
        assert agent.returncode == 0
        assert await agent.receive_some() == b""


async def test_without_a_guard_a_stubborn_agent_is_killed():
    ignore = "import signal, sys, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True);"
    async with trio.open_nursery() as nursery:
        agent = await plain_transport(sys.executable, "-c", ignore + "time.sleep(60)")
        run_plain(agent, nursery)
        await read_line(agent)
        await agent.aclose(grace=0.1)
        assert agent.returncode == -9
        assert not alive(agent.pid)


@pytest.mark.parametrize(
    ("argv", "cwd", "message"),
    [(["acp-no-such-agent"], "/", "was not found"), (["cat"], "/no/such", "working directory")],
)
async def test_f14_without_a_guard_a_missing_command_is_the_same_error(argv, cwd, message):
    with pytest.raises(AgentNotFound, match=message):
        await start_plain(argv, cwd, ENV, frozenset(), None)
