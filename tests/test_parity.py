"""Our numbers equal those of the published codes, run unmodified on a small random CLIP."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tammes import METHODS, Backbone, Engine, Method, Prompt, tune
from tammes.regularizers import mean_nearest_angle

GOLDEN = Path(__file__).parent / "golden"
RUNS = {
    "zeroshot": METHODS["zero-shot"],
    "tpt": METHODS["tpt"],
    "ctpt50": METHODS["c-tpt"],
    "otpt18": METHODS["o-tpt"],
    "atpt_paper80": METHODS["a-tpt"],
    "atpt_released80": METHODS["a-tpt-released"],
    "tpt_steps3": Method(steps=3),
    "atpt_paper80_steps3": replace(METHODS["a-tpt"], steps=3),
    "atpt_paper80_cool": METHODS["a-tpt"],
}
SETS = ("eurosat10", "dtd47")
CASES = [
    (tag, run)
    for tag in SETS
    for run in json.loads((GOLDEN / f"{tag}.json").read_text())["methods"]
]


def case(tiny: Backbone, tag: str, run: str) -> tuple[Prompt, dict[str, torch.Tensor]]:
    names = json.loads((GOLDEN / f"{tag}.json").read_text())["classnames"]
    words = "a photo of the cool" if run.endswith("cool") else "a photo of a"
    prompt = Prompt.from_template(tiny, names, f"{words} {{}}.")
    return prompt, load_file(GOLDEN / f"{tag}.safetensors")


def suffix(run: str) -> str:
    return "_cool" if run.endswith("cool") else ""


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(ours, theirs.to(ours.dtype), atol=tolerance, rtol=0)


@pytest.mark.parametrize("tag", SETS)
def test_the_prompt_is_theirs(tiny: Backbone, tag: str) -> None:
    for run in ("tpt", "atpt_paper80_cool"):
        prompt, theirs = case(tiny, tag, run)
        assert (prompt.tokens == theirs[f"tokens{suffix(run)}"]).all()
        assert torch.equal(prompt.context, theirs[f"ctx0{suffix(run)}"])


@pytest.mark.parametrize(("tag", "run"), CASES)
def test_the_specification(tiny: Backbone, tag: str, run: str) -> None:
    prompt, theirs = case(tiny, tag, run)
    for image, features in enumerate(theirs["image_features"]):
        episode = tune(tiny, prompt, RUNS[run], features)
        close(episode.logits, theirs[f"{run}.logits"][image])
        close(episode.probs, theirs[f"{run}.probs"][image], 1e-5)
        assert episode.kept.tolist() == theirs[f"selected{suffix(run)}"][image].tolist()
        if RUNS[run].steps:
            close(episode.text, theirs[f"{run}.text1"][image])
            close(episode.context, theirs[f"{run}.ctx_steps"][image, -1])
            close(torch.tensor(episode.losses), theirs[f"{run}.losses"][image], 3e-4)


@pytest.mark.parametrize("gradient", ["vjp", "jacobian"])
@pytest.mark.parametrize(("tag", "run"), CASES)
def test_the_engine(tiny: Backbone, tag: str, run: str, gradient: str) -> None:
    prompt, theirs = case(tiny, tag, run)
    engine = Engine(tiny, prompt, gradient=gradient)
    (outcome,) = engine.predict(theirs["image_features"], [RUNS[run]])
    close(outcome.logits, theirs[f"{run}.logits"])
    assert (outcome.kept == theirs[f"selected{suffix(run)}"]).all()
    if RUNS[run].steps:
        close(outcome.angle, mean_nearest_angle(theirs[f"{run}.text1"]))
        close(outcome.losses, theirs[f"{run}.losses"], 3e-4)
    if f"{run}.AD_after" in theirs:
        close(outcome.angle, theirs[f"{run}.AD_after"])


def test_the_image_tower(tiny: Backbone, shared: Path) -> None:
    views = load_file(shared / "parity" / "views32.safetensors")["views"]
    for tag in SETS:
        theirs = load_file(GOLDEN / f"{tag}.safetensors")
        features = torch.stack([tiny.encode_image(v) for v in views])
        close(features, theirs["image_features_raw"], 1e-5)
