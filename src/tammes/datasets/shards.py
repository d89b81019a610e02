"""Webdataset shards: tar files with `<key>.jpg` and `<key>.cls`, read in place."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from tammes.datasets.dataset import Dataset, Item
from tammes.datasets.folders import is_image
from tammes.datasets.names import PASS_NAMES, Names, listed
from tammes.datasets.tables import path_content
from tammes.errors import DataError, ImageError, UnknownName

CLASSNAMES, COUNT = "classnames.txt", "nshards.txt"
PARTS = ("test", "val", "train")


@dataclass(frozen=True)
class TarredFile:
    """One file inside a tar: so many bytes from an offset on."""

    archive: Path
    name: str
    offset: int
    size: int
    changed: int

    def stamp(self) -> str:
        """Return where the bytes lie and when the archive changed; tar keeps no checksum."""
        return f"{self.size}:{self.offset}:{self.changed}"

    def read(self) -> bytes:
        """Read these bytes alone."""
        try:
            with self.archive.open("rb") as file:
                file.seek(self.offset)
                content = file.read(self.size)
        except OSError as problem:
            raise ImageError(f"{self.name} in {self.archive}: {problem.strerror}") from problem
        if len(content) < self.size:
            raise ImageError(f"{self.name} in {self.archive}: the archive ends before it")
        return content


def has_shards(folder: Path) -> bool:
    """Tell whether a folder holds shards, or parts made of shards; any other tar is none."""
    return any(list_shards(folder / part) for part in ("", *PARTS))


def list_shards(place: Path) -> list[Path]:
    """List the tars that are numbered, or that have class names beside them, in order."""
    named = any((folder / CLASSNAMES).is_file() for folder in (place, place.parent))
    tars = place.glob("*.tar")
    found = (f for f in tars if f.stem.isdecimal() or (named and _has_labels(f)))
    return sorted(found, key=_by_number)


def _has_labels(tar: Path) -> bool:
    """Tell a shard from an archive that was not unpacked, by its first files."""
    try:
        with tarfile.open(tar, "r:") as archive:
            return any(member.name.endswith(".cls") for member in islice(archive, 8))
    except (OSError, tarfile.TarError):
        return True  # reading it says what is wrong with it


def read_shards(
    folder: str | Path,
    part: str = "test",
    classnames: Names | None = None,
    name: str | None = None,
) -> Dataset:
    """Read `folder/<part>/*.tar`, or `folder/*.tar`, with the names in `classnames.txt`."""
    folder = Path(folder)
    shards, ignored, items = _shards(folder, part), [], []
    for shard in shards:
        prefix = shard.relative_to(folder).as_posix()
        for key, files in _samples(shard):
            item = _item(f"{prefix}/", key, files)
            if item is None:
                ignored += [f"{prefix}/{file.name}" for file in files.values()]
            else:
                items.append(item)
    names = listed(classnames) or _names(folder, shards[0].parent)
    name = name or folder.resolve().name
    return Dataset(name, names, tuple(items), folder, tuple(ignored), "webdataset shards")


def _shards(folder: Path, part: str) -> list[Path]:
    """List the shards of a part by number, and check that none is missing."""
    place = folder / part if (folder / part).is_dir() else folder
    shards = list_shards(place)
    if not shards:
        known = [p for p in PARTS if list_shards(folder / p)]
        if known:
            raise UnknownName.of(f"part of {folder}", part, known)
        raise DataError(f"{folder}: no shard {part}/0.tar nor any other .tar")
    promised = (place / COUNT).is_file() and path_content(place / COUNT).decode().strip()
    if promised and promised.isdecimal() and int(promised) != len(shards):
        raise DataError(
            f"{place}: {COUNT} says {promised} shards, {len(shards)} are here: finish the download"
        )
    return shards


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Sort 10.tar after 9.tar."""
    return [(int(d or 0), w) for d, w in re.findall(r"(\d*)(\D*)", path.name)]


def _samples(shard: Path) -> Iterator[tuple[str, dict[str, TarredFile]]]:
    """Yield the files of a tar by their key, the name up to the first dot; reads headers only."""
    found: dict[str, dict[str, TarredFile]] = {}
    try:
        changed = shard.stat().st_mtime_ns
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isfile():
                    folder, base = PurePosixPath(member.name).parent, Path(member.name).name
                    stem, _, suffix = base.partition(".")
                    file = TarredFile(shard, member.name, member.offset_data, member.size, changed)
                    found.setdefault((folder / stem).as_posix(), {})[suffix.lower()] = file
    except (OSError, tarfile.TarError) as problem:
        raise DataError(f"cannot read the shard {shard}: {problem}: is it complete?") from problem
    yield from found.items()


def _item(prefix: str, key: str, files: dict[str, TarredFile]) -> Item | None:
    """Make an item of the image and the label under one key."""
    image = next((file for file in files.values() if is_image(file.name)), None)
    if image is None or "cls" not in files:
        return None
    text = files["cls"].read().decode("utf-8", "replace").strip()
    if not text.isdecimal():
        raise DataError(f"{image.archive}: {key}.cls holds {text!r}, which is no label")
    return Item(prefix + image.name, int(text), image)


def _names(*folders: Path) -> tuple[str, ...]:
    """Read the names that come with the shards."""
    for folder in folders:
        if (folder / CLASSNAMES).is_file():
            lines = path_content(folder / CLASSNAMES).decode("utf-8").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
    raise DataError(f"{folders[0]}: no {CLASSNAMES} beside the shards: {PASS_NAMES}")
