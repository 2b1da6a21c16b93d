"""Values of a notebook as attachments: tables, arrays, pictures, exceptions, code, and any other.

Libraries are known by the names of their classes and never imported. Each text is bounded, and
says what it leaves out. Nothing here changes a value; a figure is drawn, as showing it would do.
"""

from __future__ import annotations

import base64
import inspect
import io
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any, Final

from ..rendering.characters import clip
from ..session.attachments import Attachment
from .foreign import attempt, is_a, type_name
from .history import CellSource, traceback_text
from .tables import TableFormat, describe_table, is_table

__all__ = ["IMAGE_LIMIT", "VALUE_LIMIT", "bounded_repr", "describe_value", "text_attachment"]

VALUE_LIMIT: Final = 20_000
"""Characters of a value's text."""

IMAGE_SIDE: Final = 1568
"""Pixels of a picture's longer side: models scale larger ones down."""

IMAGE_LIMIT: Final = 3_500_000
"""Bytes of a picture: 5 MB in base64 is what model services take."""

ARRAY_SAMPLE: Final = 10_000_000
ARRAY_SHOWN: Final = 40
ITEMS: Final = 1_000
DEPTH: Final = 8

_PNG_MODES: Final = frozenset({"1", "L", "LA", "I;16", "P", "RGB", "RGBA"})


def describe_value(
    value: Any,
    name: str,
    cells: CellSource,
    *,
    limit: int = VALUE_LIMIT,
    tables: TableFormat = "markdown",
) -> Attachment:
    """What an agent gets of a value.

    Args:
        value: anything.
        name: as it is mentioned.
        cells: where the code of an exception is looked up.
        limit: characters of text.
        tables: how data frames are written.
    """
    described = attempt(_describe, value, name, cells, limit, tables)
    if isinstance(described, Attachment):
        return described
    text = f"{name}: {type_name(value)}, which cannot be described: {described}"
    return text_attachment(name, text, note=f"describing it {described.strip('⟨⟩')}")


def text_attachment(
    name: str, text: str, *, mime: str = "text/plain", note: str = "", place: str = "variable"
) -> Attachment:
    """A text of ours; its address is only there to tell it from others."""
    path = "".join(char if char.isalnum() or char in "_-" else "-" for char in name)
    uri = f"notebook:///{place}/{path}"
    encodable = text.encode("utf-8", "replace").decode()
    return Attachment(name, "text", text=encodable, uri=uri, mime=mime, note=note)


def _describe(
    value: Any, name: str, cells: CellSource, limit: int, tables: TableFormat
) -> Attachment:
    if is_table(value):
        text, note = describe_table(value, name, limit, tables)
        mime = "text/markdown" if tables == "markdown" else "text/csv"
        return text_attachment(name, text, mime=mime, note=note)
    if is_a(value, "numpy", "ndarray"):
        return _array(value, name, limit)
    picture = _picture(value)
    if picture is not None:
        return _image(name, picture, value)
    if isinstance(value, BaseException):
        return error_attachment(value, name, cells, limit)
    if isinstance(value, FunctionType | MethodType | type):
        source = _source(value)
        if source:
            return _clipped(name, source, limit, mime="text/x-python")
    if type(value) is str:
        return _clipped(name, value, limit)
    return _other(value, name, limit)


def error_attachment(
    error: BaseException, name: str, cells: CellSource, limit: int = VALUE_LIMIT
) -> Attachment:
    """An exception: its traceback, with the code of the cells in it."""
    return _clipped(name, traceback_text(error, cells), limit)


def _clipped(name: str, text: str, limit: int, mime: str = "text/plain") -> Attachment:
    note = f"{limit:,} of {len(text):,} characters" if len(text) > limit else ""
    return text_attachment(name, str(clip(text, limit)), mime=mime, note=note)


def _source(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""  # made by other means than a definition in a cell or file


def _other(value: Any, name: str, limit: int) -> Attachment:
    text, complete = bounded_repr(value, limit)
    title = f"{name}: {type_name(value)}"
    length = attempt(len, value) if hasattr(type(value), "__len__") else ""
    if type(length) is int:
        title += f" of length {length:,}"
    note = "" if complete else "repr, shortened"
    if text.startswith("⟨raised"):
        note = f"its repr {text.strip('⟨⟩')}"
    return text_attachment(name, f"{title}\n\n{text}", note=note)


# -- text of any value ------------------------------------------------------------------------


class _Repr:
    """A repr that stops when it has enough, so that large containers cost nothing."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.complete = True

    def text(self, value: Any, depth: int = DEPTH) -> str:
        kind = type(value)
        if self.room <= 0 or depth == 0:
            return self._take("…", cut=True)
        if kind in _DICTS:
            pairs = (map(self._deeper(depth), pair) for pair in value.items())
            return self._items("{", map(": ".join, pairs), "}", len(value))
        brackets = _BRACKETS.get(kind)
        if brackets is not None and value:
            before, after = brackets
            after = ",)" if kind is tuple and len(value) == 1 else after
            return self._items(before, map(self._deeper(depth), value), after, len(value))
        if kind in (str, bytes, bytearray) and len(value) > self.room:
            return self._take(f"{value[: self.room]!r}…", cut=True)
        text = attempt(repr, value)
        if len(text) > self.room:
            return self._take(str(clip(text, max(self.room, 100))), cut=True)
        return self._take(text)

    def _deeper(self, depth: int) -> Callable[[Any], str]:
        return lambda value: self.text(value, depth - 1)

    def _take(self, text: str, *, cut: bool = False) -> str:
        self.room -= len(text)
        self.complete = self.complete and not cut
        return text

    def _items(self, before: str, items: Iterable[str], after: str, count: int) -> str:
        shown: list[str] = []
        for item in items:
            shown.append(item)
            self.room -= 2
            if self.room <= 0 or len(shown) == ITEMS:
                break
        left = count - len(shown)
        if left > 0:
            self.complete = False
            shown.append(f"… {left:,} more")
        return f"{before}{', '.join(shown)}{after}"


_DICTS: Final = frozenset({dict, Counter, OrderedDict, defaultdict})
_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    deque: ("deque([", "])"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def bounded_repr(value: Any, limit: int) -> tuple[str, bool]:
    """A repr of about ``limit`` characters at most, and whether it is complete."""
    writer = _Repr(limit)
    text = attempt(writer.text, value)
    return text, writer.complete


def _array(array: Any, name: str, limit: int) -> Attachment:
    size = int(array.size)
    title = f"{name}: {type_name(array)}, shape {array.shape}, dtype {array.dtype}"
    parts = [title]
    step = -(-size // ARRAY_SAMPLE) or 1
    if size and array.dtype.kind in "biuf":
        sample = array.flat[::step]
        statistics = attempt(_statistics, sample)
        every = f" (from every {step}th value)" if step > 1 else ""
        parts.append(f"{statistics}{every}")
    if size <= ITEMS:
        text, complete = bounded_repr(array.tolist(), limit - len(title))
        note = "" if complete else "shape, summary, first values"
        parts.append(text)
    else:
        first, _ = bounded_repr(array.flat[:ARRAY_SHOWN].tolist(), limit - len(title))
        parts.append(f"First {ARRAY_SHOWN} of {size:,} values: {first}")
        note = f"shape, summary, {ARRAY_SHOWN} of {size:,} values"
    return text_attachment(name, "\n".join(parts), note=note)


def _statistics(sample: Any) -> str:
    there = sample[sample == sample] if sample.dtype.kind == "f" else sample
    missing = sample.size - there.size
    facts = [f"{missing:,} NaN"] if missing else []
    if there.size:
        facts += [f"min {there.min()}", f"max {there.max()}", f"mean {there.mean():.6g}"]
    return ", ".join(facts)


# -- pictures ---------------------------------------------------------------------------------


def _picture(value: Any) -> bytes | None:
    """A value that is a picture, as PNG of a bounded size."""
    if is_a(value, "matplotlib", "Axes") and value.figure is not None:
        value = value.figure
    if is_a(value, "matplotlib", "SubFigure"):
        value = value.figure
    if is_a(value, "matplotlib", "Figure"):
        return _drawn(value)
    if is_a(value, "PIL", "Image"):
        return _shrunk(value)
    if hasattr(type(value), "_repr_png_"):
        png = attempt(_own_png, value)
        return png if isinstance(png, bytes) else None
    return None


def _own_png(value: Any) -> bytes | None:
    """What the notebook would show, if that is a PNG picture."""
    png = value._repr_png_()
    png = png[0] if isinstance(png, tuple) else png
    data = base64.b64decode(png) if isinstance(png, str) else png
    usable = isinstance(data, bytes) and data.startswith(b"\x89PNG\r\n\x1a\n")
    return data if usable and len(data) <= IMAGE_LIMIT else None


def _drawn(figure: Any) -> bytes:
    side = max(float(inches) for inches in figure.get_size_inches())
    dpi = min(float(figure.dpi), IMAGE_SIDE / side)

    def png(scale: float) -> bytes:
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=dpi * scale)
        return file.getvalue()

    return _smaller_until_it_fits(png)


def _shrunk(image: Any) -> bytes:
    copy = image.copy()
    if copy.mode not in _PNG_MODES:
        copy = copy.convert("RGB")

    def png(scale: float) -> bytes:
        side = int(IMAGE_SIDE * scale)
        if max(copy.size) > side:
            copy.thumbnail((side, side))
        file = io.BytesIO()
        copy.save(file, format="PNG")
        return file.getvalue()

    return _smaller_until_it_fits(png)


def _smaller_until_it_fits(png: Callable[[float], bytes]) -> bytes:
    scale = 1.0
    while True:
        data = png(scale)
        width, height = _dimensions(data)
        if len(data) <= IMAGE_LIMIT and max(width, height) <= IMAGE_SIDE + 1:
            return data
        scale /= 2


def _dimensions(png: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def _image(name: str, png: bytes, value: Any) -> Attachment:
    width, height = _dimensions(png)
    note = f"{width} x {height} pixels"
    if is_a(value, "PIL", "Image") and value.size != (width, height):
        note += " of {} x {}".format(*value.size)
    return Attachment(
        name, "image", data=base64.b64encode(png).decode(), mime="image/png", note=note
    )
