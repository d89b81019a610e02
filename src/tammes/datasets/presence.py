"""Which benchmarks lie below a folder, and as what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tammes.datasets.catalog import CATALOG, CatalogEntry
from tammes.datasets.dataset import MISSING
from tammes.datasets.layouts import read_catalog
from tammes.datasets.search import NotHere
from tammes.errors import DataError, TammesError


@dataclass(frozen=True)
class Presence:
    """The test part of a benchmark: how and where it lies, how many of its images are there."""

    layout: str
    root: str
    images: int
    problem: str = ""


def find_present(root: str | Path) -> Mapping[str, Presence]:
    """Look for the test part of every benchmark below a folder."""
    if not Path(root).is_dir():
        raise DataError(f"no such folder: {root}")
    found = {name: _find(entry, Path(root)) for name, entry in CATALOG.items()}
    return {name: presence for name, presence in found.items() if presence}


def _find(entry: CatalogEntry, root: Path) -> Presence | None:
    """Look for one; what is there and cannot be read is there, with its problem."""
    try:
        dataset = read_catalog(entry.id, root)
    except NotHere:
        return None
    except TammesError as problem:  # one odd set must not hide the others
        return Presence("", str(root), 0, str(problem))
    images = sum(item.stamp() != MISSING for item in dataset.items)
    return Presence(dataset.layout, str(dataset.root), images)
