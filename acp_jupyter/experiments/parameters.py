"""Parameters of a notebook, by papermill's conventions. Pure, but for reading a file of them.

* A cell tagged ``parameters`` has the defaults. What is given goes into a cell of its own right
  behind it, tagged ``injected-parameters``, which takes the place of one that is there already.
  Without a ``parameters`` cell it is the first cell.
* In the kernel "ACP Agent" such a cell begins with ``%%python``: not every client sends a cell's
  tags along, and without them it would be a prompt.
* A value on the command line is read as JSON where it is JSON (numbers, true, false, null, lists,
  objects, quoted texts), as Python has it for True, False and None, and is text otherwise.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import UsageError

PARAMETERS: Final = "parameters"
INJECTED: Final = "injected-parameters"
OURS: Final = "acp"
"""The language of the kernel "ACP Agent"."""

_WORDS: Final = {"True": True, "False": False, "None": None}


def read_value(text: str) -> Any:
    """A value of a command line; see the module."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        value = json.loads(text, parse_constant=str)  # NaN is somebody's name
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def read_assignments(given: Sequence[str], *, raw: bool = False) -> dict[str, Any]:
    """Read ``NAME=VALUE`` of a command line; ``raw`` values are text as they stand.

    Raises:
        UsageError: one of them is none.
    """
    found: dict[str, Any] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals:
            raise UsageError(
                f"{word!r} is no parameter with a value", remedy="For example `-p agent=demo`."
            )
        found[name] = text if raw else read_value(text)
    return found


def read_file(path: Path) -> dict[str, Any]:
    """Parameters of a JSON, TOML or YAML file.

    Raises:
        UsageError: it cannot be read, holds no names with values, or PyYAML is not installed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the parameters {path} cannot be read: {error}") from error
    try:
        held = _parse(text, path.suffix.lower())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the parameters {path} cannot be read: {error}") from error
    if not isinstance(held, dict):
        raise UsageError(f"the parameters {path} are no names with values")
    return {str(name): value for name, value in held.items()}


def _parse(text: str, suffix: str) -> object:
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        try:
            import yaml
        except ImportError as error:
            raise UsageError(
                "PyYAML is not installed", remedy="pip install pyyaml, or use a JSON or TOML file."
            ) from error
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    return json.loads(text)


def check(parameters: Mapping[str, Any]) -> None:
    """Refuse what no cell could set.

    Raises:
        UsageError: a name is no variable's, or a value is no JSON.
    """
    for name, value in parameters.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(
                f"{name!r} cannot be a parameter", remedy="Use the name of a variable."
            )
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"the parameter {name} has a value that is no JSON: {error}",
                remedy="Use texts, numbers, true, false, null, lists and objects.",
            ) from error


def python_value(value: Any) -> str:
    """A JSON value as Python source on one line."""
    match value:
        case float() if not math.isfinite(value):
            return f"float({str(value)!r})"
        case dict():
            items = (f"{python_value(key)}: {python_value(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(python_value, value)) + "]"
        case _:
            return repr(value)


def source(parameters: Mapping[str, Any], language: str) -> str:
    """The text of the injected cell."""
    lines = [f"{name} = {python_value(value)}" for name, value in parameters.items()]
    first = ["%%python"] if language == OURS else []
    return "\n".join([*first, "# Parameters", *lines])


def inject(notebook: Any, parameters: Mapping[str, Any], language: str) -> bool:
    """Put parameters into a notebook (nbformat 4), in place of those that are there.

    Returns:
        Whether the notebook has a cell tagged ``parameters``, or had injected ones.

    Raises:
        UsageError: a parameter cannot be set, or the notebook's language is not known here.
    """
    import nbformat

    if not parameters:
        return True
    check(parameters)
    if language not in ("python", OURS):
        raise UsageError(
            f"parameters can be set in Python and in ACP Agent notebooks, not in {language}",
            remedy="Run it without parameters.",
        )
    made = nbformat.v4.new_code_cell(source(parameters, language))
    made.metadata["tags"] = [INJECTED]
    if notebook.nbformat_minor < 5:
        del made["id"]
    places = {tag: _find(notebook, tag) for tag in (INJECTED, PARAMETERS)}
    if places[INJECTED] is not None:
        notebook.cells[places[INJECTED]] = made
    else:
        after = places[PARAMETERS]
        notebook.cells.insert(0 if after is None else after + 1, made)
    return any(place is not None for place in places.values())


def tags(cell: Any) -> list[str]:
    found = cell.metadata.get("tags", [])
    return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []


def _find(notebook: Any, tag: str) -> int | None:
    cells = enumerate(notebook.cells)
    return next((i for i, cell in cells if cell.cell_type == "code" and tag in tags(cell)), None)
