"""Containment: paths the agent names are opened only below the session's roots, without races.

Rules:

- The text of a path is judged first, before any I/O: absolute, no ``..``, below a root. What is
  outside gets the same answer whether it exists or not.
- No symbolic link is followed, wherever it points: openat2(2) with RESOLVE_BENEATH and
  RESOLVE_NO_SYMLINKS where the kernel has it, else a walk by directory descriptors with O_NOFOLLOW.
  Checking a resolved path and opening it afterwards can be raced; these cannot.
- The roots themselves are resolved once, when the session begins. A path may be written with a
  root as it was given or as it was resolved; links on the way to a root are the user's own.
- Only regular files are opened, and never one of /proc or /sys. Opening never waits: a FIFO does
  not block, a terminal does not become the kernel's.
- A file that has a second name (a hard link) is not written: the other name may be outside.
- Letters are compared exactly. Where the file system folds case this refuses more, never less.

All methods but `Roots.locate` do file I/O; call them in a thread where that may be slow.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ..errors import ErrorCode, Refusal

__all__ = ["Located", "Roots", "lexical_parts", "refusing"]

PATH_LIMIT: Final = 4096
"""Bytes of a path, its end included (Linux: PATH_MAX)."""

OUTSIDE: Final = "path is outside the session's roots"

# <linux/openat2.h>; the system call has this number on every architecture but alpha.
SYS_OPENAT2: Final = 437
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08


def _flags(*names: str) -> int:
    """Those that the system has. Windows has none of them, and opens nothing here."""
    return functools.reduce(lambda flags, name: flags | getattr(os, name, 0), names, 0)


# O_PATH needs no permission to list the directory; where it is missing, reading has to do.
_DIRECTORY: Final = _flags("O_DIRECTORY", "O_CLOEXEC", "O_PATH")
_CAREFUL: Final = _flags("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY")
_WRITING: Final = os.O_WRONLY | os.O_RDWR

# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_RESERVED: Final = re.compile(
    r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9¹²³])\s*(?:\..*)?", re.IGNORECASE
)

Opener = Callable[[int, Sequence[str], int, int], int]
"""(directory descriptor, names, flags, mode) to a descriptor."""


@dataclass(frozen=True, slots=True)
class Located:
    """A path found to be below a root, by its text alone.

    Attributes:
        root: the root, resolved.
        parts: names below it; none for the root itself.
        path: for display: normalised, with the root as the agent wrote it.
    """

    root: str
    parts: tuple[str, ...]
    path: str

    @property
    def resolved(self) -> str:
        """The same path with the root resolved. Not for opening: that could be raced."""
        return "/".join((self.root.rstrip("/"), *self.parts)) or "/"


def lexical_parts(path: object, *, windows: bool = os.name == "nt") -> tuple[str, ...]:
    """The names in an absolute path; judged by its text alone.

    Raises:
        Refusal: it is no text, relative, too long, steps upward, or names something other than a
            plain place (a network share, a stream of a file, a device).
    """
    if type(path) is not str or not path:
        raise Refusal("path must be a non-empty string")
    try:
        length = len(path.encode())
    except UnicodeEncodeError as error:
        raise Refusal("path is not valid Unicode text") from error
    if length >= PATH_LIMIT:
        raise Refusal(f"path is too long: {PATH_LIMIT - 1} bytes are the limit")
    if "\0" in path:
        raise Refusal("path contains a null character")
    text = path.replace("\\", "/") if windows else path
    if text.startswith("//"):
        raise Refusal("paths on the network are not served")
    if windows and re.match(r"[A-Za-z]:/", text):
        text, drive = text[2:], text[:2].upper()
    else:
        drive = ""
    if not text.startswith("/") or (windows and not drive):
        raise Refusal("path must be absolute")
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Refusal("path must not contain '..'")
    if windows:
        for part in parts:
            if ":" in part or part[-1] in " ." or _RESERVED.fullmatch(part):
                raise Refusal("path contains a name that Windows treats in a special way")
    return (drive, *parts) if drive else parts


class Roots:
    """The directories a session may work in. Further ones may be added and removed.

    Args:
        paths: absolute directories; at least one.

    Attributes:
        paths: the same, normalised.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        if not paths or not all(os.path.isabs(path) for path in paths):
            raise ValueError("roots are absolute paths, at least one")
        self.paths: tuple[str, ...] = ()
        self._set(paths)

    def add(self, path: str) -> None:
        """Let the session work in one more directory; again does nothing."""
        if os.path.normpath(path) not in self.paths:
            self._set([*self.paths, path])

    def remove(self, path: str) -> None:
        """Leave a directory out again; the first one stays."""
        first, *others = self.paths
        self._set([first, *(other for other in others if other != os.path.normpath(path))])

    def _set(self, paths: Sequence[str]) -> None:
        self.paths = tuple(dict.fromkeys(os.path.normpath(path) for path in paths))
        self._prefixes: list[tuple[tuple[str, ...], str]] = []
        for path in self.paths:
            resolved = os.path.realpath(path)
            for form in dict.fromkeys((path, resolved)):
                self._prefixes.append((_split(form), resolved))
        # The longest first: a root within another one, reached by a link, is a root of its own.
        self._prefixes.sort(key=lambda prefix: -len(prefix[0]))

    def __repr__(self) -> str:
        return f"Roots({list(self.paths)!r})"

    def locate(self, path: object) -> Located:
        """Find a path of the agent's below a root; no I/O.

        Raises:
            Refusal: it is malformed or outside.
        """
        parts = lexical_parts(path)
        for prefix, root in self._prefixes:
            if parts[: len(prefix)] == prefix:
                slash = "" if os.name == "nt" else "/"
                return Located(root, parts[len(prefix) :], slash + "/".join(parts))
        raise Refusal(OUTSIDE)

    def open_beneath(self, located: Located, flags: int, mode: int = 0o666) -> int:
        """Open a regular file; returns its descriptor.

        Args:
            located: from `locate`.
            flags: as for `os.open`.
            mode: of a file that O_CREAT makes.

        Raises:
            Refusal: it is not there, not a regular file, behind a link, or may not be opened.
        """
        with refusing(located.path), self._opened(located.root) as top:
            return self.open_child(top, located.parts, flags, mode)

    def open_child(self, directory: int, parts: Sequence[str], flags: int, mode: int = 0) -> int:
        """The same below a directory that was opened here before; errors stay `OSError`.

        Raises:
            OSError: it cannot be opened.
            Refusal: it is not a regular file, or has a second name and would be written.
        """
        fd = _opener()(directory, parts, (flags & ~os.O_TRUNC) | _CAREFUL, mode)
        try:
            status = os.fstat(fd)
            _check_regular(status)
            if flags & _WRITING and status.st_nlink > 1:
                raise Refusal(
                    "the file has a second name (a hard link), which may be outside the session's "
                    "roots, so it is not written; remove it and write it anew"
                )
            if flags & os.O_TRUNC:  # only now is it known to be harmless
                os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def open_directory(self, located: Located) -> int:
        """Open a directory; its descriptor serves as ``dir_fd`` and in /proc/self/fd.

        Raises:
            Refusal: it is not there, not a directory, or behind a link.
        """
        with refusing(located.path), self._opened(located.root) as top:
            return _opener()(top, located.parts, _DIRECTORY, 0)

    def open_parent(self, located: Located, *, create: bool = False) -> int:
        """Open the directory that a file is in; ``create`` makes missing ones below the root.

        Raises:
            Refusal: as `open_directory`; or the path names the root itself.
        """
        if not located.parts:
            raise Refusal(f"{located.path} is a directory")
        with refusing(located.path):
            with self._opened(located.root) as top:
                fd = os.dup(top)
            for part in located.parts[:-1]:
                try:
                    child = _open_or_make(fd, part, create=create)
                finally:
                    os.close(fd)
                fd = child
            return fd

    @contextmanager
    def _opened(self, root: str) -> Iterator[int]:
        """The root's descriptor. A root that has become a link since it was resolved is refused."""
        if os.open not in os.supports_dir_fd:
            raise Refusal("this system cannot open files below a directory safely")
        top = os.open("/", _DIRECTORY)
        try:
            fd = _opener()(top, _split(root), _DIRECTORY, 0)
        finally:
            os.close(top)
        try:
            yield fd
        finally:
            os.close(fd)


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Turn an `OSError` into the `Refusal` the agent gets; ``path`` is named in it."""
    try:
        yield
    except OSError as error:
        raise _refusal(error, path) from error


_INVALID: Final = {
    errno.ELOOP: "{path} is, or is behind, a symbolic link; links are not followed",
    errno.ENOTDIR: "{path} is not a directory, or is behind a file or a symbolic link",
    errno.EISDIR: "{path} is a directory",
    errno.ENXIO: "{path} is not a regular file",
    errno.ENODEV: "{path} is not a regular file",
    errno.EACCES: "permission denied: {path}",
    errno.EPERM: "permission denied: {path}",
    errno.EROFS: "permission denied: {path} is on a read-only file system",
    errno.ENAMETOOLONG: "a name in the path is too long",
}


def _refusal(error: OSError, path: str) -> Refusal:
    if error.errno == errno.ENOENT:
        return Refusal(f"Resource not found: {path}", code=ErrorCode.RESOURCE_NOT_FOUND)
    if error.errno in _INVALID:
        return Refusal(_INVALID[error.errno].format(path=path))
    reason = (error.strerror or "unknown error").lower()
    return Refusal(f"{reason}: {path}", code=ErrorCode.INTERNAL_ERROR)


def _split(path: str) -> tuple[str, ...]:
    """The names in a path of ours."""
    return tuple(part for part in path.replace(os.sep, "/").split("/") if part)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refusal("the path does not name a regular file")
    if status.st_dev in _kernel_devices():
        raise Refusal("files of /proc and /sys are not served")


@functools.cache
def _kernel_devices() -> frozenset[int]:
    """Device numbers of the file systems whose files are the operating system's own state."""
    found = {os.stat(path).st_dev for path in ("/proc", "/sys") if os.path.ismount(path)}
    return frozenset(found)


def _open_or_make(directory: int, name: str, *, create: bool) -> int:
    try:
        return _opener()(directory, (name,), _DIRECTORY, 0)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        pass  # made meanwhile, by whomever; opening it decides what it is
    return _opener()(directory, (name,), _DIRECTORY, 0)


def walk(directory: int, parts: Sequence[str], flags: int, mode: int) -> int:
    """Open name by name, following no link."""
    names = list(parts) or ["."]
    fd = directory
    try:
        for name in names[:-1]:
            child = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            if fd != directory:
                os.close(fd)
            fd = child
        return os.open(names[-1], flags | os.O_NOFOLLOW, mode, dir_fd=fd)
    finally:
        if fd != directory:
            os.close(fd)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def openat2(directory: int, parts: Sequence[str], flags: int, mode: int) -> int:
    """Open in one step that the kernel keeps below the directory, following no link."""
    how = _OpenHow(
        flags=flags,
        mode=mode if flags & os.O_CREAT else 0,  # anything else is EINVAL
        resolve=RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    )
    path = "/".join(parts) or "."
    syscall = _libc().syscall
    while True:
        fd: int = syscall(
            ctypes.c_long(SYS_OPENAT2),
            ctypes.c_int(directory),
            os.fsencode(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EINTR:  # as os.open does (PEP 475)
            raise OSError(number, os.strerror(number), path)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _opener() -> Opener:
    """What this system has: kernels before 5.6 and some sandboxes know no openat2."""
    if not sys.platform.startswith("linux"):
        return walk
    top = os.open("/", _DIRECTORY)
    try:
        os.close(openat2(top, (), _DIRECTORY, 0))
    except OSError:
        return walk
    finally:
        os.close(top)
    return openat2
