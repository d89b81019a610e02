"""The paper's tables from miniature data: published beside measured, and reasons for the rest."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from miniatures import make_benchmarks
from tammes.cli import app
from tammes.datasets import load_dataset
from tammes.errors import DataError, TammesError, UnknownName, WeightsError
from tammes.evaluate import evaluate
from tammes.method import METHODS
from tammes.paper import Need, running
from tammes.paper.command import choose_tables, run_tables
from tammes.paper.measuring import average, read_book
from tammes.paper.models import Model, choose_models, find_weights, parse_model
from tammes.paper.planning import Settings, plan
from tammes.paper.published import PublishedCell, published
from tammes.paper.registry import FINE, RN50, TABLES, VIT, need_of
from tammes.paper.running import Runner, deviations
from tammes.paper.sheets import Cell, Line, Panel, Sheet, beside, effect, write_number
from tammes.paper.writing import WRITERS, Terminal, to_csv, to_json, to_latex, to_markdown
from tammes.prompts import build_prompt
from tammes.records import load_runs
from tammes.statistics import Interval

HERE = ("eurosat", "dtd", "imagenet_r")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_benchmarks(tmp_path_factory.mktemp("data"), HERE)


@pytest.fixture(scope="module")
def settings(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    out = tmp_path_factory.mktemp("paper")
    return Settings(data, out, seeds=(3, 4), views=4, workers=1, device="cpu", resamples=50)


@pytest.fixture(scope="module")
def models(tiny_path: Path) -> list[Model]:
    """A random model, once as itself and once in the place of ViT-B/16."""
    twin = tiny_path.with_name("twin.safetensors")
    twin.write_bytes(tiny_path.read_bytes())
    return [Model(str(tiny_path)), Model(str(twin), VIT)]


def sheet_of(name: str, models: list[Model], settings: Settings) -> Sheet:
    (sheet,) = run_tables(choose_tables([name]), Runner(models, settings), settings)
    return sheet


@pytest.fixture(scope="module")
def finegrained(models: list[Model], settings: Settings) -> Sheet:
    return sheet_of("finegrained", models, settings)


def lines_of(sheet: Sheet, panel: int, row: str) -> dict[str, Line]:
    (found,) = [r for r in sheet.panels[panel].rows if r.label == row]
    return {line.label: line for line in found.lines}


def cell_of(sheet: Sheet, panel: int, row: str, label: str, column: str) -> Cell:
    position = sheet.panels[panel].columns.index(column)
    return lines_of(sheet, panel, row)[label].cells[position]


# --- what is run ---------------------------------------------------------------------------------


def test_equal_needs_are_one():
    usual = Need("eurosat", "a-tpt", weight=80.0, augmix=True, backbone=VIT)
    assert usual.plain == Need("eurosat", "a-tpt").plain
    assert Need("imagenet_a", "a-tpt", weight=80.0).plain.weight == 80.0  # 10 is published there
    assert Need("eurosat", "zero-shot", repeat=2, augmix=False).plain == Need("eurosat")
    assert Need("eurosat", "tpt", repeat=2).plain.repeat == 2


def test_jobs_share_views_and_keep_clean_views_apart(settings: Settings):
    jobs = plan(TABLES["finegrained"].needs(), settings)
    assert len(jobs) == 2 * 11
    views = {(job.views.count, len(job.needs)) for job in jobs}
    assert views == {(1, 2), (4, 6)}
    mixed = {job.dataset: job.views.augmix for job in jobs if job.views.count > 1}
    assert mixed == {**dict.fromkeys(FINE, True), "imagenet": False}
    plain = plan(TABLES["finegrained"].needs(), replace(settings, augmix=False))
    assert not any(job.views.augmix for job in plain)
    assert {job.views.seed for job in jobs if job.views.count > 1} == {3}


def test_weights_are_those_of_the_dataset(settings: Settings):
    (job,) = plan([Need("imagenet_a", "a-tpt")], settings)
    assert job.methods["a-tpt"].terms[0][0] == 10
    (job,) = plan([Need("eurosat", "a-tpt", weight=5.0)], settings)
    assert job.methods == {
        "a-tpt (weight=5)": replace(METHODS["a-tpt"], terms=((5.0, METHODS["a-tpt"].terms[0][1]),))
    }


def test_every_published_method_belongs_to_a_need_of_its_table():
    by_source = {source: table for table in TABLES.values() for source in table.sources}
    for cell in published():
        need = need_of(cell)
        table = by_source.get(cell.table)
        if need and table and table.kind in ("datasets", "seeds", "prompts"):
            assert need in table.needs(), cell


def test_runs_are_computed_once(
    models: list[Model], settings: Settings, finegrained: Sheet, monkeypatch: pytest.MonkeyPatch
):
    """Tables share runs, and a second command computes nothing."""
    runs = len(load_runs(settings.out))
    monkeypatch.setattr("tammes.evaluate.compute_missing", None)
    for name in ("finegrained", "catpt", "sce"):
        sheet_of(name, models, settings)
    assert len(load_runs(settings.out)) == runs == 2 * 2 * len(METHODS)


def test_an_interrupted_command_goes_on(
    models: list[Model], settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = replace(settings, out=tmp_path)
    calls = []

    def dying(*args, **options):
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(running, "evaluate", dying)
        with pytest.raises(KeyboardInterrupt):
            sheet_of("catpt", models, settings)
    half = {run.identity for run in load_runs(tmp_path) if run.status == "finished"}
    sheet = sheet_of("catpt", models, settings)
    whole = {run.identity for run in load_runs(tmp_path) if run.status == "finished"}
    assert half < whole
    assert cell_of(sheet, 0, "a-tpt", "tiny.safetensors", "DTD").interval


# --- what is shown -------------------------------------------------------------------------------


def test_published_stands_beside_measured(finegrained: Sheet, settings: Settings):
    assert cell_of(finegrained, 1, "a-tpt", "paper, RN50", "EuroSAT").text == "2.51"
    (run,) = [
        r for r in load_runs(settings.out)
        if (r.dataset, r.method, r.model) == ("eurosat", "a-tpt", "twin.safetensors")
    ]  # fmt: skip
    cell = cell_of(finegrained, 0, "a-tpt", "twin.safetensors", "EuroSAT")
    assert cell.interval
    assert cell.interval.value == pytest.approx(100 * run.metrics["accuracy"])
    off = cell_of(finegrained, 0, "a-tpt", "twin.safetensors − paper", "EuroSAT")
    assert off.interval
    assert off.interval.value == pytest.approx(cell.interval.value - 44.06)


def test_another_model_claims_no_difference(finegrained: Sheet):
    labels = {line.label for p in finegrained.panels for r in p.rows for line in r.lines}
    assert "tiny.safetensors − paper" not in labels
    assert "None of the paper's backbones: tiny.safetensors" in finegrained.statement
    assert "Compared to what was published: twin.safetensors" in finegrained.statement
    assert "EuroSAT: 3 of 8,100 images, 4 of 64 views" in finegrained.statement


def test_what_is_not_here_is_named(finegrained: Sheet, data: Path):
    cell = cell_of(finegrained, 0, "tpt", "tiny.safetensors", "Food101")
    assert str(cell) == "not run: needs Food101"
    (missing,) = [m for m in finegrained.missing if m.needs == "Food101"]
    assert str(data) in missing.detail
    assert "The images come from" in missing.detail


def test_datasets_that_are_nowhere_share_a_line(finegrained: Sheet, data: Path):
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(Terminal(finegrained))
    (line,) = [ln for ln in console.export_text().splitlines() if ln.startswith("Not run: needs")]
    assert line.startswith("Not run: needs ImageNet, Flowers102, Food101, SUN397")
    said = f"not found below {data}; tammes datasets check NAME --root {data} says what was looked"
    assert said in line
    assert "no pack" in to_markdown(finegrained)


def test_averages_of_fewer_datasets_say_so(finegrained: Sheet):
    cell = cell_of(finegrained, 0, "tpt", "twin.safetensors", "Average")
    assert cell.note == "2 of 11 datasets"
    off = lines_of(finegrained, 0, "tpt")["twin.safetensors − paper"]
    assert off.cells[-1] == Cell()


def test_wrong_averages_are_named(finegrained: Sheet):
    (note,) = [n for n in finegrained.panels[1].notes if "Baseline" in n]
    assert note == "Printed average of Baseline, ViT-B/16: 4.43; its cells give 5.02."


def test_few_images_tell_nothing_apart(finegrained: Sheet):
    marks = {
        cell.mark
        for row in finegrained.panels[0].rows
        for line in row.lines
        if line.kind == "measured"
        for cell in line.cells
    }
    assert marks == {""}


def test_groups_follow_the_dimensions(models: list[Model], settings: Settings):
    """The tiny model has fewer dimensions than DTD has classes, and more than EuroSAT."""
    sheet = sheet_of("group", models[:1], settings)
    assert sheet.panels[0].columns == ("N > D", "N < D", "Overall")
    cell = cell_of(sheet, 0, "tpt", "tiny.safetensors", "N > D")
    assert cell.note
    assert cell.interval


def test_seeds_give_a_deviation_and_a_mean(models: list[Model], settings: Settings):
    sheet = sheet_of("random", models, settings)
    assert [row.label for row in sheet.panels[0].rows] == ["c-tpt", "o-tpt", "a-tpt"]
    cell = cell_of(sheet, 1, "a-tpt", "twin.safetensors", "DTD")
    book = read_book(settings.out / "measures.json")
    values = [
        100 * m.metrics["ece"].value
        for m in book.measures.values()
        if (m.need.dataset, m.need.method, m.subject.name) == ("dtd", "a-tpt", "twin.safetensors")
    ]
    assert len(values) == 2
    assert cell.interval
    assert cell.interval.value == pytest.approx(abs(values[0] - values[1]) / 2**0.5, abs=1e-4)
    mean = f"{sum(values) / 2:.2f} ±"
    assert str(cell).startswith(mean)
    assert mean in to_markdown(sheet)
    assert mean.replace("±", r"$\pm$") in to_latex(sheet)
    assert f"mean {sum(values) / 2:.2f}," in to_csv(sheet)
    alone = sheet_of("random", models[:1], replace(settings, seeds=(3,)))
    (row,) = [r for r in alone.panels[0].rows if r.label == "every method"]
    assert "needs two seeds" in str(row.lines[0].cells[0])


def test_learned_prompts_need_their_files(models: list[Model], settings: Settings):
    sheet = sheet_of("coop", models, settings)
    (line,) = next(row for row in sheet.panels[0].rows if row.label == "every method").lines[:1]
    assert line.cells[0].number == "not run: needs a CoOp context"
    assert any("--coop" in m.detail for m in sheet.missing)


@pytest.mark.parametrize("name", ["natural", "weighted", "sce", "cool", "example", "catpt"])
def test_tables_are_made(name: str, models: list[Model], settings: Settings):
    sheet = sheet_of(name, models[:1], replace(settings, methods=("zero-shot", "a-tpt")))
    measured = [
        cell.interval
        for panel in sheet.panels
        for row in panel.rows
        for line in row.lines
        if line.kind == "measured"
        for cell in line.cells
    ]
    assert any(measured)
    for suffix in WRITERS:
        assert (settings.out / f"{name}.{suffix}").stat().st_size > 500


# --- how it is written ---------------------------------------------------------------------------


def test_formats_say_the_same(finegrained: Sheet):
    rows = list(csv.DictReader(io.StringIO(to_csv(finegrained))))
    cells = json.loads(to_json(finegrained))["cells"]
    assert (
        len(rows)
        == len(cells)
        == sum(len(line.cells) for p in finegrained.panels for r in p.rows for line in r.lines)
    )
    assert {row["needs"] for row in rows} > {"Food101", ""}
    markdown, latex = to_markdown(finegrained), to_latex(finegrained)
    assert "| **a-tpt** | paper, ViT-B/16 |" in markdown
    assert "not run: needs Food101" in markdown
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert "2 of 11" in markdown
    assert "2 of 11" in latex
    assert "reproduce nothing" in latex


def only_published(panel: Panel) -> Panel:
    """Forget what was measured."""
    rows = (
        replace(row, lines=tuple(line for line in row.lines if line.kind == "published"))
        for row in panel.rows
    )
    return replace(panel, notes=(), rows=tuple(rows))


@pytest.mark.parametrize("width", [60, 80, 240])
def test_the_terminal_names_columns_that_hold_nothing_of_ours(finegrained: Sheet, width: int):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Terminal(replace(finegrained, missing=())))
    text = console.export_text()
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    flat = " ".join(text.split())
    assert "tammes datasets check NAME" not in flat
    said = "Not run, so published alone and in the files: ImageNet, Flowers102, Food101, SUN397,"
    assert flat.count(said) == 2
    assert "not run: needs Food101" not in flat
    assert flat.count("Food101") == 2
    shown = flat.rpartition("ECE (%)")[2]
    assert all(name in shown for name in ("DTD", "EuroSAT", "Average"))


@pytest.mark.parametrize("width", [60, 100, 240])
def test_the_terminal_shows_every_column_once(finegrained: Sheet, width: int):
    console = Console(width=width, record=True, file=io.StringIO())
    panels = tuple(map(only_published, finegrained.panels))
    console.print(Terminal(replace(finegrained, panels=panels, notes=(), missing=())))
    text = console.export_text()
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    printed = Counter(
        cell.text
        for panel in finegrained.panels
        for row in panel.rows
        for line in row.lines
        for cell in line.cells
        if cell.text
    )
    assert len(printed) > 100
    words = Counter(text.split())
    assert {number: words[number] for number in printed} == printed


def test_numbers_are_written_with_a_true_minus():
    assert [write_number(x, 1) for x in (-0.04, -1.26, 3.0)] == ["0.0", "−1.3", "3.0"]


def test_marks_follow_the_intervals():
    apart, same = Interval(2.0, 1.0, 3.0), Interval(0.5, -1.0, 2.0)
    assert (effect(apart, True), effect(apart, False), effect(same, True), effect(None, True)) == (
        "better", "worse", "same", "",
    )  # fmt: skip
    cell = Cell(interval=Interval(60.0, 59.0, 61.0))
    assert beside(cell, printed("60.5")) == (Interval(-0.5, -1.55, 0.55), "same")
    assert beside(cell, printed("62.0"))[1] == ""
    assert beside(replace(cell, few=True), printed("62.0"))[1] == "same"


@given(st.floats(0, 100), st.floats(0, 5), st.floats(-5, 5), st.sampled_from(["Acc", "ECE", "AD"]))
def test_no_number_differs_from_itself(value: float, width: float, bias: float, metric: str):
    """A calibration error may lie outside its own interval, which leaves the bias out."""
    shown = f"{value:.2f}"
    middle = value + (bias if metric == "ECE" else 0)
    cell = Cell(interval=Interval(value, middle - width, middle + width))
    assert beside(cell, printed(shown, metric))[1] == "same"
    assert beside(cell, printed(f"{value + width + 0.02:.2f}", metric))[1] == ""


def printed(text: str, metric: str = "Acc") -> PublishedCell:
    return PublishedCell("tab:finegrained", VIT, "", "TPT", metric, "dtd", text)


def test_printed_numbers_have_a_last_digit():
    steps = {text: printed(text).step for text in ("50,000", "66.7", "2.38", "±.12", "±.0.11")}
    assert steps == {"50,000": 1, "66.7": 0.1, "2.38": 0.01, "±.12": 0.01, "±.0.11": 0.01}


def test_averages_of_numbers_outside_their_intervals():
    found = average([(1, Interval(1.1, 0.0, 0.7)), (1, Interval(1.1, 0.0, 0.7))])
    assert (found.value, found.low) == pytest.approx((1.1, 0.35 - 0.35 / 2**0.5))
    assert found.high == pytest.approx(0.35 + 0.35 / 2**0.5)


def test_averages_of_deviations_lie_within_their_intervals():
    found = average([(1, Interval(0.4, 0.2, 2.4)), (1, Interval(0.8, 0.4, 4.8))], skewed=True)
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(0.6)
    assert found.high == pytest.approx(0.6 + (2.0**2 + 4.0**2) ** 0.5 / 2)


def test_intervals_of_independent_datasets_add_in_quadrature():
    found = average([(1, Interval(10.0, 7.0, 13.0)), (1, Interval(20.0, 16.0, 24.0))])
    assert found == Interval(15.0, 12.5, 17.5)
    assert average([(3, Interval(1.0, 1.0, 1.0)), (1, Interval(5.0, 5.0, 5.0))]).value == 2.0


# --- models and the command ----------------------------------------------------------------------


def test_nothing_is_downloaded_unasked(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tammes.paper.models.OPENAI_CACHE", tmp_path)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr("tammes.paper.models.load_backbone", None)
    assert [model.name for model in choose_models([])] == ["pocket"]
    sheet = sheet_of("catpt", [parse_model("ViT-B-16/openai")], settings)
    (line,) = sheet.panels[0].rows[-1].lines
    assert line.cells[0].number == "not run: needs the weights ViT-B-16/openai"
    (tmp_path / "ViT-B-16.pt").write_bytes(b"")
    assert find_weights("ViT-B-16/openai") == str(tmp_path / "ViT-B-16.pt")
    assert choose_models([]) == [Model("ViT-B-16/openai", VIT)]


def test_models_are_named(tiny_path: Path):
    assert parse_model("RN50/openai").backbone == RN50
    assert parse_model(f"ViT-B/16={tiny_path}") == Model(str(tiny_path), VIT)
    assert parse_model("pocket") == Model("pocket")


def test_unknown_tables_are_named():
    with pytest.raises(UnknownName, match="finegrained"):
        choose_tables(["finegraned"])
    assert len(choose_tables(["all"])) == len(TABLES)


def test_a_damaged_book_is_named(tmp_path: Path):
    path = tmp_path / "measures.json"
    path.write_text("{")
    with pytest.raises(DataError, match=r"measures\.json"):
        read_book(path)


def test_the_command(data: Path, tiny_path: Path, tmp_path: Path):
    arguments = [
        "paper", "catpt", "--model", str(tiny_path), "--data-root", str(data), "--views", "4",
        "--out", str(tmp_path), "--limit", "2", "--methods", "a-tpt", "--no-augmix",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "C-TPT and A-TPT together" in result.output
    assert "no AugMix" in (tmp_path / "catpt.md").read_text()
    refused = CliRunner().invoke(app, ["paper", "catpt", "--seeds", "one"])
    assert refused.exit_code == 2


def test_a_comparison_is_made_up_for_once_zero_shot_is_there(data, tiny_path, tmp_path):
    """The table of seeds runs no zero-shot; a later table compares the same runs to it."""
    settings = Settings(data, tmp_path, seeds=(0,), views=4, workers=1, device="cpu", resamples=20)
    model = [Model(str(tiny_path))]
    sheet_of("random", model, settings)
    book = read_book(tmp_path / "measures.json")
    assert book.measures
    assert not any(m.against for m in book.measures.values())
    sheet_of("catpt", model, settings)
    again = read_book(tmp_path / "measures.json").measures
    shared = [
        key for key, m in book.measures.items()
        if (m.need.dataset, m.need.method) in {("dtd", "c-tpt"), ("dtd", "a-tpt")}
    ]  # fmt: skip
    assert shared
    assert all(again[key].against for key in shared)


def test_other_class_names_are_a_deviation(settings: Settings, data: Path):
    dataset = load_dataset("dtd", data)
    (job, *_) = plan([Need("dtd")], settings)
    run: Any = SimpleNamespace(method="zero-shot", skipped={})
    named = replace(dataset, classnames=("stripy", *dataset.classnames[1:]))
    own = set(deviations(run, named, job)) - set(deviations(run, dataset, job))
    assert own == {"1 class names of its own"}


def test_datasets_that_are_not_asked_for_are_left_out(data, tiny_path, tmp_path):
    words = ["paper", "finegrained", "--model", str(tiny_path), "--data-root", str(data), "--out",
             str(tmp_path), "--views", "2", "--methods", "tpt", "--device", "cpu"]  # fmt: skip
    answer = CliRunner().invoke(app, [*words, "--datasets", "dtd"])
    assert answer.exit_code == 0, answer.output
    assert {run.dataset for run in load_runs(tmp_path)} == {"dtd"}
    assert "--datasets names others" in (tmp_path / "finegrained.md").read_text()
    wrong = CliRunner().invoke(app, [*words, "--datasets", "dtdd"])
    assert wrong.exit_code == 2
    assert "dtd" in wrong.stderr


# --- what a command refuses, and what it goes on after -------------------------------------------


def test_models_of_one_name_are_refused(tiny_path: Path, settings: Settings, tmp_path: Path):
    other = tmp_path / tiny_path.name
    other.write_bytes(tiny_path.read_bytes())
    with pytest.raises(TammesError, match=f"would both be called {tiny_path.name}"):
        Runner([Model(str(tiny_path)), Model(str(other), VIT)], settings)


def test_a_dataset_that_cannot_be_read_is_left_out(data, tiny_path, tmp_path):
    broken = make_benchmarks(tmp_path / "data", ["dtd", "eurosat"])
    for path in (broken / "dtd").rglob("*.png"):
        path.write_bytes(b"version https://git-lfs")
    told: list[str] = []
    settings = Settings(broken, tmp_path / "out", seeds=(0,), views=2, workers=1, device="cpu",
                        methods=("zero-shot",), resamples=20)  # fmt: skip
    runner = Runner([Model(str(tiny_path))], settings, told.append)
    (sheet,) = run_tables(choose_tables(["finegrained"]), runner, settings)
    assert any(text.startswith("DTD is left out: dtd: none of the 3 images") for text in told)
    assert cell_of(sheet, 0, "zero-shot", tiny_path.name, "EuroSAT").interval
    assert "DTD without faults" in {missing.needs for missing in sheet.missing}
    assert len([text for text in told if "left out" in text]) == 1
    assert runner.datasets.unread == {"dtd"}
    command = ["paper", "finegrained", "--model", str(tiny_path), "--data-root", str(broken),
               "--out", str(tmp_path / "again"), "--methods", "zero-shot"]  # fmt: skip
    assert CliRunner().invoke(app, command).exit_code == 1


def test_starts_are_read_before_anything_is_run(data: Path, tiny_path: Path, tmp_path: Path):
    import torch

    out, damaged, nan = tmp_path / "out", tmp_path / "damaged.pt", tmp_path / "nan.pt"
    damaged.write_bytes(b"no weights")
    torch.save({"ctx": torch.full((4, 256), float("nan"))}, nan)
    for options, said in (
        (["--coop", "typo.pt"], "no checkpoint at typo.pt"),
        (["--cocoop", "cocoop(10):typo.pt"], "no checkpoint at typo.pt"),
        (["--model", "ViT-B/16=typo.pt"], "no checkpoint at typo.pt"),
        (["--model", "nosuchmodel"], "no model 'nosuchmodel'"),
        (["--data-root", "/nowhere"], "--data-root /nowhere: no such folder"),
        (["--model", "pocket", "--model", str(damaged)], "cannot read"),
        (["--coop", str(nan)], "values that are not finite"),
        (["--ledger", str(tmp_path / "page.md")], "holds no measures.json"),
        (["--seeds", "0,0"], "a seed comes twice"),
        (["--datasets", ""], "no dataset ''"),
    ):
        names = [] if "--ledger" in options else ["all"]
        command = ["paper", *names, "--data-root", str(data), "--out", str(out), *options]
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 2, refused.output
        assert said in refused.output
    assert not out.exists()


def test_a_meta_net_is_no_coop_context(tiny: Any, tmp_path: Path):
    import torch

    path = tmp_path / "cocoop.pt"
    torch.save({"ctx": torch.zeros(4, tiny.width), "meta_net.linear1.bias": torch.zeros(2)}, path)
    with pytest.raises(WeightsError, match=r"cocoop\.pt holds a meta-net.*use cocoop:"):
        build_prompt(tiny, ["cat"], f"coop:{path}")


def test_another_number_of_classes_is_a_deviation(settings: Settings, data: Path):
    dataset = load_dataset("dtd", data)
    job = next(job for job in plan([Need("dtd", "tpt")], settings))
    run = SimpleNamespace(method="tpt", skipped={})
    fewer = replace(dataset, classnames=dataset.classnames[:-1])
    assert "46 of 47 classes" in deviations(run, fewer, job)
    one_view = replace(job, views=replace(job.views, count=1))
    assert "1 of 64 views" in deviations(run, dataset, one_view)


def test_unread_images_are_told_in_the_end(data: Path, tiny_path: Path, tmp_path: Path):
    some = make_benchmarks(tmp_path / "data", ["eurosat"])
    next(iter((some / "eurosat").rglob("*.png"))).write_bytes(b"no picture")
    done = CliRunner().invoke(
        app,
        ["paper", "finegrained", "--model", str(tiny_path), "--data-root", str(some), "--out",
         str(tmp_path / "out"), "--methods", "zero-shot", "--device", "cpu"],
    )  # fmt: skip
    assert done.exit_code == 1
    assert "1 image could not be read" in done.output
