"""What the results depend on: settings that all methods share, and those that tell them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tammes.report.results import Case, Result

HASHES = ("weights", "images", "task", "prompt", "block", "log_probs")


@dataclass(frozen=True)
class Settings:
    """Names and values: once for what is shared, and a table for what is not."""

    shared: Mapping[str, str]
    names: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]


def settings_of(case: Case) -> Settings:
    """Sort the settings of a case by whether its methods share them."""
    flat = {r.method: flatten(r.settings) for r in case.results}
    everywhere = list(dict.fromkeys(name for values in flat.values() for name in values))
    seen = {name: {values.get(name, "–") for values in flat.values()} for name in everywhere}
    shared = {name: found.pop() for name, found in seen.items() if len(found) == 1}
    names = tuple(name for name in everywhere if name not in shared)
    rows = {m: tuple(values.get(n, "–") for n in names) for m, values in flat.items()}
    return Settings(shared, names, rows)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Write nested settings as one level: `views.count`, `lr`."""
    flat: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, "" if name == "method" else f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = _written(name, value)
    return flat


def _written(name: str, value: Any) -> str:
    if name == "terms":
        return " + ".join(f"{weight:g} · {term}" for weight, term in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def distinguish(results: Sequence[Result]) -> tuple[Result, ...]:
    """Name methods that were run twice by what differs; keep one of those that answer alike."""
    kept: list[Result] = []
    for result in results:
        if not any(_alike(result, other) for other in kept):
            kept.append(result)
    groups = {r.method: [o for o in kept if o.method == r.method] for r in kept}
    return tuple(_named(r, groups[r.method]) if len(groups[r.method]) > 1 else r for r in kept)


def _alike(a: Result, b: Result) -> bool:
    pairs = (
        (getattr(a.outcomes, column), getattr(b.outcomes, column))
        for column in ("labels", "predictions", "confidence")
    )
    return a.method == b.method and a.ids == b.ids and all(np.array_equal(x, y) for x, y in pairs)


def _named(result: Result, group: Sequence[Result]) -> Result:
    flat = [flatten(other.settings) for other in group]
    own = flatten(result.settings)
    telling = [
        f"{name} {value}"
        for name, value in own.items()
        if name not in HASHES and len({values.get(name) for values in flat}) > 1
    ]
    words = ", ".join(telling[:3]) or result.key[:6]
    return replace(result, method=f"{result.method} ({words})")
