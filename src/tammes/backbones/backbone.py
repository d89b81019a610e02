"""A frozen image and text encoder: tokens to embeddings, embeddings and pixels to features."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from threading import RLock

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from tammes.errors import PromptError
from tammes.preprocessing import Preprocessing


@dataclass(frozen=True)
class Norm:
    """The weights of one LayerNorm."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize the last dimension, in the precision of the norm's own weights."""
        shape = (x.shape[-1],)
        return functional.layer_norm(
            x.to(self.weight.dtype), shape, self.weight, self.bias, self.eps
        ).to(x.dtype)


@dataclass(frozen=True)
class Affine:
    """The weights of one linear map."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Map the last dimension."""
        return functional.linear(x, self.weight, self.bias)

    def parted(self, first: int) -> tuple[Affine, Affine]:
        """Split the outputs into the first few and the rest."""
        if self.bias is None:
            return Affine(self.weight[:first]), Affine(self.weight[first:])
        before = Affine(self.weight[:first], self.bias[:first])
        return before, Affine(self.weight[first:], self.bias[first:])

    def scaled(self, factor: Tensor | float) -> Affine:
        """Multiply the result, for one factor or a column `[out, 1]` of them."""
        column = torch.as_tensor(factor).to(self.weight).expand(len(self.weight), 1)
        bias = None if self.bias is None else self.bias * column[:, 0]
        return Affine(self.weight * column, bias)


@dataclass(frozen=True)
class Layer:
    """One pre-norm transformer block."""

    attention_norm: Norm
    qkv: Affine
    out: Affine
    mlp_norm: Norm
    up: Affine
    activation: Callable[[Tensor], Tensor]
    down: Affine

    def folded(self) -> Layer:
        """Move QuickGELU's constant into the weights.

        `x·sigmoid(1.702·x) = silu(1.702·x) / 1.702`: one kernel where QuickGELU is three.
        """
        if type(self.activation).__name__ not in ("QuickGELU", "QuickGELUActivation"):
            return self
        down = replace(self.down, weight=self.down.weight / 1.702)
        return replace(self, up=self.up.scaled(1.702), activation=functional.silu, down=down)


@dataclass(frozen=True)
class CausalText:
    """A causal text tower that reads its answer at the end token, as plain weights.

    This is what the packed engine computes with; it is `None` for every other kind of tower.
    """

    positions: Float[Tensor, "l w"]
    layers: tuple[Layer, ...]
    heads: int
    final: Norm
    projection: Affine
    ends: Callable[[Tensor], Tensor]

    @property
    def dtype(self) -> torch.dtype:
        """What the matrix products are computed in (norms and embeddings may be wider)."""
        return self.layers[0].qkv.weight.dtype


def largest_id(tokens: Int[Tensor, "n l"]) -> Int[Tensor, " n"]:
    """Find the end token where it has the largest id of the vocabulary (CLIP)."""
    return tokens.argmax(dim=-1)


def first_of(end_id: int) -> Callable[[Tensor], Tensor]:
    """Find the end token by its id; padding may repeat it."""
    return lambda tokens: tokens.eq(end_id).int().argmax(dim=-1)


class Backbone:
    """One CLIP-like model, frozen. Loaders build it; everything else only reads it."""

    def __init__(
        self,
        name: str,
        model: nn.Module,
        *,
        tokenizer: Callable[[list[str], int], Tensor],
        context_length: int,
        token_embedding: nn.Embedding,
        encode_text: Callable[[Tensor], Tensor],
        encode_image: Callable[[Tensor], Tensor],
        arranged: Callable[[Tensor], Tensor] | None = None,
        log_scale: Tensor,
        bias: Tensor | None,
        preprocessing: Preprocessing,
        causal: CausalText | None,
    ) -> None:
        self.name = name
        self.model = model.eval().requires_grad_(False)
        self.context_length = context_length
        self.preprocessing = preprocessing
        self.causal = causal
        self.scale = log_scale.detach().float().exp().reshape(())
        self.bias = None if bias is None else bias.detach().float().reshape(())
        self._tokenizer = tokenizer
        self._token_embedding = token_embedding
        self._encode_text = encode_text
        self._encode_image = encode_image
        self._arranged = arranged or encode_image
        self._lock = RLock()  # the embeddings are swapped in through a hook on the shared model

    def __repr__(self) -> str:
        return f"Backbone({self.name!r}, dim={self.dim}, device={str(self.device)!r})"

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self._token_embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What the matrix products are computed in (norms and embeddings may be wider)."""
        return next(
            m.weight.dtype for m in self.model.modules() if isinstance(m, nn.Linear | nn.Conv2d)
        )

    @property
    def width(self) -> int:
        """Length of one token embedding."""
        return self._token_embedding.embedding_dim

    @property
    def sigmoid(self) -> bool:
        """Whether the model was trained on independent yes/no questions (SigLIP), not a softmax."""
        return self.bias is not None

    @cached_property
    def dim(self) -> int:
        """Length of the joint image and text features."""
        return self.encode_text(*self._sentence("a")).shape[-1]

    @cached_property
    def leading(self) -> int:
        """How many special tokens stand before the first word."""
        one, other = self.tokenize(["a", "the"]).cpu()
        return int((one == other).int().cumprod(0).sum())

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the weights and the preprocessing, whatever the file or the name."""
        digest = hashlib.blake2b(digest_size=16)
        for key, value in sorted(self.model.state_dict().items()):
            digest.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
            digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        digest.update(json.dumps(asdict(self.preprocessing), sort_keys=True).encode())
        return digest.hexdigest()

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n l"]:
        """Turn sentences into padded token rows; a sentence that does not fit is an error."""
        texts = list(sentences)
        tokens = self._tokenizer(texts, self.context_length)
        longer = self._tokenizer(texts, 2 * self.context_length)
        fits = (longer[:, : self.context_length] == tokens).all(dim=1)
        if not fits.all():
            bad = [t for t, ok in zip(texts, fits.tolist(), strict=True) if not ok]
            raise PromptError(
                f"{len(bad)} of {len(texts)} sentences need more than the {self.context_length} "
                f"tokens of {self.name}; the first is {bad[0][:120]!r}. Shorten the class name "
                "or the template."
            )
        return tokens.to(self.device)

    def embed(self, tokens: Int[Tensor, "*n l"]) -> Float[Tensor, "*n l w"]:
        """Look the token embeddings up, in fp32."""
        return functional.embedding(tokens, self._token_embedding.weight).float()

    def encode_text(
        self, tokens: Int[Tensor, "n l"], embeddings: Float[Tensor, "n l w"]
    ) -> Float[Tensor, "n d"]:
        """Encode sentences whose token embeddings may have been replaced; not normalized."""
        swapped = embeddings.to(self._token_embedding.weight.dtype)
        with self._lock:
            hook = self._token_embedding.register_forward_hook(lambda *_: swapped)
            try:
                return self._encode_text(tokens).float()
            finally:
                hook.remove()

    @torch.no_grad()
    def encode_image(self, pixels: Float[Tensor, "b 3 s s"]) -> Float[Tensor, "b d"]:
        """Encode normalized pixels; not normalized."""
        return self._arranged(pixels.to(self.device, self.dtype)).float()

    def encode_image_plainly(self, pixels: Float[Tensor, "b 3 s s"]) -> Float[Tensor, "b d"]:
        """Encode as the library does that the model comes from, with nothing arranged for speed."""
        return self._encode_image(pixels.to(self.device, self.dtype)).float()

    def logits(
        self, features: Float[Tensor, "*v d"], text: Float[Tensor, "*b n d"]
    ) -> Float[Tensor, "*v n"]:
        """Compare unit image features with unit class features, on the model's own scale."""
        logits = self.scale.to(text.device) * (features @ text.mT)
        return logits if self.bias is None else logits + self.bias.to(text.device)

    def _sentence(self, text: str) -> tuple[Tensor, Tensor]:
        tokens = self.tokenize([text])
        return tokens, self.embed(tokens)
