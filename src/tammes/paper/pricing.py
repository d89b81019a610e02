"""The table of costs: what was published beside what was timed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tammes.method import METHODS
from tammes.paper.building import finish
from tammes.paper.costing import ENGINE, MIB, PLAIN, SIZES, TERM, Cost, growth
from tammes.paper.measuring import Book
from tammes.paper.published import PublishedCell, published
from tammes.paper.registry import Table
from tammes.paper.results import Missing, Need, Subject
from tammes.paper.sheets import Cell, Line, Panel, Row, Sheet, beside, scaled
from tammes.report.summary import FEW
from tammes.statistics import Interval

Costs = Mapping[str, Sequence[Cost] | Missing]  # by the name of the model
COLUMNS = ("s per image", "MiB", "ECE (%)")
PRINTED = ("time_s_per_batch", "memory_MiB", "ECE")
COMPLEXITY: Mapping[str, str] = {  # printed in words, so no published number
    "c-tpt": "O(N·D)", "o-tpt": "O(N²·D)", "a-tpt": "O(N²·D)",
}  # fmt: skip
NOTES = (
    "Behind a time stand the fastest and the slowest of its repetitions. Memory is the peak of the "
    "device, on a CPU that of the whole process.",
    "The plain loop is the published codes' work for an image: its views and, per step, all class "
    "sentences with their padding, forward, backward and forward.",
)


def build_cost(table: Table, book: Book, costs: Costs) -> Sheet:
    """Lay out times, memory and ECE, and how the time of each term grows."""
    listed = [c for found in costs.values() if not isinstance(found, Missing) for c in found]
    rows = [Row(m, tuple(_lines(table, book, costs, m))) for m in table.methods]
    first = Panel("Time and memory of an image", COLUMNS, tuple(rows), (*NOTES, *_where(listed)))
    return finish(table, book, (first, _terms(table, listed)))


def _where(costs: Iterable[Cost]) -> Iterator[str]:
    """Say what was timed on what."""
    told = {(c.model, c.size, c.views, c.machine) for c in costs if c.what != TERM}
    for model, size, views, machine in sorted(told):
        yield f"{model}: {size} classes, {views} views, {machine}."


def _lines(table: Table, book: Book, costs: Costs, method: str) -> Iterator[Line]:
    printed = _printed(table, method)
    cells = tuple(Cell(printed[metric].printed) for metric in PRINTED)
    yield Line("published", f"paper, {next(iter(printed.values())).backbone}", cells)
    for subject in book.subjects:
        ece, found = _ece(table, book, subject, method), costs.get(subject.name)
        if found is None or isinstance(found, Missing):
            why = Cell(why=found or Missing("to be timed"))
            yield Line("measured", subject.name, (why, why, ece))
        else:
            for cost in found:
                if (cost.method, cost.what) in ((method, PLAIN), (method, ENGINE)):
                    kind = "" if cost.precision == "float32" else f", {cost.precision}"
                    label = f"{subject.name}, {cost.what}{kind}"
                    yield Line("measured", label, (*_cells(cost), ece))
        if subject.backbone and ece.interval:
            off, mark = beside(ece, printed["ECE"])
            cells = (Cell(), Cell(), Cell(interval=off, mark=mark))
            yield Line("difference", f"{subject.name} − paper", cells)


def _cells(cost: Cost) -> tuple[Cell, Cell]:
    memory = Cell() if cost.peak_gb is None else Cell(f"{cost.peak_gb * MIB:,.0f}")
    return Cell(interval=cost.seconds, digits=3), memory


def _printed(table: Table, method: str) -> dict[str, PublishedCell]:
    return {c.metric: c for c in published() if c.table in table.sources and c.key == method}


def _ece(table: Table, book: Book, subject: Subject, method: str) -> Cell:
    need = Need(table.datasets[0], method, backbone=table.backbones[0])
    measure = book.of(subject, need)
    if measure is None:
        return Cell(why=book.why(subject, need))
    return Cell(interval=scaled(measure.metrics["ece"], 100), few=measure.images < FEW)


def _terms(table: Table, costs: Sequence[Cost]) -> Panel:
    """Show the time of each term, with its gradient, against the number of classes N."""
    columns = ("printed", *(f"ms at N={size}" for size in SIZES), "grows as")
    rows = []
    for method in table.methods:
        about: list[Line] = [_known(method, columns)]
        for model in dict.fromkeys(c.model for c in costs):
            found = [c for c in costs if (c.model, c.method, c.what) == (model, method, TERM)]
            about += [_growing(model, found)] if found else []
        ((_, term),) = METHODS[method].terms
        rows.append(Row(f"{type(term).__name__} ({method})", tuple(about)))
    return Panel("Time of the term alone, with its gradient", columns, tuple(rows))


def _known(method: str, columns: Sequence[str]) -> Line:
    return Line("known", "paper", (Cell(COMPLEXITY[method]), *[Cell()] * (len(columns) - 1)))


def _growing(model: str, found: Sequence[Cost]) -> Line:
    by_size = {cost.size: cost for cost in found}
    times = [_ms(by_size[size].seconds) if size in by_size else Cell() for size in SIZES]
    power = growth(found)
    return Line("measured", model, (Cell(), *times, Cell(f"N^{power:.1f}" if power else "")))


def _ms(seconds: Interval) -> Cell:
    return Cell(interval=scaled(seconds, 1e3), digits=2)
