"""Confidence beside what it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from tammes.calibration import Bins, RiskCoverage
from tammes.plots.sheets import dress, legend, percent
from tammes.plots.styles import LIGHT, OVERCONFIDENT, UNDERCONFIDENT, Palette, style


def reliability_diagram(
    bins: Bins, ax: Axes, title: str = "", color: str = "#8c959f", palette: Palette = LIGHT
) -> None:
    """Draw accuracy per bin of confidence and, in color, its distance to what was claimed.

    Bars of few images are pale.
    """
    left, width = bins.edges[:-1], np.diff(bins.edges)
    strength = 0.25 + 0.75 * np.minimum(1, bins.count / max(1.0, bins.count.mean()))
    agreed, excess = np.minimum(bins.accuracy, bins.confidence), bins.confidence - bins.accuracy
    ax.bar(left, agreed, width, align="edge", color=[to_rgba(color, s) for s in strength])
    for label, tint, height in (
        ("overconfident", OVERCONFIDENT, np.maximum(excess, 0)),
        ("underconfident", UNDERCONFIDENT, np.maximum(-excess, 0)),
    ):
        shades = [to_rgba(tint, s) for s in strength]
        drawn = ax.bar(left, height, width, agreed, align="edge", color=shades)
        if height.any():
            drawn[int(strength.argmax())].set_label(label)  # the legend shows the full color
    seen = bins.count > 0
    ax.hlines(bins.accuracy[seen], left[seen], (left + width)[seen], palette.ink, linewidth=1.2)
    ax.plot([0, 1], [0, 1], color=palette.pale(0.7), linewidth=1, linestyle=(0, (4, 3)))
    dress(ax, palette, "Confidence", "Accuracy", title)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    percent(ax.xaxis, ax.yaxis)
    legend(ax, palette, loc="best")


def confidence_histogram(
    bins: Bins, ax: Axes, title: str = "", color: str = "#8c959f", palette: Palette = LIGHT
) -> None:
    """Draw how many images claim which confidence, with the mean claim and the accuracy."""
    share = bins.count / max(1, bins.count.sum())
    ax.bar(bins.edges[:-1], share, np.diff(bins.edges), align="edge", color=color)
    for label, mean, line in (
        ("mean confidence", share @ bins.confidence, "-"),
        ("accuracy", share @ bins.accuracy, (0, (2, 1.5))),
    ):
        mark: dict[str, Any] = {"linewidth": 1.4, "linestyle": line, "label": f"{label} {mean:.1%}"}
        ax.axvline(mean, ymax=0.72, color=palette.ink, **mark)
    dress(ax, palette, "Confidence", "Share of images", title)
    ax.set(xlim=(0, 1), ylim=(0, 1.4 * max(share.max(), 0.01)))  # headroom for the legend
    percent(ax.xaxis, ax.yaxis)
    legend(ax, palette, loc="upper left")


def risk_coverage_curve(
    curves: Mapping[str, RiskCoverage], ax: Axes, title: str = "", palette: Palette = LIGHT
) -> None:
    """Draw the error rate that is left when only the most confident images are answered."""
    for name, curve in curves.items():
        kept = np.unique(np.linspace(0, len(curve.risk) - 1, 250).astype(int))  # small files
        coverage, risk = curve.coverage[kept], curve.risk[kept]
        look = style(name)
        ax.plot(coverage, risk, markevery=0.2, **look.curve(name), **look.dot(4.5))
    dress(ax, palette, "Coverage (share answered, most confident first)", "Error rate", title)
    ax.set(xlim=(0, 1), ylim=(0, None))
    percent(ax.xaxis, ax.yaxis)
    legend(ax, palette)
