"""How much a benchmark measures: fitted to the device, so that it ends within minutes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Plan:
    """Class counts and sizes; `large` is for the engine alone, 0 leaves it out.

    The engine prepares for `expected` images; `images` share a pass of it at ten classes, fewer at
    more; `together` images share one of the image tower; `photos` are read from files; `compared`
    images are answered in fp32 too.
    """

    classes: tuple[int, ...] = (10, 100, 1000)
    large: int = 21000
    views: int = 64
    expected: int = 5000
    images: int = 1024
    together: int = 8
    photos: int = 256
    compared: int = 1024
    repeats: int = 5

    def batch(self, classes: int) -> int:
        """Say how many images share a pass of the engine at so many classes."""
        share = next((s for n, s in ((10, 1), (100, 2), (1000, 8)) if classes <= n), 64)
        return max(1, self.images // share)


GPU = Plan()
CPU = Plan(
    (10, 100), large=1000, expected=300, images=64, together=1, photos=3, compared=8, repeats=3
)


def plan_for(device: torch.device, quick: bool = False) -> Plan:
    """Choose sizes for a device; a quick run only shows that everything works."""
    plan = GPU if device.type == "cuda" else CPU
    if not quick:
        return plan
    fewer = {"images": plan.images // 4, "photos": plan.photos // 4 + 1}
    return replace(plan, classes=(10,), large=0, repeats=2, compared=plan.compared // 4, **fewer)
