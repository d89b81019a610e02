"""How much a number changes with the seed: a standard deviation, and how little few seeds say."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, stdev

from scipy.stats import chi2

from tammes.paper.measuring import Book
from tammes.paper.results import Missing, Need, Subject
from tammes.statistics import Interval

LEVEL = 0.95


def spread(
    book: Book, subject: Subject, need: Need, metric: str, factor: float
) -> tuple[Interval, None, str] | Missing:
    """Measure the standard deviation over the seeds, with the mean as a remark."""
    repeats = [replace(need, repeat=i) for i in range(len(book.seeds))]
    found = [book.of(subject, one) for one in repeats]
    values = [factor * m.metrics[metric].value for m in found if m and metric in m.metrics]
    if len(values) < len(repeats):
        lacking = next(r for r, m in zip(repeats, found, strict=True) if m is None)
        return book.why(subject, lacking)
    if len(values) < 2:
        return Missing("two seeds", "pass --seeds 0,1,2")
    return deviation(values), None, f"mean {mean(values):.2f}"


def deviation(values: list[float]) -> Interval:
    """Estimate a standard deviation (n − 1) with the interval that normal values would give."""
    found, free = stdev(values), len(values) - 1
    high, low = (math.sqrt(free / chi2.ppf(q, free)) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(found, found * low, found * high)
