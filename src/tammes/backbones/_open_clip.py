"""Backbones from open_clip: its catalog, its directories, and OpenAI-style checkpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tammes.backbones.backbone import (
    Affine,
    Backbone,
    CausalText,
    Layer,
    Norm,
    first_of,
    largest_id,
)
from tammes.backbones.checkpoint import read_weights
from tammes.backbones.folding import folded
from tammes.backbones.vision import compiled, fast_vit
from tammes.errors import UnknownName, WeightsError
from tammes.preprocessing import CLIP_MEAN, CLIP_STD, Preprocessing


def load_tagged(name: str, device: torch.device, precision: str) -> Backbone:
    """Load `"<architecture>/<pretrained tag>"` through open_clip's own download and cache."""
    import open_clip

    architecture, _, tag = name.rpartition("/")
    pairs = [f"{a}/{t}" for a, t in open_clip.list_pretrained()]
    if name not in pairs:
        same = [p for p in pairs if p.startswith(f"{architecture or tag}/")]
        raise UnknownName.of("model", name, same or pairs)
    # Several tags (OpenAI's among them) were trained with QuickGELU although the architecture of
    # that name says GELU; open_clip only warns, and the features come out wrong.
    settings = open_clip.pretrained.get_pretrained_cfg(architecture, tag)
    return _create(name, architecture, device, precision, tag, settings.get("quick_gelu", False))


def load_hub(name: str, device: torch.device, precision: str) -> Backbone:
    """Load `"hf-hub:<owner>/<model>"` through open_clip."""
    return _create(name, name, device, precision)


def load_directory(path: Path, name: str, device: torch.device, precision: str) -> Backbone:
    """Load a directory that holds `open_clip_config.json` and its weights."""
    import open_clip

    with _without("No pretrained weights loaded"):  # they are read below
        model = open_clip.create_model(
            f"local-dir:{path}", load_weights=False, pretrained_text=False, precision=precision
        )
    _fill(model, read_weights(_weights_in(path)), path)
    tokenizer = open_clip.get_tokenizer(f"local-dir:{path}")
    return from_open_clip(name, model.to(device), tokenizer)


@contextmanager
def _without(start: str) -> Iterator[None]:
    """Keep back what open_clip logs to the root about something that is meant."""

    def passes(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(start)

    root = logging.getLogger()
    root.addFilter(passes)
    try:
        yield
    finally:
        root.removeFilter(passes)


def load_openai(path: Path, name: str, device: torch.device, precision: str) -> Backbone:
    """Load a local OpenAI-style checkpoint, inferring its shapes as OpenAI's loader does."""
    import open_clip

    weights = read_weights(path)
    model = open_clip.CLIP(
        **_openai_settings(weights, path),
        quick_gelu=True,
        cast_dtype=open_clip.get_cast_dtype(precision),
    )
    _fill(model, weights, path)
    if precision != "fp32":
        open_clip.model.convert_weights_to_lp(model, open_clip.get_cast_dtype(precision))
    open_clip.model.set_model_preprocess_cfg(
        model,
        {"size": model.visual.image_size, "mean": CLIP_MEAN, "std": CLIP_STD},
    )
    return from_open_clip(name, model.to(device), open_clip.get_tokenizer("ViT-B-32"))


def _create(
    name: str,
    architecture: str,
    device: torch.device,
    precision: str,
    tag: str | None = None,
    quick_gelu: bool = False,
) -> Backbone:
    import open_clip

    try:
        model = open_clip.create_model(
            architecture,
            pretrained=tag,
            precision=precision,
            device=device,
            force_quick_gelu=quick_gelu,
            require_pretrained=True,
            weights_only=True,
        )
        tokenizer = open_clip.get_tokenizer(architecture)
    except (RuntimeError, OSError, ValueError) as problem:
        raise WeightsError(
            f"could not load {name!r} through open_clip: {str(problem)[:300]}. If this machine is "
            "offline, pass the path of a checkpoint that you have, or use the model 'pocket'."
        ) from problem
    return from_open_clip(name, model, tokenizer)


def from_open_clip(name: str, model: Any, tokenizer: Any) -> Backbone:
    """Make a backbone of any open_clip model and its tokenizer."""
    text = getattr(model, "text", model)
    return Backbone(
        name,
        model,
        tokenizer=lambda texts, length: tokenizer(texts, context_length=length),
        context_length=int(model.context_length) if hasattr(model, "context_length") else 77,
        token_embedding=_token_embedding(text),
        encode_text=model.encode_text,
        encode_image=model.encode_image,
        arranged=_image_tower(model),
        log_scale=model.logit_scale,
        bias=getattr(model, "logit_bias", None),
        preprocessing=_preprocessing(model),
        causal=_causal(model, text),
    )


def _image_tower(model: Any) -> Callable[[Tensor], Tensor] | None:
    """Arrange the image tower for speed; a transformer on a CPU runs as it is."""
    if model.logit_scale.device.type == "cpu":
        return _on_channels_last(folded(model.visual, _preprocessing(model).size))
    if model.logit_scale.device.type != "cuda":
        return None
    fast = fast_vit(model.visual, _layer)
    if fast is not None:
        return fast
    visual = model.visual.to(memory_format=torch.channels_last)
    return _on_channels_last(compiled(visual.forward))


def _on_channels_last(run: Callable[[Tensor], Tensor] | None) -> Callable[[Tensor], Tensor] | None:
    if run is None:
        return None
    return lambda pixels: run(pixels.contiguous(memory_format=torch.channels_last))


def _token_embedding(text: Any) -> nn.Embedding:
    if hasattr(text, "token_embedding"):
        return text.token_embedding
    return text.transformer.get_input_embeddings()  # a Hugging Face text tower


def _preprocessing(model: Any) -> Preprocessing:
    import open_clip

    settings = open_clip.get_model_preprocess_cfg(model)
    size = settings.get("size", 224)
    interpolation = settings.get("interpolation", "bicubic")
    resize = settings.get("resize_mode", "shortest")
    if resize not in ("shortest", "squash"):
        logging.getLogger(__name__).warning("resize mode %r is read as 'shortest'", resize)
        resize = "shortest"
    return Preprocessing(
        size=int(size if isinstance(size, int) else size[0]),
        mean=tuple(settings.get("mean", CLIP_MEAN)),
        std=tuple(settings.get("std", CLIP_STD)),
        interpolation="bilinear" if interpolation == "bilinear" else "bicubic",
        resize=resize,
    )


def _causal(model: Any, text: Any) -> CausalText | None:
    """Read the tower's weights out when it is a plain causal transformer with an end token."""
    from open_clip.transformer import ResidualAttentionBlock, TextTransformer

    pool = getattr(text, "text_pool_type", getattr(text, "pool_type", None))
    plain = (
        (text is model or isinstance(text, TextTransformer))
        and getattr(text, "attn_mask", None) is not None
        and getattr(text, "cls_emb", None) is None
        and pool in ("argmax", "eos")
        and all(type(b) is ResidualAttentionBlock for b in text.transformer.resblocks)
        and all(isinstance(b.ls_1, nn.Identity) for b in text.transformer.resblocks)
    )
    if not plain:
        return None
    end_id = int(getattr(text, "text_eos_id", getattr(text, "eos_id", 0)))
    blocks = text.transformer.resblocks
    return CausalText(
        positions=text.positional_embedding.detach(),
        layers=tuple(_layer(block) for block in blocks),
        heads=blocks[0].attn.num_heads,
        final=_norm(text.ln_final),
        projection=_projection(text.text_projection, text.positional_embedding),
        ends=largest_id if pool == "argmax" else first_of(end_id),
    )


def _layer(block: Any) -> Layer:
    return Layer(
        attention_norm=_norm(block.ln_1),
        qkv=Affine(block.attn.in_proj_weight, block.attn.in_proj_bias),
        out=Affine(block.attn.out_proj.weight, block.attn.out_proj.bias),
        mlp_norm=_norm(block.ln_2),
        up=Affine(block.mlp.c_fc.weight, block.mlp.c_fc.bias),
        activation=block.mlp.gelu,
        down=Affine(block.mlp.c_proj.weight, block.mlp.c_proj.bias),
    )


def _norm(module: Any) -> Norm:
    return Norm(module.weight, module.bias, module.eps)


def _projection(projection: Any, like: Tensor) -> Affine:
    if projection is None:
        return Affine(torch.eye(like.shape[-1]).to(like))
    if isinstance(projection, nn.Linear):
        return Affine(projection.weight, projection.bias)
    return Affine(projection.T)


def _weights_in(path: Path) -> Path:
    names = ("open_clip_model.safetensors", "model.safetensors", "open_clip_pytorch_model.bin")
    found = [path / n for n in names if (path / n).is_file()]
    if not found:
        raise WeightsError(f"{path} holds no weights: looked for {', '.join(names)}")
    return found[0]


def _fill(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Load what the model asks for; extra tensors (masks, sizes) of old archives are left."""
    own = model.state_dict()
    missing = [k for k in own if k not in weights and k != "logit_bias"]
    odd = [k for k, v in own.items() if k in weights and v.shape != weights[k].shape]
    if missing or odd:
        first = (missing or odd)[0]
        raise WeightsError(
            f"{path} does not fit the model: {len(missing)} tensors missing, {len(odd)} of another "
            f"shape; the first is {first!r}"
        )
    model.load_state_dict({k: weights[k] for k in own if k in weights}, strict=False)


def _openai_settings(weights: dict[str, Tensor], path: Path) -> dict[str, Any]:
    """Infer a CLIP's settings from the shapes of its tensors (heads are width // 64)."""
    try:
        text_width = weights["ln_final.weight"].shape[0]
        return {
            "embed_dim": weights["text_projection"].shape[1],
            "vision_cfg": _openai_vision(weights),
            "text_cfg": {
                "context_length": weights["positional_embedding"].shape[0],
                "vocab_size": weights["token_embedding.weight"].shape[0],
                "width": text_width,
                "heads": text_width // 64,
                "layers": _count(weights, "transformer.resblocks."),
            },
        }
    except KeyError as missing:
        raise WeightsError(
            f"{path} is not an OpenAI-style CLIP checkpoint: it has no tensor {missing}. "
            f"It holds {json.dumps(sorted(weights)[:5])} …"
        ) from missing


def _openai_vision(weights: dict[str, Tensor]) -> dict[str, Any]:
    if "visual.proj" in weights:
        width, _, patch, _ = weights["visual.conv1.weight"].shape
        grid = round((weights["visual.positional_embedding"].shape[0] - 1) ** 0.5)
        return {
            "layers": _count(weights, "visual.transformer.resblocks."),
            "width": width,
            "head_width": 64,
            "patch_size": patch,
            "image_size": patch * grid,
        }
    positions = weights["visual.attnpool.positional_embedding"].shape[0] - 1
    return {
        "layers": tuple(_count(weights, f"visual.layer{stage}.") for stage in (1, 2, 3, 4)),
        "width": weights["visual.layer1.0.conv1.weight"].shape[0],
        "image_size": round(positions**0.5) * 32,
    }


def _count(weights: dict[str, Tensor], prefix: str) -> int:
    return len({k[len(prefix) :].split(".")[0] for k in weights if k.startswith(prefix)})
