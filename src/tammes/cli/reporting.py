"""`tammes report`: what runs say, for the terminal, papers, programs and the browser."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tammes.cli.console import as_typed, say
from tammes.errors import UnknownName

if TYPE_CHECKING:
    from tammes.records import Run

Folder = Annotated[Path, Argument(metavar="DIR", help="Folder that `tammes bench` wrote.")]
Format = Annotated[
    str, Option("--format", "-f", help="table, markdown, csv, json or latex, on stdout.")
]
Html = Annotated[Path | None, Option(help="Write one HTML page with tables and figures.")]
Figures = Annotated[Path | None, Option(help="Write the figures into this folder.")]


def report(
    folder: Folder,
    format: Format = "table",
    html: Html = None,
    figures: Figures = None,
) -> None:
    """Show what runs say: metrics with intervals, and which methods can be told apart."""
    from tammes.records import load_runs

    runs = load_runs(folder)
    show(runs, format)
    if html is not None:
        from tammes.report import write_html

        write_html(runs, html, command=as_typed())
        say(f"wrote {html}")
    if figures is not None:
        from tammes.report import write_figures

        write_figures(runs, figures)
        say(f"wrote the figures to {figures}")


def show(runs: Sequence[Run], format: str = "table") -> None:
    """Print the summary of runs."""
    from rich.console import Console

    from tammes.report import FORMATS, Terminal, summarize

    if format not in ("table", *FORMATS):
        raise UnknownName.of("format", format, ("table", *FORMATS))
    summary = summarize(runs)
    if format == "table":
        Console().print(Terminal(summary))
    else:
        sys.stdout.write(FORMATS[format](summary))
