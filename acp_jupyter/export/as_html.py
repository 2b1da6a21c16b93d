"""A conversation as one HTML page that needs nothing else and runs nothing.

Not nbconvert's exporter: its pages load RequireJS and MathJax from the network, run scripts, and
show the HTML of outputs as it is stored. This page has no script at all and a content security
policy that would not let one run, nor let anything be fetched; what unfolds are ``details``.
Messages are rendered anew from their Markdown, so that no cut of the live display is seen.
Mathematics therefore stays in its source form.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Final

from ..rendering import ansi, highlighting, images, markdown
from ..rendering.characters import one_line, prose, visible
from ..rendering.images import Media
from .document import SVG, Cell, Document, Output
from .redaction import svg_source

POLICY: Final = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'"
)
STYLE: Final = Path(__file__).with_name("page.css")
CONTENTS_FROM: Final = 4
"""Prompts from which on a page has a table of contents."""

_HEADING = re.compile(r"<(/?)h([1-6])>")
_TITLE = re.compile(r"\s*#{1,2}[ \t]+[^\n]*(?:\n|\Z)")


def write(document: Document) -> str:
    """The page."""
    title = html.escape(one_line(document.title, 200))
    prompts = [cell for cell in document.cells if cell.type == "prompt"]
    who = html.escape(one_line(", ".join(document.agents), 100)) or "Agent"
    numbers = {id(cell): number for number, cell in enumerate(prompts, start=1)}
    style = STYLE.read_text(encoding="utf-8")
    body = "\n".join(
        _cell(cell, document, who, numbers.get(id(cell), 0)) for cell in _without_title(document)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#conversation">Skip to the conversation</a>\n'
        f"<header>\n<h1>{title}</h1>\n{_facts(document, len(prompts))}</header>\n"
        f'{_contents(prompts)}<main id="conversation">\n{body}\n</main>\n'
        "<footer>Exported with acp-jupyter. This page runs no script and loads nothing.</footer>\n"
        "</body>\n</html>\n"
    )


def _facts(document: Document, prompts: int) -> str:
    facts = [", ".join(document.agents), document.date]
    facts += [f"{prompts} prompt{'s' if prompts != 1 else ''}"] if prompts else []
    shown = " · ".join(html.escape(one_line(fact, 100)) for fact in facts if fact)
    return f'<p class="facts">{shown}</p>\n' if shown else ""


def _contents(prompts: list[Cell]) -> str:
    if len(prompts) < CONTENTS_FROM:
        return ""
    lines = "".join(
        f'<li><a href="#prompt-{number}">{html.escape(one_line(cell.source, 80))}</a></li>\n'
        for number, cell in enumerate(prompts, start=1)
    )
    return (
        '<nav aria-label="Contents"><details><summary>Contents</summary>\n'
        f"<ol>\n{lines}</ol>\n</details></nav>\n"
    )


def _without_title(document: Document) -> list[Cell]:
    """The cells; the heading that became the page's title is not shown twice."""
    cells = list(document.cells)
    found = _TITLE.match(cells[0].source) if cells and cells[0].type == "markdown" else None
    if found and document.title in re.sub(r"[*_`]", "", found[0]):
        rest = cells[0].source[found.end() :]
        cells[0] = Cell("markdown", rest, outputs=cells[0].outputs)
    return cells


# -- cells ----------------------------------------------------------------------------------------


def _cell(cell: Cell, document: Document, who: str, number: int) -> str:
    shown = "\n".join(map(_output, cell.outputs))
    match cell.type:
        case "prompt":
            magics = (
                f'<p class="magics"><code>{_text(cell.magics)}</code></p>'
                if cell.magics.removeprefix("%%acp")
                else ""
            )
            answer = (
                f'<section class="answer" aria-label="Answer {number}">'
                f'<h2 class="who">{who}</h2>\n{shown}\n</section>'
                if shown
                else ""
            )
            return (
                f'<section class="prompt" id="prompt-{number}" aria-label="Prompt {number}">'
                f'<h2 class="who">You</h2>{magics}<div class="said">{_text(cell.source)}</div>'
                f"</section>\n{answer}"
            )
        case "markdown":
            return f'<section class="note">{_rendered(cell.source, 1)}\n{shown}</section>'
        case "code":
            source = highlighting.to_html(cell.source.strip("\n"), _language(cell, document))
            outputs = f'<div class="outputs">{shown}</div>' if shown else ""
            return f'<section class="code" aria-label="Code">{source}\n{outputs}</section>'
        case _:
            return f"<section><pre>{_text(cell.source)}</pre></section>"


def _language(cell: Cell, document: Document) -> str:
    """Also a cell magic names a language: ``%%bash``."""
    found = re.match(r"%%(\w+)", cell.source)
    if found and found[1] in highlighting.LANGUAGES:
        return found[1]
    return cell.language or document.language


def _text(text: str) -> str:
    return html.escape(visible(text))


def _rendered(source: str, deeper: int) -> str:
    """Markdown; its headings stand below those of the page."""
    return _HEADING.sub(
        lambda found: f"<{found[1]}h{min(int(found[2]) + deeper, 6)}>", markdown.to_html(source)
    )


# -- outputs --------------------------------------------------------------------------------------


def _output(output: Output) -> str:
    match output.type:
        case "message" | "markdown":
            return f'<div class="message">{_rendered(output.text, 2)}</div>'
        case "entry":
            inner = output.html or _plain(output.text)
            return f'<div class="entry">{inner}</div>'
        case "html":
            inner = output.html or _plain(output.text)
            return f'<div class="html">{inner}</div>'
        case "stream" | "error" as kind:
            name = output.stream if kind == "stream" else "error"
            return f'<pre class="{name}">{ansi.to_html(output.text.rstrip(chr(10)))}</pre>'
        case "image":
            return _image(output)
        case _:
            return _plain(output.text)


def _plain(text: str) -> str:
    return f'<pre class="plain">{ansi.to_html(text)}</pre>' if text.strip() else ""


def _image(output: Output) -> str:
    alt = html.escape(one_line(output.text or "picture", 200))
    source = picture_source(output)
    if isinstance(source, str):
        return f'<p class="picture"><img src="{source}" alt="{alt}"></p>'
    return f'<p class="picture">[picture not shown — {html.escape(source.reason)}]</p>'


def picture_source(output: Output) -> str | images.Withheld:
    """The address, with the data in it, of a checked picture; or why there is none.

    As a picture, and only so, SVG can neither run scripts nor fetch anything.
    """
    if output.mime == SVG:
        import base64

        source = svg_source(output.data).encode("utf-8", "replace")
        if b"<svg" not in source or len(source) > images.MAX_BYTES:
            return images.Withheld(f"SVG, {images.bytes_text(len(source))}: it cannot be embedded")
        return f"data:{SVG};base64,{base64.b64encode(source).decode('ascii')}"
    checked = images.check({"mimeType": output.mime, "data": output.data}, "image")
    if isinstance(checked, Media):
        return f"data:{checked.mime};base64,{checked.base64}"
    return checked


def plain_title(document: Document) -> str:
    """The title as one line of text."""
    return one_line(prose(document.title), 200)
