"""The ledger: one Markdown page that says of every published number what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tammes import __version__
from tammes.errors import DataError, TammesError
from tammes.method import METHODS
from tammes.paper.accounting import Entry, account
from tammes.paper.building import TITLES, build_datasets
from tammes.paper.columns import title
from tammes.paper.command import MEASURES
from tammes.paper.costing import COSTS, ENGINE, MIB, PLAIN, Cost, read_costs, write_costs
from tammes.paper.counting import foreign_title
from tammes.paper.measuring import Book, read_book, write_book
from tammes.paper.prompting import Home
from tammes.paper.published import AVERAGE, Average, averages, claims, derived, disagreeing, notes
from tammes.paper.registry import HOMES, TABLES, Table, home
from tammes.paper.results import COCOOP, COOP, Subject
from tammes.paper.sheets import Cell, Panel, write_number
from tammes.paper.writing import plain
from tammes.storage import write_atomically

HEAD = """\
# The ledger: every published number

Written by `{command}`
(tammes {version}), which runs nothing: that folder holds all that was measured.

Nothing is called reproduced that was not run. Of {published:,} published numbers, **{measured:,}
were measured** with the model that they were published for, {counted:,} were counted (classes,
images, dimensions), and **{missing:,} were not run**. What [other
models](#measured-with-models-that-are-not-the-papers) gave reproduces nothing.

How to read a cell: `44.30` was published and not run; what a run needs stands below.
`44.30 → 44.1 [42.0, 46.2]` was measured: the value with its 95 % interval, then the difference to
the published number with a mark. `50,000 =` was counted, and is so.

| mark | |
| --- | --- |
| = | agrees: the interval holds the published number, and the run is as published |
| ≈ | cannot be told apart: the interval holds it, or the images are fewer than 30, but the run \
deviates, as is said below |
| ≠ | differs: the interval excludes it |

Intervals of calibration errors leave the bias of the estimator out. The published number has that
bias too: for the comparison the interval is laid around the measured value, and half a unit of the
last printed digit is added. A printed average that does not follow from its own cells is compared
to nothing.
"""
FIDELITY = """\
## Fidelity

What was measured follows these choices; [fidelity.md](fidelity.md) gives all, with reasons.

- `a-tpt` maximizes the angle to the nearest neighbor, as the paper writes. The released
  fine-grained script minimizes it; that is `a-tpt-released`.
- Angles are fp32. In half precision, as released, ImageNet-V2 and -Sketch come out as zero-shot.
- `o-tpt` has the term of the released code; the formula of its paper is `frobenius`.
- Probabilities are fp32 softmax; ECE has 20 bins. SCE is the mean over classes, in percent.
- View features are stored in half precision; logits move by about 1e-3.
- Views are drawn as released, but from (seed, image id): the random numbers are others.
- `c-tpt+a-tpt` adds both terms with the weights that each has alone; the paper prints none for
  the sum.
- CoCoOp's meta-net sees unit features, as in its training; the released TPT code feeds it raw ones
  (`--cocoop "cocoop(10):FILE"` does about that).
- `ViT-B-16/openai` and `RN50/openai` run with the QuickGELU that they were trained with.
"""
OTHERS = """\
## Measured with models that are not the paper's

**These numbers reproduce nothing**: no published number was measured with these models, so none
stands beside them. Brackets hold 95 % intervals; ▲ is better and ▼ worse than zero-shot on the same
images, ≈ cannot be told apart from it.
"""
COLUMN_NAMES: Mapping[str, str] = {
    **TITLES, "AD": "AD (radians)", "time_s_per_batch": "s per image", "memory_MiB": "MiB",
    "num_classes": "Classes", "test_size": "Test images", "E_dim": "D", "embedding_dim": "D",
    AVERAGE: "Average", "weighted_average": "Weighted average", "overall": "Overall",
    "group1_N>D": "N > D", "group2_N<D": "N < D", COOP: "CoOp", COCOOP: "CoCoOp",
}  # fmt: skip
# What tells the tables of a section, their rows and their columns apart.
LAYOUTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "datasets": (("backbone", "metric", "section"), ("method",), ("dataset",)),
    "groups": (("backbone", "metric"), ("method",), ("dataset",)),
    "weighted": (("backbone",), ("method",), ("metric",)),
    "seeds": (("metric",), ("method",), ("dataset",)),
    "prompts": (("dataset", "backbone"), ("prompt", "method"), ("metric",)),
    "cost": (("backbone",), ("method",), ("metric",)),
    "sizes": ((), ("dataset",), ("metric", "backbone")),
    "dimensions": ((), ("backbone",), ("metric",)),
    "elsewhere": (("backbone",), ("method",), ("dataset", "metric")),
}
Words = tuple[str, ...]


def write_ledger(path: Path, out: Path) -> None:
    """Write the page from what a folder knows, and keep that in a folder of the page's name."""
    kept = kept_beside(path)
    if (kept / MEASURES).exists() and not (out / MEASURES).exists():
        raise DataError(
            f"{out} holds no {MEASURES}, and {kept} does: pass --out {kept} to write {path.name} "
            "again, or name tables to run"
        )
    book, costs = read_book(out / MEASURES), read_costs(out / COSTS)
    write_book(book, kept / MEASURES)
    if costs or (kept / COSTS).exists():  # else the page would not follow from what is kept
        write_costs(costs, kept / COSTS)
    write_atomically(path, page(book, costs.values(), rewriting(path)).encode())


def check_measured(out: Path) -> None:
    """Refuse a folder in which nothing was ever run."""
    if not any((out / name).exists() for name in (MEASURES, COSTS)):
        raise DataError(f"{out} holds no {MEASURES}: name tables to run, or --out where they were")


def kept_beside(path: Path) -> Path:
    """Name the folder that keeps what a page is made of."""
    if not path.suffix:
        raise TammesError(f"--ledger {path}: give the page an ending, as in {path}.md")
    return path.with_suffix("")


def rewriting(path: Path) -> str:
    """Say how a page is written again from what is kept beside it."""
    named = Path(path.name) if path.is_absolute() else path
    return f"tammes paper --out {named.with_suffix('').as_posix()} --ledger {named.as_posix()}"


def page(book: Book, costs: Iterable[Cost] = (), command: str = "tammes paper --ledger") -> str:
    """Write the whole page: the same measures give the same text."""
    timed = sorted(costs, key=lambda cost: repr(cost.key))
    entries = account(book, timed)
    count = Counter(entry.status for entry in entries)
    head = HEAD.format(
        command=command, version=__version__, published=len(entries), measured=count["measured"],
        counted=count["counted"], missing=count["not run"],
    )  # fmt: skip
    parts = [head, *_made_by(book), _overview(entries)]
    parts += [_section(t, [e for e in entries if e.table is t]) for t in TABLES.values()]
    parts += [*_others(book, timed), _wrong_averages(), _claims(), FIDELITY]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _made_by(book: Book) -> Iterator[str]:
    makers = sorted({m.made_by for m in book.measures.values() if m.made_by})
    if makers:
        parts = (maker.rpartition(" (") for maker in makers)
        yield "Measured by:\n\n" + _list(f"`{command}` ({rest}" for command, _, rest in parts)


def _overview(entries: Sequence[Entry]) -> str:
    rows = []
    for table in TABLES.values():
        count = Counter(e.status for e in entries if e.table is table)
        numbers = (count.total(), count["measured"], count["counted"], count["not run"])
        rows.append(
            [plain(table.title), f"`{table.name}`", *(f"{n:,}" if n else "" for n in numbers)]
        )
    return _grid(["table", "`tammes paper`", "published", "measured", "counted", "not run"], rows)


# --- the published numbers ----------------------------------------------------------------------


def _section(table: Table, entries: Sequence[Entry]) -> str:
    """Write one table of the paper: its parts, and remarks on what is printed."""
    parts = _grouped(entries, LAYOUTS[table.kind][0])
    remarks = [f"The paper: {plain(n)}." for source in table.sources for n in notes(source)]
    blocks = [_block(table, name, some) for name, some in parts.items()]
    return "\n\n".join([f"## {plain(table.title)}", *blocks, _list(remarks)])


def _grouped(entries: Iterable[Entry], names: Iterable[str]) -> dict[Words, list[Entry]]:
    groups: dict[Words, list[Entry]] = {}
    listed = tuple(names)
    for entry in entries:
        groups.setdefault(_words(entry, listed), []).append(entry)
    return groups


def _words(entry: Entry, names: Iterable[str]) -> Words:
    """Say in words what a number is filed under."""
    cell = entry.cell
    special = {
        "backbone": cell.backbone if entry.table.kind == "elsewhere" else home(cell),
        "method": cell.key,
        "dataset": COLUMN_NAMES.get(cell.dataset) or foreign_title(cell.dataset),
        "metric": COLUMN_NAMES.get(cell.metric, cell.metric),
        "prompt": f"“{cell.prompt}”",
    }
    words = (special.get(name) or getattr(cell, name) for name in names)
    return tuple(filter(None, words))


def _block(table: Table, name: Words, entries: Sequence[Entry]) -> str:
    """Write some numbers as rows and columns, and below them what the others need."""
    _, row_names, column_names = LAYOUTS[table.kind]
    columns = _grouped(entries, column_names)
    rows = []
    for row, some in _grouped(entries, row_names).items():
        cells = {_words(entry, column_names): _cell(entry) for entry in some}
        rows.append([plain(", ".join(row)), *(cells.get(column, "") for column in columns)])
    needs = {e.needs for e in entries if e.status == "not run"}
    if len(needs) > 1:
        rows.append(_needs_row(entries, columns))
    head = [
        f"**{plain(', '.join(name))}**" if name else "",
        *(plain(", ".join(c)) for c in columns),
    ]
    below = [f"Not run: needs {plain(text)}." for text in needs if len(needs) == 1]
    below += [f"Measured with {plain(m)}." for m in sorted({e.model for e in entries if e.model})]
    unlike = dict.fromkeys(text for entry in entries for text in entry.deviations)
    below += [f"Not as published: {plain('; '.join(unlike))}."] if unlike else []
    return "\n\n".join(filter(None, [_grid(head, rows), " ".join(below)]))


def _needs_row(entries: Sequence[Entry], columns: Mapping[Words, Sequence[Entry]]) -> list[str]:
    """Say below each column what its numbers need; what all need is said once."""
    common = {entry.rest for entry in entries if entry.status == "not run"}
    cells = []
    for some in columns.values():
        lacking = (entry for entry in some if entry.status == "not run")
        texts = dict.fromkeys(e.data if len(common) == 1 else e.needs for e in lacking)
        cells.append(plain("; ".join(texts)))
    label = f"*not run: needs {next(iter(common))} and*" if len(common) == 1 else "*not run: needs*"
    return [label, *cells]


def _cell(entry: Entry) -> str:
    printed, found = plain(entry.cell.printed), entry.found
    if found is None:
        return printed
    if entry.status == "counted":
        same = entry.mark == "="
        return f"{printed} =" if same else f"{printed} → {found.value:,.0f} ≠"
    cell = Cell(interval=found, digits=entry.digits)
    shown = f"{printed} → {cell.number} {cell.range}".rstrip()
    if not entry.mark:
        return shown
    off = write_number(found.value - entry.cell.value, entry.digits)
    return f"{shown}<br>{off} {entry.mark}"


# --- other models -------------------------------------------------------------------------------


def _others(book: Book, costs: Sequence[Cost]) -> Iterator[str]:
    """Write what was measured with models that stand for none of the paper's."""
    others = [subject for subject in book.subjects if not subject.backbone]
    known = {subject.name for subject in book.subjects if subject.backbone}
    timed = [c for c in costs if c.model not in known and c.what in (PLAIN, ENGINE)]
    if others or timed:
        yield OTHERS
    for subject in others:
        yield _model(subject, replace(book, subjects=(subject,), missing={}))
    if timed:
        yield "### Time and memory of an image\n\n" + _timings(timed)


def _model(subject: Subject, book: Book) -> str:
    parts = [f"### {plain(subject.name)}"]
    for table in TABLES.values():
        blocks = [text for panel in _panels(table, book) if (text := _measured(panel))]
        parts += [f"#### {plain(table.title)}", *blocks] if blocks else []
    run = {
        f"{title(m.need.dataset)}: {', '.join(m.deviations) or 'as published'}"
        for m in book.measures.values()
        if m.subject.name == subject.name
    }
    return "\n\n".join([*parts, "Images and views:\n\n" + _list(map(plain, sorted(run)))])


def _panels(table: Table, book: Book) -> Iterable[Panel]:
    """Lay out what others measured once: not what repeats it, nor CLIP's 80 prompts one by one."""
    if table.kind == "prompts":
        homes = [Home(table, book, dataset, backbone) for dataset, backbone in HOMES.items()]
        return [panel for found in homes for panel in (found.quoted(), found.correlations())]
    if table.kind == "seeds" or (table.kind == "datasets" and table.others):
        return build_datasets(table, book, tuple(METHODS)).panels
    return []


def _measured(panel: Panel) -> str:
    """Keep the measured lines of a panel, and the columns that hold a whole number of theirs."""
    rows = [(row.label, [_shown(cell) for cell in line.cells]) for row in panel.rows
            for line in row.lines if line.kind == "measured" and line.runs]  # fmt: skip
    used = [i for i in range(len(panel.columns)) if any(cells[i] for _, cells in rows)]
    if not any(cell.interval for row in panel.rows for line in row.lines for cell in line.cells):
        return ""
    head = [f"**{plain(panel.title)}**", *(plain(panel.columns[i]) for i in used)]
    return _grid(head, [[plain(label), *(cells[i] for i in used)] for label, cells in rows])


def _shown(cell: Cell) -> str:
    """Write a measured number; an average over some of its datasets is none."""
    return "" if cell.why or cell.note.endswith("datasets") else str(cell)


def _timings(costs: Sequence[Cost]) -> str:
    rows = []
    for cost in costs:
        memory = "" if cost.peak_gb is None else f"{cost.peak_gb * MIB:,.0f}"
        about = (cost.model, cost.what, cost.method, f"{cost.size:,}", f"{cost.views}")
        rows.append([*map(plain, about), str(Cell(interval=cost.seconds, digits=3)), memory,
                     plain(cost.machine)])  # fmt: skip
    head = ["model", "way", "method", "classes", "views", "s [fastest, slowest]", "MiB", "machine"]
    return _grid(head, rows)


# --- what the paper contradicts -----------------------------------------------------------------


def _wrong_averages() -> str:
    whole = [*averages(), *derived()]
    wrong = disagreeing()
    rounded = sum(a.status == "rounding" for a in whole)
    said = (
        f"Of {len(whole)} printed averages, {len(wrong)} do not follow from the cells that they "
        f"average, and {rounded} follow up to their last decimal. No average is ever a target."
    )
    head = ["table", "backbone", "prompt", "method", "metric", "column", "printed", "recomputed"]
    rows = [[*map(plain, _about(a)), f"{a.printed:.2f}", f"{a.recomputed:.2f}"] for a in wrong]
    return f"## Printed averages that do not follow from their cells\n\n{said}\n\n" + _grid(
        head, rows
    )


def _about(a: Average) -> Words:
    column = COLUMN_NAMES.get(a.column, a.column)
    return a.table, a.backbone, a.prompt, a.method, a.metric, column


def _claims() -> str:
    rows = [[plain(c.where), plain(c.claim), plain(c.fact)] for c in claims()]
    head = ["where", "the text", "tables and code"]
    return "## Sentences that tables or code contradict\n\n" + _grid(head, rows)


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)
