"""What a cell of the agent kernel is: leading magics, Python, or a prompt.

Pure. The rules, in this order:

* a cell tagged ``parameters`` or ``injected-parameters`` is Python (papermill's convention);
* a first line ``%%name`` with a known cell magic: the whole cell is that magic's; ``%%python`` is
  Python in this kernel;
* leading lines ``%name`` with a known line magic are magics, one by one; the rest is the prompt;
* a first line that looks like a mistyped magic is an error that names the nearest one;
* anything else is the prompt, as written; a leading ``\\%`` stands for a percent sign.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import UsageError

_NAME = re.compile(r"(%%?)([A-Za-z_][\w.]*)(?=\s|$|\?)")
_PARAMETER_TAGS = frozenset({"parameters", "injected-parameters"})
_SIMILAR = 0.75
"""How close a word after a percent sign must be to a magic's name to count as mistyped; prompts
that begin with a percent sign are rare, but they exist ("%s is not replaced, why?")."""

_OURS = "acp"
_SIMILAR_TO_OURS = 0.6
"""Two letters of three: our own magic is what people mean in this kernel, and it is short."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell taken apart.

    Attributes:
        magics: lines to run first, each a line magic as written.
        python: the whole cell runs as Python in this kernel, see `python_lines`; no prompt.
        prompt: text to send, empty if there is none.
    """

    magics: tuple[str, ...] = ()
    python: bool = False
    prompt: str = ""


def parse_cell(
    code: str,
    *,
    line_magics: Collection[str],
    cell_magics: Collection[str],
    subcommands: Collection[str] = (),
    tags: Collection[str] = (),
) -> Cell:
    """Take a cell apart.

    Args:
        code: the cell's source.
        line_magics: known names, without percent sign.
        cell_magics: known names, without percent signs.
        subcommands: what follows ``%acp``; people write ``%connect`` for ``%acp connect``.
        tags: the cell's tags, where the frontend tells them.

    Raises:
        UsageError: the first line is a mistyped magic.
    """
    if _PARAMETER_TAGS.intersection(tags):
        return Cell(python=True)
    lines = code.lstrip("\n").splitlines(keepends=True)
    first = _NAME.match(lines[0]) if lines else None
    if first is not None and first[1] == "%%":
        return _cell_magic(first[2], cell_magics, subcommands)
    magics: list[str] = []
    while lines:
        if not lines[0].strip():
            if not magics:
                break
            lines.pop(0)
            continue
        match = _NAME.match(lines[0])
        if match is None or match[1] != "%" or match[2] not in line_magics:
            break
        magics.append(lines.pop(0).rstrip("\r\n"))
    if lines:
        _refuse_mistyped(lines[0], line_magics, cell_magics, subcommands)
    prompt = "".join(lines)
    if prompt.startswith("\\%"):
        prompt = prompt[1:]
    return Cell(magics=tuple(magics), prompt=prompt.rstrip() if prompt.strip() else "")


def _cell_magic(name: str, known: Collection[str], subcommands: Collection[str]) -> Cell:
    if name != "python" and name not in known:
        hint = f"%acp {name}" if name in subcommands else ""
        raise _unknown("%%" + name, ["%%" + other for other in (*known, "python")], hint)
    return Cell(python=True)


def python_lines(lines: list[str]) -> list[str]:
    """A cell's lines as IPython is to read them, without a first line ``%%python``.

    An input transformer of IPython's, so that its history keeps the cell as written. An empty line
    stays, for the line numbers of tracebacks, unless another cell magic has to come first.
    """
    first = _NAME.match(lines[0]) if lines else None
    if first is None or first[0] != "%%python":
        return lines
    rest = lines[1:]
    while rest and not rest[0].strip():
        rest = rest[1:]
    return rest if rest and rest[0].startswith("%%") else ["\n", *lines[1:]]


def _refuse_mistyped(
    line: str,
    line_magics: Collection[str],
    cell_magics: Collection[str],
    subcommands: Collection[str],
) -> None:
    match = _NAME.match(line)
    if match is None or match[1] != "%" or match[2] in line_magics:
        return
    word = match[2]
    if word in subcommands:
        raise _unknown("%" + word, [], hint=f"%acp {word}")
    if (
        difflib.get_close_matches(word, line_magics, n=1, cutoff=_SIMILAR)
        or difflib.SequenceMatcher(None, word, _OURS).ratio() >= _SIMILAR_TO_OURS
    ):
        raise _unknown("%" + word, ["%" + other for other in line_magics])
    if word in cell_magics:
        raise _unknown("%" + word, [])
    nearest = difflib.get_close_matches(word, subcommands, n=1, cutoff=_SIMILAR)
    if nearest:
        raise _unknown("%" + word, [], hint=f"%acp {nearest[0]}")


def _unknown(name: str, candidates: Collection[str], hint: str = "") -> UsageError:
    close = difflib.get_close_matches(name, candidates, n=3, cutoff=0.6)
    nearest = hint or " or ".join(close)
    question = f"Did you mean {nearest}? " if nearest else ""
    return UsageError(
        f"{name} is no magic that this kernel knows",
        remedy=f"{question}To send it as a prompt, begin the cell with \\%. "
        "`%acp help` lists the commands.",
    )
