"""The packed row on a GPU: one flex_attention call per layer, compiled once per shape.

A row holds the prefix, then the suffixes of one group of classes, padded to a multiple of 256 so
that different class lists share a compiled kernel. A token sees the prefix and, behind it, the
earlier tokens of its own class. No gradients here: the step's gradient has its own path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, pad

from tammes.backbones.backbone import Affine, CausalText, Layer
from tammes.backbones.vision import compiled

GROUP = 16384  # suffix tokens per row: 21,000 classes are a handful of rows
ROUND = 256


@dataclass(frozen=True, eq=False)
class Group:
    """Some neighboring classes: their suffix tokens and who may look at whom."""

    suffix: Float[Tensor, "t w"]
    ends: Tensor
    mask: Any
    end_mask: Any


class FlexRows:
    """A causal tower over packed rows, without gradients."""

    def __init__(
        self,
        tower: CausalText,
        prefix: int,
        suffix: Float[Tensor, "t w"],
        lengths: Sequence[int],
    ) -> None:
        self._tower, self._prefix = tower, prefix
        self._layers = [layer.folded() for layer in tower.layers]
        self._block, self._ends_block = compiled(_block), compiled(_ends_block)
        self._last = self._layers[-1].qkv.parted(tower.positions.shape[1])
        suffixes = suffix.to(tower.dtype)
        self._groups = [
            self._group(suffixes[start : start + sum(some)], some)
            for start, some in _groups(lengths)
        ]

    @torch.no_grad()
    def __call__(self, prefixes: Float[Tensor, "b p w"]) -> Float[Tensor, "b n d"]:
        """Encode the classes, in packed order, behind each prefix."""
        prefixes = prefixes.to(self._tower.dtype)
        return torch.cat([self._run(prefixes, group) for group in self._groups], dim=1)

    def _run(self, prefixes: Tensor, group: Group) -> Tensor:
        row = torch.cat([prefixes, group.suffix.expand(len(prefixes), -1, -1)], dim=1)
        heads = self._tower.heads
        for layer in self._layers[:-1]:
            row = self._block(row, layer, heads, group.mask)
        last = (self._layers[-1], *self._last)
        ends = self._ends_block(row, *last, heads, group.end_mask, group.ends)
        features = self._tower.projection(self._tower.final(ends))
        return normalize(features.float(), dim=-1)

    def _group(self, suffix: Tensor, lengths: Sequence[int]) -> Group:
        """Pad the group's row and build its masks."""
        device, p = suffix.device, self._prefix
        total = -(-(p + len(suffix)) // ROUND) * ROUND
        owner = torch.full((total,), -1, device=device, dtype=torch.int32)
        sizes = torch.tensor(lengths, device=device)
        owner[p : p + len(suffix)] = torch.arange(
            len(lengths), device=device, dtype=torch.int32
        ).repeat_interleave(sizes)
        padded = pad(suffix, (0, 0, 0, total - p - len(suffix)))
        masks = _masks(owner, p, len(lengths), total, device)
        return Group(padded, p + sizes.cumsum(0) - 1, *masks)


def _groups(lengths: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Cut the classes into groups of at most `GROUP` tokens; give each one's first token."""
    groups: list[tuple[int, list[int]]] = [(0, [])]
    for length in lengths:
        start, some = groups[-1]
        if some and sum(some) + length > GROUP:
            groups.append((start + sum(some), [length]))
        else:
            some.append(length)
    return groups


def _masks(owner: Tensor, prefix: int, classes: int, total: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & ((k < prefix) | (owner[q] == owner[k]))

    def end_sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k < prefix) | (owner[k] == q)

    rows = create_block_mask(sees, None, None, total, total, device=str(device))
    ends = create_block_mask(end_sees, None, None, classes, total, device=str(device))
    return rows, ends


def _block(row: Tensor, layer: Layer, heads: int, mask: Any) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    b, t, w = row.shape
    qkv = layer.qkv(layer.attention_norm(row)).view(b, t, 3, heads, w // heads)
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    attended = flex_attention(queries, keys, values, block_mask=mask)
    assert isinstance(attended, Tensor)
    row = row + layer.out(attended.transpose(1, 2).reshape(b, t, w))
    return row + layer.down(layer.activation(layer.up(layer.mlp_norm(row))))


def _ends_block(
    row: Tensor, layer: Layer, ask: Affine, tell: Affine, heads: int, mask: Any, ends: Tensor
) -> Tensor:
    """Run the last block for the end tokens, which need everybody's keys and values."""
    from torch.nn.attention.flex_attention import flex_attention

    b, t, w = row.shape
    normed = layer.attention_norm(row)
    queries = ask(normed[:, ends]).view(b, -1, heads, w // heads).transpose(1, 2)
    keys, values = tell(normed).view(b, t, 2, heads, w // heads).permute(2, 0, 3, 1, 4).unbind(0)
    attended = flex_attention(queries, keys, values, block_mask=mask)
    assert isinstance(attended, Tensor)
    last = row[:, ends] + layer.out(attended.transpose(1, 2).reshape(b, -1, w))
    return last + layer.down(layer.activation(layer.up(layer.mlp_norm(last))))


def flex_rows(
    tower: CausalText, prefix: int, suffix: Tensor, lengths: Sequence[int]
) -> FlexRows | None:
    """Use flex_attention where it is fast: CUDA, half precision, heads that its kernels take."""
    half = tower.dtype in (torch.float16, torch.bfloat16)
    per_head = tower.positions.shape[1] // tower.heads
    if not (tower.positions.is_cuda and half and per_head >= 16):
        return None
    return FlexRows(tower, prefix, suffix, lengths)
