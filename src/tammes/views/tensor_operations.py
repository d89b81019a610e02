"""The AugMix operations on batches of crops, level for level what Pillow gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from tammes.views.parameters import Mix, Operation

_UNMIXED = Mix(1.0, (), ())
CHUNK = 128  # crops per call of an operation: under 1 GB of intermediates at 224 pixels


def blend(crops: UInt8[Tensor, "v 3 s s"], mixes: Sequence[Mix | None]) -> Float[Tensor, "v 3 s s"]:
    """Mix crops with their chains, as floats from 0 to 1; without a mix a crop stays as it is."""
    chosen = [mix or _UNMIXED for mix in mixes]
    chains = list(zip_longest(*(mix.chains for mix in chosen), fillvalue=()))
    table = list(zip_longest(*(mix.shares for mix in chosen), fillvalue=0.0))
    plain, *shares = to_device(table, crops.device).div_(255)[..., None, None, None]
    layers = apply_chains(crops.repeat(len(chains), 1, 1, 1), sum(chains, ()))
    mixed = crops * plain
    for share, layer in zip(shares, layers.split(len(crops)), strict=True):
        mixed += layer * share
    return mixed


def to_device(numbers: Sequence[Any], device: torch.device) -> Tensor:
    """Copy numbers to a device without waiting for what it still has to do."""
    return torch.tensor(numbers).to(device, non_blocking=device.type == "cuda")


def apply_chains(
    crops: UInt8[Tensor, "n 3 s s"], chains: Sequence[Sequence[Operation]]
) -> UInt8[Tensor, "n 3 s s"]:
    """Apply to each crop its own chain, in place: step by step, all of a kind together."""
    for step in zip_longest(*chains):
        for kind, members in _by_kind(step, crops.shape[-1]).items():
            rows, amounts = (to_device(c, crops.device) for c in zip(*members, strict=True))
            for row, amount in zip(rows.split(CHUNK), amounts.split(CHUNK), strict=True):
                crops[row] = _APPLY[kind](crops[row], amount)
    return crops


def _by_kind(
    step: Sequence[Operation | None], size: int
) -> dict[str, list[tuple[int, tuple[float, ...]]]]:
    """Gather rows and numbers of what one call can do; all that moves pixels is one affine map."""
    found: dict[str, list[tuple[int, tuple[float, ...]]]] = {}
    for row, operation in enumerate(step):
        if operation is None:
            continue
        name, amount = operation.name, operation.amount
        if move := _MOVES.get(name):
            found.setdefault("move", []).append((row, move(amount, size)))
        else:
            found.setdefault(name, []).append((row, (amount,)))
    return found


def _rotation(degrees: float, size: int) -> tuple[float, ...]:
    turn = -math.radians(degrees % 360)
    cos, sin = round(math.cos(turn), 15), round(math.sin(turn), 15)
    middle = size / 2
    return cos - 1, sin, middle * (1 - cos - sin), -sin, cos - 1, middle * (1 + sin - cos)


# For an output pixel at (x, y), how far its source lies to the right (a·x + b·y + c) and below
# (d·x + e·y + f). Distances are small, so single precision is enough where positions need double.
_MOVES: Mapping[str, Callable[[float, int], tuple[float, ...]]] = {
    "rotate": _rotation,
    "shear_x": lambda slope, _: (0.0, slope, 0.0, 0.0, 0.0, 0.0),
    "shear_y": lambda slope, _: (0.0, 0.0, 0.0, slope, 0.0, 0.0),
    "translate_x": lambda share, size: (0.0, 0.0, float(int(size * share)), 0.0, 0.0, 0.0),
    "translate_y": lambda share, size: (0.0, 0.0, 0.0, 0.0, 0.0, float(int(size * share))),
}


def _move(crops: UInt8[Tensor, "n 3 s s"], maps: Float[Tensor, "n 6"]) -> UInt8[Tensor, "n 3 s s"]:
    """Sample where the maps point, bilinearly; edges repeat for half a pixel, then comes black."""
    size = crops.shape[-1]
    pixel = torch.arange(size, device=crops.device)
    x, y = pixel + 0.5, pixel[:, None] + 0.5
    a, b, c, d, e, f = maps[..., None, None].unbind(1)
    right, below = a * x + b * y + c, d * x + e * y + f
    inside = (x + right >= 0) & (x + right < size) & (y + below >= 0) & (y + below < size)
    column, row = pixel + right.floor().long(), pixel[:, None] + below.floor().long()
    flat = crops.flatten(2)

    def corner(row: Int[Tensor, "n s s"], column: Int[Tensor, "n s s"]) -> Float[Tensor, "n 3 p"]:
        place = row.clamp(0, size - 1) * size + column.clamp(0, size - 1)
        return flat.gather(2, place.flatten(1)[:, None].expand_as(flat)).float()

    across, down = ((t - t.floor()).flatten(1)[:, None] for t in (right, below))
    upper, lower = corner(row, column), corner(row + 1, column)
    upper += (corner(row, column + 1) - upper) * across
    lower += (corner(row + 1, column + 1) - lower) * across
    upper += (lower - upper) * down
    return (upper * inside.flatten(1)[:, None]).to(torch.uint8).view_as(crops)


def _autocontrast(
    crops: UInt8[Tensor, "n 3 s s"], _: Float[Tensor, "n 1"]
) -> UInt8[Tensor, "n 3 s s"]:
    """Stretch each channel to 0 … 255, in double precision as Pillow truncates that."""
    exact = torch.float32 if crops.device.type == "mps" else torch.float64
    darkest, brightest = (t[..., None].to(exact) for t in crops.flatten(2).aminmax(dim=2))
    level = torch.arange(256, device=crops.device, dtype=exact)
    scale = 255 / (brightest - darkest).clamp(min=1)
    stretched = (level * scale + -darkest * scale).trunc().clamp(0, 255)
    return _look_up(torch.where(brightest > darkest, stretched, level), crops)


def _equalize(crops: UInt8[Tensor, "n 3 s s"], _: Float[Tensor, "n 1"]) -> UInt8[Tensor, "n 3 s s"]:
    """Flatten each channel's histogram, with Pillow's integers."""
    levels = crops.flatten(2).long()
    counts = levels.new_zeros(*levels.shape[:2], 256, dtype=torch.int32)
    counts.scatter_add_(2, levels, counts.new_ones(()).expand_as(levels))
    brightest = counts.gather(2, levels.amax(dim=2, keepdim=True))
    step = (levels.shape[2] - brightest).div(255, rounding_mode="floor")
    below = counts.cumsum(dim=2) - counts + step // 2
    flattened = below.div(step.clamp(min=1), rounding_mode="floor").clamp(max=255)
    level = torch.arange(256, device=crops.device)
    return _look_up(torch.where(step > 0, flattened, level), crops)


def _look_up(
    table: Float[Tensor, "n 3 256"] | Int[Tensor, "n 3 256"], crops: UInt8[Tensor, "n 3 s s"]
) -> UInt8[Tensor, "n 3 s s"]:
    return table.to(torch.uint8).gather(2, crops.flatten(2).long()).view_as(crops)


def _posterize(
    crops: UInt8[Tensor, "n 3 s s"], bits: Float[Tensor, "n 1"]
) -> UInt8[Tensor, "n 3 s s"]:
    return crops & (256 - 2 ** (8 - bits.trunc())).to(torch.uint8)[..., None, None]


def _solarize(
    crops: UInt8[Tensor, "n 3 s s"], first: Float[Tensor, "n 1"]
) -> UInt8[Tensor, "n 3 s s"]:
    return torch.where(crops < first.trunc()[..., None, None], crops, 255 - crops)


_APPLY: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "posterize": _posterize,
    "solarize": _solarize,
    "move": _move,
}
