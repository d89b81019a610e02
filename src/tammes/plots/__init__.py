"""Figures: plain functions that take numbers and draw them on a matplotlib Axes.

Backgrounds are transparent and every method has a fixed color, marker and line. The colors keep
apart under the common color deficiencies and stand out on white and on near black. Axes and letters
are of one ink, which `svg` turns into `currentColor`: one drawing serves both color schemes.
"""

from tammes.plots.calibration import confidence_histogram, reliability_diagram, risk_coverage_curve
from tammes.plots.classes import (
    angle_heatmap,
    cosine_histogram,
    cosine_per_sample,
    crowding_order,
    similarity_histogram,
)
from tammes.plots.comparisons import grouped_bars, radar
from tammes.plots.prompts import class_scatter, prompt_scatter
from tammes.plots.sheets import headline, share_legend, sheet, sheets, svg, write
from tammes.plots.speed import speed_curves
from tammes.plots.styles import DARK, LIGHT, STYLES, Palette, Style, categories, style
from tammes.plots.terms import gradient_curves
from tammes.plots.tradeoffs import (
    accuracy_ece_plane,
    lambda_curve,
    pareto,
    pareto_front,
    pareto_over_weights,
)

__all__ = [
    "DARK",
    "LIGHT",
    "STYLES",
    "Palette",
    "Style",
    "accuracy_ece_plane",
    "angle_heatmap",
    "categories",
    "class_scatter",
    "confidence_histogram",
    "cosine_histogram",
    "cosine_per_sample",
    "crowding_order",
    "gradient_curves",
    "grouped_bars",
    "headline",
    "lambda_curve",
    "pareto",
    "pareto_front",
    "pareto_over_weights",
    "prompt_scatter",
    "radar",
    "reliability_diagram",
    "risk_coverage_curve",
    "share_legend",
    "sheet",
    "sheets",
    "similarity_histogram",
    "speed_curves",
    "style",
    "svg",
    "write",
]
