"""EPUB books as Markdown, chapter by chapter."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from resource_server.conversion.formats import encodings
from resource_server.conversion.formats.archives import Archive, parse_xml
from resource_server.conversion.formats.html import markdown_of
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_CHAPTERS: Final = frozenset(("application/xhtml+xml", "text/html", "text/x-oeb1-document"))
_FONTS: Final = frozenset(("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"))
"""Algorithms that garble fonts only."""
_MAX_NAMES: Final = 20
_DOCUMENT_TYPE = re.compile(rb"<!DOCTYPE[^\[\]<>]*>")


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the chapters in the order of the spine; the title of the book comes with the first."""
    archive = Archive(file)
    _refuse_encrypted(archive)
    name = _package_name(archive)
    package = _xml(archive, name)
    chapters = _chapters(package, posixpath.dirname(name))
    total = len(chapters)
    if not total:
        raise ConversionError("it is damaged, or no EPUB: it has no chapters")
    for number in range(max(request.first, 1), min(request.last or total, total) + 1):
        text = _chapter(archive, chapters[number - 1])
        title = _title(package) if number == 1 else ""
        yield Part(f"{title}## Chapter {number}\n\n{text}", number, total)


def _refuse_encrypted(archive: Archive) -> None:
    name = "META-INF/encryption.xml"
    if name not in archive:
        return
    for method in archive.xml(name).iter("enc:EncryptionMethod"):
        if method.get("Algorithm") not in _FONTS:
            raise ConversionError("it is protected against copying")


def _package_name(archive: Archive) -> str:
    for root in _xml(archive, "META-INF/container.xml").iter("container:rootfile"):
        if name := root.get("full-path"):
            return name
    raise ConversionError("it is damaged, or no EPUB: it names no package")


def _xml(archive: Archive, name: str) -> Element:
    # Old books have a document type that declares nothing.
    return parse_xml(_DOCUMENT_TYPE.sub(b"", archive.read(name), count=1))


def _chapters(package: Element, folder: str) -> Sequence[str]:
    """Return the names of the members that are chapters, in the order of the spine."""
    manifest, spine = package.find("opf:manifest"), package.find("opf:spine")
    if manifest is None or spine is None:
        return ()
    items = {item.get("id", ""): item for item in manifest.iter("opf:item")}
    names: list[str] = []
    for reference in spine.iter("opf:itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or item.get("media-type") not in _CHAPTERS:
            continue
        path = unquote(item.get("href", "").partition("#")[0])
        names.append(posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/"))
    return names


def _title(package: Element) -> str:
    """Return the title of the book and its authors."""
    metadata = package.find("opf:metadata")
    if metadata is None:
        return ""
    titles = list(_texts(metadata, "dc:title"))[:1]
    authors = ", ".join(_texts(metadata, "dc:creator"))
    return "".join([*(f"# {title}\n\n" for title in titles), f"{authors}\n\n" if authors else ""])


def _texts(metadata: Element, name: str) -> Iterator[str]:
    for element in metadata.findall(name)[:_MAX_NAMES]:
        if text := " ".join("".join(element.itertext()).split()):
            yield text


def _chapter(archive: Archive, name: str) -> str:
    if name not in archive:
        return "[This chapter is missing.]\n"
    data = archive.read(name)
    declared = re.search(rb"""<\?xml[^>]{0,100}?encoding=["']([\w.:-]+)""", data[:200])
    text = markdown_of(encodings.decoded(data, declared[1].decode() if declared else None))
    return text or "[This chapter has no text.]\n"
