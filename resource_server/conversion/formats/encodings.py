"""Text encodings: what a document declares, or a guess for what is not UTF-8."""

from __future__ import annotations

import codecs
import importlib
import itertools
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from resource_server import media_types
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part

_MAX_BYTES = 32 * 1024 * 1024
_BLOCK_BYTES = 4 * 1024 * 1024
_MAX_LINE_BYTES = 4096
_MAX_SAMPLE_BYTES = 16 * 1024

_CANDIDATES = (
    *("cp1252", "mac-roman", "cp1250", "iso-8859-2", "cp1254", "cp1253", "cp1257"),
    *("cp1251", "koi8-r", "koi8-u", "cp866", "cp1255", "cp1256", "cp874"),
    *("cp932", "shift_jis_2004", "euc_jis_2004", "gb18030", "big5hkscs", "cp949"),
)
# Wider encodings that real documents use under the narrower name (WHATWG's Encoding Standard).
_WIDER = {
    "big5": ("cp950", "big5hkscs"),
    "big5hkscs": ("cp950", "big5hkscs"),
    "euc_jis_2004": ("euc_jp", "euc_jis_2004"),
    "euc_kr": ("cp949",),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "iso8859-1": ("cp1252",),
    "iso8859-9": ("cp1254",),
    "iso8859-11": ("cp874",),
    "shift_jis": ("cp932", "shift_jis_2004"),
    "shift_jis_2004": ("cp932", "shift_jis_2004"),
    "tis-620": ("cp874",),
}
_WESTERN = {"cp1252", "mac-roman"}
_NOT_ASCII = re.compile(rb"[^\x00-\x7f]")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# Not compiled here: most documents are in UTF-8, and these take longer than to convert those.
_UNLIKELY = (
    r"(?<=[a-zß-öø-ÿ])[À-ÖØ-ÞŠŽŒŸ]|(?<=[a-zA-Z])[^\w\s!-~’‘“”«»–—…·]+(?=[a-z])"  # noqa: RUF001
    r"|[ŽŠŸÕÒÓÔ‡†‰ˆ˜∂∑∏π∫Ω≈∆◊ıˇ˘˙˛](?=\W|$)"  # noqa: RUF001
)
"""Capitals and symbols inside words, which hardly any language has."""
_HIRAGANA = re.compile(rb"(?:\x82[\x9f-\xf1]){3}")
"""Three letters of Shift JIS, which are hardly any text in another encoding."""
_OTHER_SCRIPT = r"[\u0370-\u1dff\u2e80-\uffdc]"
_IN_LATIN_WORD = r"(?<=[a-zA-Z])[\u0370-\u1dff]|[\u0370-\u1dff](?=[a-zA-Z])"
_PYTHON_ONLY = {"idna", "punycode", "raw_unicode_escape", "unicode_escape", "undefined", "mbcs"}


def guess(data: bytes) -> str | None:
    """Return the most plausible encoding as Python names it; None if the bytes are no text.

    Every answer decodes the bytes without an error.
    """
    mark = marked(data)
    if mark or b"\0" in data[:4096]:
        return next((name for name in (mark, *_by_zeros(data)) if _decodes(data, name)), None)
    if b"\x1b$" in data and _decodes(data, "iso2022_jp_ext"):
        return "iso2022_jp_ext"
    if _decodes(data, "utf-8"):
        return None if len(_BINARY.findall(data)) * 20 > len(data) else "utf-8"
    if len(_BINARY.findall(data)) * 100 > len(data):
        return None
    return next((name for name in _plausible(_sample(data)) if _decodes(data, name)), None)


def decoded(data: bytes, label: str | None = None) -> str:
    """Return the text of bytes: as a mark at their start says, the label, UTF-8, or the guess.

    Other bytes become U+FFFD: damaged text is still text.
    """
    name = marked(data) or (codec_of(label) if label else None)
    for each in _WIDER.get(name, (name,)) if name else ():
        if _decodes(data, each):
            return data.decode(each)
    if not _decodes(data, "utf-8"):
        for each in (name, "utf-8"):
            if each is not None and is_damaged(data, each):
                return data.decode(each, "replace")
    return data.decode(guess(data) or "utf-8", "replace")


def sendable(text: str) -> str:
    """Return text without lone surrogates, which JSON may have and UTF-8 may not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_damaged(data: bytes, name: str) -> bool:
    """Return whether the bytes are in this encoding but for a few."""
    text = data.decode(name, "replace")
    return len(text) - len(text.encode("ascii", "ignore")) > 4 * text.count("\ufffd")


def codec_of(label: str) -> str | None:
    """Return Python's name of a text encoding; None if there is none."""
    # Names become modules in Python's search for codecs; so none but plain ones are looked up.
    if not re.fullmatch(r"[A-Za-z0-9][\w.: -]{0,39}", label, re.ASCII):
        return None
    aliases = {"x-sjis": "cp932", "macintosh": "mac-roman", "x-mac-roman": "mac-roman"}
    try:
        found = codecs.lookup(aliases.get(label.lower(), label))
        if found.name.replace("-", "_") in _PYTHON_ONLY:
            return None
        b"text".decode(found.name)  # refuses what is no text encoding, such as zlib
    except (LookupError, ValueError):
        return None
    return found.name


def named_codec(label: str) -> str:
    """Return Python's name of the text encoding that a URI names.

    Raises:
        InvalidParameter: there is none.
    """
    name = codec_of(label)
    if name is None:
        raise InvalidParameter(f"there is no encoding {label[:40]!r}; write one such as cp1252")
    return name


def whole_document(file: BinaryIO, max_bytes: int = _MAX_BYTES) -> bytes:
    """Return a document as it is.

    Raises:
        ConversionError: it is larger than `max_bytes`.
    """
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ConversionError(f"it is larger than {max_bytes >> 20} MiB")
    return data


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the text of a document, from the encoding that is asked for or the guess."""
    head = file.read(_MAX_BYTES)
    label = request.options.get("encoding")
    if label is None:
        name = guess_of_beginning(head, is_cut=len(head) == _MAX_BYTES)
    else:
        name = named_codec(label)
    if name is None:
        raise ConversionError("it is no text in a known encoding")
    following = iter(lambda: file.read(_BLOCK_BYTES), b"")
    for part in text_parts(itertools.chain((head,), following), name, label):
        if label is None and "\0" in str(part.data):
            raise ConversionError("it is no text in a known encoding")
        yield msgspec.structs.replace(part, mime_type=f"text/plain; charset={name}")


def text_parts(blocks: Iterator[bytes], name: str, label: str | None) -> Iterator[Part]:
    """Yield the text of each block, from the encoding `name`; its URI parameter is the `label`.

    Raises:
        InvalidParameter: the text is not in the encoding that the label asks for.
    """
    decoder = codecs.getincrementaldecoder(name)("replace" if label is None else "strict")
    block, before = next(blocks, b""), 0
    for number in itertools.count(1):
        following = next(blocks, None)
        try:
            text = decoder.decode(block, final=following is None)
        except UnicodeDecodeError as error:
            at = before + len(block) - len(error.object) + error.start + 1
            raise InvalidParameter(f"the text is not {label}: byte {at} does not fit") from None
        except UnicodeError:  # UTF-16 has to begin with a mark
            raise InvalidParameter(f"the text is not {label or name}") from None
        text = text.removeprefix("\ufeff") if number == 1 else text
        yield Part(text, number, number if following is None else None, "text/plain")
        if following is None:
            return
        block, before = following, before + len(block)


def guess_of_beginning(head: bytes, *, is_cut: bool) -> str | None:
    """Return the encoding of a document from its beginning, however damaged; None if it is no text.

    With `is_cut`, more follows, and it may end within a character.
    """
    if is_cut and b"\0" not in head[:4096]:
        head = head[: head.rfind(b"\n") + 1] or head
    if is_cut:
        codec = marked(head) or next(iter(_by_zeros(head)), "utf-8")
        decoder = codecs.getincrementaldecoder(codec)("replace")
        decoder.decode(head)
        head = head[: len(head) - len(decoder.getstate()[0])]
    is_damaged_utf8 = not _decodes(head, "utf-8") and is_damaged(head, "utf-8")
    return "utf-8" if is_damaged_utf8 else guess(head)


def marked(data: bytes) -> str | None:
    """Return the encoding of the byte order mark at the beginning, which it drops, or None."""
    codec = media_types.mark_codec(data)
    return "utf-8-sig" if codec == "utf-8" else codec and codec[: len("utf-16")]


def _by_zeros(data: bytes) -> tuple[str, ...]:
    """Return the UTF-16 that explains where the zero bytes are, if one does."""
    sample = data[:4096]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) * 5 < len(sample) or min(even, odd) * 20 > max(even, odd):
        return ()
    return ("utf-16-be",) if even > odd else ("utf-16-le",)


def _decodes(data: bytes, name: str | None) -> bool:
    try:
        data.decode(name or "undefined")
    except (UnicodeError, ValueError):
        return False
    return True


def _sample(data: bytes) -> bytes:
    """Return the lines that are not ASCII, or the first of them."""
    if len(data) <= _MAX_SAMPLE_BYTES:
        return data
    sample, end = bytearray(), 0
    # A pattern of a whole line would look at a long one from each of its bytes.
    for found in _NOT_ASCII.finditer(data):
        at = found.start()
        if at < end:
            continue
        least, most = max(end, at - _MAX_LINE_BYTES), at + _MAX_LINE_BYTES
        begin = max(data.rfind(b"\n", least, at), data.rfind(b"\r", least, at), least - 1) + 1
        end = min(
            (each for each in (data.find(b"\n", at, most), data.find(b"\r", at, most)) if each > 0),
            default=min(most, len(data)) - 1,
        )
        end += 1
        sample += data[begin:end]
        if len(sample) >= _MAX_SAMPLE_BYTES:
            break
    return bytes(sample)


def _plausible(sample: bytes) -> Iterator[str]:
    """Yield encodings, best first."""
    try:
        # Imported here, as it is slow. It has types, but is an extra, which may be missing.
        chardet: Any = importlib.import_module("chardet")
    except ImportError:
        yield from ("cp1252", "latin-1")
        return
    found = chardet.detect(
        sample, include_encodings=_CANDIDATES, compat_names=False, no_match_encoding="cp1252"
    )["encoding"]
    best = codec_of(found or "") or "cp1252"
    if sample.decode(best, "replace") == sample.decode("cp1252", "replace"):
        best = "cp1252"  # the usual one of those that agree
    if best not in _WESTERN and _is_mixed(sample.decode(best, "replace")):
        best = "cp1252"
    if _HIRAGANA.search(sample) and _decodes(sample, "cp932"):
        best = "cp932"
    if best in _WESTERN:
        yield from sorted((best, *(_WESTERN - {best})), key=lambda name: _oddity(sample, name))
    yield from _WIDER.get(best, (best,))
    yield "cp1252"
    yield "latin-1"


def _is_mixed(text: str) -> bool:
    """Return whether Latin words contain letters of another script."""
    others = len(re.findall(_OTHER_SCRIPT, text))
    return len(re.findall(_IN_LATIN_WORD, text)) * 3 > others


def _oddity(sample: bytes, name: str) -> float:
    """Return how many letters are in unlikely places."""
    text = sample.decode(name, "replace")
    return len(re.findall(_UNLIKELY, text)) + 3 * text.count("\ufffd")
