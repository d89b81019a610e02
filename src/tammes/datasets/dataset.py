"""A dataset is a value: class names, and images with their labels, in a fixed order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tammes.errors import DataError

MISSING = "missing"


class Packed(Protocol):
    """One image inside a larger file, read when it is wanted."""

    def read(self) -> bytes:
        """Read the bytes of the image file, or raise an ImageError."""
        ...

    def stamp(self) -> str:
        """Return what changes when the image does, or MISSING."""
        ...


@dataclass(frozen=True)
class Item:
    """One image: what names it, what it shows, where its bytes are."""

    id: str
    label: int
    source: Path | Packed

    def open(self) -> Path | bytes:
        """Return what an image can be read from: a path, or the bytes out of a pack."""
        return self.source if isinstance(self.source, Path) else self.source.read()

    def stamp(self) -> str:
        """Return what changes when the file changes: size and time, or what the archive knows."""
        if not isinstance(self.source, Path):
            return self.source.stamp()
        try:
            found = self.source.stat()
        except OSError:
            return MISSING
        return f"{found.st_size}:{found.st_mtime_ns}"


@dataclass(frozen=True)
class Dataset:
    """Labeled images. `root / item.id` is where an image lies; `ignored` are files left out.

    `layout` is how the files lie; `remarks` is what a reader of results must know.
    """

    name: str
    classnames: tuple[str, ...]
    items: tuple[Item, ...]
    root: Path
    ignored: tuple[str, ...] = ()
    layout: str = ""
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.items:
            raise DataError(f"{self.name}: no image in {self.root}")
        check_classnames(self.classnames, str(self.root))
        wrong = [i for i in self.items if not 0 <= i.label < len(self.classnames)]
        if wrong:
            raise DataError(
                f"{self.root}: labels must lie in 0…{len(self.classnames) - 1}, found "
                + name_some(f"{i.label} for {i.id!r}" for i in wrong)
            )
        check_unique([item.id for item in self.items], str(self.root))

    def __len__(self) -> int:
        return len(self.items)

    @property
    def labels(self) -> tuple[int, ...]:
        """The label of each image."""
        return tuple(item.label for item in self.items)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the images: which, in what order, and whether their files changed."""
        return _digest(f"{item.id}\0{item.stamp()}" for item in self.items)

    @cached_property
    def task(self) -> str:
        """Hash of what is asked about the images: labels and class names."""
        return _digest([*self.classnames, *map(str, self.labels)])

    def subset(self, which: int | Iterable[str]) -> Dataset:
        """Keep so many images, spread evenly over the classes, or the images with these ids."""
        ids = self._first(which) if isinstance(which, int) else set(which)
        unknown = ids - {item.id for item in self.items}
        if unknown:
            raise DataError(f"{self.name} holds no image {name_some(map(repr, sorted(unknown)))}")
        return replace(self, items=tuple(item for item in self.items if item.id in ids))

    def _first(self, count: int) -> set[str]:
        """Take the first image of every class, then the second of every class, and so on."""
        seen = dict.fromkeys(range(len(self.classnames)), 0)
        turns = []
        for position, item in enumerate(self.items):
            turns.append((seen[item.label], position, item.id))
            seen[item.label] += 1
        return {name for _, _, name in sorted(turns)[:count]}


def check_present(dataset: Dataset) -> Dataset:
    """Refuse a list none of whose images exist; single gaps are for a run to report."""
    if all(item.stamp() == MISSING for item in dataset.items):
        first = dataset.root / dataset.items[0].id
        raise DataError(
            f"{dataset.name}: none of the {len(dataset)} listed images exist; the first should be "
            f"{first}: is --root DIR right, in Python root=?"
        )
    return dataset


def check_classnames(names: Sequence[str], where: str) -> None:
    """Refuse class names that are empty."""
    empty = [str(label) for label, name in enumerate(names) if not name.strip()]
    if empty:
        raise DataError(f"{where}: no class name for label {name_some(empty)}")


def check_unique(ids: Sequence[str], where: str) -> None:
    """Refuse two rows of one name: predictions are told apart by it."""
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = [repr(name) for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        raise DataError(f"{where}: listed more than once: {name_some(twice)}")


def name_some(names: Iterable[str], limit: int = 5) -> str:
    """Write a list that may be long: its first members and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more


def _digest(lines: Iterable[str]) -> str:
    """Hash lines of text, in their order, to 16 hex digits."""
    state = hashlib.sha256()
    for line in lines:
        state.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest()[:16]
