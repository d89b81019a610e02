"""Compare the engine with the plain per-image loop on a CPU, both on the same stored features.

    python benchmarks/engine.py                 # small random CLIP, N = 10, 100, 1000
    python benchmarks/engine.py --images 300    # images for the engine, all preparation counted

Both run A-TPT; the loop is `tammes.tune`, which does what the published codes do per image (77
tokens, all classes, forward + backward + forward). Medians. `tammes benchmark` measures everything
else: pixels, files, GPUs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tammes import METHODS, Backbone, Engine, Prompt, tune
from tammes.backbones.random import random_backbone
from tammes.benchmark.measuring import machine, median_ms, peak_gb, reset_peak, seconds
from tammes.benchmark.workload import classnames, drawn_features

METHOD = METHODS["a-tpt"]
CPU = torch.device("cpu")
TOGETHER = 32


def compare(backbone: Backbone, count: int, images: int, views: int) -> dict[str, Any]:
    prompt = Prompt.from_template(backbone, classnames(count))
    text = Engine(backbone, prompt).start
    assert text is not None
    features = drawn_features(text, float(backbone.scale), images, views)
    loop = median_ms(lambda: tune(backbone, prompt, METHOD, features[1]), CPU, 3)
    reset_peak(CPU)
    engine = Engine(backbone, prompt, images=images)
    batch = features[:TOGETHER]
    first = engine.predict(batch[:1], [METHOD])[0]
    per_image = median_ms(lambda: engine.predict(batch, [METHOD]), CPU, 3) / len(batch)
    all_in = 1e3 * seconds(lambda: everything(backbone, prompt, features), CPU) / images
    spec = tune(backbone, prompt, METHOD, features[0]).logits
    return {
        "classes": count,
        "images": images,
        "loop_ms": loop,
        "engine_ms": per_image,
        "ratio": loop / per_image,
        "all_in_ms": all_in,
        "all_in_ratio": loop / all_in,
        "gradient": engine.gradient,
        "difference": float((first.logits[0] - spec).abs().max()),
        "peak_mb": 1e3 * peak_gb(CPU),
    }


def everything(backbone: Backbone, prompt: Prompt, features: Tensor) -> None:
    engine = Engine(backbone, prompt, images=len(features))
    for chunk in features.split(TOGETHER):
        engine.predict(chunk, [METHOD])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=300, help="images for the engine")
    parser.add_argument("--views", type=int, default=64)
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    chosen = parser.parse_args()
    size = {"width": chosen.width, "layers": chosen.layers, "dim": chosen.dim}
    backbone = random_backbone(**size, heads=max(1, chosen.width // 64))
    print(f"{machine(CPU)}; text tower {size}")
    print("   N  images   loop ms  engine ms  ratio | all in ms  ratio | gradient")
    rows = []
    for count in chosen.classes:
        images = chosen.images if count < 500 else min(chosen.images, 64)
        rows.append(row := compare(backbone, count, images, chosen.views))
        print(
            f"{count:4d} {images:7d} {row['loop_ms']:9.1f} {row['engine_ms']:10.2f}"
            f" {row['ratio']:6.1f} | {row['all_in_ms']:9.2f} {row['all_in_ratio']:6.1f}"
            f" | {row['gradient']}, peak {row['peak_mb']:.0f} MB,"
            f" logits differ by {row['difference']:.0e}",
            flush=True,
        )
        if chosen.out:
            chosen.out.write_text(json.dumps({"model": size, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
