"""The engine is the specification, only faster: for any model, prompt, method and batch."""

from __future__ import annotations

from dataclasses import replace
from threading import current_thread

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from conftest import KINDS
from tammes import METHODS, Backbone, Engine, Method, Prompt, load_backbone, tune
from tammes.backbones.random import random_backbone
from tammes.engine.text import PackedText, Packing, PaddedText, text_encoder
from tammes.errors import PromptError
from tammes.prompts import MetaNet
from tammes.regularizers import REGULARIZERS, mean_cosine, mean_nearest_angle

BACKBONES = {kind: random_backbone(**options) for kind, options in KINDS.items()}
NAMES = ["cat", "giant panda", "sea or lake", "x", "missile", "golden retriever dog", "tree frog"]
TEMPLATES = ["a photo of a {}.", "art of {} in the snow", "itap of my {}."]

methods = st.builds(
    Method,
    terms=st.lists(
        st.tuples(st.floats(-50, 50), st.sampled_from([t() for t in REGULARIZERS.values()])),
        max_size=2,
    ).map(tuple),
    steps=st.integers(0, 3),
    entropy=st.sampled_from([0.0, 1.0, 0.5]),
    keep=st.sampled_from([0.1, 0.4, 1.0]),
    temperature=st.sampled_from([1.0, 1.7]),
)


def views_of(backbone: Backbone, images: int, views: int, seed: int) -> torch.Tensor:
    noise = torch.randn(images, views, backbone.dim, generator=torch.manual_seed(seed))
    return normalize(noise + 2 * noise[:, :1], dim=-1)


def meta_net(backbone: Backbone) -> MetaNet:
    draw = torch.Generator().manual_seed(3)
    d, w = backbone.dim, backbone.width
    shapes = ((4, d), (4,), (w, 4), (w,))
    return MetaNet(*(0.1 * torch.randn(s, generator=draw) for s in shapes))


def assert_equal_to_specification(
    backbone: Backbone, prompt: Prompt, features: torch.Tensor, chosen: list[Method], **options: str
) -> None:
    outcomes = Engine(backbone, prompt, **options).predict(features, chosen)
    for method, outcome in zip(chosen, outcomes, strict=True):
        episodes = [tune(backbone, prompt, method, one) for one in features]
        for name in ("logits", "probs"):
            expected = torch.stack([getattr(e, name) for e in episodes])
            torch.testing.assert_close(getattr(outcome, name), expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(
            outcome.losses, torch.tensor([e.losses for e in episodes]), atol=1e-4, rtol=1e-5
        )
        assert outcome.kept.tolist() == [e.kept.tolist() for e in episodes]
        for name, measure in (("angle", mean_nearest_angle), ("cosine", mean_cosine)):
            expected = torch.stack([measure(e.text, prompt.same) for e in episodes])
            torch.testing.assert_close(getattr(outcome, name), expected, atol=2e-3, rtol=0)


@pytest.mark.parametrize("kind", list(KINDS))
@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
    st.sampled_from(TEMPLATES),
    st.lists(methods, min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(0, 1000),
    st.booleans(),
)
def test_engine_equals_specification(
    kind, names, template, chosen, images, views, seed, conditioned
):
    backbone = BACKBONES[kind]
    prompt = Prompt.from_template(backbone, names, template)
    if conditioned:
        prompt = replace(prompt, meta_net=meta_net(backbone))
    features = views_of(backbone, images, views, seed)
    assert_equal_to_specification(backbone, prompt, features, chosen)


@pytest.mark.parametrize("name", list(METHODS))
def test_both_gradients_serve_every_published_method(name):
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    features = views_of(backbone, 3, 12, 1)
    for gradient in ("vjp", "jacobian"):
        assert_equal_to_specification(
            backbone, prompt, features, [METHODS[name]], gradient=gradient
        )


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_of_a_cpu_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch):
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    features, chosen = views_of(backbone, 7, 12, 5), list(METHODS.values())
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = Engine(backbone, prompt).predict(features, chosen)
        torch.set_num_threads(threads)
        monkeypatch.setattr("tammes.engine.engine.TOKENS_PER_THREAD", 64)  # a pass per image
        engine, seen = Engine(backbone, prompt), set()
        encode = engine._encode

        class Watched:
            tokens = encode.tokens

            def __call__(self, contexts: torch.Tensor) -> torch.Tensor:
                seen.add((current_thread().name, torch.is_grad_enabled()))
                return encode(contexts)

        engine._encode = Watched()
        several = engine.predict(features, chosen)
        assert torch.get_num_threads() == threads
        assert len(seen) > 1
        assert not any(grad for _, grad in seen)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(alone, several, strict=True):
        for name in ("logits", "angle", "cosine", "text", "losses"):
            expected = getattr(one, name)
            torch.testing.assert_close(getattr(other, name), expected, atol=2e-5, rtol=0)


@given(st.permutations(range(6)), st.integers(1, 6))
def test_batch_and_order_change_nothing(order, size):
    backbone = BACKBONES["causal"]
    engine = Engine(backbone, Prompt.from_template(backbone, NAMES))
    features = views_of(backbone, 6, 12, 5)
    chosen = [METHODS["tpt"], METHODS["a-tpt"]]
    whole = engine.predict(features, chosen)
    for start in range(0, 6, size):
        rows = list(order[start : start + size])
        for one, all_of_them in zip(engine.predict(features[rows], chosen), whole, strict=True):
            torch.testing.assert_close(one.logits, all_of_them.logits[rows], atol=2e-5, rtol=0)


def test_nothing_given_is_changed():
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    features = views_of(backbone, 2, 8, 0)
    before = (features.clone(), prompt.context.clone(), backbone.fingerprint)
    Engine(backbone, prompt).predict(features, list(METHODS.values()))
    tune(backbone, prompt, METHODS["a-tpt"], features[0])
    del backbone.__dict__["fingerprint"]
    assert torch.equal(features, before[0])
    assert torch.equal(prompt.context, before[1])
    assert backbone.fingerprint == before[2]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_packing_keeps_pieces_whole(lengths):
    packing = Packing.of(lengths, torch.device("cpu"))
    tokens = sum(lengths)
    owner = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    owner = torch.cat([owner, torch.tensor([-1])])[packing.places]
    at = [(owner == i).nonzero().flatten() for i in range(len(lengths))]
    assert [len(a) for a in at] == lengths
    for piece, end in zip(at, packing.ends, strict=True):
        assert piece[-1] == end
        assert piece[0] // packing.size == piece[-1] // packing.size
        block, offset = int(piece[0]) // packing.size, int(piece[0]) % packing.size
        for i in range(len(piece)):
            seen = packing.sees[block, offset + i].nonzero().flatten() + block * packing.size
            assert seen.tolist() == piece[: i + 1].tolist()
    assert (packing.places < tokens).sum() == tokens
    assert len(packing.places) < 2 * tokens + packing.size


def test_other_towers_take_the_generic_path():
    backbone = BACKBONES["bidirectional"]
    assert isinstance(text_encoder(backbone, Prompt.from_template(backbone, NAMES)), PaddedText)


def test_the_jacobian_is_built_when_enough_images_pay_for_it():
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    assert Engine(backbone, prompt, images=1).gradient == "vjp"
    assert Engine(backbone, prompt, images=100_000).gradient == "jacobian"


@pytest.mark.parametrize("gradient", ["vjp", "jacobian"])
def test_classes_in_parts_change_nothing(gradient, monkeypatch):
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    features = views_of(backbone, 3, 12, 1)
    whole = Engine(backbone, prompt, gradient=gradient).predict(features, [METHODS["a-tpt"]])[0]
    packed = PackedText(backbone, backbone.causal, prompt)
    assert packed.parts(2**40) == [packed]
    assert [part.classes for part in packed.parts(1)] == [1] * len(NAMES)
    assert all(part._layers is packed._layers for part in packed.parts(1))  # no copy of weights
    monkeypatch.setattr("tammes.engine.gradient.room", lambda device: 2**18)
    engine = Engine(backbone, prompt, gradient=gradient)
    assert 1 < len(engine._start.pull._parts) < len(NAMES)
    (parts,) = engine.predict(features, [METHODS["a-tpt"]])
    torch.testing.assert_close(parts.logits, whole.logits, atol=2e-5, rtol=0)


def test_the_engine_says_why_it_takes_gradients_as_it_does(monkeypatch):
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    assert "TFLOP" in Engine(backbone, prompt).reason
    assert Engine(backbone, prompt, gradient="vjp").reason == "asked for"
    monkeypatch.setattr("tammes.engine.gradient.room", lambda device: 1)
    engine = Engine(backbone, prompt, images=10**6)
    assert engine.gradient == "vjp"
    assert "exceeds" in engine.reason
    other = BACKBONES["bidirectional"]
    engine = Engine(other, Prompt.from_template(other, NAMES), images=10**6)
    assert "does not separate" in engine.reason
    assert engine.way(METHODS["tpt"]) == f"vjp: {engine.reason}"
    assert engine.way(replace(METHODS["tpt"], steps=2)) == "per image: 2 steps"
    assert engine.way(METHODS["zero-shot"]) == ""


def test_image_independent_share():
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    features = views_of(backbone, 4, 12, 2)
    names = ("tpt", "a-tpt", "static-a-tpt", "zero-shot")
    tpt, weak, static, zero = Engine(backbone, prompt).predict(
        features, [METHODS[n] for n in names]
    )
    assert tpt.image_independent.isnan().all()
    assert zero.image_independent.isnan().all()
    assert (static.image_independent == 1).all()
    assert ((weak.image_independent > 0.5) & (weak.image_independent <= 1)).all()


def test_an_ensemble_is_for_zero_shot():
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES, TEMPLATES)
    features = views_of(backbone, 2, 8, 0)
    assert_equal_to_specification(backbone, prompt, features, [METHODS["zero-shot"]])
    with pytest.raises(PromptError, match="ensemble of 3 templates"):
        Engine(backbone, prompt).predict(features, [METHODS["tpt"]])
    with pytest.raises(PromptError, match="ensemble of 3 templates"):
        tune(backbone, prompt, METHODS["tpt"], features[0])


def test_a_template_without_words_before_the_name_cannot_be_tuned():
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES, "{} texture.")
    features = views_of(backbone, 2, 8, 0)
    assert_equal_to_specification(backbone, prompt, features, [METHODS["zero-shot"]])
    with pytest.raises(PromptError, match="no words before"):
        Engine(backbone, prompt).predict(features, [METHODS["a-tpt"]])


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("group", [16384, 8])
def test_flex_rows_are_the_same_tower(group, monkeypatch):
    from tammes.engine import flex

    monkeypatch.setattr(flex, "GROUP", group)
    backbone = BACKBONES["causal"]
    prompt = Prompt.from_template(backbone, NAMES)
    packed = PackedText(backbone, backbone.causal, prompt)
    contexts = prompt.context + 0.01 * torch.randn(3, *prompt.context.shape)
    rows = flex.FlexRows(backbone.causal, packed.prefix, packed._suffix, packed._lengths)
    with torch.no_grad():
        expected, ours = packed(contexts), rows(packed._prefixes(contexts))
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("gradient", ["vjp", "jacobian"])
def test_half_precision_answers_are_near(tiny_path, gradient):
    full, half = (load_backbone(tiny_path, "cpu", p) for p in ("fp32", "bf16"))
    features = views_of(full, 3, 16, 0)
    one, other = (
        Engine(b, Prompt.from_template(b, NAMES), gradient=gradient).predict(
            features, [METHODS["a-tpt"]]
        )[0]
        for b in (full, half)
    )
    torch.testing.assert_close(other.probs, one.probs, atol=0.1, rtol=0)
