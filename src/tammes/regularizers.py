"""Terms on the class embeddings: unit rows in, one scalar out, lower is better.

A term sees unit text features `[..., N, D]` and answers `[...]`, so that one formula serves one
prompt and a batch of prompts. `same` marks the classes that share a token sequence (the diagonal
always): they can never be told apart, so no term may look at the angle between them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tammes.errors import TammesError, UnknownName

COSINES = 2**27  # held at once: half a gigabyte, whatever the number of classes


class Term(Protocol):
    """What a regularizer is: a value that can be called and printed."""

    def __call__(
        self, text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None
    ) -> Float[Tensor, "*b"]:
        """Score the class embeddings; lower is better."""
        ...


def nearest_angles(
    text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None, tau: float = 0.99999
) -> Float[Tensor, "*b n"]:
    """Angle, in radians and fp32, from each class to its nearest neighbor; 0 without a neighbor."""
    text = text.float()
    if same is None:
        same = torch.eye(text.shape[-2], dtype=torch.bool, device=text.device)
    step = max(1, COSINES // max(1, text[..., 0].numel()))
    with torch.autocast(text.device.type, enabled=False):  # fp16 rounds the clamp away
        pairs = zip(text.split(step, dim=-2), same.split(step), strict=True)
        nearest = [_largest((rows @ text.mT).masked_fill(own, -2.0)) for rows, own in pairs]
    alone = same.all(dim=-1)
    return torch.cat(nearest, dim=-1).clamp(-tau, tau).acos().masked_fill(alone, 0.0)


def _largest(cosine: Tensor) -> Tensor:
    return cosine.max(dim=-1).values  # the gradient goes to one neighbor, as published


def mean_nearest_angle(
    text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None, tau: float = 0.99999
) -> Float[Tensor, "*b"]:
    """Mean over classes of the angle to the nearest neighbor: the paper's AD."""
    return nearest_angles(text, same, tau).mean(dim=-1)


def mean_cosine(
    text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None
) -> Float[Tensor, "*b"]:
    """Mean cosine between two classes that differ, without the Gram matrix; 0 without a pair."""
    text = text.float()
    if same is None:
        same = torch.eye(text.shape[-2], dtype=torch.bool, device=text.device)
    total = text.sum(dim=-2).square().sum(dim=-1)  # over all pairs; the same ones have cosine 1
    pairs = (~same).sum()
    return ((total - same.sum()) / pairs.clamp(min=1)).masked_fill(pairs == 0, 0.0)


@dataclass(frozen=True)
class AngularDiversity:
    """Push each class away from its nearest neighbor on the sphere (A-TPT, eq. 1)."""

    tau: float = 0.99999

    def __call__(
        self, text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None
    ) -> Float[Tensor, "*b"]:
        """Return minus the mean nearest-neighbor angle."""
        return -mean_nearest_angle(text, same, self.tau)


@dataclass(frozen=True)
class Dispersion:
    """Push the classes away from their centroid (C-TPT)."""

    def __call__(
        self, text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None
    ) -> Float[Tensor, "*b"]:
        """Return minus the mean distance to the centroid."""
        offset = text - text.mean(dim=-2, keepdim=True)
        return -_norm(offset).mean(dim=-1)


@dataclass(frozen=True)
class Orthogonality:
    """Pull each row of the Gram matrix to unit length: what O-TPT's released code computes."""

    def __call__(
        self, text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None
    ) -> Float[Tensor, "*b"]:
        """Return the mean distance of the Gram rows' lengths from one."""
        return (_norm(text @ text.mT) - 1).abs().mean(dim=-1)


@dataclass(frozen=True)
class FrobeniusOrthogonality:
    """Pull the Gram matrix to the identity: what O-TPT's paper writes."""

    def __call__(
        self, text: Float[Tensor, "*b n d"], same: Bool[Tensor, "n n"] | None = None
    ) -> Float[Tensor, "*b"]:
        """Return the squared Frobenius distance of the Gram matrix from the identity."""
        gram = text @ text.mT
        return (gram - torch.eye(gram.shape[-1]).to(gram)).square().sum(dim=(-2, -1))


def _norm(rows: Tensor) -> Tensor:
    """Euclidean length with gradient 0, not NaN, at the origin (one class alone, say)."""
    squared = rows.square().sum(dim=-1)
    zero = squared == 0
    return squared.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)


REGULARIZERS: Mapping[str, type[Term]] = {
    "angular": AngularDiversity,
    "dispersion": Dispersion,
    "orthogonality": Orthogonality,
    "frobenius": FrobeniusOrthogonality,
}


def parse_term(text: str) -> tuple[float, Term]:
    """Read `name:weight` or `name(field=value, …):weight`, as the command line writes a term."""
    head, colon, weight = text.rpartition(":")
    name, _, fields = head.partition("(")
    name = name.strip()
    if not colon or (fields and not fields.rstrip().endswith(")")):
        raise TammesError(f"cannot read the term {text!r}: write it as 'angular(tau=0.999):40'")
    if name not in REGULARIZERS:
        raise UnknownName.of("regularizer", name, REGULARIZERS)
    try:
        call = ast.parse(f"f({fields.rstrip().removesuffix(')')})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("fields are written name=value")
        settings = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
        return float(weight), REGULARIZERS[name](**settings)
    except (SyntaxError, ValueError, TypeError) as problem:
        raise TammesError(f"cannot read the term {text!r}: {problem}") from problem
