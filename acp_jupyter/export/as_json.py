"""A conversation as JSON, for programs.

The format, version 1; members that would be empty are left out but for ``outputs``::

    {"version": 1, "title": …, "agents": […], "date": "2026-11-21",
     "cells": [{"type": "prompt" | "code" | "markdown" | "raw",
                "source": …,              # of a prompt: what was sent
                "magics": …,              # lines before the prompt, "%acp connect demo"
                "language": …,            # of code
                "outputs": [{"type": "message" | "entry" | "stream" | "error" | "image" | "html"
                                     | "markdown" | "text",
                             "text": …,   # of a message its Markdown source, else plain text
                             "data": …,   # of an entry: what application/vnd.acp.entry+json holds;
                                          # of a picture: base64, or the source of SVG
                             "mime": …,   # of a picture
                             "html": …,   # foreign HTML, sanitised
                             "stream": "stdout" | "stderr",
                             "decisions": […]}]}]}  # permissions, as in a saved notebook

``version`` grows when a reader of this version would misread a file. New members do not count.
"""

from __future__ import annotations

import json
from typing import Any, Final

from .document import Cell, Document, Output

VERSION: Final = 1


def write(document: Document) -> str:
    """The file."""
    whole = {
        "version": VERSION,
        "title": document.title,
        **_present(agents=document.agents, date=document.date),
        "cells": [_cell(cell) for cell in document.cells],
    }
    # A lone half of a surrogate pair cannot be encoded; as an escape it can.
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "type": cell.type,
        "source": cell.source,
        **_present(magics=cell.magics, language=cell.language),
        "outputs": [_output(output) for output in cell.outputs],
    }


def _output(output: Output) -> dict[str, Any]:
    return {
        "type": output.type,
        "text": output.text,
        **_present(
            data=output.data or output.entry,
            mime=output.mime,
            html=output.html if output.type == "html" else "",
            stream=output.stream,
            decisions=output.decisions,
        ),
    }


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
