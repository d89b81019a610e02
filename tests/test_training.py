"""CoOp and CoCoOp: what is learned, what is written, what happens when it is interrupted."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from typer.testing import CliRunner

from tammes import METHODS, Backbone, Engine, Prompt, tune
from tammes.backbones.checkpoint import read_weights
from tammes.backbones.random import random_backbone
from tammes.classifier import build_prompt
from tammes.cli import app
from tammes.datasets import Dataset, load_dataset
from tammes.errors import DataError, PromptError, StoreError, TammesError, WeightsError
from tammes.training import COCOOP, COOP, Recipe, Training, train, train_cocoop, train_coop
from tammes.training.checkpoint import unfinished
from tammes.training.examples import Examples, pick_shots
from tammes.training.learner import start_prompt
from tammes.training.trainer import Trainer
from tammes.tuner import class_features

COLORS = {
    "coal": (20, 20, 20), "leaf": (30, 200, 40), "red fox": (220, 40, 40),
    "sea": (30, 60, 220), "snow": (240, 240, 240), "sun": (230, 220, 30),
}  # fmt: skip
QUICK = {"shots": 4, "crops": 3, "per_step": 4}
TRAININGS = {
    "coop": replace(COOP, epochs=10, **QUICK),
    "cocoop": replace(COCOOP, epochs=10, lr=0.03, **QUICK),
}


def paint(root: Path, per_class: int, seed: int) -> Path:
    """Noisy pictures, a color per class."""
    noise = np.random.default_rng(seed)
    for name, color in COLORS.items():
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            pixels = np.array(color) + noise.normal(0, 30, (32, 40, 3))
            picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
            picture.save(root / name / f"{seed}-{i}.png")
    return root


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load_dataset(paint(tmp_path_factory.mktemp("train") / "colors", 6, seed=0))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Images that were not trained on."""
    return load_dataset(paint(tmp_path_factory.mktemp("test") / "colors", 10, seed=1))


def seeing(backbone: Backbone) -> Backbone:
    """Let a random model see colors: as the class features under a context that is to be found."""
    hidden = torch.randn(4, backbone.width, generator=torch.Generator().manual_seed(3))
    prompt = Prompt.around(backbone, list(COLORS), hidden, "hidden")
    with torch.no_grad():
        text = class_features(backbone, prompt, hidden)
    text = normalize(text - text.mean(dim=0), dim=-1)
    known = torch.tensor(list(COLORS.values()), dtype=torch.uint8)[:, :, None, None]
    known = backbone.preprocessing.normalize(known)[:, :, 0, 0]

    def encode_image(pixels: Tensor) -> Tensor:
        return (-4 * torch.cdist(pixels.mean(dim=(2, 3)), known)).softmax(dim=-1) @ text

    backbone._encode_image = backbone._arranged = encode_image
    return backbone


@pytest.fixture(scope="module")
def model() -> Backbone:
    return seeing(random_backbone(dim=64))


@pytest.fixture(scope="module", params=list(TRAININGS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def done(
    kind: str, dataset: Dataset, model: Backbone, tmp_path_factory: pytest.TempPathFactory
) -> Training:
    """A training that nothing disturbed."""
    return train(dataset, model, tmp_path_factory.mktemp(kind) / "x.pt", TRAININGS[kind])


def accuracy(model: Backbone, prompt: Prompt, dataset: Dataset, method: str) -> float:
    from tammes.encoder import ImageEncoder
    from tammes.views import ViewSettings, render_ahead

    rendered = list(render_ahead(dataset.items, ViewSettings(8), model, 2))
    features = torch.stack(ImageEncoder(model, 64)(rendered))
    (answer,) = Engine(model, prompt).predict(features, [METHODS[method]])
    return float((answer.logits.argmax(dim=-1) == torch.tensor(dataset.labels)).float().mean())


# --- what is learned ------------------------------------------------------------------------------


def test_training_learns(done: Training, model: Backbone, others: Dataset, kind: str) -> None:
    assert done.images == 24
    assert len(done.history) == 10
    assert done.after.loss < 0.75 * done.before.loss
    assert done.history[-1].loss < 0.75 * done.history[0].loss
    assert done.after.accuracy > done.before.accuracy
    start = start_prompt(model, others.classnames, TRAININGS[kind], "start")
    before = accuracy(model, start, others, "zero-shot")
    for method in ("zero-shot", "a-tpt"):
        assert accuracy(model, done.prompt, others, method) > before + 0.1, method


def test_other_towers_learn_too(dataset: Dataset, tmp_path: Path) -> None:
    model = seeing(random_backbone(causal=False, context_length=20))
    done = train(dataset, model, tmp_path / "x.pt", TRAININGS["coop"])
    assert done.after.loss < 0.75 * done.before.loss


@pytest.mark.parametrize("method", ["tpt", "a-tpt"])
def test_every_method_starts_from_what_was_learned(
    done: Training, model: Backbone, method: str
) -> None:
    """The engine takes the file's start for each image, as the specification does."""
    features = normalize(torch.randn(5, 10, model.dim), dim=-1)
    prompt = build_prompt(model, list(COLORS), done.prompt.template)
    (answer,) = Engine(model, prompt).predict(features, [METHODS[method]])
    for row, logits in zip(features, answer.logits, strict=True):
        expected = tune(model, prompt, METHODS[method], row)
        torch.testing.assert_close(logits, expected.logits, atol=2e-3, rtol=1e-3)
    starts = prompt.starts(features[:, 0])
    assert (starts == starts[:1]).all() != prompt.conditioned


def test_the_settings_are_the_published_ones() -> None:
    assert replace(COOP, start=4, epochs=50, per_step=32, shots=16, lr=0.002) == COOP
    assert replace(COCOOP, start="a photo of a", epochs=10, per_step=1, shots=16) == COCOOP
    rates = [COOP.rate(epoch) for epoch in range(50)]
    logged = [1e-5, 2e-3, 1.998027e-3, 1.992115e-3, 1.982287e-3, 1.968583e-3, 1.951057e-3]
    assert rates[:7] == pytest.approx(logged, rel=1e-6)  # as CoOp's own logs print them
    assert all(a > b > 0 for a, b in pairwise(rates[1:]))


def test_a_step_is_sgd_on_the_cross_entropy(model: Backbone) -> None:
    """One image, no warm-up to hide in: weight decay, then the gradient, times the rate."""
    recipe = Recipe(start=2, epochs=2, per_step=1, crops=1, lr=0.1)
    start = start_prompt(model, tuple(COLORS), recipe, "start")
    features = normalize(torch.randn(1, 2, model.dim), dim=-1).half()
    trainer = Trainer(model, start, Examples(features, torch.tensor([2]), {}), recipe)
    context = start.context.clone().requires_grad_()
    text = class_features(model, start, context)
    loss = cross_entropy(model.logits(features[:, 1].float(), text), torch.tensor([2]))
    (slope,) = torch.autograd.grad(loss, context)
    trainer.run_epoch()
    moved = context.detach() - recipe.rate(0) * (slope + 5e-4 * context.detach())
    torch.testing.assert_close(trainer.prompt().context, moved, atol=1e-8, rtol=0)
    assert trainer.history[0].loss == pytest.approx(loss.item(), abs=1e-5)


def test_an_incomplete_step_is_left_out(model: Backbone) -> None:
    recipe = Recipe(start=1, epochs=2, per_step=4, crops=1)
    start = start_prompt(model, tuple(COLORS), recipe, "start")
    features = normalize(torch.randn(11, 2, model.dim), dim=-1).half()
    for images, expected in ((11, [4, 8]), (8, [4, 8]), (3, [3])):
        examples = Examples(features[:images], torch.zeros(images, dtype=torch.int64), {})
        seen: list[int] = []
        trainer = Trainer(model, start, examples, recipe)
        trainer.run_epoch(lambda n, total, stage, seen=seen: seen.append(n))
        assert seen == expected


# --- shots and views ------------------------------------------------------------------------------


def test_shots_depend_on_the_seed_and_the_images_alone(dataset: Dataset) -> None:
    few = pick_shots(dataset, 4, seed=0)
    assert [few.labels.count(label) for label in range(6)] == [4] * 6
    backward = replace(dataset, items=dataset.items[::-1])
    assert {i.id for i in pick_shots(backward, 4, seed=0).items} == {i.id for i in few.items}
    assert {i.id for i in pick_shots(dataset, 4, seed=1).items} != {i.id for i in few.items}
    assert pick_shots(dataset, 99, seed=0).items == dataset.items


def test_epochs_take_the_crops_in_turn_and_never_the_clean_view() -> None:
    features = torch.arange(4.0).expand(2, 4)[..., None]
    examples = Examples(features, torch.zeros(2), {})
    seen = [examples.crops(torch.tensor([0]), epoch).item() for epoch in range(7)]
    assert seen == [1, 2, 3, 1, 2, 3, 1]


def test_what_is_missing_is_said(dataset: Dataset, model: Backbone, tmp_path: Path) -> None:
    root = tmp_path / "colors"
    shutil.copytree(dataset.root, root)
    for i in range(1, 6):
        (root / "sun" / f"0-{i}.png").unlink()
    (root / "sea" / "0-0.png").write_bytes(b"no picture")
    done = train_coop(load_dataset(root), model, tmp_path / "x.pt", epochs=2, shots=6, crops=1)
    assert done.short == {"sun": 1, "sea": 5}
    assert list(done.skipped) == ["sea/0-0.png"]
    assert done.images == 6 * 6 - 6
    (root / "sun" / "0-0.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"for 1 of 6 classes: 'sun' \(2 could not be read\)"):
        train_coop(load_dataset(root), model, tmp_path / "y.pt", epochs=2, shots=6, crops=1)
    names = [*dataset.classnames, "fog"]
    with pytest.raises(DataError, match="for 1 of 7 classes: 'fog'"):
        train_coop(replace(dataset, classnames=tuple(names)), model, tmp_path / "z.pt", crops=1)


# --- files ----------------------------------------------------------------------------------------


def same(a: Prompt, b: Prompt) -> bool:
    return a.fingerprint == b.fingerprint and torch.equal(a.context, b.context)


def test_the_file_is_one_that_all_codes_read(done: Training, model: Backbone, kind: str) -> None:
    read = Prompt.from_cocoop if kind == "cocoop" else Prompt.from_coop
    again = read(model, list(COLORS), done.path)
    assert same(again, done.prompt)
    assert again.template == done.prompt.template == f"{kind}:{done.path}"
    loaded = torch.load(done.path, weights_only=True)  # the layout of CoOp's own files
    assert loaded["epoch"] == 10
    wanted = {"ctx"}
    if kind == "cocoop":
        wanted |= {f"meta_net.linear{i}.{x}" for i in (1, 2) for x in ("weight", "bias")}
    assert set(loaded["state_dict"]) == wanted == set(read_weights(done.path))


def test_other_classes_take_the_same_context(done: Training, model: Backbone) -> None:
    prompt = build_prompt(model, ["a", "b c"], done.prompt.template)
    assert torch.equal(prompt.context, done.prompt.context)
    assert len(prompt.tokens) == 2


def test_nothing_but_the_seed_matters(
    done: Training, dataset: Dataset, model: Backbone, tmp_path: Path, kind: str
) -> None:
    again = train(dataset, model, tmp_path / "a.pt", TRAININGS[kind], batch=5, workers=3)
    assert same(again.prompt, done.prompt)
    assert again.history == done.history
    assert again.path.read_bytes() == done.path.read_bytes()
    other = train(dataset, model, tmp_path / "b.pt", replace(TRAININGS[kind], seed=1))
    assert not torch.equal(other.prompt.context, done.prompt.context)


class Stop(Exception):
    pass


def stop_at(limit: int, stage: str) -> Callable[[int, int, str], None]:
    def progress(count: int, total: int, now: str) -> None:
        assert 0 < count <= total
        if now == stage and count >= limit:
            raise Stop

    return progress


@pytest.mark.parametrize(("limit", "stage"), [(20, "encode"), (3, "train"), (100, "train")])
def test_an_interrupted_training_goes_on(
    done: Training, dataset: Dataset, model: Backbone, tmp_path: Path, kind: str, limit: int,
    stage: str,
) -> None:  # fmt: skip
    out = tmp_path / "x.pt"
    with pytest.raises(Stop):
        train(dataset, model, out, TRAININGS[kind], progress=stop_at(limit, stage))
    assert not out.exists()
    assert unfinished(out).exists() == (limit == 100)
    seen: list[int] = []
    again = train(
        dataset,
        model,
        out,
        TRAININGS[kind],
        progress=lambda n, _, s: seen.append(n) if s == "train" else None,
    )
    assert (seen[0] > 90) == (limit == 100)
    assert same(again.prompt, done.prompt)
    assert again.history == done.history
    assert not unfinished(out).exists()


def test_a_finished_training_is_not_done_again(
    done: Training, dataset: Dataset, model: Backbone, kind: str
) -> None:
    def progress(_: int, __: int, stage: str) -> None:
        raise AssertionError(stage)

    written = done.path.stat().st_mtime_ns
    again = train(dataset, model, done.path, TRAININGS[kind], progress=progress)
    assert same(again.prompt, done.prompt)
    assert (again.before, again.after, again.history) == (done.before, done.after, done.history)
    assert done.path.stat().st_mtime_ns == written


def test_no_other_file_is_overwritten(
    done: Training, dataset: Dataset, model: Backbone, tmp_path: Path, kind: str
) -> None:
    content = done.path.read_bytes()
    with pytest.raises(StoreError, match=r"another training \(seed is 0 there, 7 here\): choose"):
        train(dataset, model, done.path, replace(TRAININGS[kind], seed=7))
    assert done.path.read_bytes() == content
    for name, wrong in {"text": b"hello", "cut": content[:500], "none": b""}.items():
        path = tmp_path / name
        path.write_bytes(wrong)
        with pytest.raises(StoreError, match=rf"{name} is there, and no file that a training"):
            train(dataset, model, path, TRAININGS[kind])
        assert path.read_bytes() == wrong
    with pytest.raises(StoreError):
        train(dataset, model, tmp_path, TRAININGS[kind])


# --- what does not fit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shots": 0}, "shots is 0"),
        ({"crops": 0}, "crops is 0"),
        ({"per_step": 0}, "per_step is 0"),
        ({"epochs": 1}, "the first only warms up"),
        ({"lr": 0.0}, "learning rate is 0.0"),
        ({"lr": math.nan}, "learning rate is nan"),
        ({"start": 0}, "the start is 0"),
        ({"start": ""}, "the start is ''"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TammesError, match=message):
        replace(COOP, **settings)


def test_starts_that_do_not_fit(dataset: Dataset, model: Backbone, tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"its context of 76 tokens .* more than the 77 tokens"):
        train_coop(dataset, model, tmp_path / "x.pt", start=76)
    with pytest.raises(PromptError, match="exactly once"):
        train_coop(dataset, model, tmp_path / "x.pt", start="a {} photo")
    words = train_cocoop(dataset, model, tmp_path / "y.pt", epochs=2, **QUICK, start="the color")
    assert len(words.prompt.context) == 2


def test_files_that_do_not_fit(done: Training, tmp_path: Path, kind: str) -> None:
    wide = random_backbone(width=48)
    with pytest.raises(
        PromptError, match=rf"{kind}:.* shape \(4, 32\); random needs \[tokens, 48\]"
    ):
        build_prompt(wide, ["cat"], done.prompt.template)
    short = random_backbone(context_length=8)
    with pytest.raises(
        PromptError, match=r"context of 4 tokens leaves too little room .* 'a long n"
    ):
        build_prompt(short, ["cat", "a long name of a class"], done.prompt.template)
    deep = random_backbone(dim=24)
    if kind == "cocoop":
        with pytest.raises(
            PromptError, match="the meta-net maps 64 to 32 numbers; random needs 24"
        ):
            build_prompt(deep, ["cat"], done.prompt.template)
    else:
        assert build_prompt(deep, ["cat"], done.prompt.template)
    cut = tmp_path / "cut.pt"
    cut.write_bytes(done.path.read_bytes()[:700])
    with pytest.raises(WeightsError, match="it may be damaged or half downloaded"):
        build_prompt(wide, ["cat"], f"{kind}:{cut}")


def test_the_features_of_the_released_code(
    dataset: Dataset, model: Backbone, tmp_path: Path
) -> None:
    done = train_cocoop(dataset, model, tmp_path / "x.pt", epochs=2, **QUICK)
    raw = build_prompt(model, list(COLORS), f"cocoop(10):{done.path}")
    features = normalize(torch.randn(2, model.dim), dim=-1)
    net = done.prompt.meta_net
    assert net is not None
    expected = done.prompt.context + net(10 * features)[:, None]
    torch.testing.assert_close(raw.starts(features), expected)
    assert raw.fingerprint != done.prompt.fingerprint


def test_a_loss_that_runs_away_is_said(model: Backbone) -> None:
    recipe = replace(COOP, lr=1e30, crops=1, per_step=1)
    start = start_prompt(model, tuple(COLORS), recipe, "start")
    features = normalize(torch.randn(4, 2, model.dim), dim=-1).half()
    trainer = Trainer(model, start, Examples(features, torch.arange(4), {}), recipe)
    trainer.run_epoch()
    with pytest.raises(TammesError, match=r"in epoch 2: take a lower learning rate than 1e\+30"):
        trainer.run_epoch()


# --- the command ----------------------------------------------------------------------------------


def test_the_command_trains_and_bench_takes_the_file(
    kind: str, dataset: Dataset, tiny_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.pt"
    data = ("--data", str(dataset.root), "--model", str(tiny_path))
    words = ("train", kind, *data, "--out", str(out), "--epochs", "2", "--shots", "9",
             "--crops", "2", "--per-step", "8", "--start", "3")  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{kind}:{out}\n"
    assert "6 classes have fewer than 9 images; 'coal' has 6" in result.stderr
    assert "on the 36 images it learned from, clean views: accuracy" in result.stderr
    assert read_weights(out)["ctx"].shape[0] == 3
    runs = str(tmp_path / "runs")
    words = ("bench", *data, "--template", result.stdout.strip(), "--out", runs, "--views", "4",
             "--methods", "all", "--limit", "6")  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert all(method in result.stdout for method in METHODS)


def test_kinds_are_corrected(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", "coopp", "--data", "x", "--out", "y"])
    assert result.exit_code == 2
    assert "Did you mean 'coop'" in result.stderr
