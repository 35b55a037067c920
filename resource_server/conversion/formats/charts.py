"""Charts as pictures: Vega-Lite specifications, drawn by Vega in a V8 of its own.

A specification loads nothing: no address is allowed, and the worker has neither files nor network.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, Final

import vl_convert
from PIL import Image

from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""Half of it are the stacks and arenas that V8 and its threads reserve at their start."""
_SCALE: Final = 1.5
_EMPTY: Final = '{"data": {"values": [{}]}, "mark": "point"}'


def prepare() -> None:
    """Draw a chart without data: V8 starts its threads, and reserves 64 GiB of addresses."""
    vl_convert.vegalite_to_png(_EMPTY, allowed_base_urls=[])


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the picture of a specification, as SVG or as PNG."""
    specification = file.read().decode()
    if request.format == "svg":
        svg = vl_convert.vegalite_to_svg(specification, allowed_base_urls=[])
        yield Part(svg, mime_type="image/svg+xml")
    elif request.format == "png":
        png = vl_convert.vegalite_to_png(specification, scale=_SCALE, allowed_base_urls=[])
        yield Part(_compressed(png), mime_type="image/png")
    else:
        raise ConversionError(f"charts have the formats svg and png, not {request.format[:40]!r}")


def _compressed(png: bytes) -> bytes:
    """Return a picture with a tenth of its bytes: the renderer hardly compresses."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png), formats=["PNG"]).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()
