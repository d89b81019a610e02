"""Everything behind `tammes paper`: names in; runs, tables and figures out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tammes.errors import UnknownName
from tammes.paper.building import build_datasets
from tammes.paper.measuring import measure_all, read_book, write_book
from tammes.paper.planning import Settings
from tammes.paper.registry import TABLES, Table
from tammes.paper.results import Results
from tammes.paper.running import Runner
from tammes.paper.sheets import Sheet
from tammes.paper.writing import WRITERS
from tammes.storage import write_atomically

MEASURES = "measures.json"
BASIC = ("accuracy", "ece", "angle")


def choose_tables(names: Iterable[str]) -> list[Table]:
    """Look tables up; "all" is every one of them."""
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in (*TABLES, "all")]
    if unknown:
        raise UnknownName.of("table", unknown[0], ["all", *TABLES])
    return [t for t in TABLES.values() if "all" in wanted or t.name in wanted]


def run_tables(tables: Iterable[Table], runner: Runner, settings: Settings) -> Iterator[Sheet]:
    """Run what each table lacks, and give its sheet as soon as it is complete."""
    for table in tables:
        results = runner.run(table.needs(settings.methods, len(settings.seeds)))
        yield build(table, results, settings)


def build(table: Table, results: Results, settings: Settings) -> Sheet:
    """Measure the runs of a table, and keep and write what came out."""
    path = settings.out / MEASURES
    known = read_book(path)
    metrics = (*BASIC, *(["sce"] if "SCE" in table.metrics else []))
    book = measure_all(results, metrics, known)
    write_book(known.add(book), path)
    sheet = build_datasets(table, book, settings.methods)
    write_sheet(sheet, settings.out)
    return sheet


def write_sheet(sheet: Sheet, out: Path) -> None:
    """Write a sheet in every format."""
    for suffix, write in WRITERS.items():
        write_atomically(out / f"{sheet.name}.{suffix}", write(sheet).encode())
