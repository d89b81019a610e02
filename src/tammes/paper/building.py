"""Measures -> tables of datasets: published, measured and differing lines for every method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tammes.calibration import METRICS
from tammes.method import METHODS
from tammes.paper.columns import Column, columns_of, title
from tammes.paper.measuring import Book, average
from tammes.paper.published import (
    METRIC_NAMES,
    PublishedCell,
    disagreeing,
    follows,
    notes,
    published,
)
from tammes.paper.registry import Table, home, need_of
from tammes.paper.results import COCOOP, COOP, Missing, Need, Subject
from tammes.paper.seeds import spread
from tammes.paper.sheets import (
    Cell,
    Line,
    Panel,
    Row,
    Sheet,
    Value,
    beside,
    effect,
    scaled,
    statement,
)
from tammes.report.summary import FEW

DIGITS: Mapping[str, int] = {"Acc": 1, "ECE": 1, "SCE": 2, "AD": 3, "std_Acc": 2, "std_ECE": 2}
TITLES: Mapping[str, str] = {
    "Acc": "Accuracy (%)",
    "ECE": "ECE (%)",
    "SCE": "SCE (%, mean over classes)",
    "AD": "AD (radians)",
    "std_Acc": "Accuracy: standard deviation over seeds (points)",
    "std_ECE": "ECE: standard deviation over seeds (points)",
}
SOME = "dtd"  # any dataset: averages are filed like one


@dataclass(frozen=True)
class View:
    """One metric of a table under one prompt, and the measures it is made of."""

    table: Table
    book: Book
    prompt: str
    metric: str

    @property
    def factor(self) -> float:
        """From our numbers to the printed unit."""
        return METRIC_NAMES[self.metric].factor

    def measured(self, subject: Subject, method: str, dataset: str) -> Value | Missing:
        """Read a number of one dataset, in the printed unit."""
        name = METRIC_NAMES[self.metric].name
        need = Need(dataset, method, self.prompt)
        if self.table.kind == "seeds":
            return spread(self.book, subject, need, name, self.factor)
        one = self.book.of(subject, need)
        if one is None or name not in one.metrics:
            return self.book.why(subject, need)
        difference = one.against.get(name) if one.images >= FEW else None
        return Value(
            scaled(one.metrics[name], self.factor),
            difference and scaled(difference, self.factor),
            images=one.images,
        )

    def cell(self, subject: Subject, method: str, column: Column) -> Cell:
        """Read a column: one dataset, or an average of those that were measured."""
        return _cell(self, column.parts(subject), lambda name: self.measured(subject, method, name))


def build_datasets(table: Table, book: Book, methods: Sequence[str]) -> Sheet:
    """Lay out a table whose columns are datasets or averages of them."""
    views = [View(table, book, p, m) for p in table.prompts for m in table.metrics]
    panels = tuple(_panel(view, table.chosen(methods)) for view in views)
    return finish(table, book, panels)


def _panel(view: View, methods: Sequence[str]) -> Panel:
    columns = columns_of(view.table)
    listed = dict.fromkeys((*view.table.methods, *methods))
    subjects = [s for s in view.book.subjects if _asked(view.table, s)]
    rows, idle = [], dict.fromkeys(subjects, True)
    for method in sorted(listed, key=list(METHODS).index):
        lines = list(_published_lines(view, method, columns))
        for subject in subjects:
            line = _measured_line(view, method, subject, columns)
            idle[subject] &= not line.runs
            lines += [line, *_difference(view, method, subject, columns, line)] if line.runs else []
        if lines:
            rows.append(Row(method, tuple(lines)))
    some = next(iter(methods), "zero-shot")
    never = [_measured_line(view, some, s, columns) for s in subjects if idle[s]]
    if never:
        rows.append(Row("every method", tuple(never)))
    return Panel(_title(view), tuple(c.title for c in columns), tuple(rows), _remarks(view))


def _asked(table: Table, subject: Subject) -> bool:
    return not subject.backbone or subject.backbone in table.backbones


def _title(view: View) -> str:
    prompt = {COOP: "CoOp", COCOOP: "CoCoOp"}.get(view.prompt, f"“{view.prompt}”")
    return f"{TITLES[view.metric]} · {prompt}"


def _published_lines(view: View, method: str, columns: Sequence[Column]) -> Iterator[Line]:
    for backbone in view.table.backbones:
        cells = tuple(Cell(_printed(view, backbone, method, c)) for c in columns)
        if any(cell.text for cell in cells):
            yield Line("published", f"paper, {backbone}", cells)


def _printed(view: View, backbone: str, method: str, column: Column) -> str:
    cell = find_printed(view, backbone, method, column.key)
    return cell.printed if cell else ""


def find_printed(view: View, backbone: str, method: str, key: str) -> PublishedCell | None:
    """Find the published number of a cell."""
    return _index().get((view.table.sources[0], backbone, view.prompt, method, view.metric, key))


@lru_cache(maxsize=1)
def _index() -> Mapping[tuple[str, ...], PublishedCell]:
    """File the published numbers of methods under the words of this package."""
    found: dict[tuple[str, ...], PublishedCell] = {}
    for cell in published():
        if need := need_of(replace(cell, dataset=SOME)):
            words = (need.prompt, need.method, cell.metric, cell.dataset)
            found[(cell.table, home(cell)) + words] = cell  # noqa: RUF005 (Python 3.10)
    return found


def _measured_line(view: View, method: str, subject: Subject, columns: Sequence[Column]) -> Line:
    cells = tuple(view.cell(subject, method, column) for column in columns)
    return Line("measured", subject.name, cells)


def _cell(view: View, parts: Mapping[str, float], read: Callable[[str], Value | Missing]) -> Cell:
    """Read one dataset, or average those that were measured and say how many were."""
    answers = {name: read(name) for name in parts}
    found = {name: value for name, value in answers.items() if not isinstance(value, Missing)}
    if not found:
        return Cell(why=_first_missing(answers.values()))
    digits, up = DIGITS[view.metric], METRICS[METRIC_NAMES[view.metric].name].better == "high"
    few = min(value.images for value in found.values()) < FEW
    if len(parts) == 1:
        (one,) = found.values()
        mark = effect(one.difference, up)
        return Cell("", one.interval, mark, digits=digits, mean=one.mean, few=few)
    skewed = view.table.kind == "seeds"
    value = average(((parts[name], v.interval) for name, v in found.items()), skewed)
    differences = [(parts[name], v.difference) for name, v in found.items() if v.difference]
    whole = average(differences) if len(differences) == len(found) else None
    note = "" if len(found) == len(parts) else f"{len(found)} of {len(parts)} datasets"
    return Cell("", value, effect(whole, up), note, digits=digits, few=few)


def _first_missing(answers: Iterable[Value | Missing]) -> Missing:
    """Give the reason of one dataset, or sum up those of many."""
    reasons = list(dict.fromkeys(a for a in answers if isinstance(a, Missing)))
    if not reasons:
        return Missing("a dataset of this kind")
    return reasons[0] if len(reasons) == 1 else Missing("any of its datasets")


def _difference(
    view: View, method: str, subject: Subject, columns: Sequence[Column], line: Line
) -> Iterator[Line]:
    """Subtract what was published for this very backbone; another model claims no difference."""
    cells = []
    for column, cell in zip(columns, line.cells, strict=True):
        printed = find_printed(view, subject.backbone, method, column.key)
        if printed is None or not follows(printed) or cell.interval is None or cell.note:
            cells.append(Cell())
            continue
        off, mark = beside(cell, printed)
        cells.append(Cell("", off, mark, digits=cell.digits))
    if any(cell.interval for cell in cells):
        yield Line("difference", f"{subject.name} − paper", tuple(cells))


def _remarks(view: View) -> tuple[str, ...]:
    """List the printed averages of a panel that do not follow from their cells."""
    source = view.table.sources[0]
    wrong = [a for a in disagreeing() if (a.table, a.metric) == (source, view.metric)]
    prompt = view.prompt
    return tuple(
        f"Printed {a.column.replace('_', ' ')} of {a.method}, {a.backbone}: {a.printed:.2f}; its "
        f"cells give {a.recomputed:.2f}."
        for a in wrong
        if view.table.name != "coop" or (COCOOP in a.method.casefold()) == (prompt == COCOOP)
    )


# --- the sheet around panels --------------------------------------------------------------------


def finish(table: Table, book: Book, panels: tuple[Panel, ...], *more: str) -> Sheet:
    """Put what was not run, and what a reader should know, around the panels of a table."""
    reasons = dict.fromkeys(
        cell.why
        for panel in panels
        for row in panel.rows
        for line in row.lines
        for cell in line.cells
        if cell.why and cell.why.detail
    )
    said = [f"The paper: {note}." for source in table.sources for note in notes(source)]
    measured = {m.subject.name for m in book.measures.values()}
    subjects = [s for s in book.subjects if s.name in measured and _asked(table, s)]
    return Sheet(
        table.name, table.title, panels, tuple(reasons), (*said, *more),
        statement(subjects, _deviations(table, book)),
    )  # fmt: skip


def _deviations(table: Table, book: Book) -> dict[str, list[str]]:
    """Say for each dataset what keeps its runs from being the published ones."""
    found: dict[str, list[str]] = {}
    for need in table.needs(repeats=len(book.seeds)):
        for subject in book.subjects:
            if one := book.of(subject, need):
                said = found.setdefault(title(need.dataset), [])
                said += [text for text in one.deviations if text not in said]
    return {name: said for name, said in found.items() if said}
