"""Write the shipped model: open_clip's configuration and tensor names, int8 matrices, fp16 rest."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import open_clip
import torch
from quantized import quantize_matrices, restore_all
from safetensors.torch import load_file, save_file
from torch import Tensor
from tower import TextTower
from trunk import load_trunk

CONTEXT = "a photo of a"
# standard deviation of CLIP's own embeddings of that context: a step of 5e-3 then means the same
CONTEXT_DEVIATION = 0.0141

CONFIG = {
    "model_cfg": {
        "embed_dim": 256,
        "quick_gelu": False,
        "vision_cfg": {
            "timm_model_name": "tf_efficientnet_lite0",
            "timm_model_pretrained": False,
            "timm_pool": "avg",
            "timm_proj": "linear",
            "timm_proj_bias": True,
            "image_size": 160,
        },
        "text_cfg": {
            "context_length": 77,
            "vocab_size": 49408,
            "width": 256,
            "heads": 4,
            "layers": 6,
        },
    },
    "preprocess_cfg": {
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    },
}


def rescale(weights: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    """Shrink the residual stream of a pre-norm tower, which its layer norms undo."""
    written = (".attn.out_proj.", ".mlp.c_proj.")
    embeddings = ("token_embedding.weight", "positional_embedding")
    return {
        name: w * factor if name in embeddings or any(part in name for part in written) else w
        for name, w in weights.items()
    }


def context_deviation(weights: dict[str, Tensor]) -> float:
    """Return the standard deviation of the context's token embeddings."""
    tokens = open_clip.tokenizer.SimpleTokenizer().encode(CONTEXT)
    return weights["token_embedding.weight"][tokens].std().item()


def assemble(trained: Path) -> dict[str, Tensor]:
    """Join the trained tensors with the trunk under open_clip's names."""
    weights = restore_all(load_file(trained / "tokens.safetensors"))
    weights |= restore_all(load_file(trained / "rest.safetensors"))
    weights = rescale(weights, CONTEXT_DEVIATION / context_deviation(weights))
    trunk = load_trunk().state_dict()
    kept = {f"visual.trunk.{name}": w for name, w in trunk.items() if "classifier" not in name}
    return weights | kept


def check(weights: dict[str, Tensor], stored: dict[str, Tensor], trained: Path) -> None:
    """Load what was stored with plain open_clip and compare it with the tower that was trained."""
    model = open_clip.CLIP(**CONFIG["model_cfg"]).eval()
    model.load_state_dict(restore_all(stored))
    tower = TextTower()
    original = restore_all(load_file(trained / "tokens.safetensors"))
    original |= restore_all(load_file(trained / "rest.safetensors"))
    tower.load_state_dict({n: w for n, w in original.items() if not n.startswith("visual.")})
    tokens = open_clip.tokenize(["a photo of a cat.", "a red bus on a street", "okapi"])
    with torch.inference_mode():
        ours = tower.eval()(tokens)
        theirs = torch.nn.functional.normalize(model.encode_text(tokens), dim=-1)
    print(f"least cosine to the trained tower: {(ours * theirs).sum(dim=1).min():.4f}")
    print(
        f"scale {model.logit_scale.exp():.2f}, context deviation {context_deviation(weights):.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trained", type=Path, default=Path(".work/pocket/trained/model"))
    parser.add_argument("--out", type=Path, default=Path("src/tammes/assets/pocket"))
    options = parser.parse_args()
    weights = assemble(options.trained)
    stored = {name: w.contiguous() for name, w in quantize_matrices(weights).items()}
    check(weights, stored, options.trained)
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(stored, options.out / "model.safetensors", metadata={"format": "pt"})
    (options.out / "open_clip_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    size = sum(file.stat().st_size for file in options.out.iterdir())
    print(f"{options.out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
