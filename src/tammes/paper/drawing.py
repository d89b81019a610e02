"""The numbers of a picture -> panels, and one headline over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tammes.calibration import METRICS
from tammes.datasets import CATALOG
from tammes.paper.gathering import SHOWN, Picture
from tammes.plots import (
    accuracy_ece_plane,
    class_scatter,
    confidence_histogram,
    cosine_histogram,
    cosine_per_sample,
    gradient_curves,
    grouped_bars,
    headline,
    lambda_curve,
    pareto_over_weights,
    prompt_scatter,
    radar,
    reliability_diagram,
    share_legend,
    sheet,
    sheets,
)
from tammes.statistics import Interval

WIDEST = 15.0  # inches


def draw_radars(picture: Picture, title: str) -> Figure:
    """Draw a radar of each metric."""
    figure, axes = sheets(len(SHOWN), 10.0, 5.4, subplot_kw={"projection": "polar"})
    for metric, ax in zip(SHOWN, axes, strict=True):
        table: Mapping[str, Mapping[str, Interval]] = picture.values["measured"][metric]
        values = {m: {n: found.value for n, found in row.items()} for m, row in table.items()}
        radar(values, ax, metric, METRICS[metric].title)
    return _finished(figure, title)


def draw_bars(picture: Picture, title: str) -> Figure:
    """Draw bars of each metric, with the published values."""
    table = picture.values["measured"]
    bars = sum(map(len, table[SHOWN[0]].values()))
    figure, axes = sheets(len(SHOWN), min(WIDEST, 3.0 + 0.16 * bars), 6.0, columns=1)
    for metric, ax in zip(SHOWN, axes, strict=True):
        grouped_bars(table[metric], ax, metric, published=picture.values["published"][metric])
    return _finished(figure, f"{title} · published: {picture.values['published of']}")


def draw_reliability(picture: Picture, title: str) -> Figure:
    """Draw a reliability diagram per method."""
    figure, axes = _grid(len(picture.values))
    for (method, found), ax in zip(picture.values.items(), axes, strict=True):
        reliability_diagram(found, ax, method)
        ax.label_outer()
    return _finished(figure, title)


def draw_confidence(picture: Picture, title: str) -> Figure:
    """Draw a histogram of confidence per method, all of one height."""
    figure, axes = _grid(len(picture.values))
    highest = max(found.count.max() / found.count.sum() for found in picture.values.values())
    for (method, found), ax in zip(picture.values.items(), axes, strict=True):
        confidence_histogram(found, ax, method)
        ax.set_ylim(0, 1.4 * highest)
        ax.label_outer()
    headline(figure, title)
    return figure


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """Open a sheet for so many small panels, at most four in a row."""
    columns = min(4, count)
    rows = -(-count // columns)
    return sheets(count, max(3.4, 2.6 * columns), 0.7 + 2.5 * rows, columns)


def draw_cosines(picture: Picture, title: str) -> Figure:
    """Draw the cosine per image beside its distribution."""
    figure, axes = sheets(2, 9.0, 3.9, sharey=True, width_ratios=[3, 2])
    cosine_per_sample(picture.values, axes[0])
    cosine_histogram(picture.values, axes[1])
    axes[1].label_outer()
    classes, dim = CATALOG[picture.dataset].classes, picture.subject.dim
    sign = "<" if classes < (dim or np.inf) else "≥"
    return _finished(figure, f"{title} · N = {classes} {sign} D = {dim}")


def draw_classes(picture: Picture, title: str) -> Figure:
    """Draw class features in the plane."""
    figure, ax = sheet(6.4, 5.4)
    class_scatter(picture.values, ax)
    return _finished(figure, title)


def draw_gradients(picture: Picture, title: str) -> Figure:
    """Draw the gradient norms of the terms."""
    figure, ax = sheet(6.4, 4.0)
    gradient_curves(picture.values["angles"], picture.values["norms"], ax)
    headline(figure, title)
    return figure


def draw_tradeoff(picture: Picture, title: str) -> Figure:
    """Draw the plane of accuracy and ECE with its frontier, and either against λ."""
    figure, axes = sheets(3, 13.0, 4.0, width_ratios=[1.2, 1, 1])
    curves = picture.values["curves"]
    accuracy_ece_plane(_bare(picture.values["points"]), axes[0])
    pareto_over_weights(curves, axes[0])
    swept = {method: curve for method, curve in curves.items() if len(curve) > 1}
    for metric, ax in zip(reversed(SHOWN), axes[1:], strict=True):
        by_weight = {m: {w: v[metric] for w, v in curve.items()} for m, curve in swept.items()}
        lambda_curve(by_weight, ax, metric)
    return _finished(figure, title)


def _bare(points: Mapping[str, Mapping[str, Interval]]) -> dict[str, dict[str, Interval]]:
    """Leave out intervals, which would hide how near weights are to each other."""
    return {
        name: {metric: Interval(*(found.value,) * 3) for metric, found in metrics.items()}
        for name, metrics in points.items()
    }


def draw_prompts(picture: Picture, title: str) -> Figure:
    """Draw angle and ECE of prompts, by group."""
    figure, ax = sheet(6.4, 4.0)
    groups = {
        name: np.array([(point.angle, point.ece) for point in points])
        for name, points in picture.values.items()
    }
    prompt_scatter(groups, ax)
    headline(figure, title)
    return figure


def _finished(figure: Figure, title: str) -> Figure:
    headline(figure, title)
    share_legend(figure)
    return figure
