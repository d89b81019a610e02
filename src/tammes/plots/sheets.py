"""What a figure is drawn on, and how its axes and legends are dressed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tammes.calibration import METRICS
from tammes.plots.styles import FONT, LIGHT, Palette


def sheet(
    width: float = 5.0, height: float = 3.6, projection: str | None = None
) -> tuple[Figure, Axes]:
    """Open a transparent figure with one Axes, sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
    return figure, figure.add_subplot(facecolor="none", projection=projection)


def sheets(
    count: int, width: float = 5.0, height: float = 3.6, columns: int | None = None, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Open a transparent figure with some Axes in rows of `columns`, by default in one row.

    `options` are those of `subplots`.
    """
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
    wide = min(count, columns or count)
    every = figure.subplots(-(-count // wide), wide, squeeze=False, **options).ravel()
    for ax in every:
        ax.set_facecolor("none")
    for ax in every[count:]:
        ax.remove()
    return figure, list(every[:count])


def share_legend(figure: Figure, palette: Palette = LIGHT) -> None:
    """Put one legend below all Axes in place of their own: each name stands there once."""
    named: dict[str, Any] = {}
    for ax in figure.axes:
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
        if own := ax.get_legend():
            own.remove()
    if named:
        inches = 0.45 + 0.065 * max(map(len, named))  # of the longest name with its mark
        rows = -(-len(named) // max(1, int(figure.get_figwidth() / inches)))
        columns = -(-len(named) // rows)  # rows of about one length
        look: dict[str, Any] = {"frameon": False, "fontsize": FONT - 1, "labelcolor": palette.ink}
        place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
        figure.legend(named.values(), named.keys(), **place, **look)


def headline(figure: Figure, text: str, palette: Palette = LIGHT) -> None:
    """Write a title over all Axes."""
    figure.suptitle(text, x=0.01, ha="left", color=palette.ink, fontsize=FONT + 1)


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


def dress(ax: Axes, palette: Palette, x: str = "", y: str = "", title: str = "") -> None:
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


def legend(
    ax: Axes,
    palette: Palette,
    loc: str | None = None,
    anchor: tuple[float, float] = (1.01, 1.0),
) -> None:
    """Name what is drawn: beside the axes, where many methods cover no data, or at `loc` inside."""
    beside = {"loc": "upper left", "bbox_to_anchor": anchor, "borderaxespad": 0.0}
    place: dict[str, Any] = {"loc": loc} if loc else beside
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=FONT - 1, labelcolor=palette.ink, **place)


def percent(*axes: Axis) -> None:
    """Write shares as percentages."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g}%"))


def metric_label(metric: str) -> str:
    """Name a metric, and which direction is good."""
    arrow = {"high": " (higher is better)", "low": " (lower is better)", None: ""}
    return METRICS[metric].title + arrow[METRICS[metric].better]


def format_metric(axis: Axis, metric: str) -> None:
    """Write an axis as the tables write the metric."""
    if METRICS[metric].spec.endswith("%"):
        percent(axis)
