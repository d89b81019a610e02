"""Every error a user can meet: what was asked, what was found, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TammesError(Exception):
    """The family: catch this to catch everything tammes raises on purpose."""


class UnknownName(TammesError):
    """A name that is in none of our catalogs."""

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        """Say what was asked, the nearest known name, and the known ones."""
        names = list(known)
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        shown = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
        return cls(f"no {kind} {name!r}.{hint} Known: {shown}")


class PromptError(TammesError):
    """Class names, a template or a context that the model cannot read."""


class WeightsError(TammesError):
    """A checkpoint that is missing, unreadable, unsafe or of the wrong shape."""


class ImageError(TammesError):
    """One image that cannot be read; its message is the reason that a run records."""


class DataError(TammesError):
    """A dataset whose files, labels or class names do not fit together."""


class StoreError(TammesError):
    """A folder of results that cannot be written or does not hold what it should."""


class MissingExtra(TammesError):
    """A feature whose optional dependencies are not installed."""

    @classmethod
    def of(cls, feature: str, extra: str, package: str) -> MissingExtra:
        """Name the feature, the package that is missing and the command that installs it."""
        return cls(f"{feature} needs {package}: pip install 'tammes[{extra}]'")
