"""Secrets and home directories taken out of a conversation before others get it.

Replaced are: tokens by the shapes that their makers gave them, private keys, passwords in web
addresses, values that are assigned to a name like ``…TOKEN`` or ``password``, values of this
process's secret-looking environment variables, and home directories with the user's name.

* It works on text as a reader sees it, after parsing: neither an HTML reference nor Markdown nor a
  terminal's colours can hide a secret from it. Where marks or elements split one (coloured code, a
  changed word in a diff), the whole output becomes its plain text, redacted.
* What it does is the same when it is done again.
* Pictures and sounds are not looked into, but for the text of SVG.
* Shapes catch what they know. A password in a sentence has none.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..connection.environment import secret_values
from ..protocol import secrets
from ..protocol.secrets import REDACTED
from ..rendering import ansi, markdown
from .document import SVG, Cell, Document, Output
from .sanitising import rewrite, text_of

HOME: Final = "home directories"

_NAME: Final = r"[^\s/\\:\"'<>|,;()\[\]{}?*&#%`]*[^\s/\\:\"'<>|,;()\[\]{}?*&#%`.!]"
_SPACED: Final = (
    r"[^\s/\\:\"'<>|,;()\[\]{}?*&#%`]+(?: [^\s/\\:\"'<>|,;()\[\]{}?*&#%`]+){1,3}(?=[/\\])"
)
_HOMES: Final = [
    re.compile(
        rf"(?i)\b[a-z](?::|%3A)(?:[/\\]+|%5C|%2F)(?:Users|Documents and Settings)"
        rf"(?:[/\\]+|%5C|%2F)(?:{_SPACED}|{_NAME})"
    ),
    re.compile(rf"(?:(?<![\w.~/-])(?:/[\w.-]+){{1,3}})?/{{1,4}}Users/{{1,4}}(?:{_SPACED}|{_NAME})"),
    re.compile(rf"(?:(?<![\w.~/-])(?:/[\w.-]+){{1,3}})?/{{1,4}}home/{{1,4}}{_NAME}"),
    re.compile(r"(?i)%2F(?:home|Users)%2F[\w.-]*\w"),
    re.compile(r"(?<!\w)-(?:home|Users)-\w+"),  # a path as a folder's name
]


class Redactor(secrets.Redactor):
    """Replaces what must not be seen, and remembers what it found, by kind.

    Args:
        environment: values of its secret-looking variables are secrets.
        homes: home directories besides those of the usual forms.
    """

    def __init__(self, environment: Mapping[str, str], homes: Iterable[str] = ()) -> None:
        super().__init__(secret_values(environment))
        self._homes = [
            re.compile(rf"(?<![\w.~-]){re.escape(home.rstrip('/'))}(?![\w-])")
            for home in homes
            if len(home.rstrip("/")) > 1
        ]

    def text(self, text: str) -> str:
        """Text without what was to be removed."""
        text = super().text(text)
        for pattern in (*self._homes, *_HOMES):
            text = pattern.sub(self._home, text)
        return text

    def _home(self, match: re.Match[str]) -> str:
        self.note(HOME, match[0])
        if match[0].startswith("-"):
            return "-~"
        before = match.string[match.start() - 1 : match.start()]
        return "/~" if before.isalnum() else "~"

    # -- text with marks in it -----------------------------------------------------------------

    def html(self, cleaned: str) -> str | None:
        """Sanitised HTML, redacted; ``None`` if elements split what has to go."""
        redacted = rewrite(cleaned, self.text)
        shown = text_of(redacted)
        return redacted if self.text(shown) == shown else None

    def markdown(self, source: str) -> str:
        redacted = self.text(source)
        shown = text_of(markdown.to_html(redacted))
        as_shown = self.text(shown)
        return redacted if as_shown == shown else as_shown

    def terminal(self, text: str) -> str:
        redacted = self.text(text)
        shown = ansi.strip(redacted)
        as_shown = self.text(shown)
        return redacted if as_shown == shown else as_shown

    # -- the conversation ----------------------------------------------------------------------

    def document(self, document: Document) -> None:
        """Redact a document in place."""
        document.title = self.text(document.title)
        document.agents = [self.text(agent) for agent in document.agents]
        for cell in document.cells:
            self._cell(cell)

    def _cell(self, cell: Cell) -> None:
        is_markdown = cell.type == "markdown"
        cell.source = self.markdown(cell.source) if is_markdown else self.text(cell.source)
        cell.magics = self.text(cell.magics)
        cell.outputs = [self._output(output) for output in cell.outputs]

    def _output(self, output: Output) -> Output:
        match output.type:
            case "message" | "markdown":
                output.text = self.markdown(output.text)
            case "stream" | "error":
                output.text = self.terminal(output.text)
            case "image":
                return self._image(output)
            case _:
                self._with_html(output)
        output.entry = self.value(output.entry)
        output.decisions = self.value(output.decisions)
        return output

    def _with_html(self, output: Output) -> None:
        if not output.text:
            output.text = text_of(output.html)
        output.text = self.terminal(output.text)
        output.html = self.html(output.html) or ""

    def _image(self, output: Output) -> Output:
        output.text = self.text(output.text)
        if output.mime == SVG:
            source = svg_source(output.data)
            shown = text_of(source)
            if self.text(source) != source or self.text(shown) != shown:
                return Output("text", text=f"[SVG picture left out: {REDACTED}]")
        return output


def svg_source(data: str) -> str:
    """The source of an SVG picture, which notebooks hold as it is and some programs as base64."""
    if "<" in data:
        return data
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
