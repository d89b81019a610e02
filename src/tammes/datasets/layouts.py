"""Where a benchmark may lie below a folder, and how it is read from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tammes.datasets.catalog import CatalogEntry, find_entry
from tammes.datasets.dataset import Dataset, name_some
from tammes.datasets.folders import read_image_folder
from tammes.datasets.splits import SPLIT_SUFFIXES, read_aircraft, read_coop_split, split_paths
from tammes.datasets.zips import pack_classes, read_pack
from tammes.errors import DataError


class NotHere(DataError):
    """Nothing of this layout lies below the folder."""


@dataclass(frozen=True)
class Search:
    """What is looked for, and below which folder."""

    entry: CatalogEntry
    root: Path
    part: str = "test"
    split: Path | None = None

    @property
    def places(self) -> list[Path]:
        """The usual folders, whether `root` holds many sets, this one, or just its images."""
        return list(dict.fromkeys(_below(self.root, self.entry.layouts)))

    def first(self, *files: str) -> Path:
        """Find the place where one of these files of the benchmark lies."""
        for place in self.places:
            if any((place / file).exists() for file in files):
                return place
        raise NotHere(f"no {files[0]} in {name_some(map(str, self.places), 8)}")


def read_catalog(
    name: str, root: str | Path, part: str = "test", split: str | Path | None = None
) -> Dataset:
    """Read a benchmark below `root`, in the first of its layouts that is there."""
    entry, root = find_entry(name), Path(root)
    search = Search(entry, root, part, Path(split) if split else None)
    if root.suffix == ".zip" and root.is_file():
        return read_part_pack(search, root)
    if not root.is_dir():
        raise DataError(f"{entry.id}: no such folder: {root}")
    missed = []
    for read in readers(search):
        try:
            return read(search)
        except NotHere as reason:
            missed.append(str(reason))
    raise DataError(
        f"{entry.id}: nothing found in {root}: {'; '.join(missed)}. "
        f"The images come from: {entry.page}"
    )


Reader = Callable[[Search], Dataset]


def readers(search: Search) -> list[Reader]:
    """List the readers to try: full-size images before packs, and a given split alone."""
    if search.split:
        return [read_split]
    if search.entry.folders:
        return [read_class_folders, find_pack]
    return [read_aircraft_lists if search.entry.id == "fgvc_aircraft" else read_split, find_pack]


def read_class_folders(search: Search) -> Dataset:
    """Read class folders, matched by what they are called and never by their rank."""
    entry = search.entry
    assert entry.folders is not None
    position = {folder: i for i, folder in enumerate(entry.folders)}
    for base in search.places:
        here = sorted(f.name for f in base.iterdir() if f.is_dir()) if base.is_dir() else []
        if entry.numbered:
            position |= {f: int(f) for f in here if f.isdecimal() and int(f) < entry.classes}
        if any(folder in position for folder in here):
            spelled = {position[f]: f for f in here if f in position}
            folders = [spelled.get(i, folder) for i, folder in enumerate(entry.folders)]
            names = dict(zip(folders, entry.classnames, strict=True))
            return read_image_folder(base, names, entry.id)
    places = name_some(map(str, search.places), 8)
    raise NotHere(f"no folder {entry.folders[0]!r} or another class in {places}")


def read_aircraft_lists(search: Search) -> Dataset:
    """Read FGVC-Aircraft by the lists in its archive."""
    return read_aircraft(search.first("variants.txt"), search.part, search.entry.id)


def read_split(search: Search) -> Dataset:
    """Read the images that CoOp's split file lists, in CoOp's folders or flattened ones."""
    path = search.split or _find_split(search)
    paths = split_paths(path, search.part)
    place = search.first(*paths[:: max(1, len(paths) // 100)])
    return read_coop_split(path, place, search.part, search.entry.id)


def _find_split(search: Search) -> Path:
    """Look for the split file beside the images."""
    entry = search.entry
    wanted = [Path(f"{entry.split}").with_suffix(suffix).name for suffix in SPLIT_SUFFIXES]
    places = list(dict.fromkeys([search.root, *search.places]))
    for path in (place / file for place in places for file in wanted):
        if path.is_file():
            return path
    raise NotHere(
        f"no split file {entry.split} (CoOp published it) in {name_some(map(str, places), 8)}: "
        "put it there or pass split="
    )


def find_pack(search: Search) -> Dataset:
    """Find the one ZIP in `root` that is called like the packs of this benchmark."""
    entry, part = search.entry, search.part
    pattern = entry.packs.get(part, f"{entry.id}-{part}*.zip")
    found = sorted(search.root.glob(pattern))
    if not found:
        raise NotHere(f"no pack {pattern} in {search.root}")
    if len(found) > 1:
        names = name_some(f.name for f in found)
        raise DataError(f"{entry.id}: several packs in {search.root}: {names}: pass one as root")
    return read_part_pack(search, found[0])


def read_part_pack(search: Search, path: Path) -> Dataset:
    """Read a pack and check that its labels mean what they mean in the catalog."""
    entry = search.entry
    wrong = [
        f"{label} is {name!r} and should be {entry.classnames[label]!r}"
        for label, name in pack_classes(path)
        if label < entry.classes and name not in ("", entry.classnames[label])
    ]
    if wrong:
        raise DataError(
            f"{path}: its class names are not those of {entry.id}: label {name_some(wrong, 3)}"
        )
    folders = entry.folders or entry.classnames
    return read_pack(path, dict(zip(folders, entry.classnames, strict=True)), entry.id)


def _below(root: Path, layouts: Iterable[str]) -> Iterator[Path]:
    for parts in (layout.split("/") for layout in layouts):
        yield from (root.joinpath(*parts[skip:]) for skip in range(len(parts)))
        yield from (root.joinpath(*parts[:keep]) for keep in range(1, len(parts)))
    yield root
