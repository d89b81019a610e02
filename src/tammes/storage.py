"""Files that a crash leaves old or new or absent, never half; and names made of what they hold."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet

from tammes.errors import StoreError

PARTIAL = ".partial"
_ADVICE = {
    errno.ENOSPC: "Free space there or choose another folder",
    errno.EACCES: "Make it writable or choose another folder",
    errno.EPERM: "Make it writable or choose another folder",
}
ABANDONED = 3600.0  # seconds after which a partial file has no living writer


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, flush to the disk, then rename: readers never meet a half file."""
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise StoreError(
            f"cannot write {path.name} in {path.parent}: {problem.strerror or problem}. "
            f"{_ADVICE.get(problem.errno or 0, 'Choose another folder')}, then run again: what is "
            "finished is kept"
        ) from problem


def sweep_partial(folder: Path) -> None:
    """Remove what writers left that were killed long ago."""
    for path in folder.glob(f".*{PARTIAL}"):
        try:
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()
        except OSError:
            continue  # another process swept it, or the folder is read-only


def write_parquet(path: Path, table: pa.Table, about: Mapping[str, Any], **options: Any) -> None:
    """Write a table with a record of what it belongs to, and checksums of its pages."""
    table = table.replace_schema_metadata({"tammes": _canonical(about)})
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, write_page_checksum=True, **options)
    write_atomically(path, sink.getvalue().to_pybytes())


def is_parquet_of(path: Path, about: Mapping[str, Any]) -> bool:
    """Tell whether a whole file is there that belongs to this record."""
    try:
        metadata = parquet.read_metadata(path).metadata or {}
        return bool(metadata.get(b"tammes") == _canonical(about).encode())
    except (OSError, ValueError):  # absent, truncated, or never a Parquet file
        return False


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table that a writer finished; damage names the file."""
    try:
        return parquet.ParquetFile(path, page_checksum_verification=True).read(columns)
    except (OSError, ValueError) as problem:
        raise StoreError(f"{path} is damaged: {problem}. Delete it and run again") from problem


def digest(value: Any) -> str:
    """Hash a value that JSON can write to 16 hex digits."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:16]


def slug(name: str) -> str:
    """Turn a name into part of a file name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")[:60] or "unnamed"


def _canonical(value: Any) -> str:
    """Write a value in the one way that equal values share."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)
