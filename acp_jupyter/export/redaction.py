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
from typing import Any, Final

from ..connection.environment import REDACTED, secret_values
from ..rendering import ansi, markdown
from .document import SVG, Cell, Document, Output
from .sanitising import rewrite, text_of

HOME: Final = "home directories"
KEY: Final = "private keys"
TOKEN: Final = "tokens"  # noqa: S105 - the name of a kind
PASSWORD: Final = "passwords"  # noqa: S105
VARIABLE: Final = "values of environment variables"

_NAMED: Final = (
    r"(?:TOKEN(?!S)|SECRET|PASSW(?:OR)?D|PASSPHRASE|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY"
    r"|CREDENTIALS?)"
)
_NOT_YET: Final = r"(?!\[redacted\])"
_PATTERNS: Final = [
    (
        KEY,
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
            r"(?:.{0,8000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
            r"|(?:[A-Za-z0-9+/=\s]|\\n){0,8000})",
            re.DOTALL,
        ),
    ),
    (
        TOKEN,
        re.compile(
            r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|[spr]k_(?:live|test)_\w{10,}|gh[pousr]_\w{20,}"
            r"|github_pat_\w{20,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[a-z]-[\w-]{10,}"
            r"|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|hf_\w{20,}|npm_\w{30,}"
            r"|pypi-[\w-]{40,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
        ),
    ),
    (TOKEN, re.compile(r"(?i)(?<=bearer )\s*(?=\S{0,200}\d)[\w.~+/=-]{12,}")),
    (
        TOKEN,
        re.compile(
            r"(?i)authorization\\*[\"']?\s{0,3}[:=]\s{0,3}\\*[\"']?(?:(?:basic|bearer|token)\s+)?"
            rf"{_NOT_YET}(?!(?:basic|bearer|token)\s)(?P<value>[\w.~+/=-]{{8,}})"
        ),
    ),
    (PASSWORD, re.compile(rf"://[^/@\s:\"']{{0,200}}:{_NOT_YET}(?P<value>[^/@\s\"']{{1,200}})@")),
    (  # NAME_TOKEN=value, as in a shell or an environment file
        PASSWORD,
        re.compile(
            rf"(?:{_NAMED}|_KEY|_PAT|_PWD|_PASS)[A-Z0-9_]{{0,30}}\s{{0,2}}[=:]\s{{0,2}}\\*[\"']?"
            rf"{_NOT_YET}(?P<value>(?![$({{<]|os\.)[^\s\"'<>;,&\\]{{4,}})"
        ),
    ),
    (  # password = "value", "api_key": "value"
        PASSWORD,
        re.compile(
            rf"(?i){_NAMED}[\w-]{{0,30}}\\*[\"']?\s{{0,3}}[:=]\s{{0,3}}"
            rf"\\*(?P<quote>[\"']){_NOT_YET}(?P<value>[^\"'\n\\]{{4,200}})(?=\\*(?P=quote))"
        ),
    ),
    (  # password: value4, token=value4, --password value4
        PASSWORD,
        re.compile(
            rf"(?i){_NAMED}[\w-]{{0,30}}(?:\s{{0,3}}[:=]\s{{0,3}}|(?<=\w) )"
            rf"{_NOT_YET}(?P<value>(?=[^\s\"'<>;,&()]{{0,60}}\d)[^\s\"'<>;,&()\[\]{{}}\\]{{6,}})"
        ),
    ),
]

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


class Redactor:
    """Replaces what must not be seen, and remembers what it found, by kind.

    Args:
        environment: values of its secret-looking variables are secrets.
        homes: home directories besides those of the usual forms.
    """

    def __init__(self, environment: Mapping[str, str], homes: Iterable[str] = ()) -> None:
        self._values = sorted(secret_values(environment), key=len, reverse=True)
        self._homes = [
            re.compile(rf"(?<![\w.~-]){re.escape(home.rstrip('/'))}(?![\w-])")
            for home in homes
            if len(home.rstrip("/")) > 1
        ]
        self.found: dict[str, set[str]] = {}

    def text(self, text: str) -> str:
        """Text without what was to be removed."""
        for value in self._values:
            if value in text:
                self._note(VARIABLE, value)
                text = text.replace(value, REDACTED)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(lambda match, kind=kind: self._secret(kind, match), text)  # type: ignore[misc]
        for pattern in (*self._homes, *_HOMES):
            text = pattern.sub(self._home, text)
        return text

    def _note(self, kind: str, value: str) -> None:
        self.found.setdefault(kind, set()).add(value)

    def _secret(self, kind: str, match: re.Match[str]) -> str:
        if "value" not in match.re.groupindex:
            self._note(kind, match[0])
            return REDACTED
        self._note(kind, match["value"])
        start, end = match.start("value") - match.start(), match.end("value") - match.start()
        return f"{match[0][:start]}{REDACTED}{match[0][end:]}"

    def _home(self, match: re.Match[str]) -> str:
        self._note(HOME, match[0])
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

    def value(self, value: Any) -> Any:
        """Any value of JSON."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(str(name)): self._member(name, item) for name, item in value.items()}
        return value

    def _member(self, name: object, value: Any) -> Any:
        """A member whose name says that its value is a secret."""
        if not isinstance(value, str):
            return self.value(value)
        prefix = f"{name}={chr(34)}"
        whole = self.text(f"{prefix}{value}{chr(34)}")
        if whole.startswith(prefix) and whole.endswith(chr(34)):
            return whole[len(prefix) : -1]
        return self.text(value)

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
