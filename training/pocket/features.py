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

# pack -> views; only these packs are read by the training
TRAINING_PACKS = {
    "coco26k-train-160": ("center", "large", "small"),
    "tiny-imagenet-200": ("center",),
}


class PooledTrunk(nn.Module):
    """uint8 pictures `[b, h, w, 3]` in, pooled features `[b, 1280]` out."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, pictures: Tensor) -> Tensor:
        """Normalize to −1…1, run the trunk, pool."""
        pixels = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
        return self.trunk.forward_head(self.trunk.forward_features(pixels), pre_logits=True)


def compile_trunk(trunk: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    """Return the fastest way at hand to run the trunk: a GPU, or OpenVINO on the CPU."""
    model = PooledTrunk(trunk)
    if torch.cuda.is_available():
        model = model.cuda()
        return lambda x: model(torch.from_numpy(x).cuda()).cpu().numpy()
    import openvino

    example = torch.zeros(2, IMAGE_SIZE, IMAGE_SIZE, 3, dtype=torch.uint8)
    converted = openvino.convert_model(model, example_input=example)
    converted.reshape([-1, IMAGE_SIZE, IMAGE_SIZE, 3])
    compiled = openvino.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    return lambda x: compiled(x)[0]


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
    run = compile_trunk(trunk)
    tensors = {"head.weight": weight, "head.bias": bias}
    for name, views in TRAINING_PACKS.items():
        pack = open_pack(options.data, name)
        for view in views:
            tensors[f"{name}.{view}"] = pooled_features(run, pack, view)
    save_file(tensors, options.out / "images.safetensors")


if __name__ == "__main__":
    main()
