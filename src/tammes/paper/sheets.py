"""A table ready to be written: lines of published, measured and differing numbers, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tammes.paper.published import PublishedCell
from tammes.paper.results import Missing, Subject
from tammes.statistics import Interval, told_apart

Kind = Literal["published", "known", "measured", "difference"]
Mark = Literal["", "same", "better", "worse"]
SIGNS = {"": "", "same": "≈", "better": "▲", "worse": "▼"}
MINUS = "−"
BIASED = ("ECE", "SCE")  # published metrics that noise makes larger


@dataclass(frozen=True)
class Value:
    """A measured number: its difference to zero-shot, a deviation's mean, the images behind it."""

    interval: Interval
    difference: Interval | None = None
    mean: str = ""
    images: int = 0


@dataclass(frozen=True)
class Cell:
    """One place of a table: a printed text, a number with its interval, or why there is none.

    `mark` compares: a measured number to zero-shot's, a difference to 0. `mean` stands before
    a deviation; `few` says that too few images are behind it to tell anything apart.
    """

    text: str = ""
    interval: Interval | None = None
    mark: Mark = ""
    note: str = ""
    why: Missing | None = None
    digits: int = 1
    mean: str = ""
    few: bool = False

    @property
    def number(self) -> str:
        """The number, or what stands in its place."""
        if self.interval is None:
            return self.text or (f"not run: needs {self.why.needs}" if self.why else "")
        number = write_number(self.interval.value, self.digits)
        return f"{self.mean} ± {number}" if self.mean else number

    @property
    def range(self) -> str:
        """The interval in brackets."""
        if self.interval is None or self.interval.low == self.interval.high:
            return ""
        low, high = (write_number(x, self.digits) for x in (self.interval.low, self.interval.high))
        return f"[{low}, {high}]"

    @property
    def sign(self) -> str:
        """≈, ▲ or ▼."""
        return SIGNS[self.mark]

    def __str__(self) -> str:
        note = f"({self.note})" if self.note else ""
        return " ".join(filter(None, (self.number, self.range, self.sign, note)))


@dataclass(frozen=True)
class Line:
    """One line of a row: where its numbers come from, and a cell per column."""

    kind: Kind
    label: str
    cells: tuple[Cell, ...]

    @property
    def runs(self) -> bool:
        """Whether anything stands here."""
        return any(cell.text or cell.interval for cell in self.cells)


@dataclass(frozen=True)
class Row:
    """One row, as a method: published lines first, then measured ones and their differences."""

    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Panel:
    """One metric of a table under one prompt."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """A whole table: panels, what was not run and why, and what a reader should know."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    statement: str = ""


def write_number(value: float, digits: int) -> str:
    """Write with a true minus, and no minus before zero."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else MINUS)


def scaled(interval: Interval, factor: float) -> Interval:
    """Write an interval in the printed unit."""
    return Interval(interval.value * factor, interval.low * factor, interval.high * factor)


def beside(cell: Cell, printed: PublishedCell) -> tuple[Interval, Mark]:
    """Subtract a printed number: `same` where the two cannot be told apart.

    Intervals of calibration errors are corrected for the estimator's bias, which the printed number
    has as well: here they lie around the difference itself. Printed numbers are rounded.
    """
    found = cell.interval
    assert found
    below, above = found.value - found.low, found.high - found.value
    if printed.metric in BIASED:
        below = above = (below + above) / 2
    off, rounded = found.value - printed.value, printed.step / 2
    whole = Interval(off, off - max(below, 0) - rounded, off + max(above, 0) + rounded)
    return whole, ("" if told_apart(whole) and not cell.few else "same")


def effect(difference: Interval | None, higher_is_better: bool) -> Mark:
    """Say how a method does against zero-shot."""
    if difference is None:
        return ""
    if not told_apart(difference):
        return "same"
    return "better" if (difference.low > 0) == higher_is_better else "worse"


def statement(subjects: Iterable[Subject], deviations: Mapping[str, Iterable[str]]) -> str:
    """Say what may be concluded: nothing is a reproduction that was not run as published."""
    listed = list(subjects)
    own = [s.name for s in listed if s.backbone]
    other = [s.name for s in listed if not s.backbone]
    parts = []
    if other:
        parts.append(
            f"None of the paper's backbones: {', '.join(other)}. These numbers stand beside the "
            "published ones for orientation and reproduce nothing."
        )
    if own:
        parts.append(
            f"Compared to what was published: {', '.join(own)}. Behind a difference, ≈ says that "
            "it cannot be told apart from 0 on these images."
        )
    if listed:
        parts.append(
            "Behind a measured number, ▲ is better and ▼ worse than zero-shot, and ≈ cannot be "
            "told apart from it (paired 95 % intervals, from 30 images on)."
        )
    if deviations:
        said = (f"{name}: {', '.join(found)}" for name, found in deviations.items())
        parts.append(f"Not as published: {'; '.join(said)}.")
    return " ".join(parts)
