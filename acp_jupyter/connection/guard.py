"""The guard: the agent's parent process, which outlives the kernel just long enough to clean up.

Run as ``python -I -S guard.py LIFELINE STATUS PARENT GRACE DROP CWD -- COMMAND ARG…`` on POSIX;
standard library only, nothing of this package, so that it starts in some 20 ms.

Rules:

- The agent runs in a session of its own and has the guard's stdin, stdout and stderr. Nothing is
  relayed; once the agent runs, the guard holds none of the three, so that EOF means EOF.
- LIFELINE is the read end of a pipe whose other end only the kernel holds. EOF means that the
  kernel is gone, however it went: the whole tree goes too. A byte is a command: ``T`` ends the
  tree with TERM, and KILL after GRACE seconds; ``K`` ends it with KILL at once. Because a fork of
  the kernel may keep the pipe open, the death of the process PARENT counts as EOF as well.
- STATUS is the write end of a pipe that takes one JSON object a line: ``started``, ``failed``
  (errno, message, and whether ``cwd`` or ``command`` failed), ``exited`` (returncode, negative for
  a signal), ``survivors`` (processes that outlived the agent) and ``gone`` (the tree is empty;
  ``left`` names what could not be killed).
- When the agent ends and others of its tree live on, they have a moment to end, then are ended.
- On Linux the guard is a subreaper: whoever daemonises or calls setsid below it is still found in
  /proc as its descendant. Elsewhere only the agent's process group is ended.
- DROP names variables, separated by commas, that the interpreter set in its own environment.
- The exit of the agent is observed without reaping it (Linux), so that its process group's number
  stays taken and a signal can never reach a stranger.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

LINGER = 0.2
"""Seconds that processes have to end by themselves once the agent has ended."""

KILL_LIMIT = 2.0
"""Seconds of repeated KILL before the guard gives up on what cannot die (uninterruptible I/O)."""

TICK = 0.02
"""Seconds between two looks at a tree that is ending."""

NAME_LIMIT = 80
"""Characters kept of a process's command line; it is the agent's to choose."""

LISTED = 20
"""Processes named in one report."""

# What the guard is doing. Only later stages follow an earlier one.
RUNNING, LINGERING, TERMINATING, KILLING = range(4)

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
WOKEN_BY = (signal.SIGCHLD, signal.SIGTERM)

Prctl = Callable[[int, int], None]


def load_prctl() -> Prctl | None:
    """prctl(2) where there is one; a Python without ctypes is treated like another system."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None

    def prctl(option: int, value: int) -> None:
        if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")

    return prctl


def processes() -> Iterator[tuple[int, int, int, str]]:
    """(pid, parent's pid, process group, state) of every process in /proc."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue  # ended since the listing
        # The name in parentheses may hold anything, so the fields count from the last one.
        fields = stat[stat.rindex(b")") + 2 :].split()
        yield int(entry), int(fields[1]), int(fields[2]), chr(fields[0][0])


def process_name(pid: int) -> str:
    """Command line of a process, cut, with its pid."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").replace(b"\0", b" ")
    except OSError:
        words = b""
    text = words.decode("utf-8", "replace")
    if len(text) > NAME_LIMIT:
        text = text[: NAME_LIMIT - 1] + "…"
    return f"{text} (pid {pid})" if text else f"pid {pid}"


class Tree:
    """The agent and all that it started.

    Args:
        leader: pid of the agent, which leads a session and process group of that number.
        walk: find descendants in /proc; else only the process group is known.
    """

    def __init__(self, leader: int, *, walk: bool) -> None:
        self.leader = leader
        self.walk = walk
        self.returncode: int | None = None

    def leader_exited(self) -> bool:
        """True once the agent has ended; fills `returncode`."""
        if self.returncode is None:
            if self.walk:
                self._observe_leader()
            else:
                pid, status = os.waitpid(self.leader, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None

    def _observe_leader(self) -> None:
        assert sys.platform == "linux"
        exited = os.WEXITED | os.WNOHANG | os.WNOWAIT
        result = os.waitid(os.P_PID, self.leader, exited)
        if result is not None:
            by_exit = result.si_code == os.CLD_EXITED
            self.returncode = result.si_status if by_exit else -result.si_status

    def living(self) -> list[int]:
        """Pids of the tree that still run, the agent included; reaps adopted ones that ended.

        Without /proc the agent's own pid stands for its whole group.
        """
        if not self.walk:
            self.leader_exited()
            try:
                os.killpg(self.leader, 0)
            except (ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
                return []
            return [self.leader]
        return [pid for pid, _ in self._descendants()]

    def _descendants(self) -> list[tuple[int, int]]:
        """(pid, process group) of every descendant that runs, the agent included."""
        guard = os.getpid()
        children: dict[int, list[tuple[int, int, str]]] = {}
        for pid, parent, group, state in processes():
            children.setdefault(parent, []).append((pid, group, state))
        found: list[tuple[int, int]] = []
        pending = [guard]
        while pending:
            parent = pending.pop()
            for pid, group, state in children.get(parent, ()):
                pending.append(pid)
                if state not in "ZX":
                    found.append((pid, group))
                elif parent == guard and pid != self.leader:
                    os.waitpid(pid, os.WNOHANG)
        return found

    def signal(self, number: int) -> None:
        """Send a signal, once, to each that runs now; stopped processes are continued after it."""
        others = self._descendants() if self.walk else []
        targets: list[tuple[Callable[[int, int], None], int]] = [(os.killpg, self.leader)]
        # Once each: to many programs a second TERM means "at once", without their cleanup.
        targets += [(os.kill, pid) for pid, group in others if group != self.leader]
        for send, target in targets:
            for each in (number, signal.SIGCONT):
                try:
                    send(target, each)
                except (ProcessLookupError, PermissionError):
                    pass  # ended meanwhile, or runs as another user, whom we may not signal

    def survivors(self) -> list[str]:
        """Names of what lives on beside the agent itself."""
        living = self.living()
        if not self.walk:
            return [f"process group {self.leader}"] if living else []
        others = [pid for pid in living if pid != self.leader]
        return [process_name(pid) for pid in others[:LISTED]]


def become_agent(
    argv: list[str], cwd: str, failure: int, guard: int, prctl: Prctl | None
) -> NoReturn:
    """In the forked child: set the process up and execute the command; reports why it cannot."""
    what = "cwd"
    try:
        os.setsid()
        # exec keeps ignored signals ignored, and an agent may count on every one of them.
        for number in (*IGNORED, *WOKEN_BY, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if prctl is not None:
            # Only for a guard that is itself killed. It fires when the parent *thread* ends, and
            # the guard has but one.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(127)
        os.chdir(cwd)
        what = "command"
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606  # no shell is what we want
    except OSError as error:
        fields = {"what": what, "errno": error.errno, "message": error.strerror}
        os.write(failure, json.dumps(fields).encode())
    finally:
        os._exit(127)


def start_agent(argv: list[str], cwd: str, prctl: Prctl | None) -> tuple[int, bytes]:
    """Fork and execute; returns the pid, and why it failed as JSON (empty when it runs)."""
    read_end, write_end = os.pipe()  # closed by a successful exec
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        become_agent(argv, cwd, write_end, guard, prctl)
    os.close(write_end)
    with open(read_end, "rb") as file:
        failure = file.read()
    if failure:
        os.waitpid(pid, 0)
    return pid, failure


class Guard:
    """The loop: waits for the lifeline, the kernel's death or a child's, and moves stage by stage.

    Args:
        tree: what it guards.
        lifeline: read end; see the module's docstring.
        status: write end of the report pipe.
        parent: pid of the kernel.
        grace: seconds between TERM and KILL.
        wakeup: read end of the pipe that signals write to.
    """

    def __init__(
        self, tree: Tree, *, lifeline: int, status: int, parent: int, grace: float, wakeup: int
    ) -> None:
        self.tree = tree
        self.lifeline = lifeline
        self.status = status
        self.parent = parent
        self.grace = grace
        self.wakeup = wakeup
        self.stage = RUNNING
        self.deadline = 0.0
        self.exit_reported = False
        self.survivors_reported = False
        self.parent_fd: int | None = None
        if sys.platform == "linux":
            try:
                self.parent_fd = os.pidfd_open(parent)
            except OSError:
                pass  # a kernel before 5.3, or the parent is gone; getppid tells

    def report(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, **fields}) + "\n"
        try:
            os.write(self.status, line.encode())
        except OSError:
            pass  # nobody listens any more; the tree still has to go

    def advance(self, stage: int) -> None:
        """Go to a later stage and do what begins it."""
        if stage <= self.stage:
            return
        self.stage = stage
        limit = {LINGERING: LINGER, TERMINATING: self.grace, KILLING: KILL_LIMIT}[stage]
        self.deadline = time.monotonic() + limit
        if stage >= TERMINATING:
            self.report_survivors()
        if stage == TERMINATING:
            self.tree.signal(signal.SIGTERM)

    def report_survivors(self) -> None:
        """Name, once, what outlived the agent and is about to be ended."""
        if self.exit_reported and not self.survivors_reported:
            self.survivors_reported = True
            names = self.tree.survivors()
            if names:
                self.report("survivors", processes=names)

    def run(self) -> None:
        """Returns when the tree is gone, or cannot be made to go."""
        self.report("started", pid=self.tree.leader)
        if os.getppid() != self.parent:  # it died before it could be watched
            self.advance(TERMINATING)
        while not self.step():
            self.wait()
        self.report("gone", left=self.tree.survivors())

    def step(self) -> bool:
        """Look at the tree and the clock; True when all is done."""
        if not self.exit_reported and self.tree.leader_exited():
            self.exit_reported = True
            self.report("exited", returncode=self.tree.returncode)
            self.advance(LINGERING)
        if self.exit_reported and not self.tree.living():
            return True
        if self.stage == RUNNING:
            self.tree.living()  # reaps adopted processes that ended
        elif time.monotonic() >= self.deadline:
            if self.stage == KILLING:
                return True
            self.advance(self.stage + 1)
        if self.stage == KILLING:
            # Each time anew: who forked between the look and the signal is met at the next tick.
            self.tree.signal(signal.SIGKILL)
        return False

    def wait(self) -> None:
        """Sleep until something happens; act on the lifeline."""
        poll = select.poll()
        watched = [self.wakeup]
        if self.lifeline >= 0:
            watched.append(self.lifeline)
        if self.parent_fd is not None:
            watched.append(self.parent_fd)
        for fd in watched:
            poll.register(fd, select.POLLIN)
        timeout = TICK * 1000 if self.stage != RUNNING else None
        if timeout is None and self.parent_fd is None:
            timeout = 1000.0
        ready = {fd for fd, _ in poll.poll(timeout)}
        if self.wakeup in ready and signal.SIGTERM in os.read(self.wakeup, 4096):
            self.advance(TERMINATING)
        if self.lifeline in ready:
            self.obey(os.read(self.lifeline, 64))
        if self.parent_fd in ready or os.getppid() != self.parent:
            self.parent_fd = None
            self.advance(TERMINATING)

    def obey(self, commands: bytes) -> None:
        if not commands:
            os.close(self.lifeline)
            self.lifeline = -1
        self.advance(KILLING if b"K" in commands else TERMINATING)


def leave_stdio() -> None:
    """Let go of the agent's three pipes, so that their ends are seen."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def watch_signals() -> int:
    """Turn SIGCHLD and SIGTERM into bytes on a pipe, ignore a terminal's; returns the read end.

    The guard is in a session of its own, so an interrupt of the kernel's group does not reach it;
    one sent to it by mistake must not leave the agent unguarded. TERM ends the tree in order.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in WOKEN_BY:
        signal.signal(number, lambda *_: None)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    return read_end


def main(arguments: list[str]) -> int:
    lifeline, status, parent = (int(word) for word in arguments[:3])
    grace = float(arguments[3])
    drop, cwd = arguments[4:6]
    argv = arguments[7:]
    for fd in (lifeline, status):
        os.set_inheritable(fd, False)
    for name in filter(None, drop.split(",")):
        os.environ.pop(name, None)
    wakeup = watch_signals()
    prctl = load_prctl()
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid, failure = start_agent(argv, cwd, prctl)
    leave_stdio()
    if failure:
        os.write(status, json.dumps({"event": "failed", **json.loads(failure)}).encode() + b"\n")
        return 1
    tree = Tree(pid, walk=prctl is not None and os.path.exists("/proc/self/stat"))
    guard = Guard(tree, lifeline=lifeline, status=status, parent=parent, grace=grace, wakeup=wakeup)
    os.chdir("/")  # a directory in use cannot be unmounted or, on some systems, removed
    guard.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
