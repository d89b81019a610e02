"""The least arithmetic that an answer needs: what speed is measured against."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from tammes.backbones import Backbone, CausalText
from tammes.prompts import Prompt


def image_flops(backbone: Backbone, skip: bool = True) -> float:
    """Count what one view costs in the image tower.

    With `skip`, a vision transformer that answers with its class token runs its last block for that
    token alone.
    """
    size = backbone.preprocessing.size
    pixels = torch.zeros(1, 3, size, size, device=backbone.device, dtype=backbone.dtype)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        backbone.encode_image_plainly(pixels.requires_grad_())  # no fused kernel hides its products
    return counter.get_total_flops() - (_skipped(backbone) if skip else 0.0)


def _skipped(backbone: Backbone) -> float:
    """Count what the last block does for tokens that nobody reads."""
    visual: Any = getattr(backbone.model, "visual", None)
    blocks = getattr(getattr(visual, "transformer", None), "resblocks", None)
    if not blocks or getattr(visual, "pool_type", None) != "tok":
        return 0.0
    others = len(visual.positional_embedding) - 1
    width = visual.positional_embedding.shape[-1]
    mlp = 2 * blocks[-1].mlp.c_fc.weight.numel()
    return 2.0 * others * (2 * width**2 + mlp) + 4.0 * others * (others + 1) * width


def text_flops(backbone: Backbone, prompt: Prompt) -> float:
    """Count what one context costs: all classes, forward, no token that is not needed."""
    if backbone.causal is None:
        return _padded_flops(backbone, prompt)
    return _packed_flops(backbone.causal, prompt)


def _packed_flops(tower: CausalText, prompt: Prompt) -> float:
    prefix, width = prompt.first + len(prompt.context), tower.positions.shape[1]
    lengths = (tower.ends(prompt.tokens) + 1 - prefix).cpu().double()
    layer = tower.layers[0]
    asking = width**2 + sum(x.weight.numel() for x in (layer.out, layer.up, layer.down))
    telling = 2 * width**2
    tokens, ends = prefix + float(lengths.sum()), len(lengths)
    within = prefix * (prefix + 1) / 2 + float((lengths * (prefix + (lengths + 1) / 2)).sum())
    last = float((lengths + prefix).sum())
    inner = len(tower.layers) - 1
    products = inner * tokens * (asking + telling) + tokens * telling + ends * asking
    return (
        2 * products
        + 4 * width * (inner * within + last)
        + 2 * ends * tower.projection.weight.numel()
    )


def _padded_flops(backbone: Backbone, prompt: Prompt) -> float:
    tokens = prompt.tokens[:1]
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        backbone.encode_text(tokens, backbone.embed(tokens).requires_grad_())
    return counter.get_total_flops() * len(prompt.tokens)


def answer_flops(backbone: Backbone, prompt: Prompt, views: int) -> float:
    """Count one answer from stored features: logits, the gradient by its cheaper way, the text."""
    forward = text_flops(backbone, prompt)
    classes = len(prompt.classnames)
    jacobian = 2.0 * classes * backbone.dim * prompt.context.numel()
    return forward + min(forward, jacobian) + 2.0 * views * classes * backbone.dim
