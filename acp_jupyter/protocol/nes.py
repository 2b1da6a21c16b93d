"""Next-edit suggestions: what agents that make them are told, and what they say. Pure.

Such an agent advertises ``nes``, with the document events that it wants to be told of, and gets no
others. The methods are a proposal, and stand in some of the protocol's drafts only; nothing of them
is sent to an agent that does not advertise them. Positions are a line and a character, counted in
UTF-16 code units unless the agent says otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

JSON = Any
Dict = dict[str, Any]

EVENTS: Final = ("didOpen", "didChange", "didClose", "didSave", "didFocus")
"""Of documents; each is the end of a notification's name."""

SUGGESTIONS: Final = 100
EDITS: Final = 1_000
"""Suggestions of one answer, and edits of one suggestion; what is beyond is left out."""

_UNITS: Final = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a text that is replaced: from one offset to another, in characters."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Suggested:
    """One suggestion.

    Attributes:
        id: the agent's.
        kind: "edit", "jump", "rename", "searchAndReplace", or another.
        uri: of the document that it is about; may be empty.
        data: all of it, as it came.
    """

    id: str
    kind: str
    uri: str
    data: Dict = field(repr=False)


def wanted(capabilities: Mapping[str, Any]) -> frozenset[str]:
    """Of `EVENTS` those that an agent wants to be told of."""
    events = _object(_object(capabilities.get("nes")).get("events"))
    document = _object(events.get("document"))
    return frozenset(name for name in EVENTS if type(document.get(name)) is dict)


def encoding(capabilities: Mapping[str, Any]) -> str:
    """How an agent counts characters."""
    value = capabilities.get("positionEncoding")
    return value if type(value) is str and value in _UNITS else "utf-16"


def incremental(capabilities: Mapping[str, Any]) -> bool:
    """Whether a change is told as a range and its text, rather than the whole text."""
    events = _object(_object(capabilities.get("nes")).get("events"))
    change = _object(_object(events.get("document")).get("didChange"))
    return change.get("syncKind") == "incremental"


def position(text: str, offset: int, counted: str) -> Dict:
    """Where an offset in characters is.

    Args:
        text: the whole document.
        offset: from 0; one beyond the end is the end.
        counted: see `encoding`.
    """
    before = text[: max(0, offset)]
    codec, size = _UNITS[counted]
    line = before.count("\n")
    last = before[before.rfind("\n") + 1 :]
    return {"line": line, "character": len(last.encode(codec, "surrogatepass")) // size}


def offset_of(text: str, place: JSON, counted: str) -> int:
    """The offset of a position.

    Raises:
        ValueError: it is none, or outside of the text.
    """
    place = _object(place)
    line, character = place.get("line"), place.get("character")
    if type(line) is not int or type(character) is not int or min(line, character) < 0:
        raise ValueError("a position without line and character")
    lines = text.split("\n")
    if line >= len(lines):
        raise ValueError(f"the text has no line {line}")
    codec, size = _UNITS[counted]
    encoded = lines[line].encode(codec, "surrogatepass")
    inside = encoded[: character * size].decode(codec, "surrogatepass")
    return sum(len(each) + 1 for each in lines[:line]) + len(inside)


def changed(before: str, after: str, counted: str) -> Dict:
    """The one change that makes one text of the other: an item of ``contentChanges``."""
    shortest = min(len(before), len(after))
    start = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    rest = shortest - start
    end = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    last = len(before) - end
    places = {"start": position(before, start, counted), "end": position(before, last, counted)}
    return {"range": places, "text": after[start : len(after) - end]}


def suggestions(answer: JSON) -> list[Suggested]:
    """The suggestions in an answer to ``nes/suggest``; what is none is left out."""
    given = _object(answer).get("suggestions")
    found = []
    for item in given[:SUGGESTIONS] if type(given) is list else ():
        data = _object(item)
        ident, kind, uri = data.get("id"), data.get("kind"), data.get("uri")
        if type(ident) is str and type(kind) is str:
            found.append(Suggested(ident, kind, uri if type(uri) is str else "", data))
    return found


def edits(suggested: Suggested, text: str, counted: str) -> list[Edit]:
    """What a suggestion of kind "edit" replaces in its document, in the order of the text.

    Raises:
        ValueError: it does not fit the text, or its edits overlap.
    """
    given = suggested.data.get("edits")
    if type(given) is not list or len(given) > EDITS:
        raise ValueError("no edits, or too many")
    found = []
    for item in map(_object, given):
        places = _object(item.get("range"))
        new = item.get("newText")
        if type(new) is not str:
            raise ValueError("an edit without a text")
        start = offset_of(text, places.get("start"), counted)
        found.append(Edit(start, offset_of(text, places.get("end"), counted), new))
    found.sort(key=lambda edit: (edit.start, edit.end))
    if any(edit.end < edit.start for edit in found):
        raise ValueError("an edit that ends before it begins")
    if any(one.end > other.start for one, other in itertools.pairwise(found)):
        raise ValueError("edits that overlap")
    return found


def applied(text: str, changes: Sequence[Edit]) -> str:
    """The text after `edits`."""
    for edit in reversed(changes):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _object(value: JSON) -> Dict:
    return value if type(value) is dict else {}
