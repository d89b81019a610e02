"""The image encoder: how many views per pass, and what happens when memory runs out."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tammes.encoder
from tammes import Backbone
from tammes.backbones.random import random_backbone
from tammes.datasets import Item
from tammes.encoder import ImageEncoder, find_batch, views_per_pass
from tammes.errors import TammesError
from tammes.threads import single_threads
from tammes.views import ViewSettings, render_ahead

FULL = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "mps": RuntimeError("MPS backend out of memory (MPS allocated: 5 GB)"),
    "cpu": RuntimeError("[enforce fail at alloc_cpu.cpp] can't allocate memory: you tried 9 bytes"),
}


def on(kind: str) -> Any:
    """A model on a device that is not here."""
    return SimpleNamespace(device=torch.device(kind))


def limited(backbone: Backbone, most: int, problem: Exception, calls: list[int]) -> Any:
    """A model whose memory holds so many views."""

    def encode(pixels: torch.Tensor) -> torch.Tensor:
        calls.append(len(pixels))
        if len(pixels) > most:
            raise problem
        return backbone.encode_image(pixels)

    return SimpleNamespace(device=backbone.device, encode_image=encode)


@pytest.mark.parametrize("problem", FULL.values(), ids=FULL)
def test_without_memory_the_batch_is_halved_and_nothing_is_lost(
    tiny: Backbone, problem: Exception, caplog: pytest.LogCaptureFixture
):
    side, calls = tiny.preprocessing.size, list[int]()
    rendered: list[Any] = [torch.randn(7, 3, side, side), "no file", torch.randn(7, 3, side, side)]
    encode = ImageEncoder(limited(tiny, 3, problem, calls), 12)
    found, expected = encode(rendered), ImageEncoder(tiny, 3)(rendered)
    assert calls == [12, 6, 3, 3, 3, 3, 2]
    assert encode.batch == 3
    assert found[1] == "no file"
    for one, other in zip(found[::2], expected[::2], strict=True):
        assert isinstance(one, torch.Tensor)
        assert isinstance(other, torch.Tensor)
        torch.testing.assert_close(one, other)
    assert "out of memory with 12 views per pass" in caplog.text
    assert "--batch 3 starts there" in caplog.text
    encode(rendered)
    assert max(calls[7:]) == 3


def test_what_cannot_be_halved_and_other_errors_are_raised(tiny: Backbone):
    side = tiny.preprocessing.size
    rendered = [torch.randn(4, 3, side, side)]
    with pytest.raises(torch.OutOfMemoryError):
        ImageEncoder(limited(tiny, 0, FULL["cuda"], []), 4)(rendered)
    with pytest.raises(RuntimeError, match="wrong shape"):
        ImageEncoder(limited(tiny, 0, RuntimeError("wrong shape"), []), 4)(rendered)


def test_on_cuda_passes_shrink_past_the_sizes_they_are_filled_up_to(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    encode = ImageEncoder(on("cuda"))
    sizes = [encode.batch]
    while encode.batch > 1:
        encode._shrink(encode.batch)
        sizes.append(encode.batch)
    assert sizes == [512, 64, 8, 1]


def test_the_usual_batch_depends_on_the_device():
    kinds = ("cpu", "mps", "cuda")
    assert [views_per_pass(on(kind)) for kind in kinds] == [16, 16, 512]
    assert views_per_pass(on("cuda"), 7) == 7


@pytest.mark.parametrize("batch", [0, -3, 2.5, "16", "fast"])
def test_other_batches_are_refused(tiny: Backbone, batch: Any):
    with pytest.raises(TammesError, match=r"the batch is .*number of views above 0, or 'auto'"):
        ImageEncoder(tiny, batch)


Speeds = dict[int, float | Exception]
CPU: Speeds = {4: 200.0, 8: 310.0, 16: 356.0, 32: 360.0, 64: 245.0}


def tried(kind: str, speeds: Speeds) -> tuple[int, list[int]]:
    """Find a batch among measured speeds; say what was measured."""
    seen = []

    def speed(_: Any, batch: int) -> float:
        seen.append(batch)
        found = speeds[batch]
        if isinstance(found, Exception):
            raise found
        return found

    return find_batch(on(kind), speed), seen


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_the_smallest_size_that_is_about_the_fastest_wins(kind: str):
    assert tried(kind, CPU) == (16, [*CPU])
    assert tried(kind, {**CPU, 8: 190.0}) == (16, [*CPU])
    assert tried(kind, {**CPU, 64: 900.0}) == (64, [*CPU])
    assert tried(kind, {**CPU, 32: FULL[kind]}) == (16, [4, 8, 16, 32])


def test_a_slow_model_is_not_tried_for_minutes():
    assert tried("cpu", {4: 1.0}) == (16, [4])
    assert tried("cpu", {4: 3.0, 8: 3.5}) == (8, [4, 8])


def test_on_cuda_the_batch_doubles_while_that_pays():
    speeds: Speeds = {512: 2000.0, 1024: 2500.0, 2048: 2510.0}
    assert tried("cuda", speeds) == (1024, [512, 1024, 2048])
    assert tried("cuda", {512: 2000.0, 1024: FULL["cuda"]}) == (512, [512, 1024])
    assert tried("cuda", {512: FULL["cuda"]}) == (512, [512])  # then it is halved at work
    with pytest.raises(RuntimeError, match="broken"):
        tried("cuda", {512: RuntimeError("broken")})


def test_auto_is_measured_once_per_model_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    backbone, asked = random_backbone(), list[int]()

    def speed(_: Backbone, batch: int) -> Any:
        asked.append(batch)
        return CPU[batch]

    monkeypatch.setattr(tammes.encoder, "views_per_second", speed)
    with caplog.at_level(logging.INFO, "tammes"):
        assert [ImageEncoder(backbone, "auto").batch for _ in range(2)] == [16, 16]
    assert asked == [*CPU]
    assert caplog.messages == ["batch: 16 views per pass of the image encoder (356 views/s)"]


def test_random_pixels_are_timed_and_leave_the_random_numbers_alone():
    state = torch.random.get_rng_state()
    assert tammes.encoder.views_per_second(random_backbone(), 4) > 0
    assert torch.equal(torch.random.get_rng_state(), state)


def test_threads_that_encode_by_themselves_change_nothing(tiny, tmp_path):
    """On a CPU each thread renders and encodes; the answers are those of one pass after another."""
    noise = np.random.default_rng(0)
    for i in range(7):
        pixels = noise.integers(0, 255, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    pictures = [Item(f"{i}.png", 0, tmp_path / f"{i}.png") for i in range(7)]
    settings, threads = ViewSettings(5), torch.get_num_threads()
    for batch in (1, 5, 12):
        encode = ImageEncoder(tiny, batch)
        plain = encode(list(render_ahead(pictures, settings, tiny, 1)))
        found = list(encode.ahead(pictures, settings, 2))
        assert isinstance(found[3], str)
        for one, other in zip(found, plain, strict=True):
            if isinstance(other, str):
                assert one == other
            else:
                torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
        assert len(list(encode.ahead(pictures[:1], settings, 2))) == 1
    assert torch.get_num_threads() == threads


def test_single_threads_stay_single():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with single_threads(2) as pool:
        assert {pool.submit(torch.get_num_threads).result() for _ in range(8)} == {1}
        assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
