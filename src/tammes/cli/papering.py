"""`tammes paper`: the published tables beside measured ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, echo

from tammes.cli import options
from tammes.cli.console import end_unread, say

if TYPE_CHECKING:
    from tammes.paper.albums import Album
    from tammes.paper.results import Missing

DATA = Path("data")
TABLES = (
    "Tables: finegrained, natural, group, weighted, coop, sce, cool, example, catpt, random, "
    "prompts, computational, datasets, dimensions, medical."
)
FIGURES = (
    "Figures: radar, bars, reliability, confidence, cosine, tsne, gradient, pareto, prompt-scatter."
)
Names = Annotated[
    list[str] | None,
    Argument(metavar="NAME", help=f"{TABLES} {FIGURES} Or tables, figures, all."),
]
Root = Annotated[
    Path, Option("--data-root", help="Folder that holds the datasets, or packs of them.")
]
Out = Annotated[
    Path,
    Option(
        "--out",
        "-o",
        help="Folder of runs and pages; what it holds is not done again.",
        rich_help_panel=options.OUTPUT,
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        "--model",
        "-m",
        help="A model as `tammes bench` takes it, or ViT-B/16=FILE for a checkpoint that holds the "
        "published weights. By default the paper's models as far as they are here, else pocket.",
        rich_help_panel=options.MODEL,
    ),
]
Download = Annotated[
    bool,
    Option("--download", help="Fetch weights that are not here.", rich_help_panel=options.MODEL),
]
Limit = Annotated[
    int | None, Option(help="Take so many images per dataset, spread over the classes.", min=1)
]
Datasets = Annotated[
    str | None,
    Option(
        help="Names of `tammes list datasets`, with commas between them: run no others. ImageNet's "
        "1000 classes take a CPU days."
    ),
]
Seeds = Annotated[str, Option(help="Seeds of repeated runs; all others take the first.")]
Methods = Annotated[
    str, Option(help="all, or names of `tammes list methods`.", rich_help_panel=options.METHOD)
]
Coop = Annotated[
    str | None,
    Option(help="Checkpoint of a CoOp context.", metavar="FILE", rich_help_panel=options.METHOD),
]
Cocoop = Annotated[
    str | None,
    Option(
        help="Checkpoint of CoCoOp; 'cocoop(10):FILE' feeds its meta-net features ten times as "
        "long as in its training, as the released TPT code does.",
        metavar="FILE",
        rich_help_panel=options.METHOD,
    ),
]
AugMix = Annotated[
    bool | None,
    Option(
        "--augmix/--no-augmix",
        help="Mix the views. By default as published for each dataset.",
        rich_help_panel=options.VIEWS,
    ),
]
Ledger = Annotated[
    Path | None,
    Option(
        help="Page to write: every published number beside what OUT knows of it, and what that is "
        "made of in a folder of the page's name. Without NAME nothing is run.",
        metavar="FILE.md",
        rich_help_panel=options.OUTPUT,
    ),
]


def paper(
    names: Names = None,
    data_root: Root = DATA,
    out: Out = Path("paper"),
    ledger: Ledger = None,
    model: Models = None,
    download: Download = False,
    datasets: Datasets = None,
    limit: Limit = None,
    methods: Methods = "all",
    seeds: Seeds = "0,1,2",
    coop: Coop = None,
    cocoop: Cocoop = None,
    views: options.Views = 64,
    augmix: AugMix = None,
    device: options.Device = None,
    precision: options.Precision = None,
    batch: options.Batch = None,
    workers: options.Workers = None,
) -> None:
    """Show the paper's tables, published beside measured, and draw its figures.

    What is missing is run first, on the data and the weights that are here; for the rest it is said
    what it needs. An interrupted command goes on where it stopped. Figures go to OUT/figures as
    SVG, PDF and PNG, each with its numbers as JSON; pareto tries λ on one dataset, Caltech101 or
    the first that is here, and tsne and gradient need no images.
    """
    from rich.console import Console

    from tammes.errors import TammesError
    from tammes.method import select_methods
    from tammes.paper.command import choose_figures, choose_tables, run_figures, run_tables
    from tammes.paper.ledger import check_measured, kept_beside, write_ledger
    from tammes.paper.models import choose_models
    from tammes.paper.planning import Settings
    from tammes.paper.running import Runner
    from tammes.paper.writing import Terminal
    from tammes.progress import Bar

    if not names and ledger is None:
        raise TammesError("name tables or figures, or all; --ledger FILE.md needs no name")
    if ledger:
        kept_beside(ledger)  # refuses names that would fail in the end
        if not names:
            check_measured(out)
    tables, figures = choose_tables(names or []), choose_figures(names or [])
    settings = Settings(
        root=data_root, out=out, datasets=_datasets(datasets), limit=limit,
        seeds=_seeds(seeds), views=views, augmix=augmix,
        methods=tuple(select_methods(methods)), coop=coop, cocoop=cocoop, download=download,
        device=device, precision=precision, batch=batch, workers=workers,
    )  # fmt: skip
    _look_at(data_root, bool(names))
    with Bar() as bar:
        runner = Runner(choose_models(model or []), settings, say, bar)
        runner.check_starts()
        for sheet in run_tables(tables, runner, settings):
            Console().print(Terminal(sheet))
        _show(run_figures(figures, runner, settings))
    if names:
        say(f"wrote {', '.join([t.name for t in tables] + [f.name for f in figures])} to {out}")
    if ledger:
        write_ledger(ledger, out)
        say(f"wrote {ledger}")
    end_unread(len(runner.skipped), "the run.json of each run says which, and why")
    if runner.datasets.unread:  # all of one, as was said
        raise Exit(1)


def _look_at(root: Path, needed: bool) -> None:
    """Refuse a folder that somebody named and that is not there; the usual one may lack."""
    from tammes.errors import DataError

    if root.is_dir() or not needed:
        return
    if root != DATA:
        raise DataError(f"--data-root {root}: no such folder")
    say(f"no folder {root}: no benchmark will be found (--data-root says where they are)")


def _show(albums: Iterable[Album]) -> None:
    """Say what was drawn and, once in the end, how to get what was not."""
    from tammes.paper.results import reasons

    missing: dict[Missing, None] = {}
    for album in albums:
        for line in album.lines():
            echo(line)
        missing |= dict.fromkeys(album.missing)
    for line in reasons(missing):
        say(f"not drawn: needs {line}")


def _datasets(text: str | None) -> tuple[str, ...] | None:
    from tammes.datasets.catalog import find_entry

    if text is None:
        return None
    return tuple(find_entry(name.strip()).id for name in text.split(","))


def _seeds(text: str) -> tuple[int, ...]:
    from tammes.errors import TammesError

    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError as problem:
        raise TammesError(
            f"--seeds {text}: give whole numbers with commas between them"
        ) from problem
    if len(set(seeds)) < len(seeds):
        raise TammesError(f"--seeds {text}: a seed comes twice, and would tell nothing new")
    return seeds
