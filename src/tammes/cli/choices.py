"""Class names and methods, as a command line gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tammes.errors import DataError, TammesError

if TYPE_CHECKING:
    from tammes.method import Method


def read_classes(classes: str | None, file: Path | None) -> list[str]:
    """Take class names from the command line or from a file."""
    if classes is not None and file is None:
        return [name.strip() for name in classes.split(",")]
    if file is not None and classes is None:
        return _read(file)
    if file is not None:
        raise TammesError("the classes come from --classes or from --classes-file: not both")
    raise TammesError("name the classes: --classes cat,dog, or a file with one name per line")


def _read(path: Path) -> list[str]:
    """Read a JSON list, or one name per line; blank lines do not count."""
    try:
        text = path.read_text("utf-8-sig")
        if path.suffix != ".json":
            return [line.strip() for line in text.splitlines() if line.strip()]
        names = json.loads(text)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise DataError(f"cannot read class names from {path}: {reason}") from problem
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f'{path} must hold a JSON list of class names, as ["cat", "dog"]')
    return names


def own_method(terms: Sequence[str], temperature: float = 1.0) -> dict[str, Method]:
    """Build a method from terms, if there are any; it is called what was written."""
    from tammes.method import Method
    from tammes.regularizers import parse_term

    if not terms:
        return {}
    parsed = tuple(map(parse_term, terms))
    return {" + ".join(terms): Method(terms=parsed, temperature=temperature)}
