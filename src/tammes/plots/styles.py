"""How things look: one ink for axes and letters, one color, marker and line per name."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import to_rgba

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


TERMS: Mapping[str, Style] = {  # a term looks like the method that it makes
    "angular": STYLES["a-tpt"],
    "dispersion": STYLES["c-tpt"],
    "orthogonality": STYLES["o-tpt"],
    "frobenius": Style(STYLES["o-tpt"].color, "d", "--"),
}


def style(name: str) -> Style:
    """Look up how a method or term is drawn; an unknown name always gets the same spare style."""
    return STYLES.get(name) or TERMS.get(name) or SPARE[zlib.crc32(name.encode()) % len(SPARE)]


def categories(names: Iterable[str]) -> dict[str, Style]:
    """Give names that are no methods a look by their position: neighbors never look alike."""
    gray, *colors = STYLES.values()
    looks = [*colors, gray, *SPARE]
    return {name: looks[i % len(looks)] for i, name in enumerate(dict.fromkeys(names))}
