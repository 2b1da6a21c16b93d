"""HTML as elements. What is not `Safe` is escaped, so agent text cannot become markup.

* `el` is the way to make an element. Its children are escaped unless they are `Safe`.
* Only this module and the three that make HTML by other means (`ansi`, `highlighting`,
  `markdown`) construct `Safe`; a test holds that.
* Tags and attributes come from fixed sets. A style has to be `Safe` itself, links are made by
  `link` and embedded media by `media`, which check what they point to.
* Styles are inline and build on JupyterLab's variables, because saved output has no stylesheet.
  Each has a fallback that suits light and dark pages, and nothing is lost where a site (GitHub)
  strips them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from .characters import Clipped, clip, one_line, visible


class Safe(str):
    """HTML that this package made."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"

_NAMES: Final = "b code details div i pre span summary table tbody td th tr"
TAGS: Final = frozenset(_NAMES.split())
# MathJax would typeset "$HOME and $PATH" in a title; these classes of its versions 3 and 2 stop it.
NO_MATH: Final = "mathjax_ignore tex2jax_ignore"
CLASSES: Final = frozenset({NO_MATH})
EMPTY: Final = Safe()

_WEB = re.compile(r"https?://[^\s/?#\\@\"<>`]+([/?#][^\s\"<>`]*)?", re.IGNORECASE)


def escape(text: str) -> Safe:
    """Text as HTML, with deceptive characters shown; what is `Safe` stays as it is."""
    return text if isinstance(text, Safe) else Safe(html.escape(visible(text)))


def join(children: Child, separator: str = "") -> Safe:
    """Children one after the other."""
    if children is None:
        return EMPTY
    if isinstance(children, str):
        return escape(children)
    parts = [part for part in map(join, children) if part]
    return Safe(escape(separator).join(parts))


def el(
    tag: str,
    *children: Child,
    style: Safe | None = None,
    class_: str | None = None,
    open_: bool = False,
) -> Safe:
    """One element.

    Raises:
        ValueError: a tag, class or style that this package does not use.
    """
    if tag not in TAGS or not (style is None or isinstance(style, Safe)):
        raise ValueError(f"not an element of ours: {tag!r} with style {style!r}")
    if class_ is not None and class_ not in CLASSES:
        raise ValueError(f"not a class of ours: {class_!r}")
    attributes = f' class="{class_}"' if class_ else ""
    attributes += f' style="{style}"' if style else ""
    attributes += " open" if open_ else ""
    return Safe(f"<{tag}{attributes}>{join(children)}</{tag}>")


def is_web_url(url: object) -> bool:
    """Whether it is an absolute http(s) URL, without user or password or hidden characters."""
    return isinstance(url, str) and _WEB.fullmatch(url) is not None and visible(url) == url


def link(url: str, text: str = "") -> Safe:
    """A link to the web; any other address is shown as text only."""
    shown = escape(one_line(text or url, 300))
    if not is_web_url(url):
        address = escape(one_line(url, 300))
        return shown if not text or shown == address else Safe(f"{shown} ({address})")
    target = html.escape(url)
    return Safe(f'<a href="{target}" rel="noopener noreferrer" target="_blank">{shown}</a>')


def media(mime: str, base64: str, alt: str) -> Safe:
    """An embedded picture or sound; ``mime`` and ``base64`` were checked by `images`.

    Raises:
        ValueError: they were not.
    """
    if not re.fullmatch(r"(image|audio)/[a-z0-9]+", mime) or re.search(r"[^A-Za-z0-9+/=]", base64):
        raise ValueError("media that nobody checked")
    source = f'src="data:{mime};base64,{base64}"'
    if mime.startswith("audio/"):
        return Safe(f"<audio controls {source}></audio>")
    return Safe(f'<img {source} alt="{html.escape(one_line(alt))}" style="max-width:100%">')


# -- parts used everywhere --------------------------------------------------------------------

MUTED: Final = Safe("opacity:.7")
SMALL: Final = Safe("font-size:.9em")
GOOD: Final = Safe("color:var(--jp-success-color1,#388e3c)")
BAD: Final = Safe("color:var(--jp-error-color1,#d32f2f)")
BUSY: Final = Safe("color:var(--jp-info-color1,#0288d1)")
CODE_FONT: Final = "font-family:var(--jp-code-font-family,monospace)"
"""nbconvert takes it away from what is preformatted in outputs."""

PRE: Final = Safe(
    "margin:.2em 0;padding:.3em .6em;overflow:auto;border-radius:3px;white-space:pre-wrap;"
    f"overflow-wrap:break-word;{CODE_FONT};background:rgba(127,127,127,.1)"
)
"""Lines are broken and no height is limited: what scrolls cannot be read on paper."""

BOX: Final = Safe(
    "margin:.15em 0;padding:.15em .6em;border-radius:3px;"
    "border-left:3px solid var(--jp-border-color1,rgba(127,127,127,.5));"
    "background:rgba(127,127,127,.06)"
)
LINES: Final = Safe("white-space:pre-wrap")
BODY: Final = Safe("margin:.2em 0 .3em 1.1em")
EDGE: Final = {
    "info": Safe("var(--jp-info-color1,#0288d1)"),
    "warning": Safe("var(--jp-warn-color1,#f57c00)"),
    "error": Safe("var(--jp-error-color1,#d32f2f)"),
}


MARKS: Final = {"warning": "⚠ ", "error": "✗ "}
"""What a level looks like where styles are stripped."""


def edged(level: str) -> Safe:
    """The style of a box whose left edge has the colour of a level."""
    return Safe(f"{BOX};border-left-color:{EDGE.get(level, EDGE['info'])}")


def muted(*children: Child) -> Safe:
    return el("span", *children, style=MUTED)


def pre(text: str | Clipped) -> Safe:
    """Preformatted text; a clipped one with its note between the halves."""
    if isinstance(text, Clipped) and text.note:
        return el("pre", text.head, "\n", el("i", text.note), "\n", text.tail, style=PRE)
    return el("pre", str(text), style=PRE)


def long_pre(text: str) -> Safe:
    return pre(clip(text))


def fold(summary: Child, *body: Child, open_: bool = False, style: Safe | None = None) -> Safe:
    """A part that opens with a click."""
    return el("details", el("summary", summary), *body, open_=open_, style=style)


def labelled(label: str, *body: Child, open_: bool = True) -> Safe:
    """A part inside a body, under a small label."""
    return fold(el("span", label, style=Safe(f"{MUTED};{SMALL}")), *body, open_=open_)


def box(*children: Child, style: Safe = BOX) -> Safe:
    """The outermost element of an entry that is no prose."""
    return el("div", *children, style=style, class_=NO_MATH)
