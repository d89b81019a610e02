"""The published codes' work for one image, to compare with: nothing shared, nothing skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone
from tammes.method import METHODS, Method
from tammes.prompts import Prompt
from tammes.tuner import class_features, tune


def answer_plainly(
    backbone: Backbone, prompt: Prompt, pixels: Float[Tensor, "v 3 s s"], method: Method
) -> Float[Tensor, " n"]:
    """Answer for one image as TPT and C-TPT do, in mixed precision on fp32 weights.

    All views are encoded, and the clean one once more; the class sentences go through the tower
    with all their padding, forward, backward and forward.
    """
    with amp(backbone):
        features = normalize(backbone.encode_image_plainly(pixels), dim=-1)
        episode = tune(backbone, prompt, method, features)
        backbone.encode_image_plainly(pixels[:1])
    return episode.logits


def answer_as_released(
    backbone: Backbone, prompt: Prompt, pixels: Float[Tensor, "v 3 s s"]
) -> Float[Tensor, " n"]:
    """Answer as A-TPT's released script for fine-grained sets does.

    Its term has a second forward and backward pass of its own, outside of mixed precision.
    """
    method = METHODS["a-tpt"]
    context = prompt.context.clone().requires_grad_()
    features = class_features(backbone, prompt, context)
    terms = [weight * term(features, prompt.same) for weight, term in method.terms]
    torch.autograd.grad(torch.stack(terms).sum(), [context])
    return answer_plainly(backbone, prompt, pixels, METHODS["tpt"])


def answer_stored(
    backbone: Backbone, prompt: Prompt, features: Float[Tensor, "v d"], method: Method
) -> Float[Tensor, " n"]:
    """Answer as the published codes would, had they kept the views' features."""
    with amp(backbone):
        return tune(backbone, prompt, method, features).logits


@contextmanager
def amp(backbone: Backbone) -> Iterator[None]:
    """Compute products in fp16 where the published codes do: on CUDA."""
    with torch.autocast("cuda", torch.float16, enabled=backbone.device.type == "cuda"):
        yield
