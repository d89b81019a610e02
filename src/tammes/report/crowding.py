"""Which classes crowd together on the sphere, before and after tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tammes.plots import crowding_order
from tammes.report.results import Case

SHOWN_CLASSES = 24
SHOWN_PAIRS = 12


@dataclass(frozen=True, eq=False)
class Crowding:
    """Angles (radians) between all classes, at the start and per method."""

    classnames: tuple[str, ...]
    start: Float[np.ndarray, "n n"]
    tuned: Mapping[str, Float[np.ndarray, "n n"]]
    shown: str | None  # the method whose map stands beside the start's

    @property
    def order(self) -> Int[np.ndarray, " m"]:
        """The most crowded classes, those close to each other side by side."""
        chosen: dict[int, None] = {}
        for a, b in self.closest(len(self.classnames) ** 2):
            if len(chosen.keys() | {a, b}) <= SHOWN_CLASSES:
                chosen |= dict.fromkeys((a, b))
        rows = np.array(list(chosen) or [0])
        return rows[crowding_order(self.start[np.ix_(rows, rows)])]

    def closest(self, count: int = SHOWN_PAIRS) -> list[tuple[int, int]]:
        """List the pairs with the smallest angles at the start, the closest first."""
        above = np.triu_indices(len(self.start), k=1)
        nearest = np.argsort(self.start[above], kind="stable")[:count]
        return [(int(above[0][i]), int(above[1][i])) for i in nearest]


def crowding(case: Case) -> Crowding | None:
    """Measure the angles between the classes, where the runs kept class features."""
    known = [(r, r.features) for r in case.results if r.features and len(r.classnames) > 1]
    # Without a start that images share, zero-shot's mean is where tuning starts from.
    plain = [f.tuned for r, f in known if r.role == "zero-shot"]
    start = next((f.start for _, f in known if f.start is not None), plain[0] if plain else None)
    if start is None:
        return None
    tuned = {r.method: angles(f.tuned) for r, f in known if r.role != "zero-shot"}
    return Crowding(known[0][0].classnames, angles(start), tuned, _shown(list(tuned)))


def _shown(methods: list[str]) -> str | None:
    """Choose the method to map: the one whose term asks for angles, else the last one."""
    return "a-tpt" if "a-tpt" in methods else methods[-1] if methods else None


def angles(features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Measure the angles between unit rows, in radians."""
    rows = features.astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.arccos(np.clip(rows @ rows.T, -1, 1))
