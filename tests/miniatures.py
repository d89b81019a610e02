"""Benchmarks in miniature: a few random pictures in the folders that the catalog expects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from tammes.datasets import CATALOG


def make_benchmarks(root: Path, names: Iterable[str], images: int = 3) -> Path:
    """Write so many pictures of each benchmark, of its first classes."""
    for number, name in enumerate(names):
        entry = CATALOG[name]
        folder = root / entry.layouts[0]
        if entry.folders:
            paths = [f"{entry.folders[i]}/{i}.png" for i in range(images)]
        elif entry.split:
            paths = [f"picture {i}.png" for i in range(images)]
            _write_split(folder / entry.split, entry.classnames, paths)
        else:
            raise AssertionError(f"no miniature of {name}")
        for position, path in enumerate(paths):
            _write_picture(folder / path, 100 * number + position)
    return root


def _write_split(path: Path, classnames: tuple[str, ...], files: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    train = [[f"absent {label}.png", label, name] for label, name in enumerate(classnames)]
    test = [[file, label, classnames[label]] for label, file in enumerate(files)]
    path.write_text(json.dumps({"train": train, "val": [], "test": test}))


def _write_picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (5, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((48, 40), Image.Resampling.BICUBIC).save(path)
