"""Notebooks as an agent reads and writes them; no I/O.

Rules:

- A notebook is read as what it is: JSON. Asked for as text (``_meta`` of the request:
  ``{"acp-jupyter": {"notebook": "text"}}``), it is its cells without outputs, for reading only.
- What is written has to be a valid notebook. Ids of cells are kept: a cell that lost its id gets
  the one it had, or a new one. Nothing that an agent writes makes a notebook trusted: the marks of
  trust in it are removed, and no signature is made.
"""

from __future__ import annotations

import difflib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import Refusal
from ..session.transcript import ProposedCell

__all__ = [
    "Proposal",
    "as_text",
    "checked",
    "for_api",
    "is_notebook",
    "notebook_text",
    "proposal",
    "wants_text",
]

META: Final = "acp-jupyter"
"""Our name in ``_meta``."""

PROBLEM: Final = 300
"""Characters told of what is wrong with a notebook."""

WITH_IDS: Final = 5
"""The minor version of nbformat 4 from which on cells have ids."""

Dict = dict[str, Any]


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def wants_text(params: Mapping[str, Any]) -> bool:
    """Whether a request asks for the text form of a notebook."""
    meta = params.get("_meta")
    ours = meta.get(META) if type(meta) is dict else None
    return type(ours) is dict and ours.get("notebook") == "text"


# -- the text form --------------------------------------------------------------------------------


def as_text(notebook: str) -> str:
    """The cells of a notebook without outputs, each below a line ``# %% [type] id=ID``.

    Raises:
        Refusal: it is no notebook.
    """
    parts = []
    for cell in _cells(_parsed(notebook)):
        ident = cell.get("id")
        name = f" id={ident}" if type(ident) is str else ""
        parts.append(f"# %% [{cell.get('cell_type')}]{name}\n{_source(cell).rstrip()}\n")
    return "\n".join(parts)


def _parsed(text: str) -> Dict:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"a notebook has to be valid JSON: {error}"[:PROBLEM]) from error
    if type(found) is not dict or type(found.get("cells")) is not list:
        raise Refusal("a notebook has to be a JSON object with a list of cells (nbformat 4)")
    return found


def _cells(notebook: Dict) -> list[Dict]:
    return [cell for cell in notebook["cells"] if type(cell) is dict]


def _source(cell: Dict) -> str:
    source = cell.get("source")
    if type(source) is list:
        return "".join(part for part in source if type(part) is str)
    return source if type(source) is str else ""


# -- what may be written --------------------------------------------------------------------------


def checked(text: str, before: str | None) -> str:
    """What is written in place of an agent's text for a notebook; the same where it is fine.

    Args:
        text: the agent's.
        before: the notebook as it is; ``None`` if there is none yet.

    Raises:
        Refusal: it is no valid notebook.
    """
    import nbformat

    notebook = _parsed(text)
    _check_form(notebook)
    changed = _drop_trust(notebook)
    if notebook["nbformat_minor"] >= WITH_IDS:
        changed = _give_ids(notebook, before) or changed
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        problem = str(error).partition("\n")[0][:PROBLEM]
        raise Refusal(f"this is no valid notebook, so it was not written: {problem}") from error
    if not changed:
        return text
    return notebook_text(notebook)


def notebook_text(notebook: Dict) -> str:
    """A notebook as nbformat writes it to a file: sorted, and without the marks of trust.

    Raises:
        Refusal: it is no valid notebook.
    """
    import nbformat

    make: Any = nbformat  # it has no annotations
    try:
        text: str = make.writes(make.from_dict(notebook))
    except (KeyError, TypeError, AttributeError, ValueError, nbformat.ValidationError) as error:
        raise Refusal("the notebook is not valid") from error
    return text if text.endswith("\n") else text + "\n"


def for_api(text: str) -> Dict:
    """A notebook, as `notebook_text` makes it, in the form of the contents API: lines joined."""
    import nbformat

    make: Any = nbformat
    notebook: Dict = make.reads(text, as_version=make.NO_CONVERT)
    return notebook


def _check_form(notebook: Dict) -> None:
    """What nbformat's own check takes for granted."""
    numbers = notebook.get("nbformat"), notebook.get("nbformat_minor")
    if numbers[0] != 4 or any(type(number) is not int for number in numbers):
        raise Refusal("this is no valid notebook, so it was not written: nbformat has to be 4")
    if len(_cells(notebook)) != len(notebook["cells"]):
        raise Refusal("this is no valid notebook, so it was not written: a cell is no object")


def _drop_trust(notebook: Dict) -> bool:
    """Remove what says that a user trusts outputs; returns whether there was any of it."""
    found = False
    for cell in [notebook, *_cells(notebook)]:
        metadata = cell.get("metadata")
        for name in ("trusted", "signature"):
            if type(metadata) is dict and name in metadata:
                del metadata[name]
                found = True
    return found


def _give_ids(notebook: Dict, before: str | None) -> bool:
    """Give each cell an id of its own; returns whether one was missing."""
    cells = _cells(notebook)
    kept: set[str] = set()
    without = []
    for cell in cells:
        ident = cell.get("id")
        if type(ident) is str and ident not in kept:
            kept.add(ident)
        elif ident is None or type(ident) is str:
            without.append(cell)
    known = _known_ids(before, kept) if without else {}
    for cell in without:
        had = known.get((cell.get("cell_type"), _source(cell)))
        cell["id"] = had.pop(0) if had else secrets.token_hex(4)
    return bool(without)


def _known_ids(before: str | None, taken: set[str]) -> dict[tuple[Any, str], list[str]]:
    """Ids that cells had, by type and source."""
    known: dict[tuple[Any, str], list[str]] = {}
    try:
        cells = _cells(_parsed(before)) if before is not None else []
    except Refusal:  # what was there was no notebook
        return known
    for cell in cells:
        ident = cell.get("id")
        if type(ident) is str and ident not in taken:
            known.setdefault((cell.get("cell_type"), _source(cell)), []).append(ident)
    return known


# -- the notebook that runs -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an agent would change in the notebook that runs.

    Attributes:
        cells: new and changed ones, in their order.
        removed: how many it would remove, which cannot be proposed.
    """

    cells: tuple[ProposedCell, ...]
    removed: int


def proposal(before: str, after: str) -> Proposal:
    """Compare two states of a notebook by its cells' types and sources; outputs do not count.

    Raises:
        Refusal: ``after`` is no notebook.
    """
    wanted = _parsed(after)
    try:
        old = _cells(_parsed(before))
    except Refusal:
        old = []
    new = _cells(wanted)
    language = _language(wanted)
    keys = [[(cell.get("cell_type"), _source(cell)) for cell in cells] for cells in (old, new)]
    matcher = difflib.SequenceMatcher(a=keys[0], b=keys[1], autojunk=False)
    proposed: list[ProposedCell] = []
    removed = 0
    for kind, start, stop, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        removed += max(0, (stop - start) - (last - first))
        proposed += _proposed(new[first:last], language)
    return Proposal(tuple(proposed), removed)


def _proposed(cells: Iterable[Dict], language: str) -> Iterator[ProposedCell]:
    for cell in cells:
        source = _source(cell)
        if source.strip():
            yield ProposedCell(
                language if cell.get("cell_type") == "code" else "markdown", source.rstrip("\n")
            )


def _language(notebook: Dict) -> str:
    metadata = notebook.get("metadata")
    for name in ("language_info", "kernelspec"):
        found = metadata.get(name) if type(metadata) is dict else None
        value = found.get("name" if name == "language_info" else "language") if found else None
        if type(value) is str and value:
            return value.lower()
    return "python"
