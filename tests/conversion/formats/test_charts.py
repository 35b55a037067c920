"""Pictures of charts, drawn by a confined worker from specifications that may be hostile."""

from __future__ import annotations

import io
import json
import re
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from resource_server.conversion import registry
from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest
from resource_server.providers.database.formats.charts import write_chart
from resource_server.providers.database.formats.pages import RowPage, query_columns
from tests.conversion.pools import LINUX

SHAPES = {"svg", "g", "path", "rect", "text", "tspan", "line"}
SCRIPTS = (
    "</script><script>alert(1)</script>",
    '"><image href="http://127.0.0.1/x"/>',
    "&lt;b&gt;]]><!ENTITY x SYSTEM 'file:///etc/passwd'>&x;",
    "datum.y * 1000; alert(1)",
    "javascript:alert(1)",
    "{'signal': 'width'}",
    "url(http://127.0.0.1/x)",
    "\ud800\x00\u202e",
)


@pytest.fixture(scope="module")
def pool() -> Generator[ConverterPool]:
    pool = ConverterPool(workers=1, time_s=60)
    yield pool
    pool.close()


def drawn(pool: ConverterPool, specification: Any, format: str = "svg") -> Any:
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(specification).encode())
        file.seek(0)
        request = ConversionRequest(media_type="application/json", format=format)
        (part,) = pool.convert(registry.CHARTS, file.fileno(), request).parts
    return part.data


def chart(*rows: tuple[object, ...], names: str = "a,b,n", title: str = "T") -> Any:
    page = RowPage(title, query_columns(names.split(",")), rows, condition=title)
    return json.loads(write_chart(page, max_bytes=10**6).text)


@LINUX
@pytest.mark.guarantee("converters-are-confined")
def test_the_worker_of_charts_is_confined_and_has_no_other_converters(pool: ConverterPool) -> None:
    assert pool.protections(registry.CHARTS) == ("landlock", "seccomp")
    assert not registry.share_worker(registry.CHARTS, registry.PLAIN_TEXT.reference)
    assert not registry.share_worker(registry.PLAIN_TEXT.reference, registry.CHARTS)
    assert registry.share_worker(registry.CHARTS, registry.CHARTS)


def test_a_chart_is_drawn_as_svg_and_as_png(pool: ConverterPool) -> None:
    bars = chart(("paid", "DE", 3), ("paid", "FR", 1), ("open", None, 2))
    svg = drawn(pool, bars)
    assert "mark-rect" in svg
    for text in ("paid", "open", "DE", "FR", "null"):
        assert f">{text}</text>" in svg
    png = drawn(pool, bars, "png")
    image = Image.open(io.BytesIO(png), formats=["PNG"])
    assert image.width > 900
    assert len(png) < 30_000
    line = drawn(pool, chart(("2026-01-02", "DE", 3), ("2026-01-05", "DE", 4)))
    assert "mark-line" in line


def test_names_and_values_are_text_in_a_picture(pool: ConverterPool) -> None:
    for text in SCRIPTS:
        rows = [(text, text, 3), ("plain", "plain", 1)]
        svg = drawn(pool, chart(*rows, names=f"{text},{text}2,n", title=text))
        check_harmless(svg)
    svg = drawn(pool, chart((SCRIPTS[0], "b", 3), title=SCRIPTS[3]))
    shown = "".join(ElementTree.fromstring(svg).itertext())  # noqa: S314 - our own text
    assert "</script><script>alert(1)" in shown
    assert SCRIPTS[3] in shown


def check_harmless(svg: str) -> None:
    """Check that a picture has only shapes and text, without a way to anything else."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - text without entities, as is checked here
    assert "<!" not in svg
    for element in root.iter():
        assert element.tag.rpartition("}")[2] in SHAPES
        for name, value in element.attrib.items():
            assert not re.search(r"(?i)^on|href|src|style", name)
            if name != "aria-label":  # text, too
                assert not re.search(r"(?i)url\(|javascript:|data:", value)


@pytest.mark.parametrize("count", [501, 5000])
def test_the_largest_chart_is_drawn(pool: ConverterPool, count: int) -> None:
    long = "W" * 300
    rows = [(f"{at}{long}", f"{at}{long}", at) for at in range(count)]
    check_harmless(drawn(pool, chart(*rows)))


@LINUX
def test_a_specification_loads_nothing(pool: ConverterPool, tmp_path: Path) -> None:
    table, picture = tmp_path / "t.csv", tmp_path / "p.png"
    table.write_text("a\nsecret\n")
    Image.new("RGB", (4, 4), "red").save(picture)
    encoding = {"x": {"field": "a", "type": "nominal"}}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        base = f"http://127.0.0.1:{server.getsockname()[1]}"
        for url in (f"{base}/t.csv", table.as_uri(), str(table), "../t.csv"):
            try:
                shown = drawn(pool, {"data": {"url": url}, "mark": "bar", "encoding": encoding})
            except ConversionError:
                continue
            assert "secret" not in shown
        for url in (f"{base}/p.png", picture.as_uri(), str(picture)):
            mark = {"type": "image", "url": url, "width": 9, "height": 9}
            spec = {"data": {"values": [{"a": 1}]}, "mark": mark, "encoding": encoding}
            try:
                data = drawn(pool, spec, "png")
            except ConversionError:
                continue
            colors = Image.open(io.BytesIO(data)).convert("RGB").getcolors(10**6)
            assert (255, 0, 0) not in [color for _, color in colors or ()]
        with pytest.raises(BlockingIOError):
            server.accept()
    assert drawn(pool, chart(("a", "b", 1)))


CANNOT_BE_DRAWN: dict[str, Any] = {
    "memory": {"data": {"sequence": {"start": 0, "stop": 10**9}}, "mark": "bar"},
    "nonsense": {"data": {"values": 3}, "mark": {"type": "nothing"}},
    "pixels": {"width": 10**6, "height": 10**6, "data": {"values": [{}]}, "mark": "bar"},
}


@LINUX
@pytest.mark.parametrize("name", CANNOT_BE_DRAWN)
def test_a_specification_that_cannot_be_drawn_fails_alone(pool: ConverterPool, name: str) -> None:
    with pytest.raises(ConversionError):
        drawn(pool, CANNOT_BE_DRAWN[name], "png")
    assert drawn(pool, chart(("a", "b", 1)))
