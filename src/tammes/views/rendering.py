"""Apply the parameters of views to one picture on the CPU, with Pillow's arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from tammes.preprocessing import Preprocessing
from tammes.views.operations import apply_operation
from tammes.views.parameters import Box, Mix, View

_RESAMPLING = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
}
# From this ratio of sides on, only the center is resized: 1×3000 would first grow to 224×672000.
# Pillow may then round its two passes in another order, so ordinary pictures go the published way.
ELONGATED = 64


def render_views(
    image: Image.Image, views: Sequence[View], preprocessing: Preprocessing
) -> Float[Tensor, "v 3 s s"]:
    """Render views of an RGB picture, normalized for the model."""
    assert image.mode == "RGB", f"{image.mode} picture: open it with open_image"
    size = preprocessing.size
    rendered = torch.empty(len(views), 3, size, size)
    for row, view in zip(rendered, views, strict=True):  # one at a time: it stays in the cache
        crop = _crop(image, view, preprocessing)
        pixels = np.asarray(crop) if view.mix is None else _blend(crop, view.mix)
        planes = torch.from_numpy(np.moveaxis(pixels, 2, 0).copy())
        row.copy_(preprocessing.normalize(planes))
    return rendered


def _crop(image: Image.Image, view: View, preprocessing: Preprocessing) -> Image.Image:
    """The view before any mixing."""
    if view.box is None:
        crop = _clean(image, preprocessing)
    else:
        crop = _resized_crop(image, view.box, preprocessing.size)
    return crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if view.flip else crop


def _resized_crop(image: Image.Image, box: Box, size: int) -> Image.Image:
    # Cropping comes first: resize(box=…) would let pixels from outside the box bleed in.
    right, bottom = box.left + box.width, box.top + box.height
    crop = image.crop((box.left, box.top, right, bottom))
    return crop.resize((size, size), Image.Resampling.BILINEAR)


def _clean(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    """The model's own preprocessing, rounded as torchvision rounds."""
    size, resampling = preprocessing.size, _RESAMPLING[preprocessing.interpolation]
    if preprocessing.resize == "squash":
        return image.resize((size, size), resampling)
    short, long = sorted(image.size)
    longer = int(size * long / short)
    width, height = (size, longer) if image.width <= image.height else (longer, size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    center = (left, top, left + size, top + size)
    if long < ELONGATED * short:
        return image.resize((width, height), resampling).crop(center)
    x, y = image.width / width, image.height / height
    source = (center[0] * x, center[1] * y, center[2] * x, center[3] * y)
    return image.resize((size, size), resampling, box=source)


def _blend(crop: Image.Image, mix: Mix) -> Float[np.ndarray, "s s 3"]:
    """Mix the crop with its chains, as floats from 0 to 1.

    The published code mixes normalized tensors; normalizing is affine and the shares sum to one, so
    mixing first and normalizing once is the same up to rounding.
    """
    layers = [crop, *(reduce(apply_operation, chain, crop) for chain in mix.chains)]
    stack = np.stack([np.asarray(layer) for layer in layers]).astype(np.float32)
    shares = np.asarray(mix.shares, dtype=np.float32) / 255
    return np.tensordot(shares, stack, axes=1)
