"""Plots of a comparison, by matplotlib, without touching the notebook's own settings of it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ..errors import UsageError
from ..rendering.characters import one_line
from .groups import Compared, Measure

WIDTH = 6.4
PANEL = 0.8
"""Inches: of the picture, and of a panel's height for what is around its groups."""

NAME = 40
"""Characters of a group's name beside its values."""


def is_there() -> bool:
    """Whether matplotlib is installed, without loading it."""
    return find_spec("matplotlib") is not None


def draw(data: Compared, measures: Sequence[Measure]) -> bytes:
    """A PNG with one panel for each measure: a point for each value, the median and its interval.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "matplotlib is not installed", remedy="pip install 'acp-jupyter[experiments]'"
        ) from error
    height = max(1, len(measures)) * (PANEL + 0.3 * len(data.groups))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(max(1, len(measures)), 1, squeeze=False)
    if not measures:
        panels[0][0].set_axis_off()
    for (panel,), measure in zip(panels, measures, strict=False):
        _panel(panel, data, measure)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100, metadata={"Software": None})
    return file.getvalue()


def _panel(panel: Any, data: Compared, measure: Measure) -> None:
    for place, group in enumerate(data.groups):
        values = group.values.get(measure.column, [])
        panel.plot(values, [place] * len(values), "o", color="0.6", markersize=4)
        found = group.summaries.get(measure.column)
        if found is not None:
            panel.plot([found.median], [place], "|", color="C0", markersize=14, markeredgewidth=2)
        if found is not None and found.low is not None and found.high is not None:
            panel.plot([found.low, found.high], [place, place], "-", color="C0", linewidth=2)
    # A dollar would begin mathematics, which an agent's name must not.
    names = [one_line(group.name, NAME).replace("$", r"\$") for group in data.groups]
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_title(measure.title, loc="left", fontsize="medium")
    panel.spines[["top", "right"]].set_visible(False)
