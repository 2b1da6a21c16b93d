"""A conversation as GitHub-flavoured Markdown.

Answers are the agent's own Markdown where that is harmless to whatever reads the file: raw HTML in
it is escaped and its pictures are links, so that nothing is fetched. What comes out is parsed
again; if it still holds an element, a picture or a link that leads elsewhere than to the web or
into the file's folder, the whole message is shown as source.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from ..rendering import ansi
from ..rendering.characters import one_line, prose, visible
from ..rendering.elements import is_web_url
from .as_html import picture_source, plain_title
from .document import Cell, Document, Output

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

SUMMARY_LIMIT: Final = 120

_TICKS = re.compile(r"`+")
_CODE_SPAN = re.compile(r"(?<![`\\])(`+)(?!`)(?:.|\n(?!\s*\n))*?(?<!`)\1(?!`)")
_OPENS_ELEMENT = re.compile(r"(?<!\\)<(?=[A-Za-z/!?])(?!https?://[^\s<>]*>)")
_OPENS_PICTURE = re.compile(r"(?<!\\)!(?=\[)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
_FOLDER_LINK = re.compile(r"(?![/\\])[\w./%+-]+(?:#[\w-]*)?|#[\w-]*")


def write(document: Document) -> str:
    """The file."""
    parts = [] if _has_title(document) else [f"# {_escaped(plain_title(document))}"]
    who = _escaped(one_line(", ".join(document.agents), 100)) or "Agent"
    for cell in document.cells:
        parts += _cell(cell, document, who)
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def _has_title(document: Document) -> bool:
    first = document.cells[0] if document.cells else None
    return first is not None and first.type == "markdown" and first.source.startswith("# ")


def _cell(cell: Cell, document: Document, who: str) -> list[str]:
    shown = [_output(output) for output in cell.outputs]
    match cell.type:
        case "prompt":
            magics = [fenced(cell.magics)] if cell.magics.removeprefix("%%acp") else []
            answer = [f"**{who}**", *shown] if any(part.strip() for part in shown) else []
            return ["---", "**You**", *magics, _quoted(cell.source), *answer]
        case "markdown":
            return [harmless(cell.source), *shown]
        case "code":
            return [fenced(cell.source, cell.language or document.language), *shown]
        case _:
            return [fenced(cell.source)]


def _quoted(prompt: str) -> str:
    """A prompt in full, as it was written: agents get it as text, not as Markdown."""
    return "\n".join(f"> {line}".rstrip() for line in fenced(prompt).split("\n"))


def _output(output: Output) -> str:
    match output.type:
        case "message" | "markdown":
            return harmless(output.text)
        case "entry":
            return _entry(output)
        case "image":
            source = picture_source(output)
            alt = _escaped(one_line(output.text or "picture", 100))
            if isinstance(source, str):
                return f"![{alt}]({source})"
            return f"*picture not shown — {_escaped(source.reason)}*"
        case _:
            plain = ansi.strip(output.text).rstrip("\n")
            return fenced(plain) if plain.strip() else ""


def _entry(output: Output) -> str:
    """One line as a line, anything longer behind its first line."""
    text = visible(output.text).strip("\n")
    first, _, rest = text.partition("\n")
    if not rest.strip() and len(first) <= SUMMARY_LIMIT:
        return f"*{_escaped(first)}*" if first else ""
    summary = html.escape(one_line(first, SUMMARY_LIMIT))
    body = rest if len(first) <= SUMMARY_LIMIT else text
    return f"<details><summary>{summary}</summary>\n\n{fenced(body)}\n\n</details>"


def fenced(text: str, info: str = "") -> str:
    """A code block that no run of backticks in the text can end."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{visible(text).strip(chr(10))}\n{fence}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


# -- Markdown of others -----------------------------------------------------------------------


def harmless(source: str) -> str:
    """Markdown without raw HTML and pictures; as a code block if that cannot be had."""
    text = prose(source).strip("\n")
    lines = text.split("\n")
    code = _code_lines(text)
    parts: list[str] = []
    start = 0
    for begin, end in [*code, (len(lines), len(lines))]:
        if start < begin:
            parts.append(_without_elements("\n".join(lines[start:begin])))
        if begin < end:
            parts.append("\n".join(lines[begin:end]))
        start = max(start, end)
    made = "\n".join(parts)
    return made if _is_harmless(made) else fenced(text, "markdown")


def _code_lines(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for token in _parser().parse(text):
        if token.type in ("fence", "code_block") and token.map is not None:
            found.append((token.map[0], token.map[1]))
    return found


def _without_elements(text: str) -> str:
    parts: list[str] = []
    done = 0
    for span in _CODE_SPAN.finditer(text):
        parts += [_escape_elements(text[done : span.start()]), span[0]]
        done = span.end()
    return "".join([*parts, _escape_elements(text[done:])])


def _escape_elements(text: str) -> str:
    return _OPENS_PICTURE.sub(r"\\!", _OPENS_ELEMENT.sub("&lt;", text))


def _is_harmless(text: str) -> bool:
    tokens = _parser().parse(text)
    # A code block that nobody closed would swallow what follows in the file.
    if tokens and tokens[-1].type == "fence" and not _is_closed(tokens[-1], text):
        return False
    every = chain(tokens, *(token.children or [] for token in tokens))
    return all(map(_is_harmless_token, every))


def _is_closed(fence: Token, text: str) -> bool:
    last = text.split("\n")[-1].lstrip(" >")
    return last.startswith(fence.markup) and not last.strip(f"{fence.markup[0]} \t")


def _is_harmless_token(token: Token) -> bool:
    if token.type in ("html_block", "html_inline", "image"):
        return False
    if token.type != "link_open":
        return True
    address = str(token.attrGet("href") or "")
    return is_web_url(address) or _FOLDER_LINK.fullmatch(address) is not None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = _any_link  # type: ignore[method-assign,assignment]
    return parser


def _any_link(_address: str) -> bool:
    """Other parsers are less strict than this one is by itself; each link is judged here."""
    return True
