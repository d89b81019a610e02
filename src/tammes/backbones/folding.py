"""Arrange a convolutional image tower for a CPU: same features, a third of the time.

A batch norm behind a convolution is an affine map per channel, which the convolution's own weights
can hold. Channels-last is the layout that the CPU's convolution kernels are written for.
TensorFlow's padding, of which a convolution with a stride has more at the end than at the start, is
a copy of the picture for torch; on the mirrored picture it is torch's own padding.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.fusion import fuse_conv_bn_eval


def folded(tower: nn.Module, size: int) -> nn.Module | None:
    """Copy a tower with its batch norms moved into its convolutions; None where it has none."""
    if not any(isinstance(m, nn.BatchNorm2d) for m in tower.modules()):
        return None
    copy = deepcopy(tower).eval()
    pairs = _pairs(copy, size)
    places = {module: name for name, module in copy.named_modules()}
    for convolution, norm in pairs:
        kind = convolution.weight.dtype
        fused = fuse_conv_bn_eval(convolution.float(), norm.float())  # rounded once
        _replace(copy, places[convolution], fused.to(kind))
        _replace(copy, places[norm], _rest(norm))
    whole = _mirrored(copy.requires_grad_(False), size)
    return whole.to(memory_format=torch.channels_last)


def _pairs(tower: nn.Module, size: int) -> list[tuple[nn.Conv2d, Any]]:
    """Find each batch norm that reads what a convolution has just written, by watching one pass."""
    written: list[tuple[Tensor, nn.Conv2d]] = []
    found: list[tuple[nn.Conv2d, Any]] = []

    def wrote(convolution: nn.Module, _: Any, out: Tensor) -> None:
        assert isinstance(convolution, nn.Conv2d)
        written.append((out, convolution))

    def reads(norm: nn.Module, given: tuple[Tensor, ...]) -> None:
        if written and written[-1][0] is given[0] and norm.track_running_stats:
            found.append((written[-1][1], norm))

    hooks = [m.register_forward_hook(wrote) for m in tower.modules() if isinstance(m, nn.Conv2d)]
    hooks += [
        m.register_forward_pre_hook(reads) for m in tower.modules() if isinstance(m, nn.BatchNorm2d)
    ]
    like = next(m for m in tower.modules() if isinstance(m, nn.Conv2d)).weight
    with torch.no_grad():
        tower(torch.zeros(1, 3, size, size).to(like))
    for hook in hooks:
        hook.remove()
    return found


def _rest(norm: Any) -> nn.Module:
    """What a norm does beside normalizing: timm's also drop and activate."""
    after = [getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)]
    return nn.Sequential(*(m for m in after if not isinstance(m, nn.Identity)))


def _replace(tower: nn.Module, place: str, module: nn.Module) -> None:
    parent, _, name = place.rpartition(".")
    setattr(tower.get_submodule(parent), name, module)


# --- the mirrored picture -----------------------------------------------------------------------


class _Mirrored(nn.Module):
    """A tower whose kernels are mirrored, and what it looks at."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, pixels: Tensor) -> Tensor:
        return self.tower(pixels.flip(2, 3))


def _mirrored(tower: nn.Module, size: int) -> nn.Module:
    """Mirror a tower that pads as TensorFlow does, where that changes no answer."""
    padded = {name: m for name, m in tower.named_modules() if _pads_as_tensorflow(m)}
    if not padded or not all(map(_has_a_middle, padded.values())):
        return tower
    copy = deepcopy(tower)
    for name, module in list(copy.named_modules()):
        if isinstance(module, nn.Conv2d):
            module.weight = nn.Parameter(module.weight.flip(2, 3), requires_grad=False)
            if name in padded:
                _replace(copy, name, _with_own_padding(module))
    mirrored = _Mirrored(copy)
    pixels = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
    pixels = pixels.to(next(tower.parameters()))
    with torch.no_grad():
        found, expected = (normalize(one(pixels).flatten(1)) for one in (mirrored, tower))
    return mirrored if torch.allclose(found, expected, atol=1e-4, rtol=0) else tower


def _pads_as_tensorflow(module: nn.Module) -> TypeGuard[nn.Conv2d]:
    from timm.layers import Conv2dSame

    return isinstance(module, Conv2dSame)


def _has_a_middle(convolution: nn.Conv2d) -> bool:
    """Tell kernels that half of their size pads rightly."""
    return all(size % 2 for size in convolution.kernel_size) and set(convolution.dilation) == {1}


def _with_own_padding(convolution: nn.Conv2d) -> nn.Conv2d:
    """Pad by half a kernel at the start, and as far as the stride reaches at the end."""
    height, width = convolution.kernel_size
    own = nn.Conv2d(
        convolution.in_channels, convolution.out_channels, (height, width),
        padding=(height // 2, width // 2), groups=convolution.groups,
        bias=convolution.bias is not None, device="meta",
    )  # fmt: skip
    own.stride = convolution.stride
    own.weight, own.bias = convolution.weight, convolution.bias
    return own
