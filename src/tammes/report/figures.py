"""Which figures a case has. `tammes.plots` draws them; here they get their data and their place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tammes.calibration import Bins, RiskCoverage, bins, risk_coverage
from tammes.errors import StoreError
from tammes.plots import (
    LIGHT,
    Palette,
    accuracy_ece_plane,
    angle_heatmap,
    confidence_histogram,
    reliability_diagram,
    risk_coverage_curve,
    sheet,
    svg,
    write,
)
from tammes.report.crowding import Crowding
from tammes.report.results import Case
from tammes.report.summary import Comparison, Row
from tammes.statistics import Interval
from tammes.storage import slug

PLANE = (
    "Lines are 95 % bootstrap intervals; to the right and down is better. Noise adds to an ECE: "
    "its interval takes that off and may lie below the point."
)
RISK = (
    "Answer only the images of highest confidence: how many answers are wrong then? A lower curve "
    "means that confidence ranks the images better."
)
SUFFIXES = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Drawing:
    """A figure to be: its file name, what it shows, how to read it, and how to draw it.

    `text` holds its numbers, for those who cannot see it.
    """

    name: str
    title: str
    caption: str
    text: str
    draw: Callable[[Palette], Figure]
    method: str = ""

    def inline(self) -> str:
        """Draw for a page: SVG without legends, which the page writes itself."""
        with _any_letters():
            figure = self.draw(LIGHT)
            for ax in figure.axes:
                if legend := ax.get_legend():
                    legend.remove()
            return svg(figure)

    def write(self, folder: Path) -> list[Path]:
        """Draw into files of each format."""
        paths = [folder / f"{slug(self.name)}.{suffix}" for suffix in SUFFIXES]
        with _any_letters():
            figure = self.draw(LIGHT)
            for path in paths:
                try:
                    write(figure, path)
                except OSError as problem:
                    raise StoreError(f"cannot write {path}: {problem.strerror}") from problem
        return paths


@contextmanager
def _any_letters() -> Iterator[None]:
    """Draw names in scripts that matplotlib's font lacks; a page has its reader's own fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", r"Matplotlib currently does not support", UserWarning)
        yield


def literal(name: str) -> str:
    """Keep a name from being read as a formula, and what no letter stands for out of a file."""
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )
    return shown.replace("$", r"\$")


# --- calibration --------------------------------------------------------------------------------


def calibration_drawings(case: Case, comparison: Comparison) -> list[Drawing]:
    """Draw each method's reliability diagram over its histogram, all on the same axes."""
    binned = {r.method: bins(r.outcomes.confidence, r.outcomes.correct) for r in case.results}
    ceiling = max(float(b.count.max() / max(1, b.count.sum())) for b in binned.values())
    said = {row.method: _in_words(row) for row in comparison.rows}
    return [
        Drawing(
            f"reliability-{method}",
            f"Reliability of {method}",
            said[method],
            said[method],
            partial(_calibration, found, ceiling),
            method,
        )
        for method, found in binned.items()
    ]


def _calibration(found: Bins, ceiling: float, palette: Palette) -> Figure:
    figure = Figure(figsize=(2.8, 3.7), layout="constrained", facecolor="none")
    above, below = figure.subplots(2, 1, height_ratios=[2.3, 1], sharex=True)
    for ax in (above, below):
        ax.set_facecolor("none")
    reliability_diagram(found, above, palette=palette)
    confidence_histogram(found, below, palette=palette)
    above.set_xlabel("")
    below.set_ylim(0, 1.4 * ceiling)
    below.yaxis.label.set_text("Images")
    return figure


def _in_words(row: Row) -> str:
    confidence, accuracy, ece = (
        f"{row.metrics[name].value:.1%}" for name in ("mean_confidence", "accuracy", "ece")
    )
    return f"mean confidence {confidence}, accuracy {accuracy}, ECE {ece}"


# --- all methods in one -------------------------------------------------------------------------


def overview_drawings(case: Case, comparison: Comparison) -> list[Drawing]:
    """Draw what is gained and lost, and what answering less often would gain."""
    points = {literal(row.method): row.metrics for row in comparison.rows}
    curves = {literal(r.method): risk_coverage(r.outcomes) for r in case.results}
    said = "; ".join(f"{row.method}: {_in_words(row)}" for row in comparison.rows)
    areas = "; ".join(f"{r.method}: AURC {r.metrics['aurc'].value:.1%}" for r in comparison.rows)
    plane, risk = partial(_plane, points), partial(_risk, curves)
    return [
        Drawing("accuracy-ece", "Accuracy against ECE", PLANE, said, plane),
        Drawing("risk-coverage", "Error rate against coverage", RISK, areas, risk),
    ]


def _plane(points: Mapping[str, Mapping[str, Interval]], palette: Palette) -> Figure:
    figure, ax = sheet(4.6, 3.4)
    accuracy_ece_plane(points, ax, palette=palette)
    return figure


def _risk(curves: Mapping[str, RiskCoverage], palette: Palette) -> Figure:
    figure, ax = sheet(4.6, 3.4)
    risk_coverage_curve(curves, ax, palette=palette)
    return figure


# --- class features -----------------------------------------------------------------------------


def crowding_drawings(found: Crowding) -> list[Drawing]:
    """Draw the angles of the most crowded classes at the start and after one method."""
    order = found.order
    names = [_short(found.classnames[i]) for i in order]
    maps = {"at the start": found.start}
    if found.shown is not None:
        maps[f"after {found.shown}"] = found.tuned[found.shown]
    maps = {when: angles[np.ix_(order, order)] for when, angles in maps.items()}
    apart = np.concatenate([m[np.triu_indices(len(m), k=1)] for m in maps.values()])
    limits = (float(apart.min()), float(apart.max()))
    return [_map(when, m, partial(_heatmap, m, names, limits)) for when, m in maps.items()]


def _map(when: str, angles: np.ndarray, draw: Callable[[Palette], Figure]) -> Drawing:
    least = np.degrees(angles[np.triu_indices(len(angles), k=1)].min())
    text = f"The closest two are {least:.1f}° apart."
    return Drawing(f"angles-{when}", f"Angles between classes {when}", text, text, draw)


def _heatmap(
    angles: np.ndarray, names: list[str], limits: tuple[float, float], palette: Palette
) -> Figure:
    figure, ax = sheet(4.6, 4.0)
    angle_heatmap(angles, names, ax, limits=limits, palette=palette)
    return figure


def _short(name: str, letters: int = 22) -> str:
    return literal(name if len(name) <= letters else f"{name[: letters - 1]}…")
