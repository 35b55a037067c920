"""ZIP archives and XML within limits."""

from __future__ import annotations

import io
import struct
import zipfile
from contextlib import suppress

import pytest

from resource_server.conversion.formats.archives import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    Archive,
    copied,
    parse_xml,
)
from resource_server.errors import ConversionError
from tests.cases import for_each
from tests.conversion.formats.damaged import damaged
from tests.conversion.formats.zipped import xml_bombs, zipped


def _archive(data: bytes) -> Archive:
    return Archive(io.BytesIO(data))


def _read_all(data: bytes) -> list[bytes]:
    archive = _archive(data)
    return [archive.read(name) for name in archive.names]


def test_members_are_read_by_name() -> None:
    archive = _archive(zipped({"a/b.xml": "<a/>", "c": b"\0\1"}))
    assert list(archive.names) == ["a/b.xml", "c"]
    assert "c" in archive
    assert "d" not in archive
    assert archive.read("c") == b"\0\1"
    with pytest.raises(ConversionError, match="missing"):
        archive.read("d")


def test_a_copy_has_the_same_members() -> None:
    assert Archive(copied({"a": b"1", "b": b"22"})).read("b") == b"22"


def test_an_archive_of_too_many_files_is_refused() -> None:
    _archive(zipped({str(at): "" for at in range(MAX_FILES)}))
    with pytest.raises(ConversionError, match="more than 10,000 files"):
        _archive(zipped({str(at): "" for at in range(MAX_FILES + 1)}))


def test_a_flat_bomb_is_refused_by_its_ratio() -> None:
    with pytest.raises(ConversionError, match="100 times"):
        _read_all(zipped({"bomb": bytes(20 * 1024 * 1024)}))


def test_many_small_bombs_are_refused_together() -> None:
    with pytest.raises(ConversionError, match="100 times"):
        _read_all(zipped({f"bomb{at}": bytes(1000 * 1024) for at in range(20)}))


def test_small_files_may_have_any_ratio() -> None:
    assert _read_all(zipped({"blank": bytes(1000 * 1024)})) == [bytes(1000 * 1024)]


def test_the_size_of_everything_unpacked_is_limited() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for at in range(3):
            archive.writestr(f"large{at}", bytes(MAX_BYTES // 3 + 1))
    with pytest.raises(ConversionError, match="200 MiB"):
        _read_all(target.getvalue())


def test_a_nested_archive_stays_packed() -> None:
    bomb = zipped({"bomb": bytes(50 * 1024 * 1024)})
    for _ in range(5):
        bomb = zipped({"nested.zip": bomb})
    (read,) = _read_all(bomb)
    assert read.startswith(b"PK")
    assert len(read) < 1024 * 1024


def test_files_that_share_their_packed_data_are_refused() -> None:
    data = bytearray(zipped({"aaaa": b"1" * 100, "bbbb": b"2" * 100}))
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    with pytest.raises(ConversionError, match="overlap"):
        _archive(bytes(data))


def test_a_packed_size_beyond_the_file_is_refused() -> None:
    data = bytearray(zipped({"bomb": bytes(20 * 1024 * 1024)}))
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 20 : entry + 24] = struct.pack("<I", 1 << 30)
    with pytest.raises(ConversionError, match="damaged"):
        _archive(bytes(data))


def test_an_unpacked_size_that_is_too_small_is_found_out() -> None:
    data = bytearray(zipped({"bomb": bytes(20 * 1024 * 1024)}))
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = struct.pack("<I", 10)
    with pytest.raises(ConversionError):
        _read_all(bytes(data))


def test_two_files_of_one_name_are_refused() -> None:
    data = zipped({"aaaa": b"1", "bbbb": b"2"}).replace(b"bbbb", b"aaaa")
    with pytest.raises(ConversionError, match="one name"):
        _archive(data)


def test_an_encrypted_file_is_said_to_be_protected() -> None:
    data = bytearray(zipped({"a": b"1"}))
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ConversionError, match="password"):
        _read_all(bytes(data))


def test_unusual_compression_is_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", b"1" * 1000)
    with pytest.raises(ConversionError, match="unusual"):
        _read_all(target.getvalue())


@for_each("data", [b"", b"PK", b"%PDF-1.7", b"PK\x05\x06" + bytes(18) + b"x", b"\0" * 5000])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with suppress(ConversionError):
        assert _read_all(data) == []


def test_damaged_archives_raise_nothing_but_conversion_errors() -> None:
    document = zipped({"a": b"1" * 500, "b/c.xml": "<a>" * 100, "d": b""})
    for data in damaged(document, count=1000):
        with suppress(ConversionError):
            _read_all(data)


def test_names_in_xml_have_customary_prefixes() -> None:
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    root = parse_xml(f'<n:a xmlns:n="{main}" n:b="1" c="2"><x xmlns="urn:u"/></n:a>'.encode())
    assert (root.tag, dict(root.items())) == ("w:a", {"w:b": "1", "c": "2"})
    assert [child.tag for child in root] == ["_:x"]


def test_xml_in_utf16_is_read() -> None:
    assert parse_xml('<?xml version="1.0"?><a>Größe</a>'.encode("utf-16")).text == "Größe"


@for_each("name", list(xml_bombs("a")))
def test_hostile_xml_is_refused(name: str) -> None:
    with pytest.raises(ConversionError):
        parse_xml(xml_bombs("a")[name])


def test_the_depth_of_xml_is_limited() -> None:
    parse_xml(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH)
    with pytest.raises(ConversionError, match="200 levels"):
        parse_xml(b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1))


def test_the_number_of_xml_tags_is_limited() -> None:
    with pytest.raises(ConversionError, match="tags"):
        parse_xml(b"<a>" + b"<b/>" * 3_000_000 + b"</a>")


def test_damaged_xml_raises_nothing_but_conversion_errors() -> None:
    document = '<?xml version="1.0" encoding="UTF-8"?><a b="c">ä<![CDATA[x]]>&amp;<d/></a>'.encode()
    for data in damaged(document, count=1000):
        with suppress(ConversionError):
            parse_xml(data)


def test_relations_are_found_by_id() -> None:
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    archive = _archive(
        zipped(
            {
                "p/_rels/q.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/'
                f'package/2006/relationships"><Relationship Id="1" Type="{kinds}/slide" '
                'Target="../s/1.xml"/><Relationship Id="2" Target="http://e.org/" '
                f'TargetMode="External" Type="{kinds}/hyperlink"/></Relationships>'
            }
        )
    )
    found = archive.relations("p/q.xml")
    assert (found["1"].kind, found["1"].target, found["1"].is_external) == (
        "slide",
        "s/1.xml",
        False,
    )
    assert (found["2"].target, found["2"].is_external) == ("http://e.org/", True)
    assert archive.relations("other.xml") == {}
