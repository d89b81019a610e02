"""Every published number with what became of it: measured, counted, or not run and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tammes.datasets import CATALOG
from tammes.paper.building import DIGITS, SOME, View
from tammes.paper.columns import Column, columns_of, title
from tammes.paper.costing import CLASSES, MIB, PLAIN, Cost
from tammes.paper.counting import ELSEWHERE, embedding_dim
from tammes.paper.measuring import Book
from tammes.paper.planning import VIEWS
from tammes.paper.published import PublishedCell, follows, published
from tammes.paper.registry import TABLES, Table, home, need_of
from tammes.paper.results import Need, Subject
from tammes.paper.running import LEARNED, requirement
from tammes.paper.sheets import beside
from tammes.statistics import Interval

Status = Literal["measured", "counted", "not run"]
Mark = Literal["", "=", "≈", "≠"]
TIMED = ("time_s_per_batch", "memory_MiB")
SEEDS = 3  # as published
GPU = "a CUDA device"
SUM = "c-tpt+a-tpt"


@dataclass(frozen=True)
class Entry:
    """A published number, and the one that was found for it in the printed unit, if any.

    What was not run needs `data` and `rest`. Marks: "=" agrees, as published; "≈" cannot be told
    apart, with `deviations` from the published setting; "≠" differs; "" is not compared.
    """

    cell: PublishedCell
    table: Table
    status: Status
    found: Interval | None = None
    mark: Mark = ""
    model: str = ""
    deviations: tuple[str, ...] = ()
    data: str = ""
    rest: str = ""

    @property
    def needs(self) -> str:
        """Everything that a run would need."""
        return " and ".join(filter(None, (self.data, self.rest)))

    @property
    def digits(self) -> int:
        """Decimals of what was found."""
        return 0 if self.status == "counted" else DIGITS.get(self.cell.metric, 2)


def account(book: Book, costs: Iterable[Cost] = ()) -> tuple[Entry, ...]:
    """Give an entry for every published number, in the order of the paper's tables."""
    by_source = {source: table for table in TABLES.values() for source in table.sources}
    timed = list(costs)
    return tuple(_entry(cell, by_source[cell.table], book, timed) for cell in published())


def _entry(cell: PublishedCell, table: Table, book: Book, costs: list[Cost]) -> Entry:
    if table.kind in ("sizes", "dimensions"):
        count = _count(cell)
        mark: Mark = "=" if count == cell.value else "≠"
        return Entry(cell, table, "counted", Interval(count, count, count), mark)
    if table.kind == "elsewhere":
        return Entry(cell, table, "not run", rest=ELSEWHERE[cell.table])
    for subject in book.subjects:
        if subject.backbone == home(cell) and (entry := _answer(cell, table, book, subject, costs)):
            return entry
    needs = runs_behind(cell, table)
    rest = [requirement(replace(needs[0], dataset=""))]
    if cell.metric in TIMED:
        return Entry(cell, table, "not run", rest=" and ".join((*rest, GPU)))
    data = title(needs[0].dataset) if len(needs) == 1 else f"{len(needs)} datasets"
    return Entry(cell, table, "not run", data=data, rest=rest[0])


def _count(cell: PublishedCell) -> int:
    """Read the catalog, and open_clip's descriptions of architectures."""
    if cell.metric in ("E_dim", "embedding_dim"):
        return embedding_dim(cell.backbone)
    entry = CATALOG[cell.dataset]
    return entry.classes if cell.metric == "num_classes" else entry.images or 0


def runs_behind(cell: PublishedCell, table: Table) -> tuple[Need, ...]:
    """List what was run for a published number: one dataset, or all that it averages."""
    need = need_of(replace(cell, dataset=SOME))
    assert need, cell
    parts = _column(cell, table).parts(Subject("", home(cell)))
    return tuple(replace(need, dataset=name) for name in parts)


def _column(cell: PublishedCell, table: Table) -> Column:
    return next(column for column in columns_of(table) if column.key == cell.dataset)


def _answer(
    cell: PublishedCell, table: Table, book: Book, subject: Subject, costs: list[Cost]
) -> Entry | None:
    """Answer with what a model measured; an average needs all of its datasets."""
    if cell.metric in TIMED:
        return _timing(cell, table, subject, costs)
    needs, column = runs_behind(cell, table), _column(cell, table)
    found = View(table, book, needs[0].prompt, cell.metric).cell(subject, needs[0].method, column)
    if found.interval is None or found.note:
        return None
    unlike = tuple(_deviations(book, table, subject, needs))
    if not follows(cell):
        return Entry(cell, table, "measured", found.interval, "", subject.name, unlike)
    _, same = beside(found, cell)
    mark: Mark = "≠" if not same else "≈" if unlike else "="
    return Entry(cell, table, "measured", found.interval, mark, subject.name, unlike)


def _deviations(book: Book, table: Table, subject: Subject, needs: Sequence[Need]) -> Iterator[str]:
    """Say for each dataset what keeps its runs from being the published ones."""
    if table.kind == "seeds" and len(book.seeds) != SEEDS:
        yield f"{len(book.seeds)} of {SEEDS} seeds"
    if any(need.prompt in LEARNED for need in needs):
        yield "the start is that of the file given, not the paper's"
    if any(need.method == SUM for need in needs):
        yield "the paper does not print the weights of the sum: those of its parts are taken"
    for need in needs:
        measure = book.of(subject, need)
        if measure and measure.deviations:
            yield f"{title(need.dataset)}: {', '.join(measure.deviations)}"


def _timing(cell: PublishedCell, table: Table, subject: Subject, costs: list[Cost]) -> Entry | None:
    """Find the time or the memory of the published loop at its size; no machine is the paper's."""
    for cost in costs:
        asked = (subject.name, PLAIN, cell.key, CLASSES["cuda"], VIEWS)
        if (cost.model, cost.what, cost.method, cost.size, cost.views) != asked:
            continue
        peak = MIB * (cost.peak_gb or 0)
        found = Interval(peak, peak, peak) if cell.metric == "memory_MiB" else cost.seconds
        if found.value:
            return Entry(cell, table, "measured", found, "", subject.name, (cost.machine,))
    return None
