"""The mistakes that were claimed most confidently, with their pictures."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tammes.errors import TammesError
from tammes.report.results import Case, Result

SHOWN = 12
SIDE = 160


@dataclass(frozen=True)
class Answer:
    """What one method said."""

    method: str
    predicted: str
    confidence: float
    right: bool


@dataclass(frozen=True)
class Mistake:
    """One image, what it shows, and what every method said, zero-shot first."""

    id: str
    label: str
    answers: tuple[Answer, ...]
    picture: str | None  # a data URI; None where the file cannot be read anymore


def worst_mistakes(case: Case, count: int = SHOWN) -> list[Mistake]:
    """Find the images about which some method was surest while wrong."""
    claimed: dict[str, float] = {}
    for result in case.results:
        outcomes = result.outcomes
        for row in np.flatnonzero(~outcomes.correct):
            name = result.ids[row]
            claimed[name] = max(claimed.get(name, 0.0), float(outcomes.confidence[row]))
    worst = sorted(claimed, key=lambda name: (-claimed[name], name))[:count]
    rows = [{name: i for i, name in enumerate(r.ids)} for r in case.results]
    return [_mistake(case, name, [where.get(name) for where in rows]) for name in worst]


def _mistake(case: Case, name: str, rows: list[int | None]) -> Mistake:
    seen = [(r, row) for r, row in zip(case.results, rows, strict=True) if row is not None]
    result, row = seen[0]
    label = _name(result, int(result.outcomes.labels[row]))
    return Mistake(name, label, tuple(_answer(*pair) for pair in seen), thumbnail(result, name))


def _answer(result: Result, row: int) -> Answer:
    outcomes = result.outcomes
    predicted = _name(result, int(outcomes.predictions[row]))
    right = bool(outcomes.correct[row])
    return Answer(result.method, predicted, float(outcomes.confidence[row]), right)


def _name(result: Result, label: int) -> str:
    return result.classnames[label] if label < len(result.classnames) else f"class {label}"


def thumbnail(result: Result, name: str, side: int = SIDE) -> str | None:
    """Read an image from where the run found it, as a small JPEG in a data URI."""
    from tammes.images import open_image

    if result.root is None:
        return None
    try:
        image = open_image(_source(result.root, name))
        image.thumbnail((side, side))
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=80)
    except (TammesError, OSError, ValueError):  # moved, deleted or never ours to read
        return None
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _source(root: Path, name: str) -> Path | bytes:
    """Find the bytes in a folder, or in a ZIP that stands for one."""
    from tammes.datasets.packs import list_pack

    if root.is_file():
        packed = list_pack(root).get(name)
        return packed.read() if packed else root / name
    return root / name
