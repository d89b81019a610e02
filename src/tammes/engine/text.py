"""Class features for many contexts at once: packed for causal towers, padded for any tower.

A causal tower is exact on the tokens up to the end token, so a class costs its own suffix (the
name and what follows) and nothing else: the start token and the context are the same for all
classes, and every class attends to their keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone, CausalText
from tammes.backbones.backbone import Layer
from tammes.engine.flex import flex_rows
from tammes.prompts import Prompt
from tammes.tuner import class_features


class TextEncoder(Protocol):
    """Contexts in, unit class features out.

    `tokens` is what one context costs; `vectorizes` says whether torch can batch gradients through
    the tower (it cannot through every attention kernel).
    """

    tokens: int
    vectorizes: bool

    def __call__(self, contexts: Float[Tensor, "b m w"]) -> Float[Tensor, "b n d"]:
        """Encode every class under every context."""
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

    def __call__(self, contexts: Float[Tensor, "b m w"]) -> Float[Tensor, "b n d"]:
        """Encode every class under every context."""
        return torch.stack([class_features(self._backbone, self._prompt, c) for c in contexts])


@dataclass(frozen=True)
class Bucket:
    """Neighboring classes whose suffixes have the same length; `span` are their suffix tokens."""

    start: int
    count: int
    length: int
    classes: slice

    @property
    def span(self) -> slice:
        """The tokens of the bucket."""
        return slice(self.start, self.start + self.count * self.length)


class PackedText:
    """Causal towers: one row [prefix, suffix of class 1, suffix of class 2, …], no padding.

    Classes are sorted by suffix length, so that classes of one length are a slice of the row and
    attention is a handful of dense products.
    """

    vectorizes = True

    def __init__(self, backbone: Backbone, tower: CausalText, prompt: Prompt) -> None:
        self._tower = tower
        self._layers = [_scaled_queries(layer.folded(), tower.heads) for layer in tower.layers]
        self.prefix = prompt.first + len(prompt.context)
        lengths = tower.ends(prompt.tokens) + 1 - self.prefix
        order = lengths.argsort(stable=True)
        self._inverse = order.argsort()
        self.buckets = list(_buckets(lengths[order].tolist()))
        rows = [prompt.tokens[i, self.prefix : self.prefix + lengths[i]] for i in order.tolist()]
        places = torch.cat([torch.arange(len(r), device=r.device) for r in rows]) + self.prefix
        positions = tower.positions.float()
        self._suffix = backbone.embed(torch.cat(rows)) + positions[places]
        self._leading = backbone.embed(prompt.tokens[0, : prompt.first])
        self._positions = positions[: self.prefix]
        self.tokens = self.prefix + len(self._suffix)
        self._rows = flex_rows(tower, self.prefix, self._suffix, lengths[order].tolist())
        self.flops_per_token = 2 * sum(
            a.weight.numel() for x in tower.layers for a in (x.qkv, x.out, x.up, x.down)
        )

    def __call__(self, contexts: Float[Tensor, "b m w"]) -> Float[Tensor, "b n d"]:
        """Encode every class under every context."""
        if self._rows is not None and not torch.is_grad_enabled():
            return self._rows(self._prefixes(contexts))[:, self._inverse]
        suffix = self._suffix.expand(len(contexts), -1, -1)
        return self._run(self._prefixes(contexts), suffix, self.buckets)[:, self._inverse]

    def per_class(self, contexts: Float[Tensor, "n m w"]) -> Float[Tensor, "n d"]:
        """Encode class i under context i alone, so that its gradient is its own."""
        prefixes = self._prefixes(contexts[self._inverse.argsort()])
        parts = []
        for bucket in self.buckets:
            suffix = self._suffix[bucket.span].unflatten(0, (bucket.count, bucket.length))
            alone = [Bucket(0, 1, bucket.length, slice(0, 1))]
            parts.append(self._run(prefixes[bucket.classes], suffix, alone)[:, 0])
        return torch.cat(parts)[self._inverse]

    def _prefixes(self, contexts: Tensor) -> Tensor:
        leading = self._leading.expand(len(contexts), -1, -1)
        return torch.cat([leading, contexts], dim=1) + self._positions

    def _run(self, prefixes: Tensor, suffixes: Tensor, buckets: Sequence[Bucket]) -> Tensor:
        """Run the tower over packed rows, the last block for the end tokens only."""
        row = torch.cat([prefixes, suffixes], dim=1).to(self._tower.positions.dtype)
        sizes = [self.prefix, *(b.count * b.length for b in buckets)]
        for layer in self._layers[:-1]:
            row = _block(layer, row, self._attend(layer, row, buckets, sizes))
        layer = self._layers[-1]
        ends = torch.cat([self.prefix + _ends(b) for b in buckets]).to(row.device)
        row = _block(layer, row[:, ends], self._attend_ends(layer, row, buckets, sizes, ends))
        features = self._tower.projection(self._tower.final(row))
        return normalize(features.float(), dim=-1)

    def _attend(
        self, layer: Layer, row: Tensor, buckets: Sequence[Bucket], sizes: list[int]
    ) -> Tensor:
        """Attend within the prefix, and from every suffix to the prefix and itself."""
        # One split, not a slice per bucket: its gradient is one concatenation.
        queries, keys, values = (t.split(sizes, dim=2) for t in self._heads(layer, row))
        shared = (keys[0], values[0])
        parts = [_causal_attention(queries[0], *shared)]
        for b, q, k, v in zip(buckets, queries[1:], keys[1:], values[1:], strict=True):
            parts.append(_suffix_attention(*shared, q, k, v, b.length))
        return _merge(torch.cat(parts, dim=2))

    def _attend_ends(
        self,
        layer: Layer,
        row: Tensor,
        buckets: Sequence[Bucket],
        sizes: list[int],
        ends: Tensor,
    ) -> Tensor:
        """Attend from the end tokens to the prefix and their own class."""
        asked, keys, values = self._heads(layer, row)
        queries = asked[:, :, ends].split([b.count for b in buckets], dim=2)
        (k, *own_k), (v, *own_v) = keys.split(sizes, dim=2), values.split(sizes, dim=2)
        each = zip(queries, own_k, own_v, strict=True)
        return _merge(torch.cat([_end_attention(k, v, *own) for own in each], dim=2))

    def _heads(self, layer: Layer, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give queries, keys and values [b, heads, t, w / heads]."""
        qkv = layer.qkv(layer.attention_norm(row))
        split = qkv.unflatten(2, (3, self._tower.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind(0)
        return queries, keys, values


def _scaled_queries(layer: Layer, heads: int) -> Layer:
    """Move the query scale of attention into the weights."""
    width = layer.qkv.weight.shape[1]
    scale = torch.ones(3 * width, 1).to(layer.qkv.weight)
    scale[:width] = (width // heads) ** -0.5
    return replace(layer, qkv=layer.qkv.scaled(scale))


def _buckets(sorted_lengths: list[int]) -> Iterator[Bucket]:
    start = done = 0
    for length in sorted(set(sorted_lengths)):
        count = sorted_lengths.count(length)
        yield Bucket(start, count, length, slice(done, done + count))
        start, done = start + count * length, done + count


def _ends(bucket: Bucket) -> Tensor:
    return torch.arange(bucket.span.start + bucket.length - 1, bucket.span.stop, bucket.length)


def _block(layer: Layer, row: Tensor, attended: Tensor) -> Tensor:
    row = row + layer.out(attended)
    return row + layer.down(layer.activation(layer.up(layer.mlp_norm(row))))


def _merge(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


def _causal_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    future = torch.ones(queries.shape[-2:-1] * 2, dtype=torch.bool, device=keys.device).triu(1)
    scores = (queries @ keys.mT).masked_fill(future, float("-inf"))
    return _softmax(scores) @ values


def _suffix_attention(
    keys: Tensor, values: Tensor, queries: Tensor, own_keys: Tensor, own_values: Tensor, length: int
) -> Tensor:
    """Attend from classes of one length to the shared prefix and, causally, to themselves."""
    each = [t.unflatten(2, (-1, length)) for t in (queries, own_keys, own_values)]
    future = torch.ones(length, length, dtype=torch.bool, device=keys.device).triu(1)
    near = (each[0] @ each[1].mT).masked_fill(future, float("-inf"))
    far = (queries @ keys.mT).unflatten(2, (-1, length))
    to_prefix, to_own = _joint_softmax(far, near)
    return to_prefix.flatten(2, 3) @ values + (to_own @ each[2]).flatten(2, 3)


def _end_attention(
    keys: Tensor, values: Tensor, queries: Tensor, own_keys: Tensor, own_values: Tensor
) -> Tensor:
    """Attend from the end token of each class to the prefix and the whole class."""
    own_keys, own_values = (t.unflatten(2, (queries.shape[2], -1)) for t in (own_keys, own_values))
    near = (queries[:, :, :, None] @ own_keys.mT)[:, :, :, 0]
    to_prefix, to_own = _joint_softmax(queries @ keys.mT, near)
    return to_prefix @ values + (to_own[:, :, :, None] @ own_values)[:, :, :, 0]


def _joint_softmax(far: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    weights = _softmax(torch.cat([far, near], dim=-1))
    return weights[..., : far.shape[-1]], weights[..., far.shape[-1] :]


def _softmax(scores: Tensor) -> Tensor:
    return scores.float().softmax(dim=-1).to(scores.dtype)
