"""One door to every dataset: say where it is, or what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tammes.datasets.catalog import CatalogEntry, entry_of_folder, find_entry
from tammes.datasets.dataset import Dataset
from tammes.datasets.folders import read_image_folder
from tammes.datasets.hub import HUB, is_saved, read_hub
from tammes.datasets.layouts import read_catalog
from tammes.datasets.names import Names, by_folder, listed, renamed
from tammes.datasets.search import NotHere
from tammes.datasets.shards import has_shards, read_shards
from tammes.datasets.splits import SPLIT_SUFFIXES, read_coop_split
from tammes.datasets.tables import TABLE_SUFFIXES, read_table
from tammes.datasets.zips import LABELS, read_pack
from tammes.errors import DataError, UnknownName


def load_dataset(
    spec: str | Path,
    root: str | Path | None = None,
    *,
    part: str = "test",
    split: str | Path | None = None,
    classnames: Names | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a folder, a table, a ZIP, a split file, `hf:owner/name`, or a benchmark by its name.

    A benchmark is looked for below `root`, in any usual layout; a folder that is called after one
    is read as that. `part` also chooses among folders called train, val and test.

    `classnames` overrides the names, in label order; for class folders it maps folder to name.
    """
    path = Path(spec)
    if root is not None and is_cataloged(str(spec)):
        dataset = renamed(read_catalog(str(spec), root, part, split), classnames)
    elif str(spec).startswith(HUB):
        dataset = read_hub(str(spec), part, classnames)
    elif path.is_dir():
        dataset = _load_folder(path, part, classnames)
    elif path.is_file():
        dataset = _load_file(path, root, part, classnames)
    else:
        raise DataError(_not_found(str(spec), path))
    return replace(dataset, name=name or dataset.name)


def is_cataloged(name: str) -> bool:
    """Tell whether a benchmark is known by this name."""
    try:
        return bool(find_entry(name))
    except UnknownName:
        return False


def _load_folder(path: Path, part: str, classnames: Names | None) -> Dataset:
    """Read a folder by its table of labels, as what a library wrote, or by its class folders."""
    name = path.resolve().name
    if is_saved(path):
        return read_hub(path, part, classnames, name)
    if has_shards(path):
        return read_shards(path, part, classnames, name)
    if (path / LABELS).is_file():
        found = read_table(path / LABELS, path, listed(classnames), name)
        said = (
            f"{LABELS} there names the images and labels; files that it does not list are left out"
        )
        return replace(found, remarks=(*found.remarks, said))
    entry = entry_of_folder(name)
    known = _read_as(entry, path, part, classnames) if entry else None
    return known or read_image_folder(path, by_folder(classnames), name, part)


def _read_as(
    entry: CatalogEntry, path: Path, part: str, classnames: Names | None
) -> Dataset | None:
    """Read the benchmark that a folder is called after, if that is what it holds."""
    if isinstance(classnames, Mapping):  # names by folder: the caller knows what is in it
        return None
    try:
        found = read_catalog(entry.id, path, part)
    except NotHere:
        return None
    said = f"read as the benchmark {entry.id}, after which its folder {path} is called"
    return renamed(replace(found, remarks=(*found.remarks, said)), classnames)


def _load_file(path: Path, root: str | Path | None, part: str, classnames: Names | None) -> Dataset:
    """Choose the reader by how the file is called."""
    if path.suffix == ".zip":
        return read_pack(path, classnames, part=part)
    if path.suffix in TABLE_SUFFIXES:
        return read_table(path, root, listed(classnames))
    if path.name.endswith(SPLIT_SUFFIXES):
        return renamed(read_coop_split(path, root or path.parent, part), classnames)
    known = ", ".join((".zip", *TABLE_SUFFIXES, *SPLIT_SUFFIXES))
    raise DataError(f"{path}: cannot tell how to read it: expected a folder or one of {known}")


def _not_found(spec: str, path: Path) -> str:
    """Say what was looked for, and what a benchmark of that name would need."""
    try:
        entry = find_entry(spec)
    except UnknownName as unknown:
        return f"no file or folder {path.absolute()}, and {unknown}"
    places = " or ".join(f"DIR/{layout}" for layout in entry.layouts)
    return (
        f"the benchmark {entry.id} needs the folder that holds its images: --root DIR, in Python "
        f"root= (looked for below it: {places}). "
        f"They come from: {entry.page}"
    )
