"""The published numbers are all there, and those that others determine are checked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tammes.datasets import CATALOG
from tammes.method import METHODS
from tammes.paper.published import (
    AVERAGE,
    METHOD_NAMES,
    asset,
    averages,
    claims,
    derived,
    notes,
    published,
)
from tammes.paper.registry import ALL

CELLS = 1335
MEDICAL = ("tab:fpt", "tab:ps", "tab:baple")


def test_every_printed_number_is_there():
    counted = Counter(cell.table for cell in published())
    assert counted == {name: about["cells"] for name, about in asset()["tables"].items()}
    assert sum(counted.values()) == len(set(published())) == CELLS


def test_printed_numbers_are_read():
    read = {cell.printed: cell.value for cell in published()}
    assert (read["50,000"], read["±.12"], read["±.0.11"], read["66.70"]) == (
        50000,
        0.12,
        0.11,
        66.7,
    )


def test_averages_are_recomputed_from_their_cells():
    found = [
        [a.table, a.backbone, a.prompt, a.method, a.metric, a.printed, round(a.recomputed, 4)]
        for a in averages()
    ]
    recorded = asset()["averages"]
    assert found == [row[:-1] for row in recorded]
    assert [a.status for a in averages()] == [row[-1] for row in recorded]
    assert sum(a.status == "DISAGREES" for a in averages()) == 18


def test_derived_tables_are_recomputed_from_the_others():
    recorded = {
        (table, backbone, method, metric, column.replace("all 15 sets weighted by test size", "")):
        (printed, recomputed, status)
        for table, backbone, method, metric, column, printed, recomputed, status
        in asset()["derived"]
    }  # fmt: skip
    found = {
        (
            d.table, d.backbone, d.method, d.metric, d.column.replace("weighted_average", ""),
        ): (d.printed, round(d.recomputed, 4), d.status)
        for d in derived()
    }  # fmt: skip
    assert found == recorded
    assert len(found) == 50
    assert sum(status == "DISAGREES" for _, _, status in found.values()) == 3


def test_names_are_those_of_the_catalogs():
    for cell in published():
        if cell.table in MEDICAL or not cell.method:
            continue
        assert cell.method in METHOD_NAMES, cell
        assert cell.key in METHODS
        assert (
            cell.dataset in CATALOG
            or cell.table in ("tab:group", "tab:weighted")
            or (cell.dataset == AVERAGE)
        )


def test_catalog_counts_equal_the_table_of_datasets():
    printed = {
        (cell.metric, cell.dataset): cell.value
        for cell in published()
        if cell.table == "tab:datasets"
    }
    assert {name for _, name in printed} == set(ALL)
    for name in ALL:
        entry = CATALOG[name]
        assert entry.classes == printed["num_classes", name] == len(entry.classnames)
        assert entry.images == printed["test_size", name]


def test_claims_and_notes_are_read():
    assert len(claims()) == 10
    assert claims()[0].fact == "2.61"
    assert any("EuroSAT" in note for note in notes("tab:finegrained"))


def test_the_asset_equals_its_source(shared: Path):
    source = shared / "paper" / "tables.json"
    if not source.is_file():
        pytest.skip(f"needs {source}")
    whole = json.loads(source.read_text("utf-8"))
    rows = whole["rows"]
    ours = [
        (c.table, c.backbone, c.prompt, c.method, c.metric, c.dataset, c.value, c.printed, c.bold)
        for c in published()
    ]
    names = ("table", "backbone", "prompt", "method", "metric", "dataset")
    theirs = [
        (*(row[name] or "" for name in names), row["value"], row["printed"], row["bold"])
        for row in rows
    ]
    assert sorted(ours) == sorted(theirs)
    for found, listed, value in (
        (averages(), whole["averages"], "printed_average"),
        (derived(), whole["derived"], "printed"),
    ):
        about = ("table", "backbone", "method", "metric")
        mine = [(*(getattr(a, n) for n in about), a.printed, a.status) for a in found]
        assert sorted(mine) == sorted(
            (*(row[n] or "" for n in about), row[value], row["status"]) for row in listed
        )
