"""The files that an agent asks for (F31 to F37), as the user of a kernel meets them; and the race.

What the services themselves do is held in `test_files` and `test_roots`; here the requests come
from an agent's process, and what counts is the file, the agent's answer and the cell.
"""

from __future__ import annotations

import os
import stat
import sys

import pytest

from acp_jupyter.services.files import WHOLE_LIMIT
from tests.race import race, ways_here

LINUX = sys.platform.startswith("linux")

RACE = 3.0
"""Seconds; `python -m tests.race` takes five minutes."""


def requests(agent):
    """Source of a turn that makes the requests given, one after the other."""
    for method, params in agent.given["requests"]:
        agent.ask(method, **params)


def read(path, **params):
    return ("fs/read_text_file", {"path": str(path), **params})


def write(path, content):
    return ("fs/write_text_file", {"path": str(path), "content": content})


@pytest.fixture
def served(kernel, script):
    """Runs a turn with requests; the cell, and what the agent got for each."""

    def run(*wanted):
        kernel.run("%acp permissions allow").ok()
        made = script(prompt=requests, given={"requests": wanted})
        kernel.connect(made)
        cell = kernel.run("go").ok()
        notes = [entry for entry in made.entries() if str(entry.get("note")).startswith("fs/")]
        answers = [entry["value"] for entry in notes]
        assert len(answers) == len(wanted)
        return cell, answers

    return run


def refusals(answers):
    return [answer["error"]["message"] for answer in answers]


# -- the race -------------------------------------------------------------------------------------


@pytest.mark.skipif(not LINUX, reason="swaps by renameat2")
def test_f32_no_byte_is_read_or_written_outside_whoever_swaps_links(tmp_path):
    for counts in race(RACE, tmp_path, ways_here()).values():
        for what in ("read", "write", "command"):
            for outcome in ("served", "refused"):
                assert counts[what, outcome], f"there was no race to win: {counts}"


@pytest.mark.skipif(not LINUX, reason="swaps by renameat2")
def test_f32_who_follows_links_loses_the_race(tmp_path):
    """So the race is one."""

    def careless(directory, parts, flags, mode):
        path = os.path.join(*parts) if parts else "."
        return os.open(path, flags & ~os.O_NOFOLLOW, mode, dir_fd=directory)

    with pytest.raises(BaseExceptionGroup) as caught:
        race(30.0, tmp_path, [careless])
    assert caught.group_contains(AssertionError, match="outside")


# -- from the agent to the cell -------------------------------------------------------------------


def test_f31_f32_what_is_outside_is_refused_in_one_way_and_told(kernel, served, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("outside")
    link = kernel.cwd / "f32-link"
    link.symlink_to(tmp_path)
    up = f"{kernel.cwd}/../{tmp_path.name}/secret.txt"
    beside = f"{kernel.cwd}-beside/x.txt"
    cell, answers = served(
        *(read(path) for path in (secret, up, beside, link / "secret.txt", tmp_path / "none")),
        *(write(path, "changed") for path in (secret, link / "secret.txt", link / "new.txt")),
    )
    assert all("outside" not in str(answer.get("result")) for answer in answers)
    assert len(refusals(answers)) == 8
    assert secret.read_text() == "outside"
    assert not (tmp_path / "new.txt").exists()
    assert cell.text.count("refused") >= 5
    assert "secret.txt" in cell.text


def test_f34_a_fifo_and_a_device_keep_no_cell_waiting(kernel, served):
    fifo = kernel.cwd / "f34-fifo"
    os.mkfifo(fifo)
    cell, answers = served(read(fifo), write(fifo, "x"), read("/dev/zero"), read("/proc/1/environ"))
    assert len(refusals(answers)) == 4
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert cell.seconds < 30
    assert "f34-fifo" in cell.text


def test_f35_a_large_file_is_refused_whole_with_the_way_to_read_it(kernel, served):
    large = kernel.cwd / "f35-large.txt"
    large.write_text("line\n" * (WHOLE_LIMIT // 5 + 10))
    binary = kernel.cwd / "f35-binary"
    binary.write_bytes(b"\xff\xfe\x00")
    _, answers = served(read(large), read(large, line=3, limit=2), read(binary))
    assert "line" in answers[0]["error"]["message"]
    assert "limit" in answers[0]["error"]["message"]
    assert answers[1]["result"]["content"] == "line\nline\n"
    assert "error" in answers[2]


def test_f36_newer_text_is_not_overwritten_and_both_versions_are_shown(kernel, script):
    path = kernel.cwd / "f36.txt"
    path.write_text("one\n")

    def late_write(agent):
        path = agent.given["path"]
        agent.ask("fs/read_text_file", path=path)
        with open(path, "w") as file:  # the user, meanwhile
            file.write("the user's text\n")
        agent.ask("fs/write_text_file", path=path, content="the agent's text\n")
        agent.ask("fs/read_text_file", path=path)
        agent.ask("fs/write_text_file", path=path, content="both\n")

    made = script(prompt=late_write, given={"path": str(path)})
    kernel.run("%acp permissions allow").ok()
    kernel.connect(made)
    cell = kernel.run("go").ok()
    first, second = made.notes("fs/write_text_file")
    assert "changed" in first["error"]["message"]
    assert "result" in second
    assert path.read_text() == "both\n"
    assert "the user's text" in cell.text
    assert "the agent's text" in cell.text


def test_f37_bytes_lines_and_modes_go_through_unchanged(kernel, served):
    path = kernel.cwd / "f37.sh"
    path.write_bytes("\ufeffa\r\nb\x0cc\u2028d\r\ne".encode())
    path.chmod(0o750)
    text = "\ufeffa\r\nb\x0cc\u2028d\r\nlast"
    new = kernel.cwd / "f37" / "deep" / "new.txt"
    _, answers = served(
        read(path),
        read(path, line=2, limit=1),
        read(path, line=9),
        read(path, line=0),
        write(path, text),
        write(new, "made\n"),
    )
    assert answers[0]["result"]["content"] == "\ufeffa\r\nb\x0cc\u2028d\r\ne"
    assert answers[1]["result"]["content"] == "b\x0cc\u2028d\r\n"
    assert answers[2]["result"]["content"] == ""
    assert "error" in answers[3]
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert new.read_text() == "made\n"
    assert [name for name in os.listdir(kernel.cwd) if name.startswith(".acp")] == []
