"""What is gained in one metric and lost in another, and what the weight of a term does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tammes.calibration import METRICS
from tammes.plots.sheets import dress, format_metric, legend, metric_label
from tammes.plots.styles import FONT, LIGHT, Palette, style
from tammes.statistics import Interval


def accuracy_ece_plane(
    points: Mapping[str, Mapping[str, Interval]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
    x: str = "accuracy",
    y: str = "ece",
) -> None:
    """Draw each method as a point with the intervals of two metrics, as `bootstrap` gives them."""
    for name, metrics in points.items():
        across, up, look = metrics[x], metrics[y], style(name)
        lines: dict[str, Any] = {"color": look.color, "linewidth": 1.2, "alpha": 0.55}
        # An interval corrected for bias may lie beside its value: no error bar, but a line.
        ax.plot([across.low, across.high], [up.value, up.value], **lines)
        ax.plot([across.value, across.value], [up.low, up.high], **lines)
        at = across.value, up.value
        ax.plot(*at, color=look.color, linestyle="none", zorder=3, label=name, **look.dot(8))
    dress(ax, palette, metric_label(x), metric_label(y), title)
    format_metric(ax.xaxis, x)
    format_metric(ax.yaxis, y)
    legend(ax, palette)


def pareto(
    points: Mapping[str, Mapping[str, Interval]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
    x: str = "accuracy",
    y: str = "ece",
) -> None:
    """Draw the plane of two metrics with the frontier: the methods that none beats in both."""
    front = sorted((points[n][x].value, points[n][y].value) for n in pareto_front(points, x, y))
    dashed: dict[str, Any] = {"linewidth": 1, "linestyle": (0, (4, 3)), "zorder": 1}
    ax.plot(*zip(*front, strict=True), color=palette.pale(0.6), label="frontier", **dashed)
    accuracy_ece_plane(points, ax, title, palette, x, y)


def pareto_front(
    points: Mapping[str, Mapping[str, Interval]], x: str = "accuracy", y: str = "ece"
) -> list[str]:
    """Name the methods that no other one beats in one metric without losing in the other."""
    sign = np.array([1 if METRICS[name].better == "high" else -1 for name in (x, y)])
    score = {name: sign * (p[x].value, p[y].value) for name, p in points.items()}
    return [
        name
        for name, own in score.items()
        if not any((other >= own).all() and (other > own).any() for other in score.values())
    ]


def lambda_curve(
    curves: Mapping[str, Mapping[float, Interval]],
    ax: Axes,
    metric: str = "ece",
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw a metric against the weight of a term, with its interval; λ = 0 has its place."""
    tried = sorted({weight for curve in curves.values() for weight in curve})
    for name, curve in curves.items():
        weights = sorted(curve)
        value, low, high = np.array([astuple(curve[w]) for w in weights]).T
        look = style(name)
        ax.fill_between(weights, low, high, color=look.color, alpha=0.15, linewidth=0)
        ax.plot(weights, value, **look.curve(name), **look.dot(5))
    smallest = min((abs(weight) for weight in tried if weight), default=1.0)
    ax.set_xscale("symlog", linthresh=smallest, linscale=0.5)
    dress(ax, palette, "λ", metric_label(metric), title)
    ax.xaxis.set_major_locator(FixedLocator(tried))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda weight, _: f"{weight:g}"))
    ax.tick_params(axis="x", labelrotation=90 if len(tried) > 8 else 0)
    format_metric(ax.yaxis, metric)
    legend(ax, palette)


def pareto_over_weights(
    curves: Mapping[str, Mapping[float, Mapping[str, Interval]]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
    x: str = "accuracy",
    y: str = "ece",
) -> None:
    """Draw where each method goes in the plane of two metrics as λ grows; λ stands at each point.

    The broad frontier joins the points that none of any method and weight beats in both.
    """
    points = {f"{n} {w}": found for n, curve in curves.items() for w, found in curve.items()}
    front = sorted((points[n][x].value, points[n][y].value) for n in pareto_front(points, x, y))
    broad: dict[str, Any] = {"linewidth": 6, "solid_capstyle": "round", "zorder": 1}
    ax.plot(*zip(*front, strict=True), color=palette.pale(0.2), label="frontier", **broad)
    labels: list[tuple[str, float, float, str]] = []
    for name, curve in curves.items():
        look, weights = style(name), sorted(curve)
        across = [curve[w][x].value for w in weights]
        up = [curve[w][y].value for w in weights]
        ax.plot(across, up, **look.curve(name), **look.dot(5), zorder=3)
        written = (f"{weight:g}" for weight in weights)
        labels += zip(written, across, up, [look.color] * len(weights), strict=True)
    dress(ax, palette, metric_label(x), metric_label(y), title)
    ax.margins(0.08)
    _write_apart(labels, ax)
    format_metric(ax.xaxis, x)
    format_metric(ax.yaxis, y)
    legend(ax, palette)


def _write_apart(labels: Sequence[tuple[str, float, float, str]], ax: Axes) -> None:
    """Write each label right above its point, the last ones first, unless one stands there."""
    size: dict[str, Any] = {"textcoords": "offset points", "fontsize": FONT - 2}
    taken: list[np.ndarray] = []
    ax.autoscale_view()
    for text, x, y, color in reversed(labels):
        spot = ax.transData.transform((x, y)) * 72 / ax.figure.dpi
        if all(np.abs((spot - other) / (20, 9)).max() > 1 for other in taken):
            ax.annotate(text, (x, y), (5, 4), color=color, **size)
            taken.append(spot)
