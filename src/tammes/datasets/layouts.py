"""Where a benchmark may lie below a folder, and how it is read from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tammes.datasets.archives import FINDERS, is_archive, read_archive
from tammes.datasets.catalog import CatalogEntry, find_entry
from tammes.datasets.dataset import Dataset
from tammes.datasets.folders import is_image, is_shown, label_by_folder, walk
from tammes.datasets.matching import match_folders
from tammes.datasets.official import SUN_LISTS, read_aircraft, read_food, read_sun, sun_paths
from tammes.datasets.search import NotHere, Search
from tammes.datasets.splits import SPLIT_SUFFIXES, read_coop_split, split_paths
from tammes.errors import DataError

FOLDERS = "class folders"
Reader = Callable[[Search], Dataset]


def read_catalog(
    name: str, root: str | Path, part: str = "test", split: str | Path | None = None
) -> Dataset:
    """Read a benchmark below `root`, in the first of its layouts that is there."""
    entry, root = find_entry(name), Path(root)
    search = Search(entry, root, part, Path(split) if split else None)
    if not root.is_dir() and not is_archive(root):
        raise NotHere(f"{entry.id}: no such folder: {root}")
    missed = []
    for read in readers(search):
        try:
            return _remarked(read(search), search)
        except NotHere as reason:
            missed.append(str(reason))
    raise NotHere(
        f"{entry.id}: nothing found in {root}: {'; '.join(missed)}. "
        f"The images come from: {entry.page}"
    )


def readers(search: Search) -> list[Reader]:
    """List the readers to try: full-size images before packs, and a given split alone."""
    if search.split:
        return [read_split]
    if is_archive(search.root):
        return [read_archive]
    lists = {"fgvc_aircraft": by_variants, "food101": by_food_lists, "sun397": by_partition}
    by_list = [lists[search.entry.id]] if search.entry.id in lists else []
    by_split = [read_split] if search.entry.split else []
    return [*by_split, *by_list, by_class_folders, *FINDERS]


def _remarked(dataset: Dataset, search: Search) -> Dataset:
    """Say what keeps results from being compared with published ones."""
    entry, found, remarks = search.entry, len(dataset), list(dataset.remarks)
    if search.part == "test" and entry.images not in (None, found):
        remarks.append(f"{found:,} images, but the published test part has {entry.images:,}")
    return replace(dataset, remarks=tuple(remarks))


def read_split(search: Search) -> Dataset:
    """Read the images that CoOp's split file lists, in CoOp's folders or flattened ones."""
    path = search.split or find_split(search)
    paths = split_paths(path, search.part)
    place = search.first(*_spread(paths))
    dataset = read_coop_split(path, place, search.part, search.entry.id)
    return replace(dataset, layout=f"split {path.name}")


def _spread(paths: list[str]) -> list[str]:
    """Take about a hundred paths of a list, of all classes: some may be missing."""
    return paths[:: max(1, len(paths) // 100)]


def find_split(search: Search) -> Path:
    """Look for the split file beside the images, then in the package."""
    entry = search.entry
    wanted = [Path(f"{entry.split}").with_suffix(suffix).name for suffix in SPLIT_SUFFIXES]
    places = list(dict.fromkeys([search.root, *search.places]))
    for path in (place / file for place in places for file in wanted):
        if path.is_file():
            return path
    if entry.shipped_split:
        return entry.shipped_split
    raise NotHere(
        f"no split file {entry.split} in {search.named(places)}: take it from CoOp's page and put "
        "it there, or name it: --split FILE, in Python split="
    )


def by_variants(search: Search) -> Dataset:
    """Read FGVC-Aircraft."""
    return read_aircraft(search.first("variants.txt"), search.part, search.entry.id)


def by_food_lists(search: Search) -> Dataset:
    """Read Food-101; its images lie in `images`, beside the lists in `meta`."""
    entry = search.entry
    root = search.first(f"meta/{search.part}.txt", f"../meta/{search.part}.txt")
    here = (root / "meta").is_dir()
    return read_food(root if here else root.parent, search.part, entry.classnames, entry.id)


def by_partition(search: Search) -> Dataset:
    """Read SUN397; CoOp's folder has the lists beside SUN397 and the images in it."""
    if search.part not in SUN_LISTS:
        raise NotHere(f"no list for the part {search.part!r}")
    entry, called = search.entry, SUN_LISTS[search.part]
    listed = search.first(called) / called
    place = search.first(*_spread(sun_paths(listed)))
    return read_sun(listed, place, entry.classnames, entry.id)


def by_class_folders(search: Search) -> Dataset:
    """Read class folders, matched by what they are called and never by their rank."""
    entry, seen = search.entry, []
    for base in search.bases:
        here = [f for f in subfolders(base) if f not in entry.leave_out]
        labels = match_folders(entry, here, search.is_own(base))
        if labels and 2 * len(labels) >= len(here):
            _refuse_twins(base, labels, entry)
            files = {path: base / path for path in walk(base)}
            names = entry.classnames
            dataset = label_by_folder(files, base, labels, names, entry.id, entry.leave_out)
            return replace(dataset, layout=FOLDERS)
        where = search.named([base])
        if labels:
            seen.append(f"only {len(labels)} of the {len(here)} folders in {where} are its classes")
        elif numbers := sum(folder.isdecimal() for folder in here):
            of_any = f"may be of any set: call the folder above them {entry.id}"
            seen.append(f"{numbers} numbered folders in {where}, which {of_any}")
        elif loose := sum(is_image(path.name) for path in base.iterdir()):
            seen.append(f"{loose} images in {where} that lie in no class folder")
    first = (entry.folders or entry.classnames)[0]
    looked = f"or another class in {search.named(search.bases)}"
    where = f"no folder {first!r} {looked}" if search.bases else f"no folder {search.part!r}"
    raise NotHere(", and ".join([where, *seen]))


def subfolders(base: Path) -> list[str]:
    """List the folders in a folder."""
    return sorted(f.name for f in base.iterdir() if is_shown(f.name) and f.is_dir())


def _refuse_twins(base: Path, labels: dict[str, int], entry: CatalogEntry) -> None:
    """Refuse two folders for one class: one of them is not what it is called."""
    folder_of: dict[int, str] = {}
    for folder, label in labels.items():
        other = folder_of.setdefault(label, folder)
        if other != folder:
            name = entry.classnames[label]
            raise DataError(f"{base}: the folders {other!r} and {folder!r} both mean {name!r}")
