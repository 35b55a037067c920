"""Mail (RFC 5322, MIME) as Markdown: headers, text, and attachments by name."""

from __future__ import annotations

import binascii
import quopri
import re
from collections.abc import Iterator
from email import policy
from email.message import Message
from email.parser import BytesParser
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote_to_bytes

from resource_server.conversion.formats import encodings
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

try:
    from resource_server.conversion.formats.html import markdown_of
except ImportError:  # no extra `documents`: of a mail in HTML only its tags are dropped
    markdown_of = None

if TYPE_CHECKING:
    _Message = Message[str, str]
else:
    _Message = Message
_MAX_BYTES = 64 * 1024 * 1024
_MAX_BOUNDARIES = 100
"""Nested and parallel multiparts; the parser's time grows with their depth."""
_MAX_DEPTH = 5
"""Mails inside mails."""
_MAX_PARTS = 2000
_MAX_HEADER = 10_000
"""Characters of a header, such as a long list of recipients."""
_ADDRESSES = ("From", "Sender", "Reply-To", "To", "Cc", "Bcc")
_VERSIONS = ("plain", "html", "enriched", "richtext", "x-amp-html", "watch-html")
"""Kinds of text that say the same in another form."""
_CODE = ("css", "javascript", "ecmascript")
"""Kinds of text that a page uses and does not show."""
_REPORT = re.compile(r"message/(?:global-)?[\w-]*(?:status|notification|report)")
"""Reports on the delivery of a mail, on its being read (RFC 3462, 8098), or on abuse."""
_HEAD = re.compile(
    rb"\A(?:[^\r\n]+(?:\r\n?|\n))+|^--[^\r\n]+(?:\r\n?|\n)(?:Content[^\r\n]+(?:\r\n?|\n))+",
    re.M | re.I,
)
"""Headers of a mail, and those of its parts."""
_SPACED = re.compile(rb"^([!-9;-~]+)[ \t]+:", re.M)
"""A header with a space before its colon (RFC 5322, section 4.5)."""
_WORD = re.compile(r"=\?([^?*\s]{1,40})(?:\*[^?\s]{0,40})?\?([bBqQ])\?([^?]*)\?=")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\\.|[()]|[^()"\\]+|.', re.DOTALL)
"""A quoted string, an escaped character, a parenthesis, or what is between."""
_PARAMETER = re.compile(
    r""";\s*([\w-]+)(\*\d{1,3})?(\*)?\s*=\s*("(?:[^"\\]|\\.)*"?|[^;]*)""", re.DOTALL
)


class _Mail(_Message):
    """A mail or a part of one, whose type and encoding may have comments (RFC 5322, 3.2.2)."""

    def get(self, name: str, failobj: Any = None) -> Any:
        """Return a header, or `failobj`."""
        value: Any = super().get(name, failobj)
        if isinstance(value, str) and name.lower() == "content-transfer-encoding":
            return _without_comments(value).partition(";")[0].strip()
        is_type = isinstance(value, str) and name.lower() == "content-type"
        return _without_comments(value) if is_type else value


def _parsed(data: bytes) -> _Mail:
    data = _HEAD.sub(lambda head: _SPACED.sub(rb"\1:", head[0]), data)
    return cast("_Mail", BytesParser(_Mail, policy=policy.compat32).parsebytes(data))


def _without_comments(text: str) -> str:
    """Return a header without the comments in it, which nest; one that does not end stays."""
    kept: list[str] = []
    depth = 0
    for piece in _PIECE.findall(text):
        depth += (piece == "(") - (piece == ")" and depth > 0)
        if not depth and piece != ")":
            kept.append(piece)
    return text if depth else "".join(kept).strip()


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the mail as one part."""
    data = encodings.whole_document(file, _MAX_BYTES)
    if data.lower().count(b"boundary=") > _MAX_BOUNDARIES:
        raise ConversionError("it has too many nested parts")
    try:
        mail = _parsed(data)
        lines = list(_mail(mail, 1, 1))
    except RecursionError:
        raise ConversionError("it is nested too deeply") from None
    except (ConversionError, MemoryError):
        raise
    except Exception as error:
        # The parser of the standard library raises nearly anything on broken MIME.
        raise ConversionError("its MIME structure is broken") from error
    if not mail.keys():
        raise ConversionError("it is no mail: it has no headers")
    yield Part(encodings.sendable("\n\n".join(lines) + "\n"), total=1)


def _mail(mail: _Mail, depth: int, level: int) -> Iterator[str]:
    """Yield the blocks of a mail: headers, text, attachments, and mails inside."""
    headers = [(name, _header(mail, name)) for name in (*_ADDRESSES, "Date", "Subject")]
    yield "\n".join(f"- {name}: {value}" for name, value in headers if value)
    texts: list[_Mail] = []
    attachments: list[_Mail] = []
    _sort(mail, texts, attachments)
    yield from filter(None, map(_body, texts))
    reports = [part for part in attachments if _REPORT.fullmatch(part.get_content_type())]
    for part in reports:
        yield f"{'#' * (level + 1)} Report"
        blocks = (_fields(block) for block in _children(part))
        yield "\n\n".join(filter(None, blocks))
    attachments = [part for part in attachments if part not in reports]
    if attachments:
        yield f"{'#' * (level + 1)} Attachments"
        yield "\n".join(_described(part) for part in attachments)
    for part in attachments:
        for inner in _mails_inside(part):
            yield f"{'#' * (level + 1)} Attached mail: {_name(part) or _header(inner, 'Subject')}"
            if depth >= _MAX_DEPTH:
                yield "[It is nested too deeply to be shown.]"
            else:
                yield from _mail(inner, depth + 1, min(level + 1, 5))


def _fields(block: _Mail) -> str:
    """Return all fields of a report, and text that follows them."""
    fields = (f"- {name}: {_header(block, name)}" for name in dict.fromkeys(block.keys()))
    return "\n".join([*fields, *filter(None, [_body(block)])])


def _sort(part: _Mail, texts: list[_Mail], attachments: list[_Mail]) -> None:
    """Collect the parts to read, in order, and the attachments."""
    if len(texts) + len(attachments) >= _MAX_PARTS:
        raise ConversionError(f"it has more than {_MAX_PARTS} parts")
    kind = part.get_content_type()
    if kind.startswith("message/") or (not part.is_multipart() and _is_attachment(part)):
        attachments.append(part)
    elif not part.is_multipart():
        texts.append(part)
    elif kind == "multipart/alternative":
        chosen = _chosen(_children(part))
        for each in _children(part):
            # What is not shown and no version of the text, such as an invitation, still counts.
            is_other = each.get_content_subtype() not in _VERSIONS and not each.is_multipart()
            others = attachments if is_other else []
            _sort(each, texts if each is chosen else others, attachments)
    else:
        for each in _children(part):
            _sort(each, texts, attachments)


def _children(part: _Mail) -> list[_Mail]:
    payload: object = part.get_payload()
    children = cast("list[object]", payload) if isinstance(payload, list) else []
    return [each for each in children if isinstance(each, _Mail)]


def _chosen(versions: list[_Mail]) -> _Mail | None:
    """Return the version that is plain text, or else the last one that is text at all."""
    for each in versions:
        if each.get_content_type() == "text/plain" and _body(each):
            return each
    for each in reversed(versions):
        if _body(each):
            return each
    multiparts = (each for each in versions if each.is_multipart())
    return next(multiparts, versions[-1] if versions else None)


def _is_attachment(part: _Mail) -> bool:
    disposition = _first_word(part, "content-disposition")
    is_text = part.get_content_maintype() == "text" and part.get_content_subtype() not in _CODE
    return disposition == "attachment" or not is_text or (bool(_name(part)) and disposition != "")


def _body(part: _Mail) -> str:
    """Return the text of a part that is text; empty for others."""
    if part.is_multipart() or part.get_content_maintype() != "text":
        return ""
    text = encodings.decoded(_payload(part), _parameter(part, "content-type", "charset") or None)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if part.get_content_subtype() == "html":
        return _of_html(text).strip()
    if _parameter(part, "content-type", "format").lower() == "flowed":
        text = re.sub(r"(?m)(?<!^--) \n(?=[^>\n])", " ", text)  # RFC 3676: soft line breaks
    return text.strip("\n").rstrip()


def _of_html(text: str) -> str:
    if markdown_of is None:
        return re.sub(r"<[^>]*>", "", text)
    try:
        return markdown_of(text)
    except ConversionError as error:
        return f"[The text of this mail is HTML that cannot be converted: {error}.]"


def _payload(part: _Mail) -> bytes:
    """Return the decoded bytes of a part, up to any damage."""
    payload: object = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _base64(data: bytes) -> bytes:
    kept = re.sub(rb"[^A-Za-z0-9+/]", b"", data)
    if len(kept) % 4 == 1:
        kept = kept[:-1]
    return binascii.a2b_base64(kept + b"=" * (-len(kept) % 4))


def _described(part: _Mail) -> str:
    kind = part.get_content_type()
    size = sum(len(inner.as_bytes()) for inner in _children(part)) or len(_payload(part))
    shown = f"{size} bytes" if size < 1024 else f"{size / 1024:.0f} KB"
    return f"- {_name(part) or '(without a name)'} ({kind}, {shown})"


def _mails_inside(part: _Mail) -> list[_Mail]:
    if part.get_content_type() != "message/rfc822":
        return []
    if part.is_multipart() and _first_word(part, "content-transfer-encoding") != "base64":
        return _children(part)
    data = b"".join(_payload(each) for each in _children(part)) or _payload(part)
    if _first_word(part, "content-transfer-encoding") == "base64":
        data = _base64(data)
    return [_parsed(data)]


def _name(part: _Mail) -> str:
    name = _parameter(part, "content-disposition", "filename")
    name = name or _parameter(part, "content-type", "name")
    return name or _header(part, "Content-Location")  # of a part of a saved page


def _raw(part: _Mail, name: str) -> str:
    """Return a header as it stands, with bytes that are not ASCII decoded."""
    values = [str(value) for each, value in part.raw_items() if each.lower() == name.lower()]
    # Addresses may be in several headers of one name (RFC 5322, section 4.5).
    text = (", ".join(values) if name in _ADDRESSES else "".join(values[:1]))[:_MAX_HEADER]
    return text if text.isascii() else encodings.decoded(text.encode("utf-8", "surrogateescape"))


def _header(part: _Mail, name: str) -> str:
    """Return a header, unfolded and decoded, on one line."""
    return " ".join(_with_words(_raw(part, name)).split())


def _with_words(text: str) -> str:
    """Decode the encoded words of a header (RFC 2047)."""
    shown: list[str] = []
    words: list[re.Match[str]] = []  # neighbors of one encoding
    end = 0
    for word in _WORD.finditer(text):
        between = text[end : word.start()]
        is_neighbor = bool(words) and not between.strip()
        if not (is_neighbor and word[1].lower() == words[-1][1].lower()):
            shown.append(_decoded_words(words))
            words = []
        if not is_neighbor:
            shown.append(between)
        words.append(word)
        end = word.end()
    return "".join((*shown, _decoded_words(words), text[end:]))


def _decoded_words(words: list[re.Match[str]]) -> str:
    """Decode words together: some mailers split characters, and even groups of Base64."""
    data, group = b"", ""
    for word in words:
        if word[2] in "bB":
            group += word[3]
            if "=" not in word[3] and len(group) % 4 and word is not words[-1]:
                continue
            data += _base64(group.encode("utf-8", "surrogateescape"))
        else:
            data += _base64(group.encode("utf-8", "surrogateescape"))
            quoted = word[3].encode("utf-8", "surrogateescape")
            data += quopri.decodestring(quoted, header=True)
        group = ""
    return encodings.decoded(data, words[0][1]) if words else ""


def _first_word(part: _Mail, name: str) -> str:
    return _without_comments(_raw(part, name).partition(";")[0]).strip().lower()


def _parameter(part: _Mail, header: str, name: str) -> str:
    """Return a parameter of a header, decoded (RFC 2231, and RFC 2047 where mailers use it)."""
    raw = _raw(part, header)
    if name in ("charset", "format"):  # in unquoted names of files, parentheses are usual
        raw = _without_comments(raw)
    pieces: dict[int, tuple[str, bool]] = {}
    for match in _PARAMETER.finditer(raw[raw.find(";") :] if ";" in raw else ""):
        if match[1].lower() != name:
            continue
        number = int(match[2][1:]) if match[2] else 0
        # The encoded form wins where a mailer writes both.
        if number not in pieces or match[3]:
            pieces[number] = (_unquoted(match[4].strip()), bool(match[3]))
    if not pieces:
        return ""
    if not any(is_encoded for _, is_encoded in pieces.values()):
        plain = "".join(text for _, (text, _) in sorted(pieces.items()))
        return " ".join(_with_words(plain).split())
    return " ".join(_extended([piece for _, piece in sorted(pieces.items())]).split())


def _extended(pieces: list[tuple[str, bool]]) -> str:
    """Join pieces, some percent-encoded; the first names the encoding."""
    charset = ""
    text, is_encoded = pieces[0]
    if is_encoded and text.count("'") >= 2:
        charset, _, text = text.split("'", 2)
        pieces = [(text, True), *pieces[1:]]
    data = b"".join(
        unquote_to_bytes(each) if is_encoded else each.encode("utf-8", "surrogateescape")
        for each, is_encoded in pieces
    )
    return encodings.decoded(data, charset or None)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    return re.sub(r"\\(.)", r"\1", text[1:].removesuffix('"'), flags=re.DOTALL)
