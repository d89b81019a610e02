"""Figures of speed: how many images a second, against how many classes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tammes.plots.sheets import dress, legend
from tammes.plots.styles import LIGHT, STYLES, Palette


def speed_curves(
    speeds: Mapping[str, Mapping[int, float]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw images per second of several ways to answer, from `{way: {classes: images/s}}`."""
    counts = sorted({count for curve in speeds.values() for count in curve})
    for (name, curve), look in zip(speeds.items(), cycle(STYLES.values()), strict=False):
        points = sorted(curve.items())
        ax.plot(*zip(*points, strict=True), **look.curve(name), **look.dot(5))
    ax.set(xscale="log", yscale="log")
    dress(ax, palette, "Classes", "Images per second", title)
    ax.xaxis.set_major_locator(FixedLocator(counts))
    ax.xaxis.set_minor_locator(NullLocator())
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
    legend(ax, palette)
