"""The benchmark measures what it says, writes it as it goes, and loses no part to another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tammes import Engine, Prompt
from tammes.backbones.random import random_backbone
from tammes.benchmark import Models, Plan, Results, plan_for, read_results, run
from tammes.benchmark import plain as plain_loop
from tammes.benchmark.floor import answer_flops, image_flops, text_flops
from tammes.benchmark.parts import FIVE, METHOD, Case
from tammes.benchmark.results import tflops
from tammes.benchmark.tables import body, line, markdown, speeds
from tammes.benchmark.workload import classnames, drawn_features, photo, write_photos
from tammes.cli import app
from tammes.errors import StoreError
from tammes.tuner import tune

BACKBONE = random_backbone()
MODELS = Models(BACKBONE, BACKBONE)
PLAN = Plan((5,), large=20, views=4, images=4, together=2, photos=3, compared=8, repeats=1)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, list[Any], Path]:
    told: list[Any] = []
    path = tmp_path_factory.mktemp("benchmark") / "speed.json"
    return run(MODELS, PLAN, told.append, path), told, path


def test_every_way_to_answer_is_measured_and_told(measured):
    results, told, _ = measured
    assert not results.failures
    assert told == [results.about, *results.rows]
    assert {row["part"] for row in results.rows} == {
        "image", "stored", "encode", "files", "loop", "agreement",
    }  # fmt: skip
    assert results.classes == [5, 20]
    assert {row["gradient"] for row in results.find("stored", classes=5)} == {"vjp", "jacobian"}
    (large,) = results.find("stored", classes=20)
    assert large["chosen"]
    for row in results.rows:
        if "ms" in row:
            assert row["ms"] > 0
            assert row["peak_gb"] > 0
            assert tflops(row) == pytest.approx(row["flops"] / (row["ms"] / 1e3) / 1e12)
        assert line(row)


def test_answers_of_one_model_agree_with_themselves(measured):
    rows = measured[0].find("agreement")
    assert [row["method"] for row in rows] == list(FIVE)
    assert all(row["same_argmax"] == 1 and row["gap_max"] < 1e-4 for row in rows)
    assert rows[-1]["engine_off_spec"] < 1e-4


def test_ratios_are_those_of_one_run(measured):
    results = measured[0]
    for part, way in (("encode", "plain"), ("files", "plain"), ("stored", "stored")):
        row, loop = results.find(part, classes=5)[0], results.one("loop", classes=5, way=way)
        assert results.ratio(row) == loop["ms"] / row["ms"]
    assert results.ratio(results.find("stored", classes=20)[0]) is None


def test_json_brings_everything_back(measured, tmp_path):
    results, _, path = measured
    assert read_results(path) == results
    (tmp_path / "other.json").write_text('{"format": 0}')
    with pytest.raises(StoreError, match="another format"):
        read_results(tmp_path / "other.json")
    (tmp_path / "torn.json").write_text(path.read_text()[:100])
    with pytest.raises(StoreError, match="not the JSON of a benchmark"):
        read_results(tmp_path / "torn.json")


def test_a_part_that_fails_leaves_the_others(monkeypatch, tmp_path):
    def broken(self: Case) -> Iterator[Any]:
        yield {"ms": 1.0, "flops": 1.0, "peak_gb": 0.0}
        raise torch.OutOfMemoryError("no room\nat all")

    monkeypatch.setattr(Case, "encode", broken)
    results = run(MODELS, replace(PLAN, large=0), lambda row: None, tmp_path / "speed.json")
    (failure,) = results.failures
    assert failure["reason"] == "OutOfMemoryError: no room"
    assert results.find("agreement")
    assert len(results.find("encode")) == 1
    assert "FAILED: OutOfMemoryError: no room" in markdown(results)
    assert json.loads((tmp_path / "speed.json").read_text())["failures"] == [failure]


def test_tables_hold_the_numbers(measured):
    results = measured[0]
    rows = body(results)
    assert all(len(row) == 8 for row in rows)
    plain = results.one("loop", classes=5, way="plain")
    assert ["plain loop", "5", f"{plain['ms']:.4g}"] == rows[0][:3]
    text = markdown(results)
    assert f"| {plain['ms']:.4g} |" in text
    assert results.about["machine"] in text
    assert results.about["commit"] in text
    curves = speeds(results)
    assert curves["plain loop"] == {5: 1e3 / plain["ms"]}
    assert set(curves["stored features"]) == {5, 20}


def test_the_plain_loop_does_the_published_work(monkeypatch):
    encoded, prompt = [], Prompt.from_template(BACKBONE, classnames(3))
    encode = BACKBONE.encode_image_plainly
    monkeypatch.setattr(
        BACKBONE, "encode_image_plainly", lambda p: (encoded.append(len(p)), encode(p))[1]
    )
    read, texts = BACKBONE.encode_text, []
    monkeypatch.setattr(
        BACKBONE, "encode_text", lambda t, e: (texts.append(t.shape), read(t, e))[1]
    )
    pixels = MODELS.pixels(1, 4)
    answer = plain_loop.answer_plainly(BACKBONE, prompt, pixels, METHOD)
    assert encoded == [4, 1]
    assert texts == [(3, 77)] * 2
    features = torch.nn.functional.normalize(encode(pixels), dim=-1)
    torch.testing.assert_close(answer, tune(BACKBONE, prompt, METHOD, features).logits)
    plain_loop.answer_as_released(BACKBONE, prompt, pixels)
    assert texts == [(3, 77)] * 2 + [(3, 77)] * 3 + [(3, 77)] * 2  # features above tuned once more


def test_needed_work_is_counted():
    prompt = Prompt.from_template(BACKBONE, classnames(6))
    layer, tower = BACKBONE.causal.layers[0], BACKBONE.causal
    weights = sum(a.weight.numel() for a in (layer.qkv, layer.out, layer.up, layer.down))
    tokens = int((prompt.tokens.argmax(1) + 1 - 5).sum()) + 5
    whole = 2 * tokens * weights * len(tower.layers)
    assert 0.6 * whole < text_flops(BACKBONE, prompt) < 1.2 * whole
    assert text_flops(BACKBONE, prompt) < answer_flops(BACKBONE, prompt, 64)
    assert 0 < image_flops(BACKBONE) < image_flops(BACKBONE, skip=False)
    other = random_backbone(causal=False, context_length=20)
    assert text_flops(other, Prompt.from_template(other, classnames(6))) > 0


def test_drawn_features_are_unit_and_both_sure_and_unsure():
    prompt = Prompt.from_template(BACKBONE, classnames(50))
    text = Engine(BACKBONE, prompt).start
    features = drawn_features(text, 100.0, 200, 3)
    torch.testing.assert_close(features.norm(dim=-1), torch.ones(200, 3))
    confidence = (100 * features[:, 0] @ text.T).softmax(-1).amax(-1)
    assert confidence.max() > 0.9
    assert confidence.min() < 0.5
    assert torch.equal(features, drawn_features(text, 100.0, 200, 3))


def test_names_are_real_and_enough():
    assert len(set(classnames(3000))) > 2990  # ImageNet holds two names twice
    assert classnames(10) == classnames(100)[:10]


def test_photos_are_as_heavy_as_real_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("tammes.benchmark.workload.DISTINCT", 2)
    paths = write_photos(tmp_path / "photos", 4)
    assert len(set(paths)) == 4
    with Image.open(paths[0]) as image:
        assert image.size == (500, 375)
    assert 30_000 < paths[0].stat().st_size < 150_000
    assert paths[3].read_bytes() == paths[1].read_bytes() != paths[0].read_bytes()
    assert photo(0, 40, 30).shape == (30, 40, 3)


def test_plans_fit_the_device():
    gpu, cpu = plan_for(torch.device("cuda")), plan_for(torch.device("cpu"))
    assert gpu.classes == (10, 100, 1000)
    assert gpu.large == 21000
    assert cpu.images < gpu.images
    assert [gpu.batch(n) for n in (10, 100, 1000, 21000)] == [1024, 512, 128, 16]
    assert plan_for(torch.device("cpu"), quick=True).classes == (10,)


def test_the_command_shows_an_earlier_run(measured, tmp_path):
    result = CliRunner().invoke(app, ["benchmark", "--markdown", str(measured[2])])
    assert result.stdout == markdown(measured[0])
    gone = CliRunner().invoke(app, ["benchmark", "--markdown", str(tmp_path / "no.json")])
    assert gone.exit_code == 2


def test_the_command_measures(tiny_path, tmp_path, monkeypatch):
    monkeypatch.setattr("tammes.benchmark.plan_for", lambda *_: replace(PLAN, large=0))
    files = tmp_path / "speed.json", tmp_path / "speed.svg"
    words = ["benchmark", "--model", str(tiny_path), "--device", "cpu", "--classes", "3"]
    result = CliRunner().invoke(app, [*words, "--out", str(files[0]), "--figure", str(files[1])])
    assert result.exit_code == 0, result.output
    assert "from JPEG files" in result.stdout
    assert "stored N=3 vjp" in result.stderr
    assert read_results(files[0]).classes == [3]
    assert "Images per second" in files[1].read_text()
    for bad in ("ten", "1"):
        assert CliRunner().invoke(app, ["benchmark", "--classes", bad]).exit_code == 2
