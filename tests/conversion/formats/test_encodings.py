"""Text encodings, declared and guessed."""

# ruff: noqa: RUF001 - texts of other scripts

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from resource_server.conversion.formats.encodings import (
    codec_of,
    convert,
    decoded,
    guess,
    is_damaged,
)
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest
from tests.cases import for_each
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged

_GERMAN = """Die Straße über den Fluss war gesperrt, weil die Brücke geprüft wurde.
Natürlich ärgerten sich die Händler; schließlich öffnen ihre Läden um acht Uhr.
Für Übernachtungen zahlt man „höchstens“ zwölf Euro – so heißt es im Märzbericht.
"""
_FRENCH = """L’été dernier, la maîtresse d’école a reçu les élèves à la bibliothèque.
Où êtes-vous allés après le déjeuner ? Nous préférons rester près de la forêt.
Ça coûte très cher : « près de mille euros », répète le gérant, déçu et gêné.
"""
_SPANISH = """El niño pequeño preguntó dónde está la estación de autobuses más próxima.
¿Cuándo llegará el camión? Mañana por la mañana, según el jefe de la compañía.
Después del almuerzo, el señor Núñez enseñó las fotografías de su última excursión.
"""
_JAPANESE = """昨日の会議では、来年度の予算について話し合いました。
田中さんは資料を用意していましたが、時間が足りなかったので次回に説明します。
コンピュータのプログラムを作る仕事は、とても楽しいと思います。
"""
_SIMPLIFIED = """昨天的会议讨论了明年的预算问题，大家都认为应该增加投入。
这个程序可以读取文件夹里的文档，并且把它们转换成文本格式。
如果您有任何问题，请随时与我们联系，我们会尽快回复。
"""
_TRADITIONAL = """昨天的會議討論了明年的預算問題，大家都認為應該增加投入。
這個程式可以讀取資料夾裡的文件，並且把它們轉換成文字格式。
如果您有任何問題，請隨時與我們聯繫，我們會盡快回覆。
"""
_RUSSIAN = """Вчера на совещании обсуждали бюджет следующего года и новые правила.
Программа читает документы из папки и преобразует их в обычный текст.
Если у вас есть вопросы, пишите нам, мы постараемся ответить быстро.
"""
_POLISH = """Wczoraj na zebraniu omówiono budżet przyszłego roku oraz nowe zasady pracy.
Zażółć gęślą jaźń; proszę o szybką odpowiedź, ponieważ czas się już kończy.
Książki leżą na półce, a dzieci śpią w łóżku obok źródła światła.
"""
_CZECH = """Včera se na schůzi mluvilo o rozpočtu na příští rok a o nových pravidlech.
Příliš žluťoučký kůň úpěl ďábelské ódy, zatímco děti spaly v měkké posteli.
Prosíme o rychlou odpověď, protože čas už končí a účty musíme zaplatit.
"""
_SAMPLES = [
    *((text, "cp1252") for text in (_GERMAN, _FRENCH, _SPANISH)),
    *((text.translate({0x201E: '"', 0x201C: '"', 0x2013: "-", 0x2019: "'"}), "latin-1")
      for text in (_GERMAN, _FRENCH, _SPANISH)),
    *((text, "mac-roman") for text in (_GERMAN, _FRENCH, _SPANISH)),
    (_JAPANESE, "cp932"),
    (_JAPANESE, "shift_jis"),
    (_JAPANESE, "euc_jp"),
    (_SIMPLIFIED, "gb18030"),
    (_SIMPLIFIED, "gbk"),
    (_TRADITIONAL, "big5"),
    (_RUSSIAN, "koi8-r"),
    (_RUSSIAN, "cp1251"),
    (_POLISH, "cp1250"),
    (_CZECH, "cp1250"),
]  # fmt: skip


def _request(**options: str) -> ConversionRequest:
    return ConversionRequest(media_type="text/plain", format="text", options=options)


def _text(data: bytes, **options: str) -> str:
    (part,) = convert(io.BytesIO(data), _request(**options))
    assert isinstance(part.data, str)
    assert part.mime_type.startswith("text/plain; charset=")
    return part.data


def _slices(text: str, encoding: str) -> Iterator[str]:
    """Yield texts of 100 bytes to 10 KB in an encoding."""
    width = len(text.encode(encoding)) / len(text)
    for size in (100, 200, 400):
        count = int(size / width)
        for start in range(0, max(len(text) - count, 1), 37):
            yield text[start : start + count]
    yield text * (10_000 // len(text))


@for_each(("text", "encoding"), _SAMPLES)
def test_texts_of_100_bytes_to_10_kb_are_read_in_their_encoding(text: str, encoding: str) -> None:
    wrong = 0
    count = 0
    for sample in _slices(text, encoding):
        if sample.isascii():
            continue
        count += 1
        wrong += _text(sample.encode(encoding)) != sample
    assert count > 3
    assert wrong <= count // 20


@for_each(
    ("text", "encoding"),
    [
        ("Perché la città è così più bella? È vero.\n", "cp1252"),
        ("Preis: 12 €, 5 £, 10 § – “quoted” text’s\n", "cp1252"),
        ("いろはにほへと ちりぬるを\n", "cp932"),
        ("Windows-программа для Excel и Word\n", "cp1251"),
        ("программа для Excel и Word\n", "cp866"),
    ],
)
def test_a_line_has_no_letters_of_two_scripts_in_one_word(text: str, encoding: str) -> None:
    assert _text(text.encode(encoding)) == text


@for_each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_unicode_is_read_without_its_mark(encoding: str) -> None:
    text = _GERMAN + _RUSSIAN if encoding != "utf-16-le" else _GERMAN
    assert _text(text.encode(encoding)) == text


def test_one_foreign_character_in_a_long_ascii_text_is_read() -> None:
    text = "an ordinary line of text\n" * 40_000 + "Müller\n" + "another line\n" * 1000
    assert _text(text.encode("cp1252")) == text


def test_iso_2022_jp_is_read() -> None:
    assert _text(_JAPANESE.encode("iso2022_jp")) == _JAPANESE


@for_each(
    "data",
    [bytes(range(256)) * 20, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100), bytes(5000)],
)
def test_binary_data_is_no_text(data: bytes) -> None:
    assert guess(data) is None
    with pytest.raises(ConversionError, match="no text"):
        _text(data)


def test_the_encoding_that_is_asked_for_is_used() -> None:
    assert _text("Ђура".encode("cp1251"), encoding="windows-1251") == "Ђура"
    with pytest.raises(InvalidParameter, match="no encoding 'klingon'"):
        _text(b"x", encoding="klingon")
    with pytest.raises(InvalidParameter, match="not utf-8: byte 2"):
        _text(b"a\xffb", encoding="utf-8")


@for_each(
    "label", ["rot13", "base64", "zip", "hex", "idna", "unicode_escape", "../x", "os", "", "é"]
)
def test_what_is_no_text_encoding_has_no_codec(label: str) -> None:
    assert codec_of(label) is None


@for_each("label", ["utf8", "UTF-8", "x-sjis", "macintosh", "ISO_8859-1", "gb2312"])
def test_labels_of_mails_and_pages_have_a_codec(label: str) -> None:
    assert codec_of(label) is not None


def test_a_wrong_label_does_not_garble_text() -> None:
    assert decoded(_GERMAN.encode(), "us-ascii") == _GERMAN
    assert decoded(_GERMAN.encode("cp1252"), "utf-8") == _GERMAN
    assert decoded(_RUSSIAN.encode(), "euc-jp") == _RUSSIAN


def test_text_with_a_damaged_byte_stays_in_its_encoding() -> None:
    data = bytearray(_RUSSIAN.encode())
    data[4] = 0xFF
    assert "совещании" in decoded(bytes(data), "utf-8")
    assert "совещании" in decoded(bytes(data))


def test_every_guess_decodes_the_bytes() -> None:
    begin = time.process_time()
    for text, encoding in _SAMPLES:
        for data in damaged(text.encode(encoding), count=30):
            name = guess(data)
            if name is not None:
                data.decode(name)
    assert time.process_time() - begin < 60


def test_damaged_documents_raise_nothing_but_conversion_errors() -> None:
    begin = time.process_time()
    for text, encoding in (*_SAMPLES[:3], (_GERMAN, "utf-16"), (_JAPANESE, "iso2022_jp")):
        for data in damaged(text.encode(encoding), count=100):
            with suppress(ConversionError):
                _text(data)
    assert time.process_time() - begin < 60


def test_long_text_is_guessed_soon() -> None:
    data = (_POLISH.encode("cp1250") + b"plain " * 50 + b"\n") * 40_000
    begin = time.process_time()
    assert guess(data[: 30 * 1024 * 1024]) == "cp1250"
    assert time.process_time() - begin < 10


@for_each("label", [None, "cp932"])
def test_text_of_any_size_is_read_block_by_block(label: str | None) -> None:
    text = f"{_JAPANESE}\n" * 180_000
    data = text.encode("cp932")
    assert len(data) > 33 * 1024 * 1024
    options = {} if label is None else {"encoding": label}
    parts = list(convert(io.BytesIO(data), _request(**options)))
    assert len(parts) > 1
    assert "".join(str(part.data) for part in parts) == text
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    assert parts[-1].total == len(parts)
    if label is not None:
        damaged = data[: 33 * 1024 * 1024] + b"\x81 \x81 "
        with pytest.raises(InvalidParameter, match=r"byte 346030(0[89]|1[01]) does not fit"):
            list(convert(io.BytesIO(damaged), _request(**options)))


def test_a_confined_worker_guesses_as_well() -> None:
    for text, encoding in ((_JAPANESE, "cp932"), (_RUSSIAN, "koi8-r")):
        (part,) = in_a_worker("encodings", text.encode(encoding), _request())
        assert part.data == text


def test_an_encoding_is_found_soon_in_a_line_of_megabytes() -> None:
    begin = time.process_time()
    for data in (b"a," * 2_000_000, b"a," * 2_000_000 + b"\n"):
        assert guess(data + "Größe für Bäume".encode("cp1252")) == "cp1252"
        assert is_damaged("é".encode() * 9 + data + b"\xff", "utf-8")
    assert time.process_time() - begin < 10
