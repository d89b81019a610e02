"""The packed row on a GPU: one flex_attention call per layer, compiled once per shape.

A row holds the prefix, then the suffixes of one group of classes. A token sees the prefix and,
behind it, the earlier tokens of its own class. Compiling costs seconds, so shapes are few: groups
have one length and one number of classes (filled up to multiples of the kernels' tiles), and rows
are taken so many at a time. No gradients here: the step's gradient has its own path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, pad

from tammes.backbones.backbone import Affine, CausalText, Layer
from tammes.backbones.compiling import can_compile

GROUP = 16384  # suffix tokens per row: 21,000 classes are a handful of rows
TILE = 128  # of flex_attention's masks
TOKENS = 2**19  # per pass: activations of a gigabyte or two
MOST = 512  # rows per pass
FEW = 8  # a pass that would be this many times emptier than full is not worth its padding


@dataclass(frozen=True, eq=False)
class Group:
    """Some neighboring classes: their suffix tokens and who may look at whom."""

    suffix: Float[Tensor, "t w"]
    classes: int
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
        self.proven = False
        self._layers = [layer.folded() for layer in tower.layers]
        self._block, self._ends_block = compiled(_block), compiled(_ends_block)
        self._last = self._layers[-1].qkv.parted(tower.positions.shape[1])
        suffixes, groups = suffix.to(tower.dtype), _groups(lengths)
        self._classes = _filled(max(map(len, groups)))
        self._length = _filled(prefix + max(map(sum, groups)))
        parts = suffixes.split([sum(some) for some in groups])
        self._groups = [self._group(part, some) for part, some in zip(parts, groups, strict=True)]
        self._rows = min(MOST, power_of_two(TOKENS // (self._length * len(groups))))

    def serves(self, rows: int) -> bool:
        """Say whether so many rows fill a pass well enough."""
        return rows * FEW > self._rows

    @torch.no_grad()
    def __call__(self, prefixes: Float[Tensor, "b p w"]) -> Float[Tensor, "b n d"]:
        """Encode the classes, in packed order, behind each prefix."""
        chunks = prefixes.to(self._tower.dtype).split(self._rows)
        found = torch.cat([self._encode(chunk) for chunk in chunks])
        self.proven = True
        return found

    def _encode(self, prefixes: Tensor) -> Tensor:
        """Run one pass, always of as many rows: the last ones may be empty."""
        full = pad(prefixes, (0, 0, 0, 0, 0, self._rows - len(prefixes)))
        found = [self._run(full, g)[: len(prefixes), : g.classes] for g in self._groups]
        return torch.cat(found, dim=1)

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
        """Fill the group's row up and build its masks; a class that is none ends in the prefix."""
        device, p, count = suffix.device, self._prefix, len(lengths)
        sizes = torch.tensor(lengths, device=device)
        owner = torch.full((self._length,), -1, device=device, dtype=torch.int32)
        numbers = torch.arange(count, device=device, dtype=torch.int32)
        owner[p : p + len(suffix)] = numbers.repeat_interleave(sizes)
        row = pad(suffix, (0, 0, 0, self._length - p - len(suffix)))
        ends = pad(p + sizes.cumsum(0) - 1, (0, self._classes - count))
        return Group(row, count, ends, *_masks(owner, p, self._classes, self._length, device))


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile where that is possible; flex_attention is slow and large without."""
    return torch.compile(function, dynamic=False) if can_compile() else function


def _filled(length: int) -> int:
    return -(-length // TILE) * TILE


def power_of_two(number: int) -> int:
    """Round down, to 1 at least."""
    return 1 << max(0, number.bit_length() - 1)


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Share the classes out evenly among groups of about `GROUP` tokens."""
    count = -(-sum(lengths) // GROUP)
    each = -(-len(lengths) // count)
    return [list(lengths[start : start + each]) for start in range(0, len(lengths), each)]


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
    """Use flex_attention where it is fast: CUDA, a compiler, half precision, heads it takes."""
    half = tower.dtype in (torch.float16, torch.bfloat16)
    per_head = tower.positions.shape[1] // tower.heads
    if not (tower.positions.is_cuda and half and per_head >= 16 and can_compile()):
        return None
    return FlexRows(tower, prefix, suffix, lengths)
