"""What a check of a benchmark found, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: of what kind, what exactly, what to do.

    `kind` is `missing`, `empty`, `count`, `classes`, `order`, `names`, `refused` or `unreadable`.
    """

    kind: str
    what: str
    advice: str


@dataclass(frozen=True)
class Check:
    """A benchmark as it lies below a root, beside what was published.

    `published` is the size of the part, where one is known; `present` counts the images that are
    there. `notes` is what is in order, and good to know.
    """

    name: str
    part: str
    root: str
    layout: str
    images: int
    present: int
    published: int | None
    classes: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
