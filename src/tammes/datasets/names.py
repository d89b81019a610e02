"""Class names as callers give them: in label order, or by folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tammes.datasets.dataset import Dataset
from tammes.errors import DataError

Names = Sequence[str] | Mapping[str, str]


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
    return replace(dataset, classnames=names or dataset.classnames)
