"""The sessions that an agent lists (``session/list``), page by page. Pure.

What an agent lists is its own word: a session that has no usable id is left out, everything else
is taken as it comes. Cursors are opaque: they are sent back as they came, once, and kept nowhere
(C26). Directories are taken as listed, none is inferred or merged (C27).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any, Final

from ..errors import RemoteProtocolError
from .dialects import dicts, identifier

JSON = Any

TEXT: Final = 500
"""Characters of a title that are kept."""

LONGEST_CURSOR: Final = 16_384
"""Characters of a cursor that is sent back."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as the agent lists it.

    Attributes:
        session_id: opaque.
        cwd: absolute; empty where the agent gave none that is.
        title: may be empty.
        updated_at: as the agent writes it, usually ISO 8601; may be empty.
        additional_directories: absolute.
    """

    session_id: str
    cwd: str
    title: str = ""
    updated_at: str = ""
    additional_directories: tuple[str, ...] = ()


def page(result: JSON) -> tuple[list[Listed], str | None]:
    """The sessions of one page, and the cursor of the next one.

    Returns:
        The sessions, and ``None`` in place of a cursor where that was the last page: it is missing,
        null or no cursor at all (C25).

    Raises:
        RemoteProtocolError: the answer has no list of sessions.
    """
    if type(result) is not dict or type(result.get("sessions")) is not list:
        raise RemoteProtocolError(
            "the agent's answer to session/list has no list of sessions",
            remedy="`%acp log` shows it; the agent needs a fix.",
        )
    found = [listed(item) for item in dicts(result["sessions"])]
    cursor = result.get("nextCursor")
    usable = type(cursor) is str and 0 < len(cursor) <= LONGEST_CURSOR
    return [item for item in found if item is not None], cursor if usable else None


def listed(item: dict[str, Any]) -> Listed | None:
    """One session; ``None`` if it has no usable id."""
    ident = identifier(item.get("sessionId"))
    if ident is None:
        return None
    folders = item.get("additionalDirectories")
    return Listed(
        ident,
        _folder(item.get("cwd")),
        _text(item.get("title")),
        _text(item.get("updatedAt")),
        tuple(filter(None, map(_folder, folders))) if type(folders) is list else (),
    )


def _folder(value: JSON) -> str:
    """An absolute path as it came; one of Windows has a drive, or is a network share."""
    if type(value) is not str or "\0" in value:
        return ""
    absolute = posixpath.isabs(value) or value[1:3] in (":\\", ":/") or value[:2] == "\\\\"
    return value if absolute else ""


def _text(value: JSON) -> str:
    return value[:TEXT] if type(value) is str else ""
