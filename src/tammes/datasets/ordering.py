"""Whether labels mean what names and folders say: a wrong order is an accuracy near zero."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from tammes.datasets.catalog import CatalogEntry
from tammes.datasets.dataset import Dataset, name_some
from tammes.datasets.findings import Finding
from tammes.datasets.matching import alike, displaced, match_names, spellings


def find_names(names: Sequence[str], entry: CatalogEntry, where: str) -> Iterator[Finding]:
    """Compare class names in label order with those of the catalog."""
    if len(names) != entry.classes:
        what = f"{where} has {len(names):,} classes, {entry.id} has {entry.classes:,}"
        yield Finding("names", what, "check that it belongs to this benchmark and is complete")
        return
    known = entry.classnames
    differ = [i for i, name in enumerate(names) if not alike(name, known[i])]
    if not differ:
        return
    moved = displaced(names, known, spellings(entry))
    others = [i for i in differ if i not in moved]
    if moved:
        shown = (
            f"label {i} is {names[i]!r}, which is label {j} of {entry.id}" for i, j in moved.items()
        )
        what = _differ(len(moved), len(names), where, "stand at another label", shown)
        advice = f"the names are right and their order is not: sort them as {entry.id} has them"
        yield Finding("order", f"{what}{_rule(names, moved)}", advice)
    if others:
        shown = (f"label {i} is {names[i]!r}, not {known[i]!r}" for i in others)
        what = _differ(len(others), len(names), where, "differ", shown)
        yield Finding("names", what, "published numbers hold for the catalog's names: take those")


def _differ(count: int, of: int, where: str, how: str, shown: Iterable[str]) -> str:
    """Say how many names are otherwise, and show the first."""
    return f"{count:,} of {of:,} class names of {where} {how}: {name_some(shown, 3)}"


def find_order(dataset: Dataset, entry: CatalogEntry) -> Iterator[Finding]:
    """Compare each label with what the image's folder, or its file, is called."""
    told = told_labels([item.id for item in dataset.items], entry)
    own, known = dataset.classnames, entry.classnames
    rows = [(item, told[item.id]) for item in dataset.items if item.id in told]
    rows = [(item, label) for item, label in rows if item.label != label]  # else its name differs
    wrong = [(item, label) for item, label in rows if not alike(own[item.label], known[label])]
    if not wrong:
        return
    item, label = wrong[0]
    what = (
        f"{len(wrong):,} of {len(dataset):,} images are labeled otherwise than they are called: "
        f"{item.id!r} should be label {label}, {known[label]!r}, and has label "
        f"{item.label}, {own[item.label]!r}"
    )
    ranks = _ranks([PurePosixPath(item.id).parts[0] for item in dataset.items])
    if all(item.label == ranks[PurePosixPath(item.id).parts[0]] for item in dataset.items):
        what += f". The labels are the ranks of the folders, sorted as text{_sorted(ranks)}"
    yield Finding("order", what, "take the labels away: folders, or names of classes, are enough")


def remark_ranks(dataset: Dataset, entry: CatalogEntry) -> Iterator[str]:
    """Say what code would get wrong that takes the rank of a folder for its label."""
    folders = {PurePosixPath(item.id).parts[0]: item.label for item in dataset.items}
    ranks = _ranks(folders)
    wrong = [folder for folder in ranks if ranks[folder] != folders[folder]]
    if wrong:
        first = wrong[0]
        yield (
            f"sorted as text{_sorted(ranks)}, {len(wrong):,} of {len(ranks):,} folders have "
            f"another rank than label: {first!r} comes at {ranks[first]} and is label "
            f"{folders[first]}, {entry.classnames[folders[first]]!r}. tammes goes by what a folder "
            "is called; code that goes by rank would be right for the others alone"
        )


def told_labels(paths: Sequence[str], entry: CatalogEntry) -> dict[str, int]:
    """Tell labels by the one folder that is called like a class, or by the start of the file.

    Most folders together win: c/cubicle/office shows an office cubicle, and no office.
    """
    candidates = {path: _candidates(path) for path in paths}
    every = sorted({name for rows in candidates.values() for names in rows for name in names})
    known = match_names(spellings(entry), every)
    if entry.numbered:
        numbers = (name for name in every if name.isdecimal() and int(name) < entry.classes)
        known |= {name: int(name) for name in numbers}
    told = {}
    for path, rows in candidates.items():
        hits = ({known[n] for n in names if n in known} for names in rows)
        labels = next((found for found in hits if found), set())
        if len(labels) == 1:
            told[path] = labels.pop()
    return told


def _candidates(path: str) -> list[list[str]]:
    """List what may name the class: folders, as many as there are together, then fewer, then one.

    A file's name before its number counts as one.
    """
    *folders, file = PurePosixPath(path).parts
    start = re.sub(r"[\W_]*\d+$", "", PurePosixPath(file).stem)
    depth = len(folders)
    runs = {
        n: [" ".join(folders[i : i + n]) for i in range(depth - n + 1)] for n in range(depth, 1, -1)
    }
    return [*runs.values(), [*folders, *([start] if start else [])]]


def _rule(names: Sequence[str], moved: Mapping[int, int]) -> str:
    """Say by what rule a list is sorted, if by any."""
    as_text = sorted(range(len(names)), key=str)
    if all(as_text[i] == j for i, j in moved.items()):
        return f". Their labels are numbers sorted as text ({', '.join(map(str, as_text[:4]))}, …)"
    spaced = [name.replace("_", " ").casefold() for name in names]
    in_order = list(names) == sorted(names) or spaced == sorted(spaced)
    return ". They are sorted as text" if in_order else ""


def _ranks(folders: Sequence[str] | Mapping[str, int]) -> dict[str, int]:
    return {folder: rank for rank, folder in enumerate(sorted(set(folders)))}


def _sorted(ranks: Mapping[str, int]) -> str:
    """Show the beginning of the sorted folders."""
    return f" ({', '.join(list(ranks)[:4])}, …)"
