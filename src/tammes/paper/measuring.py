"""Runs -> numbers with intervals, kept in one small file that tables and the ledger are made of."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tammes.calibration import Outcomes
from tammes.errors import DataError
from tammes.paper.results import NOT_ASKED, Found, Missing, Need, Results, Subject
from tammes.records import Run
from tammes.report.results import align
from tammes.statistics import Interval, bootstrap, paired_differences
from tammes.storage import write_atomically

FORMAT = 1
COMPARED = ("accuracy", "ece", "sce")
ABOUT = ("seed", "images", "run", "resamples", "finished", "made_by")
SOFTWARE = ("tammes", "torch", "python")


@dataclass(frozen=True)
class Measure:
    """One run in numbers: metrics, and how they differ from zero-shot's on the same images."""

    subject: Subject
    need: Need
    seed: int
    images: int
    run: str
    resamples: int
    metrics: Mapping[str, Interval]
    against: Mapping[str, Interval] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()
    finished: str = ""
    made_by: str = ""

    @property
    def key(self) -> tuple[str, Need]:
        """What a measure is found by."""
        return self.subject.name, self.need


@dataclass
class Book:
    """All measures, by model and need; a reason stands where there is none."""

    subjects: tuple[Subject, ...] = ()
    measures: dict[tuple[str, Need], Measure] = field(default_factory=dict)
    missing: dict[tuple[str, Need], Missing] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)

    def of(self, subject: Subject, need: Need) -> Measure | None:
        """Find what was measured."""
        return self.measures.get((subject.name, need.plain)) if subject.meets(need) else None

    def why(self, subject: Subject, need: Need) -> Missing:
        """Say why nothing was."""
        return self.missing.get((subject.name, need.plain), NOT_ASKED)

    def add(self, other: Book) -> Book:
        """Take over what another book knows; what it measured replaces what was there.

        Repeats count through the seeds of a command: those of other seeds are forgotten, as is what
        was measured when a model of this name stood for another backbone.
        """
        subjects = {s.name: s for s in (*self.subjects, *other.subjects)}
        known, new = self.seeds, other.seeds
        seeds = known if known[: len(new)] == new else new
        measures = {
            key: one
            for key, one in {**self.measures, **other.measures}.items()
            if (not one.need.repeat or seeds[one.need.repeat : one.need.repeat + 1] == (one.seed,))
            and one.subject.backbone == subjects[one.subject.name].backbone
        }
        missing = {k: m for k, m in {**self.missing, **other.missing}.items() if k not in measures}
        return Book(tuple(subjects.values()), measures, missing, seeds)


def measure_all(results: Results, metrics: Sequence[str], known: Book | None = None) -> Book:
    """Measure every run; numbers of a run that the book knows already are taken from there."""
    known = known or Book()
    measures = {}
    for key, found in results.found.items():
        old = known.measures.get(key)
        if old and (old.run, old.resamples) != (found.run.identity, results.resamples):
            old = None
        lone = old and not old.against and _zero_shot(results, found) is not None
        asked = dict.fromkeys((*metrics, *(old.metrics if old else ())))
        wanted = [name for name in asked if lone or not old or name not in old.metrics]
        new = _measure(results, found, wanted) if wanted else None
        joined = _joined(old, new)
        measures[key] = replace(
            joined, subject=found.subject, deviations=found.deviations, made_by=_made_by(found.run)
        )
    dims = {found.subject.name: found.subject for found in results.found.values()}
    subjects = tuple(dims.get(subject.name, subject) for subject in results.subjects)
    return Book(subjects, measures, dict(results.missing), results.seeds)


def _joined(old: Measure | None, new: Measure | None) -> Measure:
    """Put what was known beside what is new."""
    if old is None or new is None:
        kept = old or new
        assert kept
        return kept
    return replace(
        new, metrics={**old.metrics, **new.metrics}, against={**old.against, **new.against}
    )


def _measure(results: Results, found: Found, metrics: Sequence[str]) -> Measure:
    result = results.read(found)
    names = [name for name in metrics if _answers(result.outcomes, name)]
    values = bootstrap(result.outcomes, names, results.resamples)
    return Measure(
        found.subject,
        found.need,
        results.seeds[found.need.repeat % len(results.seeds)],
        len(result.outcomes),
        found.run.identity,
        results.resamples,
        {name: v for name, v in values.items() if math.isfinite(v.value)},
        _against_zero_shot(results, found, [n for n in names if n in COMPARED]),
        found.deviations,
        found.run.finished,
    )


def _made_by(run: Run) -> str:
    """Say which command and which versions made a run; of folders outside, only the names."""
    program, *words = run.command or ("",)
    named = [re.sub(r"^(.*=)?[/~](.*/)?", r"\1", word) for word in words]
    versions = (f"{name} {run.versions[name]}" for name in SOFTWARE if name in run.versions)
    return f"{shlex.join([Path(program).name, *named])} ({', '.join(versions)})"


def _answers(outcomes: Outcomes, metric: str) -> bool:
    needed = {"sce": "probs", "angle": "angle"}.get(metric)
    return needed is None or getattr(outcomes, needed) is not None


def _against_zero_shot(
    results: Results, found: Found, metrics: Sequence[str]
) -> Mapping[str, Interval]:
    """Compare a run to zero-shot with the same prompt, image by image."""
    reference = _zero_shot(results, found)
    if reference is None or not metrics:
        return {}
    pair = align(results.read(found), results.read(reference))
    return paired_differences(*pair, metrics, results.resamples) if pair else {}


def _zero_shot(results: Results, found: Found) -> Found | None:
    """Find what a run is compared to, unless it is that itself."""
    if found.need.method == "zero-shot":
        return None
    return results.of(found.subject, replace(found.need, method="zero-shot", weight=None))


# --- on disk ------------------------------------------------------------------------------------


def write_book(book: Book, path: Path) -> None:
    """Keep a book as JSON, a line per measure."""
    rows = [_record(m) for _, m in sorted(book.measures.items(), key=lambda kv: repr(kv[0]))]
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    head = json.dumps(list(book.seeds))
    text = f'{{\n "format": {FORMAT},\n "seeds": {head},\n "measures": [\n{lines}\n ]\n}}\n'
    write_atomically(path, text.encode())


def _record(measure: Measure) -> dict[str, Any]:
    """Write a measure without what is as usual."""
    usual = Need("")
    need = {k: v for k, v in asdict(measure.need).items() if v != getattr(usual, k)}
    rows = {
        name: {k: _rounded(v) for k, v in getattr(measure, name).items()}
        for name in ("metrics", "against")
    }
    about = {name: getattr(measure, name) for name in ABOUT}
    return {
        "subject": asdict(measure.subject),
        "need": need,
        **about,
        "deviations": list(measure.deviations),
        **rows,
    }


def _rounded(interval: Interval) -> list[float]:
    return [round(value, 7) for value in (interval.value, interval.low, interval.high)]


def read_book(path: Path) -> Book:
    """Read a book; one that is not there is empty."""
    if not path.is_file():
        return Book()
    try:
        record = json.loads(path.read_bytes())
        if record["format"] != FORMAT:
            raise DataError(f"{path}: format {record['format']}, this version reads {FORMAT}")
        measures = [_measure_of(row) for row in record["measures"]]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DataError(f"{path} does not hold measures: {problem!r}. Delete it") from problem
    subjects = {m.subject.name: m.subject for m in measures}
    return Book(tuple(subjects.values()), {m.key: m for m in measures}, {}, tuple(record["seeds"]))


def _measure_of(row: Mapping[str, Any]) -> Measure:
    given = dict(row)
    metrics, against = (
        {name: Interval(*values) for name, values in given.pop(part).items()}
        for part in ("metrics", "against")
    )
    subject, need = Subject(**given.pop("subject")), Need(**given.pop("need"))
    deviations = tuple(given.pop("deviations"))
    return Measure(subject, need, metrics=metrics, against=against, deviations=deviations, **given)


def average(parts: Iterable[tuple[float, Interval]], skewed: bool = False) -> Interval:
    """Average independent measures by weight; the widths of their intervals add in quadrature.

    The middle of an interval is averaged like the value, which need not lie within: that they are
    apart is a bias, which does not average out. Intervals that are `skewed` without a bias, as
    those of deviations, have each side for itself.
    """
    listed = list(parts)
    total = sum(weight for weight, _ in listed)
    value = sum(weight * one.value for weight, one in listed) / total
    if skewed:
        below, above = (
            math.sqrt(sum((weight * side(one)) ** 2 for weight, one in listed)) / total
            for side in (lambda one: one.value - one.low, lambda one: one.high - one.value)
        )
        return Interval(value, value - below, value + above)
    middle = sum(weight * (one.low + one.high) / 2 for weight, one in listed) / total
    squares = sum((weight * (one.high - one.low)) ** 2 for weight, one in listed)
    half = math.sqrt(squares) / 2 / total
    return Interval(value, middle - half, middle + half)
