"""One door to every dataset: say where it is, or what it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tammes.datasets.catalog import find_entry, read_catalog
from tammes.datasets.dataset import Dataset, Item, check_present
from tammes.datasets.folders import read_image_folder, sort_by_folder
from tammes.datasets.packs import PackedFile, list_pack
from tammes.datasets.splits import SPLIT_SUFFIXES, read_coop_split
from tammes.datasets.tables import TABLE_SUFFIXES, label_rows, parse_table, read_table
from tammes.errors import DataError, UnknownName

LABELS = "labels.csv"
Names = Sequence[str] | Mapping[str, str]


def load_dataset(
    spec: str | Path,
    root: str | Path | None = None,
    *,
    part: str = "test",
    split: str | Path | None = None,
    classnames: Names | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a folder, a table, a ZIP, a split file, or a benchmark by its name and `root`.

    `classnames` overrides the names, in label order; for class folders it maps folder to name.
    """
    path = Path(spec)
    if root is not None and is_cataloged(str(spec)):
        dataset = _renamed(read_catalog(str(spec), root, part, split), classnames)
    elif path.is_dir():
        dataset = _load_folder(path, classnames)
    elif path.is_file():
        dataset = _load_file(path, root, part, classnames)
    else:
        raise DataError(_not_found(str(spec), path))
    return replace(dataset, name=name or dataset.name)


def read_pack(
    path: str | Path, classnames: Names | None = None, name: str | None = None
) -> Dataset:
    """Read a ZIP with a `labels.csv` in its root, or with one folder per class, as it lies."""
    path = Path(path)
    files = list_pack(path)
    name = name or path.stem
    if LABELS not in files:
        return sort_by_folder(files, path, _by_folder(classnames), name)
    content = files[LABELS].read()
    where = f"{LABELS} in {path}"
    paths, labels, names = label_rows(
        parse_table(Path(LABELS), content), where, _listed(classnames)
    )
    rows = zip(paths, labels, strict=True)
    items = tuple(Item(p, x, files.get(p, PackedFile.absent(path, p))) for p, x in rows)
    ignored = tuple(sorted(set(files) - set(paths) - {LABELS}))
    return check_present(Dataset(name, names, items, path, ignored))


def is_cataloged(name: str) -> bool:
    """Tell whether a benchmark is known by this name."""
    try:
        return bool(find_entry(name))
    except UnknownName:
        return False


def _load_folder(path: Path, classnames: Names | None) -> Dataset:
    """Read a folder by its table of labels if it has one, else by its class folders."""
    name = path.resolve().name
    if (path / LABELS).is_file():
        return read_table(path / LABELS, path, _listed(classnames), name)
    return read_image_folder(path, _by_folder(classnames), name)


def _load_file(path: Path, root: str | Path | None, part: str, classnames: Names | None) -> Dataset:
    """Choose the reader by how the file is called."""
    if path.suffix == ".zip":
        return read_pack(path, classnames)
    if path.suffix in TABLE_SUFFIXES:
        return read_table(path, root, _listed(classnames))
    if path.name.endswith(SPLIT_SUFFIXES):
        return _renamed(read_coop_split(path, root or path.parent, part), classnames)
    known = ", ".join((".zip", *TABLE_SUFFIXES, *SPLIT_SUFFIXES))
    raise DataError(f"{path}: cannot tell how to read it: expected a folder or one of {known}")


def _not_found(spec: str, path: Path) -> str:
    """Say what was looked for, and what a benchmark of that name would need."""
    try:
        entry = find_entry(spec)
    except UnknownName as unknown:
        return f"no file or folder {path.absolute()}, and {unknown}"
    places = " or ".join(f"root/{layout}" for layout in entry.layouts)
    return (
        f"the benchmark {entry.id} needs root=: the folder that holds its images ({places}). "
        f"They come from: {entry.page}"
    )


def _listed(classnames: Names | None) -> tuple[str, ...] | None:
    """Take class names in label order."""
    if classnames is None:
        return None
    return tuple(classnames.values() if isinstance(classnames, Mapping) else classnames)


def _by_folder(classnames: Names | None) -> Mapping[str, str] | None:
    """Take class names by folder; plain names are then what the folders are called."""
    if classnames is None or isinstance(classnames, Mapping):
        return classnames
    return {name: name for name in classnames}


def _renamed(dataset: Dataset, classnames: Names | None) -> Dataset:
    """Call the classes of a dataset something else."""
    names = _listed(classnames)
    if names is not None and len(names) != len(dataset.classnames):
        wanted = len(dataset.classnames)
        raise DataError(f"{dataset.name} has {wanted} classes, but {len(names)} names were given")
    return replace(dataset, classnames=names or dataset.classnames)
