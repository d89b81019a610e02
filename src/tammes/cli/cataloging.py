"""`tammes datasets`: the benchmarks known by name; what is here, whether it is right, fetch it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer, echo

from tammes.cli import data as of_data
from tammes.cli import options
from tammes.cli.choices import read_classes
from tammes.cli.console import examples, flowing, say

if TYPE_CHECKING:
    from tammes.datasets.findings import Check
    from tammes.datasets.presence import Presence

Name = Annotated[str, Argument(metavar="NAME", help="A name of `tammes datasets list`.")]
Root = Annotated[Path, Option(help="Folder that holds the benchmark, or several.")]
Below = Annotated[Path | None, Option("--root", help="Folder to look for them in.")]
ClassesFile = Annotated[
    Path | None,
    Option(help="Class names that you mean to use with it, in label order: they are checked too."),
]
Decode = Annotated[
    bool, Option("--decode", help="Decode every image; else files are counted and not opened.")
]

datasets = Typer(help="List, check and fetch the benchmarks known by name.", no_args_is_help=True)


def list_benchmarks(root: Below = None, as_json: options.AsJson = False) -> None:
    """List the benchmarks; with --root, which of them are there, and in what layout.

    `download` says which of them `tammes datasets get` can fetch.
    """
    from tammes.cli.listing import show
    from tammes.datasets import CATALOG
    from tammes.datasets.presence import find_present

    here = find_present(root) if root else {}
    listed = {}
    for name, entry in CATALOG.items():
        about: dict[str, Any] = {"classes": entry.classes, "images": entry.size_of("test")}
        if root:
            about["here"] = _presence(here.get(name), as_json)
        if as_json or not root:
            about |= {"download": bool(entry.torchvision), "license": entry.license}
            about["page"] = entry.page
        if as_json:
            about |= {"classnames": entry.classnames, "layouts": entry.layouts}
            about |= {"split": entry.split, "traps": entry.traps}
        listed[name] = about
    show(listed, as_json)


def check(
    name: Name,
    root: Root,
    part: of_data.Part = "test",
    split: of_data.Split = None,
    classes_file: ClassesFile = None,
    decode: Decode = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare a benchmark on disk with what is published: counts, class order, names, files.

    A wrong order of the classes is the most frequent reason for an accuracy near zero. The exit
    code is 1 where something was found, 2 where there is nothing to check.
    """
    from tammes.datasets.checking import check_dataset
    from tammes.progress import Bar

    names = read_classes(None, classes_file) if classes_file else None
    with Bar() as bar:
        found = check_dataset(name, root, part, split, names, decode=decode, progress=bar)
    if as_json:
        echo(json.dumps(asdict(found), indent=1, ensure_ascii=False))
    else:
        _show(found)
    raise Exit(1 if found.findings else 0)


def get(name: Name, root: Root) -> None:
    """Fetch a benchmark with torchvision and check it, or say where it comes from and goes."""
    from tammes.datasets.checking import check_dataset
    from tammes.datasets.fetching import fetch_dataset
    from tammes.datasets.search import NotHere

    try:
        found = check_dataset(name, root)
        if found.present:
            say(_already(found, root))
    except NotHere:
        fetch_dataset(name, root)
        found = check_dataset(name, root)
    _show(found)
    raise Exit(1 if found.findings else 0)


def _already(found: Check, root: Path) -> str:
    """Say why nothing is fetched, and what to do where a download was cut short."""
    broken = {"missing", "empty", "classes"} & {one.kind for one in found.findings}
    if not broken:
        return f"{found.name} is here already: nothing is fetched"
    below = Path(found.root).relative_to(root).parts
    folder = root / below[0] if below else root
    return f"{found.name} is here in part: to fetch it anew, remove {folder} and run get again"


def _presence(found: Presence | None, as_json: bool) -> Any:
    """Write what is there as an object, or in a few words."""
    if as_json:
        return asdict(found) if found else None
    if not found:
        return None
    return found.problem or f"{found.images:,} images: {found.layout}"


def _show(found: Check) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tammes.datasets import find_entry

    console = Console()
    console.print(Text(_summary(found)), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Kind", "What", "What to do"):
        table.add_column(title, overflow="fold")
    for one in found.findings:
        table.add_row(*map(Text, (one.kind, one.what, one.advice)))
    if found.findings:
        console.print(table)
    for note in found.notes:
        console.print(Text(f"note: {note}"), soft_wrap=True)
    for trap in find_entry(found.name).traps if found.findings else ():
        console.print(Text(f"known of {found.name}: {trap}"), soft_wrap=True)


def _summary(found: Check) -> str:
    published = f"{found.published:,} published" if found.published else "none published to compare"
    counted = (
        f"{found.present:,} of {found.images:,} images of {found.classes:,} classes, {published}; "
        f"{found.layout}, {found.root}"
    )
    state = f"{len(found.findings)} to look at" if found.findings else "all is well"
    return f"{found.name}, {found.part}: {counted if found.layout else found.root}: {state}"


for command, called, lines in (
    (list_benchmarks, "list", ("tammes datasets list", "tammes datasets list --root ~/data")),
    (
        check,
        "check",
        (
            "tammes datasets check imagenet_v2 --root ~/data",
            "tammes datasets check stanford_cars --root ~/data --decode",
            "tammes datasets check eurosat --root ~/data --classes-file names.txt --json",
        ),
    ),
    (get, "get", ("tammes datasets get dtd --root ~/data",)),
):
    datasets.command(called, help=flowing(command), epilog=examples(*lines))(command)
