"""Class features for many contexts at once: packed for causal towers, padded for any tower.

A causal tower is exact on the tokens up to the end token, so a class costs its own suffix (the
name and what follows) and nothing else: the start token and the context are the same for all
classes, and every class attends to their keys and values. Suffixes stand in one row behind the
prefix, in blocks of whole classes, so that attention is one dense product per layer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone, CausalText
from tammes.backbones.backbone import Layer
from tammes.engine.flex import FlexRows, flex_rows
from tammes.prompts import Prompt
from tammes.tuner import class_features

BLOCK = {"cpu": 32, "cuda": 64}  # tokens that share one dense product of attention
KEPT = 24  # numbers per token, layer and unit of width that a graph holds, about


class TextEncoder(Protocol):
    """Contexts in, unit class features out.

    `tokens` is what one context costs; `vectorizes` says whether torch can batch gradients through
    the tower (it cannot through every attention kernel).
    """

    tokens: int
    classes: int
    vectorizes: bool

    def __call__(self, contexts: Float[Tensor, "b m w"]) -> Float[Tensor, "b n d"]:
        """Encode every class under every context."""
        ...

    def parts(self, room: int) -> Sequence[TextEncoder]:
        """Split the classes so that the graph of one part takes so many bytes at most."""
        ...


def text_encoder(backbone: Backbone, prompt: Prompt) -> TextEncoder:
    """Choose the packed encoder where the tower allows it."""
    if backbone.causal is not None and not prompt.others:
        return PackedText(backbone, backbone.causal, prompt)
    return PaddedText(backbone, prompt)


class PaddedText:
    """Any tower: one pass over the full padded sentences per context."""

    vectorizes = False

    def __init__(self, backbone: Backbone, prompt: Prompt) -> None:
        self._backbone, self._prompt = backbone, prompt
        self.tokens = prompt.tokens.numel() * (1 + len(prompt.others))
        self.classes = len(prompt.tokens)

    def __call__(self, contexts: Float[Tensor, "b m w"]) -> Float[Tensor, "b n d"]:
        """Encode every class under every context."""
        return torch.stack([class_features(self._backbone, self._prompt, c) for c in contexts])

    def parts(self, room: int) -> Sequence[TextEncoder]:
        """Stay whole: the library's tower is not asked how much it keeps."""
        return [self]


@dataclass(frozen=True, eq=False)
class Packing:
    """Pieces of several lengths, in order, in blocks of one size; no piece crosses a border.

    `places` says which token stands where (the last token of all is padding), `sees` who may look
    at whom within a block, `ends` where each piece ends.
    """

    size: int
    places: Int[Tensor, " t"]
    sees: Bool[Tensor, "b s s"]
    ends: Int[Tensor, " n"]

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Packing:
        """Fill one block after the other."""
        size = max(BLOCK.get(device.type, BLOCK["cpu"]), *lengths)
        starts, stop = [], 0
        for length in lengths:
            left = size - stop % size
            starts.append(stop if length <= left else stop + left)
            stop = starts[-1] + length
        total = -(-stop // size) * size
        at = torch.cat([torch.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
        places = torch.full((total,), sum(lengths))
        places[at] = torch.arange(sum(lengths))
        owner = -1 - torch.arange(total)  # padding sees itself, or its softmax would be empty
        owner[at] = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
        rows = owner.view(-1, size)
        sees = (rows[:, :, None] == rows[:, None]) & torch.ones(size, size).tril().bool()
        ends = torch.tensor(starts) + torch.tensor(lengths) - 1
        return cls(size, places.to(device), sees.to(device), ends.to(device))


class PackedText:
    """Causal towers: the prefix once, then the suffixes of all classes, each seeing its own."""

    vectorizes = True

    def __init__(
        self,
        backbone: Backbone,
        tower: CausalText,
        prompt: Prompt,
        layers: Sequence[Layer] | None = None,
    ) -> None:
        self._backbone, self._tower, self._prompt = backbone, tower, prompt
        self.dtype, self.classes = tower.dtype, len(prompt.tokens)
        self._layers = layers or [_scaled_queries(x.folded(), tower.heads) for x in tower.layers]
        self.prefix = prompt.first + len(prompt.context)
        self._lengths = (tower.ends(prompt.tokens) + 1 - self.prefix).tolist()
        rows = [row[self.prefix :][:n] for row, n in zip(prompt.tokens, self._lengths, strict=True)]
        places = torch.cat([torch.arange(n) for n in self._lengths]).to(backbone.device)
        positions = tower.positions.float()
        self._leading = backbone.embed(prompt.tokens[0, : prompt.first])
        self._positions = positions[: self.prefix]
        self._suffix = backbone.embed(torch.cat(rows)) + positions[self.prefix + places]
        self._packing = Packing.of(self._lengths, backbone.device)
        self._row = _with_padding(self._suffix)[self._packing.places]
        self.tokens = self.prefix + len(self._row)
        self.flops_per_token = 2 * sum(
            a.weight.numel() for x in tower.layers for a in (x.qkv, x.out, x.up, x.down)
        )

    @cached_property
    def _flex(self) -> FlexRows | None:
        return flex_rows(self._tower, self.prefix, self._suffix, self._lengths)

    def __call__(self, contexts: Float[Tensor, "b m w"]) -> Float[Tensor, "b n d"]:
        """Encode every class under every context."""
        prefixes = self._prefixes(contexts)
        found = None if torch.is_grad_enabled() else self._by_flex(prefixes)
        if found is not None:
            return found
        return self._run(prefixes, self._row.expand(len(contexts), -1, -1), self._packing)

    def parts(self, room: int) -> Sequence[PackedText]:
        """Split the classes so that the graph of one part takes so many bytes at most."""
        width = self._tower.positions.shape[1]
        per_token = KEPT * width * len(self._layers) * self.dtype.itemsize
        count = min(self.classes, -(-self.tokens * per_token // room))
        if count == 1:
            return [self]
        rows = self._prompt.tokens.tensor_split(count)
        prompts = [replace(self._prompt, classnames=(), tokens=some) for some in rows]
        return [PackedText(self._backbone, self._tower, one, self._layers) for one in prompts]

    def _by_flex(self, prefixes: Tensor) -> Tensor | None:
        """Use flex_attention where it runs and is worth it; the dense path is always there."""
        if self._flex is None or not self._flex.serves(len(prefixes)):
            return None
        try:
            return self._flex(prefixes)
        except torch.OutOfMemoryError:
            raise
        except Exception as problem:  # of the compiler, of its C compiler, of the generated code
            if self._flex.proven:
                raise
            logging.getLogger(__name__).warning("no flex_attention: %s", str(problem)[:200])
            self._flex = None
            return None

    def per_class(self, contexts: Float[Tensor, "n m w"]) -> Float[Tensor, "n d"]:
        """Encode class i under context i alone, so that its gradient is its own."""
        n, p = len(contexts), self.prefix
        prefixes = self._prefixes(contexts).flatten(0, 1)
        packing = Packing.of([p + length for length in self._lengths], contexts.device)
        own = [torch.arange(i * p, (i + 1) * p) for i in range(n)]
        suffixes = torch.arange(n * p, n * p + len(self._suffix)).split(self._lengths)
        order = torch.cat([part for pair in zip(own, suffixes, strict=True) for part in pair])
        tokens = torch.cat([prefixes, self._suffix])[order.to(contexts.device)]
        row = _with_padding(tokens)[packing.places][None]
        return self._run(row[:, :0], row, packing)[0]

    def _prefixes(self, contexts: Tensor) -> Tensor:
        leading = self._leading.expand(len(contexts), -1, -1)
        return torch.cat([leading, contexts], dim=1) + self._positions

    def _run(self, prefixes: Tensor, row: Tensor, packing: Packing) -> Tensor:
        """Run the tower; past the last attention only the end tokens matter."""
        p = prefixes.shape[1]
        row = torch.cat([prefixes, row], dim=1).to(self.dtype)
        for layer in self._layers[:-1]:
            row = _block(layer, row, self._attend(layer, row, p, packing))
        ends = p + packing.ends
        attended = self._attend(self._layers[-1], row, p, packing)[:, ends]
        row = _block(self._layers[-1], row[:, ends], attended)
        features = self._tower.projection(self._tower.final(row))
        return normalize(features.float(), dim=-1)

    def _attend(self, layer: Layer, row: Tensor, p: int, packing: Packing) -> Tensor:
        """Attend within the prefix, and from every piece to the prefix and to itself."""
        b, t, _ = row.shape
        qkv = layer.qkv(layer.attention_norm(row))
        heads = qkv.view(b, t, 3, self._tower.heads, -1).permute(2, 0, 3, 1, 4)
        (q, own_q), (k, own_k), (v, own_v) = (x.split([p, t - p], dim=2) for x in heads.unbind(0))
        earlier = torch.ones(p, p, dtype=torch.bool, device=row.device).tril()
        prefix = _softmax((q @ k.mT).masked_fill(~earlier, float("-inf"))) @ v
        blocks = [x.unflatten(2, (-1, packing.size)) for x in (own_q, own_k, own_v)]
        near = (blocks[0] @ blocks[1].mT).masked_fill(~packing.sees, float("-inf"))
        far = (own_q @ k.mT).unflatten(2, (-1, packing.size))
        weights = _softmax(torch.cat([far, near], dim=-1))
        shared = weights[..., :p].flatten(2, 3) @ v
        pieces = shared + (weights[..., p:] @ blocks[2]).flatten(2, 3)
        return torch.cat([prefix, pieces], dim=2).transpose(1, 2).flatten(2)


def _with_padding(tokens: Tensor) -> Tensor:
    return torch.cat([tokens, tokens.new_zeros(1, tokens.shape[1])])


def _scaled_queries(layer: Layer, heads: int) -> Layer:
    """Move the query scale of attention into the weights."""
    width = layer.qkv.weight.shape[1]
    scale = torch.ones(3 * width, 1).to(layer.qkv.weight)
    scale[:width] = (width // heads) ** -0.5
    return replace(layer, qkv=layer.qkv.scaled(scale))


def _block(layer: Layer, row: Tensor, attended: Tensor) -> Tensor:
    row = row + layer.out(attended)
    return row + layer.down(layer.activation(layer.up(layer.mlp_norm(row))))


def _softmax(scores: Tensor) -> Tensor:
    return scores.float().softmax(dim=-1).to(scores.dtype)
