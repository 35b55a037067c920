"""EPUB as Markdown, chapter by chapter."""

from __future__ import annotations

from contextlib import suppress

import pytest

from resource_server.conversion.formats.epub import convert
from resource_server.conversion.pool import Conversion
from resource_server.errors import ConversionError
from tests.cases import for_each
from tests.conversion.formats.damaged import damaged_archives
from tests.conversion.formats.zipped import parts_of, pooled, text_of, unzipped, xml_bombs, zipped

_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
_HEAD = '<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE html>'


def _epub(**members: str | bytes) -> bytes:
    package = (
        '<!DOCTYPE package PUBLIC "+//ISBN 0-9673008-1-9//DTD OEB 1.2" "http://e.org/x.dtd">'
        '<package xmlns="http://www.idpf.org/2007/opf" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>The Book</dc:title>'
        '</metadata><manifest><item id="a" href="text/a%20b.xhtml" '
        'media-type="application/xhtml+xml"/><item id="b" href="b.xhtml" '
        'media-type="application/xhtml+xml"/><item id="c" href="c.xhtml" '
        'media-type="application/xhtml+xml"/><item id="p" href="p.png" media-type="image/png"/>'
        '</manifest><spine><itemref idref="b"/><itemref idref="p"/><itemref idref="none"/>'
        '<itemref idref="a"/><itemref idref="c"/></spine></package>'
    )
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": _CONTAINER,
            "OEBPS/book.opf": package,
            "OEBPS/text/a b.xhtml": f"{_HEAD}<html><body><h1>Second</h1><p>Größe <a "
            'href="https://e.org/">link</a></p></body></html>',
            "OEBPS/b.xhtml": f"{_HEAD}<html><body><h1>First</h1><script>secret</script>"
            "<p hidden='hidden'>secret</p><table><tr><th>k</th></tr><tr><td>v</td></tr></table>"
            "</body></html>",
            **members,
        }
    )


def test_chapters_come_in_the_order_of_the_spine() -> None:
    first, second, third = parts_of(convert, _epub())
    assert str(first.data).startswith("# The Book\n\n## Chapter 1\n\n# First")
    assert "| k |\n| --- |\n| v |" in str(first.data)
    assert "secret" not in str(first.data)
    assert "Größe [link](https://e.org/)" in str(second.data)
    assert "missing" in str(third.data)
    assert [(part.number, part.total) for part in (first, second, third)] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]


def test_chapters_are_chosen_by_number() -> None:
    (part,) = parts_of(convert, _epub(), first=2, last=2)
    assert part.number == 2
    assert "The Book" not in str(part.data)


def test_a_book_that_is_protected_says_so() -> None:
    encryption = (
        '<encryption><EncryptionMethod xmlns="http://www.w3.org/2001/04/xmlenc#" '
        'Algorithm="http://www.w3.org/2001/04/xmlenc#{}"/></encryption>'
    )
    with pytest.raises(ConversionError, match="protected"):
        text_of(convert, _epub(**{"META-INF/encryption.xml": encryption.format("aes128-cbc")}))


_BOMBS = xml_bombs("package")


@for_each("name", list(_BOMBS))
def test_hostile_xml_is_refused(name: str) -> None:
    for member in ("META-INF/container.xml", "OEBPS/book.opf"):
        with pytest.raises(ConversionError):
            text_of(convert, _epub(**{member: _BOMBS[name]}))
    with suppress(ConversionError):
        text = text_of(convert, _epub(**{"OEBPS/b.xhtml": _BOMBS[name]}))
        assert "root:" not in text
        assert len(text) < 100_000


def test_damaged_books_raise_nothing_but_conversion_errors() -> None:
    for data in damaged_archives(_epub(), count=300, of_each=50):
        with suppress(ConversionError):
            text_of(convert, data)


def test_a_confined_worker_converts_books() -> None:
    bomb = _epub(**{"OEBPS/b.xhtml": bytes(50_000_000)})
    results = pooled("resource_server.conversion.formats.epub:convert", [_epub(), bomb, _epub()])
    assert isinstance(results[0], Conversion)
    assert len(results[0].parts) == 3
    assert isinstance(results[1], ConversionError)
    assert results[2] == results[0]


def test_a_book_names_its_authors() -> None:
    package = unzipped(_epub())["OEBPS/book.opf"].decode()
    creators = "<dc:creator>Ada  Lovelace</dc:creator><dc:creator/><dc:creator>Bo</dc:creator>"
    document = _epub(**{"OEBPS/book.opf": package.replace("</metadata>", creators + "</metadata>")})
    text = str(parts_of(convert, document)[0].data)
    assert text.startswith("# The Book\n\nAda Lovelace, Bo\n\n## Chapter 1\n")
