"""Backbones from Hugging Face transformers: CLIPModel and SiglipModel (extra `hf`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tammes.backbones.backbone import (
    Affine,
    Backbone,
    CausalText,
    Layer,
    Norm,
    first_of,
    largest_id,
)
from tammes.errors import MissingExtra, WeightsError
from tammes.preprocessing import Preprocessing

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def load_transformers(source: str, name: str, device: torch.device, precision: str) -> Backbone:
    """Load a CLIPModel or SiglipModel directory or hub name."""
    try:
        import transformers
    except ImportError as missing:
        raise MissingExtra.of("a transformers model", "hf", "transformers") from missing
    try:
        model = transformers.AutoModel.from_pretrained(source, dtype=DTYPES[precision])
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        processor = transformers.AutoImageProcessor.from_pretrained(source)
    except (OSError, ValueError, RuntimeError) as problem:
        raise WeightsError(
            f"transformers could not load {source!r}: {str(problem)[:300]}. The directory needs "
            "config.json, model.safetensors, tokenizer files and preprocessor_config.json."
        ) from problem
    if not hasattr(model, "get_text_features") or not hasattr(model, "logit_scale"):
        raise WeightsError(
            f"{source!r} is a {type(model).__name__}, not a CLIPModel or SiglipModel"
        )
    return _wrap(name, model.to(device), tokenizer, processor)


def _wrap(name: str, model: Any, tokenizer: Any, processor: Any) -> Backbone:
    text = model.text_model
    return Backbone(
        name,
        model,
        tokenizer=_tokenizer(tokenizer),
        context_length=int(model.config.text_config.max_position_embeddings),
        token_embedding=text.embeddings.token_embedding,
        encode_text=lambda tokens: _pooled(model.get_text_features(input_ids=tokens)),
        encode_image=lambda pixels: _pooled(model.get_image_features(pixel_values=pixels)),
        log_scale=model.logit_scale,
        bias=getattr(model, "logit_bias", None),
        preprocessing=_preprocessing(processor),
        causal=_causal(model) if model.config.model_type == "clip" else None,
    )


def _pooled(output: Any) -> Tensor:
    """Unwrap the features: a tensor in older releases of transformers, a record in newer."""
    return output if isinstance(output, Tensor) else output.pooler_output


def _tokenizer(tokenizer: Any) -> Callable[[list[str], int], Tensor]:
    def tokens(texts: list[str], length: int) -> Tensor:
        padded = tokenizer(
            texts, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        )
        return padded["input_ids"]

    return tokens


def _preprocessing(processor: Any) -> Preprocessing:
    crops = bool(getattr(processor, "do_center_crop", False))
    size = processor.crop_size if crops else processor.size
    side = size.get("height") or size.get("shortest_edge")
    bilinear = int(getattr(processor, "resample", 3)) == 2
    return Preprocessing(
        size=int(side),
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
        interpolation="bilinear" if bilinear else "bicubic",
        resize="shortest" if crops else "squash",
    )


def _causal(model: Any) -> CausalText:
    text, end_id = model.text_model, model.config.text_config.eos_token_id
    legacy = end_id == 2  # early configurations: the end token is the largest id of its row
    return CausalText(
        positions=text.embeddings.position_embedding.weight,
        layers=tuple(_layer(block) for block in text.encoder.layers),
        heads=model.config.text_config.num_attention_heads,
        final=_norm(text.final_layer_norm),
        projection=Affine(model.text_projection.weight),
        ends=largest_id if legacy else first_of(end_id),
    )


def _layer(block: Any) -> Layer:
    attention = block.self_attn
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    return Layer(
        attention_norm=_norm(block.layer_norm1),
        qkv=Affine(torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])),
        out=Affine(attention.out_proj.weight, attention.out_proj.bias),
        mlp_norm=_norm(block.layer_norm2),
        up=Affine(block.mlp.fc1.weight, block.mlp.fc1.bias),
        activation=block.mlp.activation_fn,
        down=Affine(block.mlp.fc2.weight, block.mlp.fc2.bias),
    )


def _norm(module: Any) -> Norm:
    return Norm(module.weight, module.bias, module.eps)
