"""Code of an agent's, run with the notebook's variables in a namespace of its own.

On the main thread. What it prints and displays is caught and given to the agent; figures that it
leaves open are drawn and closed, or they would show up in the user's next cell.
"""

from __future__ import annotations

import ast
import base64
import sys
import traceback
from typing import Any, Final

from ..protocol import mcp
from ..rendering.characters import clip
from .displays import IMAGES
from .foreign import attempt
from .history import NoCells
from .values import VALUE_LIMIT, describe_value

Dict = dict[str, Any]

FILE: Final = "<code of the agent>"

PICTURES: Final = 4
"""Pictures of one run."""

LARGEST: Final = 5_000_000
"""Characters of a picture in base64."""


def run_code(shell: Any, code: str, scratch: Dict) -> list[Dict]:
    """Run it; what it assigns is kept in ``scratch``.

    Raises:
        ToolError: it is no Python, or it failed.
    """
    from IPython.utils.capture import capture_output

    try:
        tree = ast.parse(code, FILE)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise mcp.ToolError(f"that is no Python: {error}") from error
    notebook = dict(shell.user_ns)
    namespace = {**notebook, **scratch}
    figures = _figures()
    failure = ""
    values: list[Any] = []
    with capture_output() as caught:
        try:
            values = _run(tree, namespace)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the agent's code: it is told
            failure = _told(error)
        finally:
            drawn = _drawn(figures)
    for name, value in namespace.items():
        if name != "__builtins__" and (name not in notebook or notebook[name] is not value):
            scratch[name] = value
    described = [describe_value(value, "value", NoCells()) for value in values]
    texts = [caught.stdout, caught.stderr, *(found.text for found in described), failure]
    pictures = [(found.mime, found.data) for found in described if found.kind == "image"]
    pictures += [item for output in caught.outputs for item in _pictures_of(output.data)] + drawn
    text = "\n".join(part.rstrip("\n") for part in texts if part)
    if failure:
        raise mcp.ToolError(str(clip(text, VALUE_LIMIT)))
    blocks = [mcp.text(str(clip(text, VALUE_LIMIT)) or "It ran, and put out nothing.")]
    return blocks + [mcp.image(data, mime) for mime, data in pictures[:PICTURES]]


def _run(tree: ast.Module, namespace: Dict) -> list[Any]:
    """Run all of it; the value of its last line, if that has one."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, FILE, "exec"), namespace)  # noqa: S102 - what the user has allowed
        return []
    before = ast.Module(tree.body[:-1], tree.type_ignores)
    exec(compile(before, FILE, "exec"), namespace)  # noqa: S102
    value = eval(compile(ast.Expression(last.value), FILE, "eval"), namespace)  # noqa: S307
    return [] if value is None else [value]


def _told(error: BaseException) -> str:
    """Its traceback, from the agent's code on."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != FILE:
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame, limit=-10)).rstrip()


def _figures() -> set[int]:
    """Numbers of the open figures of matplotlib, if it is loaded."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot is not None else set()


def _drawn(before: set[int]) -> list[tuple[str, str]]:
    """Pictures of the figures that were opened since, which are closed."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    found = []
    for number in sorted(_figures() - before):
        assert pyplot is not None
        described = attempt(describe_value, pyplot.figure(number), "figure", NoCells())
        pyplot.close(number)
        if not isinstance(described, str) and described.kind == "image":
            found.append((described.mime, described.data))
    return found


def _pictures_of(data: Dict) -> list[tuple[str, str]]:
    """The picture in what was displayed."""
    for mime in IMAGES:
        picture = data.get(mime)
        text = base64.b64encode(picture).decode() if isinstance(picture, bytes) else picture
        if isinstance(text, str) and len(text) <= LARGEST:
            return [(mime, text.replace("\n", ""))]
    return []
