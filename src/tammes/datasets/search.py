"""What is looked for, and in which folders it may lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tammes.datasets.catalog import CatalogEntry, plain
from tammes.datasets.dataset import name_some
from tammes.errors import DataError

HELD_OUT = ("test", "val")  # what the usual layouts call the folder of the test part


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

    @property
    def bases(self) -> list[Path]:
        """The folders whose subfolders may be the classes of the part."""
        found: list[Path] = []
        for place in self.places:
            beside = [place.parent] if place.name in HELD_OUT and self.part != "test" else []
            found += [parent / self.part for parent in (place, *beside)]
            found += [place] if self.part == "test" else []
        return [base for base in dict.fromkeys(found) if base.is_dir()]

    def is_own(self, place: Path) -> bool:
        """Tell whether a place is the benchmark's by what it is called, or a folder around it.

        What lies in a folder of many sets and is called 'test.csv' or '7' may be of any of them.
        """
        around = self.root.resolve()
        below = place.relative_to(self.root).parts if place.is_relative_to(self.root) else ()
        return any(
            plain(n) in self.entry.own_folders for n in (around.parent.name, around.name, *below)
        )

    def first(self, *files: str) -> Path:
        """Find the place where one of these files of the benchmark lies."""
        for place in self.places:
            if any((place / file).exists() for file in files):
                return place
        raise NotHere(f"no {files[0]} in {self.named(self.places)}")

    def named(self, places: Iterable[Path]) -> str:
        """Write places as they lie below the root."""
        return name_some((p.relative_to(self.root).as_posix() for p in places), 8)


def _below(root: Path, layouts: Iterable[str]) -> Iterator[Path]:
    for parts in (layout.split("/") for layout in layouts):
        yield from (root.joinpath(*parts[skip:]) for skip in range(len(parts)))
        yield from (root.joinpath(*parts[:keep]) for keep in range(1, len(parts)))
    yield root
