"""Benchmarks that somebody packed: ZIPs, webdataset shards, Hugging Face datasets, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tammes.datasets.catalog import CatalogEntry
from tammes.datasets.dataset import Dataset, name_some
from tammes.datasets.hub import HUB, is_saved, read_hub
from tammes.datasets.matching import align, match_folders, plain
from tammes.datasets.search import NotHere, Search
from tammes.datasets.shards import has_shards, read_shards
from tammes.datasets.tables import (
    TABLE_SUFFIXES,
    has_rows,
    named_labels,
    parse_table,
    path_content,
    read_table,
)
from tammes.datasets.zips import pack_classes, read_pack
from tammes.errors import DataError


def is_archive(root: Path) -> bool:
    """Tell a root that is one file, or a name on the hub, and no folder to search."""
    return str(root).startswith(HUB) or (
        root.suffix in (".zip", *TABLE_SUFFIXES) and root.is_file()
    )


def read_archive(search: Search) -> Dataset:
    """Read the one file or name that the root is."""
    if str(search.root).startswith(HUB):
        return align(read_hub(str(search.root), search.part, name=search.entry.id), search.entry)
    return (_read_zip if search.root.suffix == ".zip" else _read_rows)(search.entry, search.root)


def find_pack(search: Search) -> Dataset:
    """Find the one ZIP in `root` that is called like the packs of this benchmark."""
    entry, part = search.entry, search.part
    pattern = entry.packs.get(part, f"{entry.id}-{part}*.zip")
    return _read_zip(entry, _only(search, search.root.glob(pattern), f"pack {pattern}"))


def find_table(search: Search) -> Dataset:
    """Find the one table in `root` that is called after the part, or labels.csv by its images."""
    entry, part = search.entry, search.part
    stems = [f"{entry.id}-{part}", f"{entry.id}_{part}"]
    any_set = [part, *(["labels"] if part == "test" else [])]
    named = list(_tables(search.places, stems))
    named += filter(has_rows, _tables(filter(search.is_own, search.places), any_set))
    wanted = f"table {stems[0]}.csv, nor {part}.csv in a folder called {entry.id}"
    return _read_rows(entry, _only(search, named[:1], wanted))


def _tables(places: Iterable[Path], stems: Sequence[str]) -> Iterator[Path]:
    """Yield the tables that are called so."""
    named = (place / f"{s}{x}" for place in places for s in stems for x in TABLE_SUFFIXES)
    return (path for path in named if path.is_file())


def find_shards(search: Search) -> Dataset:
    """Find the folder of webdataset shards, under the name that CLIP_benchmark gives it."""
    wanted = f"folder of shards {search.entry.shards or search.entry.id}"
    place = _only(search, filter(has_shards, _own_folders(search)), wanted)
    return _align(search, read_shards(place, search.part, name=search.entry.id))


def find_saved(search: Search) -> Dataset:
    """Find the folder that the Hugging Face library saved."""
    wanted = f"saved Hugging Face dataset {search.entry.id}"
    place = _only(search, filter(is_saved, _own_folders(search)), wanted)
    return _align(search, read_hub(place, search.part, name=search.entry.id))


def _align(search: Search, dataset: Dataset) -> Dataset:
    """Take the catalog's names; what lies among many sets must hold most of its classes."""
    entry, own = search.entry, dataset.classnames
    if not search.is_own(dataset.root) and 2 * len(match_folders(entry, own, own=False)) < len(own):
        raise NotHere(f"the classes of {dataset.root} are others: {name_some(own, 3)}")
    return align(dataset, entry)


def _own_folders(search: Search) -> list[Path]:
    """List the root and the folders in it that are called after the benchmark."""
    entry = search.entry
    called = entry.own_folders
    below = sorted(f for f in search.root.iterdir() if plain(f.name) in called and f.is_dir())
    return [search.root, *below]


def _only(search: Search, found: Iterable[Path], wanted: str) -> Path:
    """Take what was found once."""
    paths = sorted(found)
    if not paths:
        raise NotHere(f"no {wanted}")
    if len(paths) > 1:
        names = name_some(path.name for path in paths)
        where = f"{search.entry.id}: several candidates in {search.root}"
        raise DataError(f"{where}: {names}: name one: --root FILE, in Python root=")
    return paths[0]


def _read_zip(entry: CatalogEntry, path: Path) -> Dataset:
    """Read a pack and check that its labels mean what they mean in the catalog."""
    _check_labels(entry, path, pack_classes(path))
    folders = entry.folders or entry.classnames
    names = dict(zip(folders, entry.classnames, strict=True))
    return replace(read_pack(path, names, entry.id), layout=f"pack {path.name}")


def _read_rows(entry: CatalogEntry, path: Path) -> Dataset:
    """Read a table likewise; numbers without names count in the catalog's order."""
    _check_labels(entry, path, named_labels(parse_table(path, path_content(path))))
    dataset = read_table(path, None, entry.classnames, entry.id)
    return replace(dataset, layout=f"table {path.name}")


def _check_labels(entry: CatalogEntry, path: Path, named: Iterable[tuple[int, str]]) -> None:
    """Refuse labels that mean something else than in the catalog."""
    wrong = [
        f"{label} is {name!r} and should be {entry.classnames[label]!r}"
        for label, name in named
        if 0 <= label < entry.classes and name not in ("", entry.classnames[label])
    ]
    if wrong:
        raise DataError(
            f"{path}: its class names are not those of {entry.id}: label {name_some(wrong, 3)}. "
            "Without the column label, rows go by their class names"
        )


Finder = Callable[[Search], Dataset]
FINDERS: tuple[Finder, ...] = (find_pack, find_shards, find_saved, find_table)
