"""Images straight out of a ZIP, without unpacking it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

from tammes.datasets.dataset import MISSING
from tammes.datasets.folders import is_shown
from tammes.errors import DataError, ImageError

_reading = threading.Lock()  # one archive handle per process, shared by its threads


@dataclass(frozen=True)
class PackedFile:
    """One file inside a ZIP."""

    archive: Path
    name: str
    size: int
    crc: int

    @classmethod
    def absent(cls, archive: Path, name: str) -> PackedFile:
        """Stand for a file that a list names and the archive lacks."""
        return cls(archive, name, -1, 0)

    def stamp(self) -> str:
        """Return size and checksum, which a copy of the archive keeps."""
        return f"{self.size}:{self.crc:08x}" if self.size >= 0 else MISSING

    def read(self) -> bytes:
        """Read and check the bytes; damage is an ImageError, as it would be in a plain file."""
        try:
            with _reading:
                return _archive(self.archive, os.getpid()).read(self.name)
        except (OSError, BadZipFile, ZlibError, KeyError, RuntimeError, EOFError) as problem:
            raise ImageError(f"{self.name} in {self.archive}: {problem}") from problem


@lru_cache(maxsize=16)
def _archive(path: Path, process: int) -> ZipFile:
    """Open an archive once per process: a forked child must not share its parent's offset."""
    return ZipFile(path)


def list_pack(path: Path) -> dict[str, PackedFile]:
    """List the files of a ZIP by name, without what a Mac adds to them."""
    try:
        with ZipFile(path) as archive:
            entries = [e for e in archive.infolist() if not e.is_dir() and is_shown(e.filename)]
    except (OSError, BadZipFile) as problem:
        raise DataError(f"cannot read the archive {path}: {problem}") from problem
    return {e.filename: PackedFile(path, e.filename, e.file_size, e.CRC) for e in entries}
