"""Methods side by side over many datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from tammes.calibration import METRICS
from tammes.plots.sheets import dress, format_metric, legend, metric_label
from tammes.plots.styles import FONT, LIGHT, Palette, style
from tammes.statistics import Interval


def radar(
    values: Mapping[str, Mapping[str, float]],
    ax: Axes,
    metric: str = "ece",
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw a metric of each method on one spoke per dataset, on a sheet of `projection="polar"`.

    Every spoke has its own scale, from 0 to the largest value, which is written at its end. A line
    is broken where a method has no value.
    """
    names = _columns(values)
    grid = np.array([[row.get(name, np.nan) for name in names] for row in values.values()])
    ends = np.nanmax(grid, axis=0, initial=0.0)
    turn = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    for method, row in zip(values, grid / np.where(ends > 0, ends, 1.0), strict=True):
        look, around = style(method), np.append(turn, turn[:1])
        ax.plot(around, np.append(row, row[:1]), **look.curve(method), **look.dot(4.5), zorder=3)
    dress(ax, palette, title=title)
    spec = METRICS[metric].spec.replace(".2", ".1")
    _web(
        turn, [f"{name}\n{end:{spec}}" for name, end in zip(names, ends, strict=True)], ax, palette
    )
    legend(ax, palette)


def _web(turn: Float[np.ndarray, " k"], said: list[str], ax: Axes, palette: Palette) -> None:
    """Draw rings and spokes, and name the spokes inside the axes, where no layout clips them."""
    ax.set(theta_zero_location="N", theta_direction=-1, ylim=(0, 1.55), xticks=[], yticks=[])
    circle = np.linspace(0, 2 * np.pi, 181)
    thin: dict[str, Any] = {"color": palette.pale(), "linewidth": 0.6, "zorder": 0}
    for radius in (0.25, 0.5, 0.75, 1.0):
        ax.plot(circle, np.full_like(circle, radius), **thin)
    for angle, name in zip(turn, said, strict=True):
        ax.plot([angle, angle], [0, 1], **thin)
        side, far = _side(np.sin(angle)), 1.1 + 0.08 * abs(np.cos(angle))  # two lines of letters
        ax.text(angle, far, name, ha=side, va="center", color=palette.ink, fontsize=FONT - 1)


def _side(across: float) -> Literal["left", "center", "right"]:
    return "center" if abs(across) < 0.1 else "left" if across > 0 else "right"


def grouped_bars(
    values: Mapping[str, Mapping[str, Interval]],
    ax: Axes,
    metric: str = "ece",
    title: str = "",
    published: Mapping[str, Mapping[str, float]] | None = None,
    palette: Palette = LIGHT,
) -> None:
    """Draw a bar with its interval per method and dataset; a diamond is the published value."""
    names, width = _columns(values), 0.84 / max(1, len(values))
    printed: dict[float, float] = {}
    for place, (method, row) in enumerate(values.items()):
        at = {n: i + width * (place + 0.5) - 0.42 for i, n in enumerate(names)}
        middle = [at[name] for name in row]
        look: dict[str, Any] = {"color": style(method).color, "label": method}
        ax.bar(middle, [found.value for found in row.values()], 0.88 * width, **look)
        low, high = [found.low for found in row.values()], [found.high for found in row.values()]
        ax.vlines(middle, low, high, color=palette.ink, linewidth=0.9)
        known = (published or {}).get(method, {})
        printed |= {at[name]: value for name, value in known.items() if name in at}
    if printed:
        mark: dict[str, Any] = {"marker": "d", "s": 16, "facecolors": "none", "zorder": 4}
        spots = list(printed), list(printed.values())
        ax.scatter(*spots, edgecolors=palette.ink, label="published", **mark)
    dress(ax, palette, "", metric_label(metric), title)
    ax.grid(visible=False, axis="x")
    _name_groups(ax, names)
    ax.set_ylim(0, None)
    format_metric(ax.yaxis, metric)
    legend(ax, palette)


def _name_groups(ax: Axes, names: list[str]) -> None:
    """Write the names below their groups, aslant where they would meet."""
    tilt: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), names, **(tilt if len(names) > 6 else {}))
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(names) - 0.4)


def _columns(values: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Name the datasets in the order of their first appearance."""
    return list(dict.fromkeys(name for row in values.values() for name in row))
