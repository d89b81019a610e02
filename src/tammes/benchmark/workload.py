"""What a benchmark works on: class names, features, photos and models that need no download."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from tammes.datasets import CATALOG

DISTINCT = 64  # photos that differ; more files repeat their bytes


def classnames(count: int) -> list[str]:
    """Real names of real lengths; past ImageNet's 1000, its names with a number."""
    names = list(CATALOG["imagenet" if count > 100 else "caltech101"].classnames)
    extra = [f"{names[i % 1000]} {i}" for i in range(1000, count)]
    return (names + extra)[:count]


def drawn_features(
    text: Float[Tensor, "n d"], scale: float, images: int, views: int, seed: int = 0
) -> Float[Tensor, "b v d"]:
    """Draw view features as real ones are: each image near one class, its views near each other.

    The lead of an image's class over the mean class is drawn evenly, from 0 to more than the best
    of the others can reach; noise of one logit per image and per view is added. So doubt and
    certainty both occur, as in real answers.
    """
    draw = torch.Generator().manual_seed(seed)
    rows = text.float().cpu()
    center = rows.mean(dim=0)
    offsets = rows - center
    length = offsets.square().sum(dim=-1, keepdim=True).clamp(min=1e-8)
    labels = torch.randint(len(rows), (images,), generator=draw)
    most = 5 + 10 * math.log10(len(rows))
    lead = most * torch.rand(images, 1, generator=draw) / scale
    near = center + lead * (offsets / length)[labels]
    one_logit = 1 / (scale * length.mean().sqrt())
    noise = torch.randn(images, 1 + views, rows.shape[1], generator=draw) * one_logit
    return normalize(near[:, None] + noise[:, :1] + noise[:, 1:], dim=-1)


def photo(seed: int, width: int = 500, height: int = 375) -> UInt8[np.ndarray, "h w 3"]:
    """Make a picture with detail at every scale, as photos have: JPEG works as hard as on one."""
    random = np.random.default_rng(seed)
    picture = np.zeros((height, width, 3), dtype=np.float32)
    for cells in (2, 5, 12, 30, 80, 200, 500):
        shape = (max(2, cells * height // width), cells, 3)
        coarse = Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8))
        layer = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.float32)
        gray = layer.mean(axis=2, keepdims=True)
        picture += (2 * gray + layer - 384) / (2 * cells**0.5)
    return np.clip(128 + picture, 0, 255).astype(np.uint8)


def write_photos(folder: Path, count: int) -> list[Path]:
    """Write JPEG files of 500×375 pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:05d}.jpg" for index in range(count)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(_write_photo, paths[:DISTINCT], range(DISTINCT)))
    for index, path in enumerate(paths[DISTINCT:]):
        path.write_bytes(paths[index % DISTINCT].read_bytes())
    return paths


def _write_photo(path: Path, seed: int) -> None:
    Image.fromarray(photo(seed)).save(path, quality=95)


def mean_bytes(paths: Sequence[Path]) -> float:
    """Give the mean size of some files."""
    return float(np.mean([path.stat().st_size for path in paths]))
