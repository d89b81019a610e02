"""How much a number changes with the seed: a standard deviation, and how little few seeds say."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, stdev

from scipy.stats import chi2

from tammes.paper.measuring import Book
from tammes.paper.results import Missing, Need, Subject
from tammes.paper.sheets import Value
from tammes.statistics import Interval

LEVEL = 0.95


def spread(book: Book, subject: Subject, need: Need, metric: str, factor: float) -> Value | Missing:
    """Measure the standard deviation over the seeds; the mean stands before it."""
    repeats = [replace(need, repeat=i) for i in range(len(book.seeds))]
    found = [m for one in repeats if (m := book.of(subject, one)) and metric in m.metrics]
    if len(found) < len(repeats):
        lacking = (one for one in repeats if book.of(subject, one) is None)
        return book.why(subject, next(lacking, need))
    if len({m.seed for m in found}) < max(2, len(found)):
        return Missing("two seeds", "pass --seeds 0,1,2")
    if len(sizes := sorted({m.images for m in found})) > 1:
        told = f"the seeds were run on {' and '.join(f'{n:,}' for n in sizes)} of them"
        return Missing("the same images for every seed", f"{told}: run tammes paper random again")
    if len({m.deviations for m in found}) > 1:
        told = "some seeds deviate otherwise from what was published than others"
        return Missing("the same settings for every seed", f"{told}: run tammes paper random again")
    values = [factor * m.metrics[metric].value for m in found]
    return Value(deviation(values), mean=f"{mean(values):.2f}", images=found[0].images)


def deviation(values: list[float]) -> Interval:
    """Estimate a standard deviation (n − 1) with the interval that normal values would give."""
    found, free = stdev(values), len(values) - 1
    high, low = (math.sqrt(free / chi2.ppf(q, free)) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(found, found * low, found * high)
