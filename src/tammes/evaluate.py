"""A dataset and some methods -> runs, of which every finished piece survives a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tammes.backbones import Backbone
from tammes.datasets import Dataset
from tammes.encoder import Batch
from tammes.engine import Engine
from tammes.errors import DataError, TammesError
from tammes.features import BLOCK, Block, FeatureStore, Progress, encode_blocks
from tammes.method import Method
from tammes.prompts import Prompt, clean_classnames
from tammes.records import Run, describe, rows_of
from tammes.views import ViewSettings


def evaluate(
    dataset: Dataset,
    backbone: Backbone,
    prompt: Prompt,
    methods: Mapping[str, Method],
    out: str | Path,
    *,
    views: ViewSettings | None = None,
    batch: Batch = None,
    workers: int | None = None,
    progress: Progress | None = None,
    keep_log_probs: bool = True,
    block: int = BLOCK,
) -> list[Run]:
    """Answer for every image with every method; what `out` already holds is not computed again.

    Images are encoded once, block by block, for all methods of this and of later calls. Where no
    method looks at random views, only the clean ones are encoded. A crash costs the `block` of
    images at hand, at most. `batch` counts the views per pass of the image encoder; "auto" finds
    the fastest.
    """
    check_fit(dataset, prompt, methods)
    looks = any(method.looks_at_views for method in methods.values())
    settings = (views or ViewSettings()) if looks else ViewSettings(count=1)
    store = FeatureStore(Path(out) / "features", dataset, backbone, settings, block)
    runs = [plan(n, m, store, backbone, prompt, out, keep_log_probs) for n, m in methods.items()]
    runs = [run.begin() for run in runs]
    unfinished = {run.method for run in runs if run.status == "running" or run.missing()}
    if unfinished:
        runs = compute_missing(
            store, backbone, prompt, methods, runs,
            workers=workers, batch=batch, progress=progress,
        )  # fmt: skip
        skipped = store.skipped()
        runs = [run.finish(skipped) if run.method in unfinished else run for run in runs]
    return [_with_answers(run) for run in runs]


def check_fit(dataset: Dataset, prompt: Prompt, methods: Mapping[str, Method]) -> None:
    """Refuse at once what could only fail, or mislead, after the images are encoded."""
    if not methods:
        raise TammesError("no method to evaluate: name one at least")
    for method in methods.values():
        prompt.admit(method)
    asked, known = prompt.classnames, clean_classnames(dataset.classnames)
    if len(asked) != len(known):
        raise DataError(
            f"{dataset.name} has {len(known)} classes, the prompt {len(asked)}: make the prompt "
            "from dataset.classnames"
        )
    if asked != known and sorted(asked) == sorted(known):
        first = next(i for i, (a, b) in enumerate(zip(asked, known, strict=True)) if a != b)
        raise DataError(
            f"{dataset.name} and the prompt hold the same class names in another order: label "
            f"{first} is {known[first]!r} in the one and {asked[first]!r} in the other"
        )


def plan(
    name: str,
    method: Method,
    store: FeatureStore,
    backbone: Backbone,
    prompt: Prompt,
    out: str | Path,
    keep_log_probs: bool = True,
) -> Run:
    """Write down what a run depends on, before anything is computed."""
    dataset = store.dataset
    settings = {
        **store.identity,
        "task": dataset.task,
        "prompt": prompt.fingerprint,
        "method": describe(method),
        "log_probs": keep_log_probs,
    }
    return Run(
        dataset=dataset.name,
        model=backbone.name,
        prompt=prompt.template,
        method=name,
        settings=settings,
        classnames=dataset.classnames,
        images=len(dataset),
        blocks=len(store),
        root=str(dataset.root.absolute()),
        ignored=len(dataset.ignored),
    ).within(out)


def compute_missing(
    store: FeatureStore,
    backbone: Backbone,
    prompt: Prompt,
    methods: Mapping[str, Method],
    runs: Sequence[Run],
    *,
    workers: int | None = None,
    batch: Batch = None,
    progress: Progress | None = None,
) -> list[Run]:
    """Encode the blocks that lack features, and answer for each block that lacks rows.

    A block is answered as soon as it is encoded, in one pass for all methods that lack it, while
    threads render the next pictures. The engine comes first: how it takes gradients depends on the
    free memory, which must not depend on what is left to encode. The records say how, at once.
    """
    lacking = {run.method: set(run.missing()) for run in runs}
    due = set().union(*lacking.values())
    engine = _engine(backbone, prompt, methods, len(store.dataset)) if due else None
    if engine is not None:
        runs = [_told(run, engine, methods) if lacking[run.method] else run for run in runs]
    ready = encode_blocks(
        store, backbone, due, workers=workers, batch=batch, progress=progress, stage="evaluate"
    )
    with closing(ready):
        for index in ready:
            waiting = [run for run in runs if index in lacking[run.method]]
            if engine is not None and waiting:
                _predict_block(engine, store.read(index), waiting, methods, index)
    return list(runs)


def _told(run: Run, engine: Engine, methods: Mapping[str, Method]) -> Run:
    """Say in the record how gradients are taken."""
    way = engine.way(methods[run.method])
    return run if way == run.gradient else replace(run, gradient=way).save()


def _engine(
    backbone: Backbone, prompt: Prompt, methods: Mapping[str, Method], images: int
) -> Engine:
    """Prepare for the whole dataset, not for what is left: a resumed run must compute alike."""
    looks = any(method.looks_at_views for method in methods.values())
    return Engine(backbone, prompt, images=images if looks else 1)


def _predict_block(
    engine: Engine, block: Block, runs: Sequence[Run], methods: Mapping[str, Method], index: int
) -> None:
    """Answer for one block, and keep its rows."""
    if not block.items:
        tables = [pa.table({"id": pa.array([], pa.string())})] * len(runs)
    else:
        outcomes = engine.predict(block.features, [methods[run.method] for run in runs])
        keep = [run.settings["log_probs"] for run in runs]
        tables = [rows_of(block.items, o, k) for o, k in zip(outcomes, keep, strict=True)]
        for run, outcome in zip(runs, outcomes, strict=True):
            if index == 0:
                run.write_classes(start=engine.start, tuned=outcome.text)
    for run, table in zip(runs, tables, strict=True):
        run.write_rows(index, table)


def _with_answers(run: Run) -> Run:
    """Refuse a run in which no image could be read; its record says why for each."""
    if run.status == "failed":
        name, reason = next(iter(run.skipped.items()))
        raise DataError(
            f"{run.dataset}: none of the {run.images} images could be read; {name}: {reason}. "
            f"All reasons are in {run.folder / 'run.json'}"
        )
    return run
