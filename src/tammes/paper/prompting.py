"""The table of hand-crafted prompts: those that the text quotes, CLIP's 80, and what they show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tammes.datasets import TEMPLATES
from tammes.paper.building import DIGITS, finish
from tammes.paper.columns import title
from tammes.paper.measuring import Book, Measure
from tammes.paper.published import METRIC_NAMES, PublishedCell, published
from tammes.paper.registry import HOMES, Table, need_of
from tammes.paper.results import Need, Subject
from tammes.paper.sheets import Cell, Line, Panel, Row, Sheet, beside, scaled
from tammes.paper.studies.prompts import (
    WIDTH,
    Correlation,
    Group,
    PromptPoint,
    group_by_accuracy,
    pooled,
)
from tammes.report.summary import FEW
from tammes.statistics import Interval

COLUMNS = ("Accuracy (%)", "ECE (%)", "AD (radians)")
CORRELATIONS = ("Prompts", "Pearson", "Spearman")
HOW = (
    f"Prompts are equal in accuracy when they lie within {100 * WIDTH:g} point of the best of "
    "their group; r correlates AD and ECE within a group. Intervals: 95 %, over prompts. Below 0, "
    "a larger angle goes with a smaller ECE."
)


def build_prompts(table: Table, book: Book) -> Sheet:
    """Lay the table out: three panels for each dataset that the paper tells of."""
    panels: list[Panel] = []
    for dataset, backbone in HOMES.items():
        home = Home(table, book, dataset, backbone)
        panels += [home.quoted(), home.eighty(), home.correlations()]
    return finish(table, book, tuple(panels))


def points_of(book: Book, subject: Subject, dataset: str, backbone: str) -> list[PromptPoint]:
    """Collect what CLIP's 80 prompts achieve with a model, as far as it was measured."""
    needs = [Need(dataset, "zero-shot", t, backbone) for t in TEMPLATES["imagenet-80"]]
    found = [(need.prompt, book.of(subject, need)) for need in needs]
    return [
        PromptPoint(prompt, *(measure.metrics[name].value for name in ("accuracy", "ece", "angle")))
        for prompt, measure in found
        if measure and "angle" in measure.metrics
    ]


@dataclass(frozen=True)
class Home:
    """One dataset of the table, with the backbone that the paper measured it with."""

    table: Table
    book: Book
    dataset: str
    backbone: str

    @property
    def subjects(self) -> list[Subject]:
        """The models that may stand here."""
        return [s for s in self.book.subjects if s.backbone in ("", self.backbone)]

    def quoted(self) -> Panel:
        """Show the prompts that the text quotes, tuned or not."""
        cells: dict[Need, dict[str, PublishedCell]] = {}
        for cell in published():
            need = need_of(cell) if cell.table in self.table.sources else None
            if need and need.dataset == self.dataset:
                cells.setdefault(need, {})[cell.metric] = cell
        rows = [
            Row(_named(need), tuple(self._lines(need, printed))) for need, printed in cells.items()
        ]
        return Panel(f"{title(self.dataset)}: the prompts that the text quotes", COLUMNS,
                     _gathered(rows))  # fmt: skip

    def eighty(self) -> Panel:
        """Show CLIP's 80 prompts, the most accurate first."""
        needs = [
            Need(self.dataset, "zero-shot", template, self.backbone)
            for template in TEMPLATES["imagenet-80"]
        ]
        rows = [Row(_named(n), tuple(self._lines(n, {}))) for n in sorted(needs, key=self._rank)]
        return Panel(f"{title(self.dataset)}: CLIP's 80 prompts", COLUMNS, _gathered(rows))

    def correlations(self) -> Panel:
        """Say whether AD and ECE go together among prompts of equal accuracy."""
        rows = tuple(row for subject in self.subjects for row in self._groups(subject))
        name = f"{title(self.dataset)}: correlation of AD and ECE over the 80 prompts"
        return Panel(name, CORRELATIONS, rows, (HOW,))

    def _groups(self, subject: Subject) -> Iterator[Row]:
        points = points_of(self.book, subject, self.dataset, self.backbone)
        if not points:
            need = Need(self.dataset, "zero-shot", TEMPLATES["imagenet-80"][0], self.backbone)
            why = Cell(why=self.book.why(subject, need))
            yield Row("all groups", (Line("measured", subject.name, (why,) * 3),))
            return
        groups = group_by_accuracy(points)
        for group in groups:
            yield Row(_range(group), (_correlation(subject, len(group.points), group.correlation),))
        whole = pooled(groups)
        count = whole.prompts if whole else 0
        yield Row("all groups", (_correlation(subject, count, whole),))

    def _lines(self, need: Need, printed: dict[str, PublishedCell]) -> Iterator[Line]:
        if printed:
            cells = tuple(Cell(printed[m].printed) if m in printed else Cell() for m in _METRICS)
            yield Line("published", f"paper, {self.backbone}", cells)
        for subject in self.subjects:
            measure = self.book.of(subject, need)
            if measure is None:
                cells = (Cell(why=self.book.why(subject, need)),) * len(_METRICS)
                yield Line("measured", subject.name, cells)
                continue
            cells = tuple(_cell(measure, metric) for metric in _METRICS)
            yield Line("measured", subject.name, cells)
            if subject.backbone and printed:
                off = tuple(_off(c, printed.get(m)) for c, m in zip(cells, _METRICS, strict=True))
                yield Line("difference", f"{subject.name} − paper", off)

    def _rank(self, need: Need) -> tuple[float, str]:
        found = [m for s in self.subjects if (m := self.book.of(s, need))]
        return (-found[0].metrics["accuracy"].value if found else 0.0), need.prompt


_METRICS = ("Acc", "ECE", "AD")


def _named(need: Need) -> str:
    return f"“{need.prompt}”" + ("" if need.method == "zero-shot" else f", {need.method}")


def _cell(measure: Measure, metric: str) -> Cell:
    name = METRIC_NAMES[metric]
    interval = measure.metrics.get(name.name)
    digits = 2 if metric == "ECE" else DIGITS[metric]
    found = interval and scaled(interval, name.factor)
    return Cell(interval=found, digits=digits, few=measure.images < FEW)


def _off(cell: Cell, printed: PublishedCell | None) -> Cell:
    if printed is None or cell.interval is None:
        return Cell()
    off, mark = beside(cell, printed)
    return replace(cell, interval=off, mark=mark)


def _range(group: Group) -> str:
    low, high = (100 * x for x in group.accuracy)
    return f"{low:.1f} % accurate" if low == high else f"{low:.1f} to {high:.1f} % accurate"


def _correlation(subject: Subject, count: int, found: Correlation | None) -> Line:
    both = (found.pearson, found.spearman) if found else (None, None)
    cells = (_coefficient(interval) for interval in both)
    return Line("measured", subject.name, (Cell(f"{count}"), *cells))


def _coefficient(found: Interval | None) -> Cell:
    if found is None:
        return Cell("too few")
    return Cell(interval=found, digits=2) if math.isfinite(found.value) else Cell("no spread")


def _gathered(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Say once, in a last row, what a model lacks for every row."""
    labels = dict.fromkeys(line.label for row in rows for line in row.lines)
    runs = {label: any(ln.runs for r in rows for ln in r.lines if ln.label == label)
            for label in labels}  # fmt: skip
    kept = [Row(r.label, tuple(ln for ln in r.lines if runs[ln.label])) for r in rows]
    idle = {ln.label: ln for r in rows for ln in r.lines if not runs[ln.label]}
    last = [Row("every prompt", tuple(idle.values()))] if idle else []
    return (*(row for row in kept if row.lines), *last)
