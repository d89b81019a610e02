"""What a run leaves behind: one JSON record named by its identity, one Parquet row per image.

    OUT/runs/<dataset>--<model>--<method>--<hash>/run.json
                                                  rows/00000.parquet, …

Numbers are computed from the rows, whenever they are asked for. The hash covers everything the rows
depend on, so that rows of two settings can never meet in one folder.
"""

from __future__ import annotations

import io
import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from torch import Tensor

from tammes.calibration import Outcomes, measure
from tammes.datasets import Item
from tammes.engine import Outcome
from tammes.errors import DataError, StoreError
from tammes.method import METHODS, Method
from tammes.objectives import entropy
from tammes.storage import (
    digest,
    is_parquet_of,
    read_parquet,
    slug,
    sweep_partial,
    write_atomically,
    write_parquet,
)

FORMAT = 1
TOP = 5
Status = Literal["running", "finished", "failed"]


@dataclass(frozen=True)
class Run:
    """One method on one dataset with one model: what was asked, and how far it got.

    `settings` holds all that the rows depend on; `root / id` is where an image lies. `skipped` says
    why an image has no row; `ignored` counts the files that were never taken for images. `gradient`
    says how the engine took gradients, and why so; nothing where there are none.
    """

    dataset: str
    model: str
    prompt: str
    method: str
    settings: Mapping[str, Any]
    classnames: tuple[str, ...]
    images: int
    blocks: int
    root: str
    folder: Path = field(default=Path(), compare=False)
    ignored: int = 0
    status: Status = "running"
    skipped: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    gradient: str = ""
    started: str = ""
    finished: str = ""

    @cached_property
    def identity(self) -> str:
        """Hash of everything the rows depend on."""
        return digest([self.dataset, self.model, self.prompt, self.method, self.settings])

    # The record

    def within(self, out: str | Path) -> Run:
        """Give the run its folder."""
        names = "--".join(map(slug, (self.dataset, self.model, self.method)))
        return replace(self, folder=Path(out) / "runs" / f"{names}--{self.identity[:8]}")

    def begin(self) -> Run:
        """Write the record of a run that starts, or go on with the one that is there."""
        if (self.folder / "run.json").is_file():
            found = load_run(self.folder)
            if found.identity != self.identity:
                raise StoreError(f"{self.folder} holds another run: choose another output folder")
            return found if found.root == self.root else replace(found, root=self.root).save()
        return replace(self, versions=versions(), command=tuple(sys.argv), started=now()).save()

    def save(self) -> Run:
        """Write the record."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "folder"}
        record = {"format": FORMAT, "identity": self.identity, **values}
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(self.folder / "run.json", (text + "\n").encode())
        return self

    def finish(self, skipped: Mapping[str, str]) -> Run:
        """Close the record: what was skipped, and the metrics of the rows."""
        if len(skipped) == self.images:
            status: Status = "failed"
            metrics: Mapping[str, float] = {}
        else:
            status, metrics = "finished", self.measure()
        done = replace(self, status=status, skipped=dict(skipped), metrics=metrics, finished=now())
        return done.save()

    # The rows

    def part(self, index: int) -> Path:
        """Name the rows of one block of the dataset."""
        return self.folder / "rows" / f"{index:05d}.parquet"

    def missing(self) -> list[int]:
        """List the blocks without rows."""
        sweep_partial(self.folder / "rows")
        return [i for i in range(self.blocks) if not is_parquet_of(self.part(i), self._about(i))]

    def write_rows(self, index: int, rows: pa.Table) -> None:
        """Keep the rows of one block."""
        write_parquet(self.part(index), rows, self._about(index), compression="zstd")

    def write_classes(self, start: Tensor | None, tuned: Tensor) -> None:
        """Keep the class features before and after tuning, for the report's angle maps."""
        kept: dict[str, Any] = {"tuned": tuned.cpu().numpy()}
        if start is not None:
            kept["start"] = start.cpu().numpy()
        file = io.BytesIO()
        np.savez(file, **kept)
        write_atomically(self.folder / "classes.npz", file.getvalue())

    def rows(self) -> pa.Table:
        """Read the rows that are there, in the order of the dataset."""
        parts = [self.part(i) for i in range(self.blocks)]
        tables = [read_parquet(p).replace_schema_metadata() for p in parts if p.is_file()]
        if not tables:
            raise StoreError(f"{self.folder} holds no rows yet: run it again to finish it")
        filled = [t for t in tables if len(t)] or tables[:1]
        return pa.concat_tables(filled, promote_options="default")  # older rows lack a column

    def outcomes(self) -> Outcomes:
        """Read what the metrics look at."""
        return outcomes_of(self.rows())

    def measure(self) -> dict[str, float]:
        """Compute every metric that the rows allow, and the image-independent share of the step."""
        rows = self.rows()
        found = measure(outcomes_of(rows))
        share = rows["image_independent"].drop_null().to_numpy()
        if len(share):
            found["image_independent"] = float(share.mean())
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def _about(self, index: int) -> Mapping[str, Any]:
        return {"run": self.identity, "index": index}


def describe(method: Method) -> dict[str, Any]:
    """Write a method as data: every field, each term by its own repr."""
    settings = {f.name: getattr(method, f.name) for f in fields(method)}
    return {**settings, "terms": [[weight, repr(term)] for weight, term in method.terms]}


def rows_of(items: Sequence[Item], outcome: Outcome, keep_log_probs: bool = True) -> pa.Table:
    """Write one method's answers for some images as rows."""
    log_probs = outcome.logits.float().cpu().log_softmax(dim=-1)
    confidence, prediction = log_probs.exp().max(dim=-1)
    top, labels = log_probs.exp().topk(min(TOP, log_probs.shape[1]))
    losses = outcome.losses.cpu()
    steps = losses.shape[1] > 0
    blank = np.full(len(items), np.nan, dtype=np.float32)
    columns = {
        "id": pa.array([item.id for item in items], pa.string()),
        "label": pa.array([item.label for item in items], pa.int32()),
        "prediction": pa.array(prediction.int().numpy()),
        "confidence": pa.array(confidence.numpy()),
        "entropy": pa.array(entropy(log_probs).numpy()),
        "angle": _column(outcome.angle.cpu().numpy()),
        "cosine": _column(outcome.cosine.cpu().numpy()),
        "image_independent": _column(outcome.image_independent.cpu().numpy()),
        "loss_first": _column(losses[:, 0].numpy() if steps else blank),
        "loss_last": _column(losses[:, -1].numpy() if steps else blank),
        "kept": _lists(outcome.kept.cpu().short().numpy()),
        "top_labels": _lists(labels.int().numpy()),
        "top_probs": _lists(top.numpy()),
    }
    if keep_log_probs:
        columns["log_probs"] = _lists(log_probs.half().numpy())
    return pa.table(columns)


def _column(values: np.ndarray) -> pa.Array:
    """Make a column in which NaN is a gap."""
    return pa.array(values.astype(np.float32), from_pandas=True)


def _lists(values: np.ndarray) -> pa.Array:
    """Make a column of lists of one length."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def outcomes_of(rows: pa.Table) -> Outcomes:
    """Turn rows into what the metrics look at."""
    if not len(rows):
        raise DataError("no rows: every image was skipped")
    names = ("label", "prediction", "confidence", "angle")
    labels, predictions, confidence, angle = (rows[name].to_numpy() for name in names)
    log_probs = log_probs_of(rows)
    return Outcomes(
        labels, predictions, confidence, None if log_probs is None else np.exp(log_probs), angle
    )


def log_probs_of(rows: pa.Table) -> np.ndarray | None:
    """Read the log-probabilities of all classes back, in fp32, where a run kept them."""
    if "log_probs" not in rows.column_names:
        return None
    values = rows["log_probs"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(rows), -1).astype(np.float32)


def load_run(folder: str | Path) -> Run:
    """Read one record."""
    path = Path(folder) / "run.json"
    try:
        record = json.loads(path.read_bytes())
        found, identity = record.pop("format"), record.pop("identity")
        if found != FORMAT:
            raise StoreError(f"{path}: format {found}, but this version reads format {FORMAT}")
        record |= {name: tuple(record[name]) for name in ("classnames", "command")}
        run = Run(folder=Path(folder), **record)
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StoreError(
            f"{path} is not the record of a run: {problem!r}. Delete its folder to run it again"
        ) from problem
    if run.identity != identity or run.status not in get_args(Status):
        raise StoreError(f"{path} was edited: its settings are not the ones of its rows")
    return run


def load_runs(out: str | Path) -> list[Run]:
    """Read all records below a folder: by dataset and model, methods in the order of METHODS."""
    out = Path(out)
    if not out.is_dir():
        raise StoreError(f"no such folder: {out}")
    order = {name: position for position, name in enumerate(METHODS)}
    found = [load_run(path.parent) for path in sorted(out.rglob("run.json"))]
    return sorted(
        found, key=lambda r: (r.dataset, r.model, order.get(r.method, len(order)), r.method)
    )


def versions() -> dict[str, str]:
    """Say what computed: package, torch, Python and platform."""
    import torch

    from tammes import __version__

    return {
        "tammes": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def now() -> str:
    """Write the time, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
