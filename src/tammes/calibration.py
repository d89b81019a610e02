"""What confidence is worth: the outcomes of a method in, calibration numbers out.

Every metric is one formula over weighted images. Weight 1 for each image gives the plain value, the
counts of a bootstrap resample give the value on that resample: nothing is written twice, and
`tammes.statistics` gets a thousand resamples out of one matrix product.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, overload

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import brentq, minimize_scalar
from scipy.sparse import csr_array
from scipy.special import digamma, log_softmax, softmax

from tammes.errors import DataError, UnknownName

BINS = 20
TEMPERATURES = (1e-3, 1e3)

Weights: TypeAlias = Float[np.ndarray, "r n"]
Values: TypeAlias = Float[np.ndarray, " r"]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What one method answered on n images: all that a metric looks at."""

    labels: Int[np.ndarray, " n"]
    predictions: Int[np.ndarray, " n"]
    confidence: Float[np.ndarray, " n"]
    probs: Float[np.ndarray, "n k"] | None = None
    angle: Float[np.ndarray, " n"] | None = None  # mean nearest-neighbor angle, radians

    def __post_init__(self) -> None:
        if len(self.labels) == 0:
            raise DataError("no outcomes: a metric needs one image at least")
        for name in ("labels", "predictions", "confidence", "angle"):
            _check_column(name, getattr(self, name), len(self.labels))
        _check_unit("confidence", self.confidence)
        if self.probs is not None:
            _check_probs(self.probs, self.labels)

    @classmethod
    def from_probs(
        cls,
        probs: Float[np.ndarray, "n k"],
        labels: Int[np.ndarray, " n"],
        angle: Float[np.ndarray, " n"] | None = None,
    ) -> Outcomes:
        """Predict the most probable class, with its probability as the confidence."""
        return cls(labels, probs.argmax(axis=1), probs.max(axis=1), probs, angle)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def correct(self) -> Bool[np.ndarray, " n"]:
        """Whether each prediction is the label."""
        return self.predictions == self.labels

    def take(self, indices: Int[np.ndarray, " m"]) -> Outcomes:
        """Keep the images at these indices, in this order, repeats included."""
        return Outcomes(
            self.labels[indices],
            self.predictions[indices],
            self.confidence[indices],
            None if self.probs is None else self.probs[indices],
            None if self.angle is None else self.angle[indices],
        )


def _check_column(name: str, column: np.ndarray | None, count: int) -> None:
    if column is not None and column.shape != (count,):
        raise DataError(f"{name} has shape {column.shape}: {count} images need ({count},)")


def _check_unit(name: str, values: np.ndarray) -> None:
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= 1 + 1e-5):  # rounding may lift a probability just above 1
        raise DataError(f"{name} runs from {low:g} to {high:g}: needs probabilities in [0, 1]")


def _check_probs(probs: np.ndarray, labels: np.ndarray) -> None:
    if probs.ndim != 2 or len(probs) != len(labels) or probs.shape[1] == 0:
        raise DataError(f"probs has shape {probs.shape}: needs ({len(labels)}, classes)")
    _check_unit("probs", probs)
    if labels.min() < 0 or labels.max() >= probs.shape[1]:
        raise DataError(
            f"labels run from {labels.min()} to {labels.max()}: "
            f"probs of {probs.shape[1]} classes need 0 … {probs.shape[1] - 1}"
        )


# --- bins ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bins:
    """A reliability diagram as numbers; an empty bin has accuracy and confidence 0."""

    edges: Float[np.ndarray, " b1"]
    count: Int[np.ndarray, " b"]
    accuracy: Float[np.ndarray, " b"]
    confidence: Float[np.ndarray, " b"]


def bin_edges(count: int = BINS) -> Float[np.ndarray, " b1"]:
    """Edges of equal bins on [0, 1] as the published codes have them, which is `torch.linspace`.

    It counts steps from the nearer end in float32; numpy's 9/20 is one float lower, and a
    confidence on that edge would change sides.
    """
    step, index = float(np.float32(1 / count)), np.arange(count + 1)
    below = index < (count + 1) // 2
    return np.where(below, step * index, 1 - step * (count - index)).astype(np.float32)


def _bin_index(confidence: np.ndarray, count: int = BINS) -> np.ndarray:
    """Bin of each confidence in (low, high]; -1 for a confidence of exactly 0."""
    if confidence.dtype == np.float16:
        confidence = confidence.astype(np.float32)
    index = np.searchsorted(bin_edges(count), confidence, side="left") - 1
    return np.minimum(index, count - 1).astype(np.int16)


def bins(
    confidence: Float[np.ndarray, " n"], correct: Bool[np.ndarray, " n"], count: int = BINS
) -> Bins:
    """Sort images into equal bins (low, high] of confidence; exactly 0 falls in none."""
    index = _bin_index(confidence, count) + 1
    number, right, claimed = (
        np.bincount(index, weights, minlength=count + 1)[1:]
        for weights in (None, correct.astype(float), confidence.astype(float))
    )
    filled = np.maximum(number, 1)
    return Bins(bin_edges(count), number.astype(np.int64), right / filled, claimed / filled)


# --- metrics ------------------------------------------------------------------------------------


class Formula(Protocol):
    """A metric: the value on the images as they are, or on r weightings of them."""

    @overload
    def __call__(self, outcomes: Outcomes) -> float: ...
    @overload
    def __call__(self, outcomes: Outcomes, weights: Weights) -> Values: ...


def _weighted(formula: Callable[[Outcomes, Weights], Values]) -> Formula:
    """Let a formula over weighted images also answer for the images as they are."""

    @functools.wraps(formula)
    def either(outcomes: Outcomes, weights: Weights | None = None) -> float | Values:
        if weights is None:
            return float(formula(outcomes, np.ones((1, len(outcomes))))[0])
        return formula(outcomes, weights)

    return either  # type: ignore[return-value]


def _mean(values: np.ndarray, weights: Weights) -> Values:
    return weights @ values.astype(float) / weights.sum(axis=1)


@_weighted
def accuracy(outcomes: Outcomes, weights: Weights) -> Values:
    """Share of images whose prediction is the label."""
    return _mean(outcomes.correct, weights)


@_weighted
def mean_confidence(outcomes: Outcomes, weights: Weights) -> Values:
    """Mean probability of the predicted class."""
    return _mean(outcomes.confidence, weights)


@_weighted
def gap(outcomes: Outcomes, weights: Weights) -> Values:
    """Mean confidence minus accuracy: above 0 is overconfident, below 0 underconfident."""
    return _mean(outcomes.confidence.astype(float) - outcomes.correct, weights)


@_weighted
def ece(outcomes: Outcomes, weights: Weights) -> Values:
    """Expected calibration error over 20 equal bins of confidence."""
    return _binned_error(outcomes.confidence[:, None], outcomes.correct[:, None], weights)


@_weighted
def sce(outcomes: Outcomes, weights: Weights) -> Values:
    """Static calibration error (Nixon et al.): the error of every class's probability, averaged."""
    probs, total = _probs(outcomes), np.zeros(len(weights))
    for first in range(0, probs.shape[1], 100):  # a hundred classes at a time bounds the memory
        claimed = probs[:, first : first + 100]
        happened = outcomes.labels[:, None] == np.arange(first, first + claimed.shape[1])
        total += _binned_error(claimed, happened, weights)
    return total / probs.shape[1]


def _binned_error(
    claimed: Float[np.ndarray, "n c"], happened: Bool[np.ndarray, "n c"], weights: Weights
) -> Values:
    """Sum over columns and bins of |Σ w (happened - claimed)| / Σ w."""
    residual, index = happened - claimed.astype(float), _bin_index(claimed)
    # The lowest bin holds nearly every probability of many classes: dense. The others are sparse.
    lowest = weights @ np.where(index == 0, residual, 0.0)
    rows, columns = np.nonzero(index > 0)
    cells = (rows, columns * BINS + index[rows, columns])
    above = weights @ csr_array(
        (residual[rows, columns], cells), shape=(len(claimed), claimed.shape[1] * BINS)
    )
    error = np.abs(lowest).sum(axis=1) + np.abs(above).sum(axis=1)
    return error / weights.sum(axis=1)


@_weighted
def adaptive_ece(outcomes: Outcomes, weights: Weights) -> Values:
    """Calibration error over 20 bins of equal mass; an image on a border is shared out.

    Equal confidences are one pool, so that the order of the images does not matter.
    """
    pools = _pools(outcomes, weights)
    mass, residual = _sums_from_zero(pools.mass), _sums_from_zero(pools.right - pools.claimed)
    borders = np.linspace(0, 1, BINS + 1) * mass[:, -1:]
    sums = [np.interp(*row) for row in zip(borders, mass, residual, strict=True)]
    return np.abs(np.diff(sums, axis=1)).sum(axis=1) / mass[:, -1]


@_weighted
def aurc(outcomes: Outcomes, weights: Weights) -> Values:
    """Area under the risk-coverage curve: the mean error rate over the j most confident, j = 1 … n.

    Equal confidences enter in random order; what is computed is the expectation over that order.
    """
    pools = _pools(outcomes, weights)
    mass, wrong = _sums_from_zero(pools.mass), _sums_from_zero(pools.mass - pools.right)
    rate = (pools.mass - pools.right) / np.where(pools.mass == 0, 1, pools.mass)
    # Within a pool the risk after j images is rate + (wrong - rate · mass) / j, with both sums from
    # before the pool; 1/j summed over the pool is a difference of digammas.
    harmonic = np.diff(digamma(mass + 1), axis=1)
    area = rate * pools.mass + (wrong[:, :-1] - rate * mass[:, :-1]) * harmonic
    return area.sum(axis=1) / mass[:, -1]


@_weighted
def brier(outcomes: Outcomes, weights: Weights) -> Values:
    """Squared distance of the probabilities from the truth, summed over classes: 0 … 2."""
    probs = _probs(outcomes)
    squares = np.einsum("nk,nk->n", probs, probs, dtype=float)
    return _mean(squares - 2 * _label_probs(outcomes) + 1, weights)


@_weighted
def nll(outcomes: Outcomes, weights: Weights) -> Values:
    """Mean surprise at the label, in nats; a probability of 0 counts as float32's smallest."""
    return _mean(-np.log(np.maximum(_label_probs(outcomes), np.finfo(np.float32).tiny)), weights)


@_weighted
def angle(outcomes: Outcomes, weights: Weights) -> Values:
    """Mean nearest-neighbor angle of the tuned class features, in radians: the paper's AD."""
    if outcomes.angle is None:
        raise DataError("angle needs the nearest-neighbor angle of every image")
    return _mean(outcomes.angle, weights)


def _probs(outcomes: Outcomes) -> Float[np.ndarray, "n k"]:
    if outcomes.probs is None:
        raise DataError(
            "sce, brier and nll need the probabilities of all classes, not the top ones"
        )
    return outcomes.probs


def _label_probs(outcomes: Outcomes) -> Float[np.ndarray, " n"]:
    return _probs(outcomes)[np.arange(len(outcomes)), outcomes.labels].astype(float)


def _sums_from_zero(values: Float[np.ndarray, "r g"]) -> Float[np.ndarray, "r g1"]:
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


@dataclass(frozen=True, eq=False)
class _Pools:
    """Images of equal confidence as one, most confident first, under r weightings."""

    threshold: Float[np.ndarray, " g"]
    mass: Float[np.ndarray, "r g"]
    right: Float[np.ndarray, "r g"]

    @property
    def claimed(self) -> Float[np.ndarray, "r g"]:
        return self.mass * self.threshold


def _pools(outcomes: Outcomes, weights: Weights) -> _Pools:
    threshold, pool = np.unique(-outcomes.confidence.astype(float), return_inverse=True)
    order = np.argsort(pool, kind="stable")
    starts = np.searchsorted(pool[order], np.arange(len(threshold)))
    mass = np.add.reduceat(weights[:, order], starts, axis=1)
    right = np.add.reduceat((weights * outcomes.correct)[:, order], starts, axis=1)
    return _Pools(-threshold, mass, right)


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Answer only from confidence `threshold` up: on what share of images, how often wrong."""

    threshold: Float[np.ndarray, " g"]
    coverage: Float[np.ndarray, " g"]
    risk: Float[np.ndarray, " g"]


def risk_coverage(outcomes: Outcomes) -> RiskCoverage:
    """Follow the error rate from the most confident images down to all of them."""
    pools = _pools(outcomes, np.ones((1, len(outcomes))))
    mass, right = pools.mass[0].cumsum(), pools.right[0].cumsum()
    return RiskCoverage(pools.threshold, mass / mass[-1], 1 - right / mass)


# --- catalog ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A formula with all that a table must know of it; `spec` is a Python format."""

    function: Formula
    title: str
    better: Literal["low", "high"] | None = "low"
    spec: str = ".2%"
    bounds: tuple[float, float] = (0.0, 1.0)
    needs: Literal["probs", "angle"] | None = None

    def measurable(self, outcomes: Outcomes) -> bool:
        """Whether the outcomes hold what the formula needs."""
        return self.needs is None or getattr(outcomes, self.needs) is not None


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric(accuracy, "Accuracy", better="high"),
    "ece": Metric(ece, "ECE"),
    "adaptive_ece": Metric(adaptive_ece, "Adaptive ECE"),
    "sce": Metric(sce, "SCE", needs="probs"),
    "mean_confidence": Metric(mean_confidence, "Confidence", better=None),
    "gap": Metric(gap, "Confidence − accuracy", better=None, spec="+.2%", bounds=(-1.0, 1.0)),
    "brier": Metric(brier, "Brier", spec=".4f", bounds=(0.0, 2.0), needs="probs"),
    "nll": Metric(nll, "NLL", spec=".4f", bounds=(0.0, np.inf), needs="probs"),
    "aurc": Metric(aurc, "AURC"),
    "angle": Metric(
        angle, "Angle (rad)", better=None, spec=".4f", bounds=(0.0, np.pi), needs="angle"
    ),
}


def select_metrics(outcomes: Outcomes, names: Iterable[str] | None = None) -> dict[str, Metric]:
    """Look metrics up by name (all by default), without those the outcomes cannot answer."""
    wanted = list(METRICS if names is None else names)
    for name in wanted:
        if name not in METRICS:
            raise UnknownName.of("metric", name, METRICS)
    return {name: METRICS[name] for name in wanted if METRICS[name].measurable(outcomes)}


def measure(outcomes: Outcomes, names: Iterable[str] | None = None) -> dict[str, float]:
    """Compute metrics by name (all by default), without those the outcomes cannot answer."""
    chosen = select_metrics(outcomes, names)
    return {name: metric.function(outcomes) for name, metric in chosen.items()}


# --- temperature --------------------------------------------------------------------------------


def fit_temperature(logits: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]) -> float:
    """Find the temperature, within 1e-3 … 1e3, whose softmax(logits / T) minimizes the NLL."""
    _check_column("labels", labels, len(logits))
    logits, rows = logits.astype(float), np.arange(len(labels))

    def surprise(log_temperature: float) -> float:
        return -log_softmax(logits / np.exp(log_temperature), axis=1)[rows, labels].mean()

    # Convex in 1/T, hence a single valley in log T.
    found = minimize_scalar(
        surprise, bounds=np.log(TEMPERATURES), method="bounded", options={"xatol": 1e-6}
    )
    return float(np.exp(found.x))


def match_confidence_temperature(
    logits: Float[np.ndarray, "n k"], target_confidence: float
) -> float:
    """Find the temperature at which the mean confidence is the target; needs no label."""
    logits = logits.astype(float)

    def excess(log_temperature: float) -> float:
        probs = softmax(logits / np.exp(log_temperature), axis=1)
        return probs.max(axis=1).mean() - target_confidence

    sharp, flat = np.log(TEMPERATURES)
    if not excess(flat) <= 0 <= excess(sharp):
        low, high = (target_confidence + excess(end) for end in (flat, sharp))
        raise DataError(
            f"no temperature gives a mean confidence of {target_confidence:g}: "
            f"these logits reach {low:.4f} … {high:.4f}"
        )
    return float(np.exp(brentq(excess, sharp, flat)))
