"""`tammes lint`: class names that will trouble a model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, echo

from tammes.cli import options
from tammes.cli.choices import read_classes

if TYPE_CHECKING:
    from tammes.lint import Finding

File = Annotated[
    Path | None,
    Argument(metavar="[FILE]", help="File with one class name per line, or a JSON list of names."),
]


Template = Annotated[str, Option("--template", "-t", help="Sentence with {} for the class name.")]


def lint(
    classes_file: File = None,
    classes: options.Classes = None,
    template: Template = options.TEMPLATE,
    model: options.Model = "pocket",
    device: options.Device = None,
    precision: options.Precision = None,
    as_json: options.AsJson = False,
) -> None:
    """Find class names that repeat, do not fit the model, or lie too close on the sphere.

    The exit code is 1 where there is something to look at.
    """
    names = read_classes(classes, classes_file)
    from tammes.backbones import load_backbone
    from tammes.lint import lint as find

    findings = find(load_backbone(model, device, precision), names, template)
    if as_json:
        echo(json.dumps([asdict(finding) for finding in findings], indent=1, ensure_ascii=False))
    else:
        _show(findings, len(names))
    raise Exit(1 if findings else 0)


def _show(findings: list[Finding], count: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not findings:
        console.print(f"{count} class names, nothing to remark")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Kind", "Names", "What", "What to do"):
        table.add_column(title, overflow="fold")
    for one in findings:
        cells = (one.kind, " · ".join(one.names), one.what, one.advice)
        table.add_row(*map(Text, cells))
    console.print(table)
