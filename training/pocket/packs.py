"""Read the image packs: plain ZIP files of pictures with a `labels.csv` or `captions.tsv`."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

IMAGE_SIZE = 160


@dataclass(frozen=True)
class Pack:
    """One pack: its file and the rows of its table, in order."""

    path: Path
    rows: tuple[dict[str, str], ...]

    @property
    def files(self) -> list[str]:
        """Names of the pictures inside the ZIP."""
        return [row["file"] for row in self.rows]

    @property
    def labels(self) -> np.ndarray:
        """Integer label of each picture."""
        return np.array([int(row["label"]) for row in self.rows])

    @property
    def names(self) -> list[str]:
        """Class names in label order."""
        named = {int(row["label"]): row["class_name"] for row in self.rows}
        return [named[label].replace("_", " ") for label in sorted(named)]


def open_pack(folder: Path, name: str) -> Pack:
    """Read the table of the pack `name` in `folder`."""
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path) as archive:
        table = "captions.tsv" if "captions.tsv" in archive.namelist() else "labels.csv"
        text = archive.read(table).decode()
    # captions hold stray quotation marks that are not CSV quoting
    tabs = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if table.endswith("tsv") else {}
    return Pack(path, tuple(csv.DictReader(io.StringIO(text), **tabs)))  # type: ignore[arg-type]


def center(picture: Image.Image, _: np.random.Generator) -> Image.Image:
    """Resize the short side and cut the center: what the shipped model does."""
    width, height = picture.size
    scale = IMAGE_SIZE / min(width, height)
    size = (max(IMAGE_SIZE, round(width * scale)), max(IMAGE_SIZE, round(height * scale)))
    picture = picture if size == picture.size else picture.resize(size, Image.Resampling.BICUBIC)
    left, top = round((size[0] - IMAGE_SIZE) / 2), round((size[1] - IMAGE_SIZE) / 2)
    return picture.crop((left, top, left + IMAGE_SIZE, top + IMAGE_SIZE))


def random_crop(
    picture: Image.Image, rng: np.random.Generator, area: tuple[float, float]
) -> Image.Image:
    """Cut a random window of a share of the area, flip it half of the time."""
    width, height = picture.size
    share, ratio = rng.uniform(*area), np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
    w = min(width, round((width * height * share * ratio) ** 0.5))
    h = min(height, round((width * height * share / ratio) ** 0.5))
    left, top = rng.integers(0, width - w + 1), rng.integers(0, height - h + 1)
    box = (int(left), int(top), int(left) + w, int(top) + h)
    window = picture.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC, box)
    flip = rng.random() < 0.5
    return window.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else window


def small_crop(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Cut a window of about one object."""
    return random_crop(picture, rng, (0.08, 0.3))


def coarse(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Show the center as a picture of 24 to 80 pixels looks when it is enlarged."""
    whole = center(picture, rng)
    side = round(float(np.exp(rng.uniform(np.log(24), np.log(80)))))
    tiny = whole.resize((side, side), Image.Resampling.BICUBIC)
    return tiny.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC)


VIEWS = {"center": center, "small": small_crop, "coarse": coarse}


def batches(pack: Pack, view: str, size: int = 64, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield uint8 batches `[b, 160, 160, 3]` of one view of every picture, in order."""

    def read(indexed: tuple[int, str]) -> np.ndarray:
        index, file = indexed
        with archive.open(file) as handle, Image.open(io.BytesIO(handle.read())) as picture:
            rgb = picture.convert("RGB")
        # one generator per picture: order and batch size change nothing
        return np.asarray(VIEWS[view](rgb, np.random.default_rng((seed, index))))

    with zipfile.ZipFile(pack.path) as archive, ThreadPoolExecutor(2) as pool:
        for chunk in _chunks(enumerate(pack.files), size):
            yield np.stack(list(pool.map(read, chunk)))


def _chunks(items: Iterable[tuple[int, str]], size: int) -> Iterator[list[tuple[int, str]]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
