"""How a model wants its pixels: side, resize rule, normalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Num
from torch import Tensor

from tammes.errors import TammesError, UnknownName

Interpolation = Literal["bicubic", "bilinear"]
Resize = Literal["shortest", "squash"]

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Preprocessing:
    """What turns a picture into a model's input.

    `resize="shortest"` scales the shorter side to `size` and crops the center (CLIP);
    `"squash"` scales both sides to `size` (SigLIP).
    """

    size: int = 224
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    interpolation: Interpolation = "bicubic"
    resize: Resize = "shortest"

    def __post_init__(self) -> None:
        if self.size < 1 or len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise TammesError(f"{self}: needs size ≥ 1, three means and three positive deviations")
        if self.interpolation not in get_args(Interpolation):
            known = get_args(Interpolation)
            raise UnknownName.of("interpolation", self.interpolation, known)
        if self.resize not in get_args(Resize):
            raise UnknownName.of("resize rule", self.resize, get_args(Resize))

    def normalize(self, pixels: Num[Tensor, "*b 3 h w"]) -> Float[Tensor, "*b 3 h w"]:
        """Center and scale the channels of uint8 pixels, or of floats from 0 to 1."""
        white = 1 if pixels.is_floating_point() else 255
        dtype = pixels.dtype if pixels.is_floating_point() else torch.float32
        numbers = torch.tensor([self.mean, self.std], dtype=dtype) * white
        numbers = numbers.to(pixels.device, non_blocking=pixels.is_cuda)  # nobody need wait
        mean, std = numbers.view(2, 3, 1, 1)
        return (pixels - mean).div_(std)  # new memory first, then in place: two passes, not four
