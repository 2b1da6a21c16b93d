"""The agent's file requests, against real files."""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
import threading
import time

import psutil
import pytest
import trio

from acp_jupyter.errors import ErrorCode, Refusal
from acp_jupyter.services import local_files as files_module
from acp_jupyter.services.files import (
    ABSENT,
    REMEMBERED,
    WHOLE_LIMIT,
    WINDOW_LIMIT,
    FileAccess,
    FileEvent,
    FileService,
    Version,
    read_window,
)
from acp_jupyter.services.local_files import LocalFiles
from acp_jupyter.services.protected import is_protected
from acp_jupyter.services.roots import Roots

from .conftest import trio_wait_until
from .swapper import swapping

MIB = 2**20


class Desk:
    """A root with a service on it, and a user who answers and watches."""

    def __init__(self, root):
        self.root = root
        self.events: list[FileEvent] = []
        self.asked: list[FileAccess] = []
        self.answer = True
        self.before_answer = lambda: None
        self.backend = LocalFiles(Roots([str(root)]))
        self.service = self.make(self.ask)

    def make(self, ask):
        return FileService(self.backend, ask=ask, observe=self.events.append)

    async def ask(self, access):
        self.asked.append(access)
        self.before_answer()
        return self.answer

    async def read(self, name, **params):
        path = str(self.root / name)
        result = await self.service.read_text_file({"sessionId": "s", "path": path, **params})
        assert set(result) == {"content"}
        return result["content"]

    async def write(self, name, content):
        path = str(self.root / name)
        params = {"sessionId": "s", "path": path, "content": content}
        assert await self.service.write_text_file(params) == {}

    async def refused(self, method, name, *args, **kwargs):
        """The refusal; one event must tell it, and nothing may be left beside the files."""
        self.events.clear()
        with pytest.raises(Refusal) as caught:
            await getattr(self, method)(name, *args, **kwargs)
        (event,) = self.events
        missing = method == "read" and caught.value.code == ErrorCode.RESOURCE_NOT_FOUND
        assert event.operation == method
        assert event.outcome == ("missing" if missing else "refused")
        assert (event.reason, event.bytes) == (caught.value.message, 0)
        assert not list(self.root.rglob(".acp-jupyter-*"))
        return caught.value


@pytest.fixture
def desk(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Desk(root)


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open():
    def count():
        return len(os.listdir("/proc/self/fd")) if sys.platform.startswith("linux") else 0

    before = count()
    yield
    assert count() <= before


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"one line",
        b"\n",
        b"a\nb\n",
        b"a\r\nb\rc\r\n",
        b"\xef\xbb\xbfmarked",
        "x\u2028y\x0bz\x0c\x1c\x85ü🙂".encode(),
    ],
)
async def test_f37_a_file_is_served_and_written_byte_by_byte(data, desk):
    (desk.root / "a.txt").write_bytes(data)
    text = await desk.read("a.txt")
    assert text.encode() == data
    await desk.write("b.txt", text)
    assert (desk.root / "b.txt").read_bytes() == data
    sizes = [(event.operation, event.outcome, event.bytes) for event in desk.events]
    assert sizes == [("read", "served", len(data)), ("write", "served", len(data))]
    assert desk.events[0].path == str(desk.root / "a.txt")


LINES = b"one\ntwo\r\nthree\x0bstill three\n\nfive\xe2\x80\xa8still five\nlast"


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"line": 1}, LINES),
        ({"limit": 2}, b"one\ntwo\r\n"),
        ({"line": 2, "limit": 1}, b"two\r\n"),
        ({"line": 3, "limit": 2}, b"three\x0bstill three\n\n"),
        ({"line": 5, "limit": 1}, b"five\xe2\x80\xa8still five\n"),
        ({"line": 6}, b"last"),
        ({"line": 6, "limit": 10**30}, b"last"),
        ({"line": 7}, b""),
        ({"line": 10**30, "limit": 1}, b""),
        ({"line": None, "limit": None}, LINES),
    ],
)
async def test_f37_lines_end_with_a_newline_only_and_windows_are_exact(window, expected, desk):
    (desk.root / "a.txt").write_bytes(LINES)
    assert (await desk.read("a.txt", **window)).encode() == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_f37_windows_put_together_are_the_file_whatever_the_blocks(size, limit):
    blocks = [LINES[start : start + size] for start in range(0, len(LINES), size)]
    windows = [read_window(blocks, line, limit, 1000) for line in range(1, 10, limit)]
    assert b"".join(window or b"" for window in windows) == LINES


@pytest.mark.parametrize("name", ["line", "limit"])
@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, "1", [1]])
async def test_f37_a_line_that_is_no_whole_number_from_one_is_refused(name, value, desk):
    (desk.root / "a.txt").write_bytes(LINES)
    refusal = await desk.refused("read", "a.txt", **{name: value})
    assert refusal.code == ErrorCode.INVALID_PARAMS
    assert name in refusal.message


async def test_a_missing_file_is_a_resource_not_found(desk):
    refusal = await desk.refused("read", "no/thing.txt")
    assert refusal.code == ErrorCode.RESOURCE_NOT_FOUND
    assert refusal.message.startswith("Resource not found")


@pytest.mark.parametrize("path", [None, 5, ["a"], "", "a.txt", "/etc/passwd", "/" + "x" * MIB])
@pytest.mark.parametrize("operation", ["read_text_file", "write_text_file"])
async def test_f31_a_path_that_is_none_or_outside_is_refused_and_told_briefly(
    operation, path, desk
):
    with pytest.raises(Refusal) as caught:
        await getattr(desk.service, operation)({"path": path, "content": "x"})
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    (event,) = desk.events
    assert event.outcome == "refused"
    assert len(event.path) <= 200


async def test_f61_what_meta_says_is_not_looked_at(desk):
    (desk.root / "a.txt").write_text("yes")
    (desk.root / "b.txt").write_text("no")
    meta = {"path": str(desk.root / "b.txt"), "line": 5}
    assert await desk.read("a.txt", _meta=meta) == "yes"


@pytest.mark.parametrize("operation", ["read", "write"])
async def test_f34_what_is_no_regular_file_is_refused_at_once(operation, desk):
    os.mkfifo(desk.root / "fifo")
    (desk.root / "directory").mkdir()
    arguments = ["text"] if operation == "write" else []
    before = time.monotonic()
    for name in ("fifo", "directory", ""):
        refusal = await desk.refused(operation, name, *arguments)
        assert refusal.code == ErrorCode.INVALID_PARAMS
    assert time.monotonic() - before < 2
    assert stat.S_ISFIFO((desk.root / "fifo").stat().st_mode)


@pytest.mark.parametrize("data", [b"text\0text", "text".encode("utf-16"), b"\xff", b"caf\xe9\n"])
async def test_f35_what_is_not_utf8_text_is_refused_never_repaired(data, desk):
    (desk.root / "a.bin").write_bytes(data)
    refusal = await desk.refused("read", "a.bin")
    assert f"{len(data)} bytes" in refusal.message
    assert "line and limit" in refusal.message
    assert refusal.code == ErrorCode.INVALID_PARAMS


async def test_f35_the_part_of_a_file_that_is_text_can_be_read(desk):
    (desk.root / "a.txt").write_bytes(b"text\n\xff\nmore\n")
    assert await desk.read("a.txt", line=3, limit=1) == "more\n"
    assert "not valid UTF-8" in (await desk.refused("read", "a.txt", line=2)).message


async def test_f35_a_large_file_is_refused_whole_and_served_in_windows(desk):
    line = b"x" * 999 + b"\n"
    count = WHOLE_LIMIT // len(line) + 1000
    (desk.root / "big.txt").write_bytes(line * count + b"the end\n")
    refusal = await desk.refused("read", "big.txt")
    assert str((desk.root / "big.txt").stat().st_size) in refusal.message
    assert "line and limit" in refusal.message
    assert await desk.read("big.txt", line=count + 1, limit=1) == "the end\n"
    assert len(await desk.read("big.txt", limit=2000)) == 2_000_000
    refusal = await desk.refused("read", "big.txt", limit=2 * WINDOW_LIMIT // 1000)
    assert "line and limit" in refusal.message
    assert "line and limit" in (await desk.refused("read", "big.txt", line=1)).message


async def test_f35_a_file_of_the_largest_size_is_served_whole(desk):
    (desk.root / "a.txt").write_bytes(b"x" * WHOLE_LIMIT)
    assert len(await desk.read("a.txt")) == WHOLE_LIMIT


async def test_f35_a_file_that_grows_while_it_is_read_is_bounded_too(desk, monkeypatch):
    path = desk.root / "log.txt"
    path.write_bytes(b"x\n")

    def grow_and_read(fd, size, read=files_module._read_up_to):
        with path.open("ab") as file:
            file.truncate(WHOLE_LIMIT + 1)
        return read(fd, size)

    monkeypatch.setattr(files_module, "_read_up_to", grow_and_read)
    assert str(WHOLE_LIMIT + 1) in (await desk.refused("read", "log.txt")).message
    path.write_bytes(b"x\n")
    assert await desk.read("log.txt", limit=1) == "x\n"


async def test_reading_a_very_large_file_can_be_cancelled(desk):
    with (desk.root / "huge.txt").open("wb") as file:
        file.truncate(2**40)  # a sparse file: a terabyte of null characters
    with trio.move_on_after(0.2) as scope:
        await desk.read("huge.txt", line=10)
    assert scope.cancelled_caught
    await trio_wait_until(lambda: not _open_files("huge"))  # its thread does not read on
    assert (await desk.refused("read", "huge.txt")).code == ErrorCode.INVALID_PARAMS


def _open_files(name):
    return [file.path for file in psutil.Process().open_files() if name in file.path]


# -- writing --------------------------------------------------------------------------------------


@pytest.mark.obligation("C40")
async def test_c40_a_write_makes_the_file_and_its_missing_parents(desk):
    await desk.write("new/deep/er/a.txt", "made")
    assert (desk.root / "new/deep/er/a.txt").read_text() == "made"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((desk.root / "new/deep/er/a.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("content", [None, 5, b"x", ["x"], {"text": "x"}])
async def test_content_that_is_no_text_is_refused(content, desk):
    (desk.root / "a.txt").write_text("old")
    refusal = await desk.refused("write", "a.txt", content)
    assert refusal.code == ErrorCode.INVALID_PARAMS
    assert (desk.root / "a.txt").read_text() == "old"


async def test_half_of_a_surrogate_pair_is_refused(desk):
    assert "surrogate" in (await desk.refused("write", "a.txt", "\ud83d")).message
    assert not (desk.root / "a.txt").exists()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
async def test_f37_a_write_keeps_the_mode(mode, desk):
    path = desk.root / "run.sh"
    path.write_text("old, and longer than the new text")
    path.chmod(mode)
    await desk.write("run.sh", "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_f37_a_write_keeps_the_owner(desk):
    path = desk.root / "a.txt"
    path.write_text("old")
    os.chown(path, 1234, 1235)
    path.chmod(0o4755)
    await desk.write("a.txt", "new")
    status = path.stat()
    assert (status.st_uid, status.st_gid) == (1234, 1235)
    assert stat.S_IMODE(status.st_mode) == 0o4755


@pytest.mark.parametrize(("allowed", "mode"), [("group", 0o2755), ("none", 0o755)])
async def test_f37_an_owner_that_cannot_be_kept_takes_its_privileges_along(
    allowed, mode, desk, monkeypatch
):
    """Somebody else's file in a directory shared by a group; fchown is refused as for any user."""
    path = desk.root / "shared.sh"
    path.write_text("old")
    path.chmod(0o6755)

    def fchown(fd, owner, group):
        if allowed == "none" or owner != -1:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", fchown)
    await desk.write("shared.sh", "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


async def test_a_file_or_directory_without_permission_is_refused(desk):
    (desk.root / "a.txt").write_text("old")
    (desk.root / "a.txt").chmod(0o444)
    if os.access(desk.root / "a.txt", os.W_OK):
        pytest.skip("root may write everything")
    assert "permission denied" in (await desk.refused("write", "a.txt", "new")).message
    (desk.root / "a.txt").chmod(0o644)
    desk.root.chmod(0o555)
    assert "permission denied" in (await desk.refused("write", "a.txt", "new")).message
    desk.root.chmod(0o755)
    assert (desk.root / "a.txt").read_text() == "old"


async def test_f37_a_full_disk_leaves_the_original_and_nothing_else(desk):
    path = desk.root / "a.txt"
    path.write_text("the original")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, limits[1]))  # what fits, as on a small disk
    try:
        refusal = await desk.refused("write", "a.txt", "x" * 2 * MIB)
        new = await desk.refused("write", "new.txt", "x" * 2 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refusal.code == new.code == ErrorCode.INTERNAL_ERROR
    assert "file too large" in refusal.message
    assert sorted(os.listdir(desk.root)) == ["a.txt"]
    assert path.read_text() == "the original"


async def test_f37_a_reader_sees_the_old_or_the_new_text_and_never_a_part(desk):
    texts = {"a" * 300_000, "b" * 300_000}
    path = desk.root / "a.txt"
    path.write_text("a" * 300_000)
    seen = []
    done = threading.Event()

    def watch():
        while not done.is_set():
            seen.append(path.read_text())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, watch)
        try:
            for text in list(texts) * 10:
                await desk.write("a.txt", text)
        finally:
            done.set()
    assert set(seen) <= texts


# -- links ----------------------------------------------------------------------------------------


async def test_f32_links_are_neither_read_nor_written_nor_replaced(desk, tmp_path):
    outside = tmp_path / "secret.txt"
    outside.write_text("outside")
    (desk.root / "link").symlink_to(outside)
    (desk.root / "up").symlink_to(tmp_path)
    os.link(outside, desk.root / "hard")
    for name in ("link", "up/secret.txt"):
        await desk.refused("read", name)
    for name in ("link", "up/secret.txt", "up/new.txt", "hard"):
        await desk.refused("write", name, "changed")
    assert outside.read_text() == "outside"
    assert (desk.root / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["root", "secret.txt"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="swaps by renameat2")
async def test_f32_a_race_of_swapped_links_neither_reads_nor_writes_outside(desk, tmp_path):
    outside, inside = tmp_path / "outside", desk.root / "sub"
    for directory, text in ((outside, "outside"), (inside, "inside")):
        directory.mkdir()
        (directory / "a.txt").write_text(text)
    (desk.root / "link").symlink_to(outside)
    outcomes = {"served": 0, "refused": 0}
    with swapping(inside, desk.root / "link"):
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            for operation in ("read", "write"):
                outcomes[await _race_once(desk, operation)] += 1
    assert os.listdir(outside) == ["a.txt"]
    assert (outside / "a.txt").read_text() == "outside"
    assert min(outcomes.values()) > 20, f"there was no race to win: {outcomes}"


async def _race_once(desk, operation):
    try:
        if operation == "read":
            assert await desk.read("sub/a.txt") == "inside"
        else:
            await desk.write("sub/made.txt", "made")
    except Refusal:
        return "refused"
    return "served"


# -- changed meanwhile ----------------------------------------------------------------------------


async def test_f36_a_file_changed_since_it_was_read_is_not_overwritten(desk):
    path = desk.root / "a.txt"
    path.write_text("first")
    await desk.read("a.txt")
    path.write_text("the user's")
    refusal = await desk.refused("write", "a.txt", "the agent's")
    assert refusal.message == "the file changed on disk since it was read; read it again"
    assert path.read_text() == "the user's"
    assert await desk.read("a.txt") == "the user's"
    await desk.write("a.txt", "the agent's")
    assert path.read_text() == "the agent's"


async def test_f36_both_versions_are_told_but_not_what_a_protected_file_holds(desk):
    told = []
    desk.service = FileService(
        desk.backend,
        ask=desk.ask,
        observe=desk.events.append,
        conflict=lambda path, *texts: told.append(texts),
    )
    for name in ("a.txt", ".env"):
        (desk.root / name).write_text("first")
        await desk.read(name)
        (desk.root / name).write_text("the user's")
        await desk.refused("write", name, "the agent's")
    assert told == [("the user's", "the agent's"), (None, "the agent's")]


async def test_f36_a_change_that_keeps_size_and_time_is_seen(desk):
    path = desk.root / "a.txt"
    path.write_text("aaaa")
    status = path.stat()
    await desk.read("a.txt", line=1, limit=1)
    path.write_text("bbbb")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "changed on disk" in (await desk.refused("write", "a.txt", "x")).message
    assert path.read_text() == "bbbb"


async def test_f36_a_file_that_was_only_touched_is_not_changed(desk):
    path = desk.root / "a.txt"
    path.write_text("same")
    await desk.read("a.txt")
    os.utime(path, ns=(1, 1))
    await desk.write("a.txt", "new")
    assert path.read_text() == "new"


async def test_f36_the_agents_own_writes_are_no_changes(desk):
    for number in range(3):
        await desk.write("a.txt", f"{number}")
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(desk.write, "a.txt", f"at the same time {number}")
    assert (desk.root / "a.txt").read_text().startswith("at the same time")
    (desk.root / "a.txt").write_text("the user's")
    assert "changed on disk" in (await desk.refused("write", "a.txt", "x")).message


async def test_f36_a_file_deleted_or_made_since_it_was_read_is_noticed(desk):
    path = desk.root / "a.txt"
    path.write_text("first")
    await desk.read("a.txt")
    path.unlink()
    assert "was deleted" in (await desk.refused("write", "a.txt", "new")).message
    await desk.refused("read", "a.txt")
    path.write_text("made by the user")
    assert "changed on disk" in (await desk.refused("write", "a.txt", "new")).message
    path.unlink()
    await desk.refused("read", "a.txt")
    await desk.write("a.txt", "new")
    assert path.read_text() == "new"


async def test_f36_of_a_large_file_the_time_is_compared(desk):
    path = desk.root / "big.txt"
    path.write_bytes(b"x\n" * (WHOLE_LIMIT // 2 + 1))
    await desk.read("big.txt", limit=1)
    os.utime(path, ns=(1, 1))
    assert "changed on disk" in (await desk.refused("write", "big.txt", "new")).message
    await desk.read("big.txt", limit=1)
    await desk.write("big.txt", "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("existed", [True, False])
async def test_f36_a_change_in_the_moment_of_writing_is_seen(existed, desk, monkeypatch):
    path = desk.root / "a.txt"
    if existed:
        path.write_text("first")

    def change_and_sync(fd, sync=os.fsync):
        sync(fd)
        path.write_text("the user's")

    monkeypatch.setattr(os, "fsync", change_and_sync)
    assert "changed on disk" in (await desk.refused("write", "a.txt", "the agent's")).message
    assert path.read_text() == "the user's"


async def test_the_versions_remembered_are_bounded(desk):
    located = desk.backend.locate(str(desk.root / "a.txt"))
    (desk.root / "a.txt").write_text("a")
    await desk.read("a.txt")
    for number in range(REMEMBERED):
        other = desk.backend.locate(str(desk.root / f"{number}"))
        desk.service._remember(other, ABSENT)
    assert len(desk.service._seen) == REMEMBERED
    assert located.path not in desk.service._seen


def test_versions_match_by_digest_and_only_else_by_time():
    digested, other = Version(1, 5, b"x"), Version(2, 5, b"x")
    assert digested.matches(other)
    assert not digested.matches(Version(1, 5, b"y"))
    assert digested.matches(Version(1, 5))
    assert not digested.matches(Version(2, 5))
    assert not digested.matches(ABSENT)


# -- protected files ------------------------------------------------------------------------------

PROTECTED = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".git",
    "sub/.git/HEAD",
    ".GIT/config",
    ".g\u200cit/config",
    ".git./config",
    "GIT~1/config",
    "\uff0egit/config",
    ".gitconfig",
    ".env",
    ".env.local",
    "sub/.envrc",
    ".ssh/config",
    "id_rsa",
    "keys/id_ed25519",
    "server.pem",
    "server.KEY",
    ".netrc",
    ".aws/credentials",
    ".bashrc",
    ".zprofile",
    ".jupyter/jupyter_server_config.py",
    "jupyter_acp_config.json",
    "share/jupyter/runtime/jpserver-1.json",
    "share/jupyter/runtime/anything",
    "kernel-3f1c.json",
    ".mcp.json",
    ".vscode/mcp.json",
    ".vscode/tasks.json",
    ".claude/settings.json",
    ".claude.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".cursor/mcp.json",
    "opencode.json",
]

ORDINARY = [
    "a.txt",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".gitignore",
    ".gitattributes",
    "environment.yml",
    "env/notes.txt",
    "keys.py",
    "monkey",
    "git/config",
    "id_rsa.pub",
    "share/jupyter/kernels/x/kernel.json",
    "runtime/jupyter",
    "notebook.ipynb",
]


@pytest.mark.parametrize("path", PROTECTED)
def test_f33_what_holds_secrets_or_decides_what_runs_is_protected(path):
    assert is_protected(path)


@pytest.mark.parametrize("path", ORDINARY)
def test_f33_what_only_looks_like_it_is_not(path):
    assert is_protected(path) is None


async def test_f33_a_protected_file_is_asked_for_each_time(desk):
    (desk.root / ".env").write_text("KEY=old")
    for _ in range(2):
        assert await desk.read(".env") == "KEY=old"
    await desk.write(".env", "KEY=new")
    path, reason = str(desk.root / ".env"), is_protected(".env") or ""
    reading = FileAccess("read", path, reason)
    assert desk.asked == [reading, reading, FileAccess("write", path, reason, "KEY=old", "KEY=new")]
    assert (desk.root / ".env").read_text() == "KEY=new"


async def test_f33_a_no_refuses_it(desk):
    (desk.root / ".env").write_text("KEY=old")
    desk.answer = False
    assert "not allowed" in (await desk.refused("read", ".env")).message
    assert "not allowed" in (await desk.refused("write", ".env", "KEY=new")).message
    assert "not allowed" in (await desk.refused("write", ".git/hooks/pre-commit", "x")).message
    assert (desk.root / ".env").read_text() == "KEY=old"
    assert os.listdir(desk.root) == [".env"]


async def test_f33_where_nobody_can_be_asked_it_is_refused(desk):
    (desk.root / ".env").write_text("KEY=old")
    desk.service = desk.make(None)
    assert "nobody can be asked" in (await desk.refused("read", ".env")).message
    assert "nobody can be asked" in (await desk.refused("write", ".env", "KEY=new")).message
    assert (desk.root / ".env").read_text() == "KEY=old"


async def test_f33_ordinary_files_are_not_asked_for(desk):
    await desk.write("AGENTS.md", "x")
    await desk.read("AGENTS.md")
    assert desk.asked == []


async def test_f33_a_root_that_lies_in_such_a_directory_is_the_users_choice(tmp_path):
    root = tmp_path / ".claude" / "worktree"
    root.mkdir(parents=True)
    desk = Desk(root)
    await desk.write("a.txt", "x")
    assert desk.asked == []


async def test_f33_what_was_approved_alone_is_replaced(desk):
    path = desk.root / ".env"
    path.write_text("KEY=shown")
    desk.before_answer = lambda: path.write_text("KEY=changed")
    assert "changed on disk" in (await desk.refused("write", ".env", "KEY=new")).message
    assert path.read_text() == "KEY=changed"
    path.unlink()
    assert "changed on disk" in (await desk.refused("write", ".env", "KEY=new")).message
    assert desk.asked[-1].old_text is None


async def test_f33_what_cannot_be_shown_as_text_is_asked_for_without_it(desk):
    (desk.root / "a.key").write_bytes(b"\0binary")
    await desk.write("a.key", "text")
    assert desk.asked[-1].old_text is None
    assert (desk.root / "a.key").read_text() == "text"


async def test_f33_what_would_be_refused_anyway_is_not_asked_for(desk):
    (desk.root / "target").write_text("x")
    (desk.root / ".env").symlink_to("target")
    await desk.refused("write", ".env", "new")
    (desk.root / "a.pem").write_text("first")
    await desk.read("a.pem")
    (desk.root / "a.pem").write_text("the user's")
    desk.asked.clear()
    assert "changed on disk" in (await desk.refused("write", "a.pem", "new")).message
    assert desk.asked == []
