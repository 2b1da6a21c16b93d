"""Terminal output as a person would see it at the end.

Colours and text styles (SGR) are kept. A carriage return goes back to the start of the line and
what follows overwrites, a backspace goes back one column, and "erase line" (with which progress
bars begin) is obeyed. All other sequences (titles, links, clipboard, cursor) are dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Final

from .characters import SEQUENCE, visible
from .elements import Safe, escape

# JupyterLab's own colours for stream output.
_BASIC: Final = (
    "#3e424d #e75c58 #00a250 #ddb62b #208ffb #d160c4 #60c6c8 #c5c1b4 "
    "#5f6672 #b22b31 #007427 #b27d12 #0065ca #a03196 #258f8f #a1a6b2"
)
BASIC: Final = _BASIC.split()
CUBE: Final = (0, 95, 135, 175, 215, 255)
FLAGS: Final = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
CLEARS: Final = {
    22: ("bold", "faint"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}
CSS: Final = {
    "bold": "font-weight:bold",
    "faint": "opacity:.6",
    "italic": "font-style:italic",
}

GAMMA: Final = 2.2
MIN_CONTRAST: Final = 2.5
DARKEST, LIGHTEST = 0.14, 0.36
"""Luminance of text that stands out from our background, be that light or dark."""

GREY: Final = 48
"""Up to this difference between red, green and blue, the text colour of the theme will do."""

_TOKEN = re.compile(
    r"(?:\x1b\[|\x9b)(?P<sgr>[0-9;:]*)m"
    r"|(?:\x1b\[|\x9b)(?P<erase>[0-2]?)K"
    rf"|(?P<dropped>{SEQUENCE})"
    r"|(?P<move>[\r\n\x08])"
    r"|(?P<text>[^\x1b\x90\x98\x9b\x9d\x9e\x9f\r\n\x08]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Style:
    """How a character looks: CSS colours, or "" for the default, and the names of `FLAGS`."""

    colour: str = ""
    background: str = ""
    flags: frozenset[str] = frozenset()


PLAIN: Final = Style()
BLANK: Final = (" ", PLAIN)


class Line:
    """The line under construction, and the column of the cursor.

    It is runs of text until something is overwritten or erased, and single cells from then on: a
    progress bar that redraws itself ten thousand times must not copy its line as often.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[str, Style]] = []
        self._cells: list[tuple[str, Style]] | None = None
        self._width = 0
        self.column = 0

    def write(self, text: str, style: Style) -> None:
        if self._cells is None and self.column == self._width:
            self._runs.append((text, style))
            self._width += len(text)
            self.column = self._width
            return
        cells = self._in_cells()
        cells += [BLANK] * (self.column - len(cells))
        cells[self.column : self.column + len(text)] = [(char, style) for char in text]
        self.column += len(text)

    def erase(self, mode: str) -> None:
        """From the cursor to the end ("" or "0"), up to the cursor ("1"), or all ("2")."""
        cells = self._in_cells()
        if mode == "2":
            cells.clear()
        elif mode == "1":
            blank = min(self.column, len(cells))
            cells[:blank] = [BLANK] * blank
        else:
            del cells[self.column :]

    def _in_cells(self) -> list[tuple[str, Style]]:
        if self._cells is None:
            self._cells = [(char, style) for text, style in self._runs for char in text]
        return self._cells

    def finished(self) -> list[tuple[str, Style]]:
        """The runs of the line."""
        if self._cells is None:
            return self._runs
        return [
            ("".join(char for char, _ in group), style)
            for style, group in groupby(self._cells, key=lambda cell: cell[1])
        ]


def _runs(text: str) -> Iterator[tuple[str, Style]]:
    """The text as runs of one style each, line ends included."""
    style = PLAIN
    line = Line()
    for token in _TOKEN.finditer(text.replace("\r\n", "\n")):
        kind = token.lastgroup
        if kind == "text":
            line.write(token[0], style)
        elif kind == "sgr":
            style = _sgr(token["sgr"], style)
        elif kind == "erase":
            line.erase(token["erase"])
        elif kind == "move" and token[0] == "\n":
            yield from line.finished()
            yield "\n", PLAIN
            line = Line()
        elif kind == "move":
            line.column = 0 if token[0] == "\r" else max(0, line.column - 1)
    yield from line.finished()


@lru_cache(maxsize=256)
def _sgr(parameters: str, style: Style) -> Style:
    """The style after "select graphic rendition" with these parameters."""
    codes = [int(code) if code and len(code) < 6 else 0 for code in re.split("[;:]", parameters)]
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        if code == 0:
            style = PLAIN
        elif code in FLAGS:
            style = replace(style, flags=style.flags | {FLAGS[code]})
        elif code in CLEARS:
            style = replace(style, flags=style.flags - set(CLEARS[code]))
        elif code in (38, 48):
            colour, at = _extended(codes, at)
            style = _coloured(style, colour, background=code == 48)
        elif code in (39, 49):
            style = _coloured(style, "", background=code == 49)
        elif 30 <= code <= 47 or 90 <= code <= 107:
            bright = 8 if code >= 90 else 0
            style = _coloured(style, BASIC[code % 10 + bright], background=code // 10 in (4, 10))
    return style


def _coloured(style: Style, colour: str, *, background: bool) -> Style:
    return replace(style, background=colour) if background else replace(style, colour=colour)


def _extended(codes: list[int], at: int) -> tuple[str, int]:
    """The colour of ``38;5;n`` or ``38;2;r;g;b``, and where its parameters end."""
    mode = codes[at] if at < len(codes) else 0
    if mode == 5 and at + 1 < len(codes):
        return _indexed(min(codes[at + 1], 255)), at + 2
    if mode == 2 and at + 3 < len(codes):
        red, green, blue = (min(value, 255) for value in codes[at + 1 : at + 4])
        return f"#{red:02x}{green:02x}{blue:02x}", at + 4
    return "", len(codes)


def _indexed(index: int) -> str:
    if index < 16:
        return BASIC[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    cell = index - 16
    red, green, blue = CUBE[cell // 36], CUBE[cell // 6 % 6], CUBE[cell % 6]
    return f"#{red:02x}{green:02x}{blue:02x}"


@lru_cache(maxsize=256)
def _css(style: Style) -> Safe:
    colour, background = style.colour, style.background
    if "inverse" in style.flags:
        plain = not colour and not background
        colour, background = background, colour or "var(--jp-content-font-color1,#333)"
        if plain:
            colour = "var(--jp-layout-color0,#fff)"
    colour = _readable(colour, background)
    rules = [f"color:{colour}"] if colour else []
    rules += [f"background:{background}"] if background else []
    rules += [CSS[flag] for flag in sorted(style.flags) if flag in CSS]
    lines = {"underline": "underline", "strike": "line-through"}
    drawn = [lines[flag] for flag in sorted(style.flags) if flag in lines]
    rules += [f"text-decoration:{' '.join(drawn)}"] if drawn else []
    return Safe(";".join(rules))


# -- colours that can be read on light and on dark pages --------------------------------------


def _readable(colour: str, background: str) -> str:
    """A text colour like the one that was asked for, which can be read where it will stand.

    Programs choose colours for the background of a terminal, and do not know ours.
    """
    if background.startswith("#"):
        below = _luminance(background)
        if colour and _contrast(_luminance(colour), below) >= MIN_CONTRAST:
            return colour
        return max("#000000", "#ffffff", key=lambda c: _contrast(_luminance(c), below))
    if not colour.startswith("#"):
        return colour
    light = _luminance(colour)
    if DARKEST <= light <= LIGHTEST:
        return colour
    channels = _channels(colour)
    if max(channels) - min(channels) < GREY:
        number = 1 if light > LIGHTEST else 2  # dark grey is what programs have for the unimportant
        return f"var(--jp-content-font-color{number},#757575)"
    if light > LIGHTEST:
        factor = (LIGHTEST / light) ** (1 / GAMMA)
        return _hex([channel * factor for channel in channels])
    for tenths in range(1, 10):  # of white, mixed in until it is light enough
        mixed = _hex([channel + (255 - channel) * tenths / 10 for channel in channels])
        if _luminance(mixed) >= DARKEST:
            return mixed
    raise AssertionError("nine tenths of white are light enough")


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _hex(channels: Iterable[float]) -> str:
    return "#" + "".join(f"{round(channel):02x}" for channel in channels)


def _luminance(colour: str) -> float:
    """Relative luminance, from 0 for black to 1 for white."""
    red, green, blue = (math.pow(channel / 255, GAMMA) for channel in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: float, other: float) -> float:
    """Contrast ratio of two luminances, as WCAG 2 defines it."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


# -- output -----------------------------------------------------------------------------------


def to_html(text: str) -> Safe:
    """Terminal output as HTML for the inside of a ``pre``."""
    return _html(_runs(text))


def to_html_split(text: str, last: int) -> tuple[Safe, int, Safe]:
    """The same in two parts: what comes before the ``last`` lines, how many lines that is, and
    the ``last`` lines."""
    runs = list(_runs(text))
    ends = [index for index, (content, _) in enumerate(runs) if content == "\n"]
    early = len(ends) + 1 - last
    if early <= 0:
        return Safe(), 0, _html(runs)
    cut = ends[early - 1]
    return _html(runs[:cut]), early, _html(runs[cut + 1 :])


def _html(runs: Iterable[tuple[str, Style]]) -> Safe:
    parts = []
    for style, group in groupby(runs, key=lambda run: run[1]):
        content = escape("".join(run for run, _ in group))
        css = _css(style)
        parts.append(f'<span style="{css}">{content}</span>' if css else content)
    return Safe("".join(parts))


def strip(text: str) -> str:
    """Terminal output as plain text; control characters that are left are shown."""
    return visible("".join(run for run, _ in _runs(text)))
