"""ZIP archives of documents, and the XML in them, read within limits.

Sizes are counted while reading; those that an archive declares are not trusted. Members are found
as Office finds them: in any case, with backslashes, and with references from the wrong folder.
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO, Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError, XMLParser

from resource_server import media_types
from resource_server.errors import ConversionError

MAX_FILES: Final = 10_000
MAX_RATIO: Final = 100
"""Maximum size of unpacked data as a multiple of the packed."""
MAX_BYTES: Final = 200 * 1024 * 1024
"""Maximum unpacked size of one archive."""
MAX_DEPTH: Final = 200
"""Maximum depth of XML elements."""
MAX_TAGS: Final = 3_000_000
"""Maximum number of XML tags; a parsed one takes about 100 bytes."""
_HARMLESS_BYTES: Final = 1024 * 1024
"""Size up to which any ratio is good: empty sheets and blank pages shrink a lot."""
_CHUNK_BYTES: Final = 256 * 1024
_HEADER_BYTES: Final = 30
_ENCRYPTED: Final = 1
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OSError,
    NotImplementedError,
)
OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of a compound file, which holds an old or a protected document."""
MAX_OLE_BYTES: Final = 64 * 1024 * 1024
_PROTECTIONS: Final = {
    "\tDRMContent": "rights management",
    "DRMEncryptedTransform": "rights management",
    "EncryptedPackage": "a password",
}
"""Streams that mark a protected compound file, and its protection."""

_OFFICE = "http://schemas.openxmlformats.org/"
_STRICT = "http://purl.oclc.org/ooxml/"
_MICROSOFT = "http://schemas.microsoft.com/office/"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_PREFIXES: Final = {
    f"{_OFFICE}wordprocessingml/2006/main": "w",
    f"{_STRICT}wordprocessingml/main": "w",
    f"{_OFFICE}presentationml/2006/main": "p",
    f"{_STRICT}presentationml/main": "p",
    f"{_OFFICE}spreadsheetml/2006/main": "x",
    f"{_STRICT}spreadsheetml/main": "x",
    f"{_OFFICE}drawingml/2006/main": "a",
    f"{_STRICT}drawingml/main": "a",
    f"{_OFFICE}drawingml/2006/wordprocessingDrawing": "wp",
    f"{_STRICT}drawingml/wordprocessingDrawing": "wp",
    f"{_OFFICE}drawingml/2006/spreadsheetDrawing": "xdr",
    f"{_STRICT}drawingml/spreadsheetDrawing": "xdr",
    f"{_OFFICE}drawingml/2006/chart": "c",
    f"{_STRICT}drawingml/chart": "c",
    f"{_OFFICE}drawingml/2006/diagram": "dgm",
    f"{_STRICT}drawingml/diagram": "dgm",
    f"{_OFFICE}officeDocument/2006/relationships": "r",
    f"{_STRICT}officeDocument/relationships": "r",
    f"{_OFFICE}officeDocument/2006/math": "m",
    f"{_STRICT}officeDocument/math": "m",
    f"{_OFFICE}package/2006/relationships": "rels",
    f"{_OFFICE}markup-compatibility/2006": "mc",
    f"{_MICROSOFT}word/2010/wordml": "w14",
    f"{_MICROSOFT}drawing/2014/chartex": "cx",
    f"{_MICROSOFT}spreadsheetml/2018/threadedcomments": "xt",
    f"{_MICROSOFT}powerpoint/2018/8/main": "pt",
    "urn:schemas-microsoft-com:vml": "v",
    "urn:schemas-microsoft-com:office:office": "o",
    **{
        f"{_ODF}{name}:1.0": name
        for name in ("office", "text", "table", "style", "presentation", "manifest", "chart")
    },
    f"{_ODF}drawing:1.0": "draw",
    f"{_ODF}svg-compatible:1.0": "svg",
    f"{_ODF}xsl-fo-compatible:1.0": "fo",
    f"{_ODF}datastyle:1.0": "number",
    "http://www.w3.org/1999/xlink": "xlink",
    "http://www.w3.org/1998/Math/MathML": "math",
    f"{_ODF}container": "container",
    "http://www.idpf.org/2007/opf": "opf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
}
"""The prefixes that elements and attributes get, whatever those of the document are."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A reference of one part of an Office document to another part, or to the outside."""

    kind: str
    """The end of its type: `slide`, `hyperlink`."""
    target: str
    """The name of a part, or a URI."""
    is_external: bool


class Archive:
    """A ZIP archive whose members are read within limits."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the directory of an archive.

        Raises:
            ConversionError: it is damaged, protected by a password, or over a limit.
        """
        self._packed_bytes = 0
        self._unpacked_bytes = 0
        _refuse_protected(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except _UNREADABLE as error:
            raise ConversionError("it is damaged: no readable ZIP archive") from error
        members = self._zip.infolist()
        if len(members) > MAX_FILES:
            raise ConversionError(f"the archive has more than {MAX_FILES:,} files")
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise ConversionError("the archive has two files of one name")
        self._folded = {_folded(name): name for name in reversed(self._members)}
        _refuse_overlaps(members, self._zip.start_dir)

    def __contains__(self, name: str) -> bool:
        return self._found(name) in self._members

    def _found(self, name: str) -> str:
        """Return the name of a member as the archive spells it."""
        return name if name in self._members else self._folded.get(_folded(name), "")

    @property
    def names(self) -> Iterable[str]:
        """Names of the members, in the order of the directory."""
        return self._members.keys()

    def read(self, name: str) -> bytes:
        """Return a member.

        Raises:
            ConversionError: it is absent or damaged, or the archive is over a limit.
        """
        member = self._members.get(self._found(name))
        if member is None:
            raise ConversionError("it is damaged: a part is missing")
        if member.flag_bits & _ENCRYPTED:
            raise ConversionError("it is protected by a password")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ConversionError("the archive is compressed in an unusual way")
        try:
            with self._zip.open(member) as stream:
                return self._unpacked(stream, member.compress_size)
        except _UNREADABLE as error:
            raise ConversionError("it is damaged: a part cannot be unpacked") from error

    def _unpacked(self, stream: IO[bytes], packed: int) -> bytes:
        self._packed_bytes += packed
        data = bytearray()
        while chunk := stream.read(_CHUNK_BYTES):
            data += chunk
            self._unpacked_bytes += len(chunk)
            if self._unpacked_bytes > MAX_BYTES:
                raise ConversionError(
                    f"the archive unpacks to more than {MAX_BYTES // 1024**2} MiB"
                )
            _refuse_ratio(len(data), packed)
            _refuse_ratio(self._unpacked_bytes, self._packed_bytes)
        return bytes(data)

    def xml(self, name: str) -> Element:
        """Return the root of a member that is XML; see `parse_xml`."""
        return parse_xml(self.read(name))

    def relations(self, part: str) -> Mapping[str, Relation]:
        """Return the relations of a part of an Office document, by id."""
        folder, base = posixpath.split(part)
        name = posixpath.join(folder, "_rels", f"{base}.rels")
        if name not in self:
            return {}
        found: dict[str, Relation] = {}
        for each in self.xml(name).iter("rels:Relationship"):
            target = each.get("Target", "")
            is_external = each.get("TargetMode", "").lower() == "external"
            if not is_external:
                target = self._target(folder, target)
            kind = each.get("Type", "").rpartition("/")[2]
            found[each.get("Id", "")] = Relation(kind, target, is_external)
        return found

    def _target(self, folder: str, target: str) -> str:
        """Return the name of the part that a part in a folder refers to."""
        target = target.replace("\\", "/").partition("#")[0]
        for base in (folder, ""):  # some programs write all references from the top
            name = posixpath.normpath(posixpath.join("/", base, target)).lstrip("/")
            for spelled in (name, unquote(name)):
                if spelled in self:
                    return spelled
        return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")

    def related(self, part: str, kind: str) -> Sequence[str]:
        """Return the names of the parts of a kind that a part refers to and that are there."""
        return [
            relation.target
            for relation in self.relations(part).values()
            if relation.kind == kind and not relation.is_external and relation.target in self
        ]

    def main_part(self, default: str, kind: str) -> str:
        """Return the name of the part that an Office document of a kind begins with.

        Raises:
            ConversionError: it is missing.
        """
        name = next(iter(self.related("", "officeDocument")), default)
        if name not in self:
            raise ConversionError(f"it is damaged, or no {kind}: its main part is missing")
        return name


def _refuse_protected(file: BinaryIO) -> None:
    """Refuse a document that Office keeps in a compound file: encrypted, or in an old format.

    Raises:
        ConversionError: it is protected by a password or by rights, or in an older format.
    """
    if file.read(len(OLE)) == OLE:
        if cause := protection(file.read(MAX_OLE_BYTES)):
            raise ConversionError(f"it is protected by {cause}")
        raise ConversionError("it is in an older format of Office, whatever its name says")
    file.seek(0)


def protection(data: bytes) -> str:
    """Return what protects the document that a compound file wraps; empty if it wraps none."""
    streams = _PROTECTIONS.items()
    return next((why for name, why in streams if f"{name}\0".encode("utf-16-le") in data), "")


def _folded(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").casefold()


def _refuse_overlaps(members: list[zipfile.ZipInfo], directory: int) -> None:
    """Refuse members that share their packed data, which unpacks once for each."""
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise ConversionError("the archive has files that overlap")
        end = member.header_offset + _HEADER_BYTES + member.compress_size
    # A packed size that is too large would allow any ratio.
    if end > directory:
        raise ConversionError("it is damaged: no readable ZIP archive")


def _refuse_ratio(unpacked: int, packed: int) -> None:
    if unpacked > _HARMLESS_BYTES and unpacked > MAX_RATIO * packed:
        raise ConversionError(f"the archive unpacks to more than {MAX_RATIO} times its size")


def copied(members: Mapping[str, bytes]) -> BinaryIO:
    """Return an archive of some members, for libraries that read archives by themselves."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    target.seek(0)
    return target


def parse_xml(data: bytes) -> Element:
    """Return the root element of XML; names have the prefixes that are customary (`w:p`).

    Raises:
        ConversionError: it is damaged, has a document type or entities, or is too deep or large.
    """
    if (codec := media_types.mark_codec(data)) not in (None, "utf-8"):
        data = data.decode(codec, "replace").encode()
    # Expat finds UTF-16 by itself, in which the names below would have other bytes.
    if b"\0" in data:
        raise ConversionError("it is damaged: its XML cannot be read")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ConversionError("its XML declares a document type or entities, which are not read")
    if data.count(b"<") > MAX_TAGS:
        raise ConversionError(f"its XML has more than {MAX_TAGS:,} tags")
    try:
        # Without a document type there are no entities.
        parser = XMLParser(encoding="utf-8")  # noqa: S314
        parser.feed(data)
        root = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise ConversionError("it is damaged: its XML cannot be read") from error
    _refuse_depth(root)
    _rename(root)
    return root


def below(element: Element, *names: str) -> Element | None:
    """Return the first child of a name, of that the first one of the next name, and so on.

    The paths of `Element.find` take a prefix for one of a namespace.
    """
    found: Element | None = element
    for name in names:
        found = found.find(name) if found is not None else None
    return found


def integer(text: str, otherwise: int = 0) -> int:
    """Return a number from 0 on that an attribute has; if it has none, another one."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else otherwise


def _refuse_depth(root: Element) -> None:
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for element in level for child in element]
        if not level:
            return
    raise ConversionError(f"its XML is more than {MAX_DEPTH} levels deep")


def _rename(root: Element) -> None:
    """Give elements and attributes customary prefixes."""
    names: dict[str, str] = {}
    for element in root.iter():
        tag = element.tag
        element.tag = names.get(tag) or _prefixed(tag, names)
        if any("{" in name for name in element.keys()):  # noqa: SIM118 (no mapping)
            attributes = {
                names.get(name) or _prefixed(name, names): value for name, value in element.items()
            }
            element.attrib.clear()
            element.attrib.update(attributes)


def _prefixed(name: str, names: dict[str, str]) -> str:
    space, brace, local = name[1:].partition("}") if name[:1] == "{" else ("", "", name)
    names[name] = f"{_PREFIXES.get(space, '_')}:{local}" if brace else name
    return names[name]
