"""Views in, unit features out: as many views per pass of the image encoder as are fast and fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from itertools import chain, islice
from numbers import Integral
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from tammes.backbones import Backbone
from tammes.backbones.compiling import filled
from tammes.errors import TammesError
from tammes.threads import ahead, single_threads
from tammes.views import Picture, ViewSettings, device_renders, render_ahead
from tammes.views.ahead import in_groups, render

CPU = torch.device("cpu")
Batch: TypeAlias = int | Literal["auto"] | None

BATCH = {"cpu": 16, "cuda": 512}  # views per pass of the image encoder: a CPU's cache is small
SIZES = {"cpu": (4, 8, 16, 32, 64), "cuda": (512, 1024, 2048, 4096)}  # what "auto" tries
GAIN = 1.03  # a larger batch has to be faster by this factor
ALONE = 16  # CPU threads that each hold a picture's views and a pass of the model
PATIENCE = 2.0  # seconds per pass after which "auto" tries nothing larger
SPAN = 0.3  # seconds that a size is timed for: other programs may be in the way

_found: WeakKeyDictionary[Backbone, int] = WeakKeyDictionary()
_log = logging.getLogger(__name__)


class ImageEncoder:
    """A model's image encoder, fed `batch` views per pass; fewer once memory runs out."""

    def __init__(self, backbone: Backbone, batch: Batch = None) -> None:
        self._backbone = backbone
        self.batch = views_per_pass(backbone, batch)

    def __call__(
        self, rendered: Sequence[Float[Tensor, "v 3 s s"] | str]
    ) -> list[Float[Tensor, "v d"] | str]:
        """Encode the views of some images to unit rows; reasons pass through."""
        found = [views for views in rendered if isinstance(views, Tensor)]
        if not found:
            return list(rendered)
        features = self._encode(torch.cat([views.to(found[0]) for views in found]))
        rows = iter(features.cpu().split([len(views) for views in found]))
        return [_finite(next(rows)) if isinstance(r, Tensor) else r for r in rendered]

    def ahead(
        self,
        pictures: Iterable[Picture],
        settings: ViewSettings,
        workers: int | None = None,
        block: int | None = None,
    ) -> Generator[Float[Tensor, "v d"] | str]:
        """Give the unit features of each picture's views, or why there are none, in order.

        On a GPU threads render while the model encodes. On a CPU each thread does both, by itself:
        on two cores that is 1.4 times as fast as one pass of both, in which every layer waits for
        the slower one. A single picture has all cores.

        With `block`, what shares a pass, and the cores for it, depend on nothing but a picture's
        stretch of so many: whoever resumes at the start of one computes the same bytes.
        """
        left = iter(pictures)
        first = list(islice(left, 2))
        size = max(1, self.batch // settings.count)
        alone = len(first) < 2 and block is None
        if alone or self._backbone.device.type != "cpu" or device_renders(CPU):
            with closing(
                render_ahead(chain(first, left), settings, self._backbone, workers)
            ) as rendered:
                for group in in_groups(rendered, size, block):
                    yield from self(group)
            return

        def work(some: Sequence[Picture]) -> list[Float[Tensor, "v d"] | str]:
            return self([render(one, settings, self._backbone.preprocessing) for one in some])

        count = workers or min(ALONE, torch.get_num_threads())
        groups = in_groups(chain(first, left), size, block)
        with closing(ahead(work, groups, count, 2 * count, single_threads)) as encoded:
            for rows in encoded:
                yield from rows

    def _encode(self, views: Float[Tensor, "b 3 s s"]) -> Float[Tensor, "b d"]:
        rows: list[Tensor] = []
        done = 0
        while done < len(views):
            chunk = views[done : done + self.batch]
            features = self._attempt(chunk)
            if features is None:
                self._shrink(len(chunk))
                continue
            rows.append(features)
            done += len(chunk)
        return torch.cat(rows)

    def _attempt(self, chunk: Tensor) -> Tensor | None:
        """Encode in one pass; None where there is not enough memory for that."""
        try:
            return normalize(self._backbone.encode_image(chunk).float(), dim=-1)
        except RuntimeError as problem:
            if len(chunk) == 1 or not out_of_memory(problem):
                raise
            return None

    def _shrink(self, size: int) -> None:
        """Halve the batch, until passes that are filled up to few sizes become smaller too."""
        on_cuda = self._backbone.device.type == "cuda"
        smaller = size // 2
        while on_cuda and smaller > 1 and filled(smaller) == filled(size):
            smaller //= 2
        if on_cuda:
            torch.cuda.empty_cache()
        _log.warning(
            "out of memory with %d views per pass of the image encoder: going on with %d "
            "(--batch %d starts there)", size, smaller, smaller,
        )  # fmt: skip
        self.batch = smaller


def views_per_pass(backbone: Backbone, batch: Batch = None) -> int:
    """Read what was asked for: a number, `"auto"` for the fastest, None for the device's usual."""
    if batch is None:
        return BATCH.get(backbone.device.type, BATCH["cpu"])
    if batch == "auto":
        if backbone not in _found:
            _found[backbone] = find_batch(backbone)
        return _found[backbone]
    if not isinstance(batch, Integral) or batch < 1:
        raise TammesError(f"the batch is {batch!r}: give a number of views above 0, or 'auto'")
    return int(batch)


def find_batch(backbone: Backbone, speed: Callable[[Backbone, int], float] | None = None) -> int:
    """Time some sizes, the smallest first; the smallest that is about the fastest wins.

    On CUDA every size costs seconds of compiling: the first that gains nothing is the last. Where
    even the smallest takes too long, or does not fit, the device's usual batch is kept.
    """
    where, measure = backbone.device.type, speed or views_per_second
    best, fastest = views_per_pass(backbone), 0.0
    for size in SIZES.get(where, SIZES["cpu"]):
        try:
            now = measure(backbone, size)
        except RuntimeError as problem:
            if not out_of_memory(problem):
                raise
            break
        slow, gains = size / now > PATIENCE, now > GAIN * fastest
        if slow and not fastest:
            break
        if gains:
            best, fastest = size, now
        if slow or (where == "cuda" and not gains):
            break
    measured = f"{fastest:.0f} views/s" if fastest else "the usual"
    _log.info("batch: %d views per pass of the image encoder (%s)", best, measured)
    return best


def views_per_second(backbone: Backbone, batch: int) -> float:
    """Time the best of some passes over random pixels, the first of which does not count."""
    side = backbone.preprocessing.size
    one = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0))
    pixels = one.to(backbone.device, backbone.dtype).repeat(batch, 1, 1, 1)
    seconds: list[float] = []
    while len(seconds) < 3 or (sum(seconds[1:]) < SPAN and len(seconds) < 50):
        start = time.perf_counter()
        backbone.encode_image(pixels).cpu()  # waits for the device, whichever it is
        seconds.append(time.perf_counter() - start)
    return batch / max(min(seconds[1:]), 1e-9)


def out_of_memory(problem: BaseException) -> bool:
    """Tell a lack of memory from other errors; only CUDA has a class for it."""
    said = str(problem)
    return isinstance(problem, torch.OutOfMemoryError) or any(
        words in said for words in ("out of memory", "can't allocate memory")
    )


def _finite(row: Float[Tensor, "v d"]) -> Float[Tensor, "v d"] | str:
    """Refuse features that overflowed: they would turn every class into NaN."""
    return row if bool(row.isfinite().all()) else "the model's features are not finite numbers"
