"""`tammes classify`: images and class names in, probabilities out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from tammes.cli import options
from tammes.cli.answers import Row, write_csv, write_json, write_table
from tammes.cli.choices import own_method, read_classes
from tammes.cli.console import say
from tammes.errors import TammesError

if TYPE_CHECKING:
    from tammes.classifier import ZeroShotClassifier
    from tammes.method import Method

Images = Annotated[
    list[str],
    Argument(
        metavar="IMAGES", help="Image files, folders (with all that is below them), quoted globs."
    ),
]
MethodName = Annotated[
    str | None,
    Option(
        help="One of `tammes list methods`. By default a-tpt.",
        rich_help_panel=options.METHOD,
    ),
]
Top = Annotated[
    int | None,
    Option(
        help="Classes shown per image. By default 5 in the table, all in JSON.",
        min=1,
        rich_help_panel=options.OUTPUT,
    ),
]
AsCsv = Annotated[
    bool,
    Option("--csv", help="Write CSV, with a column per class.", rich_help_panel=options.OUTPUT),
]


def classify(
    images: Images,
    classes: options.Classes = None,
    classes_file: options.ClassesFile = None,
    method: MethodName = None,
    term: options.Terms = None,
    preset: options.Preset = options.PRESET,
    template: options.Template = options.TEMPLATE,
    temperature: options.Temperature = 1.0,
    model: options.Model = "pocket",
    device: options.Device = None,
    precision: options.Precision = None,
    views: options.Views = 64,
    augmix: options.AugMix = False,
    seed: options.Seed = 0,
    batch: options.Batch = None,
    workers: options.Workers = None,
    top: Top = None,
    as_json: options.AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Classify images by the names of the classes alone.

    Answers go to stdout, everything else to stderr. An image that cannot be read is an answer with
    its reason, and the exit code is then 1; 2 means that the command itself was refused.
    """
    if as_json and as_csv:
        raise TammesError("either --json or --csv, not both")
    names = read_classes(classes, classes_file)
    title, chosen = _choose(method, term or [])
    from tammes.classifier import ZeroShotClassifier

    classifier = ZeroShotClassifier(
        model, chosen, template, preset=preset, temperature=temperature,
        views=views, augmix=bool(augmix), seed=seed, device=device, precision=precision,
        batch_size=batch, workers=workers, on_error="nan",
        progress=False if (as_json or as_csv) and sys.stdout.isatty() else None,
    )  # fmt: skip
    paths = find_images(images)
    rows = _answer(classifier.fit(names), paths, title)
    if as_json:
        failed = write_json(rows, top)
    elif as_csv:
        failed = write_csv(rows, names)
    else:
        failed = write_table(rows, top or 5)
    if failed:
        say(f"{failed} of {len(paths)} images could not be read")
        raise Exit(1)


def find_images(given: Iterable[str]) -> list[str]:
    """List images once each: files as given, those in folders, those that globs match."""
    return list(dict.fromkeys(path for text in given for path in _expand(text)))


def _expand(text: str) -> list[str]:
    """What leads nowhere stays as it is: it is answered with its reason."""
    from tammes.datasets.folders import is_image, walk

    try:
        path = Path(text)
        if path.is_dir():
            return [str(path / name) for name in sorted(walk(path)) if is_image(name)] or [text]
        if has_magic(text) and not path.exists():
            matches = sorted(glob(text, recursive=True))  # noqa: PTH207 (Path: no absolute ones)
            found = [p for match in matches for p in _expand(match)]
            return found or [text]
    except OSError:
        pass
    return [text]


def _choose(method: str | None, terms: list[str]) -> tuple[str, str | Method]:
    """Name the method and give it, or its name where its weights come from a preset."""
    if method and terms:
        raise TammesError(f"either --method {method} or --term, not both")
    for title, own in own_method(terms).items():
        return title, own
    return method or "a-tpt", method or "a-tpt"


def _answer(classifier: ZeroShotClassifier, paths: list[str], method: str) -> Iterator[Row]:
    classes = tuple(classifier.classes_.tolist())
    for path, answer in zip(paths, classifier.answers(paths), strict=True):
        yield Row(path, method, classes, answer)
