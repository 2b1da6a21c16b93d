"""An agent's Markdown as static HTML, sanitised.

CommonMark with tables, strikethrough and task lists; raw HTML is text. The rules:

* Links lead to http(s) only; the address of any other link is shown beside its text. Pictures are
  named and linked, never fetched. Bare web addresses become links.
* Mathematics stays in its source form, between dollars, in ``\\(…\\)`` and ``\\[…\\]``, or from
  ``\\begin`` to ``\\end``, because JupyterLab and nbconvert typeset it in HTML outputs. Emphasis
  does not touch it. Commands that link, style or define are not typeset but shown as code: they
  would bring back what the sanitiser takes away, or change the formulas of the whole notebook.
  Every other dollar and backslash is put in an element of its own, where no typesetter
  can take it for a delimiter (``$HOME and $PATH``).
* What comes out passes an allowlist (nh3) once more.
* There are no styles but those of code blocks and the alignment of table cells, so that HTML and
  source together stay within three times the message's bytes.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from . import highlighting
from .characters import one_line, prose, visible
from .elements import Safe, is_web_url
from .segments import SegmentCutter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

ONE_PARSE: Final = 8_000
"""Characters parsed at once. Some inputs take the parser quadratic time; longer texts are cut."""

NAMES: Final = (
    "a blockquote br code div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong"
    " table tbody td th thead tr ul"
)
TAGS: Final = frozenset(NAMES.split())
ALIGNMENTS: Final = frozenset({"text-align:left", "text-align:center", "text-align:right"})

MATH_LINES: Final = 200
_MATH = re.compile(
    r"\$\$(?P<display>(?:[^$\\\n]|\\.|\n(?!\s*\n)){1,4000}?)\$\$"
    r"|\$(?![\s$])(?P<inline>(?:[^$\\\n]|\\.|\n(?!\s*\n)){1,1000}?)(?<![\s\\])\$(?![\w$])",
    re.DOTALL,
)
_BRACKETED = re.compile(
    r"\\\((?:[^\n]|\n(?!\s*\n)){1,1000}?\\\)"
    r"|\\\[(?:[^\n]|\n(?!\s*\n)){1,4000}?\\\]"
    r"|\\begin\{(?P<name>[a-zA-Z]{1,20}\*?)\}(?:[^\n]|\n(?!\s*\n)){1,4000}?\\end\{(?P=name)\}"
)
_NOT_TYPESET = re.compile(
    r"\\(?:href|url|style|class|cssId|data|html\w*|require|unicode|include\w*|action|toggle|mathtip"
    r"|texttip|enclose|bbox|csname|def|gdef|edef|xdef|let|futurelet|(?:re|provide)?new\w*|renew\w*"
    r"|provide\w*|Declare\w*|label|ref|eqref|input|open\w*|write\w*|catcode|special|mmlToken"
    r"|img|iframe|script|javascript|begingroup\w*|global|loop)(?![a-z])",
    re.IGNORECASE,
)
_PROTECTED = re.compile(r"[$\\]")
_BARE_URL = re.compile(r"(?<![\w/])https?://[^\s<>\"'`|\\]{1,2000}", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\](?=\s)")


_PLAIN = re.compile(
    r"""(?:
        (?!\d{1,9}[.)](?:\s|$) | [-+=])          # a list item, a rule, an underlined heading
        [-!"%'(),./0-9:;?@A-Za-z+=^]             # no space: it may be an indented block
        [-!"%'(),./0-9:;?@A-Za-z+=^\ ]*
        (?<!\ )(?:\n|\Z)                         # spaces at a line's end may be a line break
      | \n )*+""",
    re.VERBOSE,
)
"""Text in which no character means anything to Markdown, HTML or MathJax."""


def to_html(text: str) -> Safe:
    """Markdown of any length and origin as HTML that can be shown in a trusted notebook."""
    if _PLAIN.fullmatch(text) and "://" not in text:
        return _plain(text)
    if len(text) <= ONE_PARSE:
        return _to_html(text)
    cutter = SegmentCutter(bursts=False)
    return Safe("".join(_to_html(part.text) for part in cutter.cut(text)))


def _plain(text: str) -> Safe:
    """What the parser makes of plain prose, at a tenth of the time: most of what agents write."""
    paragraphs = [part.strip("\n") for part in text.split("\n\n")]
    return Safe("".join(f"<p>{part}</p>\n" for part in paragraphs if part))


def _to_html(text: str) -> Safe:
    import nh3

    dirty = _parser().render(prose(text))
    return Safe(
        nh3.clean(
            dirty,
            tags=set(TAGS),
            attributes={"a": {"href"}, "ol": {"start"}},
            tag_attribute_values={
                "a": {"target": {"_blank"}},
                "td": {"style": set(ALIGNMENTS)},
                "th": {"style": set(ALIGNMENTS)},
                "pre": {"style": {highlighting.BLOCK}},
            },
            allowed_classes={"div": {"highlight"}, "span": set(highlighting.CLASSES)},
            url_schemes={"http", "https"},
        )
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False})
    parser.enable(["table", "strikethrough"])
    # Links are judged when they are rendered, where their address can still be shown.
    parser.validateLink = _any_link  # type: ignore[method-assign,assignment]
    parser.inline.ruler.before("escape", "mathematics", _inline_math)
    parser.block.ruler.before(
        "fence", "mathematics", _block_math, {"alt": ["paragraph", "reference", "blockquote"]}
    )
    parser.core.ruler.push("links", _links)
    parser.core.ruler.push("tasks", _tasks)
    for name, rule in RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _any_link(_url: str) -> bool:
    return True


# -- parsing ----------------------------------------------------------------------------------


def _inline_math(state: StateInline, silent: bool) -> bool:
    char = state.src[state.pos]
    if char == "$":
        # "5$ or 6$", "a$b": a dollar that ends a word opens nothing.
        before = state.src[state.pos - 1] if state.pos else " "
        found = None if before.isalnum() else _MATH.match(state.src, state.pos, state.posMax)
    elif char == "\\":
        found = _BRACKETED.match(state.src, state.pos, state.posMax)
    else:
        return False
    if found is None:
        return False
    if not silent:
        state.push("math", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _block_math(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A formula that begins a line and ends one, and that block syntax must not touch."""
    if state.is_code_block(start_line):
        return False
    start = state.bMarks[start_line] + state.tShift[start_line]
    if not state.src.startswith(("$$", "\\[", "\\begin{"), start):
        return False
    last = min(end_line, start_line + MATH_LINES)
    # As the quotation or list around it sees them: without its markers.
    lines = state.getLines(start_line, last, state.blkIndent, False).lstrip(" ")
    found = _MATH.match(lines) or _BRACKETED.match(lines)
    if found is None:
        return False
    rest, _, _ = lines[found.end() :].partition("\n")
    if rest.strip(" .,;"):
        return False
    if silent:
        return True
    token = state.push("math_block", "", 0)
    token.content = found[0] + rest
    state.line = start_line + found[0].count("\n") + 1
    token.map = [start_line, state.line]
    return True


def _links(state: StateCore) -> None:
    """Keep links to the web, show the address of others, and link bare web addresses."""
    for token in state.tokens:
        if token.type == "inline" and token.children:
            token.children = _linked(token.children)


def _linked(tokens: list[Token]) -> list[Token]:
    linked: list[Token] = []
    addresses: list[str] = []
    start = 0
    for token in tokens:
        if token.type == "link_open":
            addresses.append(str(token.attrGet("href") or ""))
            start = len(linked)
            if is_web_url(addresses[-1]):
                linked.append(token)
        elif token.type == "link_close":
            address = addresses.pop() if addresses else ""
            if is_web_url(address):
                linked.append(token)
            elif address and address != "".join(part.content for part in linked[start:]):
                linked.append(_text(token, f" ({one_line(address)})"))
        elif token.type == "text" and not addresses and "://" in token.content:
            linked += _bare_urls(token)
        else:
            linked.append(token)
    return linked


def _text(model: Token, content: str) -> Token:
    return type(model)("text", "", 0, content=content, level=model.level)


def _bare_urls(token: Token) -> list[Token]:
    kind = type(token)
    parts: list[Token] = []
    done = 0
    for found in _BARE_URL.finditer(token.content):
        url = _without_punctuation(found[0])
        if not is_web_url(url):
            continue
        end = found.start() + len(url)
        parts.append(_text(token, token.content[done : found.start()]))
        parts.append(kind("link_open", "a", 1, attrs={"href": url}))
        parts.append(_text(token, url))
        parts.append(kind("link_close", "a", -1))
        done = end
    parts.append(_text(token, token.content[done:]))
    return parts


def _without_punctuation(url: str) -> str:
    """A web address without what belongs to the sentence around it: ``(see https://a.b/c).``"""
    while True:
        shorter = url.rstrip(".,;:!?*_~")
        for opening, closing in ("()", "[]"):
            if shorter.endswith(closing) and shorter.count(closing) > shorter.count(opening):
                shorter = shorter[:-1]
        if shorter == url:
            return url
        url = shorter


def _tasks(state: StateCore) -> None:
    """``- [x] done`` with a box drawn as a character: a form element would invite clicks."""
    tokens = state.tokens
    for item, _, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type != "list_item_open" or inline.type != "inline" or not inline.children:
            continue
        first = inline.children[0]
        found = _TASK.match(first.content) if first.type == "text" else None
        if found is not None:
            first.content = ("☐" if found[1] == " " else "☑") + first.content[found.end() :]


# -- rendering --------------------------------------------------------------------------------
# Signature of markdown-it's render rules: (renderer, tokens, index, options, env) -> HTML.


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _no_math(text: str) -> str:
    """Text whose dollars and backslashes delimit nothing."""
    return _PROTECTED.sub(r"<span>\g<0></span>", _escape(text))


def _render_text(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return _no_math(tokens[index].content)


def _render_code(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return f"<code>{_escape(visible(tokens[index].content))}</code>"


def _render_fence(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    return highlighting.to_html(token.content.rstrip("\n"), token.info) + "\n"


def _render_image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    address = str(token.attrGet("src") or "")
    alt = self.renderInlineAsText(token.children or [], options, env)
    name = f"image: {_no_math(one_line(alt))}".rstrip()
    if is_web_url(address):
        return f"[{name} {_anchor(address)}{_no_math(one_line(address))}</a>]"
    shown = "embedded, not shown" if address.lower().startswith("data:") else one_line(address)
    return f"[{name} ({_no_math(shown)})]"


def _anchor(url: str) -> str:
    return f'<a href="{html.escape(url)}" target="_blank">'


def _render_link_open(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return _anchor(str(tokens[index].attrGet("href")))


def _render_math(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    source = tokens[index].content
    if _NOT_TYPESET.search(source) or "^^" in source:
        return f"<code>{_escape(visible(source))}</code>"
    return _escape(source)


def _render_math_block(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return f"<p>{_render_math(_self, tokens, index)}</p>\n"


def _render_cell(_self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    # Without it, JupyterLab aligns the cells of tables in HTML outputs to the right.
    return f'<{token.tag} style="{token.attrGet("style") or "text-align:left"}">'


RULES: Final[dict[str, Callable[..., str]]] = {
    "text": _render_text,
    "code_inline": _render_code,
    "code_block": _render_fence,
    "fence": _render_fence,
    "image": _render_image,
    "link_open": _render_link_open,
    "math": _render_math,
    "math_block": _render_math_block,
    "th_open": _render_cell,
    "td_open": _render_cell,
}
