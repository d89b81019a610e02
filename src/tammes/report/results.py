"""What a report is made of: one method's answers on one dataset, side by side with the others'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from tammes.calibration import Outcomes

Role = Literal["zero-shot", "static", "adapted"]


@dataclass(frozen=True, eq=False)
class ClassFeatures:
    """Unit text features of the classes: at the start that images share, and tuned (a mean)."""

    start: Float[np.ndarray, "n d"] | None
    tuned: Float[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class Result:
    """One method on one dataset.

    `role` says what a method may look at: `zero-shot` tunes nothing, `static` tunes without the
    image. `image_independent` is the share of each image's step that the terms decide alone.
    """

    dataset: str
    model: str
    prompt: str
    method: str
    role: Role
    ids: tuple[str, ...]
    outcomes: Outcomes
    classnames: tuple[str, ...]
    asked: int
    image_independent: Float[np.ndarray, " n"] | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    root: Path | None = None
    features: ClassFeatures | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    task: str = ""
    key: str = ""

    @property
    def case(self) -> tuple[str, str, str, str]:
        """What has to be equal for methods to be compared; `task` hashes labels and class names."""
        return self.dataset, self.model, self.prompt, self.task

    @property
    def unanswered(self) -> int:
        """How many images an unfinished run still lacks."""
        return max(0, self.asked - len(self.ids) - len(self.skipped))


@dataclass(frozen=True, eq=False)
class Case:
    """All methods on one dataset, with one model and one prompt: zero-shot first, then static."""

    dataset: str
    model: str
    prompt: str
    results: tuple[Result, ...]

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.dataset} · {self.model} · {self.prompt}"

    @property
    def skipped(self) -> dict[str, str]:
        """The images that some method could not be given, and why."""
        return {k: why for result in self.results for k, why in result.skipped.items()}

    def named(self, method: str) -> Result | None:
        """Look a method up."""
        return next((r for r in self.results if r.method == method), None)

    def reference(self, role: Role) -> Result | None:
        """Find what others are compared to: zero-shot, a static prompt, or TPT."""
        plain = {"zero-shot": "zero-shot", "static": "static-a-tpt", "adapted": "tpt"}[role]
        again = (r for r in self.results if r.method.startswith(f"{plain} ("))  # run twice
        first = (r for r in self.results if r.role == role and role != "adapted")
        return self.named(plain) or next(again, None) or next(first, None)


def align(a: Result, b: Result) -> tuple[Outcomes, Outcomes] | None:
    """Keep the images that both answered, in the same order; None where they share none."""
    if a.ids == b.ids:
        return a.outcomes, b.outcomes
    where = {name: row for row, name in enumerate(b.ids)}
    rows = [(row, where[name]) for row, name in enumerate(a.ids) if name in where]
    if not rows:
        return None
    ours, theirs = np.array(rows).T
    return a.outcomes.take(ours), b.outcomes.take(theirs)
