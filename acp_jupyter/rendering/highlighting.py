"""Code in colour, with the class names that JupyterLab, Notebook and nbconvert have styles for.

Only languages of a fixed list are coloured, and no long text: a lexer is a set of regular
expressions, and an agent chooses both its input and, by the info string, which one runs.
"""

from __future__ import annotations

import html
from functools import lru_cache
from typing import Any, Final

from .characters import visible
from .elements import CODE_FONT, Safe

LIMIT: Final = 12_000
LINE_LIMIT: Final = 1_000  # several lexers take quadratic time for one line
BLOCK: Final = (
    f"margin-bottom:1em;padding:.4em .6em;overflow:auto;{CODE_FONT};background:rgba(127,127,127,.1)"
)
"""The one style of code blocks: in HTML outputs, JupyterLab has them touch what follows."""

LANGUAGES: Final = {
    name: lexer
    for lexer, names in {
        "python": "python py python3 py3",
        "pycon": "pycon",
        "ipython": "",
        "bash": "bash sh shell zsh",
        "console": "console shell-session",
        "powershell": "powershell ps1 pwsh",
        "batch": "batch bat",
        "javascript": "javascript js mjs",
        "jsx": "jsx",
        "typescript": "typescript ts",
        "tsx": "tsx",
        "json": "json jsonc",
        "yaml": "yaml yml",
        "toml": "toml",
        "ini": "ini cfg conf",
        "html": "html",
        "xml": "xml svg",
        "css": "css",
        "scss": "scss",
        "sql": "sql",
        "c": "c h",
        "cpp": "cpp c++ cc hpp",
        "csharp": "csharp cs c#",
        "java": "java",
        "kotlin": "kotlin kt",
        "swift": "swift",
        "go": "go golang",
        "rust": "rust rs",
        "ruby": "ruby rb",
        "php": "php",
        "perl": "perl pl",
        "lua": "lua",
        "r": "r",
        "julia": "julia jl",
        "scala": "scala",
        "haskell": "haskell hs",
        "diff": "diff patch",
        "docker": "dockerfile docker",
        "make": "makefile make",
        "cmake": "cmake",
        "latex": "latex tex",
        "fortran": "fortran f90",
        "matlab": "matlab octave",
    }.items()
    for name in names.split()
}
"""Info strings to the lexers they name."""

# Names, punctuation and blanks look like the text around them; a span for each would triple the
# bytes.
BARE: Final = frozenset({"", "n", "p", "w", "nx", "x", "l"})

_NAMES: Final = (
    "bp c c1 cm cp cpf cs ch dl err esc fm g gd ge gh gi go gp gr gs gt gu il k kc kd kn kp kr kt"
    " ld m mb mf mh mi mo na nb nc nd ne nf ni nl nn no nt nv o ow py s s1 s2 sa sb sc sd se sh si"
    " sr ss sx vc vg vi vm"
)
CLASSES: Final = frozenset(_NAMES.split())


@lru_cache(maxsize=64)
def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


def to_html(code: str, info: str = "") -> Safe:
    """A code block, coloured if its language is known.

    Args:
        code: its text, without fences.
        info: the info string of a Markdown fence, ``"python title=x"``.
    """
    code = visible(code)
    words = info.strip("{}. \t").split(None, 1)
    name = LANGUAGES.get(words[0].lower().strip("{}.,")) if words else None
    inner = _coloured(code, name) if name and _is_small(code) else html.escape(code)
    return Safe(f'<div class="highlight"><pre style="{BLOCK}">{inner}</pre></div>')


def _is_small(code: str) -> bool:
    return len(code) <= LIMIT and max(map(len, code.split("\n"))) <= LINE_LIMIT


def _coloured(code: str, name: str) -> str:
    from pygments.token import STANDARD_TYPES

    parts: list[str] = []
    pending, pending_class = "", ""
    for token, text in _lexer(name).get_tokens(code):
        while token not in STANDARD_TYPES:
            token = token.parent  # noqa: PLW2901 - a lexer's own token types inherit a class
        kind = STANDARD_TYPES[token]
        kind = kind if kind in CLASSES and kind not in BARE else ""
        if kind != pending_class and text.strip(" \n\t"):
            parts.append(_span(pending, pending_class))
            pending, pending_class = "", kind
        pending += text
    parts.append(_span(pending, pending_class))
    return "".join(parts)


def _span(text: str, kind: str) -> str:
    escaped = html.escape(text, quote=False)
    if not kind or not text:
        return escaped
    return f'<span class="{kind}">{escaped}</span>'
