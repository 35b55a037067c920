"""Images scaled down, without metadata."""

from __future__ import annotations

import io
import struct
import time
import zlib
from contextlib import suppress
from typing import Any

import pytest
from PIL import Image

from resource_server.conversion.formats.images import convert
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest
from tests.cases import for_each
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged


def _picture(mode: str = "RGB", size: tuple[int, int] = (300, 100)) -> Image.Image:
    """Return an image whose left half is dark, and whose right half is light."""
    image = Image.new(mode, size)
    image.paste(Image.new("L", (size[0] // 2, size[1]), 255).convert(mode), (size[0] // 2, 0))
    return image


def _written(image: Image.Image, name: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, name, **options)
    return buffer.getvalue()


def _converted(data: bytes, name: str = "png", **options: str) -> Image.Image:
    request = ConversionRequest(media_type="image/png", format=name, options=options)
    (part,) = convert(io.BytesIO(data), request)
    assert isinstance(part.data, bytes)
    assert part.mime_type == f"image/{name}"
    image = Image.open(io.BytesIO(part.data))
    assert image.format == name.upper()
    image.load()
    return image


@for_each("name", ["png", "webp"])
@for_each("source", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_images_are_scaled_down_to_1024_pixels(source: str, name: str) -> None:
    image = _converted(_written(_picture(size=(3000, 1500)), source), name).convert("L")
    assert image.size == (1024, 512)
    left, right = image.getpixel((100, 200)), image.getpixel((900, 200))
    assert isinstance(left, int)
    assert isinstance(right, int)
    assert left < 10
    assert right > 245


def test_the_longest_side_can_be_chosen() -> None:
    assert _converted(_written(_picture(), "PNG"), max="60").size == (60, 20)
    assert _converted(_written(_picture(size=(100, 300)), "PNG"), max="60").size == (20, 60)


def test_images_are_never_scaled_up() -> None:
    assert _converted(_written(_picture(), "PNG"), max="4096").size == (300, 100)


@for_each("value", ["15", "4097", "-20", "1e3", "", "x", "9" * 5000, "\u0661\u0660\u0660"])
def test_other_sizes_are_refused(value: str) -> None:
    with pytest.raises(InvalidParameter, match="from 16 to 4096"):
        _converted(_written(_picture(), "PNG"), max=value)


def test_other_formats_are_refused() -> None:
    request = ConversionRequest(media_type="image/png", format="gif")
    with pytest.raises(ConversionError, match="png and webp"):
        list(convert(io.BytesIO(_written(_picture(), "PNG")), request))


@for_each(
    ("orientation", "size", "light"),
    [(3, (300, 100), (10, 50)), (6, (100, 300), (50, 290)), (8, (100, 300), (50, 10))],
)
def test_the_orientation_of_a_photo_is_applied(
    orientation: int, size: tuple[int, int], light: tuple[int, int]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = _converted(_written(_picture(), "JPEG", exif=exif)).convert("L")
    assert image.size == size
    value = image.getpixel(light)
    assert isinstance(value, int)
    assert value > 245


@for_each("name", ["png", "webp"])
def test_metadata_is_dropped(name: str) -> None:
    exif = Image.Exif()
    exif[0x010E] = "SECRET-PLACE"
    options: dict[str, Any] = {"exif": exif, "icc_profile": b"SECRET-PROFILE" * 20}
    for source in ("JPEG", "PNG", "WEBP"):
        request = ConversionRequest(media_type="image/jpeg", format=name)
        (part,) = convert(io.BytesIO(_written(_picture(), source, **options)), request)
        assert isinstance(part.data, bytes)
        assert b"SECRET" not in part.data
        assert not Image.open(io.BytesIO(part.data)).getexif()


@for_each("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_all_kinds_of_pixels_are_read(mode: str) -> None:
    source = Image.new(mode, (40, 40), 1 if mode == "1" else None)
    assert _converted(_written(source, "TIFF")).size == (40, 40)


def test_gray_of_16_bits_keeps_its_shades() -> None:
    source = Image.new("I;16", (40, 40), 40_000)
    value = _converted(_written(source, "PNG")).convert("L").getpixel((0, 0))
    assert isinstance(value, int)
    assert abs(value - 156) <= 1


def test_transparency_is_kept() -> None:
    image = _converted(_written(Image.new("RGBA", (40, 40), (255, 0, 0, 0)), "PNG"))
    assert image.mode == "RGBA"
    assert image.getpixel((0, 0)) in ((255, 0, 0, 0), (0, 0, 0, 0))


@for_each("source", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_shown(source: str) -> None:
    frames = [Image.new("RGB", (40, 40), color) for color in ("red", "lime", "blue")]
    data = _written(frames[0], source, save_all=True, append_images=frames[1:], duration=100)
    image = _converted(data)
    red = image.convert("RGB").getpixel((0, 0))
    assert isinstance(red, tuple)
    assert red[0] > 240
    assert red[1] < 20
    assert getattr(image, "n_frames", 1) == 1


def _png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(10_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@for_each("size", [(10_001, 10_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_bombs_are_refused_before_they_are_decoded(size: tuple[int, int]) -> None:
    begin = time.process_time()
    with pytest.raises(ConversionError):
        _converted(_png(*size))
    assert time.process_time() - begin < 10


@for_each("data", [b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(ConversionError, match="no image"):
        _converted(data)


@for_each("source", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_damaged_documents_raise_nothing_but_conversion_errors(source: str) -> None:
    begin = time.process_time()
    for data in damaged(_written(_picture(size=(120, 90)), source), count=200):
        with suppress(ConversionError):
            _converted(data)
    assert time.process_time() - begin < 60


def test_a_confined_worker_scales_images_of_every_kind() -> None:
    request = ConversionRequest(media_type="image/jpeg", format="webp", options={"max": "64"})
    for source in ("JPEG", "WEBP", "GIF"):
        (part,) = in_a_worker("images", _written(_picture(), source), request)
        assert isinstance(part.data, bytes)
        assert max(Image.open(io.BytesIO(part.data)).size) == 64
