"""The image tower of a CLIP ViT, arranged for a GPU: same weights, same features, less work.

Patches are one matrix product, blocks are compiled once for all layers, attention asks cuDNN first
(the fastest kernel for 197 tokens), and the last block runs for the pooled token only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tammes.backbones.backbone import Affine, Layer, Norm
from tammes.backbones.compiling import Compiled, fill

KERNELS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


class FastViT:
    """A ViT whose answer is its class token."""

    def __init__(
        self,
        patches: Float[Tensor, "w 3 p p"],
        token: Float[Tensor, " w"],
        positions: Float[Tensor, "t w"],
        before: Norm,
        layers: Sequence[Layer],
        after: Norm,
        projection: Affine,
        heads: int,
    ) -> None:
        self._side = patches.shape[-1]
        self._patches = Affine(patches.flatten(1))
        self._token, self._positions = token, positions
        self._before, self._after, self._projection = before, after, projection
        self._layers = [layer.folded() for layer in layers]
        self._heads = heads
        self._block, self._embed = Compiled(_block), Compiled(_embed)

    @torch.no_grad()
    def __call__(self, pixels: Float[Tensor, "b 3 s s"]) -> Float[Tensor, "b d"]:
        """Encode normalized pixels."""
        full = fill(pixels) if self._block.works else pixels
        tokens = self._embed(
            full, self._side, self._patches, self._token, self._positions, self._before
        )
        with sdpa_kernel(KERNELS, set_priority=True):
            for layer in self._layers[:-1]:
                tokens = self._block(tokens, layer, self._heads)
            pooled = _pooled_block(tokens, self._layers[-1], self._heads)
        return self._projection(self._after(pooled[: len(pixels)]))


def compiled(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Compile a function of a batch, which then comes in few sizes."""
    run = Compiled(function)
    return lambda batch: run(fill(batch))[: len(batch)] if run.works else run(batch)


def fast_vit(visual: Any, layer: Callable[[Any], Layer]) -> FastViT | None:
    """Arrange an open_clip vision transformer, where it is a plain one."""
    from open_clip.transformer import LayerNorm, LayerNormFp32, VisionTransformer

    plain = (
        isinstance(visual, VisionTransformer)
        and visual.attn_pool is None
        and visual.pool_type == "tok"
        and isinstance(visual.patch_dropout, nn.Identity)
        and all(hasattr(block, "attn") for block in visual.transformer.resblocks)
        and all(isinstance(block.ls_1, nn.Identity) for block in visual.transformer.resblocks)
        and isinstance(visual.ln_pre, LayerNorm | LayerNormFp32)
    )
    if not plain:
        return None
    blocks = visual.transformer.resblocks
    return FastViT(
        visual.conv1.weight,
        visual.class_embedding,
        visual.positional_embedding,
        Norm(visual.ln_pre.weight, visual.ln_pre.bias, visual.ln_pre.eps),
        [layer(block) for block in blocks],
        Norm(visual.ln_post.weight, visual.ln_post.bias, visual.ln_post.eps),
        Affine(visual.proj.T),
        blocks[0].attn.num_heads,
    )


def _embed(
    pixels: Tensor, side: int, patches: Affine, token: Tensor, positions: Tensor, norm: Norm
) -> Tensor:
    b, c, s, _ = pixels.shape
    grid = s // side
    cut = pixels.view(b, c, grid, side, grid, side).permute(0, 2, 4, 1, 3, 5)
    rows = patches(cut.reshape(b, grid * grid, c * side * side))
    first = token.to(rows.dtype).expand(b, 1, -1)
    return norm(torch.cat([first, rows], dim=1) + positions.to(rows.dtype))


def _block(tokens: Tensor, layer: Layer, heads: int) -> Tensor:
    b, t, w = tokens.shape
    qkv = layer.qkv(layer.attention_norm(tokens)).view(b, t, 3, heads, w // heads)
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    attended = functional.scaled_dot_product_attention(queries, keys, values)
    tokens = tokens + layer.out(attended.transpose(1, 2).reshape(b, t, w))
    return tokens + layer.down(layer.activation(layer.up(layer.mlp_norm(tokens))))


def _pooled_block(tokens: Tensor, layer: Layer, heads: int) -> Tensor:
    """Run a block for the class token, which needs everybody's keys and values and nothing else."""
    b, t, w = tokens.shape
    normed = layer.attention_norm(tokens)
    ask, tell = layer.qkv.parted(w)
    queries = ask(normed[:, :1]).view(b, 1, heads, w // heads).transpose(1, 2)
    keys, values = tell(normed).view(b, t, 2, heads, w // heads).permute(2, 0, 3, 1, 4).unbind(0)
    attended = functional.scaled_dot_product_attention(queries, keys, values)
    first = tokens[:, 0] + layer.out(attended.transpose(1, 2).reshape(b, w))
    return first + layer.down(layer.activation(layer.up(layer.mlp_norm(first))))
