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
        names = read_names(file)
        return list(names.values()) if isinstance(names, dict) else names
    if file is not None:
        raise TammesError("the classes come from --classes or from --classes-file: not both")
    raise TammesError("name the classes: --classes cat,dog, or a file with one name per line")


def read_names(path: Path) -> list[str] | dict[str, str]:
    """Read a JSON list, names by folder, or one name per line; blank lines do not count."""
    try:
        text = path.read_text("utf-8-sig")
        if path.suffix != ".json":
            return [line.strip() for line in text.splitlines() if line.strip()]
        names = json.loads(text)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise DataError(f"cannot read class names from {path}: {reason}") from problem
    listed = list(names.values()) if names and isinstance(names, dict) else names
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise DataError(
            f'{path} must hold a JSON list of class names, as ["cat", "dog"], or names by folder, '
            'as {"n02123045": "cat"}'
        )
    return names


def own_method(terms: Sequence[str], temperature: float = 1.0) -> dict[str, Method]:
    """Build a method from terms, if there are any; it is called what was written."""
    from tammes.method import Method
    from tammes.regularizers import parse_term

    if not terms:
        return {}
    parsed = tuple(map(parse_term, terms))
    return {" + ".join(terms): Method(terms=parsed, temperature=temperature)}
