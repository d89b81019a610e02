"""Class names as callers give them: in label order, or by folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tammes.datasets.catalog import CATALOG
from tammes.datasets.dataset import Dataset
from tammes.datasets.matching import displaced, spellings
from tammes.errors import DataError

Names = Sequence[str] | Mapping[str, str]
PASS_NAMES = "name the classes: --classes-file FILE, in Python classnames="  # advice of errors


def listed(classnames: Names | None) -> tuple[str, ...] | None:
    """Take class names in label order."""
    if classnames is None:
        return None
    return tuple(classnames.values() if isinstance(classnames, Mapping) else classnames)


def by_folder(classnames: Names | None) -> Mapping[str, str] | None:
    """Take class names by folder; plain names are then what the folders are called."""
    if classnames is None or isinstance(classnames, Mapping):
        return classnames
    return {name: name for name in classnames}


def renamed(dataset: Dataset, classnames: Names | None) -> Dataset:
    """Call the classes of a dataset something else."""
    names = listed(classnames)
    if names is not None and len(names) != len(dataset.classnames):
        wanted = len(dataset.classnames)
        raise DataError(f"{dataset.name} has {wanted} classes, but {len(names)} names were given")
    if names is not None:
        _refuse_other_order(names, dataset)
    return replace(dataset, classnames=names or dataset.classnames)


def _refuse_other_order(names: Sequence[str], dataset: Dataset) -> None:
    """Refuse names at other labels than theirs: all that follows would be near zero."""
    known, entry = dataset.classnames, CATALOG.get(dataset.name)
    spelled = [(name, label) for label, name in enumerate(known)]
    if entry and entry.classnames == known:
        spelled = spellings(entry)
    moved = displaced(names, known, spelled)
    if moved:
        label, own = next(iter(moved.items()))
        raise DataError(
            f"{dataset.name}: the class names given are its own in another order: label {label} is "
            f"{known[label]!r}, not {names[label]!r}, which is label {own}. Sort them by label, or "
            "leave them out"
        )
