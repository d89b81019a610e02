"""The text tower in plain PyTorch, with the tensor names that open_clip gives to its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

START, END = 49406, 49407


@dataclass(frozen=True)
class TowerShape:
    """Sizes of the text tower."""

    width: int = 256
    layers: int = 6
    heads: int = 4
    vocabulary: int = 49408
    positions: int = 77
    dim: int = 256


class Attention(nn.Module):
    """Causal self-attention with `nn.MultiheadAttention`'s parameter names."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * width, width) * width**-0.5)
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.normal_(self.out_proj.weight, std=(width * 2 * layers) ** -0.5)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Float[Tensor, "n l w"]) -> Float[Tensor, "n l w"]:
        """Let every token look at itself and at the ones before it."""
        n, length, width = x.shape
        joint = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = joint.view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(found.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, layers)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}
        )
        nn.init.normal_(self.mlp["c_fc"].weight, std=(2 * width) ** -0.5)
        nn.init.normal_(self.mlp["c_proj"].weight, std=(width * 2 * layers) ** -0.5)

    def forward(self, x: Float[Tensor, "n l w"]) -> Float[Tensor, "n l w"]:
        """Attend, then transform each token."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class TextTower(nn.Module):
    """CLIP's causal text transformer, pooled at the end token."""

    def __init__(self, shape: TowerShape | None = None) -> None:
        super().__init__()
        shape = shape or TowerShape()
        width = shape.width
        self.token_embedding = nn.Embedding(shape.vocabulary, width)
        self.positional_embedding = nn.Parameter(torch.randn(shape.positions, width) * 0.01)
        blocks = [Block(width, shape.heads, shape.layers) for _ in range(shape.layers)]
        self.transformer = nn.ModuleDict({"resblocks": nn.ModuleList(blocks)})
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, shape.dim) * width**-0.5)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(20.0)))
        nn.init.normal_(self.token_embedding.weight, std=0.02)

    def forward(self, tokens: Int[Tensor, "n l"]) -> Float[Tensor, "n d"]:
        """Return unit text features."""
        x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        for block in self.transformer["resblocks"]:
            x = block(x)
        end = x[torch.arange(len(x), device=x.device), tokens.argmax(dim=1)]
        return F.normalize(self.ln_final(end) @ self.text_projection, dim=-1)


def sentence_tokens(*pieces: Int[Tensor, "n l"], length: int) -> Int[Tensor, "n length"]:
    """Join zero-padded pieces row by row, between a start and an end token, without gaps."""
    body = torch.cat(pieces, dim=1)
    order = (body == 0).int().argsort(dim=1, stable=True)  # paddings move to the end
    body = F.pad(body.gather(1, order), (0, length))[:, : length - 2]
    count = (body != 0).sum(dim=1, keepdim=True)
    edge = torch.ones_like(body[:, :1])
    joint = torch.cat([START * edge, body, 0 * edge], dim=1)
    return joint.scatter(1, count + 1, END)
