"""The renderer on tensors against the one on Pillow: per pass, per operation and end to end.

Differences are counted in levels of 255. What is allowed here is what was measured, with some room.
"""

from __future__ import annotations

import io
from functools import reduce
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn.functional import normalize

from tammes import load_backbone
from tammes.backbones.random import random_backbone
from tammes.errors import ImageError
from tammes.images import _nvjpeg, _plain_jpeg, decode, open_image
from tammes.preprocessing import Preprocessing
from tammes.views import (
    Mix,
    Operation,
    View,
    ViewSettings,
    render_batch,
    render_tensor,
    render_views,
    sample_views,
    tensor,
)
from tammes.views.operations import AMOUNTS, apply_operation, operation_at
from tammes.views.tensor_operations import apply_chains, blend

POCKET = Path(__file__).parents[1] / "src" / "tammes" / "assets" / "pocket"
MOVING = {"rotate", "shear_x", "shear_y"}  # the only operations with fractions of a level

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
half = pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("cpu", torch.float32),
        ("cpu", torch.float16),
        pytest.param("cuda", torch.float32, marks=pytest.mark.gpu),
        pytest.param("cuda", torch.float16, marks=pytest.mark.gpu),
    ],
    ids=str,
)
law = settings(derandomize=True, deadline=None, max_examples=25)
sides = st.integers(1, 3000)


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """Noise at every scale, the finer the fainter, as in photographs."""
    rng, total = np.random.default_rng(seed), np.full((height, width, 3), 128.0)
    for side in (2, 5, 12, 30, 75, 190):
        coarse = Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        total += (np.asarray(coarse.resize((width, height), 3)) - 128.0) * 1.2 / side**0.35
    return Image.fromarray(total.clip(0, 255).astype(np.uint8))


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))


def planes(image: Image.Image, device: str = "cpu") -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).to(device)


def levels(size: int = 224, **rules: str) -> Preprocessing:
    """Normalize to 0 … 255."""
    return Preprocessing(size, (0, 0, 0), (1 / 255,) * 3, **rules)  # type: ignore[arg-type]


def away(
    image: Image.Image, views: tuple[View, ...], preprocessing: Preprocessing, device: str = "cpu"
) -> torch.Tensor:
    """How many levels each value is away from Pillow's, in our order of passes."""
    found = render_tensor(planes(image, device), views, preprocessing)
    with patch.object(Image.Image, "resize", columns_first):
        return (found.cpu() - render_views(image, views, preprocessing)).abs()


def columns_first(image, size, resample, box=None, resize=Image.Image.resize) -> Image.Image:
    """Pillow 13 resizes rows first where that saves time; the versions before never did."""
    left, top, right, bottom = box or (0, 0, *image.size)
    narrow = resize(image, (size[0], image.height), resample, (left, 0, right, image.height))
    return resize(narrow, size, resample, (0, top, size[0], bottom))


def saved(image: Image.Image, form: str = "JPEG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


# --- crops and the clean view


@devices
@law
@given(sides, sides, st.booleans(), st.sampled_from(["shortest", "squash"]))
@example(1, 1, True, "shortest")
@example(1, 3000, False, "shortest")
@example(3000, 1, False, "squash")
@example(3000, 2999, True, "shortest")
def test_crops_of_any_picture_are_pillows(device, width, height, bilinear, resize):
    """A flipped last bit is one level (the cubic filter overshoots: two).

    Where the sides make fractions tie, up to a quarter of noise may be one level off.
    """
    rules = {"resize": resize, "interpolation": "bilinear" if bilinear else "bicubic"}
    views = (*sample_views(ViewSettings(4), "any", width, height), View(flip=True))
    found = away(noise(width, height), views, levels(32, **rules), device)
    assert found.max() <= 1 + (not bilinear)
    assert found.mean() <= 0.3


@devices
def test_crops_of_a_photo_are_pillows(device):
    """Measured: 0.002 levels."""
    views = sample_views(ViewSettings(24), "photo", 500, 375)
    found = away(photo(500, 375), views, levels(), device)
    assert found.max() <= 1
    assert found.mean() < 0.01


@devices
@pytest.mark.parametrize("size", [(40, 30), (16, 50), (7, 7), (1, 1)])
def test_enlarging_is_exact(device, size):
    views = sample_views(ViewSettings(6), "small", *size)
    assert away(noise(*size), views, levels(64), device).max() <= 1
    assert away(noise(*size), views, levels(64), device).mean() < 2e-3


@devices
def test_a_flat_picture_stays_flat(device):
    for shade in (0, 1, 127, 254, 255):
        image = Image.new("RGB", (333, 517), (shade, shade, shade))
        views = sample_views(ViewSettings(12), "flat", *image.size)
        assert away(image, views, levels(), device).max() < 1e-3


# --- operations


@devices
@pytest.mark.parametrize("name", AMOUNTS)
@law
@given(
    size=st.sampled_from([1, 2, 16, 37, 64]),
    steps=st.lists(st.floats(0.1, 10) | st.floats(-10, -0.1) | st.just(0.0), min_size=1),
)
def test_each_operation_is_pillows(device, name, size, steps):
    """The same amounts on the same crops; a truncated fraction may fall to the next level."""
    kinds = [photo(size, size, 1), noise(size, size), Image.new("RGB", (size, size), (0, 9, 255))]
    crops = [kinds[k % 3] for k in range(len(steps))]
    chosen = [operation_at(name, step) for step in steps]
    if name == "posterize":  # Pillow has no zero bits
        chosen = [o if o.amount else Operation(name, 1.0) for o in chosen]
    pixels = torch.stack([planes(crop, device) for crop in crops])
    found = apply_chains(pixels, [(operation,) for operation in chosen]).cpu().int()
    pairs = zip(crops, chosen, strict=True)
    difference = (found - torch.stack([planes(apply_operation(*p)) for p in pairs])).abs()
    assert difference.max() <= (name in MOVING)
    assert difference.float().mean() <= (0.01 if name in MOVING else 0)


@devices
def test_chains_of_different_lengths_are_pillows(device):
    views = sample_views(ViewSettings(40, augmix=True), "chains", 64, 64)[1:]
    chains = [chain for view in views for chain in view.mix.chains]
    crops = [photo(64, 64, seed) for seed in range(len(chains))]
    found = apply_chains(torch.stack([planes(c, device) for c in crops]), chains).cpu().int()
    pairs = zip(chains, crops, strict=True)
    expected = [reduce(apply_operation, chain, crop) for chain, crop in pairs]
    difference = (found - torch.stack([planes(image) for image in expected])).abs().float()
    assert difference.mean() < 0.002
    assert (difference > 1).float().mean() < 1e-4


@devices
def test_mixes_may_have_any_number_of_chains(device):
    crop, turn = photo(32, 32), (Operation("rotate", 20.0), Operation("solarize", 100.0))
    mixes = [
        Mix(0.25, (0.5, 0.5), ((), turn)),
        None,
        Mix(0.5, (0.2, 0.3, 0.5), (turn, turn[:1], turn[1:])),
        Mix(1.0, (), ()),
    ]
    pixels = planes(crop, device)
    found = blend(pixels.expand(4, 3, 32, 32).contiguous(), mixes).cpu()
    layer = {
        chain: planes(reduce(apply_operation, chain, crop)) / 255
        for chain in (turn[:1], turn, turn[1:])
    }
    plain = planes(crop) / 255
    expected = [
        0.25 * plain + 0.375 * (plain + layer[turn]),
        plain,
        0.5 * plain + 0.1 * layer[turn] + 0.15 * layer[turn[:1]] + 0.25 * layer[turn[1:]],
        plain,
    ]
    assert torch.allclose(found, torch.stack(expected), atol=1.1 / 255)
    assert (found - torch.stack(expected)).abs().mean() < 1e-5


# --- end to end


@half
@pytest.mark.parametrize("augmix", [False, True])
def test_views_are_pillows(device, dtype, augmix):
    """Measured, in levels: plain 0.002 (half precision: 0.03), AugMix 0.004 (0.03).

    AugMix turns one level at a threshold into many, rarely: 99.9 % are less than two away.
    """
    image, preprocessing = photo(500, 375), Preprocessing()
    views = sample_views(ViewSettings(16, augmix), "end", *image.size)
    found = render_tensor(planes(image, device), views, preprocessing, dtype)
    assert found.dtype == dtype
    assert found.shape == (16, 3, 224, 224)
    assert found.is_contiguous()
    std = torch.tensor(preprocessing.std).view(3, 1, 1) * 255
    difference = (found.cpu().float() - render_views(image, views, preprocessing)).abs() * std
    assert difference.mean() < (0.02 if dtype == torch.float32 else 0.12)
    assert (difference > 2).float().mean() < 1e-3


def unit_features(backbone, pixels: torch.Tensor) -> torch.Tensor:
    return normalize(backbone.encode_image(pixels.to(backbone.dtype)).float(), dim=-1).cpu()


@half
@pytest.mark.parametrize("augmix", [False, True])
@pytest.mark.parametrize("model", ["random", "pocket"])
def test_features_are_those_of_pillows_views(device, dtype, augmix, model):
    """The cosine is ≥ 0.999, and views differ from each other a hundred times as much."""
    if model == "pocket" and not (POCKET / "model.safetensors").exists():
        pytest.skip("the pocket model is not in this checkout")
    backbone = load_backbone("pocket", "cpu") if model == "pocket" else random_backbone()
    image, preprocessing = photo(500, 375, 2), backbone.preprocessing
    views = sample_views(ViewSettings(12, augmix), "features", *image.size)
    ours = unit_features(
        backbone, render_tensor(planes(image, device), views, preprocessing, dtype).cpu().float()
    )
    pillows = unit_features(backbone, render_views(image, views, preprocessing))
    apart = (1 - pillows @ pillows.T)[~torch.eye(12, dtype=torch.bool)].median()
    cosine = (ours * pillows).sum(dim=1)
    assert cosine.min() >= 0.999
    assert 1 - cosine.mean() < apart / 100


# --- batches


@devices
def test_a_picture_does_not_depend_on_its_company(device):
    sizes = [(120, 80), (1, 1), (50, 400), (300, 300), (3, 900)]
    pictures = [planes(noise(*size), device) for size in sizes]
    settings = [ViewSettings(count, augmix=count != 3) for count in (5, 1, 3, 8, 2)]
    views = [sample_views(s, "batch", *size) for s, size in zip(settings, sizes, strict=True)]
    together = render_batch(pictures, views, Preprocessing(48))
    pairs = zip(pictures, views, strict=True)
    alone = torch.cat([render_tensor(*pair, Preprocessing(48)) for pair in pairs])
    assert together.shape == (19, 3, 48, 48)
    assert (together - alone).abs().mean() < 1e-4  # other shapes may round otherwise


def test_little_memory_changes_nothing(monkeypatch):
    sizes = [(120, 80), (300, 300), (3, 900), (640, 480)]
    pictures = [planes(noise(*size)) for size in sizes]
    views = [sample_views(ViewSettings(9, True), "memory", *size) for size in sizes]
    expected = render_batch(pictures, views, Preprocessing(32))
    groups = []
    crops = tensor._crops
    monkeypatch.setattr(
        tensor, "_crops", lambda group, *rest: groups.append(group) or crops(group, *rest)
    )
    for name, value in (("GROUP", 7), ("WEIGHTS", 3000), ("PIECE", 1)):
        groups.clear()
        monkeypatch.setattr(tensor, name, value)
        found = render_batch(pictures, views, Preprocessing(32))
        assert (found - expected).abs().mean() < 1e-4
        assert len(groups) > 4
    assert max(len(piece.views) for group in groups for piece in group) == 1


def test_only_the_needed_part_of_a_very_long_picture_is_read():
    pixels = torch.zeros(1, dtype=torch.uint8).expand(3, 1, 80_000_000)
    views = sample_views(ViewSettings(3), "long", 80_000_000, 1)
    assert render_tensor(pixels, views, levels(16)).abs().max() == 0


def test_no_picture_has_no_views():
    assert render_batch([], [], Preprocessing(16)).shape == (0, 3, 16, 16)


# --- decoding


def tilted(image: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(image, exif=exif)


def sources(folder: Path) -> dict[str, object]:
    image = photo(80, 60)
    plain = saved(image, quality=95)
    (folder / "plain.jpg").write_bytes(plain)
    (folder / "empty.jpg").touch()
    return {
        "bytes": plain,
        "path": folder / "plain.jpg",
        "full chroma": saved(image, quality=95, subsampling=0),
        "tilted": tilted(image),
        "progressive": saved(image, progressive=True),
        "gray": saved(image.convert("L")),
        "cmyk": saved(image.convert("CMYK")),
        "rgb": saved(image, keep_rgb=True),
        "png": saved(image, "PNG"),
        "webp": saved(image, "WEBP"),
        "picture": image,
        "array": np.asarray(image),
        "cut off": plain[: len(plain) // 2],
        "no jpeg": b"\xff\xd8 nothing of the kind \xff\xd9",
        "empty": folder / "empty.jpg",
        "absent": folder / "absent.jpg",
    }


BAD = {"cut off", "no jpeg", "empty", "absent"}


@devices
def test_decoding_is_opening(tmp_path, device):
    """All at once, the bad among the good; nvJPEG may be some levels away, at edges of color."""
    files = sources(tmp_path)
    for (name, source), found in zip(files.items(), decode([*files.values()], device), strict=True):
        if name in BAD:
            with pytest.raises(ImageError) as problem:
                open_image(source)
            assert isinstance(found, ImageError)
            assert str(found) == str(problem.value)
            continue
        expected = planes(open_image(source))
        assert found.device.type == device
        assert found.dtype == torch.uint8
        assert found.is_contiguous()
        assert found.shape == expected.shape, name
        exact = device == "cpu" or name not in ("bytes", "path", "full chroma")
        difference = (found.cpu().int() - expected.int()).abs()
        assert difference.max() <= (0 if exact else 40), name
        assert difference.float().mean() <= (0 if exact else 2), name


def test_pictures_that_are_too_large_are_refused():
    found = decode([photo(30, 20), photo(30, 30)], max_pixels=600)
    assert isinstance(found[0], torch.Tensor)
    assert "larger than 600" in str(found[1])


def test_the_devices_decoder_gets_ordinary_whole_files_only(tmp_path):
    plain = {
        name for name, file in sources(tmp_path).items() if _plain_jpeg(file, 10**6) is not None
    }
    assert plain == {"bytes", "path", "full chroma"}
    assert _plain_jpeg(saved(photo(80, 60)), max_pixels=100) is None


def test_one_file_that_the_devices_decoder_refuses_fails_alone():
    """torchvision's decoder on the CPU stands in for nvJPEG: it too gives up a whole batch."""
    good = torch.from_numpy(np.frombuffer(saved(photo(80, 60)), np.uint8).copy())
    bad = torch.zeros(100, dtype=torch.uint8)
    found = _nvjpeg([good, good, bad, good, bad], torch.device("cpu"))
    assert [None if pixels is None else pixels.shape for pixels in found] == [
        *[(3, 60, 80)] * 2, None, (3, 60, 80), None,
    ]  # fmt: skip
