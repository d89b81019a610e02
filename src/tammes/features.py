"""The store of view features: every image is encoded once, whatever methods come later.

A store is a folder of Parquet shards `00000.parquet`, … One shard holds one block, a fixed stretch
of the dataset: a resumed run recomputes the missing blocks and ends with the same files. What the
features depend on (weights, images, views) names the folder and is written into every shard.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor

from tammes.backbones import Backbone
from tammes.datasets import Dataset, Item
from tammes.encoder import Batch, ImageEncoder
from tammes.storage import digest, is_parquet_of, read_parquet, slug, sweep_partial, write_parquet
from tammes.views import ViewSettings, device_renders

FORMAT = 1  # raise it when the same settings give other features
BLOCK = 64  # images per shard: what a crash can cost


class Progress(Protocol):
    """Told how many of how many images a stage has done."""

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Take note; called from the thread that computes."""
        ...


@dataclass(frozen=True, eq=False)
class Block:
    """Some images of a dataset: unit features of those that could be read, reasons for the rest."""

    items: tuple[Item, ...]
    features: Float[Tensor, "b v d"]
    skipped: Mapping[str, str]


class FeatureStore:
    """View features of one dataset, under one model and one choice of views."""

    def __init__(
        self,
        root: str | Path,
        dataset: Dataset,
        backbone: Backbone,
        settings: ViewSettings | None = None,
        block: int = BLOCK,
    ) -> None:
        self.settings = settings or ViewSettings()
        self.dataset, self.block = dataset, block
        self.identity: Mapping[str, Any] = {
            "format": FORMAT,
            "weights": backbone.fingerprint,
            "images": dataset.fingerprint,
            "views": asdict(self.settings),
            "block": block,
        }
        if device_renders(backbone.device):
            self.identity = {**self.identity, "rendered": "device"}  # a level off Pillow, at times
        name = "--".join((slug(dataset.name), slug(backbone.name), digest(self.identity)))
        self.folder = Path(root) / name
        sweep_partial(self.folder)

    def __len__(self) -> int:
        """Count the blocks."""
        return -(-len(self.dataset) // self.block)

    def items(self, index: int) -> tuple[Item, ...]:
        """List the images of a block."""
        return self.dataset.items[index * self.block : (index + 1) * self.block]

    def path(self, index: int) -> Path:
        """Name the shard of a block."""
        return self.folder / f"{index:05d}.parquet"

    def missing(self) -> list[int]:
        """List the blocks that have no shard, or a truncated or foreign one."""
        return [i for i in range(len(self)) if not is_parquet_of(self.path(i), self._about(i))]

    def write(self, index: int, rows: Sequence[Float[Tensor, "v d"] | str]) -> None:
        """Keep a block: for each image its features, or the reason why there are none."""
        found = [row for row in rows if isinstance(row, Tensor)]
        width = found[0].numel() * 2 if found else 0
        halves = [row.half().numpy().tobytes() if isinstance(row, Tensor) else None for row in rows]
        table = pa.table(
            {
                "id": pa.array([item.id for item in self.items(index)]),
                "features": pa.array(halves, pa.binary(width or -1)),
                "error": pa.array([row if isinstance(row, str) else None for row in rows]),
            }
        )
        plain = {"use_dictionary": False, "write_statistics": False, "compression": "none"}
        write_parquet(self.path(index), table, self._about(index), **plain)

    def read(self, index: int) -> Block:
        """Read a block back, in fp32."""
        table = read_parquet(self.path(index)).combine_chunks()
        errors = table["error"].to_pylist()
        readable = np.array([error is None for error in errors])
        items = self.items(index)
        return Block(
            tuple(item for item, fine in zip(items, readable, strict=True) if fine),
            _matrix(table["features"], readable, self.settings.count),
            {i.id: e for i, e in zip(items, errors, strict=True) if e is not None},
        )

    def skipped(self) -> dict[str, str]:
        """Gather the images without features, and why, without reading any feature."""
        found: dict[str, str] = {}
        for index in range(len(self)):
            errors = read_parquet(self.path(index), ["error"])["error"].to_pylist()
            pairs = zip(self.items(index), errors, strict=True)
            found |= {item.id: error for item, error in pairs if error is not None}
        return found

    def _about(self, index: int) -> Mapping[str, Any]:
        """Say what a shard holds, for whoever finds it."""
        return {**self.identity, "index": index}


def _matrix(column: pa.ChunkedArray, readable: np.ndarray, views: int) -> Tensor:
    """View the bytes of a column as one tensor, without a Python object per image."""
    if not readable.any():
        return torch.empty(0, views, 0)
    halves = np.frombuffer(column.chunk(0).buffers()[1], dtype="<f2")
    return torch.from_numpy(halves.reshape(len(readable), views, -1)[readable].astype(np.float32))


def encode_missing(
    store: FeatureStore,
    backbone: Backbone,
    *,
    workers: int | None = None,
    batch: Batch = None,
    progress: Progress | None = None,
) -> None:
    """Decode, render and encode every block that the store lacks."""
    for _ in encode_blocks(store, backbone, workers=workers, batch=batch, progress=progress):
        pass


def encode_blocks(
    store: FeatureStore,
    backbone: Backbone,
    also: Collection[int] = (),
    *,
    workers: int | None = None,
    batch: Batch = None,
    progress: Progress | None = None,
    stage: str = "encode",
) -> Generator[int]:
    """Encode the blocks that the store lacks; yield each, and those named `also`, once it is there.

    Threads render, a few pictures ahead, while the model runs on at most `batch` views, and while
    whoever takes the blocks works on them: memory does not grow with the dataset.
    """
    missing, total = set(store.missing()), len(store.dataset)
    due = sorted(missing | set(also))
    done = total - sum(len(store.items(index)) for index in due)
    report = progress or (lambda *_: None)
    items = (item for index in due if index in missing for item in store.items(index))

    def features() -> Generator[Float[Tensor, "v d"] | str]:
        encoder = ImageEncoder(backbone, batch)
        yield from encoder.ahead(items, store.settings, workers, store.block)

    with closing(features()) as encoded:
        for index in due:
            size = len(store.items(index))
            if index in missing:
                rows: list[Tensor | str] = []
                for row in islice(encoded, size):
                    rows.append(row)
                    report(done + len(rows), total, stage)
                store.write(index, rows)
            yield index
            done += size
            if index not in missing:
                report(done, total, stage)
