"""Pictures and sound, checked before anything embeds them.

What counts is what the data begins with, not what the agent calls it: a picture is embedded if it
is a raster format by its first bytes and not too large. Vector graphics can carry scripts and
fetch from the network; they are shown as their source.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .characters import clip, one_line

MAX_BYTES: Final = 5 * 1024 * 1024
SOURCE_LIMIT: Final = 20_000

_SPACE = re.compile(r"[ \t\r\n]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_TEXTUAL = re.compile(r"(text/|image/svg|application/(json|javascript|xml|xhtml))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Media:
    """A checked picture or sound: its real type, base64 without blanks, size in bytes."""

    mime: str
    base64: str
    size: int


@dataclass(frozen=True, slots=True)
class Withheld:
    """Data that is not embedded: why, and its source text if it is text."""

    reason: str
    source: str = ""


def detect(head: bytes) -> str | None:
    """The media type that the first 16 bytes of a file show, among those that may be embedded."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(head[8:12])
    if head.startswith((b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")):
        return "audio/mpeg"
    if head.startswith(b"OggS"):
        return "audio/ogg"
    return None


def check(block: Mapping[str, Any], kind: str) -> Media | Withheld:
    """Decide whether a block's ``data`` (or ``blob``) can be embedded.

    Args:
        block: an image or audio block, or the contents of a resource.
        kind: "image" or "audio", what it has to be.
    """
    claimed = one_line(block.get("mimeType") or "unknown type", 60)
    data = block.get("data", block.get("blob"))
    if not isinstance(data, str) or not data:
        return Withheld(f"{claimed}: it came without data")
    data = _SPACE.sub("", data)
    data += "=" * (-len(data) % 4) if not data.endswith("=") else ""
    if len(data) % 4 or _BASE64.fullmatch(data) is None:
        return Withheld(f"{claimed}: its data is not base64")
    size = len(data) // 4 * 3 - data.count("=", -2)
    if size > MAX_BYTES:
        return Withheld(f"{claimed}, {bytes_text(size)}: larger than {bytes_text(MAX_BYTES)}")
    mime = detect(base64.b64decode(data[:32]))
    if mime is not None and mime.startswith(kind):
        return Media(mime, data, size)
    source = ""
    if _TEXTUAL.match(claimed):
        start = base64.b64decode(data[: SOURCE_LIMIT // 3 * 8])
        source = str(clip(start.decode("utf-8", "replace"), SOURCE_LIMIT))
    allowed = "PNG, JPEG, GIF and WebP" if kind == "image" else "WAV, MP3 and Ogg"
    return Withheld(f"{claimed}, {bytes_text(size)}: only {allowed} are shown", source)


def bytes_text(size: int) -> str:
    """A size for people."""
    if size < 1_000:
        return f"{size} bytes"
    if size < 1_000_000:
        return f"{size / 1_000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"
