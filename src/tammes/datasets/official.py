"""Benchmarks by the lists in their own archives, where CoOp's split does not serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tammes.datasets.dataset import Dataset, Item, check_present, name_some
from tammes.datasets.tables import path_content
from tammes.errors import DataError

LAYOUT = "the archive's own lists"
Lister = Callable[[str], tuple[str, str]]  # a line of the list -> path of the image, class name


def read_aircraft(root: str | Path, part: str = "test", name: str = "fgvc_aircraft") -> Dataset:
    """Read the lists in FGVC-Aircraft's archive: variants.txt and images_variant_<part>.txt."""
    root = Path(root)
    names = _lines(root / "variants.txt")
    return _read(root, root / f"images_variant_{part}.txt", names, _aircraft, name)


def read_food(root: Path, part: str, names: Sequence[str], name: str) -> Dataset:
    """Read the lists in Food-101's archive: meta/<part>.txt with lines like apple_pie/1005649."""
    return _read(root, root / "meta" / f"{part}.txt", names, _food, name)


def read_sun(list_file: Path, root: Path, names: Sequence[str], name: str) -> Dataset:
    """Read SUN397 by its first partition: Testing_01.txt with lines like /a/abbey/sun_x.jpg."""
    return _read(root, list_file, names, _sun, name)


def sun_paths(list_file: Path) -> list[str]:
    """List the images of a partition."""
    return [_sun(line)[0] for line in _lines(list_file)]


SUN_LISTS: Mapping[str, str] = {"train": "Training_01.txt", "test": "Testing_01.txt"}


def _aircraft(line: str) -> tuple[str, str]:
    image, _, variant = line.partition(" ")
    return f"images/{image}.jpg", variant.strip()


def _food(line: str) -> tuple[str, str]:
    return f"images/{line}.jpg", line.partition("/")[0]


def _sun(line: str) -> tuple[str, str]:
    """Name the class as CoOp does: /a/apse/indoor/x.jpg shows 'indoor apse'."""
    path = line.removeprefix("/")
    return path, " ".join(reversed(path.split("/")[1:-1]))


def _read(root: Path, list_file: Path, names: Sequence[str], lister: Lister, name: str) -> Dataset:
    """Read the images of a list, each line of which must name a known class."""
    label = {class_name: i for i, class_name in enumerate(names)}
    rows = [lister(line) for line in _lines(list_file)]
    unknown = [f"{path}: {class_name!r}" for path, class_name in rows if class_name not in label]
    if unknown:
        raise DataError(f"{list_file}: no such class: {name_some(unknown, 3)}")
    items = tuple(Item(path, label[class_name], root / path) for path, class_name in rows)
    return check_present(Dataset(name, tuple(names), items, root, layout=LAYOUT))


def _lines(path: Path) -> list[str]:
    """Read the lines of a list that are not empty."""
    lines = path_content(path).decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
