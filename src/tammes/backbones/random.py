"""Random models of any size: for laws, benchmarks and trying things without weights."""

from __future__ import annotations

import math
from typing import Any

import torch

from tammes.backbones._open_clip import from_open_clip
from tammes.backbones.backbone import Backbone
from tammes.preprocessing import CLIP_MEAN, CLIP_STD


def random_backbone(
    width: int = 32,
    layers: int = 3,
    dim: int = 16,
    *,
    heads: int = 2,
    context_length: int = 77,
    image_size: int = 32,
    causal: bool = True,
    quick_gelu: bool = True,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Backbone:
    """Build a CLIP with random weights; `causal=False` makes a SigLIP-like text tower instead."""
    import open_clip

    text: dict[str, Any] = {
        "context_length": context_length,
        "width": width,
        "heads": heads,
        "layers": layers,
    }
    if not causal:
        text |= {"no_causal_mask": True, "proj_bias": True, "pool_type": "last"}
    vision = {"layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = (open_clip.CLIP if causal else open_clip.CustomTextCLIP)(
            embed_dim=dim,
            vision_cfg={**vision, "image_size": image_size},
            text_cfg=text,
            quick_gelu=quick_gelu,
            init_logit_bias=None if causal else -4.0,
        )
    open_clip.model.set_model_preprocess_cfg(
        model, {"size": image_size, "mean": CLIP_MEAN, "std": CLIP_STD}
    )
    return from_open_clip("random", model.to(device), open_clip.get_tokenizer("ViT-B-32"))


def random_weights(
    architecture: str, device: str | torch.device = "cpu", precision: str = "fp32", seed: int = 0
) -> Backbone:
    """Build one of open_clip's architectures with random weights, to time it or to try code."""
    import open_clip

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = open_clip.create_model(
            architecture, precision=precision, device=device, force_quick_gelu=True
        )
    model.logit_scale.data.fill_(math.log(100))  # where training ends, and where rounding shows
    return from_open_clip(f"{architecture}/random", model, open_clip.get_tokenizer(architecture))


def pocket_sized(device: str | torch.device = "cpu", seed: int = 0) -> Backbone:
    """Build a model of the pocket's shape with random weights."""
    import open_clip

    vision = {"timm_model_name": "tf_efficientnet_lite0", "timm_model_pretrained": False}
    pooling = {"timm_pool": "avg", "timm_proj": "linear", "timm_proj_bias": True}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = open_clip.CLIP(
            embed_dim=256,
            vision_cfg={**vision, **pooling, "image_size": 160},
            text_cfg={"context_length": 77, "width": 256, "heads": 4, "layers": 6},
            init_logit_scale=math.log(100),
        )
    open_clip.model.set_model_preprocess_cfg(
        model, {"size": 160, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    )
    tokenizer = open_clip.get_tokenizer("ViT-B-32")
    return from_open_clip("pocket-sized/random", model.to(device), tokenizer)
