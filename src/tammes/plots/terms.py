"""How hard the terms push the classes apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from tammes.plots.sheets import dress, legend
from tammes.plots.styles import LIGHT, Palette, style


def gradient_curves(
    angles: Float[np.ndarray, " k"],
    norms: Mapping[str, Float[np.ndarray, " k"]],
    ax: Axes,
    title: str = "",
    palette: Palette = LIGHT,
) -> None:
    """Draw the gradient norm of each term against the angle (radians) between the classes.

    Both axes are logarithmic: a level line does not vanish, a slope does. Where a norm is exactly 0
    its line ends in a circle.
    """
    degrees = np.degrees(angles)
    for name, norm in norms.items():
        seen = norm > 0
        look = style(name)
        ax.plot(degrees, np.where(seen, norm, np.nan), **look.curve(name))
        edge = np.flatnonzero(seen[1:] != seen[:-1])
        last = [i if seen[i] else i + 1 for i in edge]
        hollow: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5, "marker": "o"}
        ax.plot(degrees[last], norm[last], color=look.color, linestyle="none", **hollow)
    ax.set(xscale="log", yscale="log")
    highest = max((norm.max() for norm in norms.values()), default=1.0) or 1.0
    ax.set_ylim(1e-4 * highest, 3 * highest)  # at their target, terms fall to rounding noise
    dress(ax, palette, "Angle (degrees)", "Gradient norm", title)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda angle, _: f"{angle:g}°"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(which="minor", length=0)
    legend(ax, palette)
