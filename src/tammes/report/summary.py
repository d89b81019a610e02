"""Runs -> numbers with intervals, and which of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from tammes.calibration import METRICS, Outcomes
from tammes.records import Run
from tammes.report.reading import read_cases
from tammes.report.results import Case, Result, Role, align
from tammes.statistics import (
    Interval,
    bootstrap,
    calibrated_ece,
    paired_differences,
    resample_weights,
    told_apart,
)

COMPARED = ("accuracy", "ece")
LEVEL = 0.95
FEW = 30  # images; a bootstrap of fewer is not to be trusted, so they tell nothing apart
Effect = Literal["better", "worse", "same"]


@dataclass(frozen=True)
class Row:
    """One method: its metrics, and its paired differences to other methods by their names.

    `corrected` holds differences at the level at which all comparisons of a case hold together.
    """

    method: str
    role: Role
    images: int
    metrics: Mapping[str, Interval]
    against: Mapping[str, Mapping[str, Interval]]
    corrected: Mapping[str, Mapping[str, Interval]]
    chance_ece: Interval

    def effect(self, reference: str, metric: str, corrected: bool = False) -> Effect | None:
        """Tell what changed against a reference; `same` means that nothing shows a difference."""
        differences = self.corrected if corrected else self.against
        difference = differences.get(reference, {}).get(metric)
        if difference is None:
            return None
        if self.images < FEW or not told_apart(difference):
            return "same"
        up = METRICS[metric].better == "high"
        return "better" if (difference.low > 0) == up else "worse"


@dataclass(frozen=True)
class Comparison:
    """One case in numbers. `zero_shot`, `static` and `tpt` name the rows others are compared to.

    `skipped` says why which image has no answer; `unfinished` how many images a method still lacks.
    """

    dataset: str
    model: str
    prompt: str
    rows: tuple[Row, ...]
    skipped: Mapping[str, str]
    unfinished: Mapping[str, int]
    zero_shot: str | None
    static: str | None
    tpt: str | None

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.dataset} · {self.model} · {self.prompt}"

    @property
    def images(self) -> str:
        """How many images were answered, as words: methods may differ in an unfinished run."""
        low, high = (f(r.images for r in self.rows) for f in (min, max))
        count = f"{high}" if low == high else f"{low} to {high}"
        return f"{count} image{'' if count == '1' else 's'}"

    def row(self, method: str) -> Row:
        """Look a method up."""
        return next(row for row in self.rows if row.method == method)


@dataclass(frozen=True)
class Summary:
    """All cases, from so many resamples; `unread` says why which run is in none of them."""

    comparisons: tuple[Comparison, ...]
    resamples: int
    unread: Mapping[str, str]
    level: float = LEVEL


def summarize(runs: Iterable[Run], resamples: int = 1000) -> Summary:
    """Measure every method, and compare it to zero-shot, to TPT and to the static prompt."""
    return summarize_cases(*read_cases(runs), resamples)


def summarize_cases(
    cases: Iterable[Case], unread: Mapping[str, str] | None = None, resamples: int = 1000
) -> Summary:
    """Measure what was read already."""
    return Summary(tuple(compare(case, resamples) for case in cases), resamples, unread or {})


def compare(case: Case, resamples: int = 1000) -> Comparison:
    """Measure the methods of one case."""
    roles: tuple[Role, ...] = ("zero-shot", "static", "adapted")
    found = {role: case.reference(role) for role in roles}
    references = [result for result in found.values() if result]
    names = {role: result.method if result else None for role, result in found.items()}
    tuned = sum(result.role != "zero-shot" for result in case.results)
    strict = 1 - (1 - LEVEL) / max(1, tuned * len(COMPARED))  # Bonferroni
    return Comparison(
        case.dataset,
        case.model,
        case.prompt,
        tuple(_row(result, references, resamples, strict) for result in case.results),
        case.skipped,
        {r.method: r.unanswered for r in case.results if r.unanswered},
        names["zero-shot"],
        names["static"],
        names["adapted"],
    )


def _row(result: Result, references: Sequence[Result], resamples: int, strict: float) -> Row:
    metrics = bootstrap(result.outcomes, resamples=resamples, level=LEVEL)
    if share := _mean(result.image_independent, resamples):
        metrics["image_independent"] = share
    aligned = {r.method: align(result, r) for r in references if r is not result}
    pairs = {name: pair for name, pair in aligned.items() if pair}
    return Row(
        result.method,
        result.role,
        len(result.outcomes),
        {name: found for name, found in metrics.items() if np.isfinite(found.value)},
        _differences(pairs, resamples, LEVEL),
        _differences(pairs, resamples, strict),
        calibrated_ece(result.outcomes, min(resamples, 200), LEVEL),
    )


def _differences(
    pairs: Mapping[str, tuple[Outcomes, Outcomes]], resamples: int, level: float
) -> dict[str, dict[str, Interval]]:
    return {
        name: paired_differences(*pair, COMPARED, resamples, level) for name, pair in pairs.items()
    }


def _mean(values: Float[np.ndarray, " n"] | None, resamples: int) -> Interval | None:
    """Average what is known of the images (NaN: no step, or no term), with its interval."""
    known = np.array([]) if values is None else values[~np.isnan(values)].astype(float)
    if not len(known):
        return None
    draws = np.concatenate(
        [weights @ known / len(known) for weights in resample_weights(len(known), resamples, 0)]
    )
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(known.mean()), float(low), float(high))
