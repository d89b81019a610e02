"""Views of many pictures, rendered ahead: threads work on the next ones while the model encodes."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from threading import Lock
from typing import Protocol, TypeAlias, TypeVar

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from tammes.backbones import Backbone
from tammes.errors import ImageError, UnknownName
from tammes.images import Source, decode, open_image
from tammes.preprocessing import Preprocessing
from tammes.threads import ahead
from tammes.views.parameters import ViewSettings
from tammes.views.rendering import render_views
from tammes.views.sampling import sample_views
from tammes.views.tensor import render_batch

SWITCH = "TAMMES_VIEWS"  # the environment variable that says who renders
RENDERERS = ("pillow", "device")
VIEWS = 512  # views that a device renders together: 0.15 GB at 224², in half precision
PICTURES = 64  # that it decodes together
GROUPS = 2  # rendered ahead on a device, whose memory is scarce

Given = TypeVar("Given")
Rendered: TypeAlias = Float[Tensor, "v 3 s s"] | str  # or the reason why there is none
_one_at_a_time = Lock()  # what is held while rendering on a device is larger than what comes out


class Picture(Protocol):
    """An image by its id, from which its views are drawn."""

    @property
    def id(self) -> str:
        """Name the image."""
        ...

    def open(self) -> Source:
        """Return what it can be read from."""
        ...


def views_of(
    image: Image.Image, image_id: str, settings: ViewSettings, preprocessing: Preprocessing
) -> Float[Tensor, "v 3 s s"]:
    """Draw and render the views of one RGB picture; row 0 is the clean one."""
    views = sample_views(settings, image_id, image.width, image.height)
    return render_views(image, views, preprocessing)


def device_renders(device: torch.device) -> bool:
    """Say whether the model's device renders its views: CUDA does, Pillow for all else.

    The environment variable TAMMES_VIEWS insists on `pillow` or on `device`.
    """
    chosen = os.environ.get(SWITCH) or ("device" if device.type == "cuda" else "pillow")
    if chosen not in RENDERERS:
        raise UnknownName.of(f"renderer in {SWITCH}", chosen, RENDERERS)
    return chosen == "device"


def render_ahead(
    pictures: Iterable[Picture],
    settings: ViewSettings,
    backbone: Backbone,
    workers: int | None = None,
) -> Generator[Rendered]:
    """Yield the views of each image, or the reason why there are none, in order.

    Threads serve: Pillow and torch leave the interpreter while they work, and a picture's views
    (38 MB at 64 × 224²) need no copy into another process.
    """
    workers = workers or min(8, os.cpu_count() or 1)
    if not device_renders(backbone.device):
        yield from ahead(
            lambda one: render(one, settings, backbone.preprocessing),
            pictures, workers, 2 * workers,
        )  # fmt: skip
        return
    some = in_groups(pictures, max(1, min(PICTURES, VIEWS // settings.count)))
    with closing(
        ahead(lambda group: _render_group(group, settings, backbone), some, workers, GROUPS)
    ) as rendered:
        for group in rendered:
            yield from group


def in_groups(
    given: Iterable[Given], size: int, within: int | None = None
) -> Iterator[list[Given]]:
    """Take so many at a time, from one stretch of `within` each."""
    left, done = iter(given), 0
    while group := list(islice(left, min(size, within - done % within) if within else size)):
        done += len(group)
        yield group


def render(picture: Picture, settings: ViewSettings, preprocessing: Preprocessing) -> Rendered:
    """Render the views of one image with Pillow, or give the reason why there are none."""
    try:
        return views_of(open_image(picture.open()), picture.id, settings, preprocessing)
    except ImageError as problem:
        return str(problem)


def _render_group(
    pictures: Sequence[Picture], settings: ViewSettings, backbone: Backbone
) -> list[Rendered]:
    """Render on the model's device; with Pillow where its memory is too small for that."""
    try:
        return _render_on_device(pictures, settings, backbone)
    except torch.OutOfMemoryError:
        logging.getLogger(__name__).warning(
            "no room to render %d pictures on %s: Pillow renders them (%s=pillow for all)",
            len(pictures), backbone.device, SWITCH,
        )  # fmt: skip
    return [render(picture, settings, backbone.preprocessing) for picture in pictures]


def _render_on_device(
    pictures: Sequence[Picture], settings: ViewSettings, backbone: Backbone
) -> list[Rendered]:
    opened = [_open(picture) for picture in pictures]
    ready = [one for one in opened if isinstance(one, tuple)]
    decoded = decode([source for _, source in ready], backbone.device)
    pairs = zip(ready, decoded, strict=True)
    named = [(name, pixels) for (name, _), pixels in pairs if isinstance(pixels, Tensor)]
    views = [sample_views(settings, name, p.shape[2], p.shape[1]) for name, p in named]
    with _one_at_a_time:
        rendered = render_batch(
            [pixels for _, pixels in named], views, backbone.preprocessing, backbone.dtype
        )
    rows = iter(rendered.split(settings.count))
    answers = (next(rows) if isinstance(d, Tensor) else str(d) for d in decoded)
    return [next(answers) if isinstance(one, tuple) else one for one in opened]


def _open(picture: Picture) -> tuple[str, Source] | str:
    try:
        return picture.id, picture.open()
    except ImageError as problem:
        return str(problem)
