"""Figures: plain functions that take numbers and draw them on a matplotlib Axes.

Backgrounds are transparent and every method has a fixed color, marker and line. The colors keep
apart under the common color deficiencies and stand out on white and on near black. Axes and letters
are of one ink, which `svg` turns into `currentColor`: one drawing serves both color schemes.
"""

from tammes.plots.calibration import confidence_histogram, reliability_diagram, risk_coverage_curve
from tammes.plots.classes import angle_heatmap, crowding_order, similarity_histogram
from tammes.plots.sheets import sheet, svg, write
from tammes.plots.styles import DARK, LIGHT, STYLES, Palette, Style, style
from tammes.plots.tradeoffs import accuracy_ece_plane, lambda_curve, pareto, pareto_front

__all__ = [
    "DARK",
    "LIGHT",
    "STYLES",
    "Palette",
    "Style",
    "accuracy_ece_plane",
    "angle_heatmap",
    "confidence_histogram",
    "crowding_order",
    "lambda_curve",
    "pareto",
    "pareto_front",
    "reliability_diagram",
    "risk_coverage_curve",
    "sheet",
    "similarity_histogram",
    "style",
    "svg",
    "write",
]
