"""Any picture a user may hold -> one upright RGB image, or an ImageError that says why not."""

from __future__ import annotations

import io
import stat
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError

from tammes.errors import ImageError

Source: TypeAlias = str | Path | bytes | Image.Image | np.ndarray | torch.Tensor

# Where Pillow starts to warn of a decompression bomb: 341 MiB once decoded. Above it, Pillow's own
# PIL.Image.MAX_IMAGE_PIXELS has to be raised as well.
MAX_PIXELS = 89_478_485

# Formats of photographs. Pillow knows more, some of which run other programs (EPS) or hide a second
# picture behind the header's size (ICO). HEIF and JXL count when their plugins are registered.
FORMATS = (
    "JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "HEIF", "JXL",
)  # fmt: skip
_SILENT = frozenset({"JPEG", "PNG", "WEBP", "AVIF"})  # their decoders never warn
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def open_image(source: Source, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open a path, bytes, Pillow image, array or tensor as an upright RGB picture.

    Arrays are [h, w] or [h, w, c], tensors [h, w] or [c, h, w], or the other way round where only
    that makes 1, 3 or 4 channels; in uint8, or in floats from 0 to 1. Transparency is laid on
    white; of an animation the first frame counts.
    """
    try:
        if isinstance(source, np.ndarray | torch.Tensor):
            source = _from_array(source, max_pixels)
        if isinstance(source, Image.Image):
            return _decode(source, max_pixels)
        with _stream(source) as stream, _header(stream) as image:
            return _decode(image, max_pixels)
    except Exception as problem:  # decoders of hostile bytes raise nearly anything
        raise ImageError(f"{_name(source)}: {_reason(problem)}") from problem


def decode(
    sources: Sequence[Source], device: str | torch.device = "cpu", max_pixels: int = MAX_PIXELS
) -> list[UInt8[torch.Tensor, "3 h w"] | ImageError]:
    """Open pictures as tensors on a device; a bad one gives its error, the others are not harmed.

    On CUDA, nvJPEG decodes the ordinary JPEG files, within a level or two of Pillow. All the rest
    goes through `open_image`.
    """
    where = torch.device(device)
    found: dict[int, torch.Tensor] = {}
    if where.type == "cuda":
        files = {i: _plain_jpeg(source, max_pixels) for i, source in enumerate(sources)}
        ready = {i: file for i, file in files.items() if file is not None}
        decoded = _nvjpeg(list(ready.values()), where)
        found = {i: p for i, p in zip(ready, decoded, strict=True) if p is not None}
    rest = ((i, source) for i, source in enumerate(sources) if i not in found)
    opened = {i: _open_tensor(source, where, max_pixels) for i, source in rest}
    return [found[i] if i in found else opened[i] for i in range(len(sources))]


def _open_tensor(
    source: Source, device: torch.device, max_pixels: int
) -> UInt8[torch.Tensor, "3 h w"] | ImageError:
    try:
        pixels = np.array(open_image(source, max_pixels))
    except ImageError as problem:
        return problem
    return torch.from_numpy(pixels).to(device).permute(2, 0, 1).contiguous()


def _plain_jpeg(source: Source, max_pixels: int) -> UInt8[torch.Tensor, " n"] | None:
    """Read a JPEG file that every decoder understands alike; for all else `open_image` speaks.

    That is: upright, baseline, YCbCr, and with an end, so that it is not cut off.
    """
    try:
        if isinstance(source, str | Path):
            with _stream(source) as stream:
                source = stream.read()
        if not (isinstance(source, bytes) and source.endswith(b"\xff\xd9")):
            return None
        with _header(io.BytesIO(source)) as image:
            _check_size(image.width, image.height, max_pixels)
            plain = (
                (image.format, image.mode) == ("JPEG", "RGB")
                and "progressive" not in image.info
                and image.info.get("adobe_transform", 1) == 1
                and [component[0] for component in getattr(image, "layer", ())] == [1, 2, 3]
            )
            with _no_warnings():
                plain = plain and _orientation(image) == 1
    except Exception:  # decoders of hostile bytes raise nearly anything
        return None
    return torch.from_numpy(np.frombuffer(source, np.uint8).copy()) if plain else None


def _nvjpeg(
    files: list[UInt8[torch.Tensor, " n"]], device: torch.device
) -> list[UInt8[torch.Tensor, "3 h w"] | None]:
    """Decode JPEG files on a CUDA device; None for a file that it refuses."""
    if not files:
        return []
    try:
        from torchvision.io import (  # type: ignore[import-untyped]
            ImageReadMode,
            decode_jpeg,
        )

        with _no_warnings():  # torchvision would rather have torchcodec installed
            return list(decode_jpeg(files, ImageReadMode.RGB, device=device))
    except (ImportError, RuntimeError):
        half = len(files) // 2
        if not half:
            return [None]
        return _nvjpeg(files[:half], device) + _nvjpeg(files[half:], device)


def content_id(source: Source, max_pixels: int = MAX_PIXELS) -> str:
    """Hash what the source holds: a file's bytes, else the RGB pixels; never its name or place."""
    digest = blake2b(digest_size=16)
    if isinstance(source, Image.Image | np.ndarray | torch.Tensor):
        image = open_image(source, max_pixels)
        digest.update(f"{image.width}x{image.height}:".encode())
        digest.update(image.tobytes())
        return digest.hexdigest()
    try:
        with _stream(source) as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except (ImageError, OSError, ValueError) as problem:
        raise ImageError(f"{_name(source)}: {_reason(problem)}") from problem
    return digest.hexdigest()


def _stream(source: str | Path | bytes) -> IO[bytes]:
    """Open regular files only: a pipe or a device could block for ever."""
    if isinstance(source, bytes):
        if not source:
            raise ImageError("empty: no bytes")
        return io.BytesIO(source)
    if not isinstance(source, str | Path):
        raise ImageError("not a path, bytes, Pillow image, array or tensor")
    status = Path(source).stat()
    if stat.S_ISDIR(status.st_mode):
        raise ImageError("a folder, not an image file")
    if not stat.S_ISREG(status.st_mode):
        raise ImageError("not a regular file")
    if status.st_size == 0:
        raise ImageError("empty: the file has no bytes")
    return Path(source).open("rb")


_FILTERS = threading.Lock()


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Keep Pillow's warnings in, one thread at a time: Python has one list of filters for all."""
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _header(stream: IO[bytes]) -> Image.Image:
    """Read the size and the mode; no pixel is decoded yet."""
    Image.init()
    with _no_warnings():
        return Image.open(stream, formats=[name for name in FORMATS if name in Image.OPEN])


def _decode(image: Image.Image, max_pixels: int) -> Image.Image:
    """Judge the size, then read the pixels and bring them to upright RGB."""
    _check_size(image.width, image.height, max_pixels)
    with nullcontext() if image.format in _SILENT else _no_warnings():
        image.load()
    with _no_warnings():
        turn = _TURNS.get(_orientation(image))
    picture = _to_rgb(image)
    if turn is not None:
        picture = picture.transpose(turn)
    picture.info = {}  # forget the orientation, so that nobody turns the picture again
    return picture


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if not width or not height:
        raise ImageError(f"no pixels: {width}×{height}")
    if width * height > max_pixels:
        raise ImageError(
            f"{width}×{height} is larger than {max_pixels} pixels: shrink it, or in Python raise "
            "max_pixels"
        )


def _orientation(image: Image.Image) -> int:
    """How the camera was held; damaged metadata says nothing."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # the pixels are fine, whatever this is
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    """A new RGB picture, where Pillow's own conversion would clip or drop the background."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in {"PNG", "PPM"}):
        return _gray(np.asarray(image, dtype=np.float32) / 65535)
    if image.mode == "F":
        return _gray(np.asarray(image))
    if image.mode == "I":
        raise ImageError("32-bit integers: nothing says what white is; save it with 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _gray(values: np.ndarray) -> Image.Image:
    return Image.fromarray(_levels(values)).convert("RGB")


def _levels(values: np.ndarray) -> np.ndarray:
    """Bring uint8, or floats from 0 to 1, to uint8."""
    if values.dtype == np.uint8:
        return values
    if not np.issubdtype(values.dtype, np.floating):
        raise ImageError(f"{values.dtype} values: give uint8, or floats from 0 to 1")
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= 1):  # a NaN fails as well
        raise ImageError(f"floats from {low:.4g} to {high:.4g}: scale them to 0 … 1")
    return np.rint(values.astype(np.float32, copy=False) * 255).astype(np.uint8)


def _from_array(values: np.ndarray | torch.Tensor, max_pixels: int) -> Image.Image:
    if isinstance(values, torch.Tensor):
        values = values.float() if values.is_floating_point() else values  # numpy has no bfloat16
        array = _channels_last(values.detach().cpu().numpy(), channels_first=True)
    else:
        array = _channels_last(values, channels_first=False)
    _check_size(array.shape[1], array.shape[0], max_pixels)
    levels = _levels(array)
    return Image.fromarray(levels[..., 0] if levels.shape[2:] == (1,) else levels)


def _channels_last(array: np.ndarray, channels_first: bool) -> np.ndarray:
    """Find the channels: where the library keeps them, else at the other end."""
    if array.ndim == 2:
        return array
    for axis in (0, 2) if channels_first else (2, 0):
        if array.ndim == 3 and array.shape[axis] in (1, 3, 4):
            return np.moveaxis(array, axis, 2)
    raise ImageError(f"shape {array.shape}: give one picture with 1, 3 or 4 channels")


def _name(source: object) -> str:
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, bytes):
        return f"{len(source)} bytes"
    return f"this {type(source).__name__}"


def _reason(problem: Exception) -> str:
    """Say in a few words what a decoder's exception means."""
    match problem:
        case ImageError():
            return str(problem)
        case FileNotFoundError() | NotADirectoryError():
            return "no such file"
        case UnidentifiedImageError():
            return f"not an image that can be read ({', '.join(FORMATS)})"
        case Image.DecompressionBombError():
            return "more pixels than Pillow accepts: shrink it or raise PIL.Image.MAX_IMAGE_PIXELS"
        case MemoryError():
            return "too large for the memory"
        case OSError(strerror=str(text)):
            return text.lower()
    return f"damaged: {problem}"
