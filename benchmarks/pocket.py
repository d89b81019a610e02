"""Time what a newcomer waits for: the pocket model on a CPU, from files to answers.

    python benchmarks/pocket.py

`one image` is `ZeroShotClassifier.predict_proba` after loading, medians; `demo` is all that
`tammes demo` does on the 300 bundled images, page included, in a new folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tammes import ZeroShotClassifier, load_backbone
from tammes.benchmark.measuring import commit, machine, peak_gb
from tammes.demo import bundled_images, run_demo
from tammes.images import open_image

REPEATS = 7


def one_image(views: int, method: str) -> dict[str, float]:
    images = bundled_images()
    start = time.perf_counter()
    classifier = ZeroShotClassifier("pocket", method, views=views, augmix=True)
    classifier.fit(images.classnames)
    loaded = time.perf_counter() - start
    photos = [open_image(item.open()) for item in images.subset(REPEATS + 1).items]
    classifier.predict_proba(photos[:1])  # the first answer sizes buffers
    times = []
    for photo in photos[1:]:
        start = time.perf_counter()
        classifier.predict_proba(photo)
        times.append(time.perf_counter() - start)
    return {"load_s": loaded, "answer_s": statistics.median(times), "slowest_s": max(times)}


def demo(views: int) -> float:
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        run_demo(folder, views=views)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--views", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    chosen = parser.parse_args()
    load_backbone("pocket")  # imports and file caches
    found = {
        "machine": machine(torch.device("cpu")),
        "cores": os.cpu_count(),
        "commit": commit(),
        "torch": torch.__version__,
        "views": chosen.views,
        "one image": {m: one_image(chosen.views, m) for m in ("zero-shot", "a-tpt")},
        "demo_s": demo(chosen.views),
        "peak_gb": peak_gb(torch.device("cpu")),
    }
    print(json.dumps(found, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
