"""Office files as programs write them: suffixes, spellings of part names, passwords."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

import pytest

from resource_server import media_types
from resource_server.conversion import registry
from resource_server.conversion.formats import pdf, sheets, slides, word
from resource_server.errors import ConversionError
from tests.cases import for_each
from tests.conversion.formats.zipped import Convert, parts_of, text_of, unzipped, zipped
from tests.conversion.portable import pdf_of
from tests.conversion.samples import SAMPLES, Sample
from tests.conversion.xls import compound, xls

_CONVERTERS: Mapping[str, Convert] = {
    "docx": word.convert,
    "xlsx": sheets.convert,
    "pptx": slides.convert,
}
_OFFICE = [sample for sample in SAMPLES if sample.name.rpartition(".")[2] in _CONVERTERS]


@for_each(
    ("usual", "others"),
    [
        ("docx", "docm dotx dotm odt ott odm fodt"),
        ("xlsx", "xlsm xltx xltm xlam xlsb ods ots fods xls xlt xla"),
        ("pptx", "pptm potx potm ppsx ppsm odp otp fodp odg otg fodg"),
        ("eml", "mht mhtml"),
    ],
)
def test_macro_enabled_files_and_templates_are_of_their_formats(usual: str, others: str) -> None:
    converters = registry.Converters()
    expected = converters.of(media_types.from_name(f"a.{usual}"))
    assert expected is not None
    found = {each: converters.of(media_types.from_name(f"a.{each}")) for each in others.split()}
    assert {each for each, converter in found.items() if converter != expected} == set()


_TARGET = re.compile(rb'Target="([^"]*)" TargetMode="Internal"')


def _targets(change: Callable[[str, str], str]) -> Callable[[str, bytes], tuple[str, bytes]]:
    """Return a change of references, given the folder of each and the part that it means."""

    def changed(name: str, data: bytes) -> tuple[str, bytes]:
        folder = posixpath.dirname(posixpath.dirname(name))

        def target(match: re.Match[bytes]) -> bytes:
            part = posixpath.normpath(posixpath.join("/", folder, match[1].decode()))[1:]
            return f'Target="{change(folder, part)}" TargetMode="Internal"'.encode()

        return name, _TARGET.sub(target, data) if name.endswith(".rels") else data

    return changed


_SPELLINGS: Mapping[str, Callable[[str, bytes], tuple[str, bytes]]] = {
    "parts in another case": lambda name, data: (name.swapcase(), data),
    "SharedStrings.xml, Workbook.xml": lambda name, data: (
        "/".join(each[:1].upper() + each[1:] for each in name.split("/")),
        data,
    ),
    "backslashes in part names": lambda name, data: (name.replace("/", "\\"), data),
    "a slash before part names": lambda name, data: (f"/{name}", data),
    "backslashes in references": _targets(
        lambda folder, part: posixpath.relpath(part, folder or ".").replace("/", "\\")
    ),
    "references in another case": _targets(lambda _, part: f"/{part.upper()}"),
    "absolute references": _targets(lambda _, part: f"/{part}"),
    "references from the top": _targets(lambda _, part: part),
}


@for_each("spelling", _SPELLINGS)
@for_each("sample", _OFFICE, ids=[sample.name for sample in _OFFICE])
def test_parts_are_found_however_their_names_are_spelt(sample: Sample, spelling: str) -> None:
    parts = dict(_SPELLINGS[spelling](*each) for each in unzipped(sample.data).items())
    text = text_of(_CONVERTERS[sample.name.rpartition(".")[2]], zipped(parts))
    assert [fact for fact in sample.facts if not fact.is_in(text)] == []


@for_each("sample", _OFFICE, ids=[sample.name for sample in _OFFICE])
def test_a_document_without_content_types_and_without_its_first_reference_is_read(
    sample: Sample,
) -> None:
    left_out = ("[Content_Types].xml", "_rels/.rels")
    parts = {name: data for name, data in unzipped(sample.data).items() if name not in left_out}
    text = text_of(_CONVERTERS[sample.name.rpartition(".")[2]], zipped(parts))
    assert [fact for fact in sample.facts if not fact.is_in(text)] == []


_ENCRYPTED = zipped({"META-INF/manifest.xml": "<m><encryption-data/></m>", "content.xml": b"\1"})


@for_each(
    ("suffix", "document", "cause"),
    [
        ("xls", xls({"A": {(0, 0): "x"}}, is_protected=True), "a password"),
        *((each, compound("EncryptedPackage", bytes(9)), "a password") for each in _CONVERTERS),
        ("xls", compound("EncryptedPackage", bytes(9)), "a password"),
        ("docx", compound("\tDRMContent", bytes(9)), "rights management"),
        *((each, _ENCRYPTED, "a password") for each in _CONVERTERS),
    ],
)
def test_a_protected_document_is_said_to_be_protected(
    suffix: str, document: bytes, cause: str
) -> None:
    convert = _CONVERTERS.get(suffix, sheets.convert)
    with pytest.raises(ConversionError, match=f"it is protected by {cause}"):
        text_of(convert, document)


def test_a_document_of_an_older_format_is_not_said_to_be_protected() -> None:
    with pytest.raises(ConversionError, match="older format"):
        text_of(word.convert, compound("WordDocument", bytes(9)))


@for_each("format", ["markdown", "png"])
def test_a_page_of_a_pdf_that_is_missing_is_damage(format: str) -> None:
    catalog, pages = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [9 0 R] /Count 1 >>",
    )
    with pytest.raises(ConversionError, match="it is damaged: page 1 cannot be read"):
        parts_of(pdf.convert, pdf_of([catalog, pages]), format=format)
