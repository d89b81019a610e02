"""Needs -> the fewest evaluations that answer them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tammes.datasets import CATALOG
from tammes.encoder import Batch
from tammes.method import METHODS, Method, select_methods
from tammes.paper.results import Need
from tammes.views import ViewSettings

VIEWS = 64  # as published


@dataclass(frozen=True)
class Settings:
    """How to run: everything that a command may choose, with what was published as defaults.

    `datasets` are the benchmarks to run, None for all that are here.
    `coop` and `cocoop` are checkpoints, as files or as a template names them: `cocoop(10):FILE`.
    `augmix` replaces the published choice for every dataset; `seeds` are those of repeated runs, of
    which all other runs take the first.
    """

    root: Path
    out: Path
    datasets: tuple[str, ...] | None = None
    limit: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    views: int = VIEWS
    augmix: bool | None = None
    methods: tuple[str, ...] = tuple(METHODS)
    coop: str | None = None
    cocoop: str | None = None
    download: bool = False
    device: str | None = None
    precision: str | None = None
    batch: Batch = None
    workers: int | None = None
    resamples: int = 1000


@dataclass(frozen=True)
class Job:
    """One call of `evaluate`: what shares a dataset, views and a prompt."""

    dataset: str
    prompt: str
    views: ViewSettings
    needs: dict[str, Need] = field(default_factory=dict, compare=False)
    methods: dict[str, Method] = field(default_factory=dict, compare=False)


def plan(needs: Iterable[Need], settings: Settings) -> list[Job]:
    """Group needs into jobs: each image is encoded once per choice of views, equal runs are one."""
    jobs: dict[tuple[str, str, ViewSettings], Job] = {}
    for need in dict.fromkeys(need.plain for need in needs):
        method, views = method_of(need), views_of(need, settings)
        key = need.dataset, need.prompt, views
        job = jobs.setdefault(key, Job(*key))
        name = need.method if need.weight is None else f"{need.method} (weight={need.weight:g})"
        job.needs[name], job.methods[name] = need, method
    return sorted(jobs.values(), key=_order)


def _order(job: Job) -> tuple[int, int, int, str]:
    """Go through small datasets first, and through what shares view features in one go."""
    size = CATALOG[job.dataset].images or 0
    return size, job.views.count, job.views.seed, job.prompt


def method_of(need: Need) -> Method:
    """Build the method with the weights that were published for the dataset."""
    method = select_methods([need.method], CATALOG[need.dataset].preset)[need.method]
    if need.weight is None:
        return method
    ((_, term),) = method.terms
    return replace(method, terms=((need.weight, term),))


def views_of(need: Need, settings: Settings) -> ViewSettings:
    """Choose the views: the clean one alone for methods that look at no other."""
    if not method_of(need).looks_at_views:
        return ViewSettings(count=1)
    wanted = (need.augmix, settings.augmix, CATALOG[need.dataset].augmix)
    augmix = next(choice for choice in wanted if choice is not None)
    return ViewSettings(settings.views, augmix, settings.seeds[need.repeat % len(settings.seeds)])
