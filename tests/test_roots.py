"""Containment: nothing outside the roots is opened, whatever is done to the path or the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from acp_jupyter.errors import ErrorCode, Refusal
from acp_jupyter.services import roots as roots_module
from acp_jupyter.services.roots import OUTSIDE, Located, Roots, lexical_parts, openat2, walk

from .swapper import swapping

LINUX = sys.platform.startswith("linux")

OPENERS = [openat2, walk] if LINUX else [walk]


@pytest.fixture(params=OPENERS, ids=lambda opener: opener.__name__)
def opener(request, monkeypatch):
    """Both ways of opening; each must hold on its own."""
    if request.param is openat2 and roots_module._opener() is not openat2:
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(roots_module, "_opener", lambda: request.param)
    return request.param


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "root"
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "a.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    return path


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open():
    if not LINUX:
        yield
        return
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


def read(roots, path):
    fd = roots.open_beneath(roots.locate(str(path)), os.O_RDONLY)
    with open(fd) as file:
        return file.read()


def refused(roots, path, flags=os.O_RDONLY):
    """The refusal that opening a path gives."""
    with pytest.raises(Refusal) as caught:
        os.close(roots.open_beneath(roots.locate(str(path)), flags))
    return caught.value


# -- the text of a path ---------------------------------------------------------------------------


def test_a_path_below_a_root_is_located_and_opened(root, opener):
    roots = Roots([str(root)])
    located = roots.locate(f"{root}/sub/./a.txt")
    assert located == Located(str(root), ("sub", "a.txt"), f"{root}/sub/a.txt")
    assert located.resolved == f"{root}/sub/a.txt"
    assert read(roots, located.path) == "inside"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (None, "non-empty string"),
        (7, "non-empty string"),
        (["/"], "non-empty string"),
        ("", "non-empty string"),
        ("a.txt", "absolute"),
        ("./sub/a.txt", "absolute"),
        ("~/a.txt", "absolute"),
        ("C:\\Users\\a", "absolute"),
        ("\\\\server\\share\\a", "absolute"),
        ("file:///etc/passwd", "absolute"),
        ("//server/share/a", "network"),
        ("/a\0b", "null"),
        ("/\ud800", "Unicode"),
        ("/" + "a" * 4096, "too long"),
        ("/" + "é" * 2048, "too long"),
    ],
)
def test_f31_a_path_that_is_none_is_refused_by_its_text(path, reason, root):
    with pytest.raises(Refusal, match=reason) as caught:
        Roots([str(root)]).locate(path)
    assert caught.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.obligation("C23")
@pytest.mark.parametrize(
    "path", ["{root}/../secret.txt", "{root}/sub/..", "{root}/sub/../sub/a.txt"]
)
def test_f31_steps_upward_are_refused_also_where_they_would_stay_inside(path, root):
    with pytest.raises(Refusal, match=r"'\.\.'"):
        Roots([str(root)]).locate(path.format(root=root))


def test_f31_the_answer_is_the_same_whether_what_is_outside_exists(root):
    roots = Roots([str(root)])
    outside = [root.parent / "secret.txt", root.parent / "nothing.txt", "/etc/passwd", "/nowhere/x"]
    answers = {(each.message, each.code) for each in (refused(roots, path) for path in outside)}
    assert answers == {(OUTSIDE, ErrorCode.INVALID_PARAMS)}


def test_f31_a_sibling_with_the_same_beginning_is_outside(root):
    sibling = Path(f"{root}-evil")
    sibling.mkdir()
    (sibling / "a.txt").write_text("outside")
    assert refused(Roots([str(root)]), sibling / "a.txt").message == OUTSIDE


def test_f31_another_case_of_a_root_is_not_that_root(root):
    assert refused(Roots([str(root)]), str(root).upper() + "/sub/a.txt").message == OUTSIDE


@pytest.mark.parametrize(
    "path",
    [
        "\\\\server\\share\\a",
        "\\\\?\\C:\\a",
        "\\\\.\\pipe\\a",
        "C:\\a.txt:stream",
        "C:\\a.txt::$DATA",
        "C:\\NUL",
        "C:\\sub\\con.txt",
        "C:\\COM1",
        "C:\\lpt9.log",
        "C:\\trailing.",
        "C:\\trailing ",
        "C:a.txt",
        "\\a.txt",
        "C:\\sub\\..\\a",
    ],
)
def test_f31_names_that_windows_treats_in_a_special_way_are_refused(path):
    with pytest.raises(Refusal):
        lexical_parts(path, windows=True)


def test_a_plain_windows_path_is_split_with_its_drive():
    assert lexical_parts("c:\\Users\\me/a.txt", windows=True) == ("C:", "Users", "me", "a.txt")


def test_names_that_only_windows_reserves_are_ordinary_elsewhere():
    assert lexical_parts("/r/aux.py", windows=False) == ("r", "aux.py")
    assert lexical_parts("/r/12:30.log", windows=False) == ("r", "12:30.log")


def test_a_root_may_be_written_as_given_or_as_resolved(root, tmp_path, opener):
    link = tmp_path / "link"
    link.symlink_to(root)
    roots = Roots([f"{link}/"])
    assert roots.paths == (str(link),)
    assert read(roots, link / "sub" / "a.txt") == "inside"
    assert read(roots, root / "sub" / "a.txt") == "inside"
    assert roots.locate(f"{link}/sub").path == f"{link}/sub"
    assert roots.locate(f"{link}/sub").resolved == f"{root}/sub"


def test_a_root_inside_another_one_behind_a_link_is_a_root_of_its_own(root, tmp_path, opener):
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("second")
    (root / "link").symlink_to(other)
    assert read(Roots([str(root), str(root / "link")]), root / "link" / "b.txt") == "second"
    assert "symbolic link" in refused(Roots([str(root)]), root / "link" / "b.txt").message


def test_roots_are_absolute_and_at_least_one():
    for paths in ([], ["relative"]):
        with pytest.raises(ValueError, match="absolute"):
            Roots(paths)


def test_the_whole_file_system_can_be_a_root(root, opener):
    roots = Roots(["/"])
    assert read(roots, root / "sub" / "a.txt") == "inside"
    assert roots.locate("/").resolved == "/"
    assert repr(roots) == "Roots(['/'])"


# -- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["../secret.txt", "sub/a.txt", "nowhere", "link"])
def test_f32_a_link_is_not_followed_wherever_it_points(target, root, opener):
    (root / "link").symlink_to(target)
    refusal = refused(Roots([str(root)]), root / "link")
    assert "symbolic link" in refusal.message
    assert refusal.code == ErrorCode.INVALID_PARAMS


def test_f32_a_link_among_the_directories_gives_one_answer_for_all_that_may_be_behind(root, opener):
    (root / "link").symlink_to("..")
    roots = Roots([str(root)])
    names = ["secret.txt", "nothing.txt"]
    answers = {refused(roots, root / "link" / name).message.replace(name, "") for name in names}
    assert len(answers) == 1
    assert "symbolic link" in answers.pop()


def test_f32_a_root_that_becomes_a_link_later_is_refused(root, tmp_path, opener):
    roots = Roots([str(root)])
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path)
    assert "symbolic link" in refused(roots, root / "secret.txt").message


def test_f32_a_file_with_a_second_name_can_be_read_but_not_written(root, opener):
    os.link(root.parent / "secret.txt", root / "hard.txt")
    roots = Roots([str(root)])
    assert read(roots, root / "hard.txt") == "outside"
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        assert "hard link" in refused(roots, root / "hard.txt", flags).message
    assert (root.parent / "secret.txt").read_text() == "outside"


@pytest.mark.skipif(not LINUX, reason="swaps by renameat2")
def test_f32_a_race_of_swapped_links_never_leads_outside(root, tmp_path, opener):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("outside")
    (root / "link").symlink_to(outside)
    with swapping(root / "sub", root / "link"):
        outcomes = race(Roots([str(root)]), root / "sub", time.monotonic() + 1.5)
    assert os.listdir(outside) == ["a.txt"]
    assert (outside / "a.txt").read_text() == "outside"
    assert min(outcomes) > 20, f"there was no race to win: {outcomes}"


def race(roots, directory, deadline):
    """Read and make files below a directory that is being swapped: (successes, refusals)."""
    reading, making = (roots.locate(f"{directory}/{name}") for name in ("a.txt", "made.txt"))
    served = refusals = 0
    while time.monotonic() < deadline:
        try:
            with open(roots.open_beneath(reading, os.O_RDONLY)) as file:
                assert file.read() == "inside"
            with open(roots.open_beneath(making, os.O_WRONLY | os.O_CREAT), "w") as file:
                file.write("made")
            served += 1
        except Refusal:
            refusals += 1
    return served, refusals


# -- what is opened -------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
def test_f34_fifos_sockets_and_directories_are_refused_at_once(flags, root, opener, monkeypatch):
    os.mkfifo(root / "fifo")
    monkeypatch.chdir(root)  # a socket's path may have some 100 characters only
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        roots = Roots([str(root)])
        before = time.monotonic()
        for name in ("fifo", "socket", "sub", ""):
            refusal = refused(roots, root / name, flags)
            assert refusal.code == ErrorCode.INVALID_PARAMS
            assert "regular file" in refusal.message or "directory" in refusal.message
        assert time.monotonic() - before < 1


@pytest.mark.skipif(not LINUX, reason="the files of Linux")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"/proc/{os.getpid()}/environ", id="environ"),  # workers share their ids
        "/proc/version",
        "/sys/kernel/notes",
    ],
)
def test_f34_files_of_proc_and_sys_are_refused(path, opener):
    if not os.path.exists(path):
        pytest.skip(f"there is no {path} here")
    assert "/proc and /sys" in refused(Roots(["/"]), path).message


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_f34_devices_are_refused(path, opener):
    assert "regular file" in refused(Roots(["/"]), path).message


def test_what_is_not_there_is_a_resource_not_found(root, opener):
    for name in ("nothing.txt", "sub/no/where.txt"):
        refusal = refused(Roots([str(root)]), root / name)
        assert refusal.code == ErrorCode.RESOURCE_NOT_FOUND
        assert refusal.message == f"Resource not found: {root / name}"


def test_a_file_taken_for_a_directory_is_refused(root, opener):
    assert "is not a directory" in refused(Roots([str(root)]), root / "sub/a.txt/b").message


def test_a_name_too_long_for_the_disk_is_refused(root, opener):
    assert "too long" in refused(Roots([str(root)]), root / ("a" * 300)).message


def test_truncation_waits_until_the_file_is_known_to_be_harmless(root, opener):
    roots = Roots([str(root)])
    located = roots.locate(f"{root}/sub/a.txt")
    os.close(roots.open_beneath(located, os.O_WRONLY | os.O_TRUNC))
    assert (root / "sub" / "a.txt").read_bytes() == b""


def test_directories_are_opened_by_number(root, opener):
    roots = Roots([str(root)])
    fd = roots.open_directory(roots.locate(f"{root}/sub"))
    try:
        assert os.stat("a.txt", dir_fd=fd).st_size == 6
    finally:
        os.close(fd)
    for name in ("sub/a.txt", "nothing"):
        with pytest.raises(Refusal):
            roots.open_directory(roots.locate(f"{root}/{name}"))


def test_missing_parents_are_made_inside_the_root(root, opener):
    roots = Roots([str(root)])
    located = roots.locate(f"{root}/sub/x/y/new.txt")
    with pytest.raises(Refusal) as caught:
        roots.open_parent(located)
    assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND
    os.close(roots.open_parent(located, create=True))
    assert (root / "sub" / "x" / "y").is_dir()
    with pytest.raises(Refusal, match="is a directory"):
        roots.open_parent(roots.locate(str(root)))


def test_f32_no_parent_is_made_behind_a_link(root, opener):
    (root / "link").symlink_to("..")
    roots = Roots([str(root)])
    with pytest.raises(Refusal, match="symbolic link"):
        roots.open_parent(roots.locate(f"{root}/link/made/new.txt"), create=True)
    assert not (root.parent / "made").exists()


def test_a_directory_that_somebody_else_makes_at_the_same_time_is_used(root, monkeypatch, opener):
    roots = Roots([str(root)])
    make = os.mkdir

    def make_twice(*args, **kwargs):
        make(*args, **kwargs)
        make(*args, **kwargs)

    monkeypatch.setattr(os, "mkdir", make_twice)
    os.close(roots.open_parent(roots.locate(f"{root}/both/new.txt"), create=True))
    assert (root / "both").is_dir()


# -- the system -----------------------------------------------------------------------------------


def test_other_errors_of_the_system_are_told_as_they_are(root, monkeypatch):
    def no_more_files(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    roots = Roots([str(root)])
    monkeypatch.setattr(roots_module, "_opener", lambda: no_more_files)
    refusal = refused(roots, root / "sub" / "a.txt")
    assert refusal.code == ErrorCode.INTERNAL_ERROR
    assert refusal.message == f"too many open files: {root}/sub/a.txt"


def test_a_system_that_cannot_open_below_a_directory_opens_nothing(root, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", set())
    assert "safely" in refused(Roots([str(root)]), root / "sub" / "a.txt").message


class Interrupted:
    """A libc whose first system call is interrupted by a signal."""

    def __init__(self, libc):
        self.libc = libc
        self.calls = 0

    def syscall(self, *args):
        self.calls += 1
        if self.calls == 1:
            ctypes.set_errno(errno.EINTR)
            return -1
        return self.libc.syscall(*args)


@pytest.mark.skipif(not LINUX, reason="openat2 is Linux")
def test_an_interrupted_call_is_made_again(root, monkeypatch):
    if roots_module._opener() is not openat2:
        pytest.skip("this kernel has no openat2")
    libc = Interrupted(roots_module._libc())
    monkeypatch.setattr(roots_module, "_libc", lambda: libc)
    top = os.open(root, os.O_RDONLY)
    os.close(openat2(top, ("sub", "a.txt"), os.O_RDONLY, 0))
    os.close(top)
    assert libc.calls == 2


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_without_openat2_the_walk_is_used(platform, monkeypatch):
    class NoSuchCall:
        def syscall(self, *args):
            ctypes.set_errno(errno.ENOSYS)
            return -1

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(roots_module, "_libc", NoSuchCall)
    assert roots_module._opener.__wrapped__() is walk
