"""Which class a folder holds: told by what it is called, never by its rank."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tammes.datasets.catalog import CatalogEntry, plain
from tammes.datasets.dataset import Dataset, name_some
from tammes.errors import DataError


def match_folders(entry: CatalogEntry, folders: Sequence[str]) -> dict[str, int]:
    """Tell the label of each folder that is called like a class, or numbered like one."""
    labels = match_names(spellings(entry), folders)
    numbers = [f for f in folders if f.isdecimal() and f not in labels]
    if numbers and (entry.numbered or len(numbers) == len(folders)):
        labels |= _by_number(entry, numbers)
    return labels


def match_names(spellings: Iterable[tuple[str, int]], found: Iterable[str]) -> dict[str, int]:
    """Look names up as they are, then by letters and digits, then by words in any order."""
    pairs = sorted(set(spellings))
    keys = [(form, _unique((form(name), label) for name, label in pairs)) for form in FORMS]
    labels: dict[str, int] = {}
    for name in found:
        hits = (known[form(name)] for form, known in keys if form(name) in known)
        if (label := next(hits, None)) is not None:
            labels[name] = label
    return labels


def align(dataset: Dataset, entry: CatalogEntry) -> Dataset:
    """Give a benchmark that brings its own names the names and the label order of the catalog.

    Where some class cannot be told by its name, its own names stay, and a remark says so.
    """
    own = dataset.classnames
    if len(own) == entry.classes and all(map(alike, own, entry.classnames)):
        return replace(dataset, classnames=entry.classnames)
    label = match_names(spellings(entry), own)
    kept = [item for item in dataset.items if own[item.label] not in entry.leave_out]
    lost = sorted({own[item.label] for item in kept} - set(label))
    if lost or len(set(label.values())) < len(label):
        what = f"no such class in the catalog: {name_some(lost, 3)}" if lost else "names that clash"
        remark = f"its own {len(own)} class names stand for the catalog's {entry.classes}: {what}"
        return replace(dataset, remarks=(*dataset.remarks, remark))
    items = tuple(replace(item, label=label[own[item.label]]) for item in kept)
    return replace(dataset, classnames=entry.classnames, items=items)


def alike(one: str, other: str) -> bool:
    """Tell whether two spellings name the same class."""
    return any(form(one) == form(other) for form in FORMS)


def displaced(
    names: Sequence[str], known: Sequence[str], spelled: Iterable[tuple[str, int]]
) -> dict[int, int]:
    """Tell which names stand at another label than their own: label -> the label they belong to.

    A name that stands at its own label as well is a homonym ('cardigan' is a dog and a jacket).
    """
    told = match_names(spelled, names)
    told |= {n: i for i, n in enumerate(names) if alike(n, known[i])}
    wrong = {i: told[n] for i, n in enumerate(names) if n in told and not alike(n, known[i])}
    return {i: j for i, j in wrong.items() if i != j and told.get(names[j]) != j}


def spellings(entry: CatalogEntry) -> list[tuple[str, int]]:
    """List every name that a folder of a class may have."""
    label = {name: i for i, name in enumerate(entry.classnames)}
    named = [(name, i) for i, name in enumerate(entry.classnames)]
    coded = [(folder, i) for i, folder in enumerate(entry.folders or ())]
    return [*coded, *named, *((folder, label[name]) for folder, name in entry.aliases.items())]


def _unique(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Keep the spellings that one class alone has."""
    found = sorted(set(pairs))
    count = Counter(key for key, _ in found)
    return {key: label for key, label in found if count[key] == 1 and key}


def _words(name: str) -> str:
    """Write the words in sorted order: 'Acura RL Sedan 2012' is '2012 Acura RL Sedan'."""
    return " ".join(sorted(re.findall(r"[^\W_]+", name.casefold())))


FORMS: tuple[Callable[[str], str], ...] = (str, plain, _words)


def _by_number(entry: CatalogEntry, folders: Sequence[str]) -> Mapping[str, int]:
    """Take folders as labels, counted from 0 or from 1; refuse to guess which."""
    numbers = {folder: int(folder) for folder in folders}
    if entry.numbered or 0 in numbers.values():
        first = 0
    elif entry.classes in numbers.values():
        first = 1
    else:
        low, high = min(numbers.values()), max(numbers.values())
        raise DataError(
            f"{entry.id}: the class folders are numbers from {low} to {high}: cannot tell whether "
            "they count from 0 or from 1. Call them by class name"
        )
    return {f: n - first for f, n in numbers.items() if 0 <= n - first < entry.classes}
