"""The feature store: same features whatever the workers, the batch or the resume point."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.nn.functional import normalize

import tammes.storage
from tammes import Backbone
from tammes.datasets import Dataset, load_dataset
from tammes.encoder import ImageEncoder
from tammes.errors import StoreError, UnknownName
from tammes.features import FeatureStore, encode_missing
from tammes.images import open_image
from tammes.storage import PARTIAL, digest, slug, sweep_partial, write_atomically
from tammes.threads import ahead
from tammes.views import ViewSettings, device_renders, views_of

SETTINGS = ViewSettings(count=4, augmix=True, seed=3)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Eleven images of three classes; one is no image and one is truncated."""
    root, draw = tmp_path / "set", np.random.default_rng(0)
    for i in range(11):
        folder = root / "abc"[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 255, (20 + i, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.jpg")
    (root / "a" / "3.jpg").write_text("I am no image")
    whole = (root / "b" / "4.jpg").read_bytes()
    (root / "b" / "4.jpg").write_bytes(whole[: len(whole) // 2])
    return load_dataset(root)


def filled(root: Path, dataset: Dataset, backbone: Backbone, **options: Any) -> FeatureStore:
    store = FeatureStore(root, dataset, backbone, SETTINGS, block=4)
    encode_missing(store, backbone, **options)
    return store


def contents(store: FeatureStore) -> list[bytes]:
    return [store.path(i).read_bytes() for i in range(len(store))]


def test_features_are_those_of_the_views(tmp_path: Path, dataset: Dataset, tiny: Backbone):
    store = filled(tmp_path / "out", dataset, tiny)
    found, skipped = {}, {}
    for index in range(len(store)):
        block = store.read(index)
        found |= dict(zip([i.id for i in block.items], block.features, strict=True))
        skipped |= block.skipped
    assert set(skipped) == {"a/3.jpg", "b/4.jpg"}
    assert "not an image" in skipped["a/3.jpg"]
    assert [*found] == [i.id for i in dataset.items if i.id not in skipped]
    for item in dataset.items:
        if item.id in found:
            views = views_of(open_image(item.open()), item.id, SETTINGS, tiny.preprocessing)
            expected = normalize(tiny.encode_image(views), dim=-1)
            torch.testing.assert_close(found[item.id], expected, atol=6e-4, rtol=0)
            assert found[item.id].norm(dim=-1).sub(1).abs().max() < 1e-3


@pytest.mark.parametrize("renderer", ["pillow", "device"])
def test_what_shares_a_pass_lies_in_one_block(
    tmp_path: Path, dataset: Dataset, tiny: Backbone, monkeypatch: pytest.MonkeyPatch, renderer: str
):
    """Else a run that resumes at another block would round otherwise than one in a single go."""
    monkeypatch.setenv("TAMMES_VIEWS", renderer)
    passes: list[int] = []
    encode = ImageEncoder.__call__

    def watched(self: ImageEncoder, rendered: Any) -> Any:
        passes.append(len(rendered))
        return encode(self, rendered)

    monkeypatch.setattr(ImageEncoder, "__call__", watched)
    store = filled(tmp_path / "out", dataset, tiny, batch=3 * SETTINGS.count, workers=1)
    assert passes == [3, 1, 3, 1, 3]
    passes.clear()
    store.path(1).unlink()
    encode_missing(store, tiny, batch=3 * SETTINGS.count, workers=1)
    assert passes == [3, 1]


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 5}, {"workers": 2, "batch": 16}])
def test_workers_do_not_change_a_byte(tmp_path: Path, dataset: Dataset, tiny: Backbone, options):
    first = filled(tmp_path / "a", dataset, tiny, workers=3, batch=16)
    again = filled(tmp_path / "b", dataset, tiny, **{"batch": 16, **options})
    assert contents(first) == contents(again)


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
def test_the_batch_changes_nothing_beyond_rounding(
    tmp_path: Path, dataset: Dataset, tiny: Backbone, batch: int
):
    first, again = (
        filled(tmp_path / name, dataset, tiny, batch=size)
        for name, size in (("a", 8), ("b", batch))
    )
    for i in range(len(first)):
        one, other = first.read(i), again.read(i)
        torch.testing.assert_close(one.features, other.features, atol=5e-4, rtol=0)
        assert one.skipped == other.skipped


def test_only_what_is_missing_truncated_or_foreign_is_made_again(
    tmp_path: Path, dataset: Dataset, tiny: Backbone
):
    store = filled(tmp_path, dataset, tiny)
    before = contents(store)
    assert store.missing() == []
    store.path(0).write_bytes(before[0][:-20])
    store.path(1).write_bytes(before[2])
    stamp = store.path(2).stat().st_mtime_ns
    assert store.missing() == [0, 1]
    calls: list[tuple[int, int, str]] = []
    encode_missing(store, tiny, progress=lambda *told: calls.append(told))
    assert contents(store) == before
    assert store.path(2).stat().st_mtime_ns == stamp
    assert calls[0][0] > 3  # what was there counts as done
    assert calls[-1] == (11, 11, "encode")
    assert [done for done, _, _ in calls] == sorted(done for done, _, _ in calls)


def test_damage_within_a_shard_is_found_when_it_is_read(
    tmp_path: Path, dataset: Dataset, tiny: Backbone
):
    store = filled(tmp_path, dataset, tiny)
    raw = bytearray(store.path(0).read_bytes())
    middle = len(raw) // 4
    raw[middle : middle + 8] = b"\0" * 8
    store.path(0).write_bytes(raw)
    with pytest.raises(StoreError, match=r"00000\.parquet is damaged.*Delete it"):
        store.read(0)


def test_whatever_features_depend_on_names_another_folder(
    tmp_path: Path, dataset: Dataset, tiny: Backbone
):
    def folder(data: Dataset = dataset, settings: ViewSettings = SETTINGS, block: int = 4) -> Path:
        return FeatureStore(tmp_path, data, tiny, settings, block).folder

    kinds = {
        folder(),
        folder(settings=replace(SETTINGS, seed=4)),
        folder(settings=replace(SETTINGS, count=5)),
        folder(settings=replace(SETTINGS, augmix=False)),
        folder(dataset.subset(6)),
        folder(block=5),
    }
    assert len(kinds) == 6
    relabeled = replace(dataset, classnames=("x", "y", "z"))
    assert folder(relabeled) == folder()  # what the classes are called changes no pixel
    Image.new("RGB", (8, 8)).save(dataset.root / "a" / "0.jpg")
    assert folder(load_dataset(dataset.root)) not in kinds


def test_a_block_without_a_readable_image_is_kept_as_such(tmp_path: Path, tiny: Backbone):
    root = tmp_path / "set"
    (root / "a").mkdir(parents=True)
    for i in range(3):
        (root / "a" / f"{i}.jpg").write_text("no image")
    store = filled(tmp_path / "out", load_dataset(root), tiny)
    block = store.read(0)
    assert (len(block.items), len(block.features), len(block.skipped)) == (0, 0, 3)
    assert store.missing() == []


def test_features_that_overflow_are_a_reason(
    tmp_path: Path, dataset: Dataset, tiny: Backbone, monkeypatch: pytest.MonkeyPatch
):
    def overflow(pixels: torch.Tensor) -> torch.Tensor:
        return torch.full((len(pixels), tiny.dim), float("inf"))

    monkeypatch.setattr(tiny, "encode_image", overflow)
    store = filled(tmp_path, dataset, tiny)
    assert len(store.read(0).items) == 0
    assert "not finite" in store.read(0).skipped["a/0.jpg"]


def test_a_device_renders_the_same_views_to_a_store_of_its_own(
    tmp_path: Path, dataset: Dataset, tiny: Backbone, monkeypatch: pytest.MonkeyPatch
):
    by_pillow = filled(tmp_path, dataset, tiny)
    monkeypatch.setenv("TAMMES_VIEWS", "device")
    by_device = filled(tmp_path, dataset, tiny, workers=3)
    assert by_device.identity == {**by_pillow.identity, "rendered": "device"}
    assert by_device.folder != by_pillow.folder
    for i in range(len(by_pillow)):
        one, other = by_pillow.read(i), by_device.read(i)
        assert one.skipped == other.skipped
        torch.testing.assert_close(one.features, other.features, atol=2e-3, rtol=0)
    monkeypatch.setenv("TAMMES_VIEWS", "gpu")
    with pytest.raises(UnknownName, match="renderer in TAMMES_VIEWS 'gpu'"):
        filled(tmp_path, dataset, tiny)


def test_pillow_renders_what_a_device_has_no_room_for(
    tmp_path: Path,
    dataset: Dataset,
    tiny: Backbone,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    expected = filled(tmp_path, dataset, tiny)
    monkeypatch.setenv("TAMMES_VIEWS", "device")
    monkeypatch.setattr("tammes.views.ahead.render_batch", full)
    found = filled(tmp_path, dataset, tiny)
    assert "no room to render 11 pictures on cpu: Pillow renders them" in caplog.text
    for i in range(len(found)):
        torch.testing.assert_close(found.read(i).features, expected.read(i).features)


def test_only_cuda_renders_by_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TAMMES_VIEWS", raising=False)
    kinds = ("cpu", "mps", "cuda", "xpu")
    assert [device_renders(torch.device(kind)) for kind in kinds] == [False, False, True, False]
    monkeypatch.setenv("TAMMES_VIEWS", "pillow")
    assert not device_renders(torch.device("cuda"))


@given(count=st.integers(0, 12), workers=st.integers(1, 4), waiting=st.integers(0, 5))
def test_work_ahead_keeps_the_order_and_the_bound(count: int, workers: int, waiting: int):
    begun: list[int] = []

    def work(one: int) -> int:
        begun.append(one)
        return one

    taken = []
    for one in ahead(work, range(count), workers, waiting):
        taken.append(one)
        assert len(begun) <= len(taken) + waiting
    assert taken == list(range(count))


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(f".*{PARTIAL}")]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_disk_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
):
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    target = tmp_path / "deep" / "00000.parquet"
    write_atomically(target, b"old")
    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), fail)
    with pytest.raises(StoreError, match=rf"cannot write 00000\.parquet in .*{os.strerror(code)}"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, dataset: Dataset, tiny: Backbone):
    (tmp_path / "out").write_text("a file, not a folder")
    with pytest.raises(StoreError, match=r"cannot write 00000\.parquet in .*out.*another folder"):
        filled(tmp_path / "out", dataset, tiny)


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(
    tmp_path: Path, dataset: Dataset, tiny: Backbone, monkeypatch: pytest.MonkeyPatch
):
    written = []

    def fsync(_: int) -> None:
        written.append(1)
        if len(written) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    whole = contents(filled(tmp_path / "whole", dataset, tiny))
    monkeypatch.setattr(tammes.storage.os, "fsync", fsync)
    with pytest.raises(StoreError, match="No space left"):
        filled(tmp_path / "full", dataset, tiny)
    monkeypatch.undo()
    store = FeatureStore(tmp_path / "full", dataset, tiny, SETTINGS, block=4)
    assert store.missing() == [2]
    assert leftovers(tmp_path) == []
    assert contents(filled(tmp_path / "full", dataset, tiny)) == whole


def test_partial_files_are_swept_once_they_are_old(tmp_path: Path):
    young, old = tmp_path / f".a{PARTIAL}", tmp_path / f".b{PARTIAL}"
    for path in (young, old):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    sweep_partial(tmp_path)
    assert young.exists()
    assert not old.exists()


def test_names_and_digests():
    assert slug("hf-hub:org/ViT B") == "hf-hub-org-ViT-B"
    assert slug("…") == "unnamed"
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
