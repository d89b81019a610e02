"""Stage 0: embed every name, meaning and caption with two frozen sentence encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from quantized import restore_all
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

ENCODERS = ("mpnet", "minilm")
TEXT_DIRECTIONS = 512


def load_encoder(folder: Path, device: str) -> nn.Module:
    """Build an encoder from its int8 shards."""
    stored: dict[str, Tensor] = {}
    for shard in sorted(folder.glob("weights-*.safetensors")):
        stored |= load_file(shard)
    model = AutoModel.from_config(AutoConfig.from_pretrained(folder), add_pooling_layer=False)
    known = set(model.state_dict())
    weights = {name: w for name, w in restore_all(stored).items() if name in known}
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert all("position_ids" in name or "token_type_ids" in name for name in missing), missing
    return model.eval().to(device, torch.bfloat16)


@torch.inference_mode()
def embed_sentences(
    folder: Path, texts: Sequence[str], device: str, size: int = 1024
) -> Float[Tensor, "n d"]:
    """Embed texts as sentence-transformers does: mean over the tokens, unit length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = load_encoder(folder, device)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
    out = torch.empty(len(texts), model.config.hidden_size, device=device)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        batch = tokenizer(
            [texts[i] for i in rows],
            padding=True,
            truncation=True,
            max_length=64,
            return_tensors="pt",
        ).to(device)
        states = model(**batch).last_hidden_state.float()
        mask = batch["attention_mask"][..., None]
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
        out[rows] = nn.functional.normalize(mean, dim=-1)
    return out


def sentence_tables(
    encoders: Path, texts: dict[str, list[str]], device: str, chosen: Sequence[str] = ENCODERS
) -> dict[str, Float[Tensor, "n k"]]:
    """Embed each kind of text, encoders side by side, and keep the principal directions."""
    flat = [text for kind in texts.values() for text in kind]
    sides = [embed_sentences(encoders / name, flat, device) for name in chosen]
    rows = torch.cat(sides, dim=1)
    rows = rows - rows.mean(dim=0)
    directions = torch.linalg.eigh(rows.T.cov())[1].flip(1)[:, :TEXT_DIRECTIONS]
    rows = rows @ directions
    rows = rows / rows.std()
    return dict(zip(texts, rows.split([len(kind) for kind in texts.values()]), strict=True))
