"""Images scaled down to what a model's host takes, without metadata."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from PIL import Image, ImageOps

from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part

_MAX_PIXELS = 100_000_000
_DEFAULT_SIDE = 1024
_SIDES = range(16, 4097)
"""Pixels of the longest side."""
# Formats that Pillow reads by itself; EPS would start a program.
_READABLE = (
    *("PNG", "JPEG", "GIF", "WEBP", "AVIF", "TIFF", "BMP", "DIB", "ICO", "ICNS"),
    *("JPEG2000", "PPM", "TGA", "PCX", "SGI", "PSD", "QOI", "XBM", "XPM", "DDS"),
)
_MIME_TYPES = {"png": "image/png", "webp": "image/webp"}
_WITH_ALPHA = {"RGBA", "LA", "PA", "La", "RGBa"}


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the image as PNG or WebP; of an animated one, its first frame."""
    mime_type = _MIME_TYPES.get(request.format)
    if mime_type is None:
        raise ConversionError(f"images have the formats png and webp, not {request.format[:40]!r}")
    side = _side(request.options.get("max"))
    with warnings.catch_warnings():
        # About large images, whose size is checked here, and about odd metadata.
        warnings.simplefilter("ignore")
        try:
            data = _scaled(file, side, request.format)
        except (ConversionError, MemoryError):
            raise
        except Image.DecompressionBombError:
            raise ConversionError(_too_large()) from None
        except Image.UnidentifiedImageError:
            raise ConversionError("it is no image in a known format") from None
        except Exception as error:
            # Decoders raise nearly anything on damaged files.
            raise ConversionError("the image is damaged") from error
    yield Part(data, total=1, mime_type=mime_type)


def _side(text: str | None) -> int:
    if text is None:
        return _DEFAULT_SIDE
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) in _SIDES):
        raise InvalidParameter(
            f"max cannot be {text[:40]!r}; write pixels from {_SIDES[0]} to {_SIDES[-1]}"
        )
    return int(text)


def _scaled(file: BinaryIO, side: int, name: str) -> bytes:
    with Image.open(file, formats=_READABLE) as image:
        if image.width * image.height > _MAX_PIXELS:
            raise ConversionError(_too_large())
        orientation = image.getexif().get(0x0112)
        image.draft(None, (side, side))  # JPEG decodes to a smaller size by itself
        image.load()
        plain = _plain(image)
        plain.thumbnail((side, side), reducing_gap=3.0)
        if orientation in range(2, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            plain.info["exif"] = exif.tobytes()
            plain = ImageOps.exif_transpose(plain)
        plain.info.clear()
        buffer = io.BytesIO()
        plain.save(buffer, name)
        return buffer.getvalue()


def _plain(image: Image.Image) -> Image.Image:
    """Return the pixels as gray or RGB of 8 bits, with alpha if there is any."""
    if image.mode in ("L", "RGB", "RGBA") and "transparency" not in image.info:
        return image
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        return _of_8_bits(image)
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode == "1" else "RGB")


def _of_8_bits(image: Image.Image) -> Image.Image:
    """Scale gray of 16 bits or more, whose conversion by Pillow cuts at 255."""
    values = cast("Any", image.convert("F"))  # its `point` is only partly typed
    low, high = values.getextrema()
    if image.mode != "F":
        low, high = min(low, 0.0), 65535.0 if high > 255 else 255.0
    factor = 255 / (high - low) if high > low else 1.0

    def scaled(value: Any) -> Any:  # a symbolic number
        return value * factor - low * factor

    return values.point(scaled).convert("L")


def _too_large() -> str:
    return f"the image has more than {_MAX_PIXELS // 1_000_000} million pixels"
