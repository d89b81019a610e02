"""Folders of images: one folder per class, on disk or inside a ZIP."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from tammes.datasets.dataset import Dataset, Item, Packed, name_some
from tammes.errors import DataError, UnknownName

PHOTOS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".avif", ".heic")
SCANS = (".tif", ".tiff", ".jp2", ".tga", ".ppm", ".pgm", ".pbm", ".pnm")
IMAGE_SUFFIXES = frozenset((*PHOTOS, *SCANS))
PARTS = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}
PART_FOLDERS = frozenset(folder for called in PARTS.values() for folder in called)


def read_image_folder(
    root: str | Path,
    classnames: Mapping[str, str] | None = None,
    name: str | None = None,
    part: str = "test",
) -> Dataset:
    """Read `root/<class folder>/…/<image>`; `classnames` maps folders to names, in label order.

    Folders called train, val and test are parts, of which one is read; where all images lie in one
    folder of folders, those are the classes. Hidden files are passed over; other files that are no
    images, images outside a class folder and folders without an image are left out and listed in
    `ignored`.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    files = {path: root / path for path in walk(root)}
    return sort_by_folder(files, root, classnames, name or root.resolve().name, part)


def sort_by_folder(
    files: Mapping[str, Path | Packed],
    root: Path,
    classnames: Mapping[str, str] | None,
    name: str,
    part: str = "test",
) -> Dataset:
    """Label files by the folder they lie in; without names, folders are names in sorted order."""
    above = _above_classes(list(files), part, set(classnames or ()), root)
    if above:
        below = {p.removeprefix(above): file for p, file in files.items() if p.startswith(above)}
        found = sort_by_folder(below, root / above, classnames, name, part)
        remark = f"the classes are the folders in {above} of {root}"
        return replace(found, remarks=found.remarks or (remark,))
    folders = sorted({p.partition("/")[0] for p in files if is_image(p) and "/" in p})
    names = {folder: folder for folder in folders} if classnames is None else classnames
    labels = {folder: position for position, folder in enumerate(names)}
    return label_by_folder(files, root, labels, tuple(names.values()), name)


def _above_classes(files: Iterable[str], part: str, known: set[str], root: Path) -> str:
    """Return the folder in which the class folders lie, as 'test/', or nothing where they do."""
    images = [p for p in files if is_image(p) and "/" in p]
    tops = {p.partition("/")[0] for p in images}
    if not tops or tops & known:
        return ""
    if tops <= PART_FOLDERS:
        called = [folder for folder in PARTS.get(part, (part,)) if folder in tops]
        if not called:
            raise UnknownName.of(f"part of {root}", part, sorted(tops))
        return f"{called[0]}/"
    folders = {p.rpartition("/")[0] for p in images}
    common = posixpath.commonpath(folders)
    return f"{common}/" if common and common not in folders else ""


def label_by_folder(
    files: Mapping[str, Path | Packed],
    root: Path,
    labels: Mapping[str, int],
    classnames: tuple[str, ...],
    name: str,
    leave_out: Iterable[str] = (),
) -> Dataset:
    """Give files the label of the folder they lie in, leaving some folders out at any depth."""
    out = set(leave_out)
    images = [p for p in sorted(files) if is_image(p) and "/" in p and out.isdisjoint(p.split("/"))]
    if not images:
        raise DataError(_nothing_found(root, files))
    unknown = {p.partition("/")[0] for p in images} - set(labels)
    if unknown:
        raise DataError(
            f"{root}: no class name was given for the folders {name_some(sorted(unknown))}: move "
            "what is no class elsewhere, or name all: --classes-file FILE.json with folder: name"
        )
    items = tuple(Item(p, labels[p.partition("/")[0]], files[p]) for p in images)
    ignored = tuple(sorted(set(files) - set(images)))
    return Dataset(name, classnames, items, root, ignored)


def _nothing_found(root: Path, files: Iterable[str]) -> str:
    """Say what a folder holds instead of class folders."""
    flat = [p for p in files if is_image(p)]
    if flat:
        return (
            f"{root}: {len(flat)} images, but none in a class folder: sort them into one folder "
            f"per class, or give a table with the columns file and label"
        )
    return f"{root}: no image found in its folders ({len(list(files))} other files)"


def walk(root: Path) -> Iterator[str]:
    """Yield the relative path of every file that is not hidden, following links, but no loop."""
    for folder, subfolders, files in os.walk(root, followlinks=True):
        here = Path(folder)
        above = {here.resolve(), *here.resolve().parents}
        subfolders[:] = sorted(
            s for s in subfolders if is_shown(s) and (here / s).resolve() not in above
        )
        yield from ((here / f).relative_to(root).as_posix() for f in files if is_shown(f))


def is_image(path: str) -> bool:
    """Tell an image by its file name."""
    return PurePosixPath(path).suffix.lower() in IMAGE_SUFFIXES


def is_shown(path: str) -> bool:
    """Tell what a system hides, or adds to an archive, from what a user put there."""
    return not any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))
