"""Runs as an evaluation would leave them, without a model: random answers of plausible methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tammes.datasets import Item
from tammes.engine import Outcome
from tammes.method import METHODS
from tammes.records import Run, describe, rows_of

NAMES = (
    "airplane", "anchor", "ant", "barrel", "bass", "beaver", "binocular", "bonsai", "brain",
    "buddha", "butterfly", "camera", "cannon", "side of a car", "ceiling fan", "cellphone", "chair",
    "crab", "crocodile", "crocodile head", "cup", "dalmatian", "dollar bill", "dolphin",
)  # fmt: skip

# How each method changes the logits: a factor (confidence), and noise (how far it departs).
CHANGES = {
    "zero-shot": (1.0, 0.0),
    "static-a-tpt": (0.97, 0.3),
    "tpt": (1.45, 0.5),
    "c-tpt": (1.15, 0.4),
    "o-tpt": (1.1, 0.4),
    "a-tpt": (0.96, 0.35),
    "c-tpt+a-tpt": (0.95, 0.4),
    "a-tpt-released": (0.55, 0.6),
}
SHARES = {"tpt": np.nan, "zero-shot": np.nan, "static-a-tpt": 1.0}


def fake_runs(
    out: Path,
    images: int = 300,
    classnames: Sequence[str] = NAMES[:20],
    methods: Sequence[str] = tuple(CHANGES),
    dataset: str = "caltech101",
    skipped: Mapping[str, str] | None = None,
    ids: Sequence[str] | None = None,
    root: Path | None = None,
    features: bool = True,
    seed: int = 0,
) -> list[Run]:
    """Write the runs of some methods on the same random images, and return their records."""
    random = np.random.default_rng(seed)
    classes = len(classnames)
    labels = random.integers(classes, size=images)
    logits = random.normal(size=(images, classes)) * 2.2
    logits[np.arange(images), labels] += random.normal(6, 3, size=images)
    ids = ids or [f"{classnames[y]}/image_{i:04d}.jpg" for i, y in enumerate(labels)]
    skipped = skipped or {}
    ids = [*ids[: images - len(skipped)], *skipped]
    items = [Item(name, int(y), Path(name)) for name, y in zip(ids, labels, strict=True)]
    kept = [i for i, item in enumerate(items) if item.id not in skipped]
    runs = []
    for method in methods:
        factor, noise = CHANGES[method]
        moved = factor * (logits + noise * random.normal(size=logits.shape))
        run = _record(out, method, dataset, tuple(classnames), images, root or out / "images")
        answers = _outcome(moved[kept], SHARES.get(method, 0.97), random)
        run = run.begin()
        run.write_rows(0, rows_of([items[i] for i in kept], answers))
        if features:
            start = fake_features(classes, 0.6)
            tuned = start if method == "zero-shot" else fake_features(classes, 0.75)
            run.write_classes(start=start, tuned=tuned)
        runs.append(run.finish(skipped))
    return runs


def _record(
    out: Path, method: str, dataset: str, classnames: tuple[str, ...], images: int, root: Path
) -> Run:
    settings = {
        "weights": "5c1f2a9b77e04d31",
        "images": "90aa12ffe3b1c001",
        "views": {"count": 64, "augmix": False, "seed": 0},
        "task": "1122334455667788",
        "method": describe(METHODS[method]),
    }
    return Run(
        dataset=dataset,
        model="pocket",
        prompt="a photo of a {}.",
        method=method,
        settings=settings,
        classnames=classnames,
        images=images,
        blocks=1,
        root=str(root),
    ).within(out)


def _outcome(logits: np.ndarray, share: float, random: np.random.Generator) -> Outcome:
    count = len(logits)
    shares = np.full(count, share)
    if share < 1:
        shares = np.clip(share + 0.01 * random.normal(size=count), 0, 1)
    return Outcome(
        logits=torch.tensor(logits, dtype=torch.float32),
        angle=torch.tensor(random.normal(0.62, 0.01, size=count), dtype=torch.float32),
        kept=torch.zeros(count, 6, dtype=torch.int64),
        losses=torch.zeros(count, 1),
        image_independent=torch.tensor(shares, dtype=torch.float32),
        text=torch.zeros(logits.shape[1], 2),
        cosine=torch.tensor(random.normal(0.55, 0.02, size=count), dtype=torch.float32),
    )


def fake_features(classes: int, spread: float) -> torch.Tensor:
    """Class features that crowd in families of four, less so with a larger spread."""
    random = np.random.default_rng(1)
    families = random.normal(size=(-(-classes // 4), 64))
    own = random.normal(size=(classes, 64))
    rows = torch.tensor(1.2 + families[np.arange(classes) // 4] + spread * own)
    return torch.nn.functional.normalize(rows.float(), dim=-1)


def fake_images(
    runs: Sequence[Run], sides: Sequence[tuple[int, int]] = ((300, 200), (180, 320))
) -> None:
    """Write a picture where each image of the runs should lie."""
    random = np.random.default_rng(2)
    for position, name in enumerate(runs[0].rows()["id"].to_pylist()):
        path = Path(runs[0].root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 255, size=(6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize(sides[position % len(sides)], Image.Resampling.BICUBIC).save(
            path
        )
