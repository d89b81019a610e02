"""Hugging Face datasets: a folder of `save_to_disk`, or a name on the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tammes.datasets.dataset import Dataset, Item
from tammes.datasets.names import PASS_NAMES, Names, listed
from tammes.errors import DataError, ImageError, MissingExtra, UnknownName

HUB = "hf:"


@dataclass(frozen=True, eq=False)
class Row:
    """The image in one row of a table that stays on disk."""

    table: Any
    column: str
    index: int

    def stamp(self) -> str:
        """Return what the library knows the table by, and the row."""
        return f"{self.table._fingerprint}:{self.index}"

    def read(self) -> bytes:
        """Read the bytes of the image file, which may lie beside the table."""
        try:
            cell = self.table[self.index][self.column]
            return cell["bytes"] or Path(cell["path"]).read_bytes()
        except (OSError, TypeError, KeyError, ValueError) as problem:
            raise ImageError(f"row {self.index}: no image: {problem}") from problem


IMAGES, LABELS = ("image", "img", "webp", "jpg"), ("label", "cls", "fine_label")


def is_saved(folder: Path) -> bool:
    """Tell a folder that `save_to_disk` wrote."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def read_hub(
    source: str | Path,
    part: str = "test",
    classnames: Names | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a saved folder, or `hf:owner/name[:configuration]` from the hub's cache or the net."""
    table = _table(source, part)
    image = _column(table, "Image", source, *IMAGES)
    label = _column(table, "ClassLabel", source, *LABELS)
    names = listed(classnames) or _names(table, label, source)
    bare = table.cast_column(image, _library().Image(decode=False))
    labels = [_label(value, names, row) for row, value in enumerate(table[label])]
    items = [Item(f"{part}/{i}", x, Row(bare, image, i)) for i, x in enumerate(labels)]
    known = name or Path(str(source).removeprefix(HUB)).name.partition(":")[0]
    layout = "Hugging Face dataset"
    return Dataset(known, names, tuple(items), Path(str(source)), layout=layout)


def _library() -> Any:
    try:
        import datasets
    except ImportError as missing:
        raise MissingExtra.of("reading Hugging Face datasets", "data", "datasets") from missing
    return datasets


def _table(source: str | Path, part: str) -> Any:
    """Open one part; the library's many errors become ours."""
    library = _library()
    try:
        if str(source).startswith(HUB):
            owner, _, configuration = str(source).removeprefix(HUB).partition(":")
            return library.load_dataset(owner, configuration or None, split=part)
        found = library.load_from_disk(str(source))
    except Exception as problem:  # the library raises its own, requests' and pyarrow's
        reason = f"{type(problem).__name__}: {problem}"
        raise DataError(f"cannot read the dataset {source}: {reason}") from problem
    if not isinstance(found, dict):
        return found
    if part not in found:
        raise UnknownName.of(f"part of {source}", part, found)
    return found[part]


def _column(table: Any, kind: str, source: str | Path, *usual: str) -> str:
    """Find the one column of a kind; among several, or without any, one that is called as usual."""
    columns = [name for name, about in table.features.items() if type(about).__name__ == kind]
    if len(columns) != 1:
        called = next((name for name in usual if name in (columns or table.features)), None)
        columns = [called] if called else columns
    if len(columns) != 1:
        what = f"{len(columns)} columns" if columns else "no column"
        raise DataError(f"{source}: {what} of the kind {kind} among {', '.join(table.features)}")
    return columns[0]


def _names(table: Any, label: str, source: str | Path) -> tuple[str, ...]:
    """Take the names that the labels stand for."""
    about = table.features[label]
    if hasattr(about, "names"):
        return tuple(about.names)
    values = set(table[label])
    if all(isinstance(value, str) for value in values):
        return tuple(sorted(values))
    raise DataError(f"{source}: the labels in {label!r} are numbers without names: {PASS_NAMES}")


def _label(value: Any, names: tuple[str, ...], row: int) -> int:
    """Take a label as a number."""
    if isinstance(value, str) and value in names:
        return names.index(value)
    if isinstance(value, int) and 0 <= value < len(names):
        return value
    hint = ": its labels are secret, so choose another --part" if value == -1 else ""
    raise DataError(f"row {row} has the label {value!r}, none of 0…{len(names) - 1}{hint}")
