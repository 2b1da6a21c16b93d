"""Opening the archive of an agent so that it can do no harm: zip, tar, or one program by itself.

Every name stays below the folder. There are files, folders and links, nothing else; links lead
nowhere outside, and nothing is ever written through one: they are made last, and are then held
against where they really lead. A name is there once. Sizes are counted as they are written, not
believed. Of modes only "may be run" is taken over.
"""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Literal

from ...errors import UsageError
from .model import Invalid, relative_path

CHUNK: Final = 2**18

Kind = Literal["zip", "tar", "raw"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an archive may hold: bytes in all, entries, and bytes as it is sent."""

    size: int = 2 * 2**30
    entries: int = 50_000
    sent: int = 700 * 2**20


BOUNDS: Final = Bounds()
"""The largest agents seen have 250 MB unpacked, and some 5,000 files."""


class BadArchive(UsageError):
    """An archive that is broken, or that would do harm."""


@dataclass(frozen=True, slots=True)
class _Member:
    """One entry of an archive.

    Attributes:
        target: where a link leads; of a hard link the path of another member.
        open: opens a file.
    """

    path: str
    kind: Literal["file", "folder", "link", "copy"]
    runs: bool = False
    target: str = ""
    open: Callable[[], IO[bytes]] | None = None


def kind_of(url: str) -> Kind:
    """What is at an address, by its end.

    Raises:
        BadArchive: it is an installer, or packed in a way that we do not know.
    """
    name = url.split("?", 1)[0].split("#", 1)[0].lower().rsplit("/", 1)[-1]
    if name.endswith(".zip"):
        return "zip"
    if name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar")):
        return "tar"
    if name.endswith((".dmg", ".pkg", ".deb", ".rpm", ".msi", ".7z", ".rar", ".zst", ".appimage")):
        raise BadArchive(
            f"{name} is an installer, or packed in a way that is not known",
            remedy="Install the agent as its website says.",
        )
    return "raw"


def unpack(
    archive: Path, kind: Kind, folder: Path, *, program: str, bounds: Bounds = BOUNDS
) -> Path:
    """Unpack an archive into an empty folder; returns the program, which may be run.

    Args:
        archive: the file.
        kind: see `kind_of`.
        folder: gets what is in it; what is there after an error is to be thrown away.
        program: path of the program in it, from `model.relative_path`.
        bounds: what it may hold.

    Raises:
        BadArchive: it is broken, would do harm, or does not have the program.
    """
    try:
        if kind == "raw":
            _write_program(archive, folder / PurePosixPath(program).name, bounds)
            program = PurePosixPath(program).name
        elif kind == "zip":
            with zipfile.ZipFile(archive) as opened:
                _write_all(_zip_members(opened), folder, bounds)
        else:
            with tarfile.open(archive, "r:*") as opened_tar:
                _write_all(_tar_members(opened_tar), folder, bounds)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise BadArchive(f"the archive is broken: {error}", remedy="Try again.") from error
    except (NotImplementedError, RuntimeError) as error:  # of zipfile: encrypted, unknown method
        raise BadArchive(f"the archive cannot be opened: {error}") from error
    except OSError as error:
        raise BadArchive(f"the archive cannot be unpacked: {error}") from error
    return program_in(folder, program)


def program_in(folder: Path, program: str) -> Path:
    """The program in what was unpacked; it may be run then.

    Raises:
        BadArchive: it is not there.
    """
    found = folder / program
    if not found.is_file() or not found.resolve().is_relative_to(folder.resolve()):
        raise BadArchive(
            f"there is no program {program!r} in the archive",
            remedy="The registry has a mistake; install the agent as its website says.",
        )
    if os.name == "posix" and not found.stat().st_mode & 0o100:
        found.chmod(0o700)
    return found


def _write_program(archive: Path, target: Path, bounds: Bounds) -> None:
    with archive.open("rb") as source:
        _copy(source, target, runs=True, left=bounds.size)


def _write_all(members: Iterator[_Member], folder: Path, bounds: Bounds) -> None:
    left = bounds.size
    seen: set[str] = set()
    links: list[_Member] = []
    for count, member in enumerate(members, 1):
        if count > bounds.entries:
            raise BadArchive(f"the archive has more than {bounds.entries:,} entries")
        path = folder / member.path
        if member.kind == "folder":
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            continue
        if member.path.casefold() in seen:
            raise BadArchive(f"the archive has {member.path!r} twice")
        seen.add(member.path.casefold())
        if member.kind == "link":
            links.append(member)
            continue
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if member.kind == "copy":
            with (folder / member.target).open("rb") as other:
                left -= _copy(other, path, runs=member.runs, left=left)
        elif member.open is not None:
            with member.open() as source:
                left -= _copy(source, path, runs=member.runs, left=left)
    _make_links(links, folder)


def _make_links(links: list[_Member], folder: Path) -> None:
    """Links come last, so that nothing was written through one."""
    for link in links:
        path = folder / link.path
        if PurePosixPath(link.target).is_absolute() or "\\" in link.target or "\0" in link.target:
            raise BadArchive(f"the link {link.path!r} leads out of the archive")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise BadArchive(f"the link {link.path!r} lies behind another link")
        os.symlink(link.target, path)
    root = folder.resolve()
    for link in links:
        path = folder / link.path
        try:
            path.stat()
            inside = path.resolve().is_relative_to(root)
        except FileNotFoundError:  # it leads to nothing, which may still be somewhere else
            inside = path.resolve().is_relative_to(root)
        except OSError:  # links in a circle
            inside = False
        if not inside:
            raise BadArchive(f"the link {link.path!r} leads out of the archive")


def _copy(source: IO[bytes], path: Path, *, runs: bool, left: int) -> int:
    """Write a new file, of at most ``left`` bytes; returns how many it has."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o700 if runs else 0o600)
    size = 0
    with os.fdopen(handle, "wb") as target:
        while chunk := source.read(CHUNK):
            size += len(chunk)
            if size > left:
                raise BadArchive("the archive unpacks to more than an agent may have")
            target.write(chunk)
    return size


def _zip_members(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        path = _path(info.filename)
        if info.is_dir():
            if path:
                yield _Member(path, "folder")
        elif stat.S_ISLNK(mode):
            if info.file_size > 4096:
                raise BadArchive(f"the link {path!r} is no link")
            yield _Member(path, "link", target=archive.read(info).decode("utf-8", "replace"))
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            yield _Member(path, "file", bool(mode & 0o111), open=_opener(archive, info))
        else:
            raise BadArchive(f"{path!r} in the archive is no file")


def _tar_members(archive: tarfile.TarFile) -> Iterator[_Member]:
    files: set[str] = set()
    for info in archive:
        path = _path(info.name)
        if info.isdir():
            if path:
                yield _Member(path, "folder")
        elif info.issym():
            yield _Member(path, "link", target=info.linkname)
        elif info.islnk():
            target = _path(info.linkname)
            if target not in files:
                raise BadArchive(f"the link {path!r} leads to nothing in the archive")
            files.add(path)
            yield _Member(path, "copy", bool(info.mode & 0o111), target=target)
        elif info.isfile():
            files.add(path)
            yield _Member(path, "file", bool(info.mode & 0o111), open=_extractor(archive, info))
        else:
            raise BadArchive(f"{path!r} in the archive is no file")


def _path(name: str) -> str:
    """A member's path; empty for the folder itself."""
    if name.strip("/").replace("\\", "/") in ("", ".") and not name.startswith("/"):
        return ""
    try:
        return relative_path(name)
    except Invalid as error:
        raise BadArchive(str(error)) from error


def _opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(info)


def _extractor(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def extract() -> IO[bytes]:
        found: Any = archive.extractfile(info)
        return found  # type: ignore[no-any-return]

    return extract
