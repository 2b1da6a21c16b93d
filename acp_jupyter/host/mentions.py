"""What the mentions in a prompt stand for: variables, cells, errors and files of the notebook.

Rules:

- ``@notebook``, ``@error`` and ``@cell:N`` have their meaning whatever variables there are. Any
  other word is a variable, else a file; else it stays text, unless it looks like a path.
- A variable's attribute (``@df.columns``) and a word that goes on after its name stand for the
  variable.
- Files are opened below the session's roots, without following links. One that holds secrets, or
  decides what runs, is not sent.

Call it on the thread on which the notebook's code runs: it calls the code of the user's objects.
"""

from __future__ import annotations

import base64
import difflib
import mimetypes
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..errors import ErrorCode, Refusal, UsageError
from ..rendering import images
from ..rendering.characters import clip, one_line
from ..services.protected import is_protected
from ..services.roots import Located, Roots
from ..session.attachments import Attachment, Mention, find_mentions, open_mention, takes
from .history import CellSource
from .tables import TableFormat
from .values import IMAGE_LIMIT, VALUE_LIMIT, describe_value, error_attachment, text_attachment

__all__ = ["PictureFolder", "Resolver", "path_matches", "typed_path_matches"]

FILE_LIMIT: Final = 200_000
"""Bytes of a text file that is sent; a larger one is linked."""

NOTEBOOK_LIMIT: Final = 60_000
OUTPUT_LIMIT: Final = 2_000
"""Characters of the whole notebook, and of one cell's output in it."""

CELL_IMAGES: Final = 4
LISTED: Final = 2_000
"""Directory entries that are looked at for a completion or a suggestion."""

# What a word ends with that was surely meant as a file: a decorator (``@app.route``) is none.
_FILE_NAME: Final = re.compile(
    r".+\.(?:c|cfg|cpp|css|csv|docx?|gif|go|gz|h|html?|ini|ipynb|java|jpe?g|jsx?|jsonl?|lock|log|md"
    r"|np[yz]|parquet|pdf|pickle|pkl|png|ps1|pyi?|rb|rs|rst|sh|sql|sqlite|svg|tex|toml|tsx?|tsv|txt"
    r"|wav|webp|xlsx?|xml|ya?ml|zip)",
    re.IGNORECASE,
)


class Resolver:
    """Turns mentions, names and values into attachments.

    Args:
        namespace: variables by name.
        cells: those of the notebook.
        cwd: the directory that relative paths start from.
        roots: the directories in which files may be.
        tables: how data frames are written.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        cells: CellSource,
        cwd: str,
        roots: Roots,
        *,
        tables: TableFormat = "markdown",
    ) -> None:
        self._namespace = namespace
        self._cells = cells
        self._cwd = cwd
        self._roots = roots
        self._tables: TableFormat = tables

    def gather(self, text: str, attach: Iterable[object] = ()) -> list[Attachment]:
        """Everything that goes with a prompt: what it mentions, then ``attach``; each thing once.

        Raises:
            UsageError: as `resolve` and `attach`.
        """
        found: dict[str, Attachment] = {}
        mentions = {(item.target, item.quoted): item for item in find_mentions(text)}
        resolved = [item for mention in mentions.values() for item in self.resolve(mention)]
        for item in attach:
            resolved += self.attach(item)
        for attachment in resolved:
            known = found.get(attachment.name)
            if known is None:
                found[attachment.name] = attachment
            elif known != attachment:
                found[f"{attachment.name} {len(found)}"] = attachment
        return list(found.values())

    def resolve(self, mention: Mention) -> list[Attachment]:
        """What a mention stands for; nothing if it is a word like any other.

        Raises:
            UsageError: it is meant as a cell, an error or a file that is not there, or a file that
                may not be sent.
        """
        target = mention.target
        if mention.quoted:
            return self._existing_file(target)
        found = self._word(target)
        if found is None and _looks_like_a_path(target):
            raise self._unknown(target)
        if found is None:
            name = self._beginning(target)
            found = [] if name is None else self._variable(name)
        return found

    def attach(self, item: object, name: str = "") -> list[Attachment]:
        """What stands for a value, or, if ``item`` is a string, for what that names.

        Args:
            item: a value; a string is a target as in a mention, with or without the ``@``.
            name: under which a value is sent.

        Raises:
            UsageError: a string names nothing, or as `resolve`.
        """
        if isinstance(item, str):
            target = item.removeprefix("@")
            if len(target) > 1 and target[0] == target[-1] == '"':
                return self._existing_file(target[1:-1])
            found = self._word(target)
            if found is None:
                raise self._unknown(target)
            return found
        if isinstance(item, os.PathLike):
            return self._existing_file(str(os.fspath(item)))
        return [self._described(item, name or self._name_of(item) or "value")]

    # -- words --------------------------------------------------------------------------------

    def _word(self, target: str) -> list[Attachment] | None:
        """What an unquoted target stands for; ``None`` if it stands for nothing."""
        if target.startswith("cell:"):
            return self._cell(target)
        if target == "notebook":
            return [self._notebook()]
        if target == "error":
            return [self._error()]
        if target in self._namespace:
            return self._variable(target)
        if not _looks_like_a_path(target) and not os.path.lexists(self._absolute(target)):
            return None
        return self._file(target)

    def _variable(self, name: str) -> list[Attachment]:
        return [self._described(self._namespace[name], name)]

    def _described(self, value: object, name: str) -> Attachment:
        return describe_value(value, name, self._cells, tables=self._tables)

    def _name_of(self, value: object) -> str:
        names = (name for name, known in self._namespace.items() if known is value)
        return next((name for name in names if not name.startswith("_")), "")

    def _beginning(self, target: str) -> str | None:
        """The longest variable that a target begins with, up to the end of a word of Latin."""
        for end in range(len(target) - 1, 0, -1):
            after = target[end]
            ends = not (after == "_" or (after.isascii() and after.isalnum()))
            if ends and target[:end] in self._namespace:
                return target[:end]
        return None

    def _unknown(self, target: str) -> UsageError:
        names = [name for name in self._namespace if not name.startswith("_")]
        paths = path_matches(self._cwd, _folder(target))
        near = difflib.get_close_matches(target[:200], [*names, *paths], n=3)
        nearest = ", ".join(f"@{name}" for name in near)
        return UsageError(
            f"there is no variable or file {one_line(target, 100)!r}",
            remedy=f"Nearest: {nearest}." if near else "Write \\@ for an @ that mentions nothing.",
        )

    # -- cells --------------------------------------------------------------------------------

    def _cell(self, target: str) -> list[Attachment]:
        text = target.removeprefix("cell:")
        try:
            index = int(text)
        except ValueError as error:
            raise UsageError(
                f"@{target} names no cell",
                remedy="Write @cell:3 for cell 3, or @cell:-1 for the last one that ran.",
            ) from error
        number = self._cells.number(index)
        output = self._cells.output(number)
        written = _cell_text(number, self._cells.source(number), output.text)
        pictures = [image for image in output.images if len(image[1]) <= IMAGE_LIMIT * 4 // 3]
        shown = pictures[:CELL_IMAGES]
        notes = ["shortened"] if len(written) > VALUE_LIMIT else []
        if len(output.images) > len(shown):
            notes.append(f"{len(shown)} of {len(output.images)} pictures")
        name = f"cell:{number}"
        cut = str(clip(written, VALUE_LIMIT))
        note = ", ".join(notes)
        return [
            text_attachment(name, cut, mime="text/markdown", note=note, place="cells"),
            *(
                Attachment(f"{name} picture {place}", "image", data=data, mime=mime)
                for place, (mime, data) in enumerate(shown, 1)
            ),
        ]

    def _notebook(self) -> Attachment:
        """The cells so far; where they are too long, the last ones."""
        texts: list[str] = []
        room = NOTEBOOK_LIMIT
        count = self._cells.count
        first = count + 1
        for number in range(count, 0, -1):
            source, output = self._cells.source(number), self._cells.output(number)
            text = _cell_text(number, source, str(clip(output.text, OUTPUT_LIMIT)))
            if texts and len(text) > room:
                break
            texts.append(str(clip(text, NOTEBOOK_LIMIT)))
            room -= len(text)
            first = number
        if not texts:
            raise UsageError("no cell has run before this one", remedy="Leave @notebook out.")
        note = f"cells {first} to {count}"
        if first > 1:
            note += f", not cells 1 to {first - 1}"
        title = f"The notebook so far: {note}."
        text = "\n\n".join([title, *reversed(texts)])
        return text_attachment("notebook", text, mime="text/markdown", note=note, place="cells")

    def _error(self) -> Attachment:
        error = self._cells.error()
        if error is None:
            raise UsageError(
                "there is no error to send: no cell has failed",
                remedy="Write \\@error if nothing is to be sent.",
            )
        attachment = error_attachment(error, "error", self._cells)
        if "error" in self._namespace:
            note = f"{attachment.note}; " * bool(attachment.note)
            return replace(attachment, note=f"{note}the last exception, not the variable")
        return attachment

    # -- files --------------------------------------------------------------------------------

    def _existing_file(self, target: str) -> list[Attachment]:
        found = self._file(target)
        if found is None:
            raise self._unknown(target)
        return found

    def _absolute(self, target: str) -> str:
        expanded = os.path.expanduser(target) if target.startswith("~/") else target
        return os.path.normpath(os.path.join(self._cwd, expanded))

    def _file(self, target: str) -> list[Attachment] | None:
        """A file or directory; ``None`` if there is none of that name."""
        try:
            located = self._roots.locate(self._absolute(target))
            reason = is_protected("/".join(located.parts))
            if reason is not None:
                self._check_there(located)
                raise UsageError(
                    f"{target} is protected ({reason}) and was not sent",
                    remedy="Write into the prompt what the agent may know of it.",
                )
            return [self._read(located, target)]
        except Refusal as refusal:
            if refusal.code == ErrorCode.RESOURCE_NOT_FOUND:
                return None
            raise UsageError(
                f"{one_line(target, 100)!r} cannot be sent: {refusal.message}",
                remedy="Only files below the session's directory can be mentioned.",
            ) from refusal

    def _check_there(self, located: Located) -> None:
        """Raises a `Refusal` if the file does not exist: then nothing is protected."""
        parent = self._roots.open_parent(located)
        try:
            os.stat(located.parts[-1], dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            raise Refusal("it is not there", code=ErrorCode.RESOURCE_NOT_FOUND) from error
        finally:
            os.close(parent)

    def _read(self, located: Located, name: str) -> Attachment:
        uri = Path(located.path).as_uri()
        if self._is_directory(located):
            return Attachment(name, "link", uri=uri, note="a directory")
        fd = self._roots.open_beneath(located, os.O_RDONLY)
        with open(fd, "rb") as file:
            size = os.fstat(fd).st_size
            data = file.read(max(FILE_LIMIT, IMAGE_LIMIT) + 1)
        return _file_attachment(name, uri, data, max(size, len(data)))

    def _is_directory(self, located: Located) -> bool:
        """Whether it is one now; what is opened later is checked again."""
        if not located.parts:
            return True
        parent = self._roots.open_parent(located)
        try:
            status = os.stat(located.parts[-1], dir_fd=parent, follow_symlinks=False)
        except OSError:
            return False  # opening it says why
        finally:
            os.close(parent)
        return stat.S_ISDIR(status.st_mode)


def _file_attachment(name: str, uri: str, data: bytes, size: int) -> Attachment:
    kind = images.detect(data[:16])
    if kind is not None and len(data) <= IMAGE_LIMIT:
        encoded = base64.b64encode(data).decode()
        if kind.startswith("image/"):
            return Attachment(name, "image", data=encoded, uri=uri, mime=kind, size=size)
        return Attachment(name, "audio", data=encoded, uri=uri, mime=kind, size=size)
    mime = kind or mimetypes.guess_type(uri)[0] or ""
    if len(data) > FILE_LIMIT:
        note = f"as a link, because it is larger than {images.bytes_text(FILE_LIMIT)}"
        return Attachment(name, "link", uri=uri, mime=mime, note=note, size=size)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return Attachment(name, "link", uri=uri, mime=mime, note="not text", size=size)
    return Attachment(name, "resource", text=text, uri=uri, mime=mime or "text/plain", size=size)


def _cell_text(number: int, source: str, output: str) -> str:
    """Fences longer than any in the cell, so that it cannot be misread."""
    fence = "`" * 3
    while fence in source or fence in output:
        fence += "`"
    text = f"Cell {number}:\n{fence}python\n{source.rstrip()}\n{fence}"
    return f"{text}\nOutput:\n{fence}\n{output}\n{fence}" if output else text


def _looks_like_a_path(target: str) -> bool:
    return "/" in target or _FILE_NAME.fullmatch(target) is not None


# -- completion -------------------------------------------------------------------------------


def _folder(target: str) -> str:
    return target[: target.rfind("/") + 1]


def path_matches(cwd: str, typed: str) -> list[str]:
    """Paths that begin with what is typed, for `complete_mention`; directories end with ``/``.

    Hidden ones are offered once their dot is typed. What cannot be listed has no matches.
    """
    typed = typed.lstrip('"')
    folder = _folder(typed)
    beginning = typed[len(folder) :]
    found: list[str] = []
    try:
        with os.scandir(os.path.join(cwd, os.path.expanduser(folder))) as entries:
            for _, entry in zip(range(LISTED), entries, strict=False):
                hidden = entry.name.startswith(".") and not beginning.startswith(".")
                if entry.name.startswith(beginning) and not hidden:
                    found.append(f"{folder}{entry.name}{'/' if entry.is_dir() else ''}")
    except OSError:
        return []
    return sorted(found)


def typed_path_matches(cwd: str, text_before_cursor: str) -> list[str]:
    """`path_matches` for the mention at the cursor; nothing where there is none."""
    found = open_mention(text_before_cursor)
    return path_matches(cwd, found[1]) if found is not None else []


# -- pictures for agents that take none -------------------------------------------------------


class PictureFolder:
    """A private directory for pictures that are no files, made when it is needed.

    An agent that takes no pictures gets links to them. They last until `close`, or the end of the
    process: the agent may look at them later.
    """

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def place(
        self, attachments: Iterable[Attachment], prompt_capabilities: Mapping[str, Any]
    ) -> list[Attachment]:
        """The same attachments, with files for those that can only go as links."""
        return [
            self._written(item)
            if item.data and not item.uri and takes(item, prompt_capabilities) == "resource_link"
            else item
            for item in attachments
        ]

    def close(self) -> None:
        """Remove the files."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def _written(self, attachment: Attachment) -> Attachment:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="acp-jupyter-")  # mode 0700
        self._count += 1
        stem = "".join(char if char.isalnum() else "-" for char in attachment.name)[:60]
        suffix = mimetypes.guess_extension(attachment.mime) or ""
        path = Path(self._directory.name, f"{self._count}-{stem}{suffix}")
        path.write_bytes(base64.b64decode(attachment.data))
        return replace(attachment, uri=path.as_uri())
