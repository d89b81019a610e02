"""How hard each term still pushes when the classes crowd: its gradient against their angle.

Text features are made unit before a term sees them, so only the part of its gradient that is
tangent to the sphere can move anything; the radial part is normalized away. That part decides the
answer: O-TPT's whole gradient stays at 2 as the angle shrinks, its tangent part goes to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from tammes.regularizers import REGULARIZERS, Term

SHARES = np.geomspace(1.0, 1e-3, 37)  # how far from their centroid classes are left


@dataclass(frozen=True, eq=False)
class GradientNorms:
    """Gradient norms of terms, over all classes, at mean nearest-neighbor angles in radians."""

    angles: Float[np.ndarray, " k"]
    norms: Mapping[str, Float[np.ndarray, " k"]]


def gradient_norms(
    text: Float[Tensor, "n d"],
    shares: Float[np.ndarray, " k"] = SHARES,
    terms: Mapping[str, Term] | None = None,
    tangent: bool = True,
) -> GradientNorms:
    """Draw unit rows towards their centroid, to each share of their distance, and differentiate.

    `tangent=False` keeps the radial part of the gradients, which no text encoder ever sees.
    """
    chosen = {name: make() for name, make in REGULARIZERS.items()} if terms is None else terms
    crowds = [contract(text, share) for share in shares]
    norms = {
        name: np.array([_norm(term, rows, tangent) for rows in crowds])
        for name, term in chosen.items()
    }
    return GradientNorms(np.array([mean_angle(rows) for rows in crowds]), norms)


def contract(text: Float[Tensor, "n d"], share: float) -> Float[Tensor, "n d"]:
    """Leave unit rows a share of their distance from the centroid, and make them unit again."""
    text = text.double()
    center = text.mean(dim=0, keepdim=True)
    return normalize(center + share * (text - center), dim=-1)


def mean_angle(text: Float[Tensor, "n d"]) -> float:
    """Measure the mean nearest-neighbor angle in fp64 and without a clamp."""
    text = text.double()
    cosine = (text @ text.T).fill_diagonal_(-1.0)
    return float(cosine.max(dim=-1).values.clamp(-1, 1).acos().mean())


def _norm(term: Term, text: Tensor, tangent: bool) -> float:
    rows = text.clone().requires_grad_()
    (slope,) = torch.autograd.grad(term(rows), rows)
    if tangent:
        slope = slope - (slope * text).sum(dim=-1, keepdim=True) * text
    return float(slope.norm())
