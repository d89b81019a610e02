"""Grids: one method with many settings; what exists is skipped, images are encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from tammes.backbones import Backbone
from tammes.datasets import Dataset
from tammes.errors import TammesError, UnknownName
from tammes.evaluate import evaluate
from tammes.method import METHODS, Method
from tammes.prompts import Prompt
from tammes.records import Run
from tammes.regularizers import REGULARIZERS
from tammes.views import ViewSettings

Grid = Mapping[str, Sequence[Any]]
OF_METHOD = tuple(f.name for f in fields(Method) if f.name != "terms")
OF_VIEWS = tuple(f.name for f in fields(ViewSettings))


def sweep(
    dataset: Dataset,
    backbone: Backbone,
    prompt: Prompt,
    grid: Grid,
    out: str | Path,
    *,
    method: str | Method = "a-tpt",
    views: ViewSettings | None = None,
    **options: Any,
) -> list[Run]:
    """Evaluate a method at every point of a grid, as in `{"weight": [0, 10, 80], "seed": [0, 1]}`.

    A key is a field of `Method` or `ViewSettings`, the name of a regularizer (its weight), or
    `weight` for the only term. `options` are those of `evaluate`.
    """
    known = ("weight", *OF_METHOD, *REGULARIZERS, *OF_VIEWS)
    for key in grid:
        if key not in known:
            raise UnknownName.of("setting to sweep", key, known)
    if isinstance(method, str) and method not in METHODS:
        raise UnknownName.of("method", method, METHODS)
    name, base = (method, METHODS[method]) if isinstance(method, str) else ("method", method)
    variants = {_name(name, p): _apply(base, p) for p in _points(grid, views=False)}
    runs = []
    for point in _points(grid, views=True):
        settings = replace(views or ViewSettings(), **point)
        runs += evaluate(dataset, backbone, prompt, variants, out, views=settings, **options)
    return runs


def _points(grid: Grid, views: bool) -> Iterator[dict[str, Any]]:
    """Yield the points of the part of a grid that concerns the views, or the method."""
    keys = [key for key in grid if (key in OF_VIEWS) == views]
    for values in product(*(grid[key] for key in keys)):
        yield dict(zip(keys, values, strict=True))


def _name(method: str, point: Mapping[str, Any]) -> str:
    """Write a point behind the name of its method."""
    written = ", ".join(f"{key}={value:g}" for key, value in point.items())
    return f"{method} ({written})" if written else method


def _apply(method: Method, point: Mapping[str, Any]) -> Method:
    """Set a method to a point of the grid."""
    for key, value in point.items():
        if key in OF_METHOD:
            method = replace(method, **{key: value})
        else:
            method = _reweigh(method, key, float(value))
    return method


def _reweigh(method: Method, key: str, weight: float) -> Method:
    """Set the weight of a term, which is added if the method lacks it."""
    if key == "weight":
        if len(method.terms) != 1:
            raise TammesError(
                f"'weight' needs a method with one term, {method} has {len(method.terms)}: "
                f"name the term instead: {', '.join(REGULARIZERS)}"
            )
        return replace(method, terms=((weight, method.terms[0][1]),))
    kind = REGULARIZERS[key]
    terms = [(weight if isinstance(t, kind) else w, t) for w, t in method.terms]
    if not any(isinstance(term, kind) for _, term in method.terms):
        terms.append((weight, kind()))
    return replace(method, terms=tuple(terms))
