"""Split files as CoOp publishes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tammes.datasets.dataset import Dataset, Item, check_present
from tammes.datasets.tables import path_content
from tammes.errors import DataError, UnknownName

SPLIT_SUFFIXES = (".json", ".json.gz")
Row = tuple[str, int, str]


def read_coop_split(
    path: str | Path, root: str | Path, part: str = "test", name: str | None = None
) -> Dataset:
    """Read one part of CoOp's `{"train": [[path, label, class name], …], …}`, gzipped or not."""
    path, root = Path(path), Path(root)
    parts = _parse(path)
    names = _names([row for rows in parts.values() for row in rows], path)
    items = tuple(Item(file, label, root / file) for file, label, _ in _part(parts, part, path))
    return check_present(Dataset(name or path.name.partition(".")[0], names, items, root))


def split_paths(path: Path, part: str) -> list[str]:
    """List the image paths of one part."""
    return [file for file, _, _ in _part(_parse(path), part, path)]


def listed_paths(path: Path) -> set[str]:
    """List the image paths of every part."""
    return {file for rows in _parse(path).values() for file, _, _ in rows}


def _part(parts: Mapping[str, list[Row]], part: str, path: Path) -> list[Row]:
    """Take one part of a split, which must hold something."""
    if not parts.get(part):
        raise UnknownName.of(f"part of {path.name}", part, [p for p, rows in parts.items() if rows])
    return parts[part]


def _parse(path: Path) -> dict[str, list[Row]]:
    """Parse the file and check that it has the shape of a split."""
    content = path_content(path)
    try:
        parts = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        return {
            part: [(str(file), int(label), str(name)) for file, label, name in rows]
            for part, rows in parts.items()
        }
    except (ValueError, TypeError, AttributeError, OSError, EOFError) as problem:
        shape = '{"test": [[path, label, name], …]}'
        cut = isinstance(problem, json.JSONDecodeError | EOFError | OSError)
        why = "it is cut off or damaged, fetch it again" if cut else f"expected {shape}"
        raise DataError(
            f"{path} is not a split of [path, label, name] rows ({problem}): {why}"
        ) from problem


def _names(rows: Sequence[Row], path: Path) -> tuple[str, ...]:
    """Gather class names over all parts, since a part may lack a class."""
    names = {label: name for _, label, name in rows}
    if sorted(names) != list(range(len(names))):
        raise DataError(f"{path}: labels are not 0…{len(names) - 1} without a gap: {sorted(names)}")
    clash = next(((f, x, n) for f, x, n in rows if names[x] != n), None)
    if clash:
        raise DataError(
            f"{path}: label {clash[1]} is {names[clash[1]]!r}, but {clash[2]!r} for {clash[0]}"
        )
    return tuple(names[label] for label in range(len(names)))
