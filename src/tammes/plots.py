"""Figures: plain functions that take numbers and draw them on a matplotlib Axes.

Backgrounds are transparent and every method has a fixed color, marker and line. The colors keep
apart under the common color deficiencies and stand out on white and on near black. Axes and letters
are of one ink, which `svg` turns into `currentColor`: one drawing serves both color schemes.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from tammes.calibration import METRICS, Bins, RiskCoverage
from tammes.statistics import Interval

FONT = 9.0
OVERCONFIDENT, UNDERCONFIDENT = "#b95211", "#548fff"


@dataclass(frozen=True)
class Palette:
    """The ink of axes and letters; `ink` is opaque, grids and hints are paler shades of it."""

    ink: str = "#1f2429"

    def pale(self, strength: float = 0.18) -> tuple[float, float, float, float]:
        """Dilute the ink."""
        return to_rgba(self.ink, strength)


LIGHT, DARK = Palette(), Palette("#e8ebee")


@dataclass(frozen=True)
class Style:
    """How one method is drawn in every figure."""

    color: str
    marker: str
    line: str = "-"
    size: float = 1.0  # markers of equal extent do not look equally large

    def curve(self, name: str) -> dict[str, Any]:
        """Say it in matplotlib's words for a line."""
        return {"color": self.color, "linestyle": self.line, "linewidth": 1.4, "label": name}

    def dot(self, extent: float) -> dict[str, Any]:
        """Say it in matplotlib's words for markers."""
        return {"marker": self.marker, "markersize": extent * self.size}


STYLES: Mapping[str, Style] = {
    "zero-shot": Style("#6d6d6d", "o"),
    "tpt": Style("#d58600", "s"),
    "c-tpt": Style("#548fff", "^"),
    "o-tpt": Style("#00ad6f", "D"),
    "a-tpt": Style("#b95211", "*", size=1.5),
    "c-tpt+a-tpt": Style("#be64a8", "P"),
    "a-tpt-released": Style("#5155ed", "X", "-."),
    "static-a-tpt": Style("#896338", "v", "--"),
}
SPARE = [
    Style(color, marker)
    for marker in "<>ph8"
    for color in ("#0f9fb0", "#8f6be8", "#d0517a", "#7a9a1f", "#c26a2d", "#4f7fa8")
]


def style(name: str) -> Style:
    """Look up how a method is drawn; an unknown name always gets the same spare style."""
    return STYLES.get(name) or SPARE[zlib.crc32(name.encode()) % len(SPARE)]


# --- sheets -------------------------------------------------------------------------------------


def sheet(width: float = 5.0, height: float = 3.6) -> tuple[Figure, Axes]:
    """Open a transparent figure with one Axes, sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
    return figure, figure.add_subplot(facecolor="none")


def write(figure: Figure, path: str | Path) -> None:
    """Write a figure as its suffix says (svg, pdf, png), letters as letters."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tammes", "pdf.fonttype": 42}):
        dates = {
            ".svg": {"Date": None},
            ".pdf": {"CreationDate": None},
        }  # equal figures, equal files
        figure.savefig(path, dpi=160, metadata=dates.get(Path(path).suffix))


def svg(figure: Figure, palette: Palette = LIGHT) -> str:
    """Render for embedding in a page: the ink follows the color of the text around it."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tammes"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(palette.ink, "currentColor")


def _dress(ax: Axes, palette: Palette, x: str = "", y: str = "", title: str = "") -> None:
    """Give all axes the same sober look."""
    ax.set_xlabel(x, color=palette.ink, fontsize=FONT)
    ax.set_ylabel(y, color=palette.ink, fontsize=FONT)
    ax.set_title(title, color=palette.ink, fontsize=FONT + 1, loc="left")
    ax.tick_params(colors=palette.ink, labelsize=FONT - 1, length=3)
    ax.grid(color=palette.pale(), linewidth=0.6)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(palette.pale(0.6))


def _legend(ax: Axes, palette: Palette, loc: str | None = None) -> None:
    """Name what is drawn: beside the axes, where many methods cover no data, or at `loc` inside."""
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    place: dict[str, Any] = {"loc": loc} if loc else beside
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=FONT - 1, labelcolor=palette.ink, **place)


def _percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g}%"))


# --- calibration --------------------------------------------------------------------------------


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
    _dress(ax, palette, "Confidence", "Accuracy", title)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _percent(ax.xaxis, ax.yaxis)
    _legend(ax, palette, loc="best")


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
    _dress(ax, palette, "Confidence", "Share of images", title)
    ax.set(xlim=(0, 1), ylim=(0, 1.4 * max(share.max(), 0.01)))  # headroom for the legend
    _percent(ax.xaxis, ax.yaxis)
    _legend(ax, palette, loc="upper left")


def risk_coverage_curve(
    curves: Mapping[str, RiskCoverage], ax: Axes, title: str = "", palette: Palette = LIGHT
) -> None:
    """Draw the error rate that is left when only the most confident images are answered."""
    for name, curve in curves.items():
        kept = np.unique(np.linspace(0, len(curve.risk) - 1, 250).astype(int))  # small files
        coverage, risk = curve.coverage[kept], curve.risk[kept]
        look = style(name)
        ax.plot(coverage, risk, markevery=0.2, **look.curve(name), **look.dot(4.5))
    _dress(ax, palette, "Coverage (share answered, most confident first)", "Error rate", title)
    ax.set(xlim=(0, 1), ylim=(0, None))
    _percent(ax.xaxis, ax.yaxis)
    _legend(ax, palette)


# --- trade-offs ---------------------------------------------------------------------------------


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
    _dress(ax, palette, _label(x), _label(y), title)
    _format(ax.xaxis, x)
    _format(ax.yaxis, y)
    _legend(ax, palette)


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
    _dress(ax, palette, "λ", _label(metric), title)
    ax.xaxis.set_major_locator(FixedLocator(tried))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda weight, _: f"{weight:g}"))
    _format(ax.yaxis, metric)
    _legend(ax, palette)


def _label(metric: str) -> str:
    arrow = {"high": " (higher is better)", "low": " (lower is better)", None: ""}
    return METRICS[metric].title + arrow[METRICS[metric].better]


def _format(axis: Axis, metric: str) -> None:
    if METRICS[metric].spec.endswith("%"):
        _percent(axis)


# --- class features -----------------------------------------------------------------------------


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
    _dress(ax, palette, title=title)
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
    _dress(ax, palette, "Cosine between two classes", "Share of pairs", title)
    ax.set_ylim(0, None)
    _percent(ax.yaxis)
    _legend(ax, palette)
