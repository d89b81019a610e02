"""`tammes bench`: datasets × models × methods -> runs that a report reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from tammes.cli import data as of_data
from tammes.cli import options
from tammes.cli.choices import own_method, read_names
from tammes.cli.console import end_unread, say
from tammes.cli.data import Benchmark, open_benchmark

if TYPE_CHECKING:
    from tammes.method import Method

Out = Annotated[
    Path,
    Option(
        "--out",
        "-o",
        help="Folder of the runs; what it holds is not done again.",
        rich_help_panel=options.OUTPUT,
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        "--model",
        "-m",
        help="pocket (the default), a name of `tammes list models`, a checkpoint or a model "
        "folder. May be given several times.",
        rich_help_panel=options.MODEL,
    ),
]
MethodNames = Annotated[
    str | None,
    Option(
        help="all, or names of `tammes list methods` with commas between them. By default all, or "
        "just the --term that is given.",
        rich_help_panel=options.METHOD,
    ),
]
Preset = Annotated[
    str | None,
    Option(
        help="Weights of the terms: fine-grained, or shift for ImageNet's variants. By default "
        "what was published for the benchmark, else fine-grained.",
        rich_help_panel=options.METHOD,
    ),
]
AugMix = Annotated[
    bool | None,
    Option(
        "--augmix/--no-augmix",
        help="Mix the views. By default what was published for the benchmark, else not.",
        rich_help_panel=options.VIEWS,
    ),
]


def bench(
    data: of_data.Data,
    out: Out,
    root: of_data.Root = None,
    part: of_data.Part = "test",
    split: of_data.Split = None,
    classes_file: of_data.ClassesFile = None,
    limit: of_data.Limit = None,
    methods: MethodNames = None,
    term: options.Terms = None,
    preset: Preset = None,
    template: options.Template = options.TEMPLATE,
    temperature: options.Temperature = 1.0,
    model: Models = None,
    device: options.Device = None,
    precision: options.Precision = None,
    views: options.Views = 64,
    augmix: AugMix = None,
    seed: options.Seed = 0,
    batch: options.Batch = None,
    workers: options.Workers = None,
) -> None:
    """Run methods over labeled images and show the table.

    Images are encoded once for all methods. What was interrupted is finished by the same command,
    and more methods, models and datasets may join the same folder later.
    """
    from tammes.backbones import load_backbone
    from tammes.classifier import build_prompt
    from tammes.cli.reporting import show
    from tammes.evaluate import evaluate
    from tammes.progress import Bar
    from tammes.views import ViewSettings

    names = read_names(classes_file) if classes_file else None
    found = [open_benchmark(spec, root, part, split, names, limit) for spec in data]
    chosen = [_choose(methods, term or [], preset or one.preset, temperature) for one in found]
    runs = []
    for name in model or ["pocket"]:
        backbone = load_backbone(name, device, precision)
        for one, wanted in zip(found, chosen, strict=True):
            _announce(one, name, list(wanted))
            prompt = build_prompt(backbone, one.dataset.classnames, template)
            settings = ViewSettings(views, one.augmix if augmix is None else augmix, seed)
            with Bar() as bar:
                runs += evaluate(
                    one.dataset, backbone, prompt, wanted, out,
                    views=settings, batch=batch, workers=workers, progress=bar,
                )  # fmt: skip
    show(runs)
    skipped = {(run.dataset, name) for run in runs for name in run.skipped}
    end_unread(len(skipped), "the tables say which, and every run.json why")


def _choose(
    methods: str | None, terms: list[str], preset: str, temperature: float
) -> dict[str, Method]:
    from tammes.method import select_methods

    named = methods or (None if terms else "all")
    found = select_methods(named, preset, temperature) if named else {}
    return {**found, **own_method(terms, temperature)}


def _announce(one: Benchmark, model: str, methods: list[str]) -> None:
    dataset = one.dataset
    say(
        f"{dataset.name}: {len(dataset)} images of {len(dataset.classnames)} classes, {model}, "
        f"{', '.join(methods)}"
    )
    for remark in dataset.remarks:
        say(f"{dataset.name}: {remark}")
    if dataset.ignored:
        say(f"{len(dataset.ignored)} files there are left out, the first is {dataset.ignored[0]}")
