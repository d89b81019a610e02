"""The published benchmarks we know by name: what they are called, hold and look like on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from tammes.errors import UnknownName


def _asset(name: str) -> Any:
    """Parse a JSON file of the package."""
    return json.loads((resources.files("tammes") / "assets" / name).read_text("utf-8"))


GENERIC = ("test", "val", "images", "sketch")  # names of folders that may hold any set


@dataclass(frozen=True)
class CatalogEntry:
    """A benchmark; `images` is the size of its published test part, `preset` names the weights.

    `packs` gives, for each part, the pattern of the ZIP files that hold it; `leave_out` names the
    folders of the archive that are no part of the benchmark; `remedy` says what makes the published
    part of a download that lacks its list; `torchvision` says what downloads it;
    `shards` is what CLIP_benchmark calls its copy; `sizes` counts official parts that no published
    table counts.
    """

    id: str
    names: tuple[str, ...]
    classes: int
    images: int | None
    preset: str
    augmix_by_method: Mapping[str, bool]
    split: str | None
    layouts: tuple[str, ...]
    page: str
    license: str
    traps: tuple[str, ...]
    template: str = "a photo of a {}."
    packs: Mapping[str, str] = field(default_factory=dict)
    torchvision: Mapping[str, Any] = field(default_factory=dict)
    shards: str = ""
    leave_out: tuple[str, ...] = ()
    remedy: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def augmix(self) -> bool:
        """Whether the views were mixed for A-TPT's tables, whose other rows did the same."""
        return self.augmix_by_method.get("a-tpt", False)

    def size_of(self, part: str) -> int | None:
        """Count the images that a part should have, where that is known."""
        return self.images if part == "test" and self.images else self.sizes.get(part)

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
    def aliases(self) -> Mapping[str, str]:
        """What the archive calls the folders of some classes -> class names."""
        return self._record.get("aliases", {})

    @property
    def shipped_split(self) -> Path | None:
        """The split file that comes with the package, where there is one."""
        path = Path(str(resources.files("tammes"))) / "assets" / "splits" / f"{self.split}.gz"
        return path if path.is_file() else None

    @cached_property
    def own_folders(self) -> frozenset[str]:
        """What a folder is called, in letters and digits, that holds this benchmark and no other.

        'test' and 'images' are in layouts as well, and may hold anything.
        """
        tops = (layout.partition("/")[0] for layout in self.layouts)
        called = (self.id, *self.names, self.shards, f"wds_{self.id}", *tops)
        return frozenset(map(plain, called)) - {"", *GENERIC}

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
        if plain(name) in map(plain, (entry.id, *entry.names)):
            return entry
    raise UnknownName.of("dataset", name, CATALOG)


def entry_of_folder(name: str) -> CatalogEntry | None:
    """Find the benchmark that a folder is called after, as 'caltech-101' or 'oxford_flowers'."""
    return next((e for e in CATALOG.values() if plain(name) in e.own_folders), None)


def plain(name: str) -> str:
    """Reduce a name to what people agree on: letters and digits."""
    return "".join(c for c in name.casefold() if c.isalnum())
