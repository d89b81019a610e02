"""The columns that every table shows: what to read from a row, and how to write it."""

from __future__ import annotations

from dataclasses import dataclass

from tammes.calibration import METRICS
from tammes.report.summary import COMPARED, Comparison, Effect, Row
from tammes.statistics import Interval

MISSING = "–"
SAME = "≈"
TITLES = {
    "accuracy": ("Accuracy", "%"),
    "ece": ("ECE", "%"),
    "sce": ("SCE", "%"),
    "mean_confidence": ("Confidence", "%"),
    "gap": ("Gap", "points"),
    "angle": ("AD", "rad"),
    "image_independent": ("Indep.", "%"),
}
LEGEND = {
    "ECE": "expected calibration error, 20 bins",
    "SCE": "the same for every class's probability, averaged",
    "Gap": "mean confidence − accuracy; above 0 is overconfident",
    "AD": "mean angle from a class to its nearest neighbor",
    "Indep.": "image-independent share: coordinates of the step whose sign the term sets alone",
}


@dataclass(frozen=True)
class Cell:
    """A number, the range it may lie in, and whether it is better, worse or the same (≈)."""

    value: str
    low: str = ""
    high: str = ""
    effect: Effect | None = None

    @property
    def brackets(self) -> str:
        """The range as tables print it."""
        return f"[{self.low}, {self.high}]" if self.low else ""

    @property
    def marked(self) -> str:
        """The value, behind ≈ where it cannot be told apart from 0."""
        return f"{SAME} {self.value}" if self.effect == "same" else self.value

    @property
    def word(self) -> str:
        """Say which way a real difference goes, for those who see no color."""
        return self.effect if self.effect in ("better", "worse") else ""


@dataclass(frozen=True)
class Column:
    """One metric, or one metric's difference to a reference."""

    metric: str
    reference: str | None = None

    @property
    def head(self) -> tuple[str, str]:
        """The title in two lines: what it is, and its unit or what it is compared to."""
        if self.reference is None:
            return TITLES[self.metric]
        return f"Δ {METRICS[self.metric].title}", f"to {self.reference}"

    @property
    def title(self) -> str:
        """The title in one line."""
        return " ".join(self.head)

    @property
    def short(self) -> str:
        """The metric's name alone."""
        return METRICS[self.metric].title

    def cell(self, row: Row, digits: int = 1) -> Cell:
        """Write what the row holds here."""
        if self.reference is None:
            found = row.metrics.get(self.metric)
            return Cell(MISSING) if found is None else _cell(found, self.spec(digits))
        found = row.against.get(self.reference, {}).get(self.metric)
        effect = row.effect(self.reference, self.metric)
        return Cell(MISSING) if found is None else _cell(found, f"+.{digits}%", effect)

    def spec(self, digits: int) -> str:
        """Give the format of the metric's values: a number of percent, or of radians."""
        if self.metric == "angle":
            return f".{digits + 2}f"
        digits += self.metric == "sce"  # a mean over classes, most of which are never claimed
        return f"+.{digits}%" if self.metric == "gap" else f".{digits}%"


METRIC_COLUMNS = tuple(Column(metric) for metric in TITLES)


def difference_columns(comparison: Comparison, static: bool = False) -> tuple[Column, ...]:
    """Give the differences to zero-shot, to the static prompt if asked, and to TPT, where run."""
    references = (comparison.zero_shot, comparison.static if static else None, comparison.tpt)
    return tuple(Column(metric, name) for name in references if name for metric in COMPARED)


def _cell(interval: Interval, spec: str, effect: Effect | None = None) -> Cell:
    value, low, high = (
        write_number(x, spec) for x in (interval.value, interval.low, interval.high)
    )
    return Cell(value, low, high, effect)


def write_number(value: float, spec: str) -> str:
    """Write without the percent sign, which stands in the title, and with a true minus."""
    text = format(value, spec).rstrip("%")
    return text.replace("-", "+" if float(text) == 0 else "−")
