"""Run what is missing, model by model and job by job; what cannot run gets a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tammes.backbones import Backbone
from tammes.backbones.checkpoint import read_weights
from tammes.datasets import CATALOG, Dataset, PackedFile, load_dataset
from tammes.datasets.search import NotHere
from tammes.errors import DataError, PromptError, TammesError
from tammes.evaluate import evaluate
from tammes.features import Progress
from tammes.paper.models import Model, lacking, load_model
from tammes.paper.planning import VIEWS, Job, Settings, plan
from tammes.paper.registry import WEIGHTS
from tammes.paper.results import COCOOP, COOP, Found, Missing, Need, Results, Subject
from tammes.prompts import build_prompt, clean_classnames
from tammes.records import Run

Say = Callable[[str], None]
LEARNED = {COOP: "a CoOp context", COCOOP: "a CoCoOp checkpoint"}
KEPT_CLASSES = 400  # up to which all probabilities are kept: SCE needs them, 1000 would fill disks


class Runner:
    """Measures all that can be measured here; what an earlier call finished is only read."""

    def __init__(
        self,
        models: Sequence[Model],
        settings: Settings,
        say: Say = lambda text: None,
        progress: Progress | None = None,
    ) -> None:
        self._settings = settings
        self.datasets = Datasets(settings, say)
        alone = len(models) == 1
        _refuse_namesakes(models)
        self.sessions = [
            Session(model, settings, self.datasets, say, progress, alone) for model in models
        ]

    def check_starts(self) -> None:
        """Read the models and learned starts that are given, and say what does not fit."""
        for session in self.sessions:
            if len(self.sessions) > 1:
                session.load()  # the last one may be damaged, and the first may take days
            session.check_starts()

    def run(self, needs: Iterable[Need]) -> Results:
        """Answer needs with every model that they concern."""
        found: dict[tuple[str, Need], Found] = {}
        missing: dict[tuple[str, Need], Missing] = {}
        listed, settings = list(needs), self._settings
        for session in self.sessions:
            subject = session.model.subject
            for job in plan([need for need in listed if subject.meets(need)], settings):
                answer = session.run(job)
                for name, need in job.needs.items():
                    if isinstance(answer, Missing):
                        missing[subject.name, need] = answer
                    else:
                        found[subject.name, need] = answer[name]
        return Results(self.subjects, found, missing, settings.seeds, settings.resamples)

    @property
    def skipped(self) -> set[tuple[str, str]]:
        """The images that could not be read, by dataset."""
        return set().union(*(session.skipped for session in self.sessions))

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The models, with the dimensions of those that were loaded."""
        return tuple(session.subject for session in self.sessions)


def _refuse_namesakes(models: Sequence[Model]) -> None:
    """Refuse models that results could not tell apart: they are filed by the name of a file."""
    names = [model.subject.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        which = " and ".join(model.name for model in models if model.subject.name == twice)
        raise TammesError(
            f"{which} would both be called {twice}: rename one of them, or run them one by one "
            "with an --out of their own"
        )


class Datasets:
    """The benchmarks below the data root, each looked for once."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self._settings, self._say = settings, say
        self._known: dict[str, Dataset | Missing] = {}
        self.unread: set[str] = set()  # of which not one image can be read

    def find(self, name: str) -> Dataset | Missing:
        """Find the images of a benchmark that are to be answered, or say what was looked for."""
        chosen = self._settings.datasets
        if chosen is not None and name not in chosen:
            return Missing(CATALOG[name].names[0], "left out: --datasets names others")
        found, limit = self.whole(name), self._settings.limit
        return found if isinstance(found, Missing) or limit is None else found.subset(limit)

    def whole(self, name: str) -> Dataset | Missing:
        """Find a benchmark with all that it has."""
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def _look(self, name: str) -> Dataset | Missing:
        title = CATALOG[name].names[0]
        try:
            return load_dataset(name, self._settings.root)
        except NotHere as absent:
            return Missing(title, str(absent), place=str(self._settings.root))
        except TammesError as problem:  # it is here, and half of it, or another set by its name
            return self._faulty(name, problem)

    def leave_out(self, name: str, problem: TammesError) -> Missing:
        """Forget a dataset that turned out to hold no readable image: it is not tried again."""
        self.unread.add(name)
        self._known[name] = missing = self._faulty(name, problem)
        return missing

    def _faulty(self, name: str, problem: TammesError) -> Missing:
        title = CATALOG[name].names[0]
        self._say(f"{title} is left out: {problem}")
        return Missing(f"{title} without faults", str(problem))


class Session:
    """One model's runs: it is loaded when the first job has its images."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        datasets: Datasets,
        say: Say,
        progress: Progress | None,
        alone: bool,
    ) -> None:
        self.model, self._settings, self._datasets = model, settings, datasets
        self._say, self._progress, self._alone = say, progress, alone
        self._backbone: Backbone | Missing | None = None
        self.skipped: set[tuple[str, str]] = set()

    def run(self, job: Job) -> dict[str, Found] | Missing:
        """Evaluate a job, by the names of its methods, or say what it needs."""
        dataset = self._datasets.find(job.dataset)
        lacks = [m for m in (dataset, self._lacks_prompt(job)) if isinstance(m, Missing)]
        backbone = self.load() if not lacks else lacking(self.model, self._settings.download)
        if isinstance(backbone, Missing):
            lacks.append(backbone)
        if lacks:
            return _together(lacks)
        assert isinstance(dataset, Dataset)
        assert isinstance(backbone, Backbone)
        self._say(_announcement(self.subject.name, dataset, job))
        try:
            runs = self._evaluate(job, dataset, backbone)
        except PromptError as problem:
            if self._alone:
                raise
            return Missing(f"a prompt that fits {self.subject.name}", str(problem))
        except DataError as problem:  # no image of it can be read: other datasets may be whole
            return self._datasets.leave_out(job.dataset, problem)
        self.skipped |= {(run.dataset, image) for run in runs for image in run.skipped}
        return {run.method: self._found(run, dataset, job) for run in runs}

    @property
    def subject(self) -> Subject:
        """The model, with its dimensions once it was loaded."""
        dim = self._backbone.dim if isinstance(self._backbone, Backbone) else None
        return replace(self.model.subject, dim=dim)

    def _found(self, run: Run, dataset: Dataset, job: Job) -> Found:
        need, method = job.needs[run.method], job.methods[run.method]
        return Found(self.subject, need, run, method, deviations(run, dataset, job))

    def load(self) -> Backbone | Missing:
        """Load the model, once."""
        if self._backbone is None:
            self._backbone = load_model(self.model, self._settings, self._settings.precision)
        return self._backbone

    def _lacks_prompt(self, job: Job) -> Missing | None:
        """Say what a learned prompt needs that the command does not give."""
        if job.prompt not in LEARNED or getattr(self._settings, job.prompt) is not None:
            return None
        home = f" for {self.model.backbone}" if self.model.backbone else ""
        advice = f"pass --{job.prompt} FILE; tammes train {job.prompt} makes one"
        return Missing(LEARNED[job.prompt] + home, advice)

    def _starts(self) -> dict[str, str]:
        """Name the learned starts that are given, as a template names them."""
        given = {name: getattr(self._settings, name) for name in LEARNED}
        return {
            name: text if re.match(rf"{name}(\(.*\))?:", text) else f"{name}:{text}"
            for name, text in given.items()
            if text is not None
        }

    def check_starts(self) -> None:
        """Read the learned starts before anything is run: what does not fit is told at once."""
        starts = self._starts()
        for text in starts.values():
            read_weights(text.partition(":")[2])
        backbone = self.load() if starts else None
        if isinstance(backbone, Backbone) and self._alone:
            for text in starts.values():
                build_prompt(backbone, ["thing"], text)

    def _evaluate(self, job: Job, dataset: Dataset, backbone: Backbone) -> list[Run]:
        names = dataset.classnames
        prompt = build_prompt(backbone, names, self._starts().get(job.prompt, job.prompt))
        return evaluate(
            dataset, backbone, prompt, job.methods, self._settings.out,
            views=job.views, batch=self._settings.batch, workers=self._settings.workers,
            progress=self._progress, keep_log_probs=len(names) <= KEPT_CLASSES,
        )  # fmt: skip


def _together(lacks: Iterable[Missing]) -> Missing:
    """Make one reason of several."""
    listed = list(lacks)
    if len(listed) == 1:
        return listed[0]
    return Missing(
        " and ".join(m.needs for m in listed), "; ".join(m.detail for m in listed if m.detail)
    )


def _announcement(model: str, dataset: Dataset, job: Job) -> str:
    views = f"{job.views.count} views" if job.views.count > 1 else "the clean view"
    mixed = ", AugMix" if job.views.augmix else ""
    seed = f", seed {job.views.seed}" if job.views.seed else ""
    return (
        f"{dataset.name}: {len(dataset)} images, {views}{mixed}{seed}, {model}, “{job.prompt}”: "
        f"{', '.join(job.methods)}"
    )


def deviations(run: Run, dataset: Dataset, job: Job) -> tuple[str, ...]:
    """Say in words what keeps a run from being the published one, whatever the model."""
    entry, found = CATALOG[dataset.name], []
    if entry.images and len(dataset) != entry.images:
        found.append(f"{len(dataset):,} of {entry.images:,} images")
    own, known = (clean_classnames(some.classnames) for some in (dataset, entry))
    if len(own) != len(known):
        found.append(f"{len(own):,} of {len(known):,} classes")
    elif others := sum(a != b for a, b in zip(own, known, strict=True)):
        found.append(f"{others} class names of its own")
    if isinstance(dataset.items[0].source, PackedFile):
        found.append(f"the images of the pack {dataset.items[0].source.archive.name}")
    if run.skipped:
        found.append(f"{len(run.skipped)} images skipped")
    looks = job.methods[run.method].looks_at_views
    if looks and job.views.count != VIEWS:
        found.append(f"{job.views.count} of {VIEWS} views")
    if looks and job.views.augmix != entry.augmix:
        found.append("AugMix" if job.views.augmix else "no AugMix")
    return tuple(found)


def requirement(need: Need) -> str:
    """Say what a published number needs to be measured."""
    parts = [CATALOG[need.dataset].names[0]] if need.dataset in CATALOG else []
    if need.prompt in LEARNED:
        parts.append(LEARNED[need.prompt])
    if need.backbone in WEIGHTS:
        parts.append(f"the weights {WEIGHTS[need.backbone]}")
    return " and ".join(parts)
