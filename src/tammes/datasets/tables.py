"""Tables of images: one row per image, as CSV, TSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tammes.datasets.dataset import Dataset, Item, check_present, name_some
from tammes.datasets.names import PASS_NAMES
from tammes.errors import DataError

FILE_COLUMNS = ("file", "path", "filename", "filepath", "image")
LABEL_COLUMNS = ("label", "class_name")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")


def read_table(
    path: str | Path,
    root: str | Path | None = None,
    classnames: Sequence[str] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the columns `file` (or `path`), `label` (number or name) and, optionally, `class_name`.

    Files lie under `root`, by default the folder of the table.
    """
    path = Path(path)
    root = path.parent if root is None else Path(root)
    columns = parse_table(path, path_content(path))
    files, labels, names = label_rows(columns, str(path), classnames)
    items = tuple(Item(f, label, root / f) for f, label in zip(files, labels, strict=True))
    return check_present(Dataset(name or path.stem, names, items, root))


def path_content(path: Path) -> bytes:
    """Read a file whose absence is the user's to know."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise DataError(f"cannot read {path}: {problem.strerror or problem}") from problem


def parse_table(path: Path, content: bytes) -> dict[str, list[str]]:
    """Parse a table to columns of text; in CSV '007' stays a name."""
    try:
        rows = _parquet_rows(content) if path.suffix == ".parquet" else _csv_rows(path, content)
    except (ValueError, csv.Error, OSError) as problem:  # pyarrow's errors are among them
        raise DataError(f"{path} is not a table we can read: {problem}") from problem
    if not rows:
        raise DataError(f"{path}: the table has no rows")
    return {str(key).strip().lower(): [_text(row[key]) for row in rows] for key in rows[0] if key}


def _csv_rows(path: Path, content: bytes) -> list[dict[str, Any]]:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    return list(csv.DictReader(text, delimiter=delimiter))


def _parquet_rows(content: bytes) -> list[dict[str, Any]]:
    from pyarrow import BufferReader, parquet

    table = parquet.read_table(BufferReader(content))
    wanted = {*FILE_COLUMNS, *LABEL_COLUMNS}
    kept = [c for c in table.column_names if c.strip().lower() in wanted]
    return table.select(kept or table.column_names).to_pylist()


def _text(value: Any) -> str:
    """Write a cell as text; what stands for a missing value becomes empty."""
    text = "" if value is None else str(value).strip()
    return "" if text.lower() == "nan" else text


def label_rows(
    columns: Mapping[str, list[str]], where: str, classnames: Sequence[str] | None = None
) -> tuple[list[str], list[int], tuple[str, ...]]:
    """Return files, labels and class names of a parsed table."""
    file = next((c for c in FILE_COLUMNS if c in columns), None)
    label = next((c for c in LABEL_COLUMNS if c in columns), None)
    if file is None or label is None:
        raise DataError(
            f"{where}: needs columns file (or path) and label, has {', '.join(columns)}"
        )
    files, given = columns[file], columns[label]
    _refuse(where, "no file name", (f"row {i}" for i, f in enumerate(files, 1) if not f))
    _refuse(where, "no label", (f for f, g in zip(files, given, strict=True) if not g))
    numbers = [_number(value) for value in given]
    if set(numbers) == {None} or (classnames is not None and set(given) <= set(classnames)):
        return files, *_by_name(files, given, where, classnames)
    names = tuple(classnames or _named(numbers, columns.get("class_name"), where))
    rows = list(zip(files, given, numbers, strict=True))
    wrong = (f"{f}: {g}" for f, g, n in rows if n is None or not 0 <= n < len(names))
    _refuse(where, f"a label that is none of 0…{len(names) - 1}", wrong)
    return files, [n for n in numbers if n is not None], names


def has_rows(path: Path) -> bool:
    """Tell a table of images from another, which may be called alike."""
    columns = parse_table(path, path_content(path))
    return any(c in columns for c in FILE_COLUMNS) and any(c in columns for c in LABEL_COLUMNS)


def named_labels(columns: Mapping[str, list[str]]) -> list[tuple[int, str]]:
    """List what a table calls its labels, each once; nothing where it lacks one of the two."""
    pairs = zip(columns.get("label", ()), columns.get("class_name", ()), strict=False)
    numbered = ((_number(label), name) for label, name in pairs)
    return sorted({(number, name) for number, name in numbered if number is not None})


def _refuse(where: str, problem: str, rows: Iterable[str]) -> None:
    """Raise when there are such rows, and name them."""
    if named := list(rows):
        raise DataError(f"{where}: {len(named)} rows have {problem}: {name_some(named)}")


def _number(text: str) -> int | None:
    """Read a label that is a number; '3.0' is what a table with gaps makes of 3."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def _by_name(
    files: Sequence[str], given: Sequence[str], where: str, classnames: Sequence[str] | None
) -> tuple[list[int], tuple[str, ...]]:
    """Look labels up that are written as class names."""
    names = tuple(sorted(set(given)) if classnames is None else classnames)
    position = {name: label for label, name in enumerate(names)}
    rows = list(zip(files, given, strict=True))
    _refuse(where, "an unknown class name", (f"{f}: {g!r}" for f, g in rows if g not in position))
    twice = sorted({name for name in given if names.count(name) > 1})
    if twice:
        raise DataError(f"{where}: several classes are called {name_some(twice)}: label by number")
    return [position[name] for name in given], names


def _named(numbers: Sequence[int | None], named: Sequence[str] | None, where: str) -> Iterable[str]:
    """Gather the class names that a table gives beside its numbers."""
    if named is None:
        raise DataError(f"{where}: labels are numbers: add a column class_name, or {PASS_NAMES}")
    found: dict[int, set[str]] = {}
    for number, name in zip(numbers, named, strict=True):
        if number is not None and number >= 0:
            found.setdefault(number, set()).add(name)
    unclear = [f"{n}: {sorted(names)}" for n, names in sorted(found.items()) if len(names) > 1]
    if unclear:
        raise DataError(f"{where}: one label with several class names: {name_some(unclear)}")
    missing = [str(n) for n in range(len(found)) if n not in found]
    if missing:
        raise DataError(f"{where}: no row names label {name_some(missing)}: {PASS_NAMES}")
    return [found[n].pop() for n in range(len(found))]
