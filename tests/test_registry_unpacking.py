"""Archives of agents: what is in them arrives, and those that would do harm do none."""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path

import pytest

from acp_jupyter.services.registry.unpacking import BadArchive, Bounds, Kind, kind_of, unpack
from tests.registry_server import make_tar, make_zip, tar_member

SMALL = Bounds(size=100_000, entries=20, sent=100_000)
LINK = stat.S_IFLNK | 0o777


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that an archive must not touch."""
    path = tmp_path / "outside"
    path.write_text("untouched")
    return path


def opened(tmp_path: Path, content: bytes, kind: Kind, program: str = "agent") -> Path:
    archive, folder = tmp_path / "archive", tmp_path / "unpacked" / "folder"
    archive.write_bytes(content)
    folder.mkdir(parents=True)
    return unpack(archive, kind, folder, program=program, bounds=SMALL)


def whole(tmp_path: Path) -> set[str]:
    """All that is there besides the folder that was unpacked into."""
    folder = tmp_path / "unpacked" / "folder"
    return {
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if not path.is_relative_to(folder)
    }


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_archive_is_unpacked(tmp_path: Path, mode: str) -> None:
    content = make_tar(
        tar_member("./", type=tarfile.DIRTYPE),
        tar_member("./bin/agent", b"program", mode=0o4777),
        tar_member("./lib/data.txt", b"data", mode=0o666),
        tar_member("./lib/again.txt", type=tarfile.LNKTYPE, linkname="./lib/data.txt"),
        tar_member("./run", type=tarfile.SYMTYPE, linkname="bin/agent"),
        mode=mode,
    )
    program = opened(tmp_path, content, "tar", "bin/agent")
    folder = tmp_path / "unpacked" / "folder"
    assert program == folder / "bin" / "agent"
    assert program.read_bytes() == b"program"
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "lib/data.txt").stat().st_mode) == 0o600
    assert (folder / "lib/again.txt").read_bytes() == b"data"
    assert os.readlink(folder / "run") == "bin/agent"


def test_a_zip_archive_is_unpacked_and_its_program_may_be_run(tmp_path: Path) -> None:
    content = make_zip(
        ("folder/", b"", stat.S_IFDIR | 0o755),
        ("folder/agent", b"program", 0),  # of Windows: it knows no modes
        ("run", b"folder/agent", LINK),
    )
    program = opened(tmp_path, content, "zip", "run")
    assert program.read_bytes() == b"program"
    assert os.access(program, os.X_OK)


def test_a_program_by_itself_gets_the_name_of_its_command(tmp_path: Path) -> None:
    program = opened(tmp_path, b"program", "raw", "somewhere/agent")
    assert program.name == "agent"
    assert os.access(program, os.X_OK)


FILE = stat.S_IFREG | 0o755
HARMFUL: dict[str, tuple[Kind, bytes]] = {
    "a tar file above": ("tar", make_tar(tar_member("../outside", b"x"))),
    "a tar file above, later": ("tar", make_tar(tar_member("a/../../outside", b"x"))),
    "an absolute tar file": ("tar", make_tar(tar_member("/tmp/acp-outside", b"x"))),
    "a zip file above": ("zip", make_zip(("../outside", b"x", FILE))),
    "an absolute zip file": ("zip", make_zip(("/tmp/acp-outside", b"x", FILE))),
    "a zip file of Windows above": ("zip", make_zip(("..\\outside", b"x", FILE))),
    "a drive": ("zip", make_zip(("c:\\outside", b"x", FILE))),
    "a stream of a file": ("zip", make_zip(("agent:stream", b"x", FILE))),
    "an invisible name": ("zip", make_zip(("a\x1b[2Jgent", b"x", FILE))),
    "a link above": (
        "tar",
        make_tar(
            tar_member("agent", b"x"), tar_member("l", type=tarfile.SYMTYPE, linkname="../outside")
        ),
    ),
    "an absolute link": (
        "tar",
        make_tar(
            tar_member("agent", b"x"), tar_member("l", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        ),
    ),
    "a zip link above": ("zip", make_zip(("agent", b"x", FILE), ("l", b"../outside", LINK))),
    "a file written through a link": (
        "tar",
        make_tar(
            tar_member("l", type=tarfile.SYMTYPE, linkname=".."),
            tar_member("l/outside", b"x"),
            tar_member("agent", b"x"),
        ),
    ),
    "a link written through a link": (
        "tar",
        make_tar(
            tar_member("agent", b"x"),
            tar_member("a/b/back", type=tarfile.SYMTYPE, linkname="../.."),
            tar_member("out", type=tarfile.SYMTYPE, linkname="a/b/back/../outside"),
        ),
    ),
    "links in a circle": (
        "tar",
        make_tar(
            tar_member("a", type=tarfile.SYMTYPE, linkname="b"),
            tar_member("b", type=tarfile.SYMTYPE, linkname="a"),
            tar_member("agent", b"x"),
        ),
    ),
    "a hard link outside": (
        "tar",
        make_tar(tar_member("agent", type=tarfile.LNKTYPE, linkname="/etc/passwd")),
    ),
    "a hard link to a link": (
        "tar",
        make_tar(
            tar_member("l", type=tarfile.SYMTYPE, linkname="../outside"),
            tar_member("agent", type=tarfile.LNKTYPE, linkname="l"),
        ),
    ),
    "a device": ("tar", make_tar(tar_member("agent", type=tarfile.CHRTYPE))),
    "a pipe": ("tar", make_tar(tar_member("agent", type=tarfile.FIFOTYPE))),
    "a zip device": ("zip", make_zip(("agent", b"", stat.S_IFCHR | 0o777))),
    "a name twice": ("tar", make_tar(tar_member("agent", b"x"), tar_member("AGENT", b"y"))),
    "a tar bomb": ("tar", make_tar(tar_member("agent", bytes(SMALL.size + 1)))),
    "a zip bomb": ("zip", make_zip(("agent", bytes(SMALL.size + 1), FILE))),
    "a bomb of many files": (
        "zip",
        make_zip(*((f"f{number}", bytes(SMALL.size // 10), FILE) for number in range(12))),
    ),
    "many entries": (
        "zip",
        make_zip(*((f"f{number}", b"", FILE) for number in range(SMALL.entries + 1))),
    ),
    "many folders": (
        "tar",
        make_tar(*(tar_member(f"f{n}", type=tarfile.DIRTYPE) for n in range(SMALL.entries + 1))),
    ),
    "a large link": ("zip", make_zip(("agent", b"x", FILE), ("l", b"a" * 5000, LINK))),
    "a broken tar": ("tar", make_tar(tar_member("agent", bytes(range(256)) * 200))[:-500]),
    "a broken zip": ("zip", make_zip(("agent", b"x" * 500, FILE))[:-30]),
    "no archive": ("tar", b"<html>not found</html>"),
    "nothing": ("zip", b""),
    "no program": ("zip", make_zip(("other", b"x", FILE))),
    "a folder for a program": ("zip", make_zip(("agent/", b"", stat.S_IFDIR | 0o755))),
    "a program too large": ("raw", bytes(SMALL.size + 1)),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_an_archive_that_would_do_harm_does_none(tmp_path: Path, outside: Path, name: str) -> None:
    kind, content = HARMFUL[name]
    with pytest.raises(BadArchive):
        opened(tmp_path, content, kind)
    assert outside.read_text() == "untouched"
    assert whole(tmp_path) == {"archive", "outside", "unpacked"}
    assert not Path("/tmp/acp-outside").exists()


def test_a_link_that_stays_within_is_kept_even_if_it_leads_up(tmp_path: Path) -> None:
    content = make_tar(
        tar_member("lib/agent", b"program"),
        tar_member("bin/agent", type=tarfile.SYMTYPE, linkname="../lib/agent"),
    )
    assert opened(tmp_path, content, "tar", "bin/agent").read_bytes() == b"program"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://x.org/a/agent.TAR.GZ?token=1", "tar"),
        ("https://x.org/agent.tbz2", "tar"),
        ("https://x.org/agent.zip#part", "zip"),
        ("https://x.org/agent-1.2.3", "raw"),
        ("https://x.org/agent.exe", "raw"),
    ],
)
def test_what_is_at_an_address_is_told_by_its_end(url: str, kind: str) -> None:
    assert kind_of(url) == kind


@pytest.mark.parametrize("end", [".dmg", ".pkg", ".deb", ".rpm", ".msi", ".tar.zst"])
def test_installers_are_refused(end: str) -> None:
    with pytest.raises(BadArchive, match="installer"):
        kind_of(f"https://x.org/agent{end}")
