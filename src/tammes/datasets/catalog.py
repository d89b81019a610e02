"""The published benchmarks we know by name: what they are called, hold and look like on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from tammes.datasets.dataset import Dataset, name_some
from tammes.datasets.folders import read_image_folder
from tammes.datasets.splits import SPLIT_SUFFIXES, read_aircraft, read_coop_split, split_paths
from tammes.errors import DataError, UnknownName


def _asset(name: str) -> Any:
    """Parse a JSON file of the package."""
    return json.loads((resources.files("tammes") / "assets" / name).read_text("utf-8"))


@dataclass(frozen=True)
class CatalogEntry:
    """A benchmark; `images` is the size of its published test part, `preset` names the weights."""

    id: str
    names: tuple[str, ...]
    classes: int
    images: int | None
    preset: str
    augmix: bool
    split: str | None
    layouts: tuple[str, ...]
    page: str
    license: str
    traps: tuple[str, ...]
    template: str = "a photo of a {}."

    @cached_property
    def classnames(self) -> tuple[str, ...]:
        """Class names in label order."""
        return tuple(self._part("classnames"))

    @cached_property
    def folders(self) -> tuple[str, ...] | None:
        """The folder of each class, in label order, for sets that are told apart by folders."""
        found = self._part("folders")
        return tuple(found) if found else None

    @property
    def numbered(self) -> bool:
        """Whether folders may also be called by label: 7, 007."""
        return bool(self._record.get("numbered"))

    @cached_property
    def _record(self) -> Mapping[str, Any]:
        return _asset(f"classnames/{self.id}.json")

    def _part(self, key: str) -> list[str]:
        """Take a list from our own record, or our share of the set that we are a part of."""
        if "of" not in self._record:
            return self._record.get(key, [])
        whole = _asset(f"classnames/{self._record['of']}.json")[key]
        return [whole[i] for i in self._record.get("indices", range(len(whole)))]


def _entry(name: str, record: Mapping[str, Any]) -> CatalogEntry:
    """Make a value of one record of the packaged catalog."""
    frozen: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
    return CatalogEntry(id=name, **frozen)


CATALOG: Mapping[str, CatalogEntry] = {k: _entry(k, v) for k, v in _asset("datasets.json").items()}

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    k: tuple(v) for k, v in _asset("templates.json").items()
}


def find_entry(name: str) -> CatalogEntry:
    """Look a benchmark up by its id or by a name that a paper gives it."""
    for entry in CATALOG.values():
        if _plain(name) in map(_plain, (entry.id, *entry.names)):
            return entry
    raise UnknownName.of("dataset", name, CATALOG)


def _plain(name: str) -> str:
    """Reduce a name to what people agree on: letters and digits."""
    return "".join(c for c in name.casefold() if c.isalnum())


def read_catalog(
    name: str, root: str | Path, part: str = "test", split: str | Path | None = None
) -> Dataset:
    """Read a benchmark below `root`, in any of the usual folder layouts."""
    entry, root = find_entry(name), Path(root)
    if not root.is_dir():
        raise DataError(f"{entry.id}: no such folder: {root}")
    if entry.folders:
        return _read_folders(entry, root)
    if entry.id == "fgvc_aircraft":
        return read_aircraft(_first(root, entry, "variants.txt"), part, entry.id)
    path = Path(split) if split else _find_split(entry, root)
    place = _first(root, entry, *split_paths(path, part)[:100])
    return read_coop_split(path, place, part, entry.id)


def _read_folders(entry: CatalogEntry, root: Path) -> Dataset:
    """Read class folders, matched by what they are called and never by their rank."""
    assert entry.folders is not None
    position = {folder: i for i, folder in enumerate(entry.folders)}
    for base in _places(root, entry):
        here = sorted(f.name for f in base.iterdir() if f.is_dir()) if base.is_dir() else []
        if entry.numbered:
            position |= {f: int(f) for f in here if f.isdecimal() and int(f) < entry.classes}
        if any(folder in position for folder in here):
            spelled = {position[f]: f for f in here if f in position}
            folders = [spelled.get(i, folder) for i, folder in enumerate(entry.folders)]
            names = dict(zip(folders, entry.classnames, strict=True))
            return read_image_folder(base, names, entry.id)
    places = name_some(map(str, _places(root, entry)), 8)
    raise DataError(f"{entry.id}: no folder {entry.folders[0]!r} or another class in {places}")


def _find_split(entry: CatalogEntry, root: Path) -> Path:
    """Look for the split file beside the images."""
    wanted = [Path(f"{entry.split}").with_suffix(suffix).name for suffix in SPLIT_SUFFIXES]
    places = list(dict.fromkeys([root, *_places(root, entry)]))
    for path in (place / file for place in places for file in wanted):
        if path.is_file():
            return path
    raise DataError(
        f"{entry.id} needs the split file {entry.split} that CoOp published; looked in "
        f"{name_some(map(str, places), 8)}: put it there or pass split="
    )


def _first(root: Path, entry: CatalogEntry, *files: str) -> Path:
    """Find the place below `root` where one of these files of the benchmark lies."""
    places = _places(root, entry)
    for place in places:
        if any((place / file).exists() for file in files):
            return place
    looked = name_some(map(str, places), 8)
    raise DataError(f"{entry.id}: no {files[0]} in {looked}. The images come from: {entry.page}")


def _places(root: Path, entry: CatalogEntry) -> list[Path]:
    """List the usual folders, whether `root` holds many sets, this one, or just its images."""
    return list(dict.fromkeys(_below(root, entry.layouts)))


def _below(root: Path, layouts: Iterable[str]) -> Iterator[Path]:
    for parts in (layout.split("/") for layout in layouts):
        yield from (root.joinpath(*parts[skip:]) for skip in range(len(parts)))
        yield from (root.joinpath(*parts[:keep]) for keep in range(1, len(parts)))
    yield root
