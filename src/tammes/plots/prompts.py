"""What the words of a prompt do: one color per prompt, or per group of prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from tammes.plots.sheets import dress, format_metric, legend, metric_label
from tammes.plots.styles import LIGHT, Palette, categories


def class_scatter(
    points: Mapping[str, Float[np.ndarray, "n 2"]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw class features, embedded in the plane, one color and marker per prompt.

    An embedding keeps who is near whom and nothing else: there are no units on its axes.
    """
    for name, look in categories(points).items():
        dots: dict[str, Any] = {"s": 15 * look.size**2, "alpha": 0.75, "linewidths": 0}
        ax.scatter(*points[name].T, color=look.color, marker=look.marker, label=name, **dots)
    dress(ax, palette, title=title)
    ax.set(xticks=[], yticks=[])
    ax.set_aspect("equal", "datalim")
    for spine in ax.spines.values():
        spine.set_visible(False)
    legend(ax, palette)


def prompt_scatter(
    groups: Mapping[str, Float[np.ndarray, "k 2"]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
    x: str = "angle",
    y: str = "ece",
) -> None:
    """Draw two metrics of each prompt, one color per group, with the group's straight trend."""
    for name, look in categories(groups).items():
        across, up = groups[name].T
        dots: dict[str, Any] = {"linestyle": "none", "alpha": 0.85, "markeredgewidth": 0}
        ax.plot(across, up, color=look.color, label=name, **dots, **look.dot(5.5))
        if len(np.unique(across)) > 2:
            ends = np.array([across.min(), across.max()])
            fit = np.polynomial.Polynomial.fit(across, up, 1)
            ax.plot(ends, fit(ends), color=look.color, linewidth=1.2, alpha=0.7)
    dress(ax, palette, metric_label(x), metric_label(y), title)
    format_metric(ax.xaxis, x)
    format_metric(ax.yaxis, y)
    legend(ax, palette)
