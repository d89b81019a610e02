"""The ledger: every published number once, and nothing reproduced that was not run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from miniatures import make_benchmarks
from tammes.backbones.random import random_backbone
from tammes.cli import app
from tammes.datasets import CATALOG
from tammes.errors import DataError
from tammes.paper import COOP, Need, Subject, costing
from tammes.paper.accounting import Entry, account, runs_behind
from tammes.paper.command import MEASURES
from tammes.paper.costing import COSTS, ENGINE, PLAIN, Cost, read_costs, write_costs
from tammes.paper.ledger import page, rewriting, write_ledger
from tammes.paper.measuring import Book, Measure, read_book, write_book
from tammes.paper.pricing import build_cost
from tammes.paper.published import published
from tammes.paper.registry import ALL, RN50, TABLES, VIT
from tammes.paper.results import Missing
from tammes.paper.seeds import spread
from tammes.paper.writing import plain
from tammes.statistics import Interval

DOCS = Path(__file__).parents[1] / "docs"
WEIGHTS, OTHER = Subject("weights.pt", VIT), Subject("other.pt")
FEW = ("16 of 1,692 images",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_benchmarks(tmp_path_factory.mktemp("data"), ["dtd"])


def measure(subject: Subject, need: Need, accuracy: float = 0.5, *deviations: str) -> Measure:
    interval = Interval(accuracy, accuracy - 0.1, accuracy + 0.1)
    metrics = {"accuracy": interval, "ece": Interval(0.04, 0.03, 0.05)}
    maker = "tammes paper all (tammes 0.1.0)"
    return Measure(
        subject, need.plain, need.repeat, 100, "0", 100, metrics, deviations=deviations,
        made_by=maker,
    )  # fmt: skip


def book_of(*measures: Measure) -> Book:
    subjects = {m.subject.name: m.subject for m in measures}
    return Book(tuple(subjects.values()), {m.key: m for m in measures}, seeds=(0, 1, 2))


def entry_of(book: Book, dataset: str, key: str, metric: str = "Acc", **about: str) -> Entry:
    wanted = {"table": "tab:finegrained", "backbone": VIT, "dataset": dataset, **about}
    (found,) = (
        entry
        for entry in account(book)
        if (entry.cell.key, entry.cell.metric) == (key, metric)
        and all(getattr(entry.cell, name) == value for name, value in wanted.items())
    )
    return found


def sections(text: str) -> dict[str, str]:
    """Cut a page at its headings of the second level."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def numbers(section: str) -> Counter[str]:
    """Count the cells of all rows by what stands first in them."""
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [cell for row in rows for cell in row.strip("| ").split(" | ")[1:]]
    return Counter(cell.split(" ")[0] for cell in cells)


# --- every published number ---------------------------------------------------------------------


def test_every_published_number_has_an_entry():
    entries = account(Book())
    assert [entry.cell for entry in entries] == list(published())
    assert Counter(entry.status for entry in entries) == {"not run": 1270, "counted": 65}
    assert {entry.mark for entry in entries if entry.status == "counted"} == {"="}
    assert all(bool(entry.needs) == (entry.status == "not run") for entry in entries)


@pytest.mark.parametrize("filled", [False, True])
def test_every_published_number_stands_on_the_page(filled: bool):
    """Each table's section shows each of its numbers as often as the paper does."""
    needs = [Need(dataset, method) for dataset in ALL for method in ("tpt", "a-tpt")]
    whole = book_of(*(measure(WEIGHTS, need) for need in needs)) if filled else Book()
    text = sections(page(whole))
    shown = 0
    for table in TABLES.values():
        cells = [cell for cell in published() if cell.table in table.sources]
        counted = numbers(text[plain(table.title)])
        expected = Counter(plain(cell.printed) for cell in cells)
        assert {number: counted[number] for number in expected} == expected
        shown += len(cells)
    assert shown == len(published()) == 1335


def test_the_head_counts():
    some = page(book_of(measure(WEIGHTS, Need("dtd", "a-tpt"))))
    entries = account(book_of(measure(WEIGHTS, Need("dtd", "a-tpt"))))
    count = Counter(entry.status for entry in entries)
    assert count["measured"] == 4  # accuracy and ECE, in two tables
    assert "Of 1,335 published numbers, **4\nwere measured**" in some
    assert "**1,266 were not run**" in some


def test_counts_of_the_catalog_stand_beside_the_printed_ones(monkeypatch: pytest.MonkeyPatch):
    assert "| 1,692 = |" in page(Book())
    monkeypatch.setitem(CATALOG, "dtd", replace(CATALOG["dtd"], images=1700))
    assert "| 1,692 → 1,700 ≠ |" in page(Book())


def test_what_a_number_needs_is_said():
    assert entry_of(Book(), "imagenet", "tpt").needs == "ImageNet and the weights ViT-B-16/openai"
    assert entry_of(Book(), "average", "tpt", backbone=RN50).needs == (
        "11 datasets and the weights RN50/openai"
    )
    started = [e for e in account(Book()) if e.table.name == "coop"]
    assert all("CoOp context" in e.rest or "CoCoOp checkpoint" in e.rest for e in started)
    timed = [e for e in account(Book()) if e.cell.metric == "memory_MiB"]
    assert {e.needs for e in timed} == {"the weights ViT-B-16/openai and a CUDA device"}


def test_averages_are_made_of_the_cells_they_average():
    groups = {c.dataset: c for c in published() if c.table == "tab:group"}
    behind = {name: runs_behind(c, TABLES["group"]) for name, c in groups.items()}
    assert {name: len(needs) for name, needs in behind.items()} == {
        "group1_N>D": 3, "group2_N<D": 12, "overall": 15,
    }  # fmt: skip


# --- what was measured --------------------------------------------------------------------------


def test_another_model_never_answers_for_a_published_number():
    book = book_of(*(measure(OTHER, Need(dataset, "a-tpt")) for dataset in ALL))
    assert not [entry for entry in account(book) if entry.status == "measured"]
    text = page(book)
    before, _, after = text.partition("## Measured with models that are not the paper's")
    assert "other.pt" not in before
    assert "### other.pt" in after
    assert "These numbers reproduce nothing" in after
    assert "| a-tpt | 50.0 [40.0, 60.0] |" in after
    assert "paper" not in sections(text)["Measured with models that are not the paper's"][500:]


def test_a_run_with_the_other_backbone_is_none():
    book = book_of(measure(Subject("RN50/openai", RN50), Need("dtd", "a-tpt")))
    assert entry_of(book, "dtd", "a-tpt").status == "not run"
    assert entry_of(book, "dtd", "a-tpt", backbone=RN50).status == "measured"


def test_marks_say_how_far_numbers_agree():
    """45.51 was published for A-TPT on DTD."""
    agrees = book_of(measure(WEIGHTS, Need("dtd", "a-tpt"), 0.5))
    assert entry_of(agrees, "dtd", "a-tpt").mark == "="
    assert "45.51 → 50.0 [40.0, 60.0]<br>4.5 =" in page(agrees)
    few = book_of(measure(WEIGHTS, Need("dtd", "a-tpt"), 0.5, *FEW))
    assert entry_of(few, "dtd", "a-tpt").mark == "≈"
    assert "Measured with weights.pt. Not as published: DTD: 16 of 1,692 images." in page(few)
    differs = book_of(measure(WEIGHTS, Need("dtd", "a-tpt"), 0.9))
    assert entry_of(differs, "dtd", "a-tpt").mark == "≠"


def test_an_average_needs_all_of_its_datasets():
    datasets = TABLES["finegrained"].datasets
    whole = book_of(*(measure(WEIGHTS, Need(dataset, "tpt")) for dataset in datasets))
    assert entry_of(whole, "average", "tpt").status == "measured"
    part = book_of(*(measure(WEIGHTS, Need(dataset, "tpt")) for dataset in datasets[1:]))
    assert entry_of(part, "average", "tpt").status == "not run"
    assert "not run: needs the weights ViT-B-16/openai and* | ImageNet |" in page(part)


def test_deviations_of_seeds_have_their_table():
    repeats = [Need("dtd", "a-tpt", repeat=i) for i in range(3)]
    book = book_of(*(measure(WEIGHTS, n, 0.5 + 0.01 * n.repeat) for n in repeats))
    entry = entry_of(book, "dtd", "a-tpt", "std_Acc", table="tab:random")
    assert entry.found
    assert entry.found.value == pytest.approx(1.0)
    assert entry.mark == "≠"
    assert entry.deviations == ()
    fewer = replace(book, seeds=(0, 1))
    assert entry_of(fewer, "dtd", "a-tpt", "std_Acc", table="tab:random").deviations == (
        "2 of 3 seeds",
    )


def test_seeds_of_several_commands_are_not_mixed():
    repeats = [Need("dtd", "a-tpt", repeat=i) for i in range(3)]
    book = book_of(*(measure(WEIGHTS, n, 0.5 + 0.01 * n.repeat) for n in repeats))
    fewer = replace(book, seeds=(0,), measures={})
    assert book.add(fewer).seeds == (0, 1, 2)
    assert set(book.add(fewer).measures) == set(book.measures)
    other = Book(book.subjects, {}, seeds=(7, 8))
    assert [m.need.repeat for m in book.add(other).measures.values()] == [0]


def test_seeds_on_other_images_give_no_deviation():
    needs = [Need("dtd", "a-tpt", repeat=i) for i in range(3)]
    first, *rest = (measure(WEIGHTS, n, 0.5 + 0.01 * n.repeat) for n in needs)
    book = book_of(replace(first, images=1692), *rest)
    why = spread(book, WEIGHTS, needs[0], "accuracy", 100)
    assert isinstance(why, Missing)
    assert why.needs == "the same images for every seed"
    assert "100 and 1,692 of them" in why.detail
    assert entry_of(book, "dtd", "a-tpt", "std_Acc", table="tab:random").status == "not run"


def test_a_learned_start_is_never_the_published_one():
    book = book_of(measure(WEIGHTS, Need("dtd", "a-tpt", COOP), 0.47))
    entry = entry_of(book, "dtd", "a-tpt", table="tab:CoOp", method="TPT + CoOp + A-TPT")
    assert entry.status == "measured"
    assert entry.mark != "="


def test_times_are_compared_to_none():
    """Another machine gives other times: they stand beside the published ones, unmarked."""
    cost = Cost("weights.pt", PLAIN, "a-tpt", 1000, 64, "a GPU", (0.5, 0.4, 0.6), 21.0)
    book = book_of(measure(WEIGHTS, Need("dtd", "a-tpt")))
    text = sections(page(book, [cost]))["Time, memory and complexity"]
    assert "| 1.058 → 0.50 [0.40, 0.60] |" in text
    small = replace(cost, size=100)
    text = page(book, [small, replace(small, model="other.pt")])
    assert "→ 0.50" not in text
    assert "| other.pt | plain loop | a-tpt | 100 | 64 | 0.500 [0.400, 0.600] |" in text


def test_the_ece_of_the_table_of_costs_has_its_difference():
    """2.96 was published for A-TPT on ImageNet-V2; times of another machine differ from nothing."""
    book = book_of(measure(WEIGHTS, Need("imagenet_v2", "a-tpt")))
    sheet = build_cost(TABLES["computational"], book, {})
    (row,) = (row for row in sheet.panels[0].rows if row.label == "a-tpt")
    assert [line.kind for line in row.lines] == ["published", "measured", "difference"]
    assert [str(cell) for cell in row.lines[-1].cells] == ["", "", "1.0 [0.0, 2.0]"]


def test_what_the_paper_contradicts_is_listed():
    text = sections(page(Book()))
    wrong = text["Printed averages that do not follow from their cells"]
    assert "Of 164 printed averages, 21 do not follow" in wrong
    assert wrong.count("\n| tab:") == 21
    assert "| Average | 4.43 | 5.02 |" in wrong
    assert "2.61" in text["Sentences that tables or code contradict"]
    assert "[fidelity.md](fidelity.md)" in text["Fidelity"]


# --- the page -----------------------------------------------------------------------------------


def test_the_same_measures_give_the_same_page():
    measures = [measure(WEIGHTS, Need("dtd", m)) for m in ("tpt", "a-tpt")]
    assert page(book_of(*measures)) == page(book_of(*measures))
    assert not re.search(r"20\d\d-\d\d", page(book_of(*measures)))


def test_the_page_is_written_again_from_what_it_keeps(tmp_path: Path):
    path = tmp_path / "docs" / "paper.md"
    write_ledger(path, tmp_path / "nothing")
    first = path.read_bytes()
    write_ledger(path, path.with_suffix(""))
    assert path.read_bytes() == first
    assert b"tammes paper --out paper --ledger paper.md" in first
    with pytest.raises(DataError, match=r"nothing holds no measures\.json"):
        write_ledger(path, tmp_path / "nothing")


def test_costs_that_a_folder_lacks_are_not_kept(tmp_path: Path):
    path, cost = tmp_path / "paper.md", Cost("m", PLAIN, "a-tpt", 100, 64, "a CPU", (0.5, 0.4, 0.6))
    write_costs({cost.key: cost}, tmp_path / "one" / COSTS)
    write_book(Book(), tmp_path / "one" / MEASURES)
    write_ledger(path, tmp_path / "one")
    write_book(Book(), tmp_path / "other" / MEASURES)
    write_ledger(path, tmp_path / "other")
    text = path.read_bytes()
    write_ledger(path, path.with_suffix(""))
    assert path.read_bytes() == text


def test_the_plain_loop_is_timed_before_the_engine_takes_memory(monkeypatch: pytest.MonkeyPatch):
    """Rows go by the name that tables know the model by, wherever its weights lie."""
    monkeypatch.setattr(costing, "_measured", lambda blank, run, device: blank)
    monkeypatch.setattr(costing._Image, "answer", lambda *_: None)
    tiny = random_backbone()
    rows = list(costing.measure_costs("known as", tiny, tiny, ["c-tpt", "a-tpt"], 4, {}))
    assert [row.what for row in rows[:4]] == [PLAIN, PLAIN, ENGINE, ENGINE]
    assert {row.model for row in rows} == {"known as"}


def test_the_command_writes_the_page(data: Path, tiny_path: Path, tmp_path: Path):
    path = tmp_path / "page.md"
    run = [
        "paper", "catpt", "--model", f"ViT-B/16={tiny_path}", "--data-root", str(data),
        "--views", "4", "--out", str(tmp_path), "--limit", "2", "--methods", "a-tpt", "--ledger",
    ]  # fmt: skip
    result = CliRunner().invoke(app, [*run, str(path)])
    assert result.exit_code == 0, result.output
    text = path.read_text("utf-8")
    assert "Not as published: DTD: 2 of 1,692 images, 4 of 64 views" in text
    assert str(tmp_path) not in text
    again = CliRunner().invoke(
        app, ["paper", "--out", str(path.with_suffix("")), "--ledger", str(path)]
    )
    assert again.exit_code == 0, again.output
    assert path.read_text("utf-8") == text


@pytest.mark.parametrize("arguments", [[], ["catpt", "--ledger", "page"]])
def test_a_command_without_a_name_or_an_ending_is_refused(arguments: list[str]):
    refused = CliRunner().invoke(app, ["paper", *arguments])
    assert refused.exit_code == 2


def test_the_page_in_the_repository_is_up_to_date():
    kept = DOCS / "paper"
    command = rewriting(Path("docs/paper.md"))
    book, costs = read_book(kept / "measures.json"), read_costs(kept / COSTS)
    text = page(book, costs.values(), command)
    assert (DOCS / "paper.md").read_text("utf-8") == text, f"run: {command}"
