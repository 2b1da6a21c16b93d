"""Two versions of a file as a git patch, which ``git apply`` takes and reverts.

Texts are compared by lines; what is no UTF-8 text is a binary patch. Names are quoted where git
quotes them. Links are files of mode 120000, as in git; a file that becomes a link is deleted and
created.
"""

from __future__ import annotations

import base64
import hashlib
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...rendering import diff

NO_END: Final = "\\ No newline at end of file\n"

_ESCAPES: Final = {
    **{ord(sign): f"\\{name}" for sign, name in zip("\a\b\t\n\v\f\r", "abtnvfr", strict=True)},
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


@dataclass(frozen=True, slots=True)
class Side:
    """A file before or after: its mode (`os.stat_result.st_mode`) and content."""

    mode: int
    data: bytes

    @property
    def git_mode(self) -> str:
        if stat.S_ISLNK(self.mode):
            return "120000"
        return "100755" if self.mode & stat.S_IXUSR else "100644"

    @property
    def text(self) -> str | None:
        """``None`` for what is no text."""
        try:
            return None if b"\0" in self.data else self.data.decode("utf-8")
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch of one file, and the lines that it adds and removes."""

    text: str
    added: int = 0
    removed: int = 0


def make(path: str, old: Side | None, new: Side | None) -> Patch:
    """The patch that leads from one version to another; empty if git sees no difference."""
    if old is None and new is None:
        return Patch("")
    if old is not None and new is not None:
        if stat.S_IFMT(old.mode) != stat.S_IFMT(new.mode):
            gone, come = make(path, old, None), make(path, None, new)
            return Patch(gone.text + come.text, come.added, gone.removed)
        if old.git_mode == new.git_mode and old.data == new.data:
            return Patch("")
    before, after = (b"" if side is None else side.data for side in (old, new))
    one, other = (side.text if side is not None else "" for side in (old, new))
    head = "".join(_head(path, old, new))
    if before == after:
        return Patch(head)
    if one is None or other is None:
        return Patch(f"{head}GIT binary patch\n{_binary(after)}{_binary(before)}")
    names = ["/dev/null" if old is None else _name("a/", path)]
    names.append("/dev/null" if new is None else _name("b/", path))
    # A name with a blank ends with a tab, as diff's own do before a date.
    names = [f"{name}\t" if " " in name and name[0] != '"' else name for name in names]
    hunks = diff.hunks(_lines(one), _lines(other))
    edits = [sign for hunk in hunks for sign, _ in hunk.edits]
    body = "".join(part for hunk in hunks for part in _hunk(hunk))
    text = f"{head}--- {names[0]}\n+++ {names[1]}\n{body}"
    return Patch(text, edits.count("+"), edits.count("-"))


def _head(path: str, old: Side | None, new: Side | None) -> Iterator[str]:
    yield f"diff --git {_name('a/', path)} {_name('b/', path)}\n"
    mode = ""
    if old is None and new is not None:
        yield f"new file mode {new.git_mode}\n"
    elif new is None and old is not None:
        yield f"deleted file mode {old.git_mode}\n"
    elif old is not None and new is not None:
        if old.git_mode != new.git_mode:
            yield f"old mode {old.git_mode}\nnew mode {new.git_mode}\n"
        else:
            mode = f" {old.git_mode}"
    if old is None or new is None or old.data != new.data:
        yield f"index {_blob(old)}..{_blob(new)}{mode}\n"


def _blob(side: Side | None) -> str:
    """The name that git has for a content."""
    if side is None:
        return "0" * 40
    head = f"blob {len(side.data)}\0".encode()
    return hashlib.sha1(head + side.data, usedforsecurity=False).hexdigest()


def _name(prefix: str, path: str) -> str:
    """A name as git writes it: with control characters, quotes or foreign bytes it is quoted."""
    raw = path.encode("utf-8", "surrogateescape")
    try:
        foreign = raw.decode("utf-8") != path
    except UnicodeDecodeError:
        foreign = True
    if not foreign and not any(byte < 32 or byte in b'"\\\x7f' for byte in raw):
        return prefix + path
    quoted = "".join(
        _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw
    )
    return f'"{prefix}{quoted}"'


def _lines(text: str) -> list[str]:
    """With their ends; a carriage return is a part of its line."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _hunk(hunk: diff.Hunk) -> Iterator[str]:
    removed, added = hunk.counts()
    # An empty side is numbered by the line before it.
    start, end = hunk.old - (not removed), hunk.new - (not added)
    yield f"@@ -{start},{removed} +{end},{added} @@\n"
    for sign, line in hunk.edits:
        yield f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{NO_END}"


def _binary(data: bytes) -> str:
    """One direction of a binary patch, in git's base 85."""
    packed = zlib.compress(data)
    lines = [f"literal {len(data)}\n"]
    for at in range(0, len(packed), 52):
        part = packed[at : at + 52]
        size = chr(ord("A") + len(part) - 1) if len(part) <= 26 else chr(ord("a") + len(part) - 27)
        lines.append(f"{size}{base64.b85encode(part, pad=True).decode()}\n")
    return "".join([*lines, "\n"])
