"""Labeled images: how a command names them, and what was published for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

if TYPE_CHECKING:
    from tammes.datasets import Dataset

_PANEL = "Data"

Data = Annotated[
    list[str],
    Option(
        "--data",
        "-d",
        help="Folder with a folder per class, table with the columns file and label, ZIP, split "
        "file, webdataset shards, hf:owner/name, or name of `tammes list datasets`. May be given "
        "several times.",
        rich_help_panel=_PANEL,
    ),
]
Root = Annotated[
    Path | None,
    Option(help="Folder that holds the images of a benchmark.", rich_help_panel=_PANEL),
]
Part = Annotated[
    str,
    Option(
        help="Part of a split file, of a folder or of a ZIP: train, val or test.",
        rich_help_panel=_PANEL,
    ),
]
Split = Annotated[
    Path | None,
    Option(help="Split file, where it does not lie beside the images.", rich_help_panel=_PANEL),
]
ClassesFile = Annotated[
    Path | None,
    Option(
        help="File with other names for the classes: in label order, or as JSON by class folder.",
        rich_help_panel=_PANEL,
    ),
]
Limit = Annotated[
    int | None,
    Option(help="Take so many images, spread over the classes.", min=1, rich_help_panel=_PANEL),
]


@dataclass(frozen=True)
class Benchmark:
    """A dataset, with the preset and the views that were published for it."""

    dataset: Dataset
    preset: str = "fine-grained"
    augmix: bool = False


def open_benchmark(
    spec: str,
    root: Path | None,
    part: str,
    split: Path | None,
    classnames: list[str] | dict[str, str] | None,
    limit: int | None,
) -> Benchmark:
    """Find the images; settings are known for benchmarks that the catalog lists."""
    from tammes.datasets import find_entry, load_dataset
    from tammes.datasets.loading import is_cataloged

    dataset = load_dataset(spec, root, part=part, split=split, classnames=classnames)
    dataset = dataset if limit is None else dataset.subset(limit)
    if root is None or not is_cataloged(spec):
        return Benchmark(dataset)
    entry = find_entry(spec)
    return Benchmark(dataset, entry.preset, entry.augmix)
