"""The paper's figures from miniature data: drawn on what is here, with reasons for the rest."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from miniatures import make_benchmarks
from tammes.calibration import bins
from tammes.cli import app, papering
from tammes.datasets import CATALOG
from tammes.errors import UnknownName
from tammes.paper.albums import Album, plain
from tammes.paper.command import choose_figures, choose_tables, run_figures
from tammes.paper.figures import FIGURES, LAMBDAS, SWEEPABLE
from tammes.paper.gathering import printed, quoted
from tammes.paper.models import Model
from tammes.paper.planning import Settings
from tammes.paper.registry import ALL, RN50, TABLES, VIT
from tammes.paper.results import Missing
from tammes.paper.running import Runner
from tammes.records import load_runs
from tammes.statistics import Interval

HERE = ("eurosat", "imagenet_r", "caltech101")
METHODS = ("tpt", "a-tpt", "c-tpt")
SUFFIXES = ("svg", "pdf", "png", "json")
NEEDS_RUNS = [name for name in FIGURES if name not in ("tsne", "gradient")]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    data = make_benchmarks(tmp_path_factory.mktemp("data"), HERE, 6)
    out = tmp_path_factory.mktemp("paper")
    return Settings(
        data, out, limit=5, seeds=(3,), views=4, methods=METHODS, workers=1, device="cpu",
        resamples=20,
    )  # fmt: skip


def albums_of(names: list[str], models: list[Model], settings: Settings) -> dict[str, Album]:
    runner = Runner(models, settings)
    return {a.figure.name: a for a in run_figures(choose_figures(names), runner, settings)}


@pytest.fixture(scope="module")
def albums(tiny_path: Path, settings: Settings) -> dict[str, Album]:
    return albums_of(["figures"], [Model(str(tiny_path))], settings)


def record(settings: Settings, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((settings.out / "figures" / f"{name}.json").read_text())
    return found


# --- what is drawn -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_on_what_is_here(name: str, albums: dict[str, Album]):
    per_dataset = name in ("reliability", "confidence", "cosine")
    assert len(albums[name].drawn) == (len(HERE) if per_dataset else 1)
    for drawn in albums[name].drawn:
        first = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG", "json": b'{"fig'}
        for suffix in SUFFIXES:
            content = drawn.path.with_name(f"{drawn.path.name}.{suffix}").read_bytes()
            assert content.startswith(first[suffix])
            assert len(content) > 1000
        picture = drawn.path.with_name(f"{drawn.path.name}.svg").read_text()
        assert "tiny.safetensors" in picture
        assert albums[name].figure.title.replace(">", "&gt;") in picture.replace("&apos;", "'")


def test_what_is_lacking_is_named(albums: dict[str, Album]):
    absent = {CATALOG[name].names[0] for name in ALL if name not in HERE}
    for name in ("radar", "bars", "reliability", "confidence", "cosine"):
        assert {missing.needs for missing in albums[name].missing} == absent
    assert [missing.needs for missing in albums["prompt-scatter"].missing] == ["ImageNet"]
    assert not albums["tsne"].missing
    (line,) = [text for text in albums["bars"].lines() if "not drawn" in text]
    assert "needs ImageNet, DTD" in line
    assert any("Caltech101 (5 of 2,465 images, 4 of 64 views)" in t for t in albums["bars"].lines())


def test_a_second_command_computes_nothing(
    albums: dict[str, Album], tiny_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    def files(folder: str) -> dict[Path, int]:
        """When everything below a folder was written."""
        below = (path for path in (settings.out / folder).rglob("*") if path.is_file())
        return {path: path.stat().st_mtime_ns for path in below}

    runs, features = files("runs"), files("features")
    pictures = (settings.out / "figures").glob("[rc]*-*")  # of rows: no measure was rounded
    before = {path: path.read_bytes() for path in pictures}
    monkeypatch.setattr("tammes.paper.measuring.bootstrap", None)
    albums_of(NEEDS_RUNS, [Model(str(tiny_path))], settings)
    assert (files("runs"), files("features")) == (runs, features)
    assert {path: path.read_bytes() for path in before} == before


# --- the data behind -----------------------------------------------------------------------------


def test_bars_hold_the_measures_of_the_runs(albums: dict[str, Album], settings: Settings):
    data = record(settings, "bars")
    runs = {run.identity: run for run in load_runs(settings.out)}
    assert len(data["runs"]) == len(HERE) * (1 + len(METHODS))
    for row in data["runs"]:
        run = runs[row["run"]]
        for metric in ("accuracy", "ece"):
            value = data["values"]["measured"][metric][run.method][CATALOG[run.dataset].names[0]]
            assert value["value"] == pytest.approx(run.metrics[metric], abs=1e-6)
    assert data["values"]["published of"] == VIT
    assert data["values"]["published"]["ece"]["a-tpt"]["EuroSAT"] == printed(VIT)["ece"]["a-tpt"][
        "EuroSAT"
    ]  # fmt: skip
    assert data["model"]["name"] == "tiny.safetensors"


def test_published_values_are_those_of_the_backbone():
    assert printed(RN50)["ece"]["a-tpt"]["EuroSAT"] == pytest.approx(0.0251)
    assert printed(VIT)["accuracy"]["a-tpt"]["EuroSAT"] == pytest.approx(0.4406)


def test_diagrams_hold_the_bins_of_the_rows(albums: dict[str, Album], settings: Settings):
    (run,) = [
        r for r in load_runs(settings.out) if (r.dataset, r.method) == ("caltech101", "a-tpt")
    ]
    outcomes = run.outcomes()
    expected = plain(bins(outcomes.confidence, outcomes.correct))
    for name in ("reliability-caltech101", "confidence-caltech101"):
        assert record(settings, name)["values"]["a-tpt"] == expected
    cosines = record(settings, "cosine-caltech101")["values"]
    assert set(cosines) == {"zero-shot", *METHODS}
    assert cosines["a-tpt"] == pytest.approx(run.rows()["cosine"].to_pylist(), rel=1e-6)
    assert len(set(cosines["zero-shot"])) == 1


def test_groups_are_told_by_classes_and_dimensions(albums: dict[str, Album], settings: Settings):
    folder = settings.out / "figures"
    assert "N = 200 ≥ D" in (folder / "cosine-imagenet_r.svg").read_text()
    assert "N = 10 &lt; D" in (folder / "cosine-eurosat.svg").read_text()


def test_pareto_tries_every_weight_on_one_dataset(albums: dict[str, Album], settings: Settings):
    data = record(settings, "pareto-caltech101")
    assert [float(w) for w in data["values"]["curves"]["a-tpt"]] == list(LAMBDAS)
    assert list(data["values"]["curves"]["c-tpt"]) == ["50.0"]
    assert "o-tpt" not in data["values"]["curves"]
    runs = {run.identity: run for run in load_runs(settings.out)}
    swept = [runs[row["run"]] for row in data["runs"] if row["method"].startswith("a-tpt")]
    assert {run.settings["method"]["terms"][0][0] for run in swept} == set(LAMBDAS)
    assert {run.dataset for run in swept} == {SWEEPABLE[0]}
    at_zero = data["values"]["curves"]["a-tpt"]["0.0"]["ece"]["value"]
    tpt = record(settings, "bars")["values"]["measured"]["ece"]["tpt"]["Caltech101"]["value"]
    assert at_zero == pytest.approx(tpt, abs=1e-5)


def test_texts_need_no_images(albums: dict[str, Album], settings: Settings):
    plane, slopes = record(settings, "tsne-caltech101"), record(settings, "gradient-eurosat")
    assert plane["runs"] == slopes["runs"] == []
    assert len(plane["values"]) == len(quoted("caltech101")) == 5
    assert {len(rows) for rows in plane["values"].values()} == {100}
    angles, norms = slopes["values"]["angles"], slopes["values"]["norms"]
    assert list(norms) == ["c-tpt", "o-tpt", "a-tpt"]
    assert angles == sorted(angles, reverse=True)
    left = {name: norm[len(norm) // 2] / norm[0] for name, norm in norms.items()}
    assert left["o-tpt"] < 0.1 < 0.9 < left["a-tpt"]


def test_records_know_what_json_knows():
    assert plain({1.0: (Interval(0.1, math.nan, 1 / 3), "a", None)}) == {
        "1.0": [{"value": 0.1, "low": None, "high": 0.3333333}, "a", None]
    }


# --- what cannot be drawn ------------------------------------------------------------------------


def test_no_data_is_no_picture(tiny_path: Path, settings: Settings, tmp_path: Path):
    bare = replace(settings, root=tmp_path / "none", out=tmp_path / "out")
    (tmp_path / "none").mkdir()
    albums = albums_of(NEEDS_RUNS, [Model(str(tiny_path))], bare)
    assert not (bare.out / "figures").exists()
    for name, album in albums.items():
        lines = list(album.lines())
        assert "  nothing was drawn" in lines, name
        assert "Caltech101" in lines[-1], name


def test_few_datasets_are_no_radar(tiny_path: Path, settings: Settings, tmp_path: Path):
    data = make_benchmarks(tmp_path / "data", ["eurosat"])
    small = replace(settings, root=data, out=tmp_path / "out", methods=("zero-shot",))
    albums = albums_of(["radar", "bars", "pareto"], [Model(str(tiny_path))], small)
    assert "three datasets" in [missing.needs for missing in albums["radar"].missing]
    assert not albums["radar"].drawn
    assert len(albums["bars"].drawn) == 1
    assert albums["pareto"].missing == (Missing("a-tpt among the methods", "name it in --methods"),)


def test_weights_that_are_not_here_are_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tammes.paper.models.OPENAI_CACHE", tmp_path)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    absent = replace(settings, out=tmp_path)
    for name, album in albums_of(["figures"], [Model("RN50/openai", RN50)], absent).items():
        assert not album.drawn, name
        assert any("the weights RN50/openai" in m.needs for m in album.missing), name


def test_two_models_have_pictures_of_their_own(tiny_path: Path, settings: Settings, tmp_path: Path):
    twin = tiny_path.with_name("other.safetensors")
    twin.write_bytes(tiny_path.read_bytes())
    two = replace(settings, out=tmp_path)
    album = albums_of(["gradient"], [Model(str(tiny_path)), Model(str(twin))], two)["gradient"]
    assert len({drawn.path for drawn in album.drawn}) == 2


# --- names and the command -----------------------------------------------------------------------


def test_names_choose_tables_and_figures():
    assert choose_tables(["figures"]) == choose_figures(["tables"]) == []
    assert choose_figures(["all"]) == choose_figures(["figures"]) == list(FIGURES.values())
    assert choose_tables(["all"]) == choose_tables(["tables"]) == list(TABLES.values())
    assert [f.name for f in choose_figures(["cosine", "finegrained", "radar"])] == [
        "radar", "cosine",
    ]  # fmt: skip
    assert not set(FIGURES) & set(TABLES)
    with pytest.raises(UnknownName, match="Did you mean 'pareto'") as refused:
        choose_figures(["paretto"])
    assert all(name in str(refused.value) for name in (*TABLES, *FIGURES, "tables", "figures"))


def test_the_help_lists_every_name():
    assert f"Tables: {', '.join(TABLES)}." == papering.TABLES
    assert f"Figures: {', '.join(FIGURES)}." == papering.FIGURES


def test_the_command(settings: Settings, tiny_path: Path, tmp_path: Path):
    arguments = [
        "paper", "reliability", "cosine", "catpt", "--model", str(tiny_path), "--data-root",
        str(settings.root), "--views", "4", "--out", str(tmp_path), "--limit", "2", "--methods",
        "a-tpt", "--no-augmix",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Reliability diagrams" in result.output
    assert "C-TPT and A-TPT together" in result.output
    assert "not drawn: needs ImageNet" in result.output
    assert (tmp_path / "figures" / "cosine-eurosat.svg").is_file()
    assert (tmp_path / "catpt.md").is_file()
