"""Entries, segments and images as Jupyter MIME bundles: HTML that we made, and plain text.

Markdown never leaves as ``text/markdown``: JupyterLab does not sanitise that in a trusted notebook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..session.transcript import Block, Entry, TerminalState
from . import blocks, entrydata, html, images, markdown, text
from .characters import prose

NATIVE_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif"})
"""Raster types that every Jupyter frontend shows by themselves; WebP goes as HTML."""


def bundle(
    entry: Entry,
    *,
    terminals: Mapping[str, TerminalState],
    cwd: str = "",
    ident: str | None = None,
    base: str = "",
) -> dict[str, Any]:
    """An entry as ``text/html`` and ``text/plain``, and as data where it has some.

    Arguments as in `html.render` and `entrydata.of`; without ``ident`` there is no data.
    """
    data = None
    if ident is not None:
        data = entrydata.of(entry, ident, cwd=cwd, base=base, terminals=terminals)
    return {
        "text/html": str(html.render(entry, terminals=terminals, cwd=cwd)),
        "text/plain": text.render(entry, terminals=terminals, cwd=cwd),
        **({entrydata.MIME: data} if data is not None else {}),
    }


def message_bundle(source: str) -> dict[str, Any]:
    """One segment of a message, ``Segment.text``: as HTML, with its Markdown source as text."""
    return {"text/html": str(markdown.to_html(source)), "text/plain": prose(source)}


def part_bundle(block: Block) -> dict[str, Any]:
    """A content block of a message that is not text. A checked image is an image."""
    plain = blocks.to_text(block)
    if block.get("type") == "image":
        checked = images.check(block, "image")
        if isinstance(checked, images.Media) and checked.mime in NATIVE_IMAGES:
            return {checked.mime: checked.base64, "text/plain": plain}
    return {"text/html": str(html.block(block)), "text/plain": plain}
