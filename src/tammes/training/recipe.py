"""How a context is trained: the published settings, as values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b

import torch

from tammes.errors import TammesError

MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
WARM_UP = 1e-5  # the learning rate of the first epoch
SPREAD = 0.02  # standard deviation of a random start


@dataclass(frozen=True)
class Recipe:
    """Settings of a training, all of which its file remembers.

    `start` are the words that the context starts from, or a number of random tokens. `per_step`
    counts the images of one step of SGD, `crops` the random views that stand in for drawing new
    ones in every epoch. A `conditioned` context moves with each image (CoCoOp).
    """

    start: str | int
    epochs: int
    per_step: int
    conditioned: bool = False
    shots: int = 16
    crops: int = 16
    lr: float = 0.002
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("shots", "crops", "per_step"):
            if getattr(self, name) < 1:
                raise TammesError(f"{name} is {getattr(self, name)}: it must be 1 at least")
        if self.epochs < 2:
            raise TammesError(f"epochs is {self.epochs}: 2 at least, as the first only warms up")
        if not self.lr > 0:
            raise TammesError(f"the learning rate is {self.lr}: it must be above 0")
        if not self.start or (isinstance(self.start, int) and self.start < 1):
            raise TammesError(
                f"the start is {self.start!r}: give words, as 'a photo of a', or a number of tokens"
            )

    @property
    def kind(self) -> str:
        """What the trained file is called: `coop` or `cocoop`."""
        return "cocoop" if self.conditioned else "coop"

    def rate(self, epoch: int) -> float:
        """Give the learning rate of an epoch: one to warm up, then a cosine from the full rate.

        As in the published logs, the cosine counts the warm-up as none of its epochs and so ends
        two epochs before it would reach 0.
        """
        if epoch == 0:
            return WARM_UP
        return self.lr * (1 + math.cos(math.pi * (epoch - 1) / self.epochs)) / 2


COOP = Recipe(start=4, epochs=50, per_step=32)
COCOOP = Recipe(start="a photo of a", epochs=10, per_step=1, conditioned=True)


def random_stream(*key: object) -> torch.Generator:
    """Make a stream of random numbers that depends on the key and on nothing else."""
    digest = blake2b("\0".join(map(str, key)).encode(errors="surrogateescape"), digest_size=7)
    return torch.Generator().manual_seed(int.from_bytes(digest.digest(), "big"))
