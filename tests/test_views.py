"""Views: the published pixels, torchvision's crops, and where the randomness comes from."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file
from scipy.stats import chisquare, ks_2samp, kstest
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as reference

from tammes.errors import TammesError
from tammes.preprocessing import CLIP_MEAN, CLIP_STD, Preprocessing
from tammes.views import (
    CLEAN,
    Box,
    Mix,
    Operation,
    View,
    ViewSettings,
    render_views,
    sample_views,
    views_of,
)
from tammes.views.operations import AMOUNTS, apply_operation, operation_at

GOLDEN = Path(__file__).parent / "golden"
LEVELS = Preprocessing(mean=(0, 0, 0), std=(1 / 255, 1 / 255, 1 / 255))  # normalizes to 0 … 255
law = settings(derandomize=True, deadline=None, max_examples=60)
sides = st.integers(1, 3000)
names = st.text(max_size=20)


@pytest.fixture(scope="module")
def golden() -> dict[str, torch.Tensor]:
    return load_file(GOLDEN / "views.safetensors")


def source(index: int) -> Image.Image:
    with Image.open(GOLDEN / f"views-{index}.png") as image:
        return image.convert("RGB")


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def levels(image: Image.Image, *views: View, size: int = 224, **rules: str) -> torch.Tensor:
    preprocessing = Preprocessing(size, LEVELS.mean, LEVELS.std, **rules)  # type: ignore[arg-type]
    return render_views(image, views, preprocessing).round().to(torch.uint8)


def planes(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


# --- parity with the published code; the vectors keep every fourth pixel

# What torch's generator, seeded with 0, drew for the published random crops and flips.
PUBLISHED_CROPS = (
    View(Box(50, 50, 188, 219), True),
    View(Box(26, 9, 226, 225), False),
    View(Box(60, 99, 181, 171), True),
    View(Box(6, 64, 195, 219), True),
    View(Box(41, 10, 207, 263), True),
    View(Box(59, 53, 187, 242), True),
)
# What numpy's legacy generator, seeded with 0, drew for the first two AugMix views.
PUBLISHED_MIXES = (
    Mix(
        0.5625831851042271,
        (0.26751828776935993, 0.4221575685857106, 0.31032414364492955),
        (
            (Operation("posterize", 4), Operation("shear_y", 0.0045312503875709655)),
            (Operation("shear_y", 0.024928555676938313), Operation("equalize")),
            (Operation("translate_y", 0.005947212324379555), Operation("rotate", 2)),
        ),
    ),
    Mix(
        0.18275434047244613,
        (0.4750013025918075, 0.14935266394326266, 0.3756460334649297),
        (
            (Operation("posterize", 4), Operation("posterize", 4), Operation("solarize", 240)),
            (
                Operation("translate_y", -0.02184135323957604),
                Operation("translate_y", 0.03040379082855286),
                Operation("rotate", 2),
            ),
            (Operation("autocontrast"), Operation("rotate", -1), Operation("solarize", 239)),
        ),
    ),
)


def test_the_clean_view_has_the_published_pixels(golden):
    for index, expected in enumerate(golden["base"]):
        assert torch.equal(levels(source(index), CLEAN)[0, :, ::4, ::4], expected)


def test_random_crops_have_the_published_pixels(golden):
    rendered = levels(source(0), CLEAN, *PUBLISHED_CROPS)
    assert torch.equal(rendered[..., ::4, ::4], golden["plain.seed0"])


def test_augmix_views_have_the_published_pixels(golden):
    views = [
        View(crop.box, crop.flip, mix)
        for crop, mix in zip(PUBLISHED_CROPS[:2], PUBLISHED_MIXES, strict=True)
    ]
    rendered = render_views(source(0), views, Preprocessing())[..., ::4, ::4]
    assert torch.allclose(rendered, golden["augmix.seed0"], atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", AMOUNTS)
def test_each_operation_has_the_published_pixels(golden, name):
    legacy = np.random.RandomState(5)
    level, coin = legacy.uniform(0.1, 1), legacy.uniform()
    crop = Image.fromarray(golden["op_input"].permute(1, 2, 0).numpy())
    moved = apply_operation(crop, operation_at(name, -level if coin > 0.5 else level))
    assert torch.equal(planes(moved)[:, ::4, ::4], golden[f"op.{name}"])


# --- parity with torchvision on any picture


@law
@given(st.integers(5, 300), st.integers(5, 300), st.integers(4, 48), st.booleans())
def test_the_clean_view_is_torchvisions(width, height, size, bilinear):
    mode = InterpolationMode.BILINEAR if bilinear else InterpolationMode.BICUBIC
    image = noise(width, height)
    expected = reference.center_crop(reference.resize(image, [size], mode), [size, size])
    found = levels(image, CLEAN, size=size, interpolation=mode.value)[0]
    assert torch.equal(found, planes(expected))


@pytest.mark.parametrize("size", [(6, 900), (900, 6), (3, 200)])
def test_the_center_of_a_very_long_picture_is_torchvisions(size):
    image = source(0).resize(size)
    whole = reference.resize(image, [32], InterpolationMode.BICUBIC)
    expected = planes(reference.center_crop(whole, [32, 32])).float()
    away = (levels(image, CLEAN, size=32)[0].float() - expected).abs()
    assert away.mean() < 0.5


@law
@given(st.integers(1, 300), st.integers(1, 300), st.integers(4, 48))
def test_squash_resizes_both_sides(width, height, size):
    image = noise(width, height)
    expected = reference.resize(image, [size, size], InterpolationMode.BICUBIC)
    assert torch.equal(levels(image, CLEAN, size=size, resize="squash")[0], planes(expected))


@law
@given(st.integers(1, 200), st.integers(1, 200), names)
def test_random_views_are_torchvisions_resized_crops(width, height, image_id):
    image = noise(width, height)
    view = sample_views(ViewSettings(2), image_id, width, height)[1]
    box = (view.box.top, view.box.left, view.box.height, view.box.width)
    expected = reference.resized_crop(image, *box, [32, 32], InterpolationMode.BILINEAR)
    expected = reference.hflip(expected) if view.flip else expected
    assert torch.equal(levels(image, view, size=32)[0], planes(expected))


@law
@given(st.integers(1, 90), st.integers(-20, 20), st.sampled_from("xy"))
def test_a_translation_is_the_affine_map_of_the_published_code(size, shift, axis):
    image = noise(size, size)
    matrix = (1, 0, shift, 0, 1, 0) if axis == "x" else (1, 0, 0, 0, 1, shift)
    expected = image.transform(image.size, Image.Transform.AFFINE, matrix, Image.BILINEAR)
    share = math.copysign(abs(shift) + 0.5, shift) / size
    found = apply_operation(image, Operation(f"translate_{axis}", share))
    assert torch.equal(planes(found), planes(expected))


@law
@given(st.integers(0, 10**6))
def test_mixing_before_normalizing_is_the_published_order(seed):
    view = sample_views(ViewSettings(2, augmix=True, seed=seed), "mix", 40, 40)[1]
    image, preprocessing = noise(40, 40, seed), Preprocessing(32)
    crop = levels(image, View(view.box, view.flip), size=32)[0].permute(1, 2, 0)
    layers = [Image.fromarray(crop.numpy())]
    for chain in view.mix.chains:
        moved = layers[0]
        for operation in chain:
            moved = apply_operation(moved, operation)
        layers.append(moved)
    plain, *moved = (preprocessing.normalize(planes(layer)) for layer in layers)
    mixed = sum(weight * layer for weight, layer in zip(view.mix.weights, moved, strict=True))
    expected = view.mix.plain * plain + (1 - view.mix.plain) * mixed
    assert torch.allclose(render_views(image, [view], preprocessing)[0], expected, atol=5e-6)


# --- where the randomness comes from


@law
@given(st.integers(), names, sides, sides, st.integers(1, 20), st.booleans())
def test_fewer_views_are_the_first_of_more(seed, image_id, width, height, count, augmix):
    few = sample_views(ViewSettings(count, augmix, seed), image_id, width, height)
    many = sample_views(ViewSettings(20, augmix, seed), image_id, width, height)
    assert few == many[:count]
    assert few[0] == CLEAN


@law
@given(st.integers(), names, sides, sides)
def test_augmix_keeps_the_crops(seed, image_id, width, height):
    plain = sample_views(ViewSettings(8, False, seed), image_id, width, height)
    mixed = sample_views(ViewSettings(8, True, seed), image_id, width, height)
    assert [(v.box, v.flip) for v in plain] == [(v.box, v.flip) for v in mixed]
    assert all(view.mix is None for view in plain)
    assert all(view.mix is not None for view in mixed[1:])


def test_every_seed_and_every_image_has_its_own_views():
    keys = [(seed, name) for seed in (0, 1, -1, 11) for name in ("", "1", "a", "b", "a/b", "1a")]
    drawn = [sample_views(ViewSettings(3, True, s), name, 500, 375)[1:] for s, name in keys]
    assert len({tuple((v.box, v.flip) for v in views) for views in drawn}) == len(keys)
    assert len({tuple(v.mix for v in views) for views in drawn}) == len(keys)


def test_global_generators_neither_matter_nor_move():
    before, state = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = sample_views(ViewSettings(augmix=True), "cat", 500, 375)
    assert torch.equal(before, torch.get_rng_state())
    assert (state == np.random.get_state()[1]).all()
    assert sample_views(ViewSettings(augmix=True), "cat", 500, 375) == first


def test_file_names_that_are_not_unicode_have_views():
    assert len(sample_views(ViewSettings(2), "caf\udce9.jpg", 9, 9)) == 2


def test_drawn_numbers_stay_what_they_were():
    """Features that someone stored depend on them."""
    _, first, second = sample_views(ViewSettings(3, augmix=True), "cat.jpg", 500, 375)
    assert (first.box, first.flip) == (Box(32, 28, 215, 179), True)
    assert (second.box, second.flip) == (Box(55, 76, 266, 225), True)
    assert first.mix.plain == pytest.approx(0.2693761409901358)
    assert first.mix.weights[0] == pytest.approx(0.15531361662871204)
    assert [[operation.name for operation in chain] for chain in first.mix.chains] == [
        ["translate_x", "translate_y"],
        ["autocontrast"],
        ["equalize", "shear_y"],
    ]


# --- how the parameters are distributed


@law
@given(names, sides, sides)
def test_crops_lie_inside_the_picture(image_id, width, height):
    for view in sample_views(ViewSettings(12), image_id, width, height)[1:]:
        box = view.box
        assert box.height >= 1
        assert box.width >= 1
        assert 0 <= box.top <= height - box.height
        assert 0 <= box.left <= width - box.width


@pytest.mark.parametrize(("width", "height"), [(500, 375), (260, 700), (900, 250)])
def test_crops_are_distributed_as_torchvisions(width, height):
    drawn = sample_views(ViewSettings(2001), "distribution", width, height)[1:]
    ours = np.array([(v.box.top, v.box.left, v.box.height, v.box.width) for v in drawn])
    image = torch.empty(3, height, width)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = [RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in drawn]
    theirs = np.array(draws)
    for quantity in (
        lambda b: b[:, 2] * b[:, 3],
        lambda b: b[:, 3] / b[:, 2],
        *map(_column, (0, 1)),
    ):
        assert ks_2samp(quantity(ours), quantity(theirs)).pvalue > 0.01


def _column(index: int):
    return lambda boxes: boxes[:, index]


@pytest.mark.parametrize(("width", "height"), [(1, 3000), (3000, 1), (17, 900), (901, 33)])
def test_pictures_that_no_crop_fits_fall_back_as_torchvisions(width, height):
    expected = RandomResizedCrop.get_params(
        torch.empty(3, height, width), (0.9, 1.0), (3 / 4, 4 / 3)
    )
    box = sample_views(ViewSettings(2), "long", width, height)[1].box
    assert (box.top, box.left, box.height, box.width) == expected


def test_half_of_the_crops_are_mirrored():
    flips = sum(v.flip for v in sample_views(ViewSettings(4001), "flips", 500, 375)[1:])
    assert abs(flips - 2000) < 130  # four standard deviations


def test_augmix_follows_its_distributions():
    mixes = [v.mix for v in sample_views(ViewSettings(2001, True), "augmix", 50, 50)[1:]]
    chains = [chain for mix in mixes for chain in mix.chains]
    operations = Counter(operation.name for chain in chains for operation in chain)
    assert set(operations) == set(AMOUNTS)
    assert chisquare(list(operations.values())).pvalue > 0.01
    assert chisquare(list(Counter(map(len, chains)).values())).pvalue > 0.01
    assert kstest([mix.plain for mix in mixes], "uniform").pvalue > 0.01
    # one coordinate of a flat Dirichlet over three is Beta(1, 2)
    assert kstest([mix.weights[0] for mix in mixes], "beta", args=(1, 2)).pvalue > 0.01
    assert all(sum(mix.shares) == pytest.approx(1) for mix in mixes)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("posterize", 4, 4),
        ("rotate", -2, 2),
        ("solarize", 231, 254),
        ("shear_x", -0.03, 0.03),
        ("shear_y", -0.03, 0.03),
        ("translate_x", -1 / 30, 1 / 30),
        ("translate_y", -1 / 30, 1 / 30),
    ],
)
def test_amounts_reach_the_ends_of_severity_one(name, low, high):
    views = sample_views(ViewSettings(801, True), "amounts", 50, 50)[1:]
    amounts = [o.amount for v in views for chain in v.mix.chains for o in chain if o.name == name]
    margin = 0.02 * (high - low)
    assert low <= min(amounts) <= low + margin
    assert high - margin <= max(amounts) <= high


# --- rendering


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (2, 3), (640, 480)])
@pytest.mark.parametrize("augmix", [False, True])
def test_every_shape_of_picture_renders(size, augmix):
    image = noise(*size)
    before = image.tobytes()
    pixels = views_of(image, "shape", ViewSettings(3, augmix), Preprocessing(64))
    assert pixels.shape == (3, 3, 64, 64)
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    assert pixels.isfinite().all()
    assert image.tobytes() == before


def test_a_long_picture_is_never_blown_up(monkeypatch):
    asked = []
    resize = Image.Image.resize

    def spy(image, size, *rest, **named):
        asked.append(size)
        return resize(image, size, *rest, **named)

    monkeypatch.setattr(Image.Image, "resize", spy)
    views_of(noise(3000, 2), "long", ViewSettings(4), Preprocessing(64))
    assert max(max(size) for size in asked) <= 64 * 64


def test_a_view_does_not_depend_on_its_company():
    image = source(1)
    views = sample_views(ViewSettings(5, augmix=True), "company", *image.size)
    together = render_views(image, views, Preprocessing(64))
    alone = [render_views(image, [view], Preprocessing(64))[0] for view in views]
    assert torch.equal(together, torch.stack(alone))


def test_no_view_is_no_settings():
    with pytest.raises(TammesError, match="count ≥ 1"):
        ViewSettings(count=0)


# --- preprocessing


def test_normalization_is_torchvisions():
    pixels = torch.arange(3 * 256, dtype=torch.int32).remainder(256).to(torch.uint8).view(3, 16, 16)
    before = pixels.clone()
    expected = reference.normalize(pixels / 255, list(CLIP_MEAN), list(CLIP_STD))
    assert torch.allclose(Preprocessing().normalize(pixels), expected, atol=1e-6)
    assert torch.allclose(Preprocessing().normalize(pixels / 255), expected, atol=1e-6)
    assert torch.equal(pixels, before)


def test_normalization_keeps_batches_and_half_precision():
    pixels = torch.rand(2, 5, 3, 4, 4, dtype=torch.float64).half()
    assert Preprocessing().normalize(pixels).dtype == torch.float16
    assert Preprocessing().normalize(pixels).shape == pixels.shape


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"std": (1.0, 0.0, 1.0)}, {"interpolation": "lanczos"}, {"resize": "longest"}],
    ids=str,
)
def test_impossible_preprocessing_is_refused(wrong):
    with pytest.raises(TammesError):
        Preprocessing(**wrong)
