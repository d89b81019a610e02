"""How far a number can be trusted: bootstrap intervals, and which methods can be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tammes.calibration import (
    METRICS,
    Outcomes,
    Values,
    Weights,
    ece,
    measure,
    select_metrics,
)
from tammes.errors import DataError

# Weights held at once: bounds the memory of a bootstrap, whatever the number of images.
CHUNK = 8_000_000


@dataclass(frozen=True)
class Interval:
    """A value and the range that the data leave open for it; formats as `value [low, high]`.

    The value is the published estimator, computed on the data as they are. The range is corrected
    for that estimator's bias, so it may lie below the value: see `bootstrap`.
    """

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        spec = spec or ".4g"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self) -> str:
        return format(self)


def told_apart(difference: Interval) -> bool:
    """Whether the interval of a difference excludes 0."""
    return difference.low > 0 or difference.high < 0


def resample_weights(images: int, resamples: int, seed: int) -> Iterator[Weights]:
    """Draw how often each image occurs in each resample, some resamples at a time."""
    random = np.random.default_rng(seed)
    at_once = max(1, CHUNK // images)
    for done in range(0, resamples, at_once):
        rows = min(at_once, resamples - done)
        drawn = random.integers(images, size=(rows, images)) + images * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * images)
        yield counts.reshape(rows, images).astype(float)


def resample(
    outcomes: Outcomes,
    names: Iterable[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Values]:
    """Compute metrics on bootstrap resamples: the same resamples for equal numbers and seeds."""
    chosen = select_metrics(outcomes, names)
    parts: dict[str, list[Values]] = {name: [] for name in chosen}
    for weights in resample_weights(len(outcomes), resamples, seed):
        for name, metric in chosen.items():
            parts[name].append(metric.function(outcomes, weights))
    return {name: np.concatenate(values) for name, values in parts.items()}


def bootstrap(
    outcomes: Outcomes,
    names: Iterable[str] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Measure with basic bootstrap intervals, clipped to what the metric can be.

    Basic, not percentile, because calibration errors are biased upward: noise adds to |accuracy -
    confidence| in every bin, and a resample is noisier than the data. Percentile intervals move up
    by that bias a second time; in simulation (beta-distributed confidences, 20 bins) their 95 %
    covered the true ECE of a calibrated or slightly overconfident predictor in 0 of 200 trials at
    n = 300 and 1000. The basic interval reflects the resamples at the value and so takes the bias
    off: it covered 81 to 97 % where the true ECE was 3 % or more. Where it is close to 0 no
    bootstrap is right (29 to 42 %): compare the value with `calibrated_ece` there. For the metrics
    without that bias both kinds agree.
    """
    values = measure(outcomes, names)
    draws = resample(outcomes, values, resamples, seed)
    found = {}
    for name, value in values.items():
        low, high = np.clip(_basic(value, draws[name], level), *METRICS[name].bounds)
        found[name] = Interval(value, float(low), float(high))
    return found


def paired_differences(
    a: Outcomes,
    b: Outcomes,
    names: Iterable[str] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Measure a - b, both on the same resamples of the same images, with basic intervals.

    For two methods of equal ECE, 4 to 10 % of the 95 % intervals excluded 0 in simulation.
    """
    if not np.array_equal(a.labels, b.labels):
        raise DataError(
            f"a paired difference needs the same images in the same order: found {len(a)} and "
            f"{len(b)} outcomes whose labels differ"
        )
    names = None if names is None else list(names)
    first, second = measure(a, names), measure(b, names)
    shared = [name for name in first if name in second]
    ours, theirs = (resample(x, shared, resamples, seed) for x in (a, b))
    found = {}
    for name in shared:
        value = first[name] - second[name]
        found[name] = Interval(value, *_basic(value, ours[name] - theirs[name], level))
    return found


def paired_difference(
    a: Outcomes,
    b: Outcomes,
    name: str,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Measure a - b for one metric, both on the same resamples of the same images."""
    found = paired_differences(a, b, [name], resamples, level, seed)
    if name not in found:
        raise DataError(f"{name} needs {METRICS[name].needs}, which these outcomes do not hold")
    return found[name]


def calibrated_ece(
    outcomes: Outcomes, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Measure the ECE that a perfectly calibrated method shows at these confidences: pure noise.

    An ECE within this range is no evidence of miscalibration on this many images.
    """
    random, always = np.random.default_rng(seed), np.ones(len(outcomes), dtype=np.int64)
    confidence = outcomes.confidence
    noise = [
        ece(
            Outcomes(
                (random.random(len(outcomes)) < confidence).astype(np.int64), always, confidence
            )
        )
        for _ in range(draws)
    ]
    low, high = np.quantile(noise, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(np.mean(noise)), float(low), float(high))


def _basic(value: float, draws: Values, level: float) -> tuple[float, float]:
    """Reflect the quantiles of the draws at the value (the reverse percentile interval)."""
    upper, lower = np.quantile(draws, [(1 + level) / 2, (1 - level) / 2])
    return float(2 * value - upper), float(2 * value - lower)
