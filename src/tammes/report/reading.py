"""Runs from the disk -> results that a report can compare."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from tammes.errors import DataError, TammesError
from tammes.method import METHODS
from tammes.records import Run
from tammes.report.results import Case, ClassFeatures, Result, Role
from tammes.report.settings import distinguish

CLASSES = "classes.npz"


def read_cases(runs: Iterable[Run]) -> tuple[tuple[Case, ...], dict[str, str]]:
    """Read what can be compared, and say why the other runs cannot."""
    results, unread = [], {}
    for run in runs:
        try:
            results.append(read_run(run))
        except TammesError as problem:
            unread[f"{run.method} on {run.dataset}"] = str(problem)
    if not results:
        why = "; ".join(unread.values()) or "evaluate some images first (tammes bench)"
        raise DataError(f"no run to report on: {why}")
    return gather(results), unread


def gather(results: Iterable[Result]) -> tuple[Case, ...]:
    """Put what can be compared together, in the order of the first of each case."""
    cases: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        cases.setdefault(result.case, []).append(result)
    return tuple(
        Case(c[0].dataset, c[0].model, c[0].prompt, distinguish(sorted(c, key=_place)))
        for c in cases.values()
    )


def _place(result: Result) -> tuple[int, int]:
    order = {"zero-shot": 0, "static": 1, "adapted": 2}[result.role]
    names = list(METHODS)
    return order, names.index(result.method) if result.method in names else len(names)


def read_run(run: Run) -> Result:
    """Read the rows of a run."""
    rows = run.rows()
    share = rows["image_independent"].to_numpy().astype(float)
    return Result(
        dataset=run.dataset,
        model=run.model,
        prompt=run.prompt,
        task=str(run.settings.get("task", "")),
        method=run.method,
        role=role_of(run),
        ids=tuple(rows["id"].to_pylist()),
        outcomes=run.outcomes(),
        classnames=run.classnames,
        asked=run.images,
        image_independent=share,
        skipped=dict(run.skipped),
        root=Path(run.root),
        features=read_features(run.folder / CLASSES),
        settings=run.settings,
        versions=run.versions,
        command=shlex.join([Path(run.command[0]).name, *run.command[1:]]) if run.command else "",
        key=run.identity,
    )


def role_of(run: Run) -> Role:
    """Tell what a method may look at from its settings, whatever it is called."""
    method = run.settings.get("method", {})
    if not method.get("steps", 1):
        return "zero-shot"
    return "adapted" if method.get("entropy", 1.0) else "static"


def read_features(path: Path) -> ClassFeatures | None:
    """Read the class features that a run may have kept; a damaged file is as good as none."""
    try:
        with np.load(path) as arrays:
            return ClassFeatures(arrays.get("start"), arrays["tuned"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
