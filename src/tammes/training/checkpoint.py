"""Files of trainings: CoOp's own layout, and what it takes to go on after a crash."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tammes.errors import StoreError
from tammes.storage import write_atomically

UNFINISHED = ".unfinished"


def unfinished(path: Path) -> Path:
    """Name the file that a training keeps while it runs."""
    return path.with_name(path.name + UNFINISHED)


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors and plain values, whole or not at all."""
    content = io.BytesIO()
    torch.save(dict(state), content)
    write_atomically(path, content.getvalue())


def read_state(path: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read what a training with these settings left, if it did; anything else is refused."""
    if not path.exists():
        return None
    remedy = "choose another name, or delete it"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        theirs = dict(state["settings"])
    except (
        *(OSError, RuntimeError, ValueError, KeyError, EOFError, TypeError, AttributeError),
        pickle.UnpicklingError,
    ) as problem:
        raise StoreError(f"{path} is there, and no file that a training wrote: {remedy}") from (
            problem
        )
    for key, ours in settings.items():
        if theirs.get(key) != ours:
            raise StoreError(
                f"{path} holds another training ({key} is {theirs.get(key)!r} there, {ours!r} "
                f"here): {remedy}"
            )
    return dict(state)
