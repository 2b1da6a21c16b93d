"""A notebook as a conversation: what the user wrote, what came of it, in order.

Pure. This is what every format is made of, and the one place that knows how notebooks are built:

* In a notebook of the agent kernel a cell is a prompt, unless it begins with ``%%`` or is tagged as
  parameters; in any other notebook a cell is a prompt if it begins with ``%%acp``.
* In a prompt's cell, an output is a piece of an answer if its HTML says the same as its text read
  as Markdown; the pieces that follow each other become one message again. Any other output with
  HTML is an entry: a tool call, a plan, a decision.
* Everything in a notebook is untrusted, also what looks like ours: a notebook can come from
  anyone. HTML has passed `sanitising.clean`; anything else is text that the formats must escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal

from ..rendering import markdown, segments
from .sanitising import clean, text_of

CellType = Literal["prompt", "code", "markdown", "raw"]
OutputType = Literal["message", "entry", "stream", "error", "image", "html", "markdown", "text"]

ENTRY_MIME: Final = "application/vnd.acp.entry+json"
RASTER: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
SVG: Final = "image/svg+xml"

_LINE_MAGIC = re.compile(r"%[A-Za-z_]")
_CELL_PROMPT = re.compile(r"%%acp(?=[ \t]|$)")
_PARAMETER_TAGS: Final = frozenset({"parameters", "injected-parameters"})
_HEADING = re.compile(r"#{1,2}[ \t]+(?P<text>[^\n]*?)[ \t]*#*[ \t]*(?:\n|\Z)")
_FOLDED_OR_BOXED = re.compile(r"\s*<(?:details|div class=\"mathjax_ignore)")


@dataclass(slots=True)
class Output:
    """One output of a cell.

    Attributes:
        type: see the module.
        text: Markdown source of a message; plain text of anything else.
        html: of an entry, or foreign HTML; sanitised.
        data: a picture's base64, or its source if it is SVG.
        mime: a picture's media type.
        entry: the entry's data, where the output carries it.
        decisions: what was decided about the entry's request.
        stream: ``stdout`` or ``stderr``.
    """

    type: OutputType
    text: str = ""
    html: str = ""
    data: str = ""
    mime: str = ""
    entry: dict[str, Any] | None = None
    decisions: list[Any] = field(default_factory=list)
    stream: str = ""


@dataclass(slots=True)
class Cell:
    """One cell; ``magics`` are the lines that stand before a prompt."""

    type: CellType
    source: str
    magics: str = ""
    language: str = ""
    outputs: list[Output] = field(default_factory=list)


@dataclass(slots=True)
class Document:
    """A notebook.

    Attributes:
        title: its first heading, or the name of its file.
        agents: names of the agents that answered, as far as they are known.
        date: of the first decision in it; empty if there is none.
        language: of its code cells.
    """

    title: str
    cells: list[Cell]
    agents: list[str]
    date: str
    language: str


def read(notebook: Any, name: str = "") -> Document:
    """Take a notebook (nbformat 4) apart.

    Args:
        notebook: as ``nbformat.read`` gives it.
        name: its file's, without suffix; the title where it has no heading.
    """
    metadata = _mapping(notebook.get("metadata"))
    info = _mapping(metadata.get("language_info"))
    spec = _mapping(metadata.get("kernelspec"))
    is_agents = "acp" in (spec.get("name"), info.get("name"))
    language = "python" if is_agents else str(info.get("name") or spec.get("language") or "python")
    held = notebook.get("cells")
    cells = [
        _cell(_mapping(cell), is_agents, language)
        for cell in (held if isinstance(held, list) else [])
    ]
    title = metadata.get("title")
    decisions = [
        decision
        for cell in cells
        for output in cell.outputs
        for decision in output.decisions
        if isinstance(decision, dict)
    ]
    agents = (decision.get("agent") for decision in decisions)
    dates = [at for at in (decision.get("at") for decision in decisions) if isinstance(at, str)]
    return Document(
        title=title if isinstance(title, str) and title else _heading(cells) or name or "Notebook",
        cells=cells,
        agents=list(dict.fromkeys(agent for agent in agents if isinstance(agent, str) and agent)),
        date=min(dates, default="")[:10],
        language=language,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _string(value: Any) -> str:
    """A notebook's string, which files may hold as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _heading(cells: Iterable[Cell]) -> str:
    for cell in cells:
        if cell.type == "markdown" and (found := _HEADING.match(cell.source.lstrip())):
            return re.sub(r"[*_`]", "", found["text"])
    return ""


# -- cells ----------------------------------------------------------------------------------------


def _cell(cell: Mapping[str, Any], is_agents: bool, language: str) -> Cell:
    source = _string(cell.get("source"))
    match cell.get("cell_type"):
        case "markdown":
            return Cell("markdown", source, outputs=_attachments(cell))
        case "code":
            made = _code(source, cell, is_agents, language)
            outputs = cell.get("outputs")
            made.outputs = _outputs(
                outputs if isinstance(outputs, list) else [], made.type == "prompt"
            )
            return made
        case _:
            return Cell("raw", source)


def _code(source: str, cell: Mapping[str, Any], is_agents: bool, language: str) -> Cell:
    tags = _mapping(cell.get("metadata")).get("tags")
    is_parameters = isinstance(tags, list) and any(tag in _PARAMETER_TAGS for tag in tags)
    lines = source.lstrip("\n").splitlines(keepends=True)
    if not lines or is_parameters:
        return Cell("code", source, language=language)
    if _CELL_PROMPT.match(lines[0]):
        return Cell("prompt", "".join(lines[1:]).strip("\n"), magics=lines[0].strip())
    if not is_agents or lines[0].startswith("%%"):
        return Cell("code", source, language=language)
    count = 0
    while count < len(lines) and (_LINE_MAGIC.match(lines[count]) or not lines[count].strip()):
        count += 1
    magics, prompt = "".join(lines[:count]).strip(), "".join(lines[count:]).strip("\n")
    if not prompt.strip():
        return Cell("code", source, language=language)
    return Cell("prompt", prompt[1:] if prompt.startswith("\\%") else prompt, magics=magics)


def _attachments(cell: Mapping[str, Any]) -> list[Output]:
    """Pictures that were pasted into a Markdown cell; they are shown after its text."""
    found = []
    for name, bundle in _mapping(cell.get("attachments")).items():
        for mime in RASTER:
            if data := _string(_mapping(bundle).get(mime)):
                found.append(Output("image", text=str(name), data=data, mime=mime))
                break
    return found


# -- outputs --------------------------------------------------------------------------------------


def _outputs(outputs: Iterable[Any], is_prompt: bool) -> list[Output]:
    found = [made for item in outputs if (made := _output(_mapping(item), is_prompt)) is not None]
    return [
        _merged([output for _, output in group])
        for _, group in groupby(enumerate(found), key=_belonging)
    ]


def _belonging(numbered: tuple[int, Output]) -> tuple[str, int]:
    """The same for outputs that are parts of one."""
    number, output = numbered
    is_part = output.type in ("message", "stream")
    return f"{output.type} {output.stream}", -1 if is_part else number


def _merged(parts: list[Output]) -> Output:
    if parts[0].type == "message":
        return Output("message", text=segments.join(part.text for part in parts))
    if parts[0].type == "stream":
        text = "".join(part.text for part in parts)
        return Output("stream", text=text, stream=parts[0].stream)
    return parts[0]


def _output(output: Mapping[str, Any], is_prompt: bool) -> Output | None:
    match output.get("output_type"):
        case "stream":
            stream = "stderr" if output.get("name") == "stderr" else "stdout"
            return Output("stream", text=_string(output.get("text")), stream=stream)
        case "error":
            return Output("error", text=_traceback(output))
        case "display_data" | "execute_result":
            return _bundle(output, is_prompt)
        case _:
            return None


def _traceback(output: Mapping[str, Any]) -> str:
    lines = output.get("traceback")
    if isinstance(lines, list) and lines:
        return "\n".join(line for line in lines if isinstance(line, str))
    return f"{_string(output.get('ename'))}: {_string(output.get('evalue'))}"


def _bundle(output: Mapping[str, Any], is_prompt: bool) -> Output | None:
    data = _mapping(output.get("data"))
    plain, stored = _string(data.get("text/plain")), _string(data.get("text/html"))
    entry = data.get(ENTRY_MIME)
    decisions = _mapping(_mapping(output.get("metadata")).get("acp")).get("decisions")
    decided = list(decisions) if isinstance(decisions, list) else []
    html = clean(stored)
    if isinstance(entry, Mapping) or decided:
        known = dict(entry) if isinstance(entry, Mapping) else None
        return Output("entry", text=plain, html=html, entry=known, decisions=decided)
    if "<img " in html or "<audio " in html or text_of(html).strip():
        if not is_prompt and not _FOLDED_OR_BOXED.match(stored):
            return Output("html", text=plain, html=html)
        if is_prompt and _is_message(stored, html, plain):
            return Output("message", text=plain)
        return Output("entry", text=plain, html=html)
    return _picture(data, plain) or _text(data, plain)


def _is_message(stored: str, html: str, plain: str) -> bool:
    if _FOLDED_OR_BOXED.match(stored):
        return False
    return _letters(text_of(html)) == _letters(text_of(markdown.to_html(plain)))


def _letters(text: str) -> str:
    return "".join(text.split())


def _picture(data: Mapping[str, Any], plain: str) -> Output | None:
    for mime in (*RASTER, SVG):
        if content := _string(data.get(mime)):
            return Output("image", text=plain, data=content, mime=mime)
    return None


def _text(data: Mapping[str, Any], plain: str) -> Output | None:
    if source := _string(data.get("text/markdown")):
        return Output("markdown", text=source)
    if source := plain or _string(data.get("text/latex")):
        return Output("text", text=source)
    return None
