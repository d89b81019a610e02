"""Compare the engine with the plain per-image loop on one machine, in one run.

    python benchmarks/engine.py                 # CPU, small random CLIP, N = 10, 100, 1000
    python benchmarks/engine.py --images 300    # more images for the engine

Both get the same stored view features and run A-TPT; the loop is `tammes.tune`, which does what the
published codes do per image (77 tokens, all classes, forward + backward + forward). Medians.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import normalize

from tammes import METHODS, Backbone, Engine, Prompt, tune
from tammes.backbones.random import random_backbone
from tammes.datasets import CATALOG


def classnames(count: int) -> list[str]:
    """Real names of real lengths: ImageNet's, or Caltech101's where they are enough."""
    names = CATALOG["imagenet" if count > 100 else "caltech101"].classnames
    return list(names[:count])


def seconds(run: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def compare(backbone: Backbone, count: int, images: int, views: int) -> dict[str, float]:
    prompt = Prompt.from_template(backbone, classnames(count))
    method = METHODS["a-tpt"]
    draw = torch.manual_seed(0)
    features = normalize(torch.randn(images, views, backbone.dim, generator=draw), dim=-1)
    tune(backbone, prompt, method, features[0])
    loop = seconds(lambda: tune(backbone, prompt, method, features[1]), 5 if count < 500 else 3)

    start = time.perf_counter()
    engine = Engine(backbone, prompt, images=images)
    first = engine.predict(features[:1], [method])[0]
    ready = time.perf_counter() - start
    batch = min(images, 32)
    per_batch = seconds(lambda: engine.predict(features[:batch], [method]), 3)
    whole = seconds(lambda: everything(backbone, prompt, features), 1)
    same = tune(backbone, prompt, method, features[0]).logits
    return {
        "classes": count,
        "loop_ms": 1e3 * loop,
        "engine_ms": 1e3 * per_batch / batch,
        "ratio": loop / (per_batch / batch),
        "prepare_ms": 1e3 * ready,
        "all_in_ms": 1e3 * whole / images,
        "all_in_ratio": loop / (whole / images),
        "gradient": engine.gradient,
        "difference": float((first.logits[0] - same).abs().max()),
    }


def everything(backbone: Backbone, prompt: Prompt, features: torch.Tensor) -> None:
    engine = Engine(backbone, prompt, images=len(features))
    for chunk in features.split(32):
        engine.predict(chunk, [METHODS["a-tpt"]])


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
    torch.manual_seed(0)
    size = {"width": chosen.width, "layers": chosen.layers, "dim": chosen.dim}
    backbone = random_backbone(**size, heads=max(1, chosen.width // 64))
    print(f"text tower {size}, {torch.get_num_threads()} threads, {chosen.images} images")
    print("   N   loop ms  engine ms  ratio | preparation ms  all-in ms  ratio | gradient")
    rows = []
    for count in chosen.classes:
        images = chosen.images if count < 500 else min(chosen.images, 64)
        row = compare(backbone, count, images, chosen.views)
        row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(row)
        print(
            f"{count:5d} {row['loop_ms']:9.1f} {row['engine_ms']:9.2f} {row['ratio']:7.1f}x"
            f" | {row['prepare_ms']:12.0f} {row['all_in_ms']:10.2f} {row['all_in_ratio']:6.1f}x"
            f" | {row['gradient']}, peak {row['peak_mb']:.0f} MB, "
            f"logits differ by {row['difference']:.0e}"
        )
    if chosen.out:
        chosen.out.write_text(json.dumps({"model": size, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
