"""Which class a folder holds: told by what it is called, never by its rank."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tammes.datasets.catalog import CatalogEntry, plain
from tammes.datasets.dataset import Dataset, name_some
from tammes.errors import DataError


def match_folders(entry: CatalogEntry, folders: Sequence[str], own: bool = True) -> dict[str, int]:
    """Tell the label of each folder that is called like a class, or numbered like one.

    Numbers may be of any set: where the place is not the benchmark's `own`, all must be there.
    """
    labels = match_names(spellings(entry), folders)
    numbers = [f for f in folders if f.isdecimal() and f not in labels]
    usual = entry.numbered or len(numbers) == len(folders)
    if numbers and usual and (own or _are_all(entry, numbers)):
        labels |= _by_number(entry, numbers)
    return labels


def _are_all(entry: CatalogEntry, numbers: Iterable[str]) -> bool:
    """Tell whether numbers count the classes, from 0 or from 1, without a gap."""
    found = sorted(map(int, numbers))
    return found in ([*range(entry.classes)], [*range(1, entry.classes + 1)])


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
    label = match_folders(entry, own)
    out = {plain(name) for name in entry.leave_out}
    kept = [item for item in dataset.items if plain(own[item.label]) not in out]
    lost = sorted({own[item.label] for item in kept} - set(label))
    if lost or len(set(label.values())) < len(label):
        if _same_labels(own, entry):
            return replace(dataset, classnames=entry.classnames)
        what = f"no such class in the catalog: {name_some(lost, 3)}" if lost else "names that clash"
        remark = f"its own {len(own)} class names stand for the catalog's {entry.classes}: {what}"
        return replace(dataset, remarks=(*dataset.remarks, remark))
    items = tuple(replace(item, label=label[own[item.label]]) for item in kept)
    return replace(dataset, classnames=entry.classnames, items=items)


def _same_labels(own: Sequence[str], entry: CatalogEntry) -> bool:
    """Tell whether labels mean the same although some names differ: most agree, none is moved."""
    if len(own) != entry.classes:
        return False
    agree = sum(alike(name, known) for name, known in zip(own, entry.classnames, strict=True))
    return 2 * agree > len(own) and not displaced(own, entry.classnames, spellings(entry))


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
