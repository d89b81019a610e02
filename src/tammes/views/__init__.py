"""The views of one image: parameters drawn from (seed, image id), then applied to its pixels."""

from __future__ import annotations

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from tammes.preprocessing import Preprocessing
from tammes.views.parameters import CLEAN, Box, Mix, Operation, View, ViewSettings
from tammes.views.rendering import render_views
from tammes.views.sampling import sample_views
from tammes.views.tensor import render_batch, render_tensor

__all__ = [
    "CLEAN",
    "Box",
    "Mix",
    "Operation",
    "View",
    "ViewSettings",
    "render_batch",
    "render_tensor",
    "render_views",
    "sample_views",
    "views_of",
]


def views_of(
    image: Image.Image, image_id: str, settings: ViewSettings, preprocessing: Preprocessing
) -> Float[Tensor, "v 3 s s"]:
    """Draw and render the views of one RGB picture; row 0 is the clean one."""
    views = sample_views(settings, image_id, image.width, image.height)
    return render_views(image, views, preprocessing)
