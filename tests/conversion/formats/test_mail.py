"""Mail as Markdown."""

from __future__ import annotations

import base64
import io
import time
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

import pytest

from resource_server.conversion.formats.mail import convert
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest
from tests.cases import for_each
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged

_REQUEST = ConversionRequest(media_type="message/rfc822")
_RAW = b"""From: =?iso-8859-1?Q?J=F6rg_M=FCller?= <joerg@example.org>\r
To: =?utf-8?B?0JjQstCw0L0=?= <ivan@example.ru>, plain@example.org\r
Cc: =?koi8-r?Q?=F0=C5=D4=D2?= <petr@example.ru>\r
Subject: =?utf-8?B?5pel5p?=\r
 =?utf-8?B?ys6Kqe?= =?utf-8?Q?_Gr=C3=BC=C3?=\r
\t=?utf-8?Q?=9Fe?= and\r
 more\r
Date: Tue, 3 Nov 2026 10:00:00 +0100\r
X-Secret: not shown\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary="B"\r
\r
This is a preamble.\r
--B\r
Content-Type: multipart/alternative; boundary=A\r
\r
--A\r
Content-Type: text/plain; charset="iso-8859-1"\r
Content-Transfer-Encoding: quoted-printable\r
\r
Gr=FC=DFe =\r
aus Bern\r
--A\r
Content-Type: text/html; charset=utf-8\r
\r
<p>The HTML version</p>\r
--A--\r
--B\r
Content-Type: application/pdf; name="other.pdf"\r
Content-Transfer-Encoding: base64\r
Content-Disposition: attachment; filename*0*=utf-8''Rechnung%20%E2%82; filename*1*=%AC;\r
 filename*2=".pdf"\r
\r
AAAAAAAAAAAA\r
--B\r
Content-Type: image/png; name="=?iso-2022-jp?B?GyRCPEw/PxsoQi5wbmc=?="\r
Content-Transfer-Encoding: base64\r
\r
AAAA\r
--B--\r
"""


def _text(data: bytes) -> str:
    (part,) = convert(io.BytesIO(data), _REQUEST)
    assert isinstance(part.data, str)
    return part.data


def test_headers_are_decoded() -> None:
    text = _text(_RAW)
    for fact in (
        "From: Jörg Müller <joerg@example.org>",
        "To: Иван <ivan@example.ru>, plain@example.org",
        "Cc: Петр <petr@example.ru>",
        "Subject: 日本語 Grüße and more",
        "Date: Tue, 3 Nov 2026 10:00:00 +0100",
    ):
        assert f"- {fact}\n" in text
    assert "not shown" not in text


@for_each(
    ("charset", "subject"),
    [
        ("iso-8859-15", "5 € für Öl"),
        ("windows-1250", "zażółć gęślą jaźń"),
        ("windows-1251", "Привет"),
        ("iso-2022-jp", "会議の資料"),
        ("shift_jis", "会議の資料"),
        ("euc-jp", "会議の資料"),
        ("gb2312", "会议资料"),
        ("gbk", "会议资料"),
        ("big5", "會議資料"),
        ("euc-kr", "회의 자료"),
        ("windows-1255", "שלום"),
        ("windows-1256", "مرحبا"),
        ("utf-8", "🎉 done"),
    ],
)
def test_subjects_of_all_encodings_are_decoded(charset: str, subject: str) -> None:
    data = subject.encode(charset)
    base = b"=?%s?B?%s?=" % (charset.encode(), base64.b64encode(data))
    quoted = "".join(f"={byte:02X}" for byte in data).encode()
    quoted = b"=?%s*en?q?%s?=" % (charset.upper().encode(), quoted)
    for word in (base, quoted):
        assert f"- Subject: {subject}\n" in _text(b"Subject: %s\n\nbody" % word)


@for_each("encoding", ["utf-8", "cp1252"])
def test_headers_and_text_of_bare_bytes_are_decoded(encoding: str) -> None:
    text = _text("From: Jürgen Größe <j@e.org>\nSubject: x\n\nschöne Grüße".encode(encoding))
    assert "Jürgen Größe" in text
    assert "schöne Grüße" in text


def test_the_plain_text_is_shown_and_not_its_html_version() -> None:
    text = _text(_RAW)
    assert "Grüße aus Bern" in text
    assert "HTML version" not in text
    assert "preamble" not in text


def test_mail_without_plain_text_shows_its_html_as_markdown() -> None:
    mail = EmailMessage()
    mail["Subject"] = "x"
    mail.set_content("  \n")
    mail.add_alternative("<h1>Hi</h1><a href='http://e.org'>link</a>", subtype="html")
    mail.get_payload(1).add_related(b"GIF8", "image", "gif", cid="<c>")  # type: ignore[union-attr]
    text = _text(mail.as_bytes())
    assert "# Hi" in text
    assert "[link](http://e.org)" in text
    assert "image/gif" in text


def test_html_that_cannot_be_converted_hides_nothing_else() -> None:
    head = b"Subject: x\nContent-Type: multipart/%s; boundary=b\n\n--b\n\nplain fact\n--b\n"
    html = b"Content-Type: text/html\n\n" + b"<div>" * 100_000 + b"\n--b--\n"
    assert _text(head % b"alternative" + html).endswith("plain fact\n")
    text = _text(head % b"mixed" + html)
    assert "plain fact" in text
    assert "cannot be converted: it is nested too deeply" in text


def test_attachments_are_listed_by_decoded_name_type_and_size() -> None:
    text = _text(_RAW)
    assert "- Rechnung €.pdf (application/pdf, 9 bytes)" in text
    assert "- 写真.png (image/png, 3 bytes)" in text


def test_the_text_of_an_attached_text_file_is_not_the_text_of_the_mail() -> None:
    mail = EmailMessage()
    mail["Subject"] = "x"
    mail.set_content("the body")
    mail.add_attachment("a,b\n1,2\n" * 1000, filename="tablé.csv", subtype="csv")
    text = _text(mail.as_bytes())
    assert "- tablé.csv (text/csv, 8 KB)" in text
    assert "1,2" not in text


def _nested(depth: int) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = f"mail {depth}"
    mail.set_content(f"text {depth}")
    if depth < 8:
        mail.add_attachment(_nested(depth + 1))
    return mail


def test_attached_mails_are_shown_five_deep() -> None:
    text = _text(_nested(1).as_bytes())
    for depth in range(1, 6):
        assert f"Subject: mail {depth}\n" in text
        assert f"text {depth}\n" in text
    assert "Attached mail: mail 6" in text
    assert "text 6" not in text
    assert "nested too deeply to be shown" in text


def test_soft_line_breaks_of_flowed_text_are_joined() -> None:
    head = b"Subject: x\nContent-Type: text/plain; format=flowed\n\n"
    assert "one two\nthree\n-- \nme" in _text(head + b"one \ntwo\nthree\n-- \nme\n")


def test_a_bounce_shows_its_text() -> None:
    text = _text(
        b"Subject: failed\nContent-Type: multipart/report; boundary=q\n\n--q\n\nIt came back\n"
        b"--q\nContent-Type: message/delivery-status\n\nReporting-MTA: x\n\nAction: failed\n--q--\n"
    )
    assert "It came back" in text


@for_each("data", [b"", b"\n", b"no header at all", b"\xff\xfe\0"])
def test_what_is_no_mail_is_refused(data: bytes) -> None:
    with pytest.raises(ConversionError, match="no mail"):
        _text(data)


@for_each(
    "hostile",
    [
        b"".join(
            b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(5000)
        ),
        b"Content-Type: message/rfc822\n\n" * 5000 + b"x",
        b"Subject: " + b"=?utf-8?q?a?= " * 200_000 + b"\n\nx",
        b"".join(b"X-%d: y\n" % number for number in range(100_000)) + b"\nx",
        b"Content-Type: text/plain; " + b"a*0*=x;" * 200_000 + b"\n\nx",
        b"Content-Disposition: attachment; filename*0*=''" + b"%" * 100_000 + b"\n\nx",
        b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 20_000,
        b"Subject: x\n\n" + b"x" * 10_000_000,
        b"Subject: x\n" + b" y\n" * 200_000 + b"\nx",
        b"Subject: x\nContent-Type: text/html\n\n" + b"<div>" * 100_000,
        b"Subject: x\nContent-Transfer-Encoding: base64\n\n" + b"=" * 1_000_000,
        b'Subject: x\nContent-Type: text/plain; charset="zlib"\n\nx',
        b"Subject: =?zlib?b?eJwDAAAAAAE=?=\nContent-Type: text/plain; charset=../../x\n\nx",
        b"Subject: x\nContent-Type: multipart/mixed\n\nno boundary",
        b"Subject: x\nContent-Type: ; ;=;;\nContent-Disposition: ;\n\nx",
    ],
)
def test_hostile_mails_end_soon(hostile: bytes) -> None:
    begin = time.process_time()
    with suppress(ConversionError):
        _text(hostile)
    assert time.process_time() - begin < 15


def test_damaged_documents_raise_nothing_but_conversion_errors() -> None:
    begin = time.process_time()
    for document in (_RAW, _nested(1).as_bytes()):
        for data in damaged(document, count=300):
            with suppress(ConversionError):
                _text(data)
    assert time.process_time() - begin < 60


def test_a_confined_worker_converts_mail() -> None:
    (part,) = in_a_worker("mail", _RAW, _REQUEST)
    assert part.data == _text(_RAW)
    assert BytesParser(policy=policy.default).parsebytes(_RAW)["subject"]
