"""Time every part of the engine on one GPU, in one run, beside the published codes' loop.

    python benchmarks/gpu.py --out gpu.json

Random weights of ViT-B/16 in fp16; 64 views an image; medians. The loop is `tammes.tune` on fp32
weights under autocast, which does the published work per image: 77 tokens for all classes, forward,
backward, forward, and 65 image encodings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import normalize

from tammes import METHODS, Backbone, Engine, Prompt, tune
from tammes.backbones.random import random_weights
from tammes.datasets import CATALOG

VIEWS = 64
IMAGE_TFLOP = VIEWS * 2 * 17.56e9 / 1e12  # multiply-adds of ViT-B/16 at 224, counted once


def classnames(count: int) -> list[str]:
    """Real names of real lengths; past ImageNet's 1000, its names with a number."""
    names = list(CATALOG["imagenet" if count > 100 else "caltech101"].classnames)
    extra = [f"{names[i % 1000]} {i}" for i in range(1000, count)]
    return (names + extra)[:count]


def milliseconds(run: Callable[[], object], repeats: int = 7, warm: int = 2) -> float:
    """Median time of a call, by device events."""
    for _ in range(warm):
        run()
    taken = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def matmul_peak() -> float:
    """Measure what a large half-precision product reaches, in TFLOP/s."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    return 2 * 8192**3 / milliseconds(lambda: a @ b, 20, 3) / 1e9


def image_tower(backbone: Backbone, peak: float) -> dict[str, Any]:
    rows = {}
    for images in (4, 8, 16):
        pixels = torch.randn(images * VIEWS, 3, 224, 224, device="cuda", dtype=torch.float16)
        fast = milliseconds(lambda p=pixels: backbone.encode_image(p)) / images
        rows[images] = {"ms": fast, "tflops": IMAGE_TFLOP / fast * 1e3}
        print(
            f"image tower, {images:2d} images: {fast:.2f} ms/image, "
            f"{IMAGE_TFLOP / fast * 1e3:.0f} TFLOP/s ({IMAGE_TFLOP / fast * 1e5 / peak:.0f} %)"
        )
    with torch.no_grad():
        plain = milliseconds(lambda: backbone.model.encode_image(pixels)) / 16
    print(f"image tower as open_clip runs it: {plain:.2f} ms/image")
    pixels = pixels[:VIEWS]
    with torch.no_grad():
        ours, theirs = backbone.encode_image(pixels), backbone.model.encode_image(pixels).float()
    cosine = float((normalize(ours, dim=-1) * normalize(theirs, dim=-1)).sum(-1).min())
    print(f"least cosine between the two: {cosine:.6f}")
    return {"by_images": rows, "plain_ms": plain, "cosine": cosine}


def stored(backbone: Backbone, count: int, gradient: str, batch: int) -> dict[str, Any]:
    prompt = Prompt.from_template(backbone, classnames(count))
    features = fake_features(backbone, batch)
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    start = time.perf_counter()
    engine = Engine(backbone, prompt, gradient=gradient)
    torch.cuda.synchronize()
    ready = time.perf_counter() - start
    methods = [METHODS["a-tpt"]]
    one = milliseconds(lambda: engine.predict(features, methods), 5) / batch
    five = [METHODS[n] for n in ("zero-shot", "tpt", "c-tpt", "o-tpt", "a-tpt")]
    many = milliseconds(lambda: engine.predict(features, five), 3, 1) / batch
    row = {
        "classes": count, "gradient": gradient, "batch": batch, "prepare_s": ready,
        "ms": one, "images_per_s": 1e3 / one, "five_methods_ms": many,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9,
    }  # fmt: skip
    print(
        f"stored, N={count:5d} {gradient:8s} batch {batch:4d}: {one:.3f} ms/image "
        f"({1e3 / one:,.0f}/s), five methods {many:.3f} ms, ready in {ready:.1f} s, "
        f"peak {row['peak_gb']:.1f} GB"
    )
    return row


def fake_features(backbone: Backbone, images: int) -> torch.Tensor:
    """Views of one image resemble each other, as real ones do."""
    draw = torch.Generator("cuda").manual_seed(0)
    noise = torch.randn(images, VIEWS, backbone.dim, device="cuda", generator=draw)
    return normalize(noise + 2 * noise[:, :1], dim=-1)


def loop(plain: Backbone, count: int) -> dict[str, Any]:
    prompt = Prompt.from_template(plain, classnames(count))
    pixels = torch.randn(VIEWS, 3, 224, 224, device="cuda")

    def one_image() -> None:
        with torch.autocast("cuda", dtype=torch.float16):
            features = normalize(plain._encode_image(pixels).float(), dim=-1)
            tune(plain, prompt, METHODS["a-tpt"], features)
            plain._encode_image(pixels[:1])

    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        plain._encode_image(pixels[:1])
    taken = milliseconds(one_image, 5, 1)
    print(
        f"plain loop, N={count}: {taken:.1f} ms/image, "
        f"peak {torch.cuda.max_memory_allocated() / 1e9:.1f} GB"
    )
    return {"classes": count, "ms": taken}


def agreement(half: Backbone, full: Backbone, count: int) -> dict[str, Any]:
    """Compare fp16 answers with the fp32 specification."""
    names = classnames(count)
    features = fake_features(half, 64)
    (ours,) = Engine(half, Prompt.from_template(half, names)).predict(features, [METHODS["a-tpt"]])
    prompt = Prompt.from_template(full, names)
    (theirs,) = Engine(full, prompt).predict(features, [METHODS["a-tpt"]])
    spec = tune(full, prompt, METHODS["a-tpt"], features[0])
    gap = (ours.probs.max(-1).values - theirs.probs.max(-1).values).abs()
    row = {
        "classes": count,
        "same_argmax": float((ours.logits.argmax(-1) == theirs.logits.argmax(-1)).float().mean()),
        "confidence_gap_max": float(gap.max()),
        "confidence_gap_median": float(gap.median()),
        "engine_spec_fp32": float((theirs.logits[0] - spec.logits).abs().max()),
    }
    print(f"fp16 against fp32, N={count}: {row}")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--large", type=int, default=21000, help="classes for the engine alone")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    peak = matmul_peak()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: matmul {peak:.0f} TFLOP/s")
    half = random_weights("ViT-B-16", "cuda", "fp16")
    full = random_weights("ViT-B-16", "cuda", "fp32")
    full._encode_image = full.model.encode_image  # the published way, not the arranged one
    result: dict[str, Any] = {"peak": peak, "image": image_tower(half, peak), "stored": []}
    for count in chosen.classes:
        batch = {10: 1024, 100: 512}.get(count, 128)
        result["stored"] += [stored(half, count, kind, batch) for kind in ("vjp", "jacobian")]
    result["loop"] = [loop(full, count) for count in chosen.classes]
    result["agreement"] = [agreement(half, full, count) for count in chosen.classes]
    if chosen.large:
        result["stored"].append(stored(half, chosen.large, "vjp", 16))
    if chosen.out:
        chosen.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
