"""The agent's terminal requests, with real commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import psutil
import pytest
import trio

from acp_jupyter.connection import spawn
from acp_jupyter.errors import ErrorCode, Refusal
from acp_jupyter.services import commands as commands_module
from acp_jupyter.services import terminals as terminals_module
from acp_jupyter.services.roots import OUTSIDE, Roots
from acp_jupyter.services.terminals import (
    OUTPUT_LIMIT,
    SHOWN_LIMIT,
    CommandRequest,
    Tail,
    TerminalService,
    TerminalView,
)

from .conftest import alive, trio_wait_until, wait_until

PYTHON = sys.executable


class Desk:
    """A service with a user who answers and watches."""

    def __init__(self, root, nursery):
        self.root = root
        self.asked: list[CommandRequest] = []
        self.answer = True
        self.views: dict[str, TerminalView] = {}
        self.changes = 0
        self.service = self.make(nursery)

    def make(self, nursery):
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "KEPT": "1"}
        roots = Roots([str(self.root), str(self.root.parent / "second")])
        return TerminalService(
            roots, environment, ask=self.ask, nursery=nursery, on_change=self.on_change
        )

    async def ask(self, request):
        self.asked.append(request)
        return self.answer

    def on_change(self, view):
        self.views[view.terminal_id] = view
        self.changes += 1

    async def create(self, command, *args, **params):
        if args:
            params["args"] = list(args)
        result = await self.service.create({"sessionId": "s", "command": command, **params})
        assert set(result) == {"terminalId"}
        return result["terminalId"]

    async def call(self, method, ident, session_id="s"):
        params = {"sessionId": session_id, "terminalId": ident}
        return await getattr(self.service, method)(params)

    async def run(self, command, *args, **params):
        """The output of a command that has ended."""
        ident = await self.create(command, *args, **params)
        await self.call("wait_for_exit", ident)
        result = await self.call("output", ident)
        await self.call("release", ident)
        return result

    async def refused(self, command, *args, **params):
        """Refused before anybody is asked."""
        self.asked.clear()
        with pytest.raises(Refusal) as caught:
            await self.create(command, *args, **params)
        assert not self.asked
        assert not self.views
        return caught.value


@asynccontextmanager
async def open_desk(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "second").mkdir()
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    async with trio.open_nursery() as nursery:
        desk = Desk(root, nursery)
        yield desk
        await desk.service.aclose()
        # Left are the tasks that see to the end of what was killed; they end by themselves.
    for pid in _recorded_pids(root):
        assert not alive(pid)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def _recorded_pids(root):
    return [int(path.read_text()) for path in root.glob("*.pid") if path.read_text()]


async def pid_in(path):
    await trio_wait_until(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


# -- asking ---------------------------------------------------------------------------------------


async def test_f38_the_user_is_asked_for_exactly_what_runs(tmp_path):
    async with open_desk(tmp_path) as desk:
        (desk.root / "sub").mkdir()
        result = await desk.run(
            PYTHON,
            "-c",
            "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['A'], os.environ['KEPT'])",
            "a b; $(c)",
            cwd=f"{desk.root}/sub/",
            env=[{"name": "A", "value": "x y"}],
        )
        assert result["output"] == f"['a b; $(c)'] {desk.root}/sub x y 1\n"
        (request,) = desk.asked
        assert request.argv[0] == PYTHON
        assert request.argv[-1] == "a b; $(c)"
        assert not request.shell
        assert request.cwd == f"{desk.root}/sub"
        assert request.env == (("A", "x y"),)
        assert request.title == "run a command with A='x y'"


async def test_f38_nothing_starts_before_the_answer_or_after_a_no(tmp_path):
    async with open_desk(tmp_path) as desk:
        desk.answer = False
        with pytest.raises(Refusal, match="not allowed"):
            await desk.create("touch", "made")
        assert len(desk.asked) == 1
        assert not desk.views
        assert not (desk.root / "made").exists()


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("echo one two | tr o 0", "0ne tw0\n"),
        ("echo $((40+2))", "42\n"),
        ("true&&echo x", "x\n"),
        ("cd;", ""),
    ],
)
async def test_f38_a_line_without_arguments_runs_in_a_shell_and_is_labelled_so(
    line, output, tmp_path
):
    async with open_desk(tmp_path) as desk:
        assert (await desk.run(line))["output"] == output
        (request,) = desk.asked
        assert (request.argv, request.shell) == (("/bin/sh", "-c", line), True)
        assert request.title == "run a shell command line"


async def test_f38_a_line_with_arguments_is_no_shell_line(tmp_path):
    async with open_desk(tmp_path) as desk:
        with pytest.raises(Refusal, match="the command cannot be used"):
            await desk.create("echo one", "two")
        assert not desk.asked[0].shell
        assert not desk.views


async def test_f38_a_long_value_is_cut_in_the_question_with_its_length(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.run("true", env=[{"name": "A", "value": "x" * 5000}])
        assert desk.asked[0].title == f"run a command with A={'x' * 200}… (5000 characters)"


@pytest.mark.parametrize(
    "params",
    [
        {"command": None},
        {"command": ""},
        {"command": "   "},
        {"command": ["ls"]},
        {"command": "a\0b"},
        {"command": "\ud800"},
        {"command": "ls", "args": "-l"},
        {"command": "ls", "args": [1]},
        {"command": "ls", "args": ["\0"]},
        {"command": "ls", "args": ["\udc00"]},
        {"command": "ls", "env": "A=1"},
        {"command": "ls", "env": ["A=1"]},
        {"command": "ls", "env": [{"name": "A"}]},
        {"command": "ls", "env": [{"name": "", "value": "1"}]},
        {"command": "ls", "env": [{"name": "A=B", "value": "1"}]},
        {"command": "ls", "env": [{"name": "A", "value": "\0"}]},
        {"command": "ls", "env": {"A": 1}},
        {"command": "ls", "outputByteLimit": -1},
        {"command": "ls", "outputByteLimit": True},
        {"command": "ls", "outputByteLimit": "10"},
        {"command": "ls", "cwd": 5},
    ],
)
async def test_f12_parameters_of_the_wrong_kind_are_refused(params, tmp_path):
    async with open_desk(tmp_path) as desk:
        assert (await desk.refused(**params)).code == ErrorCode.INVALID_PARAMS


# -- environment and directory --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PATH", "Path"),
        *("PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "BASH_ENV", "ENV", "IFS", "PERL5OPT"),
        *("RUBYOPT", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "git_editor", "BASH_FUNC_ls%%", "PWD"),
    ],
)
@pytest.mark.parametrize("form", ["list", "map"])
async def test_f39_variables_that_load_other_code_are_refused(name, form, tmp_path):
    async with open_desk(tmp_path) as desk:
        env = {name: "x"} if form == "map" else [{"name": name, "value": "x"}]
        assert name in (await desk.refused("true", env=env)).message


async def test_f39_a_directory_outside_the_roots_is_refused(tmp_path):
    async with open_desk(tmp_path) as desk:
        (desk.root / "link").symlink_to(tmp_path)
        (desk.root / "file").write_text("")
        assert (await desk.refused("pwd", cwd="/etc")).message == OUTSIDE
        assert (await desk.refused("pwd", cwd=str(tmp_path))).message == OUTSIDE
        for cwd in (".", "", f"{desk.root}/..", f"{desk.root}/link", f"{desk.root}/file"):
            await desk.refused("pwd", cwd=cwd)
        refusal = await desk.refused("pwd", cwd=f"{desk.root}/nothing")
        assert refusal.code == ErrorCode.RESOURCE_NOT_FOUND


async def test_f39_a_directory_that_becomes_a_link_while_the_user_is_asked_is_refused(tmp_path):
    async with open_desk(tmp_path) as desk:
        (desk.root / "sub").mkdir()

        async def swap_and_allow(request):
            (desk.root / "sub").rmdir()
            (desk.root / "sub").symlink_to(tmp_path)
            return True

        desk.service._ask = swap_and_allow
        with pytest.raises(Refusal, match="symbolic link"):
            await desk.create("touch", "made", cwd=f"{desk.root}/sub")
        assert not (tmp_path / "made").exists()


async def test_f39_the_opened_directory_is_the_one_used_whatever_its_name_is_then(tmp_path):
    """The name is swapped after the check of the directory, before the process starts."""
    async with open_desk(tmp_path) as desk:
        (desk.root / "sub").mkdir()
        roots = desk.service._roots
        open_directory = roots.open_directory

        def open_and_swap(located):
            fd = open_directory(located)
            if len(desk.asked) == 1:
                (desk.root / "sub").rename(desk.root / "moved")
                (desk.root / "sub").symlink_to(tmp_path)
            return fd

        roots.open_directory = open_and_swap
        await desk.run("touch", "made", cwd=f"{desk.root}/sub")
        assert (desk.root / "moved" / "made").exists()
        assert not (tmp_path / "made").exists()


async def test_the_default_directory_is_the_first_root(tmp_path):
    async with open_desk(tmp_path) as desk:
        assert (await desk.run("pwd"))["output"] == f"{desk.root}\n"
        assert (await desk.run("pwd", cwd=None))["output"] == f"{desk.root}\n"
        assert desk.asked[0].cwd == str(desk.root)
        second = str(tmp_path / "second")
        assert (await desk.run("pwd", cwd=second))["output"] == f"{second}\n"


async def test_the_environment_is_the_sessions_and_what_the_agent_adds(tmp_path):
    async with open_desk(tmp_path) as desk:
        script = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
        output = (await desk.run(PYTHON, "-c", script, env={"A": "1"}))["output"]
        assert output == "['A', 'KEPT', 'PATH', 'PWD', 'TERM']\n"


async def test_a_command_has_a_session_of_its_own_and_nothing_to_read(tmp_path):
    async with open_desk(tmp_path) as desk:
        script = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))"
        assert (await desk.run(PYTHON, "-c", script))["output"] == "True ''\n"


# -- output and end -------------------------------------------------------------------------------


async def test_a_terminal_tells_its_output_and_how_it_ended(tmp_path):
    async with open_desk(tmp_path) as desk:
        ident = await desk.create("printf 'out\\n'; printf 'err\\n' >&2; exit 3")
        assert await desk.call("wait_for_exit", ident) == {"exitCode": 3, "signal": None}
        assert await desk.call("output", ident) == {
            "output": "out\nerr\n",
            "truncated": False,
            "exitStatus": {"exitCode": 3, "signal": None},
        }
        view = desk.views[ident]
        assert (view.output, view.truncated) == ("out\nerr\n", False)
        assert (view.exit_code, view.signal, view.running) == (3, None, False)
        assert (view.terminal_id, view.cwd) == (ident, str(desk.root))
        assert view.argv[:2] == ["/bin/sh", "-c"]


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
async def test_a_command_ended_by_a_signal_has_its_name(name, tmp_path):
    async with open_desk(tmp_path) as desk:
        script = f"import os, signal; os.kill(os.getpid(), signal.{name})"
        result = await desk.run(PYTHON, "-c", script)
        assert result["exitStatus"] == {"exitCode": None, "signal": name}


@pytest.mark.skipif(sys.platform != "linux", reason="real-time signals")
async def test_a_signal_without_a_name_has_its_number(tmp_path):
    async with open_desk(tmp_path) as desk:
        result = await desk.run(PYTHON, "-c", "import os; os.kill(os.getpid(), 40)")
        assert result["exitStatus"] == {"exitCode": None, "signal": "SIG40"}


async def test_output_is_told_while_the_command_runs(tmp_path):
    async with open_desk(tmp_path) as desk:
        os.mkfifo(desk.root / "gate")
        ident = await desk.create("printf first; read x <gate; printf second")
        view = desk.views[ident]
        await trio_wait_until(lambda: view.output == "first")
        assert view.running
        assert desk.service.running == [view]
        result = await desk.call("output", ident)
        assert result == {"output": "first", "truncated": False, "exitStatus": None}
        (desk.root / "gate").write_text("go\n")
        await desk.call("wait_for_exit", ident)
        assert view.output == "firstsecond"
        assert desk.service.running == []


async def test_a_character_in_pieces_is_held_back_until_it_is_whole(tmp_path):
    async with open_desk(tmp_path) as desk:
        for gate in ("first", "second"):
            os.mkfifo(desk.root / gate)
        line = r"printf 'a\342\202'; read x <first; printf '\254b'; read x <second"
        ident = await desk.create(line)
        view = desk.views[ident]
        await trio_wait_until(lambda: view.output == "a")
        assert (await desk.call("output", ident))["output"] == "a"
        (desk.root / "first").write_text("go\n")
        await trio_wait_until(lambda: view.output == "a€b")
        (desk.root / "second").write_text("go\n")
        await desk.call("wait_for_exit", ident)
        assert (await desk.call("output", ident))["output"] == "a€b"


async def test_a_command_that_is_not_there_is_refused_with_the_reason(tmp_path):
    async with open_desk(tmp_path) as desk:
        with pytest.raises(Refusal, match="the command cannot be used: no such file"):
            await desk.create("no-such-command-anywhere")
        (desk.root / "plain").write_text("text")
        with pytest.raises(Refusal, match="permission denied"):
            await desk.create(f"{desk.root}/plain")
        with pytest.raises(Refusal, match="argument list too long"):
            await desk.create("true", "x" * 3_000_000)
        assert not desk.views
        assert not desk.service._terminals


async def test_reading_ends_with_the_command_though_a_child_holds_its_output(tmp_path):
    async with open_desk(tmp_path) as desk:
        before = time.monotonic()
        ident = await desk.create("sleep 60 & echo $! >child.pid; echo done")
        assert (await desk.call("wait_for_exit", ident))["exitCode"] == 0
        assert time.monotonic() - before < 3
        assert (await desk.call("output", ident))["output"] == "done\n"
        child = await pid_in(desk.root / "child.pid")
        await trio_wait_until(lambda: not alive(child))


async def test_the_older_dialect_is_served_in_its_own_form(tmp_path):
    async with open_desk(tmp_path) as desk:
        result = await desk.run("printf '%s' \"$A-123456\"", env={"A": "x"}, outputBytesLimit=4)
        assert result["exitCode"] == 0
        assert (result["output"], result["truncated"]) == ("3456", True)
        assert "exitCode" not in await desk.run("true", outputByteLimit=None)


# -- floods ---------------------------------------------------------------------------------------


async def test_f40_of_a_flood_the_tail_is_kept(tmp_path):
    async with open_desk(tmp_path) as desk:
        script = "import sys\nfor _ in range(8): sys.stdout.write('é' * 2**20)\nprint('end')"
        result = await desk.run(PYTHON, "-c", script, env={"LC_ALL": "C.UTF-8"})
        assert result["truncated"]
        assert result["output"].endswith("éend\n")
        assert set(result["output"]) == set("éend\n")
        assert OUTPUT_LIMIT - 4 < len(result["output"].encode()) <= OUTPUT_LIMIT
        (view,) = desk.views.values()
        assert view.truncated
        assert SHOWN_LIMIT - 4 < len(view.output.encode()) <= SHOWN_LIMIT


@pytest.mark.obligation("C41")
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 2**40])
async def test_f40_the_agents_own_limit_is_kept_at_whole_characters(limit, tmp_path):
    async with open_desk(tmp_path) as desk:
        result = await desk.run("printf", "a€€€€", outputByteLimit=limit)
        expected = "a€€€€" if limit > 13 else "€" * (limit // 3)
        assert (result["output"], result["truncated"]) == (expected, limit < 13)
        (view,) = desk.views.values()
        assert (view.output, view.truncated) == ("a€€€€", False)


@pytest.mark.obligation("C41")
@pytest.mark.parametrize("limit", range(14))
def test_f40_a_tail_is_cut_between_characters(limit):
    tail = Tail(100)
    for byte in "a€🙂é€".encode():
        tail.feed(bytes([byte]))
    text, truncated = tail.text(limit, final=True)
    assert truncated == (limit < 13)
    assert "a€🙂é€".endswith(text)
    assert len(text.encode()) <= limit
    assert limit - len(text.encode()) < 4


def test_f40_bytes_that_are_no_text_stay_within_the_limit_too():
    tail = Tail(10)
    tail.feed(b"\xff" * 10)
    assert tail.text(10, final=True) == ("\ufffd" * 3, True)
    tail.feed(b"\x80" * 10)
    assert tail.text(10, final=True) == ("\ufffd" * 3, True)


# -- kill and release -----------------------------------------------------------------------------

FAMILY = "sleep 60 & echo $! >child.pid; echo $$ >leader.pid; echo running; wait"


async def test_f41_kill_ends_the_whole_group_and_the_output_stays(tmp_path):
    async with open_desk(tmp_path) as desk:
        ident = await desk.create(FAMILY)
        pids = [await pid_in(desk.root / name) for name in ("child.pid", "leader.pid")]
        await trio_wait_until(lambda: desk.views[ident].output)
        assert await desk.call("kill", ident) == {}
        assert not desk.views[ident].running
        result = await desk.call("output", ident)
        assert result["output"] == "running\n"
        assert result["exitStatus"] == {"exitCode": None, "signal": "SIGTERM"}
        await trio_wait_until(lambda: not any(map(alive, pids)))
        assert await desk.call("kill", ident) == {}
        assert (await desk.call("wait_for_exit", ident))["signal"] == "SIGTERM"


async def test_f41_what_ignores_term_and_leaves_the_group_is_killed_too(tmp_path):
    async with open_desk(tmp_path) as desk:
        script = (
            "import os, signal, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "child = os.fork()\n"
            "if not child: os.setsid()\n"
            "open('child.pid' if not child else 'leader.pid', 'w').write(str(os.getpid()))\n"
            "time.sleep(60)"
        )
        ident = await desk.create(PYTHON, "-c", script)
        pids = [await pid_in(desk.root / name) for name in ("child.pid", "leader.pid")]
        await desk.call("kill", ident)
        assert desk.views[ident].signal == "SIGKILL"
        await trio_wait_until(lambda: not any(map(alive, pids)))


@pytest.mark.obligation("C42")
@pytest.mark.parametrize("running", [True, False])
async def test_f41_release_ends_the_command_and_forgets_the_id_but_the_view_stays(
    running, tmp_path
):
    async with open_desk(tmp_path) as desk:
        ident = await desk.create(FAMILY if running else "echo running")
        view = desk.views[ident]
        if running:
            await pid_in(desk.root / "leader.pid")
            await trio_wait_until(lambda: view.output)
        else:
            await trio_wait_until(lambda: ident in desk.service._terminals)
            await trio_wait_until(lambda: desk.service._terminals[ident].command is None)
            assert await desk.call("kill", ident) == {}  # does nothing any more
        changes = desk.changes
        assert await desk.call("release", ident) == {}
        assert desk.changes > changes
        for method in ("output", "wait_for_exit", "kill", "release"):
            with pytest.raises(Refusal, match="no such terminal"):
                await desk.call(method, ident)
        await trio_wait_until(lambda: not view.running and not desk.service._terminals)
        assert view.output == "running\n"
        assert (view.signal, view.exit_code) == (("SIGTERM", None) if running else (None, 0))


async def test_closing_ends_all_commands_and_starts_no_more(tmp_path):
    async with open_desk(tmp_path) as desk:
        idents = [await desk.create("sleep", "60") for _ in range(3)]
        before = time.monotonic()
        await desk.service.aclose()
        assert time.monotonic() - before < 2
        assert [desk.views[ident].signal for ident in idents] == ["SIGKILL"] * 3
        assert desk.service.running == []
        with pytest.raises(Refusal, match="session has ended"):
            await desk.create("true")


async def test_a_session_that_ends_while_the_user_is_asked_starts_nothing(tmp_path):
    async with open_desk(tmp_path) as desk:

        async def close_and_allow(request):
            await desk.service.aclose()
            return True

        desk.service._ask = close_and_allow
        with pytest.raises(Refusal, match="session has ended"):
            await desk.create("touch", "made")
        assert not (desk.root / "made").exists()


async def test_cancelling_the_nursery_ends_the_commands(tmp_path):
    (tmp_path / "root").mkdir()
    async with trio.open_nursery() as nursery:
        desk = Desk(tmp_path / "root", nursery)
        ident = await desk.create(FAMILY)
        pids = [await pid_in(desk.root / name) for name in ("child.pid", "leader.pid")]
        nursery.cancel_scope.cancel()
    view = desk.views[ident]
    assert not view.running
    assert view.signal == "SIGKILL"
    assert not any(map(alive, pids))


async def test_a_request_cancelled_while_the_command_starts_leaves_nothing(tmp_path, monkeypatch):
    async with open_desk(tmp_path) as desk:
        with trio.CancelScope() as scope:
            start = commands_module.Command.wait_started

            async def start_and_cancel(command):
                await start(command)
                scope.cancel()
                await trio.lowlevel.checkpoint()

            monkeypatch.setattr(commands_module.Command, "wait_started", start_and_cancel)
            await desk.create("echo $$ >leader.pid; sleep 60")
        assert scope.cancelled_caught
        assert not desk.views
        assert not desk.service._terminals
        assert desk.service._starting == 0


# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ident",
    [None, 1, ["term_1"], {}, "", "term_0", "../../x", "x" * 2**20, "<b>x</b>", "term_1\0"],
)
@pytest.mark.parametrize("method", ["output", "wait_for_exit", "kill", "release"])
async def test_f63_an_id_that_is_not_ours_is_unknown_and_not_repeated(method, ident, tmp_path):
    async with open_desk(tmp_path) as desk:
        with pytest.raises(Refusal) as caught:
            await desk.call(method, ident)
        assert caught.value.message == "there is no such terminal in this session"


async def test_f42_a_terminal_of_another_session_is_unknown(tmp_path):
    async with open_desk(tmp_path) as desk, trio.open_nursery() as nursery:
        other = desk.make(nursery)
        ident = await desk.create("true")
        for service, session in ((desk.service, "t"), (other, "s")):
            with pytest.raises(Refusal, match="no such terminal"):
                await service.output({"sessionId": session, "terminalId": ident})
        created = await other.create({"sessionId": "s", "command": "true"})
        assert created["terminalId"] != ident


async def test_f42_the_number_of_terminals_is_bounded(tmp_path, monkeypatch):
    assert terminals_module.TERMINALS == 32
    monkeypatch.setattr(terminals_module, "TERMINALS", 3)  # as many processes would take long
    async with open_desk(tmp_path) as desk:
        ended, _ = await desk.create("true"), await desk.create("sleep", "60")
        await desk.call("wait_for_exit", ended)

        async def wait_for_ever(request):
            await trio.sleep_forever()

        desk.service._ask = wait_for_ever
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.create, "true")  # a question counts too
            await trio_wait_until(lambda: desk.service._starting == 1)
            with pytest.raises(Refusal, match="release one first"):
                await desk.create("true")
            nursery.cancel_scope.cancel()
        desk.service._ask = desk.ask
        await desk.create("true")
        with pytest.raises(Refusal, match="release one first"):
            await desk.create("true")
        await desk.call("release", ended)
        await trio_wait_until(lambda: ended not in desk.service._terminals)
        await desk.create("true")


async def test_f42_waiting_for_an_endless_command_can_be_cancelled(tmp_path):
    async with open_desk(tmp_path) as desk:
        ident = await desk.create("sleep", "60")
        with trio.move_on_after(0.05) as scope:
            await desk.call("wait_for_exit", ident)
        assert scope.cancelled_caught
        assert desk.views[ident].running


# -- death ----------------------------------------------------------------------------------------

KERNEL = """
import sys, trio
from acp_jupyter.services import terminals as terminals_module
from acp_jupyter.services.roots import Roots
from acp_jupyter.services.terminals import TerminalService
async def main():
    async def allow(request):
        return True
    async with trio.open_nursery() as nursery:
        service = TerminalService(Roots([sys.argv[1]]), {"PATH": sys.argv[2]}, ask=allow,
                                  nursery=nursery, on_change=lambda view: None)
        await service.create({"command": sys.argv[3]})
        print("created", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


def test_f25_commands_die_with_the_kernel_however_it_dies(tmp_path):
    command = [PYTHON, "-c", KERNEL, str(tmp_path), os.environ["PATH"], FAMILY]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as kernel:
        try:
            assert kernel.stdout
            assert kernel.stdout.readline() == b"created\n"
            pids = wait_until(lambda: len(found := _recorded_pids(tmp_path)) == 2 and found)
        finally:
            kernel.kill()
    wait_until(lambda: not any(map(alive, pids)), 3.0)


async def test_a_guard_that_is_killed_takes_the_command_along(tmp_path):
    async with open_desk(tmp_path) as desk:
        ident = await desk.create(FAMILY)
        leader = await pid_in(desk.root / "leader.pid")
        guard = psutil.Process(leader).parent()
        assert guard
        guard.send_signal(signal.SIGKILL)
        assert (await desk.call("wait_for_exit", ident))["signal"] == "SIGKILL"
        await trio_wait_until(lambda: not any(map(alive, _recorded_pids(desk.root))))


async def test_a_guard_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    async with open_desk(tmp_path) as desk:
        broken = tmp_path / "broken.py"
        broken.write_text("raise SystemExit(1)")
        monkeypatch.setattr(spawn, "GUARD", str(broken))
        with pytest.raises(Refusal, match="could not be started") as caught:
            await desk.create("true")
        assert caught.value.code == ErrorCode.INTERNAL_ERROR
        assert not desk.views


def test_commands_are_not_offered_where_there_is_no_guard(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        with pytest.raises(Refusal, match="cannot be run on this system"):
            commands_module.start_command(["true"], directory=0, resolved="/", env={})
