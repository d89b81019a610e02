"""The views of one image: parameters drawn from (seed, image id), then applied to its pixels."""

from __future__ import annotations

from tammes.views.ahead import Picture, device_renders, render_ahead, views_of
from tammes.views.parameters import CLEAN, Box, Mix, Operation, View, ViewSettings
from tammes.views.rendering import render_views
from tammes.views.sampling import sample_views
from tammes.views.tensor import render_batch, render_tensor

__all__ = [
    "CLEAN",
    "Box",
    "Mix",
    "Operation",
    "Picture",
    "View",
    "ViewSettings",
    "device_renders",
    "render_ahead",
    "render_batch",
    "render_tensor",
    "render_views",
    "sample_views",
    "views_of",
]
