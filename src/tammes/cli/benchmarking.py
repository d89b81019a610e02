"""`tammes benchmark`: how fast the engine is here, beside the plain loop."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from tammes.cli import options
from tammes.cli.console import say
from tammes.errors import TammesError

if TYPE_CHECKING:
    from tammes.benchmark import Models, Results

Model = Annotated[
    str | None,
    Option(
        "--model",
        "-m",
        help="A real model, as for the other commands. By default random weights: of ViT-B-16 on "
        "CUDA, of the pocket's shape elsewhere.",
        rich_help_panel=options.MODEL,
    ),
]
ClassCounts = Annotated[
    str | None,
    Option(
        "--classes",
        help="Numbers of classes, separated by commas. By default 10,100,1000 on CUDA, else "
        "10,100.",
        rich_help_panel=options.WORK,
    ),
]
Large = Annotated[
    int | None,
    Option(
        help="Number of classes for the engine alone, 0 for none. By default 21000 on CUDA, else "
        "1000.",
        min=0,
        rich_help_panel=options.WORK,
    ),
]
Quick = Annotated[
    bool, Option("--quick", help="Show that everything works.", rich_help_panel=options.WORK)
]
Out = Annotated[
    Path | None,
    Option("--out", "-o", help="Write the numbers as JSON.", rich_help_panel=options.OUTPUT),
]
Figure = Annotated[
    Path | None,
    Option(help="Write a figure: svg, pdf or png.", rich_help_panel=options.OUTPUT),
]
Markdown = Annotated[
    Path | None,
    Option(
        help="Show the table of an earlier --out as Markdown, and measure nothing.",
        rich_help_panel=options.OUTPUT,
    ),
]


def benchmark(
    model: Model = None,
    device: options.Device = None,
    classes: ClassCounts = None,
    large: Large = None,
    quick: Quick = False,
    out: Out = None,
    figure: Figure = None,
    markdown: Markdown = None,
) -> None:
    """Time the engine beside the plain loop of the published codes, in one run on one device.

    From pixels, from JPEG files and from stored features; milliseconds per image, needed
    arithmetic against the measured peak, memory, and how far answers are from fp32.
    """
    from dataclasses import replace

    from tammes.benchmark import plan_for, read_results, run
    from tammes.benchmark.tables import markdown as as_markdown

    if markdown is not None:
        sys.stdout.write(as_markdown(read_results(markdown)))
        return
    counts = _counts(classes)
    models = _models(model, device)
    plan = plan_for(models.device, quick)
    plan = replace(plan, classes=counts or plan.classes)
    plan = plan if large is None else replace(plan, large=large)
    results = run(models, plan, _tell, out)
    _show(results, figure)
    if out is not None:
        say(f"wrote {out}")


def _models(name: str | None, device: str | None) -> Models:
    from tammes.backbones import load_backbone, pick_device
    from tammes.backbones.random import pocket_sized, random_weights
    from tammes.benchmark import Models

    where = pick_device(device)
    if name is not None:
        full = load_backbone(name, where, "fp32")
        return Models(load_backbone(name, where) if where.type == "cuda" else full, full)
    if where.type != "cuda":
        full = pocket_sized(where)
        return Models(full, full)
    return Models(*(random_weights("ViT-B-16", where, p) for p in ("fp16", "fp32")))


def _counts(classes: str | None) -> tuple[int, ...]:
    try:
        counts = tuple(int(n) for n in classes.split(",")) if classes else ()
    except ValueError as problem:
        raise TammesError(f"--classes {classes!r}: give numbers, as 10,100") from problem
    if any(count < 2 for count in counts):
        raise TammesError(f"--classes {classes!r}: below 2 there is nothing to tell apart")
    return counts


def _tell(row: Mapping[str, Any]) -> None:
    from tammes.benchmark.tables import line

    echo(line(row), err=True)
    sys.stderr.flush()


def _show(results: Results, figure: Path | None) -> None:
    from rich.console import Console

    from tammes.benchmark.tables import tables

    for table in tables(results):
        Console().print(table)
    if figure is not None:
        from tammes.benchmark.tables import speeds
        from tammes.plots import sheet, speed_curves, write

        drawn, ax = sheet(6.5)
        speed_curves(speeds(results), ax, results.about["machine"])
        write(drawn, figure)
        say(f"wrote {figure}")
