"""Stored HTML of a notebook as HTML that is safe in a page of ours.

Pure. An output's HTML is untrusted even where we wrote it once: the file may have passed through
other hands. What is left after `clean` holds no script, no handler, no form, no frame, nothing
that is fetched, and no style that could lay it over other parts of the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Final

from ..rendering import elements, highlighting, images, markdown
from ..rendering.characters import prose

_MORE_TAGS: Final = (
    "abbr audio caption col colgroup dd del dl dt figcaption figure i img ins kbd mark q samp"
    " section small sub sup tfoot time u var"
)
TAGS: Final = elements.TAGS | markdown.TAGS | frozenset(_MORE_TAGS.split())
ATTRIBUTES: Final = {
    "*": {"aria-hidden", "aria-label", "style", "title"},
    "a": {"href"},
    "audio": {"controls", "src"},
    "col": {"span"},
    "details": {"open"},
    "img": {"alt", "height", "src", "width"},
    "li": {"value"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "time": {"datetime"},
}
CLASSES: Final = frozenset({"dataframe", "highlight", *elements.NO_MATH.split()})
DROPPED: Final = frozenset(
    {"iframe", "math", "noscript", "object", "script", "select", "style", "svg", "template"}
    | {"textarea", "title"}
)
"""Elements that go with all that is in them; of any other unknown one the content stays."""

_PROPERTIES: Final = (
    "align-items background background-color color display flex flex-wrap gap"
    " grid-template-columns height justify-content letter-spacing line-height list-style"
    " max-height max-width min-width opacity overflow overflow-wrap overflow-x overflow-y tab-size"
    " table-layout user-select vertical-align white-space width word-break"
)
PROPERTIES: Final = frozenset(_PROPERTIES.split())
FAMILIES: Final = ("border", "font", "margin", "padding", "text-align", "text-decoration")
FUNCTIONS: Final = frozenset({"calc", "hsl", "hsla", "minmax", "repeat", "rgb", "rgba", "var"})

_VALUE = re.compile(r"[\w\s#.,%()+*/-]{1,300}")
_FUNCTION = re.compile(r"([\w-]*)\(")
_NEGATIVE = re.compile(r"(?:^|[\s,(])-[\d.]")
_DATA = re.compile(
    r"data:(?P<mime>(?P<kind>image|audio)/[a-z0-9.+-]+);base64,(?P<data>.+)", re.DOTALL
)


def clean(source: str) -> str:
    """Sanitise a fragment of HTML. Characters that reorder or drive are shown or removed."""
    import nh3

    if not source.strip():
        return ""
    cleaned = nh3.clean(
        prose(source),
        tags=set(TAGS),
        clean_content_tags=set(DROPPED),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        attribute_filter=_attribute,
        allowed_classes={
            **{tag: set(CLASSES) for tag in ("div", "pre", "table")},
            "span": set(CLASSES | highlighting.CLASSES),
        },
        url_schemes={"http", "https", "data"},
        set_tag_attribute_values={"a": {"target": "_blank"}},
        link_rel="noopener noreferrer",
    )
    # Written as references, they were no characters yet.
    return prose(cleaned)


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "style":
        return _style(value) or None
    if name == "href":
        return value if elements.is_web_url(value) else None
    if name == "src":
        return _source(tag, value)
    return value


def _style(value: str) -> str:
    kept = []
    for declaration in value.split(";"):
        name, _, setting = declaration.partition(":")
        name, setting = name.strip().lower(), setting.strip()
        if (name in PROPERTIES or name.startswith(FAMILIES)) and _is_harmless(setting):
            kept.append(f"{name}:{setting}")
    return ";".join(kept)


def _is_harmless(setting: str) -> bool:
    return (
        _VALUE.fullmatch(setting) is not None
        and _NEGATIVE.search(setting) is None
        and all(name.lower() in FUNCTIONS for name in _FUNCTION.findall(setting))
    )


def _source(tag: str, value: str) -> str | None:
    """An embedded picture or sound, if it is what it has to be; nothing is ever fetched."""
    found = _DATA.fullmatch(value)
    if found is None:
        return None
    checked = images.check({"mimeType": found["mime"], "data": found["data"]}, found["kind"])
    if isinstance(checked, images.Withheld) or (found["kind"] == "audio") != (tag == "audio"):
        return None
    return f"data:{checked.mime};base64,{checked.base64}"


class _Reader(HTMLParser):
    """Reads HTML and writes it again, with its text and attributes passed through a function."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self._replace = replace
        self._pending: list[str] = []
        self.written: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_text()
        self.written.append(f"<{tag}")
        for name, value in attrs:
            # What is embedded is no text; only what is checked gets there.
            shown = value or "" if name == "src" else self._replace(value or "")
            self.written.append(f' {name}="{html.escape(shown)}"')
        self.written.append(">")

    def handle_endtag(self, tag: str) -> None:
        self.end_text()
        self.written.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._pending.append(data)

    def end_text(self) -> None:
        if self._pending:
            text = self._replace("".join(self._pending))
            self._pending.clear()
            self.text.append(text)
            self.written.append(html.escape(text, quote=False))


def _read(source: str, replace: Callable[[str], str]) -> _Reader:
    reader = _Reader(replace)
    reader.feed(source)
    reader.close()
    reader.end_text()
    return reader


def rewrite(cleaned: str, replace: Callable[[str], str]) -> str:
    """Sanitised HTML with each run of its text, and each attribute, replaced."""
    return "".join(_read(cleaned, replace).written)


def text_of(cleaned: str) -> str:
    """The text of sanitised HTML, without what its elements put between."""
    return "".join(_read(cleaned, str).text)
