"""The shell front: commands, no logic.

Nothing heavy is imported before a command runs, so that `tammes --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import Annotated

from typer import Exit, Option, Typer, echo

from tammes import __version__
from tammes.cli.benching import bench
from tammes.cli.benchmarking import benchmark
from tammes.cli.cataloging import datasets
from tammes.cli.classifying import classify
from tammes.cli.console import Commands, examples, flowing
from tammes.cli.demoing import demo
from tammes.cli.linting import lint
from tammes.cli.listing import catalogs
from tammes.cli.papering import paper
from tammes.cli.reporting import report
from tammes.cli.training import train

__all__ = ["app", "main"]

EXAMPLES: Mapping[Callable[..., None], tuple[str, ...]] = {
    demo: ("tammes demo", "tammes demo --limit 100 --views 16 --out quick"),
    classify: (
        "tammes classify photo.jpg --classes cat,dog",
        "tammes classify photos/ --classes-file classes.txt --json > answers.json",
        "tammes classify 'photos/**/*.png' --classes cat,dog --method zero-shot --csv",
        "tammes classify photo.jpg --classes cat,dog --term 'angular(tau=0.999):40'",
        "tammes classify photo.jpg --classes cat,dog --model ViT-B-16/openai --device cuda",
    ),
    bench: (
        "tammes bench --data photos/ --out runs/",
        "tammes bench --data dtd --root ~/data --model ViT-B-16/openai --out runs/",
        "tammes bench --data photos/ --methods zero-shot,a-tpt --limit 500 --out runs/",
        "tammes bench --data photos/ --methods tpt --term angular:40 --out runs/",
    ),
    report: (
        "tammes report runs/",
        "tammes report runs/ --format markdown > table.md",
        "tammes report runs/ --html report.html --figures figures/",
    ),
    train: (
        "tammes train coop --data caltech101 --root ~/data --out coop.pt",
        "tammes train coop --data photos/ --shots 4 --epochs 100 --start 'a photo of a' -o coop.pt",
        "tammes train cocoop --data photos.zip --model ViT-B-16/openai --seed 1 --out cocoop.pt",
        "tammes bench --data caltech101 --root ~/data --template coop:coop.pt --out runs/",
    ),
    paper: (
        "tammes paper finegrained --data-root ~/data",
        "tammes paper all --model ViT-B-16/openai --model RN50/openai --data-root ~/data",
        "tammes paper finegrained --data-root packs/ --datasets caltech101,oxford_pets",
        "tammes paper finegrained cool --model pocket --data-root packs/ --limit 200 --no-augmix",
        "tammes paper coop --coop model.pth.tar-50 --data-root ~/data",
        "tammes paper reliability cosine --methods zero-shot,tpt,a-tpt --data-root ~/data",
        "tammes paper pareto --model pocket --data-root packs/ --limit 500",
    ),
    benchmark: (
        "tammes benchmark",
        "tammes benchmark --quick",
        "tammes benchmark --out speed.json --figure speed.svg",
        "tammes benchmark --model ViT-B-16/openai --device cuda",
        "tammes benchmark --markdown speed.json",
    ),
    lint: (
        "tammes lint classes.txt",
        "tammes lint --classes cat,cats,dog --model ViT-B-16/openai",
    ),
}

app = Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Classify images by class names alone, with confidence that can be trusted.",
)
for command, lines in EXAMPLES.items():
    app.command(help=flowing(command), epilog=examples(*lines))(command)
app.add_typer(datasets, name="datasets")
app.add_typer(catalogs, name="list")


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"tammes {__version__}")
        raise Exit


Version = Annotated[
    bool, Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
]


@app.callback()
def start(version: Version = False) -> None:
    """Classify images by class names alone, with confidence that can be trusted."""


def main() -> None:
    """Run the command line."""
    # Threads of torch that wait for each other in a loop take the core from the one they wait for,
    # where another program is busy: one image took 4.0 s on two cores instead of 0.56.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may be any bytes
    app(prog_name="tammes")
