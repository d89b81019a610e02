"""What tables and figures are made of: the runs they need, and those that were found or measured.

A table or figure lists `Need`s. The runner turns each into one run per model and hands the drawing
code a `Results`, which reads a run when it is asked for and keeps only a few in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tammes.datasets import CATALOG
from tammes.method import METHODS, PRESETS, Method
from tammes.paper.published import PublishedCell, published
from tammes.prompts import DEFAULT_TEMPLATE
from tammes.records import Run
from tammes.report.reading import read_run
from tammes.report.results import Result

COOP, COCOOP = "coop", "cocoop"  # prompts that are learned: the user's checkpoints
KEPT = 8  # results in memory: with 1000 classes, one may hold 200 MB


@dataclass(frozen=True)
class Need:
    """One run that a table or a figure asks for.

    `dataset` and `method` are names of CATALOG and METHODS. `backbone` is the published one
    ("ViT-B/16", "RN50"); another model stands in for every backbone. `prompt` is a template, "coop"
    or "cocoop". `repeat` counts through the seeds of the command. `weight` replaces the published λ
    of the method's only term, `augmix` the published choice of views.
    """

    dataset: str
    method: str = "zero-shot"
    prompt: str = DEFAULT_TEMPLATE
    backbone: str = ""
    repeat: int = 0
    weight: float | None = None
    augmix: bool | None = None

    @property
    def plain(self) -> Need:
        """The same run in one way of writing: equal needs of different tables meet here.

        A method that looks at no random view has no seed; published weights and views need no name.
        """
        entry = CATALOG.get(self.dataset)
        looks = self.method not in METHODS or METHODS[self.method].looks_at_views
        usual = entry and PRESETS[entry.preset].get(self.method)
        return replace(
            self,
            backbone="",
            repeat=self.repeat if looks else 0,
            augmix=None if not looks or (entry and self.augmix == entry.augmix) else self.augmix,
            weight=None if self.weight == usual else self.weight,
        )


@dataclass(frozen=True)
class Subject:
    """A model that is measured; `backbone` says which published one it is, "" if it is none."""

    name: str
    backbone: str = ""
    dim: int | None = None

    def meets(self, need: Need) -> bool:
        """Whether this model is asked for: a published backbone answers for itself alone."""
        return not (self.backbone and need.backbone) or self.backbone == need.backbone


@dataclass(frozen=True)
class Found:
    """A run that was measured, with what it answers to."""

    subject: Subject
    need: Need
    run: Run
    method: Method
    deviations: tuple[str, ...] = ()  # from the published setting, in words


@dataclass(frozen=True)
class Missing:
    """Why something was not run: what it needs, and all that helps to provide it.

    `place` is the folder in which a dataset was looked for in vain.
    """

    needs: str
    detail: str = ""
    place: str = ""

    @property
    def brief(self) -> str:
        """The detail in a line that many may share."""
        if not self.place:
            return self.detail
        command = f"tammes datasets check NAME --root {self.place}"
        return f"not found below {self.place}; {command} says what was looked for"

    def __str__(self) -> str:
        return f"not run: needs {self.needs}" + (f" ({self.detail})" if self.detail else "")


def reasons(missing: Iterable[Missing]) -> Iterator[str]:
    """Say what is needed and why, in a line for all that share a reason."""
    shared: dict[str, list[str]] = {}
    for one in missing:
        shared.setdefault(one.brief, []).append(one.needs)
    for why, needs in shared.items():
        yield f"{', '.join(dict.fromkeys(needs))}: {why}".removesuffix(": ")


NOT_ASKED = Missing("to be asked for", "this command ran other tables, methods or models")


@dataclass(eq=False)
class Results:
    """Everything that was measured, and why the rest was not."""

    subjects: tuple[Subject, ...]
    found: Mapping[tuple[str, Need], Found] = field(default_factory=dict)
    missing: Mapping[tuple[str, Need], Missing] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    resamples: int = 1000
    _read: OrderedDict[str, Result] = field(default_factory=OrderedDict, repr=False)

    @property
    def published(self) -> tuple[PublishedCell, ...]:
        """Every published number."""
        return published()

    def of(self, subject: Subject, need: Need) -> Found | None:
        """Find the run of a model, or None; `why` says why."""
        return self.found.get((subject.name, need.plain)) if subject.meets(need) else None

    def why(self, subject: Subject, need: Need) -> Missing:
        """Say what a run that is not there needs."""
        if not subject.meets(need):
            return Missing(f"{need.backbone}, which {subject.name} is not")
        return self.missing.get((subject.name, need.plain), NOT_ASKED)

    def read(self, found: Found) -> Result:
        """Read the rows of a run: outcomes, ids, and class features where the run kept them."""
        key = found.run.identity
        if key not in self._read:
            self._read[key] = read_run(found.run)
            while len(self._read) > KEPT:
                self._read.popitem(last=False)
        self._read.move_to_end(key)
        return self._read[key]

    def among(self, needs: Iterable[Need]) -> Iterator[tuple[Found, Result]]:
        """Go through the measured runs of some needs, model by model."""
        listed = list(needs)
        for subject in self.subjects:
            for need in listed:
                if found := self.of(subject, need):
                    yield found, self.read(found)
