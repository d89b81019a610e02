"""Many datasets at a glance: one metric of every method on each, and the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tammes.report.columns import MISSING, Cell, Column, write_number
from tammes.report.summary import COMPARED, Comparison, Summary


@dataclass(frozen=True)
class Overview:
    """One metric with one model and one prompt: a row per method, a cell per dataset.

    A cell says whether its method differs from zero-shot; the last one is the mean of all datasets.
    """

    title: str
    model: str
    prompt: str
    datasets: tuple[str, ...]
    rows: Mapping[str, tuple[Cell, ...]]


def overviews(summary: Summary) -> list[Overview]:
    """Lay out the metrics that are compared, wherever a model met several datasets."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in summary.comparisons:
        groups.setdefault((comparison.model, comparison.prompt), []).append(comparison)
    several = [group for group in groups.values() if len(group) > 1]
    return [_overview(group, Column(metric)) for group in several for metric in COMPARED]


def _overview(group: Sequence[Comparison], column: Column) -> Overview:
    methods = dict.fromkeys(row.method for comparison in group for row in comparison.rows)
    datasets = tuple(comparison.dataset for comparison in group)
    rows = {method: _cells(group, column, method) for method in methods}
    return Overview(column.title, group[0].model, group[0].prompt, datasets, rows)


def _cells(group: Sequence[Comparison], column: Column, method: str) -> tuple[Cell, ...]:
    """Average only what was run everywhere: means over different datasets do not compare."""
    found = [(c, next((r for r in c.rows if r.method == method), None)) for c in group]
    cells = [_cell(comparison, column, method) for comparison, _ in found]
    values = [row.metrics[column.metric].value for _, row in found if row]
    whole = len(values) == len(group)
    mean = write_number(float(np.mean(values)), column.spec(1)) if whole else MISSING
    return (*cells, Cell(mean))


def _cell(comparison: Comparison, column: Column, method: str) -> Cell:
    row = next((row for row in comparison.rows if row.method == method), None)
    if row is None:
        return Cell(MISSING)
    effect = row.effect(comparison.zero_shot, column.metric) if comparison.zero_shot else None
    return Cell(column.cell(row).value, effect=effect)
