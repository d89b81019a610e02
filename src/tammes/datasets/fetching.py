"""Fetch a benchmark: by torchvision where it can, else say where it comes from and goes."""

from __future__ import annotations

import json
from gzip import decompress
from pathlib import Path
from typing import Any

from tammes.datasets.catalog import CatalogEntry, find_entry
from tammes.errors import DataError, MissingExtra


def fetch_dataset(name: str, root: str | Path) -> None:
    """Download a benchmark below `root` with torchvision, which checks what it got."""
    entry, root = find_entry(name), Path(root)
    if not entry.torchvision:
        raise DataError(f"{entry.id} cannot be downloaded for you. {by_hand(entry, root)}")
    root.mkdir(parents=True, exist_ok=True)
    try:
        _downloader(entry)(str(root), download=True, **entry.torchvision["options"])
    except Exception as problem:  # urllib's, tarfile's, torchvision's own
        if _is_of_disk(problem):
            raise
        if "gdown" in str(problem):  # older torchvisions take Caltech101 from a drive
            raise MissingExtra.of(f"fetching {entry.id}", "data", "gdown") from problem
        reason = f"{type(problem).__name__}: {problem}"
        raise DataError(
            f"{entry.id}: the download failed ({reason}). Try again, or: {by_hand(entry, root)}"
        ) from problem


def by_hand(entry: CatalogEntry, root: Path) -> str:
    """Say where a benchmark comes from and what goes where."""
    said = f"Take it from: {entry.page}. Put its images below {root}, as {example(entry)}"
    if entry.split and not entry.shipped_split:
        said += f"; and {entry.split} from CoOp's page beside them"
    return said


def example(entry: CatalogEntry) -> str:
    """Write where one image of a benchmark lies."""
    layout = entry.layouts[0]
    if entry.shipped_split:
        parts = json.loads(decompress(entry.shipped_split.read_bytes()))
        return f"{layout}/{parts['test'][0][0]}"
    if entry.id == "fgvc_aircraft":
        return f"{layout}/images/0034309.jpg, with {layout}/variants.txt"
    return f"{layout}/{(entry.folders or entry.classnames)[0]}/<image>"


def _is_of_disk(problem: Exception) -> bool:
    """Tell a file that cannot be written from a net that does not answer."""
    named = isinstance(problem, OSError) and problem.filename is not None
    return problem.__class__.__module__ != "urllib.error" and named  # theirs is named by an address


def _downloader(entry: CatalogEntry) -> Any:
    import torchvision.datasets  # type: ignore[import-untyped]

    return getattr(torchvision.datasets, entry.torchvision["name"])
