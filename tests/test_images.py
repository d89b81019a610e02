"""Opening pictures: what each format becomes, and what every bad one says."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from tammes.errors import ImageError
from tammes.images import MAX_PIXELS, content_id, open_image

ORIENTATION = 0x0112


def picture(width: int = 12, height: int = 8) -> Image.Image:
    """A smooth picture whose four corners differ."""
    y, x = np.mgrid[0:height, 0:width]
    planes = (x * 255 // max(1, width - 1), y * 255 // max(1, height - 1), 255 - x * 9 % 256)
    return Image.fromarray(np.stack(planes, axis=2).astype(np.uint8))


def saved(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def same(found: Image.Image, expected: Image.Image, tolerance: int = 0) -> bool:
    assert found.mode == "RGB"
    return found.size == expected.size and abs(pixels(found) - pixels(expected)).max() <= tolerance


# --- every way to hold a picture


def test_all_sources_of_one_picture_agree(tmp_path):
    image = picture()
    array, path = np.asarray(image), tmp_path / "a.png"
    path.write_bytes(saved(image))
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    sources = [path, str(path), path.read_bytes(), image, array, array / 255, tensor, tensor / 255]
    sources += [np.moveaxis(array, 2, 0), tensor.permute(1, 2, 0), (tensor / 255).requires_grad_()]
    assert all(same(open_image(source), image) for source in sources)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("size", [(1, 1), (12, 8), (1, 300)])
def test_common_formats_open(form, size):
    lossy = {"JPEG": {"quality": 100, "subsampling": 0}, "WEBP": {"lossless": True}}
    image = Image.new("RGB", size, (0, 51, 204))
    assert same(open_image(saved(image, form, **lossy.get(form, {}))), image, tolerance=3)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_gray_arrays_become_rgb(dtype):
    ramp = np.arange(0, 256, 5, dtype=np.uint8)[None].repeat(4, axis=0)
    values = ramp if dtype == np.uint8 else (ramp / 255).astype(dtype)
    expected = Image.fromarray(ramp).convert("RGB")
    for source in (
        values,
        values[..., None],
        torch.from_numpy(values),
        torch.from_numpy(values[None]),
    ):
        assert same(open_image(source), expected)


def test_bfloat16_tensors_open():
    assert open_image(torch.ones(3, 5, 4).bfloat16()).getpixel((0, 0)) == (255, 255, 255)


@given(st.integers(1, 6), st.integers(1, 6))
def test_a_tensor_is_read_channels_first_and_an_array_channels_last(height, width):
    array = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected = Image.fromarray(array)
    assert same(open_image(array), expected)
    assert same(open_image(torch.from_numpy(array).permute(2, 0, 1)), expected)


def test_the_callers_picture_stays_as_it_was():
    image = Image.open(io.BytesIO(saved(picture(), "JPEG", exif=turned(6))))
    open_image(image)
    assert image.size == (12, 8)
    assert image.getexif()[ORIENTATION] == 6
    image.load()  # still open


# --- every kind of pixel


def test_cmyk_opens():
    ink = Image.new("CMYK", (8, 8), (255, 0, 0, 51))
    assert same(open_image(ink), Image.new("RGB", (8, 8), (0, 204, 204)))
    file = saved(ink, "JPEG", quality=100)
    assert same(open_image(file), Image.new("RGB", (8, 8), (0, 204, 204)), tolerance=3)


def test_ycck_opens():
    """Gray ink with no chroma, its Adobe marker changed to say that the first inks are YCC."""
    file = bytearray(saved(Image.new("CMYK", (8, 8), (100, 127, 127, 40)), "JPEG", quality=100))
    file[file.index(b"Adobe") + 11] = 2
    # Stored inverted: Y' = 155, so each ink is decoded as 100 and inverted again to 155 of 255.
    shade = round((255 - 155) * (255 - 40) / 255)
    assert same(open_image(bytes(file)), Image.new("RGB", (8, 8), (shade,) * 3), tolerance=4)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bit_gray_is_scaled_not_clipped(form):
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16)[None]
    found = pixels(open_image(saved(Image.fromarray(ramp), form)))
    assert (found == np.arange(256)[None, :, None]).all()


def test_sixteen_bit_pgm_is_scaled_not_clipped():
    file = b"P5 3 1 65535\n" + struct.pack(">3H", 0, 32896, 65535)
    assert pixels(open_image(file))[0, :, 0].tolist() == [0, 128, 255]


def test_float_tiff_from_zero_to_one_opens():
    file = saved(Image.fromarray(np.array([[0, 0.2, 1]], dtype=np.float32)), "TIFF")
    assert pixels(open_image(file))[0, :, 1].tolist() == [0, 51, 255]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "PA"])
def test_transparency_is_laid_on_white(mode):
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    clear.putpixel((1, 0), (0, 0, 0, 255))
    source = {"LA": clear.convert("LA"), "RGBA": clear}.get(mode)
    if source is None:
        source = Image.new("P", (2, 1))
        source.putpalette([0, 0, 0] * 2)
        source.putpixel((1, 0), 1)
        source.info["transparency"] = bytes([0, 255])
    if mode == "PA":
        source = source.convert("PA")
    found = open_image(source)
    assert [found.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (0, 0, 0)]


def test_transparent_colors_in_a_png_are_laid_on_white():
    file = saved(picture().convert("P"), transparency=bytes(256))
    assert same(open_image(file), Image.new("RGB", (12, 8), "white"))
    half = saved(Image.new("RGBA", (1, 1), (255, 0, 0, 51)))
    assert open_image(half).getpixel((0, 0)) == (255, 204, 204)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_its_first_frame(form):
    frames = [Image.new("RGB", (8, 6), color) for color in ("red", "lime", "blue")]
    lossless = {"lossless": True} if form == "WEBP" else {}
    file = saved(frames[0], form, save_all=True, append_images=frames[1:], **lossless)
    assert Image.open(io.BytesIO(file)).n_frames == 3
    assert same(open_image(file), frames[0])


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


@pytest.mark.parametrize("form", ["PNG", "TIFF", "JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_camera_orientation_is_undone(form, orientation):
    """The tag says how to bring the stored pixels upright; so store them the other way round."""
    undo = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}[orientation]
    lossy = {"JPEG": {"quality": 100, "subsampling": 0}, "WEBP": {"lossless": True}}
    stored = picture(24, 16)
    methods = [None, None, 0, 3, 1, 5, 4, 6, 2]  # Pillow's numbers of the eight orientations
    if methods[undo] is not None:
        stored = stored.transpose(Image.Transpose(methods[undo]))
    file = saved(stored, form, exif=turned(orientation), **lossy.get(form, {}))
    upright = open_image(file)
    assert same(upright, picture(24, 16), tolerance=6)
    assert same(open_image(upright), upright)  # nobody turns it twice


def test_damaged_metadata_does_not_hide_a_sound_picture():
    file = saved(picture(), "JPEG", exif=b"Exif\0\0MM\0*" + b"\xff" * 40)
    assert open_image(file).size == (12, 8)
    file = saved(picture(), "JPEG", exif=b"Exif\0\0nonsense")
    assert open_image(file).size == (12, 8)


# --- bad pictures say why


def png_of_size(width: int, height: int) -> bytes:
    """A PNG of some bytes whose header announces any number of pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ((9460, 9460), rf"larger than {MAX_PIXELS} pixels"),
        ((12000, 12000), rf"larger than {MAX_PIXELS} pixels"),
        ((60000, 60000), "more pixels than Pillow accepts"),
    ],
)
def test_bombs_are_refused_by_their_header(monkeypatch, size, reason):
    def load(image):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    with pytest.raises(ImageError, match=reason):
        open_image(png_of_size(*size))


def test_the_bound_counts_pixels_of_every_source():
    image = picture(10, 10)
    for source in (saved(image), image, np.asarray(image)):
        assert open_image(source, max_pixels=100).size == (10, 10)
        with pytest.raises(ImageError, match="10×10 is larger than 99 pixels"):
            open_image(source, max_pixels=99)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_truncated_files_are_damaged(tmp_path, form):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    file = saved(Image.fromarray(noise), form)
    path = tmp_path / "cut"
    path.write_bytes(file[: len(file) * 2 // 3])
    with pytest.raises(ImageError, match=r"cut: (damaged: |not an image)"):
        open_image(path)


@given(st.integers(0, 10**6), st.sampled_from(["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP", "PPM"]))
def test_broken_bytes_are_an_image_error_or_a_picture(seed, form):
    generator = np.random.default_rng(seed)
    file = bytearray(saved(picture(), form))
    for position in generator.integers(0, len(file), 6):
        file[position] = generator.integers(256)
    try:
        assert open_image(bytes(file), max_pixels=10**6).mode == "RGB"
    except ImageError as problem:
        assert len(str(problem)) > 10  # noqa: PT017


def test_paths_that_hold_no_image_say_so(tmp_path):
    (tmp_path / "notes.jpg").write_text("not a picture")
    (tmp_path / "empty.png").touch()
    os.mkfifo(tmp_path / "pipe")
    cases = {
        "absent.jpg": "no such file",
        ".": "a folder",
        "notes.jpg": "not an image",
        "empty.png": "no bytes",
        "notes.jpg/a.png": "no such file",
        "pipe": "not a regular file",
        "x" * 300: "file name too long",
        "a\0b": "null",
    }
    for name, reason in cases.items():
        with pytest.raises(ImageError, match=reason) as raised:
            open_image(tmp_path / name)
        assert str(raised.value).startswith(str(tmp_path / name))
        if name != "notes.jpg":
            with pytest.raises(ImageError, match=reason):
                content_id(str(tmp_path / name))


def test_unreadable_files_say_so(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(saved(picture()))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ImageError, match="permission denied"):
        open_image(path)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"", "no bytes"),
        (b"hello", "5 bytes: not an image"),
        (saved(picture(), "EPS"), "not an image"),  # would run Ghostscript
        (None, "not a path"),
        (Image.new("RGB", (0, 4)), "no pixels: 0×4"),
        (Image.new("I", (2, 2)), "what white is"),
        (np.zeros((0, 4, 3), np.uint8), "no pixels: 4×0"),
        (torch.zeros(3, 4, 0), "no pixels: 0×4"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"shape \(2, 4, 4, 3\)"),
        (torch.zeros(5, 6, 6), r"shape \(5, 6, 6\)"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((6, 6, 2), np.uint8), r"shape \(6, 6, 2\)"),
        (np.zeros((4, 4), np.int64), "int64"),
        (np.zeros((4, 4), np.uint16), "uint16"),
        (torch.zeros(4, 4, dtype=torch.bool), "bool"),
        (np.zeros((4, 4), np.complex64), "complex64"),
        (np.full((4, 4), 255.0), "floats from 255 to 255: scale them"),
        (torch.full((3, 4, 4), -0.1), "floats from -0.1 to -0.1"),
        (np.full((4, 4, 3), np.nan), "nan"),
        (Image.fromarray(np.full((2, 2), 9, np.float32)), "floats from 9 to 9"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sources_without_a_picture_say_so(source, reason):
    with pytest.raises(ImageError, match=reason):
        open_image(source)


# --- nothing leaks


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("form", ["PNG", "GIF", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("sound", [True, False])
def test_files_are_closed(tmp_path, form, sound):
    path = tmp_path / "a"
    file = saved(picture(64, 64), form, **({} if form == "JPEG" else {"save_all": True}))
    path.write_bytes(file if sound else file[: len(file) // 2])
    before = open_files()
    try:
        kept = open_image(path)
        assert kept.getpixel((0, 0)) is not None
    except ImageError:
        assert not sound
    assert open_files() == before


def test_threads_leave_the_warning_filters_alone(tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(saved(picture(), "TIFF"))
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(open_image, [path] * 200))
    assert warnings.filters == before
    assert all(same(image, picture()) for image in opened)


# --- identity


def test_identity_follows_the_bytes_not_the_name(tmp_path):
    one, two, other = (tmp_path / name for name in ("a.png", "b.jpg", "c.png"))
    one.write_bytes(saved(picture()))
    two.write_bytes(one.read_bytes())
    other.write_bytes(saved(picture(13, 8)))
    assert (
        content_id(one) == content_id(two) == content_id(str(one)) == content_id(one.read_bytes())
    )
    assert content_id(one) != content_id(other)
    assert len(content_id(one)) == 32


def test_identity_of_pixels_is_the_same_in_every_form():
    image = picture()
    array = np.asarray(image)
    expected = content_id(image)
    assert content_id(array) == content_id(array / 255) == expected
    assert content_id(torch.from_numpy(array.copy()).permute(2, 0, 1)) == expected
    assert content_id(array.transpose(1, 0, 2)) != expected
    assert content_id(array.reshape(6, 16, 3)) != expected  # same bytes, another shape


def test_identities_stay_what_they_were():
    """Views, and so stored features, follow from them."""
    assert content_id(b"tammes") == "c3c7d116ae58fb39476ffe49243c82f6"
    assert content_id(np.zeros((2, 3), np.uint8)) == "d7bcfe379e9c5ebe45faebc52ffad8e1"
