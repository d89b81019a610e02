"""The tables that count: datasets, embedding dimensions, and what is measured elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tammes.backbones import Backbone
from tammes.datasets import CATALOG, Dataset
from tammes.paper.building import finish
from tammes.paper.columns import title
from tammes.paper.measuring import Book
from tammes.paper.published import PublishedCell, published
from tammes.paper.registry import RN50, VIT, Table
from tammes.paper.results import Missing, Subject
from tammes.paper.sheets import Cell, Kind, Line, Panel, Row, Sheet

Find = Callable[[str], Dataset | Missing]
SIZES = ("Classes", "Test images", f"D of {VIT}", f"D of {RN50}")
ELSEWHERE: Mapping[str, str] = {  # what a measurement would need, and why there is none here
    "tab:fpt": "FPT, a vision model without class texts, trained on ISIC 2018",
    "tab:ps": "PromptSmooth on KatherColon with the weights of PLIP",
    "tab:baple": "BAPLe on Covid with the weights of MedCLIP",
}


# --- datasets -----------------------------------------------------------------------------------


def build_sizes(table: Table, find: Find | None = None) -> Sheet:
    """Put the catalog, and the datasets that are here, beside the printed counts."""
    rows = tuple(_dataset(name, find) for name in table.datasets)
    off = [row.label for row in rows if any(c.note for ln in row.lines for c in ln.cells)]
    note = f"Not as printed: {', '.join(off)}." if off else "All counts are those printed."
    return finish(table, Book(), (Panel("Counts", SIZES, rows, (note,)),))


def _dataset(name: str, find: Find | None) -> Row:
    entry, printed = CATALOG[name], _printed_counts(name)
    dims = (embedding_dim(VIT), embedding_dim(RN50))
    lines = [
        Line("published", "paper", tuple(Cell(cell.printed) for cell in printed)),
        _counts("known", "catalog, open_clip", (entry.classes, entry.images, *dims), printed),
    ]
    if find is not None:
        lines.append(_found(find(name), printed))
    return Row(title(name), tuple(lines))


def _found(dataset: Dataset | Missing, printed: tuple[PublishedCell, ...]) -> Line:
    """Count a dataset that is here; the dimensions are no matter of it."""
    if isinstance(dataset, Missing):
        why = Cell(why=dataset)
        return Line("measured", "found here", (why, why, Cell(), Cell()))
    counts = (len(dataset.classnames), len(dataset), None, None)
    return _counts("measured", "found here", counts, printed)


def _counts(
    kind: Kind, label: str, counts: Iterable[int | None], printed: Iterable[PublishedCell]
) -> Line:
    cells = tuple(
        Cell() if n is None else Cell(f"{n:,}", note="" if n == p.value else "not as printed")
        for n, p in zip(counts, printed, strict=True)
    )
    return Line(kind, label, cells)


def _printed_counts(name: str) -> tuple[PublishedCell, ...]:
    """Find the printed classes, test images and dimensions of a dataset."""
    found = {(c.metric, c.backbone): c for c in published()
             if c.table == "tab:datasets" and c.dataset == name}  # fmt: skip
    keys = (("num_classes", ""), ("test_size", ""), ("E_dim", VIT), ("E_dim", RN50))
    return tuple(found[key] for key in keys)


# --- dimensions ---------------------------------------------------------------------------------


def build_dimensions(
    table: Table, loaded: Mapping[Subject, Backbone | Missing] | None = None
) -> Sheet:
    """Put the architectures, and the models that are here, beside the printed dimensions."""
    cells = [c for c in published() if c.table in table.sources]
    loaded = loaded or {}
    rows = [_architecture(cell, loaded) for cell in cells]
    others = {s: found for s, found in loaded.items() if not s.backbone}
    rows += [Row(s.name, (_dimension(s, found),)) for s, found in others.items()]
    return finish(table, Book(), (Panel("Embedding dimension D", ("D",), tuple(rows)),))


def _architecture(cell: PublishedCell, loaded: Mapping[Subject, Backbone | Missing]) -> Row:
    own = [_dimension(s, m, cell) for s, m in loaded.items() if s.backbone == cell.backbone]
    lines = (
        Line("published", "paper", (Cell(cell.printed),)),
        _counts("known", "open_clip", (embedding_dim(cell.backbone),), (cell,)),
    )
    return Row(cell.backbone, (*lines, *own))


def _dimension(
    subject: Subject, found: Backbone | Missing, printed: PublishedCell | None = None
) -> Line:
    if isinstance(found, Missing):
        return Line("measured", subject.name, (Cell(why=found),))
    if printed:
        return _counts("measured", subject.name, (found.dim,), (printed,))
    return Line("measured", subject.name, (Cell(f"{found.dim:,}"),))


def embedding_dim(backbone: str) -> int:
    """Read the dimension off open_clip's description of an architecture: that needs no weights."""
    from open_clip import get_model_config

    settings = get_model_config(backbone.replace("/", "-"))
    assert settings, backbone
    return int(settings["embed_dim"])


# --- elsewhere ----------------------------------------------------------------------------------


def build_elsewhere(table: Table) -> Sheet:
    """Show numbers that other projects' training and models are behind, and say so."""
    return finish(table, Book(), tuple(_foreign(source) for source in table.sources))


def _foreign(source: str) -> Panel:
    cells = [c for c in published() if c.table == source]
    columns = tuple(dict.fromkeys((c.dataset, c.metric) for c in cells))
    rows: dict[str, dict[tuple[str, str], str]] = {}
    for cell in cells:
        rows.setdefault(cell.method, {})[cell.dataset, cell.metric] = cell.printed
    shown = [
        Row(method, (Line("published", "paper", tuple(Cell(row.get(c, "")) for c in columns)),))
        for method, row in rows.items()
    ]
    why = Cell(why=Missing(ELSEWHERE[source]))
    none = Row("every method", (Line("measured", "here", (why,) * len(columns)),))
    names = tuple(f"{foreign_title(dataset)} {metric}" for dataset, metric in columns)
    return Panel(cells[0].backbone, names, (*shown, none))


def foreign_title(dataset: str) -> str:
    """Write a dataset of which only a part may be meant."""
    name, _, part = dataset.partition("_")
    return title(dataset) if dataset in CATALOG else f"{title(name)} {part}".strip()
