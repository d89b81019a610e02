"""Everything behind `tammes paper`: names in; runs, tables and figures out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import torch

from tammes.errors import UnknownName
from tammes.paper.albums import Album, make_album
from tammes.paper.building import build_datasets
from tammes.paper.costing import COSTS, Cost, measure_costs, read_costs, write_costs
from tammes.paper.counting import build_dimensions, build_elsewhere, build_sizes
from tammes.paper.figures import FIGURES, Figure
from tammes.paper.gathering import Source
from tammes.paper.measuring import Book, measure_all, read_book, write_book
from tammes.paper.models import load_model
from tammes.paper.planning import Settings
from tammes.paper.pricing import Costs, build_cost
from tammes.paper.prompting import build_prompts
from tammes.paper.registry import TABLES, Table
from tammes.paper.results import Missing, Need, Results
from tammes.paper.running import Runner, Session
from tammes.paper.sheets import Sheet
from tammes.paper.writing import WRITERS
from tammes.storage import write_atomically

MEASURES = "measures.json"
BASIC = ("accuracy", "ece", "angle")
Entry = TypeVar("Entry")


def choose_tables(names: Iterable[str]) -> list[Table]:
    """Look tables up among names; "tables" and "all" are every one of them."""
    return _choose(TABLES, "tables", list(names))


def choose_figures(names: Iterable[str]) -> list[Figure]:
    """Look figures up among names; "figures" and "all" are every one of them."""
    return _choose(FIGURES, "figures", list(names))


def _choose(catalog: Mapping[str, Entry], every: str, names: list[str]) -> list[Entry]:
    known = ("all", "tables", "figures", *FIGURES, *TABLES)
    for name in names:
        if name not in known:
            raise UnknownName.of("table or figure", name, known)
    whole = {"all", every} & set(names)
    return [entry for name, entry in catalog.items() if whole or name in names]


def run_tables(tables: Iterable[Table], runner: Runner, settings: Settings) -> Iterator[Sheet]:
    """Run what each table lacks, and give its sheet as soon as it is complete."""
    for table in tables:
        sheet = build(table, runner, settings)
        write_sheet(sheet, settings.out)
        yield sheet


def run_figures(figures: Iterable[Figure], runner: Runner, settings: Settings) -> Iterator[Album]:
    """Run what each figure lacks, and give its pictures; figures of equal needs share a pass."""
    known: dict[tuple[Need, ...], Source] = {}
    for figure in figures:
        needs = figure.needs(settings.methods, runner.datasets.find)
        if needs not in known:
            results = runner.run(needs)
            book = keep(results, (), settings.out)
            known[needs] = Source(needs, results, book, runner.sessions)
        yield make_album(figure, known[needs], settings.out / "figures")


def build(table: Table, runner: Runner, settings: Settings) -> Sheet:
    """Run and measure what a table is made of, and lay it out."""
    if table.kind == "elsewhere":
        return build_elsewhere(table)
    if table.kind == "sizes":
        return build_sizes(table, runner.datasets.whole)
    if table.kind == "dimensions":
        loaded = {s.model.subject: s.load() for s in runner.sessions}
        return build_dimensions(table, loaded)
    needs = table.needs(settings.methods, len(settings.seeds))
    book = keep(runner.run(needs), table.metrics, settings.out)
    if table.kind == "prompts":
        return build_prompts(table, book)
    if table.kind == "cost":
        return build_cost(table, book, time_all(table, runner, settings))
    return build_datasets(table, book, settings.methods)


def keep(results: Results, metrics: Iterable[str], out: Path) -> Book:
    """Measure runs, and write down what came out beside what was known."""
    known = read_book(out / MEASURES)
    book = measure_all(results, (*BASIC, *(["sce"] if "SCE" in metrics else [])), known)
    write_book(known.add(book), out / MEASURES)
    return book


def time_all(table: Table, runner: Runner, settings: Settings) -> Costs:
    """Time the methods of a table with every model that it concerns."""
    asked = [s for s in runner.sessions if s.model.backbone in ("", *table.backbones)]
    return {s.subject.name: _time(table, s, settings) for s in asked}


def _time(table: Table, session: Session, settings: Settings) -> list[Cost] | Missing:
    backbone, path = session.load(), settings.out / COSTS
    if isinstance(backbone, Missing):
        return backbone
    whole = backbone.dtype == torch.float32
    full = backbone if whole else load_model(session.model, settings, "fp32")
    assert not isinstance(full, Missing)
    found, name = [], session.subject.name
    known = read_costs(path)
    for cost in measure_costs(name, backbone, full, table.methods, settings.views, known):
        found.append(cost)
        write_costs({**read_costs(path), cost.key: cost}, path)
    return found


def write_sheet(sheet: Sheet, out: Path) -> None:
    """Write a sheet in every format."""
    for suffix, write in WRITERS.items():
        write_atomically(out / f"{sheet.name}.{suffix}", write(sheet).encode())
