"""The example converter, in a confined worker as the server runs it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from resource_server.conversion.pool import ConverterPool
from resource_server.provider.conversion import ConversionRequest
from resource_server.testing import check_converter

PLUGINS = Path(__file__).parents[2] / "plugins"

pytest.importorskip("rapidocr", reason="pip install rapidocr onnxruntime")


def picture(text: str) -> bytes:
    """Return a picture with a line of text."""
    image = Image.new("RGB", (900, 200), "white")
    font = ImageFont.load_default(48)
    ImageDraw.Draw(image).text((20, 60), text, fill="black", font=font)
    target = io.BytesIO()
    image.save(target, "PNG")
    return target.getvalue()


def test_the_words_of_a_picture_are_its_markdown(tmp_path: Path) -> None:
    path = tmp_path / "scan.png"
    path.write_bytes(picture("Turnover 2026: 17 percent"))
    pool = ConverterPool(modules=[str(PLUGINS)])
    try:
        with path.open("rb") as file:
            request = ConversionRequest(media_type="image/png")
            (part,) = pool.convert("ocr:convert", file.fileno(), request).parts
    finally:
        pool.close()
    assert part.data == "Turnover 2026: 17 percent"


def test_it_keeps_the_contract() -> None:
    documents = {"a letter": picture("Dear Ada"), "an empty page": picture("")}
    check_converter("ocr:convert", documents, media_type="image/png", modules=[PLUGINS])
