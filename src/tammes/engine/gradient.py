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
    """Class features at the shared start, and gradients through them.

    The graph of one forward pass is kept where it fits. Else classes come in parts, each run again
    when its gradient is asked for.
    """

    def __init__(
        self, encode: TextEncoder, context: Float[Tensor, "m w"], per_pass: int = 32
    ) -> None:
        self._encode, self._per_pass = encode, per_pass
        self._parts = encode.parts(room(context.device))
        self._context = context.detach().clone().requires_grad_()
        self._kept = self._forward(encode) if len(self._parts) == 1 else None
        if self._kept is not None:
            text = self._kept.detach()
        else:
            text = torch.cat([self._forward(part).detach() for part in self._parts])
        self.text: Float[Tensor, "n d"] = text
        self._jacobian: Tensor | None = None

    def _forward(self, part: TextEncoder) -> Tensor:
        with torch.enable_grad():
            return part(self._context[None])[0]

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
        if self._kept is not None:
            return self._pull(self._kept, cotangents)
        total = cotangents.new_zeros(len(cotangents), *self._context.shape)
        for part, own in zip(
            self._parts, cotangents.split([p.classes for p in self._parts], dim=1), strict=True
        ):
            total += self._pull(self._forward(part), own)
        return total

    def _pull(self, graph: Tensor, cotangents: Tensor) -> Tensor:
        def pull(cotangent: Tensor, batched: bool) -> Tensor:
            return torch.autograd.grad(
                graph, self._context, cotangent, is_grads_batched=batched, retain_graph=True
            )[0]

        if self._encode.vectorizes:
            return torch.cat([pull(some, True) for some in cotangents.split(self._per_pass)])
        return torch.stack([pull(one, False) for one in cotangents])

    def build_jacobian(self) -> None:
        """Store J `[n·d, m·w]`."""
        self._jacobian = torch.cat([self._slopes(part) for part in self._parts]).flatten(0, 1)

    def _slopes(self, encode: TextEncoder) -> Float[Tensor, "n d p"]:
        """Differentiate all features of some classes: a backward pass each, for all of them."""
        assert isinstance(encode, PackedText), "only the packed encoder separates the classes"
        n, d, chunk = encode.classes, self.text.shape[1], 32 if self.text.is_cuda else 8
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
        return jacobian


def entropy_slope(
    logits: Float[Tensor, "b k n"], features: Float[Tensor, "b k d"], scale: Tensor
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n d"]]:
    """Entropy of the mean prediction, and its gradient with respect to the class features."""
    with torch.enable_grad():
        logits = logits.detach().requires_grad_()
        value = mean_entropy(logits)
        (slope,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), scale * (slope.mT @ features)


def room(device: torch.device) -> int:
    """How many bytes one thing may take: 2 GiB of a computer, a quarter of what a GPU has free."""
    if device.type != "cuda":
        return 2**31
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (torch.cuda.mem_get_info(device)[0] + idle) // 4  # what torch keeps unused is free too


def jacobian_pays(
    encode: TextEncoder, text: Tensor, context: Tensor, images: int
) -> tuple[bool, str]:
    """Compare the multiplications of both ways for this many images, if J fits; say why."""
    if not isinstance(encode, PackedText):
        return False, "the text tower does not separate the classes"
    if not context.numel():
        return False, "there is no context"
    n, d = text.shape
    size, free = encode.dtype.itemsize * n * d * context.numel(), room(text.device)
    if size > free:
        return False, f"the Jacobian of {size / 1e9:.1f} GB exceeds the {free / 1e9:.1f} GB for it"
    through_graph = images * encode.tokens * encode.flops_per_token
    build = d * (n * encode.prefix + encode.tokens) * encode.flops_per_token
    product = build + images * 2 * n * d * context.numel()
    costs = f"{product / 1e12:.3g} TFLOP with it, {through_graph / 1e12:.3g} without"
    return product < through_graph, f"{images} images cost {costs}"
