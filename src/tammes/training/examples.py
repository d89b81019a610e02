"""What is learned from: a few images per class, as the features of their views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tammes.backbones import Backbone
from tammes.datasets import Dataset
from tammes.datasets.dataset import name_some
from tammes.encoder import Batch
from tammes.errors import DataError
from tammes.features import FeatureStore, Progress, encode_missing
from tammes.training.recipe import Recipe
from tammes.views import ViewSettings


@dataclass(frozen=True, eq=False)
class Examples:
    """Unit view features of labeled images, in half precision; view 0 is the clean one."""

    features: Float[Tensor, "n v d"]
    labels: Int[Tensor, " n"]
    skipped: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.labels)

    def crops(self, rows: Int[Tensor, " b"], epoch: int) -> Float[Tensor, "b d"]:
        """Give the crops that an epoch looks at: all there are, in turn."""
        return self.features[rows, 1 + epoch % (self.features.shape[1] - 1)].float()


def pick_shots(dataset: Dataset, shots: int, seed: int) -> Dataset:
    """Keep so many images of each class, drawn from (seed, image id); all where there are fewer."""

    def drawn(name: str) -> bytes:
        return blake2b(f"{seed}\0{name}".encode(errors="surrogateescape")).digest()

    kept: list[str] = []
    for label in range(len(dataset.classnames)):
        names = [item.id for item in dataset.items if item.label == label]
        kept += sorted(names, key=drawn)[:shots]
    return dataset.subset(kept)


def fewer_than(shots: int, examples: Examples, classnames: Sequence[str]) -> dict[str, int]:
    """Count the images of the classes that have fewer than asked for."""
    counts = examples.labels.bincount(minlength=len(classnames)).tolist()
    return {name: n for name, n in zip(classnames, counts, strict=True) if n < shots}


def encode_examples(
    dataset: Dataset,
    backbone: Backbone,
    recipe: Recipe,
    folder: Path,
    *,
    batch: Batch = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Examples:
    """Encode the images once; what `folder` already holds is not encoded again."""
    views = ViewSettings(1 + recipe.crops, seed=recipe.seed)
    store = FeatureStore(folder, dataset, backbone, views)
    encode_missing(store, backbone, workers=workers, batch=batch, progress=progress)
    blocks = [store.read(index) for index in range(len(store))]
    found = [block for block in blocks if block.items]
    skipped = {name: why for block in blocks for name, why in block.skipped.items()}
    labels = [item.label for block in found for item in block.items]
    _check_every_class(dataset, labels, skipped)
    features = torch.cat([block.features.half() for block in found])
    return Examples(features, torch.tensor(labels), skipped)


def _check_every_class(dataset: Dataset, labels: list[int], skipped: Mapping[str, str]) -> None:
    absent = [name for i, name in enumerate(dataset.classnames) if i not in set(labels)]
    if absent:
        unread = f" ({len(skipped)} could not be read)" if skipped else ""
        raise DataError(
            f"{dataset.name}: no image to learn from for {len(absent)} of "
            f"{len(dataset.classnames)} classes: {name_some(map(repr, absent))}{unread}. Training "
            "needs one image per class at least"
        )
