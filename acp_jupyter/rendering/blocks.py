"""Content blocks as HTML and as text: text, images, sound, links to resources, resources.

A type that is not known is shown with its raw form folded, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ..session.transcript import Block, TextBuffer
from . import images, markdown
from .characters import clip, one_line, prose, visible
from .elements import Safe, el, fold, join, link, long_pre, media, muted
from .words import pretty

TEXT_LIMIT: Final = 4_000
"""Characters of one part in plain text, which is the second copy of what HTML shows."""


def clipped_markdown(text: str) -> Safe:
    """Markdown with its middle left out if it is long; both halves are rendered by themselves."""
    part = clip(text)
    if not part.note:
        return markdown.to_html(text)
    head, tail = markdown.to_html(part.head), markdown.to_html(part.tail)
    return join([head, el("div", el("i", part.note)), tail])


def to_html(block: Block) -> Safe:
    """One content block that is part of an entry."""
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return clipped_markdown(block["text"])
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _resource_html(block["resource"])
    show = HTML.get(kind) if isinstance(kind, str) else None
    return show(block) if show is not None else _unknown_html(block)


def parts_to_html(parts: Iterable[TextBuffer | Block]) -> Safe:
    """The parts of a message in order, its text in full."""
    return join(
        markdown.to_html(str(part)) if isinstance(part, TextBuffer) else to_html(part)
        for part in parts
    )


def _media_html(block: Block, kind: str) -> Safe:
    checked = images.check(block, kind)
    if isinstance(checked, images.Media):
        return el("div", media(checked.mime, checked.base64, _alt(block, checked)))
    notice = muted(f"{kind} not shown — {checked.reason}")
    return fold(notice, long_pre(checked.source)) if checked.source else el("div", notice)


def _alt(block: Block, checked: images.Media) -> str:
    name = block.get("uri") if isinstance(block.get("uri"), str) else ""
    what = f"{checked.mime}, {images.bytes_text(checked.size)}"
    return f"{one_line(name, 100)} ({what})" if name else what


def _image_html(block: Block) -> Safe:
    return _media_html(block, "image")


def _audio_html(block: Block) -> Safe:
    return _media_html(block, "audio")


def _resource_link_html(block: Block) -> Safe:
    uri = str(block.get("uri") or "")
    name = _name(block) or str(uri)
    facts = [one_line(block["mimeType"], 60)] if isinstance(block.get("mimeType"), str) else []
    facts += [images.bytes_text(block["size"])] if type(block.get("size")) is int else []
    about = block.get("description")
    return el(
        "div",
        "↗ ",
        link(uri, name),
        muted(f" {', '.join(facts)}") if facts else None,
        muted(f" — {one_line(about, 300)}") if isinstance(about, str) and about else None,
    )


def _resource_html(resource: Block) -> Safe:
    uri = str(resource.get("uri") or "")
    mime = resource.get("mimeType")
    kind = muted(f" {one_line(mime, 60)}") if isinstance(mime, str) else None
    title = ["☰ ", link(uri), kind]
    if isinstance(resource.get("text"), str):
        return fold(title, long_pre(resource["text"]))
    if isinstance(mime, str) and mime.startswith("image/"):
        return el("div", title, _media_html(resource, "image"))
    blob = resource.get("blob")
    size = len(blob) // 4 * 3 if isinstance(blob, str) else 0
    return el("div", title, muted(f" {images.bytes_text(size)}, not shown"))


def _unknown_html(block: Block) -> Safe:
    kind = one_line(block.get("type") or "without type", 60)
    return fold(muted(f"content of an unknown type: {kind}"), long_pre(pretty(block)))


HTML: Final[dict[str, Callable[[Block], Safe]]] = {
    "image": _image_html,
    "audio": _audio_html,
    "resource_link": _resource_link_html,
}


# -- plain text -------------------------------------------------------------------------------


def to_text(block: Block, limit: int = TEXT_LIMIT) -> str:
    """One content block as plain text."""
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return str(clip(prose(block["text"]), limit))
        case "image" | "audio" as kind:
            checked = images.check(block, kind)
            if isinstance(checked, images.Media):
                return f"[{kind}: {_alt(block, checked)}]"
            return f"[{kind} not shown — {checked.reason}]"
        case "resource_link":
            name = one_line(_name(block))
            return f"[{name or 'resource'}: {one_line(block.get('uri') or '', 300)}]"
        case "resource" if isinstance(block.get("resource"), dict):
            return _resource_text(block["resource"], limit)
        case kind:
            name = one_line(kind or "without type", 60)
            raw = clip(visible(pretty(block)), min(limit, 1_000))
            return f"[content of an unknown type: {name}]\n{raw}"


def _resource_text(resource: dict[str, Any], limit: int) -> str:
    title = f"[resource: {one_line(resource.get('uri') or '', 300)}]"
    text = resource.get("text")
    return f"{title}\n{clip(visible(text), limit)}" if isinstance(text, str) else title


def parts_to_text(parts: Iterable[TextBuffer | Block]) -> str:
    """The parts of a message; its text in full, as its Markdown source."""
    shown = (prose(str(p)) if isinstance(p, TextBuffer) else to_text(p) for p in parts)
    return "\n\n".join(part for part in shown if part)


def _name(block: dict[str, Any]) -> str:
    """What a link is called; a title of a wrong type is none."""
    texts = (block.get("title"), block.get("name"))
    return next((text for text in texts if isinstance(text, str) and text), "")
