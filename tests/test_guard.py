from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acp_jupyter.connection import guard

from .conftest import alive, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the guard is POSIX")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")

LIMIT = 10.0


class GuardedAgent:
    """A guard started by hand: its pipes without anything of the transport."""

    def __init__(self, argv, *, cwd="/", grace=0.5, env=None, drop="", parent=None):
        lifeline, self.lifeline = os.pipe()
        self.status, status = os.pipe()
        words = [lifeline, status, parent or os.getpid(), grace, drop, cwd, "--", *argv]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(lifeline, status),
            start_new_session=True,
            env=env,
        )
        os.close(lifeline)
        os.close(status)
        self.reports = os.fdopen(self.status, encoding="utf-8")

    def report(self, event):
        for line in self.reports:
            found = json.loads(line)
            if found["event"] == event:
                return found
        raise AssertionError(f"the guard ended without {event!r}")

    def command(self, data):
        os.write(self.lifeline, data)

    def cut(self):
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1

    def close(self):
        self.cut()
        self.reports.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.process.wait(LIMIT)


@pytest.fixture
def start():
    with contextlib.ExitStack() as stack:

        def start(*argv, **settings):
            agent = GuardedAgent(argv, **settings)
            stack.callback(agent.close)
            return agent

        yield start


def python(code):
    return (sys.executable, "-c", code)


STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); {}"


def test_it_reports_start_exit_and_end(start):
    agent = start("sh", "-c", "exit 17")
    assert agent.report("started")["pid"] > 0
    assert agent.report("exited")["returncode"] == 17
    assert agent.report("gone")["left"] == []
    assert agent.process.wait(LIMIT) == 0


def test_a_death_by_signal_is_a_negative_returncode(start):
    assert start("sh", "-c", "kill -9 $$").report("exited")["returncode"] == -9


@pytest.mark.parametrize(
    ("argv", "settings", "what", "number"),
    [
        (["acp-no-such-command"], {}, "command", 2),
        (["/etc/passwd"], {}, "command", 13),
        (["cat"], {"cwd": "/no/such/directory"}, "cwd", 2),
        (["cat"], {"cwd": "/dev/null"}, "cwd", 20),
    ],
)
def test_f14_what_cannot_be_executed_is_reported_with_its_errno(
    start, argv, settings, what, number
):
    agent = start(*argv, **settings)
    failed = agent.report("failed")
    assert (failed["what"], failed["errno"]) == (what, number)
    assert failed["message"] == os.strerror(number)
    assert agent.process.wait(LIMIT) == 1


def test_the_agents_pipes_are_its_own_so_that_their_end_is_seen(start):
    agent = start(*python("import os, time; os.close(1); os.close(2); time.sleep(60)"))
    assert agent.process.stdout.read() == b""
    assert agent.process.stderr.read() == b""
    assert alive(agent.report("started")["pid"])


def test_the_agent_leads_a_session_of_its_own_with_default_signals(start):
    code = """if True:
    import os
    print(os.getsid(0) == os.getpgrp() == os.getpid())
    print(os.getsid(os.getppid()) != os.getsid(0))
    """
    assert start(*python(code)).process.stdout.read() == b"True\nTrue\n"


@linux_only
def test_the_agent_inherits_no_ignored_or_blocked_signals_and_no_descriptors(start):
    agent = start("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")
    masks = [int(mask, 16) for mask in agent.process.stdout.read().split()[1::2]]
    internal = 0b111 << 31  # of the C library and of runners, beyond what a program can set
    assert [mask & ~internal for mask in masks] == [0, 0]
    assert start("ls", "/proc/self/fd").process.stdout.read().split() == [b"0", b"1", b"2", b"3"]


def test_the_agent_has_exactly_the_environment_given(start):
    env = {"PATH": os.environ["PATH"], "ODD": "a=b\nc", "LANG": "C"}
    agent = start("env", "-0", env=env, drop="LC_CTYPE")
    pairs = agent.process.stdout.read().decode().split("\0")[:-1]
    assert dict(pair.split("=", 1) for pair in pairs) == env


def test_arguments_that_are_not_utf8_arrive_unchanged(start):
    agent = start("printf", "%s", os.fsdecode(b"a\xff\xc3\xa9"))
    assert agent.process.stdout.read() == b"a\xff\xc3\xa9"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP])
def test_a_terminals_signals_to_the_guard_do_nothing(start, number):
    agent = start("cat")
    agent.report("started")
    os.kill(agent.process.pid, number)
    agent.process.stdin.write(b"still here\n")
    agent.process.stdin.flush()
    assert agent.process.stdout.readline() == b"still here\n"
    agent.process.stdin.close()
    assert agent.report("exited")["returncode"] == 0


@pytest.mark.parametrize("way", ["command", "signal", "cut"])
def test_f26_terminating_gives_the_agent_time_and_then_kills_it(start, way):
    agent = start(*python(STUBBORN.format("time.sleep(60)")), grace=0.3)
    pid = agent.report("started")["pid"]
    assert agent.process.stdout.readline() == b"1\n"
    began = time.monotonic()
    if way == "command":
        agent.command(b"T")
    elif way == "signal":
        agent.process.send_signal(signal.SIGTERM)
    else:
        agent.cut()
    assert agent.report("exited")["returncode"] == -9
    assert agent.report("gone")["left"] == []
    assert 0.3 <= time.monotonic() - began < 2
    assert not alive(pid)


def test_an_agent_that_heeds_term_is_not_killed(start):
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); "
    agent = start(*python(code + "print(1, flush=True); time.sleep(60)"), grace=5)
    assert agent.process.stdout.readline() == b"1\n"
    agent.command(b"T")
    assert agent.report("exited")["returncode"] == 5


def test_a_stopped_agent_can_be_ended(start):
    agent = start("sleep", "60", grace=5)
    pid = agent.report("started")["pid"]
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    agent.command(b"T")
    assert agent.report("exited")["returncode"] == -15
    assert time.monotonic() - began < 2


def test_the_kill_command_waits_for_nothing(start):
    agent = start(*python(STUBBORN.format("time.sleep(60)")), grace=30)
    assert agent.process.stdout.readline() == b"1\n"
    began = time.monotonic()
    agent.command(b"K")
    assert agent.report("gone")["left"] == []
    assert time.monotonic() - began < 2


def daemon(ignores_term=True):
    """Shell-free code of an agent that leaves a daemonised process behind, and prints its pid."""
    ignore = "signal.signal(15, signal.SIG_IGN);" if ignores_term else ""
    return f"""if True:
    import os, signal, time
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            {ignore}
            os.write(w, str(os.getpid()).encode())
            time.sleep(60)
        os._exit(0)
    os.wait()
    print(os.read(r, 20).decode(), flush=True)
    """


@linux_only
def test_f28_what_outlives_the_agent_is_named_and_ended(start):
    agent = start(*python(daemon()), grace=0.3)
    pid = int(agent.process.stdout.readline())
    assert agent.report("exited")["returncode"] == 0
    (name,) = agent.report("survivors")["processes"]
    assert name.startswith(sys.executable[:60])
    assert name.endswith(f"(pid {pid})")
    assert agent.report("gone")["left"] == []
    assert not alive(pid)


@linux_only
def test_what_ends_by_itself_right_after_the_agent_is_no_survivor(start):
    agent = start("sh", "-c", "sleep 0.05 & exit 0")
    agent.report("exited")
    assert json.loads(next(agent.reports)) == {"event": "gone", "left": []}


@linux_only
def test_f26_a_daemonised_child_goes_with_a_running_agent(start):
    agent = start(*python(daemon() + "\n    time.sleep(60)"), grace=0.2)
    pid = int(agent.process.stdout.readline())
    agent.command(b"T")
    agent.report("gone")
    assert not alive(pid)


@linux_only
def test_adopted_processes_are_reaped_while_the_agent_runs(start):
    agent = start("sh", "-c", "(sleep 0 & echo $!); exec cat")
    pid = int(agent.process.stdout.readline())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert alive(agent.report("started")["pid"])


@linux_only
def test_a_killed_guard_takes_the_agent_along(start):
    agent = start("sleep", "60")
    pid = agent.report("started")["pid"]
    agent.process.kill()
    wait_until(lambda: not alive(pid))


def test_f25_the_parents_death_counts_even_if_someone_else_holds_the_lifeline(start):
    agent = start("sleep", "60", parent=2**22 + 1)  # no such process
    assert agent.report("exited")["returncode"] == -15


def test_without_proc_the_process_group_is_the_tree():
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        tree = guard.Tree(leader.pid, walk=False)
        assert not tree.leader_exited()
        assert tree.living() == [leader.pid]
        assert tree.survivors() == [f"process group {leader.pid}"]
        os.kill(leader.pid, signal.SIGKILL)
        wait_until(tree.leader_exited)
        assert tree.returncode == -9
        assert tree.living() == [leader.pid]  # the child is left
        tree.signal(signal.SIGTERM)
        wait_until(lambda: not alive(child))
        leader.returncode = tree.returncode  # reaped above
