"""Hand-crafted prompts: does a larger angle between the classes go with a smaller ECE?

Over all prompts that question is confounded: a bad prompt has a low accuracy, a high ECE and a
small angle at once. It is asked among prompts of equal accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from tammes.statistics import Interval

WIDTH, LEAST = 0.01, 5  # accuracies this close are equal; fewer prompts have no correlation


@dataclass(frozen=True)
class PromptPoint:
    """What one prompt achieves, without tuning."""

    template: str
    accuracy: float
    ece: float
    angle: float


@dataclass(frozen=True)
class Correlation:
    """Correlation of angle and ECE over some prompts, with 95 % bootstrap intervals over prompts.

    The images are the same for all prompts and are not resampled: the intervals say how far other
    prompts would differ, on these images.
    """

    prompts: int
    pearson: Interval
    spearman: Interval


@dataclass(frozen=True)
class Group:
    """Prompts of equal accuracy, the best first; too few have no correlation."""

    points: tuple[PromptPoint, ...]
    correlation: Correlation | None

    @property
    def accuracy(self) -> tuple[float, float]:
        """The lowest and the highest accuracy."""
        found = [point.accuracy for point in self.points]
        return min(found), max(found)


def group_by_accuracy(
    points: Sequence[PromptPoint], width: float = WIDTH, least: int = LEAST
) -> list[Group]:
    """Split prompts, from the best down, into groups at most `width` of accuracy wide."""
    rows: list[list[PromptPoint]] = []
    for point in sorted(points, key=lambda p: (-p.accuracy, p.template)):
        if not rows or rows[-1][0].accuracy - point.accuracy > width + 1e-12:
            rows.append([])
        rows[-1].append(point)
    return [Group(tuple(r), correlate([r]) if len(r) >= least else None) for r in rows]


def pooled(groups: Sequence[Group]) -> Correlation | None:
    """Correlate within all groups at once: what is left when each group's mean is taken off."""
    large = [group.points for group in groups if group.correlation is not None]
    return correlate(large) if large else None


def correlate(
    groups: Sequence[Sequence[PromptPoint]], resamples: int = 2000, seed: int = 0
) -> Correlation:
    """Correlate angle and ECE within groups, resampling the prompts of each group."""
    random = np.random.default_rng(seed)
    data = [np.array([(p.angle, p.ece) for p in group]).T for group in groups]
    drawn = [random.integers(d.shape[1], size=(resamples, d.shape[1])) for d in data]
    plain = [d[:, None] for d in data]
    again = [d[:, index] for d, index in zip(data, drawn, strict=True)]
    pearson, spearman = (_interval(plain, again, look) for look in (_same, _ranks))
    return Correlation(sum(map(len, groups)), pearson, spearman)


Look = Callable[[Float[np.ndarray, "2 r k"]], Float[np.ndarray, "2 r k"]]


def _same(values: np.ndarray) -> np.ndarray:
    return values


def _ranks(values: np.ndarray) -> np.ndarray:
    return rankdata(values, axis=-1)


def _interval(plain: Sequence[np.ndarray], again: Sequence[np.ndarray], look: Look) -> Interval:
    draws = _within([look(values) for values in again])
    low, high = np.nanquantile(draws, [0.025, 0.975]) if np.isfinite(draws).any() else (-1.0, 1.0)
    return Interval(float(_within([look(values) for values in plain])[0]), float(low), float(high))


def _within(groups: Sequence[Float[np.ndarray, "2 r k"]]) -> Float[np.ndarray, " r"]:
    """Correlate the two rows of each resample around the groups' means; NaN where one is flat."""
    off = np.concatenate([g - g.mean(axis=-1, keepdims=True) for g in groups], axis=-1)
    off[np.abs(off) < 1e-12] = 0.0
    x, y = off
    scale = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.divide((x * y).sum(-1), scale, out=np.full(len(x), np.nan), where=scale > 0)
