"""Draw the parameters of views from (seed, image id) and nothing else."""

from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np

from tammes.views.operations import AMOUNTS, operation_at
from tammes.views.parameters import CLEAN, Box, Mix, Operation, View, ViewSettings

AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
TRIES = 10
CHAINS = 3
LONGEST_CHAIN = 3
SEVERITY = 1.0
FAINTEST = 0.1
_NAMES = tuple(AMOUNTS)


def sample_views(
    settings: ViewSettings, image_id: str, width: int, height: int
) -> tuple[View, ...]:
    """Draw the views of one picture: the clean one, then random crops.

    View k is the same whatever the count, and its crop is the same with AugMix and without.
    """
    crops = _generator(settings.seed, image_id, "crop")
    mixes = _generator(settings.seed, image_id, "mix")
    return CLEAN, *(
        View(
            _sample_box(crops, width, height),
            flip=bool(crops.random() < 0.5),
            mix=_sample_mix(mixes) if settings.augmix else None,
        )
        for _ in range(settings.count - 1)
    )


def _generator(seed: int, image_id: str, purpose: str) -> np.random.Generator:
    """A stream of its own for each seed, image and purpose."""
    key = f"{purpose}\0{seed}\0{image_id}".encode(errors="surrogateescape")
    digest = blake2b(key, digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def _sample_box(rng: np.random.Generator, width: int, height: int) -> Box:
    """Draw a random share of the area at a random shape (torchvision's RandomResizedCrop)."""
    for _ in range(TRIES):
        area = width * height * rng.uniform(*AREA)
        ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
            return Box(int(top), int(left), h, w)
    return _central_box(width, height)


def _central_box(width: int, height: int) -> Box:
    """The largest centered box of an allowed shape, for pictures that few crops fit."""
    w = min(width, round(height * RATIO[1]))
    h = min(height, round(width / RATIO[0]))
    return Box((height - h) // 2, (width - w) // 2, h, w)


def _sample_mix(rng: np.random.Generator) -> Mix:
    """Draw an AugMix blend of chains of one to three operations."""
    weights = tuple(rng.dirichlet(np.ones(CHAINS)).tolist())
    plain = float(rng.beta(1.0, 1.0))
    chains = tuple(
        tuple(_sample_operation(rng) for _ in range(rng.integers(1, LONGEST_CHAIN + 1)))
        for _ in range(CHAINS)
    )
    return Mix(plain, weights, chains)


def _sample_operation(rng: np.random.Generator) -> Operation:
    name = _NAMES[rng.integers(len(_NAMES))]
    level = rng.uniform(FAINTEST, SEVERITY)
    return operation_at(name, level if rng.random() < 0.5 else -level)
