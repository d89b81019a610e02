"""Arrange a convolutional image tower for a CPU: same features, a third of the time.

A batch norm behind a convolution is an affine map per channel, which the convolution's own weights
can hold. Channels-last is the layout that the CPU's convolution kernels are written for.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
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
    return copy.requires_grad_(False).to(memory_format=torch.channels_last)


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
