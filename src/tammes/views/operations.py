"""The nine AugMix operations: how strong a level makes them, and what they do to a crop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PIL import Image, ImageOps

from tammes.views.parameters import Operation

# Concrete amounts of a signed level in [-10, 10], where 10 is the strongest. What has no direction
# looks at its size only.
AMOUNTS: Mapping[str, Callable[[float], float]] = {
    "autocontrast": lambda level: 0.0,
    "equalize": lambda level: 0.0,
    "posterize": lambda level: 4 - int(abs(level) * 4 / 10),
    "rotate": lambda level: int(level * 30 / 10),
    "solarize": lambda level: 256 - int(abs(level) * 256 / 10),
    "shear_x": lambda level: level * 0.3 / 10,
    "shear_y": lambda level: level * 0.3 / 10,
    "translate_x": lambda level: level / 3 / 10,
    "translate_y": lambda level: level / 3 / 10,
}


def operation_at(name: str, level: float) -> Operation:
    """Turn a signed AugMix level into an operation with a concrete amount."""
    return Operation(name, float(AMOUNTS[name](level)))


def apply_operation(image: Image.Image, operation: Operation) -> Image.Image:
    """Apply one operation; what moves in from outside is black."""
    return _APPLY[operation.name](image, operation.amount)


def _rotate(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(degrees, resample=Image.Resampling.BILINEAR)


def _shear(image: Image.Image, across: float, down: float) -> Image.Image:
    matrix = (1, across, 0, down, 1, 0)
    return image.transform(
        image.size, Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR
    )


def _shift(image: Image.Image, across: float, down: float) -> Image.Image:
    """Move by whole pixels: a crop that hangs over the edge equals the affine map, but faster."""
    left, top = int(image.width * across), int(image.height * down)
    return image.crop((left, top, left + image.width, top + image.height))


_APPLY: Mapping[str, Callable[[Image.Image, float], Image.Image]] = {
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "rotate": _rotate,
    "solarize": lambda image, level: ImageOps.solarize(image, int(level)),
    "shear_x": lambda image, slope: _shear(image, slope, 0),
    "shear_y": lambda image, slope: _shear(image, 0, slope),
    "translate_x": lambda image, share: _shift(image, share, 0),
    "translate_y": lambda image, share: _shift(image, 0, share),
}
