"""Apply the parameters of views to pictures on any of torch's devices, many pictures at once.

The same `View` values as on the CPU, through matrix products instead of Pillow. In single precision
the pixels are Pillow's but for one level here and there; tests/test_views_tensor.py says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from tammes.preprocessing import Preprocessing
from tammes.views.parameters import View
from tammes.views.resampling import Spans, bytes_per_view, resample, spans_of, taps_of
from tammes.views.tensor_operations import blend

PIECE = 512 << 20  # bytes that the products of one picture may hold
GROUP = 512  # views that are weighed, mixed and normalized together
WEIGHTS = 1 << 24  # filter weights along one axis that are computed together


class Piece(NamedTuple):
    """Some views of one picture, and what they do along x and along y."""

    picture: UInt8[Tensor, "3 h w"]
    views: Sequence[View]
    across: Spans
    down: Spans


def render_tensor(
    picture: UInt8[Tensor, "3 h w"],
    views: Sequence[View],
    preprocessing: Preprocessing,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "v 3 s s"]:
    """Render views of a picture on its device, normalized for the model."""
    return render_batch([picture], [views], preprocessing, dtype)


def render_batch(
    pictures: Sequence[UInt8[Tensor, "3 h w"]],
    views: Sequence[Sequence[View]],
    preprocessing: Preprocessing,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "v 3 s s"]:
    """Render the views of pictures of any sizes on their device, one picture after the other.

    On CUDA, views in half precision come from half-precision products, added up in single.
    """
    size, device = preprocessing.size, pictures[0].device if pictures else None
    rendered = torch.empty(sum(map(len, views)), 3, size, size, dtype=dtype, device=device)
    halves = rendered.is_cuda and dtype.itemsize == 2
    products = torch.float16 if halves else torch.float32
    done = 0
    for group in _groups(_pieces(pictures, views, preprocessing, products), size):
        mixes = [view.mix for piece in group for view in piece.views]
        crops = _crops(group, size, products)
        pixels = blend(crops, mixes) if any(mixes) else crops
        rendered[done : done + len(crops)] = preprocessing.normalize(pixels)
        done += len(crops)
    return rendered


def _pieces(
    pictures: Sequence[UInt8[Tensor, "3 h w"]],
    views: Sequence[Sequence[View]],
    preprocessing: Preprocessing,
    products: torch.dtype,
) -> Iterator[Piece]:
    """Cut the views of a picture so that even a huge one does not fill the memory."""
    size = preprocessing.size
    for picture, wanted in zip(pictures, views, strict=True):
        assert picture.dtype == torch.uint8, f"{picture.dtype} picture: give uint8, as decode does"
        _, height, width = picture.shape
        across, down = spans_of(wanted, width, height, preprocessing)
        step = min(GROUP, max(1, PIECE // bytes_per_view(across, down, size, products)))
        for start in range(0, len(wanted), step):
            part = slice(start, start + step)
            yield Piece(picture, wanted[part], across[part], down[part])


def _groups(pieces: Iterator[Piece], size: int) -> Iterator[list[Piece]]:
    """Gather pieces while their views, and the filter weights of all of them, are few enough."""
    group: list[Piece] = []
    views = taps = 0
    for piece in pieces:
        own = max(piece.across.taps, piece.down.taps)
        views, taps = views + len(piece.views), max(taps, own)
        if group and (views > GROUP or views * size * taps > WEIGHTS):
            yield group
            group, views, taps = [], len(piece.views), own
        group.append(piece)
    if group:
        yield group


def _crops(group: Sequence[Piece], size: int, products: torch.dtype) -> UInt8[Tensor, "v 3 s s"]:
    """Render the views of a group before any mixing: all weights at once, then each picture."""
    device, counts = group[0].picture.device, [len(piece.views) for piece in group]
    across = taps_of([piece.across for piece in group], size, device).split(counts)
    down = taps_of([piece.down for piece in group], size, device).split(counts)
    crops = torch.empty(sum(counts), 3, size, size, dtype=torch.uint8, device=device)
    for piece, rows, x, y in zip(group, crops.split(counts), across, down, strict=True):
        area = (piece.across.reach(size), piece.down.reach(size))
        rows.copy_(resample(piece.picture, x, y, area, products).permute(0, 3, 1, 2))
    return crops
