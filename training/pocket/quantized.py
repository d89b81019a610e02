"""Rows as int8 with one scale each: how features and weights travel and how the model ships."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int8
from torch import Tensor


@dataclass(frozen=True)
class Quantized:
    """Rows as int8 with one fp16 scale each."""

    rows: Int8[Tensor, "n d"]
    scale: Float[Tensor, " n"]

    @classmethod
    def of(cls, rows: Float[Tensor, "n d"]) -> Quantized:
        """Round each row to 127 steps of its largest entry."""
        scale = (rows.abs().amax(dim=1).float() / 127).clamp_min(1e-7).half()
        steps = (rows.float() / scale.float()[:, None]).round().clamp(-127, 127)
        return cls(steps.to(torch.int8), scale)

    def named(self, name: str) -> dict[str, Tensor]:
        """Return the tensors to store under `name`."""
        return {name: self.rows, f"{name}.scale": self.scale}


def restore(tensors: dict[str, Tensor], name: str) -> Float[Tensor, "n d"]:
    """Read back rows that were stored by `Quantized.named`."""
    return tensors[name].float() * tensors[f"{name}.scale"].float()[:, None]


def quantize_matrices(
    weights: dict[str, Tensor], chosen: frozenset[str] | None = None
) -> dict[str, Tensor]:
    """Store the chosen matrices (all of them by default) as int8 and everything else as fp16."""
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim == 2 and (chosen is None or name in chosen):
            stored |= Quantized.of(tensor).named(name)
        else:
            stored[name] = tensor.half() if tensor.is_floating_point() else tensor
    return stored


def restore_all(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo `quantize_matrices`, to fp32."""
    names = [name for name in stored if not name.endswith(".scale")]
    return {
        name: restore(stored, name)
        if stored[name].dtype == torch.int8
        else stored[name].float()
        if stored[name].is_floating_point()
        else stored[name]
        for name in names
    }
