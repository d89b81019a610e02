"""What a view is: plain numbers, so that any device can apply them."""

from __future__ import annotations

from dataclasses import dataclass

from tammes.errors import TammesError


@dataclass(frozen=True)
class ViewSettings:
    """How many views, with AugMix or without, from which seed; `count` includes the clean view."""

    count: int = 64
    augmix: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise TammesError(f"{self}: needs count ≥ 1, for the clean view")


@dataclass(frozen=True)
class Box:
    """A rectangle of the original picture, in whole pixels."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class Operation:
    """One AugMix operation by name, with its concrete amount.

    The amount is: bits kept (posterize), degrees counterclockwise (rotate), the first level that is
    inverted (solarize), the slope (shear_x, shear_y), the signed share of the side that moves out
    (translate_x, translate_y: whole pixels, rounded toward zero), nothing (autocontrast, equalize).
    """

    name: str
    amount: float = 0.0


@dataclass(frozen=True)
class Mix:
    """An AugMix blend: `plain · crop + (1 − plain) · Σ weight · chain(crop)`."""

    plain: float
    weights: tuple[float, ...]
    chains: tuple[tuple[Operation, ...], ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the crop itself, then of each chain; they sum to one."""
        return (self.plain, *((1 - self.plain) * weight for weight in self.weights))


@dataclass(frozen=True)
class View:
    """One view: a crop of the original picture, resized, perhaps mirrored, perhaps mixed.

    Without a box it is the clean view: the model's own preprocessing.
    """

    box: Box | None = None
    flip: bool = False
    mix: Mix | None = None


CLEAN = View()
