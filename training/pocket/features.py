"""Step 1: run the frozen trunk over the packs once and keep the pooled features."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from packs import IMAGE_SIZE, Pack, batches, open_pack
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm
from trunk import head_of, load_trunk

from tammes.backbones.folding import folded

# pack -> views; only these packs are read by the training
TRAINING_PACKS = {
    "coco26k-train-160": ("center", "small", "coarse"),
    "tiny-imagenet-200": ("center", "coarse"),
}


class PooledTrunk(nn.Module):
    """uint8 pictures `[b, h, w, 3]` in, pooled features `[b, 1280]` out."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, pictures: Tensor) -> Tensor:
        """Normalize to −1…1, run the trunk, pool."""
        pixels = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1  # which is channels-last
        pixels = pixels.to(next(self.trunk.parameters()).dtype)
        return self.trunk.forward_head(self.trunk.forward_features(pixels), pre_logits=True)


def fast_trunk(trunk: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    """Arrange the trunk for the device at hand; int8 rows do not see what bfloat16 rounds."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = PooledTrunk(folded(trunk, IMAGE_SIZE) or trunk).to(device, torch.bfloat16)
    return lambda x: model(torch.from_numpy(x).to(device)).float().cpu().numpy()


@torch.inference_mode()
def pooled_features(run: Callable[[np.ndarray], np.ndarray], pack: Pack, view: str) -> Tensor:
    """Run every picture of a pack through the trunk."""
    steps = tqdm(
        batches(pack, view), total=-(-len(pack.rows) // 64), desc=f"{pack.path.stem} {view}"
    )
    return torch.from_numpy(np.concatenate([run(batch) for batch in steps])).half()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/images"))
    parser.add_argument("--out", type=Path, default=Path(".work/pocket"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    trunk = load_trunk()
    weight, bias = head_of(trunk)
    run = fast_trunk(trunk)
    tensors = {"head.weight": weight, "head.bias": bias}
    for name, views in TRAINING_PACKS.items():
        pack = open_pack(options.data, name)
        for view in views:
            tensors[f"{name}.{view}"] = pooled_features(run, pack, view)
    save_file(tensors, options.out / "images.safetensors")


if __name__ == "__main__":
    main()
