"""Runs and models -> the numbers that a figure shows; what is not here gives its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tammes.backbones import Backbone
from tammes.calibration import Bins, bins
from tammes.datasets import CATALOG
from tammes.method import METHODS
from tammes.paper.columns import title
from tammes.paper.measuring import Book
from tammes.paper.planning import method_of
from tammes.paper.prompting import points_of
from tammes.paper.published import METRIC_NAMES, published
from tammes.paper.registry import HOMES, VIT, need_of, sentence
from tammes.paper.results import Found, Missing, Need, Results, Subject
from tammes.paper.running import Session
from tammes.paper.sheets import write_number
from tammes.paper.studies.embedding import embed_prompts
from tammes.paper.studies.gradients import gradient_norms, mean_angle
from tammes.paper.studies.prompts import LEAST, group_by_accuracy, pooled
from tammes.prompts import DEFAULT_TEMPLATE, Prompt
from tammes.tuner import class_features

SHOWN = ("accuracy", "ece")
MAIN = ("tab:finegrained", "tab:natural")
PUSHING = ("c-tpt", "o-tpt", "a-tpt")  # one term each
SPOKES = 3
CROWDS = ("caltech101", "dtd", "eurosat")  # of which a model takes the first with N < D


@dataclass(frozen=True, eq=False)
class Picture:
    """The numbers of one picture, the runs that they come from, and what it lacks."""

    subject: Subject
    values: Mapping[str, Any]
    dataset: str = ""
    runs: tuple[Found, ...] = ()
    missing: tuple[Missing, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class Source:
    """What pictures are made from: runs and measures of some needs, and the models themselves."""

    needs: tuple[Need, ...]
    results: Results
    book: Book
    sessions: Sequence[Session]

    def runs(self, subject: Subject, needs: Iterable[Need]) -> tuple[Found, ...]:
        """List the runs of a model that were measured."""
        return tuple(found for n in needs if (found := self.results.of(subject, n)))

    def lacks(self, subject: Subject, needs: Iterable[Need]) -> tuple[Missing, ...]:
        """List the reasons of a model's other runs, each once."""
        whys = (self.results.why(subject, n) for n in needs if not self.results.of(subject, n))
        return tuple(dict.fromkeys(whys))

    @property
    def datasets(self) -> dict[str, list[Need]]:
        """The needs, by dataset."""
        names = dict.fromkeys(need.dataset for need in self.needs)
        return {name: [n for n in self.needs if n.dataset == name] for name in names}


Gather = Callable[[Source], Iterator[Picture | Missing]]


# --- methods on datasets ------------------------------------------------------------------------


def over_datasets(source: Source) -> Iterator[Picture | Missing]:
    """Put accuracy and ECE of every method on every dataset into one picture per model."""
    for subject in source.results.subjects:
        runs, lacks = source.runs(subject, source.needs), source.lacks(subject, source.needs)
        if not runs:
            yield from lacks
            continue
        measured: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in SHOWN}
        for need in source.needs:
            if measure := source.book.of(subject, need):
                for name, table in measured.items():
                    row = table.setdefault(need.method, {})
                    row[title(need.dataset)] = measure.metrics[name]
        backbone = subject.backbone or VIT
        values = {"measured": measured, "published": printed(backbone), "published of": backbone}
        yield Picture(subject, values, runs=runs, missing=lacks)


def around_datasets(source: Source) -> Iterator[Picture | Missing]:
    """Put the same into a picture that has a spoke per dataset, where they are enough for one."""
    for answer in over_datasets(source):
        if isinstance(answer, Picture) and len({f.need.dataset for f in answer.runs}) < SPOKES:
            yield Missing("three datasets", "a radar has one spoke for each: tammes paper bars")
            yield from answer.missing
        else:
            yield answer


def printed(backbone: str) -> dict[str, dict[str, dict[str, float]]]:
    """Collect the published accuracy and ECE of every method, as shares, by metric and method."""
    tables: dict[str, dict[str, dict[str, float]]] = {name: {} for name in SHOWN}
    for cell in published():
        need = need_of(cell) if cell.table in MAIN else None
        if need and (need.backbone, need.prompt) == (backbone, DEFAULT_TEMPLATE):
            metric = METRIC_NAMES[cell.metric]
            row = tables[metric.name].setdefault(need.method, {})
            row[title(need.dataset)] = cell.value / metric.factor
    return tables


def bins_of_datasets(source: Source) -> Iterator[Picture | Missing]:
    """Sort the images of each dataset into bins of confidence, method by method."""

    def read(found: Found) -> Bins:
        outcomes = source.results.read(found).outcomes
        return bins(outcomes.confidence, outcomes.correct)

    return _of_datasets(source, read)


def cosines_of_datasets(source: Source) -> Iterator[Picture | Missing]:
    """Read the mean cosine between classes after each image of each dataset."""
    return _of_datasets(source, lambda found: found.run.rows()["cosine"].to_numpy().astype(float))


def _of_datasets(source: Source, read: Callable[[Found], object]) -> Iterator[Picture | Missing]:
    for subject in source.results.subjects:
        for dataset, needs in source.datasets.items():
            runs, lacks = source.runs(subject, needs), source.lacks(subject, needs)
            if runs:
                values = {found.need.method: read(found) for found in runs}
                yield Picture(subject, values, dataset, runs, lacks)
            else:
                yield from lacks


# --- weights and prompts ------------------------------------------------------------------------


def over_weights(source: Source) -> Iterator[Picture | Missing]:
    """Read accuracy and ECE of each method at each of its weights, and of zero-shot."""
    if not source.needs:
        yield Missing("a-tpt among the methods", "name it in --methods")
    for subject in source.results.subjects:
        runs, lacks = source.runs(subject, source.needs), source.lacks(subject, source.needs)
        curves: dict[str, dict[float, Any]] = {}
        plain = {}
        for need in source.needs:
            measure = source.book.of(subject, need)
            if measure and need.method == "zero-shot":
                plain = {"zero-shot": measure.metrics}
            elif measure:
                ((weight, _),) = method_of(need).terms
                curves.setdefault(need.method, {})[weight] = measure.metrics
        if curves:
            values = {"curves": curves, "points": plain}
            yield Picture(subject, values, source.needs[0].dataset, runs, lacks)
        else:
            yield from lacks


def prompts_in_groups(source: Source) -> Iterator[Picture | Missing]:
    """Put prompts of equal accuracy into groups: their angle and their ECE."""
    for subject in source.results.subjects:
        for dataset, needs in source.datasets.items():
            runs, lacks = source.runs(subject, needs), source.lacks(subject, needs)
            points = points_of(source.book, subject, dataset, HOMES[dataset])
            groups = group_by_accuracy(points)
            large = [group for group in groups if group.correlation]
            whole = pooled(groups)
            if whole is None:
                few = Missing(f"{LEAST} prompts of equal accuracy", "no group of them is so large")
                yield from (few,) if points else lacks
                continue
            r, low, high = (write_number(value, 2) for value in astuple(whole.pearson))
            said = f"within groups r = {r} [{low}, {high}], {whole.prompts} prompts"
            values = {_range(*group.accuracy): group.points for group in large}
            yield Picture(subject, values, dataset, runs, lacks, said)


def _range(low: float, high: float) -> str:
    low, high = round(100 * low, 1), round(100 * high, 1)
    return f"{low} % accurate" if low == high else f"{low} to {high} % accurate"


# --- class names alone --------------------------------------------------------------------------


def prompts_in_a_plane(source: Source) -> Iterator[Picture | Missing]:
    """Embed the class features of a dataset's names under the prompts that the text quotes."""
    for subject, backbone in _loaded(source):
        if isinstance(backbone, Missing):
            yield backbone
            continue
        dataset = CROWDS[0]
        rows = {prompt: read_classes(backbone, dataset, prompt) for prompt in quoted(dataset)}
        flat = embed_prompts({prompt: text.cpu().numpy() for prompt, text in rows.items()})
        values = {
            f"“{prompt}” · AD {mean_angle(text):.3f}": flat[prompt] for prompt, text in rows.items()
        }
        yield Picture(subject, values, dataset)


def gradients_of_terms(source: Source) -> Iterator[Picture | Missing]:
    """Differentiate the terms at class features that crowd, fewer than dimensions."""
    for subject, backbone in _loaded(source):
        if isinstance(backbone, Missing):
            yield backbone
            continue
        fits = (name for name in CROWDS if CATALOG[name].classes < backbone.dim)
        dataset = next(fits, CROWDS[-1])
        terms = {name: term for name in PUSHING for _, term in METHODS[name].terms}
        found = gradient_norms(read_classes(backbone, dataset), terms=terms)
        said = f"{CATALOG[dataset].classes} classes in {backbone.dim} dimensions"
        yield Picture(subject, {"angles": found.angles, "norms": found.norms}, dataset, note=said)


def _loaded(source: Source) -> Iterator[tuple[Subject, Backbone | Missing]]:
    for session in source.sessions:
        yield session.subject, session.load()


def quoted(dataset: str) -> list[str]:
    """List the hand-crafted prompts that the text quotes for a dataset."""
    listed = (
        sentence(cell.prompt)
        for cell in published()
        if cell.table.startswith("text:") and cell.dataset == dataset and cell.key == "zero-shot"
    )
    return list(dict.fromkeys(listed))


def read_classes(
    backbone: Backbone, dataset: str, template: str = DEFAULT_TEMPLATE
) -> Float[Tensor, "n d"]:
    """Give unit class features of a benchmark's names: that needs no image."""
    prompt = Prompt.from_template(backbone, CATALOG[dataset].classnames, template)
    with torch.no_grad():
        return class_features(backbone, prompt, prompt.context).float()
