"""Gradients of the first step from a start that all images share.

For one step from the shared start the gradient is `Jᵀ · dL/dT`, where J, the Jacobian of the class
features with respect to the context, does not depend on the image. `Pullback` applies Jᵀ to a
batch of cotangents: through the stored graph of one forward pass (a batched vector-Jacobian
product), or, where enough images pay for it, as one matrix product with J itself.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tammes.engine.text import PackedText, TextEncoder
from tammes.objectives import mean_entropy


class Pullback:
    """Class features at the shared start, and gradients through them."""

    def __init__(
        self, encode: TextEncoder, context: Float[Tensor, "m w"], per_pass: int = 32
    ) -> None:
        self._encode, self._per_pass = encode, per_pass
        with torch.enable_grad():
            self._context = context.detach().clone().requires_grad_()
            self._graph = encode(self._context[None])[0]
        self.text: Float[Tensor, "n d"] = self._graph.detach()
        self._jacobian: Tensor | None = None

    @property
    def kind(self) -> str:
        """How gradients are taken: `jacobian` or `vjp`."""
        return "vjp" if self._jacobian is None else "jacobian"

    def __call__(self, cotangents: Float[Tensor, "b n d"]) -> Float[Tensor, "b m w"]:
        """Pull gradients with respect to the features back to the context."""
        # Scaled to 1 on the way: the slopes of confident images would vanish in half precision.
        size = cotangents.abs().amax(dim=(1, 2), keepdim=True)
        unit = cotangents / size.clamp(min=torch.finfo(torch.float32).tiny)
        if self._jacobian is not None:
            flat = unit.flatten(1).to(self._jacobian.dtype) @ self._jacobian
            return flat.float().view(-1, *self._context.shape) * size
        return self._through_graph(unit) * size

    def _through_graph(self, cotangents: Tensor) -> Tensor:
        def pull(cotangent: Tensor, batched: bool) -> Tensor:
            return torch.autograd.grad(
                self._graph,
                self._context,
                cotangent,
                is_grads_batched=batched,
                retain_graph=True,
            )[0]

        if self._encode.vectorizes:
            return torch.cat([pull(some, True) for some in cotangents.split(self._per_pass)])
        return torch.stack([pull(one, False) for one in cotangents])

    def build_jacobian(self) -> None:
        """Store J `[n·d, m·w]`, from one backward pass per feature for all classes together."""
        encode, chunk = self._encode, 32 if self.text.is_cuda else 8
        assert isinstance(encode, PackedText), "only the packed encoder separates the classes"
        n, d = self.text.shape
        with torch.enable_grad():
            contexts = self._context.detach().expand(n, -1, -1).clone().requires_grad_()
            features = encode.per_class(contexts)
        jacobian = self.text.new_empty(n, d, self._context.numel(), dtype=encode.dtype)
        for which in torch.arange(d, device=self.text.device).split(chunk):
            basis = torch.zeros(len(which), n, d, device=self.text.device)
            basis[torch.arange(len(which)), :, which] = 1
            (slopes,) = torch.autograd.grad(
                features, contexts, basis, is_grads_batched=True, retain_graph=True
            )
            jacobian[:, which] = slopes.flatten(2).transpose(0, 1).to(encode.dtype)
        self._jacobian = jacobian.flatten(0, 1)


def entropy_slope(
    logits: Float[Tensor, "b k n"], features: Float[Tensor, "b k d"], scale: Tensor
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n d"]]:
    """Entropy of the mean prediction, and its gradient with respect to the class features."""
    with torch.enable_grad():
        logits = logits.detach().requires_grad_()
        value = mean_entropy(logits)
        (slope,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), scale * (slope.mT @ features)


def jacobian_pays(encode: TextEncoder, text: Tensor, context: Tensor, images: int) -> bool:
    """Compare the multiplications of both ways for this many images, if J fits.

    It may take 2 GiB of a computer's memory, a quarter of what a GPU has free.
    """
    if not isinstance(encode, PackedText):
        return False
    n, d = text.shape
    free = torch.cuda.mem_get_info()[0] // 4 if text.is_cuda else 2**31
    if encode.dtype.itemsize * n * d * context.numel() > free:
        return False
    through_graph = images * encode.tokens * encode.flops_per_token
    build = d * (n * encode.prefix + encode.tokens) * encode.flops_per_token
    return build + images * 2 * n * d * context.numel() < through_graph
