"""Image packs: a ZIP with a table of labels, or with one folder per class, read as it lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tammes.datasets.dataset import Dataset, Item, check_present
from tammes.datasets.folders import sort_by_folder
from tammes.datasets.names import Names, by_folder, listed
from tammes.datasets.packs import PackedFile, list_pack
from tammes.datasets.tables import label_rows, named_labels, parse_table

LABELS = "labels.csv"


def read_pack(
    path: str | Path,
    classnames: Names | None = None,
    name: str | None = None,
    part: str = "test",
) -> Dataset:
    """Read a ZIP with a `labels.csv` in its root, or with one folder per class, as it lies."""
    path = Path(path)
    files = list_pack(path)
    name = name or path.stem
    if LABELS not in files:
        return _as_packed(sort_by_folder(files, path, by_folder(classnames), name, part), path)
    table = parse_table(Path(LABELS), files[LABELS].read())
    paths, labels, names = label_rows(table, f"{LABELS} in {path}", listed(classnames))
    rows = zip(paths, labels, strict=True)
    items = tuple(Item(p, x, files.get(p, PackedFile.absent(path, p))) for p, x in rows)
    ignored = tuple(sorted(set(files) - set(paths) - {LABELS}))
    return check_present(Dataset(name, names, items, path, ignored))


def _as_packed(dataset: Dataset, path: Path) -> Dataset:
    """Call images as the archive does, however deep its class folders lie: a report opens it."""
    sources = [item.source for item in dataset.items]
    called = [s.name if isinstance(s, PackedFile) else str(s) for s in sources]
    items = tuple(replace(i, id=c) for i, c in zip(dataset.items, called, strict=True))
    return replace(dataset, items=items, root=path)


def pack_classes(path: Path) -> list[tuple[int, str]]:
    """List what the table of a pack calls its labels, each once; nothing where it says nothing."""
    files = list_pack(path)
    if LABELS not in files:
        return []
    return named_labels(parse_table(Path(LABELS), files[LABELS].read()))
