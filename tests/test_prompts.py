"""Sentences around a context: what the tokenizer says, not what words suggest."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import KINDS
from tammes import METHODS, Backbone, Engine, Prompt, tune
from tammes.backbones.random import random_backbone
from tammes.errors import PromptError, WeightsError


@pytest.fixture(scope="module")
def model() -> Backbone:
    return random_backbone(**KINDS["causal"])


@pytest.mark.parametrize(
    ("template", "length"),
    [
        ("a photo of a {}.", 4),
        ("a photo of the cool {}.", 5),
        ("an example of {}.", 3),
        ("An H&E image patch of {}.", 7),  # H & E are three tokens
        ("{} texture.", 0),
        ("a centered satellite photo of {} from above", 5),
    ],
)
def test_the_context_is_counted_in_tokens(model, template, length):
    prompt = Prompt.from_template(model, ["cat", "sea_or_lake"], template)
    assert len(prompt.context) == length
    assert prompt.first == 1
    before = model.tokenize([template.split("{}")[0]])[0, 1 : 1 + length]
    assert (prompt.tokens[:, 1 : 1 + length] == before).all()


def test_a_shared_first_letter_does_not_lengthen_the_context(model):
    assert len(Prompt.from_template(model, ["sea lion", "sea lake"]).context) == 4
    assert len(Prompt.from_template(model, ["of", "of a"], "a photo of {}").context) == 3


def test_names_are_cleaned():
    prompt = Prompt.from_template(random_backbone(), ["sea_or_lake", " dog "])
    assert prompt.classnames == ("sea or lake", "dog")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "empty: name one class"),
        (["cat", " ", ""], r"positions \[1, 2\]"),
        ("cat,dog", "must be a list"),
        (["cat", "very " * 90 + "long"], r"1 of 2 sentences.*'a photo of a very very"),
    ],
)
def test_bad_names(model, names, message):
    with pytest.raises(PromptError, match=message):
        Prompt.from_template(model, names)


@pytest.mark.parametrize("template", ["a photo", "a {} and a {}", []])
def test_bad_templates(model, template):
    with pytest.raises(PromptError):
        Prompt.from_template(model, ["cat"], template)


def test_a_sentence_of_exactly_the_context_length_fits(model):
    words = model.context_length - 2 - 4 - 1  # start, end, "a photo of a", "."
    prompt = Prompt.from_template(model, ["cat " * words])
    assert (prompt.tokens != 0).all()
    with pytest.raises(PromptError):
        Prompt.from_template(model, ["cat " * (words + 1)])


def test_duplicate_classes_share_their_probability(model):
    prompt = Prompt.from_template(model, ["missile", "cat", "missile"])
    assert prompt.same.tolist() == [[True, False, True], [False, True, False], [True, False, True]]
    features = torch.nn.functional.normalize(torch.randn(8, model.dim), dim=-1)
    for method in METHODS.values():
        probs = tune(model, prompt, method, features).probs
        assert probs[0] == pytest.approx(float(probs[2]), abs=1e-6)
        assert probs.isfinite().all()


@pytest.mark.parametrize("names", [["cat"], ["cat", "cat"]])
def test_with_nothing_to_tell_apart_no_step_is_taken(model, names):
    prompt = Prompt.from_template(model, names)
    features = torch.nn.functional.normalize(torch.randn(2, 8, model.dim), dim=-1)
    for outcome in Engine(model, prompt).predict(features, list(METHODS.values())):
        assert torch.allclose(outcome.probs, torch.full((2, len(names)), 1 / len(names)))
    assert torch.equal(tune(model, prompt, METHODS["a-tpt"], features[0]).context, prompt.context)


def save(path: Path, weights: dict) -> Path:
    torch.save({"state_dict": weights, "epoch": 50, "optimizer": {"state": {}}}, path)
    return path


@pytest.mark.parametrize("length", [1, 4, 16])
def test_coop_contexts_of_any_length(model, tmp_path, length):
    context = torch.randn(length, model.width)
    path = save(tmp_path / "coop.pth.tar", {"ctx": context, "token_prefix": torch.zeros(1)})
    prompt = Prompt.from_coop(model, ["cat", "dog"], path)
    assert torch.equal(prompt.context, context)
    plain = Prompt.from_template(model, ["cat", "dog"], "X " * length + "{}.")
    assert torch.equal(prompt.tokens, plain.tokens)


def test_coop_checkpoints_that_do_not_fit(model, tmp_path):
    wide = save(tmp_path / "wide.pt", {"ctx": torch.randn(4, model.width + 1)})
    with pytest.raises(PromptError, match=rf"needs \[tokens, {model.width}\]"):
        Prompt.from_coop(model, ["cat"], wide)
    each = save(tmp_path / "each.pt", {"ctx": torch.randn(2, 4, model.width)})
    with pytest.raises(PromptError, match="one context per class"):
        Prompt.from_coop(model, ["cat", "dog"], each)
    other = save(tmp_path / "other.pt", {"weight": torch.randn(2)})
    with pytest.raises(WeightsError, match="looked for 'ctx', found \\['weight'\\]"):
        Prompt.from_coop(model, ["cat"], other)
    with pytest.raises(WeightsError, match="no checkpoint at"):
        Prompt.from_coop(model, ["cat"], tmp_path / "absent.pt")


def cocoop(model: Backbone) -> dict:
    d, w = model.dim, model.width
    return {
        "prompt_learner.ctx": torch.randn(4, w),
        "prompt_learner.meta_net.linear1.weight": torch.randn(3, d),
        "prompt_learner.meta_net.linear1.bias": torch.randn(3),
        "prompt_learner.meta_net.linear2.weight": torch.randn(w, 3),
        "prompt_learner.meta_net.linear2.bias": torch.randn(w),
    }


def test_cocoop_starts_move_with_the_image(model, tmp_path):
    weights = cocoop(model)
    prompt = Prompt.from_cocoop(model, ["cat", "dog"], save(tmp_path / "cocoop.pt", weights))
    features = torch.nn.functional.normalize(torch.randn(3, model.dim), dim=-1)
    starts = prompt.starts(features)
    prefix = "prompt_learner.meta_net.linear"
    hidden = (features[1] @ weights[f"{prefix}1.weight"].T + weights[f"{prefix}1.bias"]).relu()
    shift = hidden @ weights[f"{prefix}2.weight"].T + weights[f"{prefix}2.bias"]
    torch.testing.assert_close(starts[1], weights["prompt_learner.ctx"] + shift)
    raw = Prompt.from_cocoop(model, ["cat", "dog"], tmp_path / "cocoop.pt", rescale=10.0)
    assert not torch.allclose(raw.starts(features), starts)
    assert raw.fingerprint != prompt.fingerprint


def test_cocoop_checkpoints_that_do_not_fit(model, tmp_path):
    weights = cocoop(model)
    plain = save(tmp_path / "coop.pt", {"ctx": weights["prompt_learner.ctx"]})
    with pytest.raises(WeightsError, match="no meta-net"):
        Prompt.from_cocoop(model, ["cat"], plain)
    weights["prompt_learner.meta_net.linear1.weight"] = torch.randn(3, model.dim + 1)
    with pytest.raises(PromptError, match="the meta-net maps"):
        Prompt.from_cocoop(model, ["cat"], save(tmp_path / "wide.pt", weights))


def test_fingerprints_follow_the_sentences(model):
    one = Prompt.from_template(model, ["cat", "dog"])
    assert one.fingerprint == Prompt.from_template(model, ["cat", "dog"]).fingerprint
    others = [
        Prompt.from_template(model, ["dog", "cat"]),
        Prompt.from_template(model, ["cat", "dog"], "itap of a {}."),
        Prompt.from_template(model, ["cat", "dog"], ["a photo of a {}.", "itap of a {}."]),
    ]
    assert len({one.fingerprint, *(p.fingerprint for p in others)}) == 4
