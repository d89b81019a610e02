"""Crop, mirror and resize many views of one picture by two matrix products, as Pillow would.

Pillow resamples the columns, rounds, then resamples the rows and rounds. Either pass is linear, so
one view is `Wy · X · Wxᵀ`. For a 500×375 picture, 64 views and 224 pixels:

- columns first: `[64·224, 504] · [504, 3·376]` is 16.3 GFLOP, shared by the three channels; then
  `[224, 376] · [376, 224·3]` for each view, 7.2 GFLOP. Rows first would be 16.3 + 9.7.
- in half precision the two passes read and write about 0.25 GB.

Pixels are centered to ±127.5 first. Weights that sum to one do not mind, half precision holds
centered pixels twice as finely, and the half level turns Pillow's rounding into a plain floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import pad

from tammes.preprocessing import Preprocessing
from tammes.views.parameters import View

ALIGNMENT = 8  # half-precision products are fast when their sides are multiples of this


class Span(NamedTuple):
    """One side of a view: some pixels of a resize, from pixel `first` of `out` on.

    The resize reads `extent` source pixels, the first of which is `start`.
    """

    start: int
    extent: int
    out: int
    first: int = 0
    mirrored: bool = False
    cubic: bool = False


class Spans:
    """One side of some views, as columns of integers."""

    def __init__(self, table: Int[np.ndarray, "v 6"]) -> None:
        self.table = table
        self.start, self.extent, self.out, self.first, self.mirrored, self.cubic = table.T
        # How far the filters reach to both sides, in units of 1 / (2 · out) source pixels.
        self.support = 2 * (1 + self.cubic) * np.maximum(self.extent, self.out)

    def __getitem__(self, part: slice) -> Spans:
        """Take some of the views."""
        return Spans(self.table[part])

    @property
    def taps(self) -> int:
        """How many source pixels at most weigh in one output pixel."""
        return int((-(-self.support // self.out)).max())

    def reach(self, size: int) -> tuple[int, int]:
        """The range of source pixels that any of `size` output pixels depends on."""
        low = (2 * self.first + 1) * self.extent - self.support
        high = (2 * (self.first + size) - 1) * self.extent + self.support
        begin = np.maximum(0, low // (2 * self.out))
        end = np.minimum(self.extent, -(-high // (2 * self.out)))
        return int((self.start + begin).min()), int((self.start + end).max())


def spans_of(
    views: Sequence[View], width: int, height: int, preprocessing: Preprocessing
) -> tuple[Spans, Spans]:
    """Say what the views of a picture do along x and along y."""
    pairs = [_spans_of(view, width, height, preprocessing) for view in views]
    table = np.array(pairs, dtype=np.int64)
    return Spans(table[:, 0]), Spans(table[:, 1])


def _spans_of(
    view: View, width: int, height: int, preprocessing: Preprocessing
) -> tuple[Span, Span]:
    size, box = preprocessing.size, view.box
    if box is not None:
        across = Span(box.left, box.width, size, mirrored=view.flip)
        return across, Span(box.top, box.height, size)
    wide, high = size, size
    if preprocessing.resize == "shortest":
        longer = int(size * max(width, height) / min(width, height))
        wide, high = (size, longer) if width <= height else (longer, size)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    cubic = preprocessing.interpolation == "bicubic"
    across = Span(0, width, wide, left, view.flip, cubic)
    return across, Span(0, height, high, top, False, cubic)


class Taps(NamedTuple):
    """Which source pixels weigh how much in each of `s` output pixels."""

    source: Int[Tensor, "v s k"]
    weight: Float[Tensor, "v s k"]

    def matrix(
        self, begin: int, end: int, length: int, dtype: torch.dtype
    ) -> Float[Tensor, "v s n"]:
        """Lay the weights out over source pixels `begin` to `end`, then zeros up to `length`."""
        places = (self.source - begin).clamp(0, end - begin - 1)  # weights beyond are zero
        dense = torch.zeros(*places.shape[:2], length, dtype=dtype, device=places.device)
        return dense.scatter_add_(2, places, self.weight.to(dtype))

    def split(self, counts: Sequence[int]) -> list[Taps]:
        """Split by views."""
        parts = zip(self.source.split(list(counts)), self.weight.split(list(counts)), strict=True)
        return [Taps(*part) for part in parts]


def taps_of(spans: Sequence[Spans], size: int, device: torch.device) -> Taps:
    """Compute Pillow's normalized filter weights for all views at once.

    Places are counted in integers, in units of 1 / (2 · out) source pixels: nothing is lost to
    rounding however long the side.
    """
    table = torch.from_numpy(np.concatenate([some.table for some in spans]))
    numbers = table.to(device, non_blocking=device.type == "cuda")[:, :, None, None]
    start, extent, out, first, mirrored, cubic = numbers.unbind(1)
    pixel = torch.arange(size, device=device)[:, None]
    center = (2 * (first + torch.where(mirrored > 0, size - 1 - pixel, pixel)) + 1) * extent
    wider = torch.maximum(extent, out)
    lowest = (center - 2 * (1 + cubic) * wider - out).div(2 * out, rounding_mode="floor") + 1
    source = lowest + torch.arange(max(some.taps for some in spans), device=device)
    away = (((2 * source + 1) * out - center) / (2 * wider)).abs()
    weight = torch.where(cubic > 0, _keys(away), (1 - away).clamp(min=0))
    weight = weight * ((source >= 0) & (source < extent))
    return Taps(start + source, weight / weight.sum(dim=-1, keepdim=True))


def _keys(x: Float[Tensor, "v s k"]) -> Float[Tensor, "v s k"]:
    """The cubic filter with a = −1/2, for distances x ≥ 0."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((2.5 - 0.5 * x) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def resample(
    picture: UInt8[Tensor, "3 h w"],
    columns: Taps,
    rows: Taps,
    area: tuple[tuple[int, int], tuple[int, int]],
    dtype: torch.dtype,
) -> Float[Tensor, "v s s 3"]:
    """Render views of one picture, in whole levels from 0 to 255, channels last.

    `area` is the range of columns and of rows that any of them depends on.
    """
    (left, right), (top, bottom) = area
    views, size, _ = columns.source.shape
    width, height = _aligned(right - left), _aligned(bottom - top)
    pixels = picture[:, top:bottom, left:right].to(dtype) - 127.5
    pixels = pad(pixels, (0, width - (right - left), 0, height - (bottom - top)))
    across = columns.matrix(left, right, width, dtype).view(-1, width)
    narrow = across @ pixels.reshape(-1, width).T
    narrow = narrow.floor_().add_(0.5).clamp_(-127.5, 127.5).view(views, size * 3, height)
    down = rows.matrix(top, bottom, height, dtype)
    levels = (down @ narrow.transpose(1, 2)).floor_().add_(128).clamp_(0, 255)
    return levels.view(views, size, size, 3)


def bytes_per_view(across: Spans, down: Spans, size: int, dtype: torch.dtype) -> int:
    """Estimate what `resample` holds at once, without the taps."""
    (left, right), (top, bottom) = across.reach(size), down.reach(size)
    return size * (_aligned(right - left) + 4 * _aligned(bottom - top) + 3 * size) * dtype.itemsize


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT
