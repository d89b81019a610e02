"""Where the class features lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from tammes.plots.sheets import dress, legend, percent
from tammes.plots.styles import FONT, LIGHT, Palette, style


def angle_heatmap(
    angles: Float[np.ndarray, "n n"],
    classnames: Sequence[str],
    ax: Axes,
    title: str = "",
    limits: tuple[float, float] | None = None,
    palette: Palette = LIGHT,
) -> None:
    """Draw the angles (radians) between classes; give two maps the same `limits` to compare them.

    Names are written as long as they stay legible at the size of the axes.
    """
    degrees = np.degrees(np.where(np.eye(len(angles), dtype=bool), np.nan, angles))
    low, high = np.degrees(limits) if limits else (np.nanmin(degrees), np.nanmax(degrees))
    image = ax.imshow(degrees, cmap="viridis_r", vmin=low, vmax=high, interpolation="nearest")
    dress(ax, palette, title=title)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    figure = ax.figure
    if size := _legible(72 * ax.get_window_extent().height / figure.dpi / len(classnames)):
        ax.set_xticks(range(len(classnames)), classnames, rotation=90, fontsize=size)
        ax.set_yticks(range(len(classnames)), classnames, fontsize=size)
        ax.tick_params(length=0)
    else:
        ax.set(xticks=[], yticks=[], xlabel=f"{len(classnames)} classes")
    bar = figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.set_facecolor("none")
    bar.ax.tick_params(colors=palette.ink, labelsize=FONT - 1, length=3)
    bar.set_label("Angle (degrees)", color=palette.ink, fontsize=FONT)


def _legible(points: float) -> float | None:
    """Letter size for rows of so many points, if it can be read at all."""
    return None if points < 4 else min(FONT - 1, 0.8 * points)


def crowding_order(angles: Float[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """Order classes so that those close on the sphere are neighbors in a heat map."""
    if len(angles) < 3:
        return np.arange(len(angles))
    distance = squareform((angles + angles.T) / 2 * (1 - np.eye(len(angles))), checks=False)
    return leaves_list(linkage(distance, "average", optimal_ordering=True)).astype(np.int64)


def similarity_histogram(
    cosines: Mapping[str, Float[np.ndarray, "n n"]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw how the cosines between different classes are distributed, per method."""
    pairs = {name: c[np.triu_indices(len(c), k=1)] for name, c in cosines.items()}
    everything = np.concatenate(list(pairs.values()))
    edges = np.linspace(everything.min(), everything.max() + 1e-9, 41)
    for name, values in pairs.items():
        share = np.histogram(values, edges)[0] / len(values)
        ax.stairs(share, edges, **style(name).curve(name))
    dress(ax, palette, "Cosine between two classes", "Share of pairs", title)
    ax.set_ylim(0, None)
    percent(ax.yaxis)
    legend(ax, palette)


def cosine_per_sample(
    cosines: Mapping[str, Float[np.ndarray, " n"]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw the mean cosine between classes after tuning on each image, in the order given.

    Dots are images (at most 1,000 of them, evenly spaced), lines the means over all.
    """
    for name, values in cosines.items():
        look, shown = style(name), np.unique(np.linspace(0, len(values) - 1, 1000).astype(int))
        dots: dict[str, Any] = {"linestyle": "none", "alpha": 0.5, "markeredgewidth": 0}
        ax.plot(shown, values[shown], color=look.color, **dots, **look.dot(2.2))
        ax.axhline(values.mean(), **look.curve(name))
    dress(ax, palette, "Image", "Mean cosine between classes", title)
    ax.set_xlim(0, max(1, *(len(values) - 1 for values in cosines.values())))
    legend(ax, palette)


def cosine_histogram(
    cosines: Mapping[str, Float[np.ndarray, " n"]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw how the images' mean cosines are distributed, sideways: to stand beside the samples.

    A method that answers alike for every image is a line across.
    """
    everything = np.concatenate(list(cosines.values()))
    edges = np.linspace(everything.min() - 1e-6, everything.max() + 1e-6, 61)
    for name, values in cosines.items():
        share = np.histogram(values, edges)[0] / len(values)
        if share.max() == 1:
            ax.axhline(values.mean(), **style(name).curve(name))
        else:
            ax.stairs(share, edges, orientation="horizontal", **style(name).curve(name))
    dress(ax, palette, "Share of images", "Mean cosine between classes", title)
    ax.set_xlim(0, None)
    percent(ax.xaxis)
    legend(ax, palette)
