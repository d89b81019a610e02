"""What one step minimizes: the entropy of the mean prediction over the most confident views."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor


def entropy(logits: Float[Tensor, "*b n"]) -> Float[Tensor, "*b"]:
    """Entropy, in nats, of softmax(logits)."""
    log_probs = logits.log_softmax(dim=-1)
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def most_confident(logits: Float[Tensor, "*b v n"], keep: float) -> Int[Tensor, "*b k"]:
    """Indices of the share `keep` of views with the lowest entropy, lowest first, one at least."""
    count = max(1, int(logits.shape[-2] * keep))
    return entropy(logits).argsort(dim=-1, stable=True)[..., :count]


def mean_entropy(logits: Float[Tensor, "*b k n"]) -> Float[Tensor, "*b"]:
    """Entropy of the mean probability over the views (TPT, eq. 3)."""
    log_mean = logits.log_softmax(dim=-1).logsumexp(dim=-2) - math.log(logits.shape[-2])
    log_mean = log_mean.clamp(min=torch.finfo(log_mean.dtype).min)
    return -(log_mean.exp() * log_mean).sum(dim=-1)
