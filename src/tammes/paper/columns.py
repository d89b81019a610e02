"""What a column of a table holds: one dataset, or an average of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tammes.datasets import CATALOG
from tammes.paper.published import AVERAGE
from tammes.paper.registry import DIMS, Table
from tammes.paper.results import Subject

Parts = Callable[[Subject], Mapping[str, float]]


@dataclass(frozen=True)
class Column:
    """A title, the published name, and the datasets with their weights for a model."""

    title: str
    key: str
    parts: Parts

    @property
    def single(self) -> bool:
        """Whether this is one dataset."""
        return self.key in CATALOG


def columns_of(table: Table) -> tuple[Column, ...]:
    """List the columns of a table of datasets."""
    if table.kind == "groups":
        return _groups(table)
    if table.kind == "weighted":
        sizes = {name: float(CATALOG[name].images or 0) for name in table.datasets}
        return (Column("Weighted average", "weighted_average", lambda _: sizes),)
    equal = dict.fromkeys(table.datasets, 1.0)
    single = (_single(name) for name in table.datasets)
    last = [] if table.name == "catpt" else [Column("Average", AVERAGE, lambda _: equal)]
    return (*single, *last)


def _single(name: str) -> Column:
    return Column(title(name), name, lambda _: {name: 1.0})


def _groups(table: Table) -> tuple[Column, ...]:
    """Sort datasets by whether a model has fewer dimensions than they have classes."""

    def group(subject: Subject, large: bool) -> dict[str, float]:
        dim = subject.dim or DIMS.get(subject.backbone, DIMS[table.backbones[0]])
        return {n: 1.0 for n in table.datasets if (CATALOG[n].classes > dim) == large}

    def overall(subject: Subject) -> dict[str, float]:
        groups = [group(subject, large) for large in (True, False)]
        return {name: 1 / len(names) for names in groups for name in names}

    return (
        Column("N > D", "group1_N>D", lambda s: group(s, True)),
        Column("N < D", "group2_N<D", lambda s: group(s, False)),
        Column("Overall", "overall", overall),
    )


def title(dataset: str) -> str:
    """Write a dataset as papers do."""
    return CATALOG[dataset].names[0] if dataset in CATALOG else dataset
