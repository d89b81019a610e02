"""`tammes train`: a start learned from a few labeled images per class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from tammes.cli import data as of_data
from tammes.cli import options
from tammes.cli.choices import read_names
from tammes.cli.console import say
from tammes.cli.data import open_benchmark
from tammes.errors import UnknownName

if TYPE_CHECKING:
    from tammes.training import Recipe, Training

_PANEL = "Training"

Kind = Annotated[
    str,
    Argument(
        metavar="KIND",
        help="coop: one context for all images. cocoop: a context that moves with each image, "
        "which encodes all classes anew for every image and takes that much longer.",
    ),
]
Data = Annotated[
    str,
    Option(
        "--data",
        "-d",
        help="Folder with a folder per class, table with the columns file and label, ZIP, split "
        "file, or name of `tammes list datasets`.",
        rich_help_panel="Data",
    ),
]
Out = Annotated[
    Path,
    Option(
        "--out",
        "-o",
        help="File of the trained context; view features are kept in features/ beside it.",
        rich_help_panel=options.OUTPUT,
    ),
]
Shots = Annotated[int, Option(help="Images per class.", min=1, rich_help_panel=_PANEL)]
Epochs = Annotated[
    int | None,
    Option(
        help="Passes over the images. By default 50 for coop, as published on ImageNet (elsewhere "
        "200 for 8 or 16 shots, 100 for 2 or 4, 50 for 1), and 10 for cocoop.",
        min=2,
        rich_help_panel=_PANEL,
    ),
]
Start = Annotated[
    str | None,
    Option(
        help="Words that the context starts from, or a number of random tokens. By default 4 for "
        "coop, 'a photo of a' for cocoop.",
        rich_help_panel=_PANEL,
    ),
]
Crops = Annotated[
    int,
    Option(
        help="Random views per image, which the epochs take in turn: as many as epochs are as good "
        "as new ones in every epoch.",
        min=1,
        rich_help_panel=_PANEL,
    ),
]
PerStep = Annotated[
    int | None,
    Option(
        help="Images per step of SGD. By default 32 for coop, 1 for cocoop.",
        min=1,
        rich_help_panel=_PANEL,
    ),
]
Rate = Annotated[
    float, Option("--lr", help="Learning rate after the first epoch.", rich_help_panel=_PANEL)
]
Seed = Annotated[
    int,
    Option(
        help="Seed of the images that are picked, their views and order, and what starts random.",
        rich_help_panel=_PANEL,
    ),
]


def train(
    kind: Kind,
    data: Data,
    out: Out,
    root: of_data.Root = None,
    part: of_data.Part = "train",
    split: of_data.Split = None,
    classes_file: of_data.ClassesFile = None,
    shots: Shots = 16,
    epochs: Epochs = None,
    start: Start = None,
    crops: Crops = 16,
    per_step: PerStep = None,
    lr: Rate = 0.002,
    seed: Seed = 0,
    model: options.Model = "pocket",
    device: options.Device = None,
    precision: options.Precision = None,
    batch: options.Batch = None,
    workers: options.Workers = None,
) -> None:
    """Learn a start from a few labeled images per class, as CoOp and CoCoOp do.

    The other commands take the file as --template coop:FILE or cocoop:FILE, for any method and any
    class names; that text goes to stdout. Interrupted, the same command finishes the rest.
    """
    from tammes.backbones import load_backbone
    from tammes.progress import Bar
    from tammes.training import train

    recipe = _recipe(kind, start, epochs, per_step)
    recipe = replace(recipe, shots=shots, crops=crops, lr=lr, seed=seed)
    names = read_names(classes_file) if classes_file else None
    dataset = open_benchmark(data, root, part, split, names, None).dataset
    backbone = load_backbone(model, device, precision)
    say(
        f"{dataset.name}: {len(dataset)} images of {len(dataset.classnames)} classes, {model}, "
        f"{kind}, {shots} images per class, {recipe.epochs} epochs"
    )
    with Bar() as bar:
        done = train(dataset, backbone, out, recipe, batch=batch, workers=workers, progress=bar)
    _tell(done, shots)
    echo(f"{kind}:{out}")


def _recipe(kind: str, start: str | None, epochs: int | None, per_step: int | None) -> Recipe:
    """Change the published settings where something else was asked for."""
    from tammes.training import COCOOP, COOP

    known = {recipe.kind: recipe for recipe in (COOP, COCOOP)}
    if kind not in known:
        raise UnknownName.of("kind of training", kind, known)
    recipe = known[kind]
    if start is not None:
        recipe = replace(recipe, start=int(start) if start.isdecimal() else start)
    return replace(recipe, epochs=epochs or recipe.epochs, per_step=per_step or recipe.per_step)


def _tell(done: Training, shots: int) -> None:
    if done.skipped:
        name, why = next(iter(done.skipped.items()))
        say(f"{len(done.skipped)} images could not be read; {name}: {why}")
    if done.short:
        name, count = min(done.short.items(), key=lambda pair: pair[1])
        say(f"{len(done.short)} classes have fewer than {shots} images; {name!r} has {count}")
    say(
        f"on the {done.images} images it learned from, clean views: accuracy "
        f"{done.before.accuracy:.1%} before, "
        f"{done.after.accuracy:.1%} after; loss {done.before.loss:.3f} before, "
        f"{done.after.loss:.3f} after"
    )
