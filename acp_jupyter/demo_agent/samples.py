"""Content made in code: images, sound, Markdown and text of any length."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections.abc import Iterator

from acp_jupyter.demo_agent.wire import Json

IMAGE_WIDTH, IMAGE_HEIGHT = 96, 64
SHOWN_CHARACTERS = 20_000

TABLE = """\
| Request | Kind | Asks first |
|:--------|:----:|-----------:|
| read    | read |         no |
| write   | edit |        yes |
| run     | execute |     yes |
"""

MARKDOWN = """\
# A sample of Markdown

Some *emphasis*, some **strong words**, `inline code`, ~~a mistake~~ and \
[a link](https://agentclientprotocol.com/).

- a list
  - with a list inside
- [x] a task that is done
- [ ] a task that is open

1. first
2. second

> A quotation
> of two lines.

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

Inline math $e^{i\\pi} + 1 = 0$ and a formula of its own:

$$
\\int_0^1 x^2 \\, dx = \\frac{1}{3}
$$

| Column | Right |
|:-------|------:|
| one    |     1 |
| two    |     2 |

---

The end.
"""

_PARAGRAPH = (
    "The demo agent writes this text to fill an answer of a given length. "
    "It has words of many sizes, some punctuation, and now and then a paragraph ends, "
    "so that what is shown looks like prose and wraps like prose.\n\n"
)


def text_of_length(length: int) -> str:
    """Prose of exactly ``length`` characters, always the same."""
    return (_PARAGRAPH * (length // len(_PARAGRAPH) + 1))[:length]


def pieces(text: str, size: int = 20) -> Iterator[str]:
    """The text in chunks of ``size`` characters: about what one token update of a model carries."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def text_content(text: str) -> Json:
    """Tool call content: the text as a code block that no fence inside it can end."""
    shown = text[:SHOWN_CHARACTERS]
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    end = "" if shown.endswith("\n") or not shown else "\n"
    cut = "" if len(shown) == len(text) else f"\n{len(text) - len(shown)} characters left out."
    block = f"{fence}\n{shown}{end}{fence}{cut}"
    return {"type": "content", "content": {"type": "text", "text": block}}


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png() -> bytes:
    """A colour gradient as an 8-bit RGB PNG."""
    rows = b"".join(
        b"\0"
        + bytes(
            value
            for x in range(IMAGE_WIDTH)
            for value in (255 * x // IMAGE_WIDTH, 255 * y // IMAGE_HEIGHT, 160)
        )
        for y in range(IMAGE_HEIGHT)
    )
    header = struct.pack(">IIBBBBB", IMAGE_WIDTH, IMAGE_HEIGHT, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _png_chunk(b"IHDR", header)
        + _png_chunk(b"IDAT", zlib.compress(rows, 9))
        + _png_chunk(b"IEND", b"")
    )


def wav() -> bytes:
    """A quarter of a second of 440 Hz as 8-bit mono WAV at 8 kHz."""
    rate, count = 8000, 2000
    samples = bytes(round(127.5 + 60 * math.sin(math.tau * 440 * i / rate)) for i in range(count))
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate, 1, 8)
    data = struct.pack("<4sI", b"data", count) + samples
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data


def content(kind: str) -> Json:
    """The content block for ``show image|audio|link|resource``."""
    if kind == "image":
        return {"type": "image", "mimeType": "image/png", "data": _base64(png())}
    if kind == "audio":
        return {"type": "audio", "mimeType": "audio/wav", "data": _base64(wav())}
    if kind == "link":
        return {
            "type": "resource_link",
            "uri": "https://agentclientprotocol.com/",
            "name": "Agent Client Protocol",
            "title": "The Agent Client Protocol",
            "description": "The protocol between this agent and its client",
            "mimeType": "text/html",
        }
    text = "# A note\n\nThis resource is embedded in the answer.\n"
    return {
        "type": "resource",
        "resource": {"uri": "demo://notes/1.md", "mimeType": "text/markdown", "text": text},
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def describe(block: Json) -> str:
    """One line about a content block of a prompt: its kind, its name and its size."""
    kind = block["type"]
    if kind in ("image", "audio"):
        return f"{kind} {block['mimeType']}, {_decoded_size(block['data'])} bytes"
    if kind == "resource_link":
        size = block.get("size")
        suffix = f", {size} bytes" if isinstance(size, int) else ""
        return f"resource_link {block['name']} <{block['uri']}>{suffix}"
    resource = block["resource"]
    if "text" in resource:
        return f"resource <{resource['uri']}>, {len(resource['text'])} characters"
    return f"resource <{resource['uri']}>, {_decoded_size(resource['blob'])} bytes"


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4 - data.count("=", -2)
